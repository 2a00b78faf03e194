//! What is done at a berth, one thing at a time, each in a task of its own so that no mailbox waits.

use std::{path::Path, sync::Arc};

use ractor::{ActorCell, ActorRef, DerivedActorRef};
use serde_json::json;
use tokio::sync::oneshot;

use crate::{
    id::{Address, SessionId, Token},
    residency::{self, Refusal, Slot},
    session::{self, Ending, Order, Report, Session, Shared},
    store::{self, Row},
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
    /// Take a session up again.
    Resume(Box<Order>),
    /// End the session.
    End(Ending, Answer),
}

impl Operation {
    /// Whose the session will be.
    pub fn host(&self) -> Option<Address> {
        match self {
            Self::Open(order) | Self::Resume(order) => Some(order.host.clone()),
            Self::End(..) => None,
        }
    }
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
            Operation::Resume(order) => self.resume(order, owner).await,
            Operation::End(ending, answer) => self.end(ending, answer, owner).await,
        }
    }

    /// Ends the session; a host ends none but its own.
    async fn end(&self, ending: Ending, answer: Answer, mut owner: Option<Owner>) -> Option<Owner> {
        let others = owner.take_if(|owner| answer.host().is_some_and(|host| *host != owner.host));
        self.destroy(owner.as_ref(), ending).await;
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

    async fn resume(&self, mut order: Box<Order>, owner: Option<Owner>) -> Option<Owner> {
        if let Some(mut owner) = owner.clone().filter(|o| o.host == order.host) {
            owner.wanted.extend(tokens(&order.first));
            let letter = Letter::Lines { from: order.host, envelopes: order.first, credit: Credit::none() };
            let _ = owner.actor.cast(session::Msg::Post(letter));
            return Some(owner);
        }
        if let Some(error) = order.held_back.take() {
            self.refuse(&order, &error);
            return owner;
        }
        // An id that is not known must not cost a session that lives (R43).
        let Some(row) = self.find().await else {
            self.refuse(&order, &RpcError::unknown_session(self.id.as_str()));
            return owner;
        };
        if !same_directory(&row.cwd, &order.cwd).await {
            let cwd = row.cwd.display();
            let error = RpcError::unknown_session(self.id.as_str());
            let why = format!("unknown session in this directory: {} works in {cwd}", self.id);
            self.refuse(&order, &RpcError { message: why, ..error });
            return owner;
        }
        if row.agent != order.name {
            let why = format!("session {} belongs to agent `{}`", self.id, row.agent);
            self.refuse(&order, &RpcError::invalid_params(why));
            return owner;
        }
        order.resume = Some(row);
        let ending = Ending { cancel_grace: std::time::Duration::MAX, ..Ending::host_lost(Loss::Replaced) };
        self.destroy(owner.as_ref(), ending).await;
        self.mourn(owner.as_ref(), "another connection took the session over");
        self.open(order).await
    }

    async fn find(&self) -> Option<Row> {
        let (reply, row) = oneshot::channel();
        let _ = self.shared.store.cast(store::Msg::Find(self.id.clone(), reply));
        row.await.ok().flatten().filter(|row| row.resumable)
    }

    async fn destroy(&self, owner: Option<&Owner>, ending: Ending) {
        if let Some(owner) = owner {
            let _ = owner.actor.cast(session::Msg::End(ending));
            owner.grave.clone().closed().await;
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
            Answer::Host(host, token) => {
                let done = Envelope::new(Call::Response(token), Frame::result(&json!({})));
                let letter =
                    Letter::Lines { from: self.address(), envelopes: vec![done], credit: Credit::none() };
                let _ = self.shared.directory.post(&host, letter);
            }
            Answer::Operator { done, ended } => {
                let known = (existed || ended)
                    .then_some(())
                    .ok_or_else(|| format!("session {} is not live", self.id));
                let _ = done.send(known);
            }
            Answer::Unheard(_) => {}
        }
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
