//! How a session ends, in one order whatever the reason (R203 to R208).
//!
//! 1 nothing more is let in; 2 what runs is cancelled; 3 its answers leave; 4 the process and everything below it
//! end; 5 the slot is free. A second order only shortens the times of the first.

use std::time::Duration;

use serde_json::json;

use super::{
    actor::{Stage, State},
    ledger::Side,
    record::{After, alone, noted},
    recovery::Event,
};
use crate::{
    history::Mark,
    limits::{STOP_CANCEL_GRACE_MS, STOP_MS_MAX},
    peer::{self, Death},
    residency::Slot,
    store::Op,
    wire::{Loss, RpcError, credit::Credit},
};

/// Why a session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Its host closed it: what waits is discarded (R50).
    Closed,
    /// Its host is gone: what waits in its inbox stays there (R51).
    HostLost(Loss),
    /// The operator closed it.
    Operator,
    /// The operator killed it.
    Killed,
    /// Nobody wanted the warm process.
    Unused,
    /// No host came for it, and nothing was left to do (R61).
    Idle,
    /// It is deleted (R285).
    Deleted,
    /// It could not be set up.
    Failed,
}

/// How a session is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ending {
    /// Why.
    pub reason: Reason,
    /// Time the running turn has to answer the cancel.
    pub cancel_grace: Duration,
    /// Time the process has from closing its stdin to SIGKILL; `None` as its configuration says.
    pub stop_grace: Option<Duration>,
}

impl Ending {
    /// In the time that the configuration allows.
    pub fn orderly(reason: Reason) -> Self {
        Self { reason, cancel_grace: Duration::MAX, stop_grace: None }
    }

    /// Without any time.
    pub fn at_once(reason: Reason) -> Self {
        Self { reason, cancel_grace: Duration::ZERO, stop_grace: Some(Duration::ZERO) }
    }

    /// Its host is gone; when the daemon stops, within its own time (R209).
    pub fn host_lost(loss: Loss) -> Self {
        let cancel = Duration::from_millis(STOP_CANCEL_GRACE_MS);
        let rest = Duration::from_millis(STOP_MS_MAX / 2) - cancel / 2;
        let stop_grace = (loss == Loss::Stopping).then_some(rest);
        Self { reason: Reason::HostLost(loss), cancel_grace: cancel, stop_grace }
    }
}

impl State {
    /// Begins the end, or shortens it (R203).
    pub(super) fn end(&mut self, ending: Ending) {
        let first = self.ending.is_none();
        let before = self.ending.get_or_insert(ending);
        before.cancel_grace = before.cancel_grace.min(ending.cancel_grace);
        before.stop_grace = match (before.stop_grace, ending.stop_grace) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        if first {
            self.begin_end(ending.reason);
        } else if self.turn.is_active() {
            self.cancel_later(
                ending.cancel_grace.min(Duration::from_millis(self.shared.limits.cancel_grace_ms)),
            );
        } else {
            self.end_peer();
        }
    }

    fn begin_end(&mut self, reason: Reason) {
        tracing::info!(session = %self.order.id, ?reason, "session ends");
        self.stage = Stage::Ending;
        self.recover(Event::Destroy);
        self.tell_of_end(reason);
        let error = RpcError::internal("the session was closed");
        let opening = self.setup.take().and_then(|setup| setup.token);
        let shown = self.showing.take().map(|showing| showing.token);
        self.outbox.open();
        for token in opening.into_iter().chain(shown).chain(self.take_early()) {
            self.refuse_host(token, &error);
        }
        self.cancel();
        if matches!(reason, Reason::HostLost(_)) {
            self.leave_unanswered();
        }
        if self.turn.is_active() {
            let grace = self.ending.map_or(Duration::ZERO, |e| e.cancel_grace);
            self.cancel_later(grace.min(Duration::from_millis(self.shared.limits.cancel_grace_ms)));
        } else {
            self.turn_settled();
        }
    }

    /// A host that did not end the session itself hears who did (R41, R86).
    fn tell_of_end(&mut self, reason: Reason) {
        let why = match reason {
            Reason::HostLost(Loss::Replaced) => "another connection took the session over",
            Reason::Operator | Reason::Killed => "the operator ended the session",
            Reason::Deleted => "the session was deleted",
            Reason::HostLost(_) | Reason::Closed | Reason::Unused | Reason::Idle | Reason::Failed => return,
        };
        if self.opened.is_some() {
            self.notice(json!({ "detached": { "reason": why } }));
        }
    }

    /// Nothing runs any more: the process goes.
    pub(super) fn turn_settled(&mut self) {
        self.leave_unanswered();
        self.bereaved(&RpcError::internal("the session was closed"));
        self.record_close();
        self.end_peer();
    }

    /// A session that is closed discards what waits; one that merely ends keeps it (R50 to R52).
    fn record_close(&mut self) {
        let Some(reason) = self.ending.map(|e| e.reason).filter(|_| self.record.kept && !self.closed) else {
            return;
        };
        self.closed = true;
        let why = format!("{reason:?}");
        let mut ops = alone(noted(&Mark::Closed { reason: why.as_str().into() }));
        let discards = matches!(reason, Reason::Closed | Reason::Operator);
        if discards {
            ops.push(Op::Discard);
        }
        self.write_then(ops, discards, After::Lines);
    }

    /// The host answers nothing any more: the peer hears so of everything it asked.
    fn leave_unanswered(&mut self) {
        let asked = self.ledger.take(|open| open.side == Side::Peer);
        let back = self.answer_for_host(asked);
        self.tell_host(back, Credit::none());
    }

    fn end_peer(&mut self) {
        let Some(peer) = &self.peer else {
            if self.leaving.is_empty() {
                self.leave();
            }
            return;
        };
        let configured = Duration::from_millis(self.order.agent.stop_grace_ms);
        let grace = self.ending.and_then(|e| e.stop_grace).map_or(configured, |g| g.min(configured));
        let _ = peer.actor.cast(peer::Msg::End(grace));
    }

    /// The process is gone.
    pub(super) fn gone(&mut self, death: &Death) {
        self.note_unproved(death);
        if self.leaving.is_empty() {
            self.leave();
        }
    }

    /// A process that could not be proved gone keeps the slot of its session (R67, R279).
    pub(super) fn note_unproved(&mut self, death: &Death) {
        if let Some(unproved) = death.exit.as_ref().and_then(|e| e.unproved.as_ref()) {
            tracing::warn!(session = %self.order.id, unproved, "the end of the peer could not be proved");
            self.card.set("unproved", unproved.as_str());
            self.slot.iter().for_each(Slot::stick);
        }
    }

    /// Goes, once everything it did is on record.
    fn leave(&mut self) {
        self.leaves = true;
        self.leave_when_settled();
    }

    /// The slot is free before the last answers are said.
    pub(super) fn leave_when_settled(&mut self) {
        if !self.leaves || !self.record.is_settled() {
            return;
        }
        self.post_waiting();
        self.slot = None;
        for (token, answer) in std::mem::take(&mut self.last_answers) {
            self.post_answer(token, answer);
        }
        self.me.stop(Some("ended".to_owned()));
    }
}
