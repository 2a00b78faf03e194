//! A process that nothing is wanted of is ended, and its session stays (R283).
//!
//! The next prompt starts another process, which takes the session up again. Only where the agent can do that itself.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::sync::oneshot;

use super::actor::{Msg, State};
use crate::peer::{self, can_load, can_resume};

/// Whether a process that nothing is wanted of may go.
#[derive(Debug, Default)]
pub(super) struct Sleeping {
    /// Since when nothing is wanted of it.
    since: Option<Instant>,
    /// A timer runs that will look at that.
    armed: bool,
    /// Who waits for it to be gone; dropped when it is.
    pub told: Option<oneshot::Sender<()>>,
}

impl State {
    /// Whether its process may go: nothing runs, waits or is open, and another one can take the session up.
    pub(super) fn can_sleep(&self) -> bool {
        let restores = |peer: &super::actor::Link| {
            peer.answer.as_ref().is_some_and(|answer| can_resume(answer) || can_load(answer))
        };
        self.is_idle() && self.children.is_empty() && self.peer.as_ref().is_some_and(restores)
    }

    /// It has become idle, or is no more.
    pub(super) fn note_idle(&mut self, idle: bool) {
        self.sleeping.since = idle.then(Instant::now);
        if idle && !self.sleeping.armed {
            self.sleep_after(self.hibernate_after());
        }
    }

    fn hibernate_after(&self) -> Duration {
        Duration::from_secs(self.shared.limits.hibernate_after_s)
    }

    fn sleep_after(&mut self, time: Duration) {
        self.sleeping.armed = true;
        self.later(time, || Msg::SleepDue);
    }

    /// Perhaps it has been idle for long. One timer serves all idle times, however many there are.
    pub(super) fn sleep_due(&mut self) {
        self.sleeping.armed = false;
        let Some(since) = self.sleeping.since else { return };
        match self.hibernate_after().checked_sub(since.elapsed()).filter(|left| !left.is_zero()) {
            Some(left) => self.sleep_after(left),
            None => self.sleep(None),
        }
    }

    /// Its process goes, if it may. Told, or dropped, when it is gone.
    pub(super) fn sleep(&mut self, asleep: Option<oneshot::Sender<()>>) {
        if !self.can_sleep() {
            return;
        }
        tracing::info!(session = %self.order.id, "idle: its process ends until the next prompt");
        self.notice(json!({ "peer": "asleep" }));
        if let Some(peer) = self.peer.take() {
            let grace = Duration::from_millis(self.order.agent.stop_grace_ms);
            let _ = peer.actor.cast(peer::Msg::End(grace));
            self.leaving.push(self.generation);
            self.sleeping.told = asleep;
        }
    }
}
