//! What a peer's error comes to, by its numbers and its turns of phrase. Pure.

use std::io;

use super::Code;
use crate::wire::RpcError;

/// How much of a peer's error is looked at.
pub(super) const LOOKED_AT_BYTES: usize = 8 << 10;

/// The code of an error, when it says enough: first by an HTTP status, then by its words.
pub(super) fn code(error: &RpcError) -> Option<Code> {
    let words = Words::of(error);
    let http = u16::try_from(error.code).ok().and_then(of_status);
    http.or_else(|| words.status()).or_else(|| words.code())
}

/// An HTTP status that says enough by itself.
fn of_status(status: u16) -> Option<Code> {
    match status {
        401 | 407 => Some(Code::Authentication),
        402 | 403 | 451 => Some(Code::Permission),
        404 | 410 | 502 | 503 | 529 => Some(Code::ModelUnavailable),
        408 | 504 => Some(Code::Timeout),
        413 => Some(Code::ContextLimit),
        415 => Some(Code::UnsupportedInput),
        429 => Some(Code::RateLimit),
        _ => None,
    }
}

/// Turns of phrase, those first that speak against another try.
const PHRASES: &[(Code, &[&str])] = &[
    (
        Code::ContextLimit,
        &[
            "context length",
            "context_length",
            "context window",
            "context limit",
            "context_limit",
            "maximum context",
            "prompt is too long",
            "prompt too long",
            "input is too long",
            "too many tokens",
        ],
    ),
    (
        Code::Authentication,
        &[
            "unauthorized",
            "unauthenticated",
            "authentication",
            "invalid api key",
            "invalid_api_key",
            "invalid x-api-key",
            "missing api key",
            "not logged in",
            "please log in",
            "login required",
        ],
    ),
    (
        Code::Permission,
        &[
            "forbidden",
            "permission denied",
            "permission_denied",
            "permission_error",
            "not authorized",
            "access denied",
            "insufficient_quota",
            "credit balance",
        ],
    ),
    (
        Code::RateLimit,
        &["rate limit", "rate_limit", "ratelimit", "rate-limit", "too many requests", "quota", "throttl"],
    ),
    (Code::ModelUnavailable, &["overloaded", "unknown model", "no such model", "service unavailable"]),
    (Code::Timeout, &["timeout", "timed out", "timedout", "deadline exceeded", "deadline_exceeded"]),
    (
        Code::Network,
        &[
            "econnreset",
            "econnrefused",
            "econnaborted",
            "enotfound",
            "enetunreach",
            "ehostunreach",
            "eai_again",
            "epipe",
            "getaddrinfo",
            "socket hang up",
            "fetch failed",
            "network error",
            "network_error",
            "connection reset",
            "connection refused",
            "connection closed",
            "connection error",
        ],
    ),
];

/// What a model may be unable to read, and how that is said.
const INPUTS: &[&str] = &["image", "audio", "vision", "media type", "multimodal"];
const UNSUPPORTED: &[&str] = &["unsupported", "not support", "n't support"];
/// How a model is missing.
const MISSING: &[&str] = &["not found", "not_found", "not available", "unavailable", "not exist"];

/// What stands before a number that is an HTTP status.
const BEFORE_STATUS: [&str; 6] = ["status", "statuscode", "httpstatus", "http", "error", "code"];
/// What stands behind one.
const AFTER_STATUS: [&str; 7] = ["bad", "unauthorized", "forbidden", "not", "too", "internal", "service"];

/// A peer's error as text in small letters: message and facts.
struct Words(String);

impl Words {
    fn of(error: &RpcError) -> Self {
        let mut kept = Kept(Vec::new());
        // What does not fit is not looked at.
        let _ = io::Write::write_all(&mut kept, error.message.as_bytes());
        let _ = io::Write::write_all(&mut kept, b" ");
        if let Some(facts) = &error.data {
            let _ = serde_json::to_writer(&mut kept, facts);
        }
        Self(String::from_utf8_lossy(&kept.0).to_ascii_lowercase())
    }

    /// The first HTTP status in there that says enough: a number is one by what stands beside it.
    fn status(&self) -> Option<Code> {
        let separate = |c: char| !c.is_ascii_alphanumeric();
        let words: Vec<&str> = self.0.split(separate).filter(|word| !word.is_empty()).collect();
        (0..words.len()).find_map(|at| {
            let before = at.checked_sub(1).is_some_and(|before| BEFORE_STATUS.contains(&words[before]));
            let after = words.get(at + 1).is_some_and(|after| AFTER_STATUS.contains(after));
            let number = words[at].parse().ok().filter(|_| (before || after) && words[at].len() == 3);
            number.and_then(of_status)
        })
    }

    /// What its words come to.
    fn code(&self) -> Option<Code> {
        if self.say(INPUTS) && self.say(UNSUPPORTED) {
            return Some(Code::UnsupportedInput);
        }
        let said = PHRASES.iter().find(|(_, phrases)| self.say(phrases)).map(|(code, _)| *code);
        said.or_else(|| (self.say(&["model"]) && self.say(MISSING)).then_some(Code::ModelUnavailable))
    }

    fn say(&self, phrases: &[&str]) -> bool {
        phrases.iter().any(|phrase| self.0.contains(phrase))
    }
}

/// Takes so many bytes and no more.
struct Kept(Vec<u8>);

impl io::Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let fits = bytes.len().min(LOOKED_AT_BYTES - self.0.len());
        self.0.extend_from_slice(&bytes[..fits]);
        if fits < bytes.len() { Err(io::ErrorKind::WriteZero.into()) } else { Ok(fits) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
