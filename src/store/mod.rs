//! What outlives its actors: sessions, their transcripts, prompts and inboxes, in one SQLite file (R273).
//!
//! Owns `sessions.db` in the state directory: one [`Store`] actor in front of one writer thread with group commit,
//! and any number of [`Reader`]s that never hold it up. What is acknowledged is committed, and synced where the
//! write asks for it. Nothing else in the house opens the file.
//!
//! ```text
//!   actors -- Write --> Store (mailbox) --> writer (thread): scrub, group, commit --> Ack, watch of the last row
//!   tasks  -- Reader (read-only connections, blocking calls) -------------------------------^
//! ```

mod actor;
mod apply;
mod backlog;
mod commit;
mod creation;
mod decode;
mod entry;
mod error;
mod failure;
mod frames;
mod inbox;
mod migration;
mod outline;
mod pool;
mod prompt;
mod reader;
mod repair;
mod retry;
mod row;
mod schema;
mod scrubbing;
mod shrink;
mod transcript;
mod wal;
mod write;
mod writer;

#[cfg(test)]
mod tests;

pub use actor::{Msg, Oversize, Store};
pub use entry::{Entry, EntryState};
pub use error::StoreError;
pub use outline::{Extent, Tally};
pub use prompt::{PromptRow, PromptState};
pub use reader::{Cursor, Page, Query, Reader, Still, Stored};
pub use repair::Repaired;
pub use row::{Approval, Row, Settings};
pub use schema::{Opened, open};
pub use write::{Ack, Kind, Op, Write};
