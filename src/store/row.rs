//! One session as it is remembered.

use std::path::PathBuf;

use serde::{Deserialize, Deserializer, Serialize, de::IntoDeserializer};

use crate::id::SessionId;

/// What it takes to take a session up again, and to list it (R31, R45, R53).
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The daemon's id.
    pub id: SessionId,
    /// The agent's name in the configuration.
    pub agent: String,
    /// The directory it works in.
    pub cwd: PathBuf,
    /// The params that opened it, as the host wrote them: an object, with `mcpServers` and whatever else (R55).
    pub params: String,
    /// The peer's own id, as written, quotes included; recorded beside ours (R229). Empty before there is one.
    pub peer_session: Vec<u8>,
    /// What the peer calls it.
    pub title: Option<String>,
    /// When it was made, in milliseconds since the Unix epoch.
    pub created_ms: i64,
    /// When something last happened in it, likewise.
    pub updated_ms: i64,
    /// The session it was forked from (R46).
    pub parent: Option<SessionId>,
    /// What was acknowledged to be set in it (R170, R177, R284).
    pub settings: Settings,
}

/// Settings of a session that survive any process (R284).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Who decides what the policy does not (R141). A word that is not known, loudly, is the default (R171).
    #[serde(deserialize_with = "known")]
    pub approval: Approval,
    /// The peer's mode, by its id, when one was set.
    pub mode: Option<String>,
    /// The peer's model, set by the older `session/set_model`.
    pub model: Option<String>,
    /// The peer's options that were set, in the order they were: id, and value as JSON text.
    pub options: Vec<(String, String)>,
}

/// The four approval modes (R141), spelled as they are stored (R171).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "R141 says what each does")]
pub enum Approval {
    #[default]
    Default,
    AutoEdit,
    Yolo,
    Plan,
}

fn known<'de, D: Deserializer<'de>>(stored: D) -> Result<Approval, D::Error> {
    let word = String::deserialize(stored)?;
    let known = Approval::deserialize(word.as_str().into_deserializer());
    Ok(known.unwrap_or_else(|error: serde::de::value::Error| {
        tracing::warn!(stored = word, %error, "approval mode not known: default is in force");
        Approval::Default
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R171: the stored spelling is its own, and what is not known is the default.
    #[test]
    fn an_unknown_approval_is_the_default() {
        let read = |json: &str| serde_json::from_str::<Settings>(json).map(|settings| settings.approval);
        assert_eq!(read(r#"{"approval":"autoEdit"}"#).unwrap(), Approval::AutoEdit);
        assert_eq!(read(r#"{"approval":"auto-edit"}"#).unwrap(), Approval::Default);
        assert_eq!(read(r#"{"approval":"turbo"}"#).unwrap(), Approval::Default);
        assert!(read(r#"{"aproval":"yolo"}"#).is_err());
    }
}
