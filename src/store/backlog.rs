//! Writes that found no space and that nobody waits for, by session and in order (R274).
//!
//! Pure. They keep their credit, so that their number is bounded by what was lent.

use std::collections::{HashMap, VecDeque};

use super::Write;
use crate::id::SessionId;

/// The writes.
#[derive(Debug, Default)]
pub(super) struct Backlog(HashMap<SessionId, VecDeque<Write>>);

impl Backlog {
    /// Whether that session has any.
    pub(super) fn holds(&self, session: &SessionId) -> bool {
        self.0.contains_key(session)
    }

    /// Whether there is none at all.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds one behind the others of its session. True for its first.
    pub(super) fn push(&mut self, write: Write) -> bool {
        let waiting = self.0.entry(write.session.clone()).or_default();
        waiting.push_back(write);
        waiting.len() == 1
    }

    /// Whose there are.
    pub(super) fn sessions(&self) -> Vec<SessionId> {
        self.0.keys().cloned().collect()
    }

    /// All of a session, in order.
    pub(super) fn take(&mut self, session: &SessionId) -> VecDeque<Write> {
        self.0.remove(session).unwrap_or_default()
    }

    /// What is left of them comes back.
    pub(super) fn put_back(&mut self, session: &SessionId, left: VecDeque<Write>) {
        if !left.is_empty() {
            self.0.insert(session.clone(), left);
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.0.values().map(VecDeque::len).sum()
    }
}
