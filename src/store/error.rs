//! Why the store did not do what it was asked.

use std::path::PathBuf;

/// One failure, cloneable, because one commit may fail for many.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The file is not there to be used.
    #[error("open the store {}: {why}", path.display())]
    Open {
        /// Which file.
        path: PathBuf,
        /// What is wrong, and what to do.
        why: String,
    },
    /// No space is left; nothing of the write is kept (R274).
    #[error("store session {session}: no space is left where {} lies", path.display())]
    Full {
        /// Whose write.
        session: String,
        /// Which file.
        path: PathBuf,
    },
    /// Reading or writing failed. When the writer says it of itself, the daemon ends with it (R274).
    #[error("use the store {}: {why}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// SQLite's words.
        why: String,
    },
    /// A row does not say what it should: it was changed by somebody else (R185).
    #[error("read session {session} in the store: {why}")]
    Foreign {
        /// Whose row.
        session: String,
        /// Which row and what is wrong with it.
        why: String,
    },
    /// There is no such session.
    #[error("find session {0} in the store")]
    Unknown(String),
    /// There is such a session already.
    #[error("make session {0}: the store holds one of that id")]
    Exists(String),
    /// An inbox holds as much as it may (R186, R189).
    #[error("enqueue for session {session}: its inbox is full: {limit}")]
    QueueFull {
        /// Whose inbox.
        session: String,
        /// Which limit was met.
        limit: String,
    },
    /// The inbox has no entry that this could be done to.
    #[error("change entry {entry} in the inbox of session {session}: {why}")]
    Entry {
        /// Whose inbox.
        session: String,
        /// Which entry.
        entry: String,
        /// Why not.
        why: String,
    },
    /// There is no such prompt, or there is one already (R280).
    #[error("note prompt {number} of session {session}: {why}")]
    Prompt {
        /// Whose.
        session: String,
        /// Which one.
        number: u64,
        /// Why not.
        why: &'static str,
    },
    /// No row of the session lies there (R289).
    #[error("replace rows behind {after} up to {upto} of session {session}: there are none")]
    Range {
        /// Whose.
        session: String,
        /// Behind which row.
        after: i64,
        /// Up to which row.
        upto: i64,
    },
    /// The writer is gone: the daemon stops.
    #[error("use the store: the daemon is stopping")]
    Closed,
}
