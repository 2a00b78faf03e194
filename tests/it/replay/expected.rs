//! What must come out of the daemon for what went in. Pure.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::{
    offered,
    session::{Due, Session},
};
use crate::{line, recording::Message};

/// What the daemon answers by itself.
#[derive(Debug)]
pub enum Own {
    /// A result.
    Result,
    /// An error with that code.
    Error(i64),
    /// An error.
    AnyError,
    /// The list of all sessions.
    Listed,
    /// A session that is opened so: what is set there, after its history where it is shown one.
    Opened(Opens),
}

/// How the daemon opens a session by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opens {
    /// `session/load`.
    Load,
    /// `session/resume`.
    Resume,
    /// `session/fork`.
    Fork,
}

impl Own {
    /// Fails unless it is so.
    pub fn check(&self, got: &Message) {
        let code = got.value()["error"]["code"].as_i64();
        let right = match self {
            Self::Result | Self::Listed | Self::Opened(_) => got.succeeds(),
            Self::Error(wanted) => code == Some(*wanted),
            Self::AnyError => code.is_some(),
        };
        assert!(right, "{self:?} was expected: {}", line::shown(got.0.as_bytes()));
    }
}

impl Due {
    /// Whether that line can be this one: the same method, or the answer to the same request.
    pub fn may_be(&self, got: &Message) -> bool {
        let (ours, theirs) = (self.said.method(), got.method());
        ours == theirs && (ours.is_some() || self.said.id() == got.id())
    }

    /// The answer that opens a session tells the daemon's id of it.
    pub fn learn(&self, got: &Message, known: &mut HashMap<String, String>) {
        let of = |m: &Message| m.inner("result", "sessionId");
        if let (Some(theirs), Some(ours)) = (of(&self.said), of(got)) {
            known.insert(theirs, ours);
        }
    }

    /// How the line must read, under the id that the daemon gave it.
    pub fn expected(&self, got: &Message, known: &HashMap<String, String>) -> String {
        let id = got.id().filter(|_| got.method().is_some());
        let text = self.instead.as_ref().unwrap_or(&self.said).translated(id.as_deref(), known);
        escaped(&text)
    }
}

/// Readers that split lines at these hang, so the daemon escapes them (R12).
fn escaped(text: &str) -> String {
    text.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

/// Fails unless the line is that one, byte for byte.
pub fn passes(expected: &str, got: &Message, to: &str) {
    let expected = escaped(expected);
    if expected == got.0 {
        return;
    }
    let at = expected.bytes().zip(got.0.bytes()).take_while(|(a, b)| a == b).count();
    let near = |text: &str| line::shown(&text.as_bytes()[at.saturating_sub(150).min(text.len())..]);
    panic!(
        "{to} got another line, from byte {at} on:\n  {}\ninstead of\n  {}",
        near(&got.0),
        near(&expected)
    );
}

/// Whether both are the same to a reader of JSON.
pub fn reads_as(got: &Message, expected: &str) -> bool {
    got.value() == value(expected)
}

/// The same, where the daemon adds its own to what can be set.
pub fn fits(got: &Message, expected: &str) -> bool {
    let (mut got, mut expected) = (got.value(), value(expected));
    let inner = if expected["result"].is_null() { "params" } else { "result" };
    offered::fits(&got[inner].take(), &expected[inner].take()) && got == expected
}

/// Whether it is the answer to a permission question that nobody wants answered any more.
pub fn cancelled(answer: &Message) -> bool {
    answer.value()["result"] == json!({ "outcome": { "outcome": "cancelled" } })
}

/// What the daemon makes of the answer to a prompt: a cancelled turn is cancelled (R74, R240).
pub fn turn_answer(session: &Session, answer: &Message) -> Option<Message> {
    let rewritten = session.cancelled && answer.inner("result", "stopReason").as_deref() != Some("cancelled");
    let id: Value = serde_json::from_str(&answer.id()?).ok()?;
    let result = json!({ "jsonrpc": "2.0", "id": id, "result": { "stopReason": "cancelled" } });
    rewritten.then(|| Message(result.to_string()))
}

/// What the daemon says by itself: a question taken back, a call shown failed, a notice.
pub fn is_aside(message: &Message) -> bool {
    let update = &message.value()["params"]["update"];
    let failed = || {
        let call = update["sessionUpdate"] == "tool_call_update" && update["status"] == "failed";
        call && update.as_object().is_some_and(|u| u.len() == 3)
    };
    message.method().as_deref() == Some("$/cancel_request")
        || failed()
        || update["_meta"]["acpvisor"].is_object()
}

fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}
