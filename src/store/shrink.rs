//! After something was taken out: free pages are cut off and the log is emptied, in small steps, so that nothing of
//! the text stays in the file (R285) and no write waits for long.

use std::time::Duration;

use rusqlite::Connection;

use crate::limits::STORE_LOCK_MS_MAX;

/// Pages that one step takes out of the file.
const PAGES: u32 = 256;

/// How far a step came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shrunk {
    /// There is more to do.
    Partly,
    /// A reader still needs the log.
    Held,
    /// Nothing is left.
    Whole,
}

/// Takes a step.
pub(super) fn step(connection: &Connection) -> rusqlite::Result<Shrunk> {
    if free_pages(connection)? > 0 {
        vacuum(connection)?;
        return Ok(Shrunk::Partly);
    }
    Ok(if empty_log(connection)? { Shrunk::Whole } else { Shrunk::Held })
}

/// Pages without content.
pub(super) fn free_pages(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "freelist_count", |row| row.get(0))
}

/// The pragma frees a page for each of its rows.
fn vacuum(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma(None, "incremental_vacuum", PAGES, |_| Ok(()))
}

/// Moves the log into the file and empties it, unless somebody reads in it right now.
pub(super) fn empty_log(connection: &Connection) -> rusqlite::Result<bool> {
    connection.busy_timeout(Duration::ZERO)?;
    let busy = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
    connection.busy_timeout(Duration::from_millis(STORE_LOCK_MS_MAX))?;
    Ok(busy? == 0)
}
