//! What became of each prompt (R280).

use serde::{Deserialize, Serialize};

/// One prompt of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptRow {
    /// Counts the prompts of the session, from 1.
    pub number: u64,
    /// How far it has come.
    pub state: PromptState,
    /// Where it came from: `host` or `inbox`.
    pub source: String,
    /// Its stop reason, or in a word why there is none.
    pub outcome: Option<String>,
    /// When it was taken, in milliseconds since the Unix epoch.
    pub taken_ms: i64,
    /// When it ended, likewise.
    pub ended_ms: Option<i64>,
}

/// How far a prompt has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptState {
    /// It waits behind a running turn (R72).
    Waiting,
    /// The agent has it.
    Running,
    /// It was answered, whatever the answer.
    Answered,
    /// The agent never had it.
    NotStarted,
    /// The daemon died while the agent had it.
    Unknown,
}

impl PromptState {
    /// The word that is stored and shown.
    pub fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Answered => "answered",
            Self::NotStarted => "not_started",
            Self::Unknown => "unknown",
        }
    }

    /// The state that is stored under this word.
    pub fn of(word: &str) -> Option<Self> {
        [Self::Waiting, Self::Running, Self::Answered, Self::NotStarted, Self::Unknown]
            .into_iter()
            .find(|state| state.word() == word)
    }
}
