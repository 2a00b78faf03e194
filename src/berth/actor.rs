//! The mailbox of one berth: its order is the order of what happens to the session.

use std::{collections::VecDeque, sync::Arc};

use ractor::{Actor, ActorProcessingErr, ActorRef, DerivedActorRef, SupervisionEvent};

use super::operation::{Berthing, Operation, Owner};
use crate::{
    directory::{Card, Listing},
    id::SessionId,
    residency,
    session::{Report, Shared},
};

/// What it takes.
pub enum Msg {
    /// To be done after everything before it.
    Do(Operation),
    /// The thing that was being done is done.
    Done(Option<Owner>),
}

/// A berth says that nothing is left to do, after so many operations.
#[derive(Debug)]
pub struct Idle(pub SessionId, pub u64);

/// What it is started with.
pub struct Arguments {
    pub id: SessionId,
    pub shared: Arc<Shared>,
    pub residency: ActorRef<residency::Msg>,
    pub reports: DerivedActorRef<Report>,
    pub idle: DerivedActorRef<Idle>,
}

/// The actor.
pub struct Berth;

/// What it owns.
pub struct State {
    berthing: Berthing,
    idle: DerivedActorRef<Idle>,
    waiting: VecDeque<Operation>,
    /// Something is being done.
    busy: bool,
    owner: Option<Owner>,
    done: u64,
    card: Arc<Card>,
    _listing: Listing,
}

impl Actor for Berth {
    type Msg = Msg;
    type State = State;
    type Arguments = Arguments;

    async fn pre_start(&self, me: ActorRef<Msg>, args: Arguments) -> Result<State, ActorProcessingErr> {
        let card = Card::new("berth", args.id.as_str(), "berths");
        Ok(State {
            _listing: args.shared.directory.list(card.clone()),
            berthing: Berthing {
                id: args.id,
                berth: me.get_cell(),
                shared: args.shared,
                residency: args.residency,
                reports: args.reports,
            },
            idle: args.idle,
            waiting: VecDeque::new(),
            busy: false,
            owner: None,
            done: 0,
            card,
        })
    }

    async fn handle(&self, me: ActorRef<Msg>, msg: Msg, state: &mut State) -> Result<(), ActorProcessingErr> {
        match msg {
            Msg::Do(operation) => state.waiting.push_back(operation),
            Msg::Done(owner) => state.performed(owner),
        }
        state.next(&me);
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        me: ActorRef<Msg>,
        event: SupervisionEvent,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorTerminated(cell, session, _) => {
                drop(session);
                state.session_gone(&cell, "the session ended");
            }
            SupervisionEvent::ActorFailed(cell, error) => {
                tracing::error!(session = %state.berthing.id, %error, "session failed");
                state.session_gone(&cell, "internal error: the session failed; see the log");
            }
            _ => {}
        }
        state.next(&me);
        Ok(())
    }
}

impl State {
    fn performed(&mut self, owner: Option<Owner>) {
        self.busy = false;
        self.done += 1;
        self.owner = owner;
        // It may have ended by itself before it was anybody's.
        let ended = |o: &mut Owner| o.actor.get_status() >= ractor::ActorStatus::Stopping;
        if let Some(owner) = self.owner.take_if(ended) {
            self.berthing.mourn(Some(&owner), "the session could not be opened");
        }
    }

    /// Starts the next thing, or says that there is none.
    fn next(&mut self, me: &ActorRef<Msg>) {
        self.card.set("waiting", self.waiting.len());
        if self.busy {
            return;
        }
        let Some(operation) = self.waiting.pop_front() else {
            if self.owner.is_none() {
                let _ = self.idle.send_message(Idle(self.berthing.id.clone(), self.done));
            }
            return;
        };
        self.busy = true;
        let finished = Finished { berth: me.clone(), owner: self.owner.take() };
        tokio::spawn(perform(self.berthing.clone(), operation, finished));
    }

    fn session_gone(&mut self, cell: &ractor::ActorCell, why: &str) {
        let owner = self.owner.take_if(|o| o.actor.get_id() == cell.get_id());
        if let Some(owner) = owner {
            self.berthing.mourn(Some(&owner), why);
        }
    }
}

/// Reports the end of an operation, also when it panicked.
struct Finished {
    berth: ActorRef<Msg>,
    owner: Option<Owner>,
}

impl Drop for Finished {
    fn drop(&mut self) {
        let _ = self.berth.cast(Msg::Done(self.owner.take()));
    }
}

async fn perform(berthing: Berthing, operation: Operation, mut finished: Finished) {
    let owner = finished.owner.take();
    finished.owner = berthing.perform(operation, owner).await;
}
