//! The file: where it lies, whose it is, how it is set up, and what is refused (R273).
//!
//! A file that is damaged, a stranger's or of a newer daemon is told of and left as it is. Nothing here takes longer
//! with a larger file.

use std::{
    fs::{self, DirBuilder, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, ErrorCode, OpenFlags, ffi};
use tokio::sync::watch;

use super::{
    Reader, Repaired, StoreError,
    creation::{self, Failed},
    failure::Setback,
    migration::{self, VERSIONS},
    repair,
    wal::{Wal, beside},
};
use crate::{
    fault,
    limits::{SESSION_BYTES_MAX, STORE_LOCK_MS_MAX},
};

/// The file's name in the state directory.
const FILE: &str = "sessions.db";
/// Marks the file as one of ours.
const APPLICATION: i32 = i32::from_be_bytes(*b"acpv");
/// What to do about a file that cannot be used.
const WRITABLE: &str = "file and directory must be the daemon's own and writable";
/// The same about a disk.
const SPACE: &str = "free some space where it lies";
/// Statements that are kept ready.
const STATEMENTS: usize = 64;

/// How the writing connection is set up. Deleted text is overwritten where its page is written anyway; what is left
/// of it in free pages is cut off with them (R285). A log of 16 MiB is measured to be the best.
const SETTINGS: &str = "
PRAGMA secure_delete = FAST;
PRAGMA synchronous = NORMAL;
PRAGMA wal_autocheckpoint = 4000;
PRAGMA journal_size_limit = 67108864;
PRAGMA temp_store = MEMORY;
PRAGMA trusted_schema = OFF;
";

/// What happens before each commit: nothing, but for faults on demand.
pub(super) type Strain = Box<dyn FnMut(&Connection) -> rusqlite::Result<()> + Send>;

/// A store that may be used.
pub struct Opened {
    /// The only connection that writes.
    pub(super) connection: Connection,
    /// Where it lies.
    pub(super) path: PathBuf,
    /// Its log, to be synced.
    pub(super) wal: Wal,
    /// Says the number of the last row that is committed.
    pub(super) latest: watch::Sender<i64>,
    pub(super) strain: Strain,
    /// For everybody else.
    pub reader: Reader,
    /// What the former daemon was busy with.
    pub repaired: Repaired,
    /// What a session may hold before it is told to be too large (R289). To be set before the store is started.
    pub session_bytes_max: u64,
}

/// Opens the store in that directory, or makes it; then says of every prompt and inbox entry that the former daemon
/// was busy with what is known of it (R184, R280).
pub fn open(directory: &Path) -> Result<Opened, StoreError> {
    let path = directory.join(FILE);
    let unusable = |error| unusable(&path, &error);
    place(directory, &path)?;
    recognise(&path)?;
    let mut connection = connect(&path)?;
    let failed = |error| explain(&path, &error);
    migration::bring(&mut connection, VERSIONS, APPLICATION).map_err(failed)?;
    let repaired = repair::repair(&mut connection).map_err(failed)?;
    let last = last(&connection).map_err(failed)?;
    let mut wal = Wal::open(&path).map_err(unusable)?;
    if !repaired.is_empty() {
        wal.sync().map_err(unusable)?;
    }
    let (latest, seen) = watch::channel(last);
    Ok(Opened {
        connection,
        reader: Reader::new(path.clone(), seen),
        path,
        wal,
        latest,
        strain: Box::new(|_| fault::commit().map_err(injected)),
        repaired,
        session_bytes_max: SESSION_BYTES_MAX,
    })
}

/// Makes the file when there is none, or one without anything in it.
fn place(directory: &Path, path: &Path) -> Result<(), StoreError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|error| unusable(path, &error))?;
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => Err(unusable(path, &io::ErrorKind::IsADirectory.into())),
        Ok(found) if found.len() > 0 => Ok(()),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(unusable(path, &error)),
        _ => creation::create(path, APPLICATION).map_err(|failed| match failed {
            Failed::File(error) => unusable(path, &error),
            Failed::Sqlite(error) => explain(path, &error),
            Failed::Orphan(_) => refused(path, failed.to_string()),
        }),
    }
}

/// Looks whose file it is, through a connection that cannot change it; then makes it private again if it is ours.
fn recognise(path: &Path) -> Result<(), StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let look = || {
        let connection = Connection::open_with_flags(path, flags)?;
        let kind: i32 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
        Ok((kind, migration::version(&connection)?))
    };
    let (kind, version) = look().map_err(|error| explain(path, &error))?;
    if kind != APPLICATION {
        let why = "it is a database of another program; move it away, or choose another state directory";
        return Err(refused(path, why.to_owned()));
    }
    if version > VERSIONS.len() {
        return Err(refused(
            path,
            format!(
                "its schema is version {version} and this acpvisor knows versions up to {}; \
                 start a newer acpvisor, or move the file away to begin without it",
                VERSIONS.len()
            ),
        ));
    }
    make_private(path).map_err(|error| unusable(path, &error))
}

fn make_private(path: &Path) -> io::Result<()> {
    for file in [path.to_owned(), beside(path, "-wal"), beside(path, "-shm")] {
        let loose = fs::metadata(&file).is_ok_and(|found| found.permissions().mode() & 0o077 != 0);
        if loose {
            fs::set_permissions(&file, Permissions::from_mode(0o600))?;
        }
    }
    Ok(())
}

fn connect(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let set_up = || {
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(Duration::from_millis(STORE_LOCK_MS_MAX))?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        connection.execute_batch(SETTINGS)?;
        connection.pragma_update(None, "foreign_keys", true)?;
        let mode: String =
            connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
        Ok((connection, mode))
    };
    let (connection, mode) = set_up().map_err(|error| explain(path, &error))?;
    if mode != "wal" {
        let why = format!("no log can be kept beside it (its journal mode is {mode}); use a local disk");
        return Err(refused(path, why));
    }
    Ok(connection)
}

/// The number of the last row there ever was.
fn last(connection: &Connection) -> rusqlite::Result<i64> {
    const LAST: &str = "SELECT max(ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'frame'), 0),
        ifnull((SELECT max(id) FROM frame), 0))";
    connection.query_row(LAST, [], |row| row.get(0))
}

fn refused(path: &Path, why: String) -> StoreError {
    StoreError::Open { path: path.to_owned(), why }
}

fn unusable(path: &Path, error: &io::Error) -> StoreError {
    let full = error.kind() == io::ErrorKind::StorageFull;
    refused(path, format!("{error}; {}", if full { SPACE } else { WRITABLE }))
}

/// What SQLite says, and what to do.
fn explain(path: &Path, error: &rusqlite::Error) -> StoreError {
    let what_to_do = match error.sqlite_error_code() {
        _ if Setback::of(error, path) == Setback::Full => SPACE,
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            "it was left as it is; `sqlite3 FILE .recover` prints what can be read of it, and without it and its \
             -wal acpvisor begins anew"
        }
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => WRITABLE,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => "another program holds it; end that one",
        _ => return refused(path, error.to_string()),
    };
    refused(path, format!("{error}; {what_to_do}"))
}

fn injected(error: io::Error) -> rusqlite::Error {
    let full = error.kind() == io::ErrorKind::StorageFull;
    let code = if full { ffi::SQLITE_FULL } else { ffi::SQLITE_IOERR_WRITE };
    rusqlite::Error::SqliteFailure(ffi::Error::new(code), Some(error.to_string()))
}
