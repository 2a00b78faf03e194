//! What is asked of a program before it is trusted to be an agent, and what counts as an answer. Pure.

use std::time::Duration;

use serde_json::{json, value::RawValue};

use crate::wire::{Frame, Method, RpcError, patch::Object};

/// The protocol version the daemon speaks, the only one (R15, R21).
pub const VERSION: u64 = 1;

/// The `initialize` that a peer gets: what its host declared is what will be served (R20).
pub fn initialize(client_capabilities: &Object) -> Frame {
    Frame::request(
        "initialize",
        &json!({
            "protocolVersion": VERSION,
            "clientCapabilities": client_capabilities,
            "clientInfo": { "name": "acpvisor", "title": "acpvisor", "version": env!("CARGO_PKG_VERSION") },
        }),
    )
}

/// Why a program is not the agent it was taken for.
#[derive(Debug, Clone, thiserror::Error)]
pub enum HandshakeError {
    /// It speaks something else (R21).
    #[error("it speaks protocol version {theirs}, acpvisor speaks {VERSION}")]
    Version {
        /// As it wrote it.
        theirs: String,
    },
    /// It refused to initialise: its own words (R24).
    #[error("it answered initialize with an error: {}", .0.message)]
    Refused(RpcError),
    /// It sends back what it is sent (R26).
    #[error("it is no ACP agent: it sent our own initialize back")]
    Echo,
    /// It did not answer in time (R22).
    #[error("it did not answer {} (request {id}) within {} s; raise handshake_s of the agent if it needs longer", .method.name(), .after.as_secs_f32())]
    Timeout {
        /// What was asked.
        method: Method,
        /// Under which id.
        id: u64,
        /// The deadline.
        after: Duration,
    },
    /// Its answer to `initialize` cannot be read (R9).
    #[error("its answer to initialize cannot be read: {0}")]
    Unreadable(String),
    /// Its answer to `session/new` names no session (R25).
    #[error("its answer to session/new holds no session id")]
    NoSession,
    /// It sent more before the answer than is kept (R105).
    #[error("it sent more updates than are kept before it answered {0}")]
    TooEarly(String),
}

/// Whether this answer to `initialize` is one to go on with (R21).
pub fn check_initialize(result: Option<&RawValue>) -> Result<Object, HandshakeError> {
    let answer = Object::of(result.map_or("{}", RawValue::get));
    match answer.get("protocolVersion").map_or("0", RawValue::get) {
        "1" => Ok(answer),
        theirs => Err(HandshakeError::Version { theirs: theirs.chars().take(40).collect() }),
    }
}

/// The session id in an answer to `session/new`, as written (R25).
pub fn session_id(answer: &Frame) -> Option<Vec<u8>> {
    let result = Object::of(answer.member("result")?.get());
    let id = result.get("sessionId")?.get();
    let blank = serde_json::from_str::<String>(id).ok()?.trim().is_empty();
    (!blank).then(|| id.as_bytes().to_vec())
}

/// Whether a peer takes up a session by `session/resume`.
pub fn can_resume(answer: &Object) -> bool {
    answer.object("agentCapabilities").object("sessionCapabilities").marks("resume")
}

/// Whether a peer takes up a session by `session/load`.
pub fn can_load(answer: &Object) -> bool {
    answer.object("agentCapabilities").is_true("loadSession")
}

/// Whether a peer copies a session by `session/fork`.
pub fn can_fork(answer: &Object) -> bool {
    answer.object("agentCapabilities").object("sessionCapabilities").marks("fork")
}

/// Whether a peer closes a session by `session/close`.
pub fn can_close(answer: &Object) -> bool {
    answer.object("agentCapabilities").object("sessionCapabilities").marks("close")
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn frame(line: &str) -> Frame {
        Frame::parse(Bytes::copy_from_slice(line.as_bytes())).expect("JSON")
    }

    /// R21: anything but the integer 1 is another version, missing counts as 0.
    #[test]
    fn only_version_one_is_one() {
        for (answer, theirs) in [("0", "0"), ("2", "2"), ("\"1\"", "\"1\""), ("1.0", "1.0")] {
            let line = format!(r#"{{"id":1,"result":{{"protocolVersion":{answer}}}}}"#);
            let Err(HandshakeError::Version { theirs: t }) = check_initialize(frame(&line).member("result"))
            else {
                panic!("{answer} was taken for 1");
            };
            assert_eq!(t, theirs);
        }
        assert!(check_initialize(frame(r#"{"id":1,"result":{}}"#).member("result")).is_err());
        assert!(
            check_initialize(frame(r#"{"id":1,"result":{"protocolVersion":1}}"#).member("result")).is_ok()
        );
    }

    /// R25: a missing, non-string or blank id is none.
    #[test]
    fn a_session_id_is_a_string_with_something_in_it() {
        for bad in ["{}", r#"{"sessionId":""}"#, r#"{"sessionId":" "}"#, r#"{"sessionId":5}"#, "null"] {
            assert!(session_id(&frame(&format!(r#"{{"id":2,"result":{bad}}}"#))).is_none(), "{bad}");
        }
        let id = session_id(&frame(r#"{"id":2,"result":{"sessionId":"0"}}"#));
        assert_eq!(id.as_deref(), Some(&b"\"0\""[..]));
    }
}
