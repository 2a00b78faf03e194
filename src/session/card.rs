//! What a session publishes about itself (R246, R259).

use super::{
    actor::{Stage, State},
    ledger::Side,
};
use crate::id::Address;

/// What the card says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Published {
    stage: Option<Stage>,
    turn: &'static str,
    waiting: usize,
    open: usize,
    bound: bool,
    idle: bool,
    recovery: &'static str,
    host: Option<Address>,
}

impl State {
    /// Whether nothing runs, waits or is open in it (R69).
    pub(super) fn is_idle(&self) -> bool {
        // The turn first: while one streams, nothing else is looked at.
        let quiet = !self.turn.is_active() && self.turn.waiting() == 0 && self.stage == Stage::Live;
        let asked = |side| self.ledger.count(side) > 0;
        quiet
            && self.resuming.recovery.is_settled()
            && self.showing.is_none()
            && self.terminals.is_empty()
            && !asked(Side::Peer)
            && !asked(Side::Host)
    }

    /// Publishes what has changed; most lines change nothing.
    pub(super) fn publish(&mut self) {
        let now = Published {
            stage: Some(self.stage),
            turn: self.turn.word(),
            waiting: self.turn.waiting(),
            open: self.ledger.count(Side::Peer),
            bound: self.peer_session.is_some(),
            idle: self.is_idle(),
            recovery: self.resuming.recovery.word(),
            host: Some(self.order.host.clone()),
        };
        if now == self.published {
            return;
        }
        if now.idle != self.published.idle {
            self.note_idle(now.idle);
        }
        self.card.set("stage", format!("{:?}", self.stage).to_lowercase());
        self.card.set("turn", now.turn);
        self.card.set("waiting", now.waiting);
        self.card.set("open_requests", now.open);
        self.card.set("recovery", now.recovery);
        self.card.set("waiting_permissions", self.waiting.len());
        self.card.set("idle", now.idle);
        self.card.set("can_sleep", self.can_sleep());
        if now.idle && !self.published.idle {
            self.shared.room.one_is_idle();
        }
        let host = if let Address::Host(n) = self.order.host { Some(n) } else { None };
        self.card.set("host", host);
        let peer = self.peer_session.as_deref().and_then(|id| serde_json::from_slice::<String>(id).ok());
        self.card.set("peer_session", peer);
        self.published = now;
    }
}
