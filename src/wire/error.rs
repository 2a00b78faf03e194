//! Errors as JSON-RPC carries them (R238), with the texts that say why (R241).

use serde::Serialize;
use serde_json::{Value, json};

/// Longest name from outside that an error says back, in characters.
const SHOWN_CHARS_MAX: usize = 256;

/// A JSON-RPC error object.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RpcError {
    /// One of the codes of R238, or the peer's own.
    pub code: i32,
    /// What failed, on what, and what to do.
    pub message: String,
    /// Facts for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl RpcError {
    /// Any code.
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The line is no JSON.
    pub fn parse() -> Self {
        Self::new(-32700, "parse error: the line is not valid JSON")
    }

    /// The line is JSON but no request.
    pub fn invalid_request(why: impl Into<String>) -> Self {
        Self::new(-32600, format!("invalid request: {}", why.into()))
    }

    /// Nobody here serves that method.
    pub fn method_not_found(method: &str) -> Self {
        Self::new(-32601, format!("method not found: {}", shown(method)))
    }

    /// The params are wrong; `why` names the member.
    pub fn invalid_params(why: impl Into<String>) -> Self {
        Self::new(-32602, format!("invalid params: {}", why.into()))
    }

    /// It failed; `why` names what and on what.
    pub fn internal(why: impl Into<String>) -> Self {
        Self::new(-32603, why)
    }

    /// No such session here (R54).
    pub fn unknown_session(id: &str) -> Self {
        let id = shown(id);
        Self::new(-32002, format!("unknown session: {id}")).with(json!({ "sessionId": id }))
    }

    /// A session that is there, and somebody else's: for this connection it is none of its own (MH-03).
    pub fn held_elsewhere(id: &str) -> Self {
        let id = shown(id);
        let why = format!("session {id} is held by another connection: load it first");
        Self::new(-32002, why).with(json!({ "sessionId": id }))
    }

    /// Cancelled by `$/cancel_request`.
    pub fn cancelled() -> Self {
        Self::new(-32800, "request cancelled")
    }

    /// No slot is free (R63).
    pub fn capacity(limit: usize) -> Self {
        Self::new(-32603, "no free session slot: close a session or raise limits.sessions_max")
            .with(json!({ "resource": "resident_runtimes", "limit": limit, "retryable": true }))
    }

    /// A queue towards a peer is full (R10).
    pub fn pending_bytes() -> Self {
        Self::new(-32603, "the agent does not read: its queue is full")
            .with(json!({ "resource": "pending_bytes", "retryable": true }))
    }

    /// The process behind a session failed a turn or a request (R75, R251).
    pub fn runtime(why: impl Into<String>) -> Self {
        Self::new(-32603, why)
            .with(json!({ "failureType": "runtime", "failure": { "code": "runtime", "retryable": true } }))
    }

    /// An error object that came over a wire.
    pub fn of(raw: &serde_json::value::RawValue) -> Self {
        let object = super::patch::Object::of(raw.get());
        let text = |key| object.get(key).and_then(|v| serde_json::from_str(v.get()).ok());
        Self {
            code: object.get("code").and_then(|c| c.get().parse().ok()).unwrap_or(-32603),
            message: text("message").unwrap_or_else(|| "the agent gave no message".to_owned()),
            data: object.get("data").and_then(|d| serde_json::from_str(d.get()).ok()),
        }
    }

    /// Adds facts for programs.
    #[must_use]
    pub fn with(mut self, facts: Value) -> Self {
        self.data = Some(facts);
        self
    }
}

/// What came from outside, as far as an error says it back.
fn shown(text: &str) -> &str {
    text.char_indices().nth(SHOWN_CHARS_MAX).map_or(text, |(end, _)| &text[..end])
}

impl std::fmt::Display for RpcError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}
