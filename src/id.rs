//! Names of things: sessions, connections, and the tokens that answers travel by.
//!
//! A [`SessionId`] is the daemon's own and the only session id known inside the house; a peer's id never leaves
//! its wire (R229). It is path-safe by construction (R56).

use std::{fmt, sync::Arc};

/// Longest session id accepted (R56).
pub const SESSION_ID_BYTES_MAX: usize = 200;

/// The daemon's id of a session: letters, digits, `.`, `_`, `-`; at most 200 of them; never `.` or `..`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(Arc<str>);

impl SessionId {
    /// A fresh, time-ordered id (R34).
    pub fn fresh() -> Self {
        Self(uuid::Uuid::now_v7().to_string().into())
    }

    /// Takes an id that came from outside; `None` when it could not be one of ours (R56).
    pub fn parse(text: &str) -> Option<Self> {
        let ok = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        let starts_well = text.as_bytes().first().is_some_and(|b| *b != b'.');
        (starts_well && text.len() <= SESSION_ID_BYTES_MAX && text.bytes().all(ok)).then(|| Self(text.into()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Number of a host or operator connection, ascending for the life of the daemon.
pub type ConnectionId = u64;

/// Counts the processes that stood behind one session, from 1.
pub type Generation = u32;

/// Where a letter can be sent.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    /// The root supervisor.
    Root,
    /// The supervisor of all berths.
    Berths,
    /// A host connection.
    Host(ConnectionId),
    /// A live session.
    Session(SessionId),
    /// One process behind a session.
    Peer(SessionId, Generation),
    /// Whoever is not there: what is sent there is lost.
    Nobody,
}

/// Names one open request to the actor that minted it. Means nothing anywhere else.
pub type Token = u64;

#[cfg(test)]
mod tests {
    use super::*;

    /// R56: ids from outside that could leave a directory are refused.
    #[test]
    fn ids_that_are_no_file_names_are_refused() {
        for bad in ["", ".", "..", ".hidden", "../x", "a/b", "a\\b", "a b", "ä", "a\0b", &"x".repeat(201)] {
            assert!(SessionId::parse(bad).is_none(), "{bad:?}");
        }
        for good in ["a", "_x", "-x", "0.1", &"x".repeat(200), SessionId::fresh().as_str()] {
            assert!(SessionId::parse(good).is_some(), "{good:?}");
        }
    }

    /// R34: ids sort by their time of birth.
    #[test]
    fn fresh_ids_ascend() {
        let ids: Vec<_> = (0..100).map(|_| SessionId::fresh()).collect();
        assert!(ids.windows(2).all(|w| w[0] < w[1]));
    }
}
