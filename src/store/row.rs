//! One session as it is remembered.

use std::path::PathBuf;

use crate::id::SessionId;

/// What it takes to take a session up again (R53).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The daemon's id.
    pub id: SessionId,
    /// The agent's name in the configuration.
    pub agent: String,
    /// The directory it works in.
    pub cwd: PathBuf,
    /// The peer's own id, as written, quotes included; recorded beside ours (R229).
    pub peer_session: Vec<u8>,
    /// Whether the peer said that it can take the session up again.
    pub resumable: bool,
}
