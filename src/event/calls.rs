//! The tool calls of a session that have not ended (R95, R106).
//!
//! Owns kind, title and subject of each, cut, so that all of them together are bounded by their number. The
//! oldest is forgotten when one more comes.

use std::collections::VecDeque;

use super::{SUMMARY_CHARS_MAX, cut, reading::Update, reading::text};
use crate::limits::{MIB, TOOL_CALL_ID_BYTES_MAX, TOOL_CALLS_MAX};

/// A character takes four bytes at most; a call keeps an id and three cut texts.
const CALL_BYTES_MAX: usize = TOOL_CALL_ID_BYTES_MAX + 3 * 4 * SUMMARY_CHARS_MAX;
const _: () =
    assert!(TOOL_CALLS_MAX * CALL_BYTES_MAX <= 8 * MIB, "R106: remembered calls take 8 MiB at most");

/// What is known of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// ACP kind; `other` when none was given.
    pub kind: Box<str>,
    /// Title as displayed.
    pub title: Box<str>,
    /// The command, or else the first location. Never the title.
    pub subject: Option<Box<str>>,
}

impl Call {
    /// What a `tool_call` or a `tool_call_update` says of itself.
    pub(super) fn described_by(update: &Update<'_>) -> Self {
        Self { kind: "other".into(), title: "".into(), subject: None }.amended(update)
    }

    /// The same call with what an update says of it.
    pub(super) fn amended(mut self, update: &Update<'_>) -> Self {
        self.amend(update);
        self
    }

    fn amend(&mut self, update: &Update<'_>) {
        if let Some(kind) = text(update.tool_kind) {
            self.kind = cut(&kind).into();
        }
        if let Some(title) = text(update.title) {
            self.title = cut(&title).into();
        }
        if let Some(subject) = update.subject() {
            self.subject = Some(cut(&subject).into());
        }
    }
}

#[derive(Debug)]
struct Known {
    id: Box<str>,
    call: Call,
    settled: bool,
}

/// All of them, oldest first.
#[derive(Debug, Default)]
pub(super) struct Calls(VecDeque<Known>);

impl Calls {
    pub fn announce(&mut self, id: &str, call: Call) {
        self.end(id);
        if self.0.len() == TOOL_CALLS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(Known { id: id.into(), call, settled: false });
    }

    pub fn amend(&mut self, id: &str, update: &Update<'_>) {
        if let Some(known) = self.find(id) {
            known.call.amend(update);
        }
    }

    /// It was refused: it may still be reported on, but nobody waits for that.
    pub fn settle(&mut self, id: &str) {
        if let Some(known) = self.find(id) {
            known.settled = true;
        }
    }

    pub fn end(&mut self, id: &str) -> Option<Call> {
        let at = self.0.iter().position(|known| &*known.id == id)?;
        self.0.remove(at).map(|known| known.call)
    }

    pub fn get(&self, id: &str) -> Option<&Call> {
        self.0.iter().find(|known| &*known.id == id).map(|known| &known.call)
    }

    pub fn any_open(&self) -> bool {
        self.0.iter().any(|known| !known.settled)
    }

    fn find(&mut self, id: &str) -> Option<&mut Known> {
        // the newest is the likeliest
        self.0.iter_mut().rev().find(|known| &*known.id == id)
    }
}
