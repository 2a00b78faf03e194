//! The editor's open requests: which ids still wait for an answer of the daemon (R252, R280).
//!
//! Ids are the raw bytes they had on the wire. A request enters before it is sent and leaves before its answer is
//! written, so whoever closes the ledger holds exactly the ids that nobody else will answer.

use std::{
    borrow::Cow,
    collections::HashMap,
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;

/// Starts of a line that has a method, hence answers nothing: nearly all of a stream of updates.
const NO_ANSWER: [&[u8]; 2] = [br#"{"jsonrpc":"2.0","method":"#, br#"{"method":"#];

/// Shared by the two directions.
#[derive(Default)]
pub(super) struct Ledger {
    book: Mutex<Book>,
}

#[derive(Default)]
struct Book {
    /// Each id and how many requests bear it: a careless host may use one twice.
    open: HashMap<Box<str>, usize>,
    closed: bool,
    /// There was a request.
    asked: bool,
    /// The editor asks nothing more.
    ending: bool,
    /// What the daemon's last line said under no id: why it closes the connection, if it does.
    last_word: Option<String>,
}

/// The shallow look at a line.
#[derive(Deserialize)]
struct Shape<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<IgnoredAny>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Reason<'a> {
    #[serde(borrow)]
    message: Cow<'a, str>,
}

impl Ledger {
    /// Enters the request that `line` may be. After the close its id comes back and is the caller's to answer.
    pub(super) fn outgoing<'a>(&self, line: &'a [u8]) -> Option<&'a str> {
        let id = request_id(line)?;
        let mut book = self.book();
        book.asked = true;
        if book.closed {
            return Some(id);
        }
        *book.open.entry(id.into()).or_default() += 1;
        None
    }

    /// Strikes out the requests that these whole lines answer.
    pub(super) fn incoming(&self, lines: &[u8]) {
        let mut rest = lines;
        while let Some(newline) = memchr::memchr(b'\n', rest) {
            let (line, next) = rest.split_at(newline + 1);
            rest = next;
            match said(line) {
                Said::Answer(id) => self.strike(id),
                Said::Reason(word) => self.book().last_word = Some(word),
                // nearly every line, and only after the rare one there is something to forget
                Said::Other => drop(self.book().last_word.take()),
            }
        }
    }

    /// From here on nothing is entered; gives what is open, each id as often as it is.
    pub(super) fn close(&self) -> Vec<Box<str>> {
        let mut book = self.book();
        book.closed = true;
        let open = mem::take(&mut book.open);
        open.into_iter().flat_map(|(id, count)| vec![id; count]).collect()
    }

    /// The editor asks nothing more: what is open still may be answered.
    pub(super) fn last_answers(&self) {
        self.book().ending = true;
    }

    /// Whether the editor ever asked anything.
    pub(super) fn was_asked(&self) -> bool {
        self.book().asked
    }

    /// Whether the editor asks nothing more.
    pub(super) fn is_ending(&self) -> bool {
        self.book().ending
    }

    /// Why the daemon closed the connection, if its last line says so.
    pub(super) fn last_word(&self) -> Option<String> {
        self.book().last_word.clone()
    }

    fn strike(&self, id: &str) {
        let mut book = self.book();
        book.last_word = None;
        if let Some(count) = book.open.get_mut(id) {
            *count -= 1;
            if *count == 0 {
                book.open.remove(id);
            }
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        // every change is complete before anything can panic
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The raw id of a line that is a request. What is no proper JSON is the daemon's to judge.
pub(super) fn request_id(line: &[u8]) -> Option<&str> {
    let shape: Shape = serde_json::from_slice(line).ok()?;
    shape.method?;
    shape.id.map(RawValue::get)
}

/// What a line of the daemon's is to the ledger.
enum Said<'a> {
    /// The answer to this request.
    Answer(&'a str),
    /// An error that answers nothing.
    Reason(String),
    /// Nothing.
    Other,
}

fn said(line: &[u8]) -> Said<'_> {
    if NO_ANSWER.iter().any(|start| line.starts_with(start)) {
        return Said::Other;
    }
    match serde_json::from_slice(line) {
        Ok(Shape { method: None, id: Some(id), .. }) => Said::Answer(id.get()),
        Ok(Shape { method: None, id: None, error: Some(error) }) => serde_json::from_str(error.get())
            .map_or(Said::Other, |Reason { message }| Said::Reason(message.into_owned())),
        _ => Said::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{}}"#;

    #[test]
    fn an_answer_closes_its_request_and_no_other() {
        let ledger = Ledger::default();
        assert_eq!(ledger.outgoing(NEW), None);
        assert_eq!(ledger.outgoing(br#"{"params":{"id":9},"method":"session/prompt","id":"1"}"#), None);
        ledger.incoming(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"id\":\"1\"}}\n");
        assert_eq!(ledger.close(), [Box::from("\"1\"")]);
    }

    #[test]
    fn only_requests_are_entered_and_only_answers_strike() {
        let ledger = Ledger::default();
        for line in
            [&br#"{"method":"session/cancel"}"#[..], br#"{"id":3,"result":{}}"#, b"[]", b"garbage", b""]
        {
            assert_eq!(ledger.outgoing(line), None);
        }
        assert_eq!(ledger.outgoing(NEW), None);
        ledger.incoming(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"fs/read_text_file\"}\n{\"id\":2,\"result\":null}\n\n");
        assert_eq!(ledger.close(), [Box::from("1")]);
    }

    #[test]
    fn only_an_error_under_no_id_that_comes_last_is_a_last_word() {
        let reason = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"too \"many\""}}"#;
        let ledger = Ledger::default();
        ledger.incoming(format!("{reason}\n").as_bytes());
        assert_eq!(ledger.last_word().as_deref(), Some("too \"many\""));
        for after in [r#"{"method":"x"}"#, r#"{"id":1,"result":{}}"#, "", "{}"] {
            ledger.incoming(format!("{reason}\n{after}\n").as_bytes());
            assert_eq!(ledger.last_word(), None, "{after}");
        }
    }

    #[test]
    fn an_id_used_twice_is_owed_two_answers() {
        let ledger = Ledger::default();
        assert_eq!((ledger.outgoing(NEW), ledger.outgoing(NEW)), (None, None));
        ledger.incoming(b"{\"id\":1,\"error\":{}}\n");
        assert_eq!(ledger.close().len(), 1);
        assert!(ledger.close().is_empty());
    }

    #[test]
    fn after_the_close_a_request_is_handed_back() {
        let ledger = Ledger::default();
        assert!(ledger.close().is_empty());
        assert_eq!(ledger.outgoing(NEW), Some("1"));
        assert!(ledger.close().is_empty());
    }
}
