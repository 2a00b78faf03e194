//! What went wrong with a turn, in one word that programs can decide by (R75, R202). Pure.
//!
//! A peer's own words serve to find the code and are not said on: each code has a text of its own. What is not known
//! is `runtime`.

mod words;

use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::{Value, json};

use crate::{peer::Death, wire::RpcError};

/// The canonical codes (R202).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    RateLimit,
    Timeout,
    Network,
    ModelUnavailable,
    Capacity,
    Runtime,
    Authentication,
    Permission,
    ContextLimit,
    UnsupportedInput,
}

/// What there was not enough of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// Places in a queue.
    PendingCount,
    /// Bytes of a queue.
    PendingBytes,
    /// Session slots.
    ResidentRuntimes,
}

/// A failure as hosts and the retry of automatic resume see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// Its code.
    pub code: Code,
    /// What there was not enough of, when it is [`Code::Capacity`] and known.
    pub resource: Option<Resource>,
}

impl Code {
    const ALL: [Self; 10] = [
        Self::RateLimit,
        Self::Timeout,
        Self::Network,
        Self::ModelUnavailable,
        Self::Capacity,
        Self::Runtime,
        Self::Authentication,
        Self::Permission,
        Self::ContextLimit,
        Self::UnsupportedInput,
    ];

    /// Its word on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Self::RateLimit => "rate_limit",
            Self::Timeout => "timeout",
            Self::Network => "network",
            Self::ModelUnavailable => "model_unavailable",
            Self::Capacity => "capacity",
            Self::Runtime => "runtime",
            Self::Authentication => "authentication",
            Self::Permission => "permission",
            Self::ContextLimit => "context_limit",
            Self::UnsupportedInput => "unsupported_input",
        }
    }

    /// What it says to people, whatever the peer said.
    pub fn text(self) -> &'static str {
        match self {
            Self::RateLimit => "the model provider limits the rate of requests",
            Self::Timeout => "the time for an answer is over",
            Self::Network => "the model provider could not be reached",
            Self::ModelUnavailable => "the model is not available",
            Self::Capacity => "there is no capacity left",
            Self::Runtime => "the agent failed",
            Self::Authentication => "the agent needs a login",
            Self::Permission => "the model provider does not permit this",
            Self::ContextLimit => "the conversation is longer than the model can read",
            Self::UnsupportedInput => "the model cannot read this kind of input",
        }
    }

    /// Whether the same may work a little later.
    pub fn is_retryable(self) -> bool {
        !matches!(self, Self::Authentication | Self::Permission | Self::ContextLimit | Self::UnsupportedInput)
    }
}

impl Resource {
    const ALL: [Self; 3] = [Self::PendingCount, Self::PendingBytes, Self::ResidentRuntimes];

    /// Its word on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Self::PendingCount => "pending_count",
            Self::PendingBytes => "pending_bytes",
            Self::ResidentRuntimes => "resident_runtimes",
        }
    }
}

impl From<Code> for Failure {
    fn from(code: Code) -> Self {
        Self { code, resource: None }
    }
}

impl Serialize for Failure {
    /// `{code, retryable, resource?}` and nothing else (R200).
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(None)?;
        map.serialize_entry("code", self.code.word())?;
        map.serialize_entry("retryable", &self.code.is_retryable())?;
        if let Some(resource) = self.resource {
            map.serialize_entry("resource", resource.word())?;
        }
        map.end()
    }
}

impl Failure {
    /// Of the error that a prompt was answered with, by its peer or by the daemon itself.
    pub fn of_error(error: &RpcError) -> Self {
        if let Some(known) = error.data.as_ref().and_then(own) {
            return known;
        }
        if error.code == -32000 {
            return Code::Authentication.into();
        }
        words::code(error).unwrap_or(Code::Runtime).into()
    }

    /// Of the end of a process (R251).
    pub fn of_death(death: &Death) -> Self {
        Self::of_error(&death.error())
    }

    /// Whether the same may work a little later.
    pub fn is_retryable(self) -> bool {
        self.code.is_retryable()
    }

    /// What the host hears instead of the peer's words: under the peer's own code when it answered with one (R75).
    pub fn error(self, own: Option<i32>) -> RpcError {
        let why = format!("the turn failed: {}: {}", self.code.word(), self.code.text());
        RpcError::new(own.unwrap_or(-32603), why)
            .with(json!({ "failureType": self.code.word(), "failure": self }))
    }
}

/// A failure that is typed already: by this daemon, or by one behind the peer.
fn own(facts: &Value) -> Option<Failure> {
    let word = |facts: &Value, key: &str| facts.get(key).and_then(Value::as_str).map(str::to_owned);
    let failure = facts.get("failure");
    let resource = word(failure.unwrap_or(facts), "resource");
    let resource = Resource::ALL.into_iter().find(|r| resource.as_deref() == Some(r.word()));
    let code = failure.and_then(|f| word(f, "code"));
    let code = Code::ALL.into_iter().find(|c| code.as_deref() == Some(c.word()));
    match (code, resource) {
        (Some(Code::Capacity) | None, Some(_)) => Some(Failure { code: Code::Capacity, resource }),
        (Some(code), _) => Some(code.into()),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{words::LOOKED_AT_BYTES, *};

    fn of(code: i32, message: &str, data: Value) -> Code {
        let error = RpcError::new(code, message);
        Failure::of_error(&if data.is_null() { error } else { error.with(data) }).code
    }

    /// R202: what peers say, in numbers and in words, and the code of it.
    #[test]
    fn errors_of_peers_have_a_canonical_code() {
        use Code::*;
        for (want, code, message, data) in [
            (Authentication, -32000, "Authentication required", Value::Null),
            (Authentication, -32603, "Internal error: API Error: 401 invalid x-api-key", Value::Null),
            (Authentication, -32603, "Internal error", json!({ "details": "please log in first" })),
            (Permission, -32603, "Internal error", json!({ "status": 403 })),
            (Permission, 403, "no", Value::Null),
            (Permission, -32603, "You exceeded your quota (insufficient_quota)", Value::Null),
            (ModelUnavailable, 404, "no", Value::Null),
            (ModelUnavailable, -32603, "Model not found: x", Value::Null),
            (ModelUnavailable, -32603, "API Error: 529 overloaded_error", Value::Null),
            (ModelUnavailable, -32603, "Internal error", json!({ "error": { "type": "overloaded_error" } })),
            (ModelUnavailable, -32603, "HTTP 503", Value::Null),
            (RateLimit, -32603, "429 Too Many Requests", Value::Null),
            (RateLimit, 429, "slow down", Value::Null),
            (RateLimit, -32603, "Internal error", json!({ "code": "rate_limit_exceeded" })),
            (
                RateLimit,
                400,
                r#"{"error":{"status":"RESOURCE_EXHAUSTED","message":"Quota exceeded"}}"#,
                Value::Null,
            ),
            (Timeout, -32603, "request timed out", Value::Null),
            (Timeout, -32603, "Client error '504 Gateway' for url", json!({ "statusCode": "504" })),
            (Network, -32603, "read ECONNRESET", Value::Null),
            (Network, -32603, "Internal error", json!({ "details": "getaddrinfo ENOTFOUND api" })),
            (ContextLimit, -32603, "prompt is too long: 210000 tokens", Value::Null),
            (ContextLimit, 400, "maximum context length is 8192", Value::Null),
            (ContextLimit, -32603, "Internal error", json!({ "status_code": 413 })),
            (UnsupportedInput, -32602, "this model does not support images", Value::Null),
            (UnsupportedInput, -32603, "Unsupported media type: audio/x", Value::Null),
            (
                Runtime,
                -32603,
                "Internal error: API Error: 400 mock error 400",
                json!({ "errorKind": "unknown" }),
            ),
            (Runtime, 400, r#"{"error":{"message":"mock","code":400,"status":"INTERNAL"}}"#, Value::Null),
            (Runtime, 500, "no", Value::Null),
            (Runtime, -32600, "a prompt is already in progress", Value::Null),
            (Runtime, -32602, "Session not found: 401 a-403-b", Value::Null),
            (Runtime, -32603, "wrote 429 lines", Value::Null),
            (Runtime, i32::MIN, "", json!([])),
        ] {
            assert_eq!(of(code, message, data.clone()), want, "{code} {message} {data}");
        }
    }

    /// R202: the daemon's own errors say what they are themselves, with their resource.
    #[test]
    fn own_errors_are_known_by_their_facts() {
        let capacity = |resource| Failure { code: Code::Capacity, resource: Some(resource) };
        let of = |error: &RpcError| Failure::of_error(error);
        assert_eq!(of(&RpcError::capacity(3)), capacity(Resource::ResidentRuntimes));
        assert_eq!(of(&RpcError::pending_bytes()), capacity(Resource::PendingBytes));
        assert_eq!(of(&RpcError::runtime("agent `a` exited, stderr: rate limit")), Code::Runtime.into());
        for code in Code::ALL {
            for resource in [None].into_iter().chain(Resource::ALL.map(Some)) {
                let failure = Failure { code, resource: resource.filter(|_| code == Code::Capacity) };
                assert_eq!(of(&failure.error(None)), failure);
            }
        }
        assert_eq!(
            of(&RpcError::internal("no").with(json!({ "failure": { "code": "new" } }))),
            Code::Runtime.into()
        );
    }

    /// R75: the host's error has the peer's code and none of its words.
    #[test]
    fn the_words_of_the_peer_are_not_said_on() {
        let secret = "401 for key sk-abcdefghijklmnopqrstuvwxyz";
        let error =
            Failure::of_error(&RpcError::new(-32603, format!("API Error: {secret}"))).error(Some(-32603));
        assert_eq!(error.message, "the turn failed: authentication: the agent needs a login");
        let want = json!({ "failureType": "authentication", "failure": { "code": "authentication", "retryable": false } });
        assert_eq!((error.code, error.data), (-32603, Some(want)));
        assert_eq!(Failure::from(Code::Runtime).error(Some(400)).code, 400);
        let retryable = Code::ALL.map(|code| code.is_retryable());
        assert_eq!(retryable, [true, true, true, true, true, true, false, false, false, false]);
    }

    /// R9: an error of any size is read a little way.
    #[test]
    fn only_the_beginning_of_a_long_error_is_looked_at() {
        let long = format!("{}ä rate limit", "x".repeat(LOOKED_AT_BYTES - 1));
        assert_eq!(of(-32603, &long, json!({ "status": 401 })), Code::Runtime);
        assert_eq!(of(-32603, "no", json!({ "a": "rate limit", "b": "x".repeat(1 << 20) })), Code::RateLimit);
    }
}
