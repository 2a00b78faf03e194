//! Params of every method that takes any. Unknown members are refused. Pure.

use std::path::PathBuf;

use serde::Deserialize;

use super::super::events::Kind;

/// Params of a method that takes none.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NoParams {}

/// Which session is meant.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionParams {
    /// Its whole id.
    pub id: String,
}

/// Which sessions are to be listed.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ListParams {
    /// Only those that work there.
    pub cwd: Option<PathBuf>,
    /// Only those whose ids begin so.
    pub prefix: Option<String>,
    /// Whether those are listed too that are only saved.
    pub saved: bool,
    /// At most so many saved ones; 50 without it, at most 1000.
    pub limit: Option<usize>,
    /// Saved ones behind this place, and no live ones: `cursor` of the result before.
    pub cursor: Option<String>,
}

/// A message for a session.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SendParams {
    /// Its whole id.
    pub id: String,
    /// What the message says.
    pub text: String,
    /// Who sends it; `user` without it.
    #[serde(default)]
    pub source: Option<String>,
    /// The sender's own id of the message: one that is known already has no effect.
    #[serde(default)]
    pub entry: Option<String>,
    /// Whether a session that is only saved is brought to life for it.
    #[serde(default)]
    pub wake: bool,
}

/// Which message in the inbox of a session is meant.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntryParams {
    /// The session's whole id.
    pub id: String,
    /// The message's whole id.
    pub entry: String,
}

/// What a message is to say from now on.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EditParams {
    /// The session's whole id.
    pub id: String,
    /// The message's whole id.
    pub entry: String,
    /// What it says.
    pub text: String,
}

/// Which session is wanted in which form.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportParams {
    /// Its whole id.
    pub id: String,
    /// The form.
    pub format: Format,
}

/// In which form a transcript is wanted (R270).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Every line that passed, with its time and direction.
    Ndjson,
    /// What happened, one event a line.
    Events,
    /// What was said, for people.
    Markdown,
}

/// Which events are wanted.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SubscribeParams {
    /// Only those of this session.
    pub session: Option<String>,
    /// Only those of these kinds.
    pub kinds: Option<Vec<Kind>>,
    /// Those too that the store has behind this number.
    pub since: Option<u64>,
}

/// Which stream of events is to end.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnsubscribeParams {
    /// Its number.
    pub subscription: u64,
}
