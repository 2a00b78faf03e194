//! The versions of the schema, oldest first, and how a file is brought forward (R273).
//!
//! A version that was released never changes; what is new is a further one. All that a file lacks is applied in one
//! transaction, or none of it.

use rusqlite::{Connection, TransactionBehavior};

/// What makes each version of the one before; the first makes it of nothing.
pub(super) const VERSIONS: &[&str] = &[V1];

const V1: &str = "
-- a number is never given twice, so that what is on its way to a session never meets another one
CREATE TABLE session (
    pk INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    agent TEXT NOT NULL,
    cwd BLOB NOT NULL,
    params TEXT NOT NULL,
    peer_session BLOB NOT NULL,
    title TEXT,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    parent TEXT,
    settings TEXT NOT NULL,
    bytes INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX session_updated ON session (updated_ms DESC, pk DESC);
CREATE INDEX session_cwd ON session (cwd, updated_ms DESC, pk DESC);

CREATE TABLE frame (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session INTEGER NOT NULL REFERENCES session (pk) ON DELETE CASCADE,
    time_ms INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    lines BLOB NOT NULL
) STRICT;
-- an index ends with the id anyway
CREATE INDEX frame_session ON frame (session);

CREATE TABLE prompt (
    session INTEGER NOT NULL REFERENCES session (pk) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    state TEXT NOT NULL,
    source TEXT NOT NULL,
    outcome TEXT,
    taken_ms INTEGER NOT NULL,
    ended_ms INTEGER,
    PRIMARY KEY (session, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX prompt_open ON prompt (state) WHERE state = 'waiting' OR state = 'running';

-- pk is the order of the queue; began is the last frame there was when the entry was last taken into a turn
CREATE TABLE inbox (
    pk INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES session (pk) ON DELETE CASCADE,
    id TEXT NOT NULL,
    source TEXT NOT NULL,
    content TEXT NOT NULL,
    queued_ms INTEGER NOT NULL,
    state TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    began INTEGER NOT NULL DEFAULT 0,
    UNIQUE (session, id)
) STRICT;
CREATE INDEX inbox_open ON inbox (state, session) WHERE state = 'queued' OR state = 'running';
";

/// The version that a file is of; 0 when it holds nothing.
pub(super) fn version(connection: &Connection) -> rusqlite::Result<usize> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Brings the file to the last of these versions.
pub(super) fn bring(connection: &mut Connection, versions: &[&str], kind: i32) -> rusqlite::Result<()> {
    let from = version(connection)?;
    if from >= versions.len() {
        return Ok(());
    }
    // A table that is made anew must not take along what refers to it.
    connection.pragma_update(None, "foreign_keys", false)?;
    let work = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    work.pragma_update(None, "application_id", kind)?;
    for step in &versions[from..] {
        work.execute_batch(step)?;
    }
    work.pragma_update(None, "user_version", versions.len())?;
    work.commit()?;
    connection.pragma_update(None, "foreign_keys", true)
}
