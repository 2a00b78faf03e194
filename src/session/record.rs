//! What of a session goes on record, and what waits for that (R242, R273, R280).
//!
//! Everything that passes between session and peer is stored, in order. Whoever must not hear of a thing before it is
//! on record waits under a [`Ticket`]: the store says when.

use std::collections::HashMap;

use bytes::Bytes;
use smallvec::{SmallVec, smallvec};

use super::{
    actor::{Msg, State},
    outbox::{Bundle, Ticket},
};
use crate::{
    history::Mark,
    store::{self, Ack, Kind, Op, StoreError, Write},
    wire::{Envelope, Frame, RpcError, credit::Credit},
};

/// What goes on when a write is on record, beside the lines that wait for it.
#[derive(Debug)]
pub(super) enum After {
    /// Nothing more.
    Lines,
    /// The prompt that waits goes to the peer.
    Prompt,
    /// Settings are in force (R170, R177).
    Settings,
    /// History up to there is shown to the host.
    Replay,
}

/// Writes of this session that are not on record yet.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// There is a row: what happens is written down.
    pub kept: bool,
    pending: HashMap<Ticket, After>,
    last: Ticket,
}

impl Record {
    /// Of a session that has a row, or has none yet.
    pub fn of(kept: bool) -> Self {
        Self { kept, ..Self::default() }
    }

    /// A name for what will be on record, by a write that is not out yet.
    pub fn ticket(&mut self) -> Ticket {
        self.last += 1;
        self.last
    }

    /// Whether everything is on record.
    pub fn is_settled(&self) -> bool {
        self.pending.is_empty()
    }
}

/// One operation alone.
pub(super) fn alone(op: Op) -> SmallVec<[Op; 2]> {
    smallvec![op]
}

impl State {
    /// Writes down what nobody waits for.
    pub(super) fn write(&self, ops: SmallVec<[Op; 2]>, credit: Credit) {
        if self.record.kept {
            let session = self.order.id.clone();
            let write = Write { session, ops, sync: false, credit, ack: None };
            let _ = self.shared.store.cast(store::Msg::Write(write));
        }
    }

    /// Writes down what somebody waits for.
    pub(super) fn write_then(&mut self, ops: SmallVec<[Op; 2]>, sync: bool, after: After) -> Ticket {
        let ticket = self.record.ticket();
        self.record.pending.insert(ticket, after);
        let me = self.me.clone();
        let ack = Ack::new(move |outcome| drop(me.cast(Msg::Stored(ticket, outcome))));
        let session = self.order.id.clone();
        let write = Write { session, ops, sync, credit: Credit::none(), ack: Some(ack) };
        let _ = self.shared.store.cast(store::Msg::Write(write));
        ticket
    }

    /// A note of the daemon's own.
    pub(super) fn mark(&self, mark: &Mark<'_>) {
        self.write(alone(noted(mark)), Credit::none());
    }

    /// Lines of the peer, in the order of the wire. Their credit is held until they are stored (R274).
    pub(super) fn keep_lines(&self, kind: Kind, lines: Vec<Bytes>, credit: &mut Credit) {
        if self.record.kept && !lines.is_empty() {
            self.write(alone(Op::Frames(kind, lines)), credit.share());
        }
    }

    /// The same of envelopes.
    pub(super) fn keep(&self, kind: Kind, envelopes: &[Envelope], credit: &mut Credit) {
        if self.record.kept {
            let lines = envelopes.iter().map(|e| e.frame.line().clone()).collect();
            self.keep_lines(kind, lines, credit);
        }
    }

    /// A write is on record, or failed.
    pub(super) fn stored(&mut self, ticket: Ticket, outcome: Result<i64, StoreError>) {
        let Some(after) = self.record.pending.remove(&ticket) else { return };
        let failure = outcome.as_ref().err().map(refusal);
        if let Some(error) = &failure {
            tracing::warn!(session = %self.order.id, error = %error.message, "not on record");
        }
        if failure.is_some() && matches!(after, After::Prompt) {
            self.outbox.forget(ticket);
        }
        let error = failure.as_ref().map(Frame::error);
        self.outbox.settle(ticket, error.as_ref());
        match after {
            After::Lines => {}
            After::Prompt => self.prompt_on_record(ticket, failure),
            After::Settings => self.setting_on_record(failure),
            After::Replay => self.replay_upto(outcome),
        }
        self.post_waiting();
        self.leave_when_settled();
    }

    /// Lines that leave when that is on record, in their place.
    pub(super) fn tell_host_after(&mut self, ticket: Ticket, envelopes: Vec<Envelope>) {
        self.outbox.put_after(ticket, Bundle { envelopes, credit: Credit::none() });
    }

    pub(super) fn post_waiting(&mut self) {
        while let Some(bundle) = self.outbox.next() {
            self.post_host(bundle.envelopes, bundle.credit);
        }
    }
}

/// A note as it is stored.
pub(super) fn noted(mark: &Mark<'_>) -> Op {
    let line = serde_json::to_vec(mark).expect("a note is plain data");
    Op::Frames(Kind::Mark, vec![line.into()])
}

/// What a host hears of a write that failed.
fn refusal(error: &StoreError) -> RpcError {
    let retryable = matches!(error, StoreError::Full { .. });
    RpcError::internal(error.to_string())
        .with(serde_json::json!({ "failureType": "store", "failure": { "code": "runtime", "retryable": retryable } }))
}
