//! One message in the inbox of a session (R182, R185).

use serde::{Deserialize, Serialize};

/// A durable message that waits for its session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its id: the caller's own, else a fresh one. Known ids are duplicates (R188).
    pub id: String,
    /// Who sent it: `user`, `session/<id>`, `terminal/<id>` or a caller's own word.
    pub source: String,
    /// What it says.
    pub text: String,
    /// When it was queued, in milliseconds since the Unix epoch.
    pub queued_ms: i64,
    /// How far it has come.
    pub state: EntryState,
    /// Attempts that were made to run it.
    pub attempt: u32,
}

/// How far an entry has come (R185).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EntryState {
    /// It waits.
    Queued,
    /// A turn with it runs.
    Running,
    /// The turn that held it completed.
    Done,
    /// Its session was closed before it ran (R50).
    Discarded,
    /// Its turn was cut off after something was seen of it: nobody can know (R184).
    Indeterminate,
}

impl EntryState {
    /// The word that is stored and shown.
    pub fn word(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Done => "done",
            Self::Discarded => "discarded",
            Self::Indeterminate => "indeterminate",
        }
    }

    /// The state that is stored under this word.
    pub fn of(word: &str) -> Option<Self> {
        [Self::Queued, Self::Running, Self::Done, Self::Discarded, Self::Indeterminate]
            .into_iter()
            .find(|state| state.word() == word)
    }
}
