//! A new file, made under another name: at its own it is whole, or it is not there (R273).

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use rusqlite::{Connection, OpenFlags};

use super::{
    migration::{self, VERSIONS},
    wal::beside,
};

/// Why it could not be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failed {
    #[error(transparent)]
    File(#[from] io::Error),
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    /// Somebody moved the store away and forgot a part of it, or will miss it.
    #[error("its log {0} lies there without it; put the file back, or move the log away to begin anew")]
    Orphan(String),
}

/// Free pages can be cut off. The pages stay as small as they are by default, because a commit writes half a dozen of
/// them for one short line; a batch of lines is no faster in larger ones. Nothing is synced before all is done.
const LAYOUT: &str = "PRAGMA synchronous = OFF; PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL;";

/// Makes it.
pub(super) fn create(path: &Path, kind: i32) -> Result<(), Failed> {
    let log = beside(path, "-wal");
    if fs::metadata(&log).is_ok_and(|found| found.len() > 0) {
        return Err(Failed::Orphan(log.display().to_string()));
    }
    let draft = beside(path, "-draft");
    for left in ["", "-wal", "-shm", "-journal"] {
        remove(&beside(&draft, left))?;
    }
    // private from its first moment; SQLite gives its own files the same mode
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    fill(&draft, kind)?;
    File::open(&draft)?.sync_all()?;
    Ok(fs::rename(&draft, path)?)
}

/// What a daemon left that died meanwhile.
fn remove(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn fill(draft: &Path, kind: i32) -> rusqlite::Result<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(draft, flags)?;
    connection.execute_batch(LAYOUT)?;
    migration::bring(&mut connection, VERSIONS, kind)?;
    // the log goes into the file with the last connection
    connection.close().map_err(|(_, error)| error)
}
