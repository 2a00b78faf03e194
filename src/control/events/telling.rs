//! Rows of the store as the lines that one subscriber hears (R258). Pure.

use memchr::memchr_iter;
use serde::Serialize;

use super::{
    Kind,
    kind::Wanted,
    note::{Note, Told},
    number,
    tellers::Tellers,
};
use crate::{control::view, store::Stored};

/// What one subscriber hears.
#[derive(Debug, Default)]
pub(super) struct Telling {
    subscription: u64,
    wanted: Wanted,
    /// It has heard what has a number up to this.
    since: u64,
    tellers: Tellers,
    lines: Vec<u8>,
}

#[derive(Serialize)]
struct Notification<'a> {
    jsonrpc: &'a str,
    method: &'a str,
    params: Params<'a>,
}

/// One event, as it is told.
#[derive(Serialize)]
struct Params<'a> {
    subscription: u64,
    seq: u64,
    time: &'a str,
    session: Option<&'a str>,
    kind: Kind,
    event: Told<'a>,
}

impl Telling {
    /// Of that number on its connection, to somebody who heard what has a number up to `since`.
    pub fn new(subscription: u64, wanted: Wanted, since: u64) -> Self {
        Self { subscription, wanted, since, tellers: Tellers::default(), lines: Vec::new() }
    }

    /// Tells what a row means; `name` is what the agent calls the session.
    pub fn row(&mut self, row: &Stored, name: impl FnOnce() -> String) {
        let time = view::moment(row.time_ms);
        let Self { subscription, wanted, since, tellers, lines } = self;
        let teller = tellers.of(&row.session, name);
        let mut closed = false;
        for (n, line) in split(row).enumerate() {
            let mut told = 0;
            teller.line(row.kind, line, &mut |event| {
                let (seq, kind) = (number::of(row.number, n, told), event.kind());
                told += 1;
                closed |= kind == Kind::SessionClosed;
                if seq > *since && wanted.has(kind) {
                    let session = Some(row.session.as_str());
                    let params =
                        Params { subscription: *subscription, seq, time: &time, session, kind, event };
                    write(lines, params);
                }
            });
        }
        if closed {
            self.tellers.forget(&row.session);
        }
    }

    /// Tells something about the stream itself, behind everything up to that row.
    pub fn stream(&mut self, note: Note<'_>, row: i64, now_ms: i64) {
        let event = Told::Note(note);
        let (seq, kind, time) = (number::upto(row), event.kind(), view::moment(now_ms));
        let params = Params { subscription: self.subscription, seq, time: &time, session: None, kind, event };
        write(&mut self.lines, params);
    }

    /// What was left out is not known: nothing that was begun goes on.
    pub fn start_over(&mut self) {
        self.tellers = Tellers::default();
    }

    /// The lines so far, which are then gone.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.lines)
    }
}

fn write(lines: &mut Vec<u8>, params: Params<'_>) {
    let notification = Notification { jsonrpc: "2.0", method: "event", params };
    serde_json::to_writer(&mut *lines, &notification).expect("an event is plain data");
    lines.push(b'\n');
}

/// The lines of a row, without their newlines.
fn split(row: &Stored) -> impl Iterator<Item = bytes::Bytes> {
    let mut from = 0;
    let ends: Vec<usize> = memchr_iter(b'\n', &row.lines).collect();
    ends.into_iter().map(move |end| row.lines.slice(std::mem::replace(&mut from, end + 1)..end))
}
