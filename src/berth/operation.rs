//! What is done at a berth, one thing at a time, each in a task of its own so that no mailbox waits.

use std::{path::Path, sync::Arc};

use ractor::{ActorCell, ActorRef, DerivedActorRef};
use serde_json::json;
use tokio::sync::oneshot;

use crate::{
    id::{Address, SessionId, Token},
    residency::{self, Refusal, Slot},
    session::{self, Ending, Order, Reason, Report, Saved, Session, Shared},
    store::{self, Ack, Op, Row, StoreError, Write},
    tomb::{Grave, tomb},
    wire::{Call, Envelope, Frame, Letter, Loss, RpcError, Word, credit::Credit, letter::Done},
};

/// Who hears that a session is gone.
#[derive(Debug)]
pub enum Answer {
    /// A host, to a request of it.
    Host(Address, Token),
    /// An operator.
    Operator {
        /// Where.
        done: Done,
        /// The session was told to end already, and may be gone for that.
        ended: bool,
    },
    /// Nobody; it is for that host's session only.
    Unheard(Address),
}

impl Answer {
    /// The host that wants it: it ends no session but its own.
    fn host(&self) -> Option<&Address> {
        match self {
            Self::Host(host, _) | Self::Unheard(host) => Some(host),
            Self::Operator { .. } => None,
        }
    }
}

/// One thing to do.
pub enum Operation {
    /// Make a session.
    Open(Box<Order>),
    /// Take a session up, live or saved (R37, R41, R53).
    Take(Box<Order>),
    /// Make a session that begins with the history of that one (R46).
    Fork(Box<Order>, SessionId),
    /// Let a saved session live without a host; told when it does, or why not.
    Revive(Box<Order>, Done),
    /// Take the session from its host, and let it go on without one.
    Release(Done),
    /// End the session.
    End(Ending, Answer),
    /// End it and remove everything that is known of it (R285).
    Delete(Answer),
}

impl Operation {
    /// Whose the session will be.
    pub fn host(&self) -> Option<Address> {
        match self {
            Self::Open(order) | Self::Take(order) | Self::Fork(order, _) | Self::Revive(order, _) => {
                Some(order.host.clone())
            }
            Self::Release(..) | Self::End(..) | Self::Delete(..) => None,
        }
    }
}

/// What became of a session that was told to end.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Gone,
    /// It outlives its host (R112).
    Stays,
}

/// The session that is there.
#[derive(Debug, Clone)]
pub struct Owner {
    pub actor: ActorRef<session::Msg>,
    pub grave: Grave,
    pub host: Address,
    /// Requests that it was wanted for: whichever it did not answer is answered when it is gone.
    pub wanted: Vec<Token>,
}

/// What a task needs.
#[derive(Clone)]
pub struct Berthing {
    pub id: SessionId,
    pub berth: ActorCell,
    pub shared: Arc<Shared>,
    pub residency: ActorRef<residency::Msg>,
    pub reports: DerivedActorRef<Report>,
}

impl Berthing {
    /// Does one thing. Returns who is there afterwards.
    pub async fn perform(self, operation: Operation, owner: Option<Owner>) -> Option<Owner> {
        match operation {
            Operation::Open(order) => self.open(order).await,
            Operation::Take(order) => self.take(order, owner).await,
            Operation::Fork(order, source) => self.fork(order, &source).await,
            Operation::Revive(order, done) => self.revive(order, done, owner).await,
            Operation::Release(done) => self.release(done, owner).await,
            Operation::End(ending, answer) => self.end(ending, answer, owner).await,
            Operation::Delete(answer) => self.delete(answer, owner).await,
        }
    }

    /// Ends the session; a host ends none but its own.
    async fn end(&self, ending: Ending, answer: Answer, mut owner: Option<Owner>) -> Option<Owner> {
        let others = owner.take_if(|owner| answer.host().is_some_and(|host| *host != owner.host));
        if self.destroy(owner.as_ref(), ending).await == Fate::Stays {
            self.mourn(owner.as_ref(), "the session goes on without a host");
            return owner.map(|owner| Owner { host: Address::Nobody, wanted: Vec::new(), ..owner });
        }
        // In the session's own lane, before the host forgets that it has one (R116).
        self.tell(answer, owner.is_some());
        self.mourn(owner.as_ref(), "the session was closed");
        others
    }

    async fn open(&self, mut order: Box<Order>) -> Option<Owner> {
        let slot = match self.reserve_for(&mut order).await {
            Ok(slot) => slot,
            Err(error) => {
                self.refuse(&order, &error);
                return None;
            }
        };
        let (opened, done) = oneshot::channel::<()>();
        let waits = order.resume.is_some();
        order.opened = Some(opened);
        let (tomb, grave) = tomb();
        let (host, wanted) = (order.host.clone(), tokens(&order.first));
        let arguments = session::Arguments {
            order: *order,
            shared: self.shared.clone(),
            slot,
            tomb,
            reports: self.reports.clone(),
        };
        let actor = match Session::start(arguments, self.berth.clone()).await {
            Ok(actor) => actor,
            Err(error) => {
                self.tell_gone(&host, &wanted, &error.to_string());
                return None;
            }
        };
        // Loads of one id come one after the other: the next waits until this one is answered (R39).
        if waits {
            let _ = done.await;
        }
        Some(Owner { actor, grave, host, wanted })
    }

    /// A slot; when all are taken, that of a process which the host keeps for a session that never came.
    async fn reserve_for(&self, order: &mut Order) -> Result<Slot, RpcError> {
        let slot = self.reserve().await;
        let Some(warm) = order.warm.take().filter(|warm| slot.is_err() && *warm != self.id) else {
            return slot;
        };
        let (done, gone) = oneshot::channel();
        let word = Letter::Word { from: self.address(), word: Word::Yield(done) };
        let _ = self.shared.directory.post(&Address::Session(warm), word);
        let _ = gone.await;
        self.reserve().await
    }

    async fn reserve(&self) -> Result<Slot, RpcError> {
        let (reply, slot) = oneshot::channel();
        let _ = self.residency.cast(residency::Msg::Reserve(self.id.clone(), reply));
        match slot.await {
            Ok(Ok(slot)) => Ok(slot),
            Ok(Err(Refusal::Full { limit })) => Err(RpcError::capacity(limit)),
            Ok(Err(refusal @ Refusal::Taken)) => Err(RpcError::internal(refusal.to_string())),
            Err(_) => Err(RpcError::internal("the daemon is stopping")),
        }
    }

    /// A host wants a session that it knows by its id.
    async fn take(&self, mut order: Box<Order>, owner: Option<Owner>) -> Option<Owner> {
        if let Some(owner) = owner.clone().filter(|o| o.host == order.host || o.host == Address::Nobody) {
            return self.adopt(order, owner).await;
        }
        if let Some(error) = order.held_back.take() {
            self.refuse(&order, &error);
            return owner;
        }
        // An id that is not known must not cost a session that lives (R43).
        match self.wanted(&order, &self.id).await {
            Ok(saved) => order.resume = Some(saved),
            Err(error) => {
                self.refuse(&order, &error);
                return owner;
            }
        }
        let ending = Ending { cancel_grace: std::time::Duration::MAX, ..Ending::host_lost(Loss::Replaced) };
        let _ = self.destroy(owner.as_ref(), ending).await;
        self.mourn(owner.as_ref(), "another connection took the session over");
        self.open(order).await
    }

    /// A session that lives and is nobody's, or this host's already, stays as it is: process, turn, questions (R41).
    async fn adopt(&self, mut order: Box<Order>, mut owner: Owner) -> Option<Owner> {
        if owner.host == Address::Nobody
            && let Err(error) = self.wanted(&order, &self.id).await
        {
            self.refuse(&order, &error);
            return Some(owner);
        }
        let (opened, done) = oneshot::channel::<()>();
        order.opened = Some(opened);
        owner.host = order.host.clone();
        owner.wanted.extend(tokens(&order.first));
        let _ = owner.actor.cast(session::Msg::Adopt(order));
        let _ = done.await;
        Some(owner)
    }

    /// The new session has its rows before it has a process (R46, R47).
    async fn fork(&self, mut order: Box<Order>, source: &SessionId) -> Option<Owner> {
        let saved = match self.wanted(&order, source).await {
            Ok(saved) => saved,
            Err(error) => {
                self.refuse(&order, &error);
                return None;
            }
        };
        let row = Row {
            id: self.id.clone(),
            cwd: order.cwd.clone(),
            params: order.params(),
            peer_session: self.copied(source).await,
            parent: Some(source.clone()),
            ..saved.row
        };
        if let Err(error) = self.write(Op::Fork(source.clone(), Box::new(row.clone()))).await {
            self.refuse(&order, &RpcError::internal(error.to_string()));
            return None;
        }
        order.resume = Some(Saved { row, prompts: saved.prompts });
        let made = order.host.clone();
        let owner = self.open(order).await;
        if owner.is_none() {
            tracing::info!(session = %self.id, host = ?made, "a fork that did not come to life is removed");
            let _ = self.write(Op::Delete).await;
        }
        owner
    }

    /// The peer's own copy of a live session; empty where it makes none, and the transcript must do.
    async fn copied(&self, source: &SessionId) -> Vec<u8> {
        let (copied, id) = oneshot::channel();
        let word = Letter::Word { from: self.address(), word: Word::Split(copied) };
        match self.shared.directory.post(&Address::Session(source.clone()), word) {
            Ok(()) => id.await.unwrap_or_default(),
            Err(_) => Vec::new(),
        }
    }

    async fn revive(&self, mut order: Box<Order>, done: Done, owner: Option<Owner>) -> Option<Owner> {
        if owner.is_some() {
            let _ = done.send(Ok(()));
            return owner;
        }
        let opened = match (order.held_back.take(), self.find(&self.id).await) {
            (Some(error), _) | (None, Err(error)) => Err(error),
            (None, Ok(saved)) => {
                order.resume = Some(saved);
                Ok(order)
            }
        };
        let owner = match opened {
            Ok(order) => self.open(order).await,
            Err(error) => {
                let _ = done.send(Err(error.message));
                return None;
            }
        };
        let lives = owner.as_ref().is_some_and(|o| o.actor.get_status() < ractor::ActorStatus::Stopping);
        let why = || format!("session {} could not be taken up; the log says why", self.id);
        let _ = done.send(lives.then_some(()).ok_or_else(why));
        owner
    }

    async fn release(&self, done: Done, owner: Option<Owner>) -> Option<Owner> {
        let Some(owner) = owner else {
            let _ = done.send(Err(format!("session {} is not live", self.id)));
            return None;
        };
        let (stays, told) = oneshot::channel();
        let word = Letter::Word { from: self.address(), word: Word::Detach(stays) };
        let _ = self.shared.directory.post(&self.address(), word);
        if told.await.is_err() {
            let _ = done.send(Err(format!("session {} is not open yet, or it ends", self.id)));
            return Some(owner);
        }
        self.mourn(Some(&owner), "the operator took the session from its host");
        let _ = done.send(Ok(()));
        Some(Owner { host: Address::Nobody, wanted: Vec::new(), ..owner })
    }

    /// A host deletes what it holds and what nobody holds; an operator anything (R285, MH-03).
    async fn delete(&self, answer: Answer, owner: Option<Owner>) -> Option<Owner> {
        let held =
            |owner: &Owner| owner.host != Address::Nobody && answer.host().is_some_and(|h| *h != owner.host);
        if let (Some(_), Answer::Host(host, token)) = (owner.as_ref().filter(|o| held(o)), &answer) {
            self.answer(host, *token, Frame::error(&RpcError::held_elsewhere(self.id.as_str())));
            return owner;
        }
        let _ = self.destroy(owner.as_ref(), Ending::at_once(Reason::Deleted)).await;
        let outcome = self.write(Op::Delete).await;
        self.mourn(owner.as_ref(), "the session was deleted");
        match (answer, outcome) {
            (Answer::Operator { done, .. }, outcome) => {
                let _ = done.send(outcome.map(drop).map_err(|error| error.to_string()));
            }
            (answer, Ok(_)) => self.tell(answer, true),
            (Answer::Host(host, token), Err(error)) => {
                let error = Frame::error(&RpcError::internal(error.to_string()));
                self.answer(&host, token, error);
            }
            (Answer::Unheard(_), Err(_)) => {}
        }
        None
    }

    /// The saved session that this order wants, when it may have it.
    async fn wanted(&self, order: &Order, id: &SessionId) -> Result<Saved, RpcError> {
        let saved = self.find(id).await?;
        if !same_directory(&saved.row.cwd, &order.cwd).await {
            let cwd = saved.row.cwd.display();
            let why = format!("unknown session in this directory: {id} works in {cwd}");
            return Err(RpcError { message: why, ..RpcError::unknown_session(id.as_str()) });
        }
        if saved.row.agent != order.name {
            let why = format!("session {id} belongs to agent `{}`", saved.row.agent);
            return Err(RpcError::invalid_params(why));
        }
        Ok(saved)
    }

    async fn find(&self, id: &SessionId) -> Result<Saved, RpcError> {
        let (reader, wanted) = (self.shared.reader.clone(), id.clone());
        let found = tokio::task::spawn_blocking(move || {
            let Some(row) = reader.row(&wanted)? else { return Ok::<_, StoreError>(None) };
            Ok(Some(Saved { row, prompts: reader.prompt_count(&wanted)? }))
        });
        match found.await {
            Ok(Ok(Some(saved))) => Ok(saved),
            Ok(Ok(None)) => Err(RpcError::unknown_session(id.as_str())),
            Ok(Err(error)) => Err(RpcError::internal(error.to_string())),
            Err(_) => Err(RpcError::internal("the daemon is stopping")),
        }
    }

    /// Writes one thing, on the disk before it goes on.
    async fn write(&self, op: Op) -> Result<i64, StoreError> {
        let (told, outcome) = oneshot::channel();
        let ack = Ack::new(move |outcome| drop(told.send(outcome)));
        let ops = smallvec::smallvec![op];
        let write =
            Write { session: self.id.clone(), ops, sync: true, credit: Credit::none(), ack: Some(ack) };
        let _ = self.shared.store.cast(store::Msg::Write(write));
        outcome.await.unwrap_or(Err(StoreError::Closed))
    }

    async fn destroy(&self, owner: Option<&Owner>, ending: Ending) -> Fate {
        let Some(owner) = owner else { return Fate::Gone };
        let (stays, told) = oneshot::channel();
        let _ = owner.actor.cast(session::Msg::End(ending, Some(stays)));
        let grave = owner.grave.clone();
        tokio::select! {
            biased;
            Ok(()) = told => Fate::Stays,
            () = grave.closed() => Fate::Gone,
        }
    }

    /// Tells a host that its session is gone: what it asked of the session is answered at the host's own end (R239),
    /// and a connection that waits for its sessions need not wait longer. What the session was wanted for is answered
    /// here, because another such request of the host may still wait at the berth; what was answered before is not
    /// answered again.
    fn tell_gone(&self, host: &Address, wanted: &[Token], why: &str) {
        let error = Frame::error(&RpcError::internal(format!("session {}: {why}", self.id)));
        let answer = |token: &Token| Envelope::new(Call::Response(*token), error.clone());
        let envelopes = wanted.iter().map(answer).collect();
        let letter = Letter::Lines { from: self.address(), envelopes, credit: Credit::none() };
        let _ = self.shared.directory.post(host, letter);
        let word = Word::SessionGone(self.id.clone(), why.to_owned());
        let _ = self.shared.directory.post(host, Letter::Word { from: self.address(), word });
    }

    /// The same of the session that was there.
    pub fn mourn(&self, owner: Option<&Owner>, why: &str) {
        if let Some(owner) = owner {
            self.tell_gone(&owner.host, &owner.wanted, why);
        }
    }

    /// An answer leaves behind everything the session said (R107).
    fn tell(&self, answer: Answer, existed: bool) {
        match answer {
            Answer::Host(host, token) => self.answer(&host, token, Frame::result(&json!({}))),
            Answer::Operator { done, ended } => {
                let known = (existed || ended)
                    .then_some(())
                    .ok_or_else(|| format!("session {} is not live", self.id));
                let _ = done.send(known);
            }
            Answer::Unheard(_) => {}
        }
    }

    fn answer(&self, host: &Address, token: Token, frame: Frame) {
        let envelopes = vec![Envelope::new(Call::Response(token), frame)];
        let letter = Letter::Lines { from: self.address(), envelopes, credit: Credit::none() };
        let _ = self.shared.directory.post(host, letter);
    }

    /// Answers everything that the session was wanted for.
    pub fn refuse(&self, order: &Order, error: &RpcError) {
        refuse(&self.shared, order, error);
    }

    fn address(&self) -> Address {
        Address::Session(self.id.clone())
    }
}

/// The requests among these lines.
fn tokens(lines: &[Envelope]) -> Vec<Token> {
    let token = |line: &Envelope| if let Call::Request(token) = line.call { Some(token) } else { None };
    lines.iter().filter_map(token).collect()
}

/// Answers everything that a session was wanted for.
pub fn refuse(shared: &Shared, order: &Order, error: &RpcError) {
    let answer = |e: &Envelope| match e.call {
        Call::Request(token) => Some(Envelope::new(Call::Response(token), Frame::error(error))),
        _ => None,
    };
    let envelopes = order.first.iter().filter_map(answer).collect();
    let letter =
        Letter::Lines { from: Address::Session(order.id.clone()), envelopes, credit: Credit::none() };
    let _ = shared.directory.post(&order.host, letter);
    let word = Word::SessionGone(order.id.clone(), error.message.clone());
    let _ =
        shared.directory.post(&order.host, Letter::Word { from: Address::Session(order.id.clone()), word });
}

/// Whether both names are of one directory.
async fn same_directory(a: &Path, b: &Path) -> bool {
    let real = async |path: &Path| tokio::fs::canonicalize(path).await.unwrap_or_else(|_| path.to_owned());
    a == b || real(a).await == real(b).await
}
