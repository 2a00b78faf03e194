//! Orders: passed on as words, answered when they are carried out.

use std::time::Duration;

use serde_json::Value;
use tokio::sync::oneshot;

use super::{
    methods::Ordered,
    rpc::Refusal,
    service::{Service, result, session},
};
use crate::{
    config::Agent,
    id::{Address, SessionId},
    limits::{REAP_MS_MAX, STOP_MS_MAX},
    wire::letter::{Done, Letter, Word},
};

impl Service {
    pub(super) fn cancel(&self, id: &str) -> Result<Value, Refusal> {
        let session = session(id)?;
        tracing::info!(session = id, order = "cancel", "order");
        match self.directory.post(&Address::Session(session), order(Word::Cancel)) {
            Ok(()) => result(Ordered {}),
            Err(_) => Err(Refusal::unknown_session(id)),
        }
    }

    /// An order for a live session, that its berth carries out.
    pub(super) async fn end(
        &self,
        id: &str,
        word: impl FnOnce(SessionId, Done) -> Word,
    ) -> Result<Value, Refusal> {
        if !self.is_there(id) {
            return Err(Refusal::unknown_session(id));
        }
        let id = session(id)?;
        let outcome = self.carry_out(id.clone(), word).await;
        // A berth may outlive its session for a moment.
        let gone = outcome.is_err() && !self.is_live(&id);
        if gone { Err(Refusal::unknown_session(id.as_str())) } else { outcome }
    }

    /// A session that is not known is as good as deleted (R285).
    pub(super) async fn delete(&self, id: &str) -> Result<Value, Refusal> {
        match SessionId::parse(id) {
            Some(session) => self.carry_out(session, Word::Delete).await,
            None => result(Ordered {}),
        }
    }

    async fn carry_out(
        &self,
        session: SessionId,
        word: impl FnOnce(SessionId, Done) -> Word,
    ) -> Result<Value, Refusal> {
        let (done, outcome) = oneshot::channel();
        let id = session.clone();
        let word = word(session, done);
        tracing::info!(session = %id, order = name(&word), "order");
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

    /// Whether it lives, or something is being done about that.
    fn is_there(&self, id: &str) -> bool {
        self.directory.cards().iter().any(|card| matches!(card.kind, "session" | "berth") && card.name == id)
    }

    /// The longest a session may take to end: its cancel, its agent's grace, and burying what is left.
    fn patience(&self) -> Duration {
        let graces = self.config.agent.values().map(|agent| agent.stop_grace_ms);
        let grace = graces.chain([Agent::demo().stop_grace_ms]).max().unwrap_or_default();
        let bury = 2 * REAP_MS_MAX + STOP_MS_MAX;
        Duration::from_millis(self.config.limits.cancel_grace_ms + grace + bury)
    }

    /// Whether the daemon can be told to stop: it cannot answer any more when it has.
    pub(super) fn may_stop(&self) -> Result<Value, Refusal> {
        match self.directory.has(&Address::Root) {
            true => result(Ordered {}),
            false => Err(Refusal::internal("the daemon is stopping")),
        }
    }

    /// Gives the order to stop. Resolves when everything is down, if the connection lives that long.
    pub(super) async fn stop(&self) {
        let (done, outcome) = oneshot::channel();
        tracing::info!(order = "shutdown", "order");
        if self.directory.post(&Address::Root, order(Word::Stop(done))).is_ok() {
            let _ = outcome.await;
        }
    }
}

/// An operator has no address: it speaks with the root's authority, and is answered through the word itself.
pub(super) fn order(word: Word) -> Letter {
    Letter::Word { from: Address::Root, word }
}

fn name(word: &Word) -> &'static str {
    match word {
        Word::Kill(..) => "kill",
        Word::Delete(..) => "delete",
        Word::Release(..) => "detach",
        _ => "close",
    }
}
