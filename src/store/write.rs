//! What is written, and who hears that it is.

use std::fmt;

use bytes::Bytes;
use smallvec::SmallVec;

use super::{Entry, EntryState, PromptState, Row, Settings, StoreError};
use crate::{id::SessionId, wire::credit::Credit};

/// Some operations on one session: all of them are committed, or none. Writes of one session keep their order.
#[derive(Debug)]
pub struct Write {
    /// Whose.
    pub session: SessionId,
    /// What, in order.
    pub ops: SmallVec<[Op; 2]>,
    /// Whether the acknowledgement waits until it is on the disk; else it survives the death of the process and is
    /// synced within 1 s (R273).
    pub sync: bool,
    /// What was lent for the lines: returned when they are committed (R274).
    pub credit: Credit,
    /// Who hears of it. Without one, a write that finds no space is kept and tried again, and keeps its credit.
    pub ack: Option<Ack>,
}

/// One change.
#[derive(Debug)]
pub enum Op {
    /// A new session. [`StoreError::Exists`] when there is one of that id.
    Create(Box<Row>),
    /// A new session with the history of this one as it stands: frames and prompts that are answered, no inbox
    /// (R46, R47). The row names the new one; its settings are those of the other, and so are its params when the row
    /// has none, and its title. [`StoreError::Unknown`] without the other.
    Fork(SessionId, Box<Row>),
    /// Lines of the conversation: one row.
    Frames(Kind, Vec<Bytes>),
    /// The peer's own id changed.
    PeerSession(Vec<u8>),
    /// The peer calls it this.
    Title(Option<String>),
    /// What is set in it now.
    Settings(Settings),
    /// A prompt was taken, in this state, from this source.
    Prompt(u64, PromptState, &'static str),
    /// It came so far, with this outcome.
    PromptTo(u64, PromptState, Option<String>),
    /// A message for the inbox; one whose id is known changes nothing (R188).
    Enqueue(Entry),
    /// Those entries run, if they wait and still say that (R295). Counts an attempt.
    Begin(Vec<(String, String)>),
    /// Those entries are in that state now; running counts an attempt.
    Entries(Vec<String>, EntryState),
    /// An entry that waits says this from now on (R295).
    Rewrite(String, String),
    /// An entry that waits, is done, or cannot be known is taken out (R295).
    Remove(String),
    /// Everything that waits in the inbox is discarded (R50).
    Discard,
    /// Its rows behind `after` and up to `upto` are replaced by these, at the places of the first of them (R289). There
    /// must be as many.
    Replace {
        /// Behind which row.
        after: i64,
        /// Up to which row.
        upto: i64,
        /// What stands there instead: whole lines, each ended by LF.
        rows: Vec<(Kind, Bytes)>,
    },
    /// The session with everything that belongs to it; an unknown one is no error (R285).
    Delete,
}

/// Whose lines a row holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Of the peer, as they came.
    Peer,
    /// To the peer.
    Sent,
    /// Of the peer, kept and not passed on: no JSON, another session's, an answer to nothing (R5, R6, R105).
    Stray,
    /// The daemon's own record: one JSON object a line, with a member `mark`.
    Mark,
    /// History that was made shorter (R289): replayed as it stands.
    Compact,
}

impl Write {
    /// Bytes of its lines.
    pub(super) fn bytes(&self) -> usize {
        let lines = self.ops.iter().map(|op| match op {
            Op::Frames(_, lines) => lines.iter().map(Bytes::len).sum(),
            Op::Replace { rows, .. } => rows.iter().map(|(_, lines)| lines.len()).sum(),
            _ => 0,
        });
        lines.sum()
    }

    /// Whether it ends the session.
    pub(super) fn deletes(&self) -> bool {
        self.ops.iter().any(|op| matches!(op, Op::Delete))
    }

    /// Every session that it reads or changes.
    pub(super) fn concerns(&self) -> impl Iterator<Item = &SessionId> {
        let sources = self.ops.iter().filter_map(|op| match op {
            Op::Fork(source, _) => Some(source),
            _ => None,
        });
        std::iter::once(&self.session).chain(sources)
    }
}

impl Kind {
    /// The number that is stored.
    pub fn number(self) -> i64 {
        match self {
            Self::Peer => 0,
            Self::Sent => 1,
            Self::Stray => 2,
            Self::Mark => 3,
            Self::Compact => 4,
        }
    }

    /// The kind of that number.
    pub fn of(number: i64) -> Option<Self> {
        [Self::Peer, Self::Sent, Self::Stray, Self::Mark, Self::Compact]
            .into_iter()
            .find(|kind| kind.number() == number)
    }
}

/// Told once what became of a write: the number of the last row as of it, or why nothing of it is kept. Dropped with
/// the writer, it says [`StoreError::Closed`].
pub struct Ack(Option<Told>);

type Told = Box<dyn FnOnce(Result<i64, StoreError>) + Send>;

impl Ack {
    /// Calls this.
    pub fn new(told: impl FnOnce(Result<i64, StoreError>) + Send + 'static) -> Self {
        Self(Some(Box::new(told)))
    }

    /// Says it.
    pub fn say(mut self, outcome: Result<i64, StoreError>) {
        if let Some(told) = self.0.take() {
            told(outcome);
        }
    }
}

impl Drop for Ack {
    fn drop(&mut self) {
        if let Some(told) = self.0.take() {
            told(Err(StoreError::Closed));
        }
    }
}

impl fmt::Debug for Ack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ack")
    }
}
