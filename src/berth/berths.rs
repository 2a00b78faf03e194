//! The supervisor of all berths: finds or makes the one of an id, remembers what agents said and how they failed.

use std::{collections::HashMap, sync::Arc, time::Instant};

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::oneshot;

use super::{
    actor::{self, Berth, Idle},
    learnt::Learnt,
    operation::{self, Answer, Operation},
    shrink::shrink,
};
use crate::{
    directory::{Card, Listing},
    id::{Address, SessionId},
    mailbox::carries,
    residency,
    session::{self, Ending, Order, Reason, Report, Shared},
    store::{self, Oversize},
    supervisor::{Intensity, Verdict},
    wire::{Call, Envelope, Frame, Letter, Loss, RpcError, Word, credit::Credit, letter::Done},
};

/// What they take.
pub enum Msg {
    /// A host's `initialize`: answered from memory, else by a process that is started for it (R14).
    Initialize(Box<Order>),
    /// A host's `session/new`.
    Open(Box<Order>),
    /// A host's `session/load` or `session/resume`.
    Take(Box<Order>),
    /// A host's `session/fork` of that session.
    Fork(Box<Order>, SessionId),
    /// Let a saved session live without a host; told when it does, or why not.
    Revive(Box<Order>, Done),
    /// Remove a session for good (R285).
    Delete(SessionId, Answer),
    /// End a session.
    End(SessionId, Ending, Answer),
    /// From a session.
    Report(Report),
    /// From a berth.
    Idle(Idle),
    /// A session became too large (R289).
    Oversize(Oversize),
    /// From an operator.
    Post(Letter),
    /// The daemon stops: end everything. Answered when all are gone.
    Drain(oneshot::Sender<()>),
}

/// The actor.
pub struct Berths;

/// What they own.
pub struct State {
    shared: Arc<Shared>,
    residency: ActorRef<residency::Msg>,
    berths: HashMap<SessionId, Entry>,
    learnt: Learnt,
    failing: HashMap<u64, Failing>,
    started: Instant,
    draining: bool,
    _listing: Listing,
}

/// A program that failed lately.
#[derive(Default)]
struct Failing {
    intensity: Intensity,
    /// What was said of it the last time.
    last: String,
}

struct Entry {
    actor: ActorRef<actor::Msg>,
    /// Operations sent: a berth that has done as many is idle.
    sent: u64,
    /// Who wanted the session last.
    host: Option<Address>,
}

impl Actor for Berths {
    type Msg = Msg;
    type State = State;
    type Arguments = (Arc<Shared>, ActorRef<residency::Msg>);

    async fn pre_start(
        &self,
        me: ActorRef<Msg>,
        (shared, residency): Self::Arguments,
    ) -> Result<State, ActorProcessingErr> {
        let card = Card::new("berths", "", "root");
        let _ = shared.store.cast(store::Msg::Watch(me.get_derived()));
        Ok(State {
            _listing: shared.directory.enter(Address::Berths, me.get_derived(), card),
            shared,
            residency,
            berths: HashMap::new(),
            learnt: Learnt::default(),
            failing: HashMap::new(),
            started: Instant::now(),
            draining: false,
        })
    }

    async fn handle(&self, me: ActorRef<Msg>, msg: Msg, state: &mut State) -> Result<(), ActorProcessingErr> {
        match msg {
            Msg::Initialize(order) => state.initialize(order, &me).await?,
            Msg::Open(order) => state.open(order, &me).await?,
            Msg::Take(order) => state.take(order, &me).await?,
            Msg::Fork(order, source) => state.fork(order, source, &me).await?,
            Msg::Revive(order, done) => state.revive(order, done, &me).await?,
            Msg::Delete(id, answer) => state.give(id, Operation::Delete(answer), &me).await?,
            Msg::End(id, ending, answer) => state.give(id, Operation::End(ending, answer), &me).await?,
            Msg::Report(report) => state.report(report),
            Msg::Idle(idle) => state.idle(&idle),
            Msg::Oversize(Oversize { session, .. }) => {
                drop(tokio::spawn(shrink(state.shared.clone(), session)));
            }
            Msg::Post(letter) => state.post(letter, &me).await?,
            Msg::Drain(done) => state.drain(done, &me).await?,
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<Msg>,
        event: SupervisionEvent,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorFailed(cell, error) = event {
            tracing::error!(%error, "berth failed");
            state.berth_failed(&cell);
        }
        Ok(())
    }
}

impl State {
    async fn initialize(&mut self, order: Box<Order>, me: &ActorRef<Msg>) -> Result<(), ractor::SpawnErr> {
        match self.learnt.recall(order.learnt_key) {
            Some(answer) => self.answer_from_memory(
                &order,
                &session::offer(answer, &order.capabilities, &order.name, self.shared.host.fork),
            ),
            None => return self.open(order, me).await,
        }
        Ok(())
    }

    fn answer_from_memory(&self, order: &Order, offer: &crate::wire::patch::Object) {
        let answer = |e: &Envelope| match e.call {
            Call::Request(token) => Some(Envelope::new(Call::Response(token), Frame::result(offer))),
            _ => None,
        };
        let envelopes = order.first.iter().filter_map(answer).collect();
        let from = Address::Session(order.id.clone());
        let gone = Word::SessionGone(order.id.clone(), "no process was needed".to_owned());
        let letter = Letter::Lines { from: from.clone(), envelopes, credit: Credit::none() };
        let _ = self.shared.directory.post(&order.host, letter);
        let _ = self.shared.directory.post(&order.host, Letter::Word { from, word: gone });
    }

    async fn open(&mut self, order: Box<Order>, me: &ActorRef<Msg>) -> Result<(), ractor::SpawnErr> {
        match self.may_start(order.program(), &order.name) {
            Some(error) => operation::refuse(&self.shared, &order, &error),
            None => self.give(order.id.clone(), Operation::Open(order), me).await?,
        }
        Ok(())
    }

    async fn take(&mut self, mut order: Box<Order>, me: &ActorRef<Msg>) -> Result<(), ractor::SpawnErr> {
        order.held_back = self.may_start(order.program(), &order.name);
        self.give(order.id.clone(), Operation::Take(order), me).await
    }

    async fn fork(
        &mut self,
        order: Box<Order>,
        source: SessionId,
        me: &ActorRef<Msg>,
    ) -> Result<(), ractor::SpawnErr> {
        match self.may_start(order.program(), &order.name) {
            Some(error) => operation::refuse(&self.shared, &order, &error),
            None => self.give(order.id.clone(), Operation::Fork(order, source), me).await?,
        }
        Ok(())
    }

    async fn revive(
        &mut self,
        mut order: Box<Order>,
        done: Done,
        me: &ActorRef<Msg>,
    ) -> Result<(), ractor::SpawnErr> {
        order.held_back = self.may_start(order.program(), &order.name);
        self.give(order.id.clone(), Operation::Revive(order, done), me).await
    }

    /// Why this program is not started now.
    fn may_start(&mut self, program: u64, agent: &str) -> Option<RpcError> {
        if self.draining {
            return Some(RpcError::internal("the daemon is stopping"));
        }
        let now = self.started.elapsed();
        self.failing.retain(|_, failing| !failing.intensity.is_calm(now));
        let failing = self.failing.get_mut(&program)?;
        match failing.intensity.verdict(now) {
            Verdict::Hold(rest) => Some(session::held_back(agent, rest, &failing.last)),
            Verdict::Restart | Verdict::Leave => None,
        }
    }

    fn report(&mut self, report: Report) {
        match report {
            Report::Learnt(key, answer) => self.learnt.learn(key, answer),
            Report::Failed(program, last) => {
                let failing = self.failing.entry(program).or_default();
                failing.intensity.failed(self.started.elapsed());
                failing.last = last;
            }
            Report::MayStart(program, agent, reply) => {
                let _ = reply.send(self.may_start(program, &agent).map_or(Ok(()), Err));
            }
        }
    }

    /// Gives the berth of that id something to do; makes one when there is none.
    async fn give(
        &mut self,
        id: SessionId,
        operation: Operation,
        me: &ActorRef<Msg>,
    ) -> Result<(), ractor::SpawnErr> {
        if !self.berths.contains_key(&id) {
            let arguments = actor::Arguments {
                id: id.clone(),
                shared: self.shared.clone(),
                residency: self.residency.clone(),
                reports: me.get_derived(),
                idle: me.get_derived(),
            };
            let (actor, _) = Actor::spawn_linked(None, Berth, arguments, me.get_cell()).await?;
            self.berths.insert(id.clone(), Entry { actor, sent: 0, host: None });
        }
        if let Some(entry) = self.berths.get_mut(&id) {
            entry.sent += 1;
            entry.host = operation.host().or(entry.host.take());
            let _ = entry.actor.cast(actor::Msg::Do(operation));
        }
        Ok(())
    }

    /// A berth that failed took its session with it: whose it was is told (R239).
    fn berth_failed(&mut self, cell: &ActorCell) {
        let failed = self.berths.extract_if(|_, entry| entry.actor.get_id() == cell.get_id());
        for (id, entry) in failed.collect::<Vec<_>>() {
            let Some(host) = entry.host else { continue };
            let why = "internal error: the session failed; see the log".to_owned();
            let word = Word::SessionGone(id.clone(), why);
            let _ = self.shared.directory.post(&host, Letter::Word { from: Address::Session(id), word });
        }
    }

    /// A berth that has nothing to do goes, unless something was sent to it meanwhile.
    fn idle(&mut self, Idle(id, done): &Idle) {
        if self.berths.get(id).is_some_and(|entry| entry.sent == *done)
            && let Some(entry) = self.berths.remove(id)
        {
            entry.actor.stop(None);
        }
    }

    async fn post(&mut self, letter: Letter, me: &ActorRef<Msg>) -> Result<(), ractor::SpawnErr> {
        match letter {
            Letter::Word { word: Word::Close(id, done), .. } => {
                let ending = Ending::orderly(Reason::Operator);
                let answer = Answer::Operator { done, ended: false };
                self.give(id, Operation::End(ending, answer), me).await?;
            }
            Letter::Word { word: Word::Delete(id, done), .. } => {
                let answer = Answer::Operator { done, ended: self.hurry(&id, Word::Abort) };
                self.give(id, Operation::Delete(answer), me).await?;
            }
            Letter::Word { word: Word::Release(id, done), .. } => {
                self.give(id, Operation::Release(done), me).await?;
            }
            Letter::Word { word: Word::Kill(id, done), .. } => {
                let ending = Ending::at_once(Reason::Killed);
                let answer = Answer::Operator { done, ended: self.hurry(&id, Word::Abort) };
                self.give(id, Operation::End(ending, answer), me).await?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Tells a session to end without waiting for what its berth does before. Whether it was there.
    fn hurry(&self, id: &SessionId, word: Word) -> bool {
        let letter = Letter::Word { from: Address::Berths, word };
        self.shared.directory.post(&Address::Session(id.clone()), letter).is_ok()
    }

    async fn drain(&mut self, done: oneshot::Sender<()>, me: &ActorRef<Msg>) -> Result<(), ractor::SpawnErr> {
        self.draining = true;
        let ending = Ending::host_lost(Loss::Stopping);
        let ids: Vec<SessionId> = self.berths.keys().cloned().collect();
        let mut ends = Vec::with_capacity(ids.len());
        for id in ids {
            let (answer, gone) = oneshot::channel();
            let answer =
                Answer::Operator { done: answer, ended: self.hurry(&id, Word::HostLost(Loss::Stopping)) };
            self.give(id, Operation::End(ending, answer), me).await?;
            ends.push(gone);
        }
        tokio::spawn(async move {
            for gone in ends {
                let _ = gone.await;
            }
            let _ = done.send(());
        });
        Ok(())
    }
}

carries!(Msg: Report => Report, Idle => Idle, Oversize => Oversize, Letter => Post);
