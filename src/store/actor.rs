//! The mailbox of the store: one writer, answers in the order of the questions.

use std::collections::{HashMap, VecDeque};

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;

use super::row::Row;
use crate::{
    directory::{Card, Directory, Listing},
    id::SessionId,
    limits::SAVED_SESSIONS_MAX,
};

/// What it takes.
#[derive(Debug)]
pub enum Msg {
    /// Remember this session; a known one is replaced. Answered once it is remembered.
    Save(Row, Option<oneshot::Sender<()>>),
    /// What is known of a session.
    Find(SessionId, oneshot::Sender<Option<Row>>),
}

/// The actor.
pub struct Store;

/// What it owns.
pub struct State {
    rows: HashMap<SessionId, Row>,
    /// Oldest first: which to forget when there are too many.
    order: VecDeque<SessionId>,
    _listing: Listing,
}

impl Actor for Store {
    type Msg = Msg;
    type State = State;
    type Arguments = Directory;

    async fn pre_start(&self, _: ActorRef<Msg>, directory: Directory) -> Result<State, ActorProcessingErr> {
        let listing = directory.list(Card::new("store", "", "root"));
        Ok(State { rows: HashMap::new(), order: VecDeque::new(), _listing: listing })
    }

    async fn handle(&self, _: ActorRef<Msg>, msg: Msg, state: &mut State) -> Result<(), ActorProcessingErr> {
        match msg {
            Msg::Save(row, done) => state.save(row, done),
            Msg::Find(id, reply) => drop(reply.send(state.rows.get(&id).cloned())),
        }
        Ok(())
    }
}

impl State {
    fn save(&mut self, row: Row, done: Option<oneshot::Sender<()>>) {
        let id = row.id.clone();
        if self.rows.insert(id.clone(), row).is_none() {
            self.order.push_back(id);
        }
        while self.order.len() > SAVED_SESSIONS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.rows.remove(&oldest);
        }
        if let Some(done) = done {
            let _ = done.send(());
        }
    }
}
