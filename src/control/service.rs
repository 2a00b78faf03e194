//! Answers the requests of operators: from the cards and the store at once, for an order when it is carried out.
//!
//! Runs in the task of a connection, never in an actor: an order may take as long as a session needs to end.

use std::{
    sync::Arc,
    time::{Instant, SystemTime},
};

use ractor::ActorRef;
use serde::Serialize;
use serde_json::Value;
use smallvec::SmallVec;
use tokio::sync::oneshot;

use super::{
    methods::{Ordered, Request, Status},
    rpc::Refusal,
    view,
};
use crate::{
    berth,
    config::{Config, Paths},
    directory::Directory,
    id::SessionId,
    log,
    process::figures::Processes,
    store::{self, Ack, Op, Reader, StoreError, Write},
    wire::{Word, credit::Credit},
};

/// What answers are made from.
pub struct Service {
    /// Who is there.
    pub directory: Directory,
    /// What was configured.
    pub config: Arc<Config>,
    /// Where things lie.
    pub paths: Paths,
    /// When the daemon started.
    pub started: Instant,
    /// Remembers sessions.
    pub store: ActorRef<store::Msg>,
    /// Reads what it remembers.
    pub reader: Reader,
    /// Let saved sessions live.
    pub berths: ActorRef<berth::Msg>,
}

impl Service {
    /// Answers one request; those about streams are the connection's own.
    pub(super) async fn answer(&self, request: Request) -> Result<Value, Refusal> {
        match request {
            Request::Status => result(self.status()),
            Request::Tree => result(view::tree(&self.directory.cards(), &processes().await)),
            Request::Agents => result(view::agents(&self.config)),
            Request::SessionsList(params) => self.list(params).await,
            Request::SessionsShow(session) => self.show(&session.id).await,
            Request::SessionsSend(message) => self.send(message).await,
            Request::SessionsCancel(session) => self.cancel(&session.id),
            Request::SessionsDetach(session) => self.end(&session.id, Word::Release).await,
            Request::SessionsClose(session) => self.end(&session.id, Word::Close).await,
            Request::SessionsKill(session) => self.end(&session.id, Word::Kill).await,
            Request::SessionsDelete(session) => self.delete(&session.id).await,
            Request::InboxList(session) => self.inbox(&session.id).await,
            Request::InboxShow(entry) => self.entry(&entry).await,
            Request::InboxEdit(edit) => self.rewrite(edit).await,
            Request::InboxRemove(entry) => self.remove(entry).await,
            Request::InboxAgain(entry) => self.again(entry).await,
            Request::Shutdown => self.may_stop(),
            Request::SessionsExport(_) | Request::EventsSubscribe(_) | Request::EventsUnsubscribe(_) => {
                result(Ordered {})
            }
        }
    }

    fn status(&self) -> Status {
        let cards = self.directory.cards();
        let uptime = self.started.elapsed();
        Status {
            version: env!("CARGO_PKG_VERSION"),
            pid: std::process::id(),
            started: view::time(SystemTime::now().checked_sub(uptime).unwrap_or(SystemTime::UNIX_EPOCH)),
            uptime_ms: u64::try_from(uptime.as_millis()).unwrap_or(u64::MAX),
            paths: view::places(&self.paths),
            residency: view::residency(&cards),
            hosts: view::count(&cards, "host"),
            sessions: view::count(&cards, "session"),
            dropped_log_lines: log::dropped(),
        }
    }

    /// Asks the store, away from the runtime.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Refusal> {
        let reader = self.reader.clone();
        match tokio::task::spawn_blocking(move || ask(&reader)).await {
            Ok(answer) => answer.map_err(|error| Refusal::of(&error)),
            Err(_) => Err(Refusal::internal("the daemon is stopping")),
        }
    }

    /// Writes something of a session, on the disk before it goes on.
    pub(super) async fn write(&self, session: &SessionId, ops: SmallVec<[Op; 2]>) -> Result<(), Refusal> {
        let (told, outcome) = oneshot::channel();
        let ack = Ack::new(move |outcome| drop(told.send(outcome)));
        let session = session.clone();
        let write = Write { session, ops, sync: true, credit: Credit::none(), ack: Some(ack) };
        let _ = self.store.cast(store::Msg::Write(write));
        let outcome = outcome.await.unwrap_or(Err(StoreError::Closed));
        outcome.map(drop).map_err(|error| Refusal::of(&error))
    }
}

/// An id that could be one of ours (R56).
pub(super) fn session(id: &str) -> Result<SessionId, Refusal> {
    SessionId::parse(id).ok_or_else(|| Refusal::unknown_session(id))
}

pub(super) async fn processes() -> Processes {
    tokio::task::spawn_blocking(Processes::read).await.unwrap_or_default()
}

pub(super) fn result(value: impl Serialize) -> Result<Value, Refusal> {
    serde_json::to_value(value).map_err(|error| Refusal::internal(error.to_string()))
}
