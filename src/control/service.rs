//! Answers the requests of operators: from the cards at once, for an order when it is carried out.
//!
//! Runs in the task of a connection, never in an actor: an order may take as long as a session needs to end.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use serde::Serialize;
use serde_json::Value;
use tokio::sync::oneshot;

use super::{
    figures::Processes,
    methods::{Ordered, Request, Status},
    rpc::{Call, Refusal},
    view,
};
use crate::{
    config::{Agent, Config, Paths},
    directory::Directory,
    id::{Address, SessionId},
    limits::{REAP_MS_MAX, STOP_MS_MAX},
    log,
    wire::letter::{Done, Letter, Word},
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
}

/// An answer, and what is to be done once it is on its way.
#[must_use = "every request is answered"]
pub struct Reply {
    /// The answer.
    pub outcome: Result<Value, Refusal>,
    /// Whether the daemon is to stop then: it cannot answer any more when it has.
    pub stop: bool,
}

impl Service {
    /// Answers one request, or what was to be one.
    pub async fn reply(&self, call: Result<Call, Refusal>) -> Reply {
        match call.and_then(|call| Request::read(&call.method, call.params)) {
            Ok(Request::Shutdown) => self.shutdown(),
            Ok(request) => Reply { outcome: self.answer(request).await, stop: false },
            Err(refusal) => Reply { outcome: Err(refusal), stop: false },
        }
    }

    async fn answer(&self, request: Request) -> Result<Value, Refusal> {
        match request {
            Request::Status => result(self.status()),
            Request::Tree => result(view::tree(&self.directory.cards(), &processes().await)),
            Request::Agents => result(view::agents(&self.config)),
            Request::SessionsList => result(view::sessions(&self.directory.cards())),
            Request::SessionsShow(session) => self.show(&session.id).await,
            Request::SessionsCancel(session) => self.cancel(&session.id),
            Request::SessionsClose(session) => self.end(&session.id, Word::Close).await,
            Request::SessionsKill(session) => self.end(&session.id, Word::Kill).await,
            Request::Shutdown => result(Ordered {}),
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

    async fn show(&self, id: &str) -> Result<Value, Refusal> {
        let shown = view::shown(&self.directory.cards(), id, &processes().await);
        shown.map_or_else(|| Err(Refusal::unknown_session(id)), result)
    }

    fn cancel(&self, id: &str) -> Result<Value, Refusal> {
        let session = SessionId::parse(id).ok_or_else(|| Refusal::unknown_session(id))?;
        tracing::info!(session = id, order = "cancel", "order");
        match self.directory.post(&Address::Session(session), order(Word::Cancel)) {
            Ok(()) => result(Ordered {}),
            Err(_) => Err(Refusal::unknown_session(id)),
        }
    }

    async fn end(&self, id: &str, word: impl FnOnce(SessionId, Done) -> Word) -> Result<Value, Refusal> {
        let session = SessionId::parse(id).filter(|_| self.is_live(id));
        let session = session.ok_or_else(|| Refusal::unknown_session(id))?;
        let (done, outcome) = oneshot::channel();
        let word = word(session, done);
        tracing::info!(
            session = id,
            order = if matches!(word, Word::Kill(..)) { "kill" } else { "close" },
            "order"
        );
        if self.directory.post(&Address::Berths, order(word)).is_err() {
            return Err(Refusal::internal("the daemon is starting or stopping"));
        }
        let patience = self.patience();
        match tokio::time::timeout(patience, outcome).await {
            Ok(Ok(Ok(()))) => result(Ordered {}),
            Ok(Ok(Err(why))) => Err(Refusal::internal(why)),
            Ok(Err(_)) => Err(Refusal::internal("the order was lost with whoever had it; look again")),
            Err(_) => Err(Refusal::internal(format!(
                "not gone after {} ms, and still ending",
                patience.as_millis()
            ))),
        }
    }

    fn is_live(&self, id: &str) -> bool {
        self.directory.cards().iter().any(|card| matches!(card.kind, "session" | "berth") && card.name == id)
    }

    /// The longest a session may take to end: its cancel, its agent's grace, and burying what is left.
    fn patience(&self) -> Duration {
        let graces = self.config.agent.values().map(|agent| agent.stop_grace_ms);
        let grace = graces.chain([Agent::demo().stop_grace_ms]).max().unwrap_or_default();
        let bury = 2 * REAP_MS_MAX + STOP_MS_MAX;
        Duration::from_millis(self.config.limits.cancel_grace_ms + grace + bury)
    }

    fn shutdown(&self) -> Reply {
        let there = self.directory.has(&Address::Root);
        let outcome =
            if there { result(Ordered {}) } else { Err(Refusal::internal("the daemon is stopping")) };
        Reply { outcome, stop: there }
    }

    /// Gives the order to stop. Resolves when everything is down, if the connection lives that long.
    pub async fn stop(&self) {
        let (done, outcome) = oneshot::channel();
        tracing::info!(order = "shutdown", "order");
        if self.directory.post(&Address::Root, order(Word::Stop(done))).is_ok() {
            let _ = outcome.await;
        }
    }
}

/// An operator has no address: it speaks with the root's authority, and is answered through the word itself.
fn order(word: Word) -> Letter {
    Letter::Word { from: Address::Root, word }
}

async fn processes() -> Processes {
    tokio::task::spawn_blocking(Processes::read).await.unwrap_or_default()
}

fn result(value: impl Serialize) -> Result<Value, Refusal> {
    serde_json::to_value(value).map_err(|error| Refusal::internal(error.to_string()))
}
