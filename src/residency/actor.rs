//! The mailbox of the slots. A [`Slot`] travels in the answer: if nobody takes the answer, its drop cancels.

use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;

use super::slots::{Refusal, Slots};
use crate::{
    directory::{Card, Directory, Listing},
    id::SessionId,
};

/// Where the answer to a reservation goes.
pub type Reply = oneshot::Sender<Result<Slot, Refusal>>;

/// What it takes.
#[derive(Debug)]
pub enum Msg {
    /// Wants a slot.
    Reserve(SessionId, Reply),
    /// The holder is set up.
    Commit(SessionId),
    /// The holder is gone.
    Release(SessionId),
    /// The holder's disposal could not be proved complete (R67).
    Stick(SessionId),
}

/// A slot, held. Dropping it gives it back.
#[derive(Debug)]
#[must_use = "a slot that is dropped is free again"]
pub struct Slot {
    session: SessionId,
    residency: ActorRef<Msg>,
}

impl Slot {
    /// The session is set up: from now on it is resident.
    pub fn commit(&self) {
        let _ = self.residency.cast(Msg::Commit(self.session.clone()));
    }

    /// Its disposal could not be proved complete: the slot stays charged (R67).
    pub fn stick(&self) {
        let _ = self.residency.cast(Msg::Stick(self.session.clone()));
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let _ = self.residency.cast(Msg::Release(self.session.clone()));
    }
}

/// The actor.
pub struct Residency;

/// What it owns.
pub struct State {
    slots: Slots,
    card: Arc<Card>,
    _listing: Listing,
}

impl Actor for Residency {
    type Msg = Msg;
    type State = State;
    type Arguments = (usize, Directory);

    async fn pre_start(
        &self,
        _: ActorRef<Msg>,
        (limit, directory): (usize, Directory),
    ) -> Result<State, ActorProcessingErr> {
        let card = Card::new("residency", "", "root");
        card.set("max", limit);
        let state = State { slots: Slots::new(limit), _listing: directory.list(card.clone()), card };
        state.publish();
        Ok(state)
    }

    async fn handle(&self, me: ActorRef<Msg>, msg: Msg, state: &mut State) -> Result<(), ActorProcessingErr> {
        match msg {
            Msg::Reserve(session, reply) => state.reserve(session, reply, me),
            Msg::Commit(session) => state.slots.commit(&session),
            Msg::Release(session) => state.slots.release(&session),
            Msg::Stick(session) => state.slots.stick(&session),
        }
        state.publish();
        Ok(())
    }
}

impl State {
    fn reserve(&mut self, session: SessionId, reply: Reply, residency: ActorRef<Msg>) {
        let slot = self.slots.reserve(&session).map(|()| Slot { session, residency });
        // Nobody there any more: the slot comes back with the answer and is dropped.
        let _ = reply.send(slot);
    }

    fn publish(&self) {
        let count = self.slots.count();
        self.card.set("resident", count.resident);
        self.card.set("reserved", count.reserved);
    }
}
