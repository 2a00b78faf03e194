//! Lets the peer copy its own session for a fork (R46). The copy is closed there and opened in a process of its own.

use std::time::Duration;

use serde_json::{json, value::RawValue};
use tokio::sync::oneshot;

use super::{
    actor::{Msg, Stage, State},
    ledger::{Kind, Side},
};
use crate::{
    id::Token,
    peer::{can_close, can_fork, can_load, can_resume},
    wire::{Call, Envelope, Frame, credit::Credit, frame::Class, patch::Object},
};

/// Who waits for the peer's id of the copy, as written; dropped when there is none.
pub(super) type Copied = oneshot::Sender<Vec<u8>>;

impl State {
    /// Asks the peer for a copy, when it can make one that another process can take up.
    pub(super) fn split(&mut self, copied: Copied) {
        let answer = self.peer.as_ref().and_then(|p| p.answer.as_ref());
        let able = answer.is_some_and(|a| can_fork(a) && (can_resume(a) || can_load(a)));
        if !able || self.stage != Stage::Live {
            return;
        }
        let ours = self.ledger.enter(Side::Ours, 0, Kind::Fork);
        self.splits.push((ours, copied));
        let mut params = Object::of(self.params.as_ref().map_or("{}", |p| p.get()));
        params.set("sessionId", &self.order.id.as_str());
        params.set("cwd", &self.order.cwd);
        if !params.marks("mcpServers") {
            params.set("mcpServers", &json!([]));
        }
        let fork = Frame::request("session/fork", &params);
        self.tell_peer(vec![Envelope::new(Call::Request(ours), fork)], Credit::none());
        self.later(Duration::from_secs(self.order.agent.handshake_s), move || Msg::SplitDue(ours));
    }

    /// The peer answered. Its copy lives in another process from now on.
    pub(super) fn split_answered(&mut self, ours: Token, answer: &Frame) {
        let Some(at) = self.splits.iter().position(|(token, _)| *token == ours) else { return };
        let (_, copied) = self.splits.swap_remove(at);
        let result = Object::of(answer.member("result").map_or("{}", RawValue::get));
        let id = result.get("sessionId").filter(|_| answer.class() == Class::Response { ok: true });
        let Some(id) = id.map(|id| id.get().to_owned()) else {
            tracing::info!(session = %self.order.id, "the agent did not fork; the fork gets the transcript");
            return;
        };
        if self.peer.as_ref().and_then(|p| p.answer.as_ref()).is_some_and(can_close) {
            self.close_copy(&id);
        }
        let _ = copied.send(id.into_bytes());
    }

    fn close_copy(&mut self, id: &str) {
        let id: &RawValue = serde_json::from_str(id).expect("it was a value");
        let mut close = Frame::request("session/close", &json!({ "sessionId": id }));
        // It is the peer's id of another session, and must not be taken for ours.
        close.keep_sessions(b"");
        let ours = self.ledger.enter(Side::Ours, 0, Kind::Other);
        self.tell_peer(vec![Envelope::new(Call::Request(ours), close)], Credit::none());
    }

    /// It took too long: the fork gets the transcript.
    pub(super) fn split_due(&mut self, ours: Token) {
        self.splits.retain(|(token, _)| *token != ours);
    }
}
