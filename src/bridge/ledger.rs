//! The editor's open requests: which ids still wait for an answer of the daemon (R252, R280).
//!
//! Ids are the raw bytes they had on the wire. A request enters before it is sent and leaves before its answer is
//! written, so whoever closes the ledger holds exactly the ids that nobody else will answer.

use std::{
    collections::HashMap,
    mem,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;

/// Starts of a line that has a method, hence answers nothing: nearly all of a stream of updates.
const NO_ANSWER: [&[u8]; 2] = [br#"{"jsonrpc":"2.0","method":"#, br#"{"method":"#];

/// Shared by the two directions.
#[derive(Default)]
pub(super) struct Ledger {
    book: Mutex<Book>,
    settled: Condvar,
}

#[derive(Default)]
struct Book {
    /// Each id and how many requests bear it: a careless host may use one twice.
    open: HashMap<Box<str>, usize>,
    closed: bool,
}

/// The shallow look at a line.
#[derive(Deserialize)]
struct Shape<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<IgnoredAny>,
}

impl Ledger {
    /// Enters the request that `line` may be. After the close its id comes back and is the caller's to answer.
    pub(super) fn outgoing<'a>(&self, line: &'a [u8]) -> Option<&'a str> {
        let id = request_id(line)?;
        let mut book = self.book();
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
            if let Some(id) = answer_id(line) {
                self.strike(id);
            }
        }
    }

    /// From here on nothing is entered; gives what is open, each id as often as it is.
    pub(super) fn close(&self) -> Vec<Box<str>> {
        let mut book = self.book();
        book.closed = true;
        let open = mem::take(&mut book.open);
        self.settled.notify_all();
        open.into_iter().flat_map(|(id, count)| vec![id; count]).collect()
    }

    /// Waits until nothing is open, or for the time given.
    pub(super) fn settle(&self, patience: Duration) {
        let waited = self.settled.wait_timeout_while(self.book(), patience, |book| !book.open.is_empty());
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn strike(&self, id: &str) {
        let mut book = self.book();
        if let Some(count) = book.open.get_mut(id) {
            *count -= 1;
            if *count == 0 {
                book.open.remove(id);
            }
        }
        if book.open.is_empty() {
            self.settled.notify_all();
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

fn answer_id(line: &[u8]) -> Option<&str> {
    if NO_ANSWER.iter().any(|start| line.starts_with(start)) {
        return None;
    }
    let shape: Shape = serde_json::from_slice(line).ok()?;
    if shape.method.is_some() {
        return None;
    }
    shape.id.map(RawValue::get)
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
