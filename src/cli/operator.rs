//! The operator's side of the control socket: one request, one answer (R257).
//!
//! Owns one connection. Never waits for ever: an answer that does not come is an error.

use std::{
    borrow::Cow,
    io::{self, BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    process::ExitCode,
    time::{Duration, Instant},
};

use serde::Deserialize;
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};
use thiserror::Error;

use super::{
    Failure, Globals, print,
    style::{self, Style},
};
use crate::{
    config::Paths,
    limits::LINE_BYTES_MAX,
    start::{self, Socket, StartError},
};

/// Longest wait for an answer; closing a session takes as long as its process may take to end.
const ANSWER_MAX: Duration = Duration::from_secs(70);
/// Longest line of the daemon's: an event may hold a line of an agent and what it says once more.
const SAID_BYTES_MAX: usize = 4 * LINE_BYTES_MAX;
/// What a prefix of an id usually means.
const SESSION: &str = "session";
/// Sessions looked at for a prefix: more than that are named by none.
const PREFIX_PAGE: usize = 1_000;
/// Fewest characters that may stand for a whole id: whatever is left out of a script must not mean a session.
const PREFIX_MIN: usize = 4;
/// Candidates shown for an ambiguous session id.
const CANDIDATES_MAX: usize = 10;

/// Why there is no result.
#[derive(Debug, Error)]
pub(super) enum OperatorError {
    /// No daemon.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The connection broke, or nothing came.
    #[error("get an answer to {method} from the daemon: {source}")]
    Lost {
        /// What was asked.
        method: String,
        /// What happened.
        source: io::Error,
    },
    /// The daemon does not serve this connection.
    #[error("be heard by the daemon: it says: {message}")]
    TurnedAway {
        /// The daemon's words.
        message: String,
    },
    /// The daemon said no.
    #[error("get {method} done: the daemon says: {message} ({code})")]
    Refused {
        /// What was asked.
        method: String,
        /// The daemon's words.
        message: String,
        /// JSON-RPC code.
        code: i64,
    },
    /// Too little to be meant for one session, or message.
    #[error(
        "tell which {what} {prefix:?} is: give {PREFIX_MIN} characters of its id at least; see: {}",
        list(what)
    )]
    TooShort {
        /// What was meant.
        what: &'static str,
        /// What was typed.
        prefix: String,
    },
    /// None has an id that starts so.
    #[error("find the {what} {prefix}: no id starts with that; see: {}", list(what))]
    NoSuch {
        /// What was meant.
        what: &'static str,
        /// What was typed.
        prefix: String,
    },
    /// More than one has.
    #[error("tell which {what} {prefix} is; more than one id starts with that:\n  {}", candidates.join("\n  "))]
    Ambiguous {
        /// What was meant.
        what: &'static str,
        /// What was typed.
        prefix: String,
        /// What it could mean.
        candidates: Vec<String>,
    },
}

/// A connection to the control socket.
#[derive(Debug)]
pub(super) struct Operator {
    stream: BufReader<UnixStream>,
    /// The line that is not whole yet.
    begun: Vec<u8>,
    next: u64,
}

/// A line of the daemon's.
#[derive(Deserialize)]
struct Said<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    error: Option<Refusal>,
}

/// Something that the daemon tells unasked.
pub(super) struct Told<'a> {
    /// What.
    pub method: &'a str,
    /// Its params.
    pub params: &'a RawValue,
}

#[derive(Deserialize)]
struct Refusal {
    #[serde(default)]
    code: i64,
    #[serde(default)]
    message: String,
}

impl<'a> Said<'a> {
    fn read(line: &'a str) -> io::Result<Self> {
        serde_json::from_str(line).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// The result, when it is the answer to that request.
    fn answer_to(&self, id: &str, method: &str) -> Result<Option<Box<RawValue>>, OperatorError> {
        match (self.id, &self.error) {
            // under no id: it is about the connection
            (None, Some(refusal)) => Err(OperatorError::TurnedAway { message: refusal.message.clone() }),
            (Some(answered), Some(refusal)) if answered.get() == id => Err(OperatorError::Refused {
                method: method.to_owned(),
                message: refusal.message.clone(),
                code: refusal.code,
            }),
            (Some(answered), None) if answered.get() == id && self.method.is_none() => {
                Ok(Some(self.result.map_or_else(null, ToOwned::to_owned)))
            }
            _ => Ok(None),
        }
    }

    fn told(&self) -> Option<Told<'_>> {
        let method = self.method.as_deref().filter(|_| self.id.is_none())?;
        Some(Told { method, params: self.params.unwrap_or(RawValue::NULL) })
    }
}

/// The params of a line that tells of an event.
pub(super) fn event(line: &str) -> Option<&RawValue> {
    let said = Said::read(line).ok()?;
    said.params.filter(|_| said.id.is_none() && said.method.as_deref() == Some("event"))
}

impl Operator {
    /// Connects to the daemon that runs; starts none.
    pub fn connect(paths: &Paths) -> Result<Self, OperatorError> {
        Ok(Self::over(start::connect(paths, Socket::Control, false)?))
    }

    /// Speaks over that connection.
    pub fn over(stream: UnixStream) -> Self {
        Self { stream: BufReader::new(stream), begun: Vec::new(), next: 1 }
    }

    /// One request; its result as the daemon wrote it.
    pub fn call(&mut self, method: &str, params: &Value) -> Result<Box<RawValue>, OperatorError> {
        self.call_told(method, params, |_| Ok::<_, OperatorError>(()))
    }

    /// The same, with what is told before the answer.
    pub fn call_told<E: From<OperatorError>>(
        &mut self,
        method: &str,
        params: &Value,
        mut told: impl FnMut(&Told<'_>) -> Result<(), E>,
    ) -> Result<Box<RawValue>, E> {
        let lost = |source| OperatorError::Lost { method: method.to_owned(), source };
        let id = self.next.to_string();
        let request = json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params });
        self.next += 1;
        // a daemon that takes nothing may have said why before it closed the connection
        let unsent = self.stream.get_mut().write_all(format!("{request}\n").as_bytes()).err();
        loop {
            let line = match self.line(Instant::now() + ANSWER_MAX) {
                Ok(line) => line,
                Err(error) => return Err(lost(unsent.unwrap_or(error)).into()),
            };
            let said = Said::read(&line).map_err(lost)?;
            match said.answer_to(&id, method)? {
                Some(result) => return Ok(result),
                None => said.told().map_or(Ok(()), |words| told(&words))?,
            }
        }
    }

    /// What is told unasked, and the next of it; nothing when none comes in time.
    pub fn next_told(&mut self, patience: Duration) -> Result<Option<String>, OperatorError> {
        let lost = |source| OperatorError::Lost { method: "events".to_owned(), source };
        match self.line(Instant::now() + patience) {
            Ok(line) => Ok(Some(line)),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                Ok(None)
            }
            Err(error) => Err(lost(error)),
        }
    }

    /// The one session, live or saved, whose id is that, or starts with that.
    pub fn resolve(&mut self, prefix: &str) -> Result<String, OperatorError> {
        if prefix.is_empty() {
            return Err(OperatorError::TooShort { what: SESSION, prefix: String::new() });
        }
        let params = json!({ "saved": true, "prefix": prefix, "limit": PREFIX_PAGE });
        let listed = self.call("sessions.list", &params)?;
        let listed = value(&listed);
        let sessions = listed["sessions"].as_array().map(Vec::as_slice).unwrap_or_default();
        pick(sessions.iter().filter_map(|session| session["id"].as_str()), prefix, SESSION)
    }

    /// Waits till the daemon has closed the connection; tells whether it did.
    pub fn wait_for_end(&mut self, until: Instant) -> bool {
        loop {
            match self.line(until) {
                Ok(_) => {}
                Err(error) => {
                    return !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
                }
            }
        }
    }

    /// The next line; an error at the end of the connection. One that is not whole in time goes on the next time.
    fn line(&mut self, until: Instant) -> io::Result<String> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.stream.get_ref().set_read_timeout(Some(left))?;
            let available = self.stream.fill_buf()?;
            if available.is_empty() {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection"));
            }
            let newline = memchr::memchr(b'\n', available);
            let taken = newline.map_or(available.len(), |at| at + 1);
            self.begun.extend_from_slice(&available[..taken]);
            self.stream.consume(taken);
            if newline.is_some() {
                return String::from_utf8(std::mem::take(&mut self.begun))
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error));
            }
            if self.begun.len() > SAID_BYTES_MAX {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "its line is longer than 128 MiB"));
            }
        }
    }
}

fn null() -> Box<RawValue> {
    to_raw_value(&Value::Null).expect("null is JSON")
}

/// Where ids of that are shown.
fn list(what: &str) -> &'static str {
    if what == SESSION { "acpvisor ls --all" } else { "acpvisor inbox ID" }
}

/// A whole id wins over longer ones that start with it.
pub(super) fn pick<'a>(
    ids: impl Iterator<Item = &'a str>,
    prefix: &str,
    what: &'static str,
) -> Result<String, OperatorError> {
    let mut candidates: Vec<String> = ids.filter(|id| id.starts_with(prefix)).map(str::to_owned).collect();
    if let Some(exact) = candidates.iter().position(|id| id == prefix) {
        return Ok(candidates.swap_remove(exact));
    }
    if prefix.chars().count() < PREFIX_MIN {
        return Err(OperatorError::TooShort { what, prefix: prefix.to_owned() });
    }
    match candidates.len() {
        0 => Err(OperatorError::NoSuch { what, prefix: prefix.to_owned() }),
        1 => Ok(candidates.swap_remove(0)),
        all => {
            candidates.truncate(CANDIDATES_MAX);
            if all > CANDIDATES_MAX {
                candidates.push(format!("and {} more", all - CANDIDATES_MAX));
            }
            Err(OperatorError::Ambiguous { what, prefix: prefix.to_owned(), candidates })
        }
    }
}

/// An answer as a value.
pub(super) fn value(answer: &RawValue) -> Value {
    serde_json::from_str(answer.get()).unwrap_or_default()
}

/// Gives one order for the session that a prefix names, and says which one it was.
pub(super) fn order(globals: &Globals, prefix: &str, method: &str, done: &str) -> Result<ExitCode, Failure> {
    let mut operator = Operator::connect(&globals.paths()?)?;
    let id = operator.resolve(prefix)?;
    operator.call(method, &json!({ "id": id }))?;
    print(&format!("{done} {id}\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// Asks for something and prints it: as it came, or drawn for people.
pub(super) fn show(
    globals: &Globals,
    method: &str,
    json: bool,
    draw: impl FnOnce(&Value, u64, Style) -> String,
) -> Result<ExitCode, Failure> {
    let answer = Operator::connect(&globals.paths()?)?.call(method, &json!({}))?;
    present(&answer, json, draw)
}

/// Prints an answer: as it came, or drawn for people.
pub(super) fn present(
    answer: &RawValue,
    json: bool,
    draw: impl FnOnce(&Value, u64, Style) -> String,
) -> Result<ExitCode, Failure> {
    if json {
        print(&format!("{answer}\n"))?;
    } else {
        print(&draw(&value(answer), style::now_ms(), Style::of(&io::stdout())))?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// R260: an id may be shortened as long as it stays unique, and the candidates are named when it does not.
    #[test]
    fn a_prefix_must_be_unique() {
        let ids = ["abcd1", "abcd2", "abc", "abcd12"];
        assert_eq!(pick(ids.into_iter(), "abcd2", SESSION).unwrap(), "abcd2");
        assert_eq!(pick(ids.into_iter(), "abcd1", SESSION).unwrap(), "abcd1", "a whole id wins");
        assert_eq!(pick(ids.into_iter(), "abc", SESSION).unwrap(), "abc", "however short it is");
        assert!(matches!(pick(ids.into_iter(), "xxxx", SESSION), Err(OperatorError::NoSuch { .. })));
        let said = pick(ids.into_iter(), "abcd", SESSION).unwrap_err().to_string();
        assert!(["abcd1", "abcd2", "abcd12"].iter().all(|id| said.contains(id)), "{said}");
    }

    /// R260: nothing, or next to nothing, names no session, not even the only one.
    #[test]
    fn a_prefix_must_be_long_enough_to_be_meant() {
        for prefix in ["", "a", "abc", "äöü"] {
            let picked = pick(["abcdef"].into_iter(), prefix, SESSION);
            assert!(matches!(picked, Err(OperatorError::TooShort { .. })), "{prefix}");
        }
        assert_eq!(pick(["abcdef"].into_iter(), "abcd", SESSION).unwrap(), "abcdef");
    }

    /// R255: a daemon that refused the connection before it was asked anything is heard all the same.
    #[test]
    fn a_reason_is_heard_from_a_connection_that_is_closed_already() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(b"{\"id\":null,\"error\":{\"message\":\"you are an agent\"}}\n").unwrap();
        drop(theirs);
        let error = Operator::over(ours).call("shutdown", &json!({})).unwrap_err();
        assert!(matches!(error, OperatorError::TurnedAway { message } if message == "you are an agent"));
    }

    fn daemon_that_says(lines: &'static str) -> Operator {
        let (ours, theirs) = UnixStream::pair().unwrap();
        thread::spawn(move || {
            let mut request = String::new();
            BufReader::new(&theirs).read_line(&mut request).unwrap();
            (&theirs).write_all(lines.as_bytes()).unwrap();
        });
        Operator::over(ours)
    }

    /// R257: the answer is found by its id, and what else comes is passed over.
    #[test]
    fn the_answer_is_the_one_with_our_id() {
        let lines = "{\"method\":\"event\"}\n{\"id\":7,\"result\":0}\n{\"id\":1,\"result\":{\"n\": 1e400}}\n";
        let result = daemon_that_says(lines).call("status", &json!({})).unwrap();
        assert_eq!(result.get(), "{\"n\": 1e400}", "as the daemon wrote it");
    }

    #[test]
    fn a_refusal_and_a_lost_daemon_are_told_apart() {
        let refusal = "{\"id\":1,\"error\":{\"code\":-32002,\"message\":\"unknown session: x\"}}\n";
        let error = daemon_that_says(refusal).call("sessions.cancel", &json!({})).unwrap_err();
        assert_eq!(
            error.to_string(),
            "get sessions.cancel done: the daemon says: unknown session: x (-32002)"
        );
        let refusal = "{\"id\":null,\"error\":{\"code\":-32603,\"message\":\"64 operators\"}}\n";
        let error = daemon_that_says(refusal).call("status", &json!({})).unwrap_err();
        assert_eq!(error.to_string(), "be heard by the daemon: it says: 64 operators");
        let error = daemon_that_says("").call("status", &json!({})).unwrap_err();
        assert!(matches!(error, OperatorError::Lost { .. }), "{error}");
    }
}
