//! A few connections that read, lent one call at a time. Who finds none waits; no call keeps one for long.

use std::{
    path::{Path, PathBuf},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rusqlite::{Connection, OpenFlags};

use crate::limits::{STORE_LOCK_MS_MAX, STORE_READERS_MAX};

/// Pages that a connection keeps, in KiB.
const CACHE_KIB: i64 = 1_024;

/// The connections.
#[derive(Debug)]
pub(super) struct Pool {
    path: PathBuf,
    shelf: Mutex<Shelf>,
    returned: Condvar,
}

#[derive(Debug, Default)]
struct Shelf {
    idle: Vec<Connection>,
    lent: usize,
}

/// One of them, for a while.
pub(super) struct Lent<'a> {
    pool: &'a Pool,
    connection: Option<Connection>,
}

impl Pool {
    /// Of the store at that path. Nothing is opened before it is needed.
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, shelf: Mutex::default(), returned: Condvar::new() }
    }

    /// Where the store lies.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Calls `work` within one snapshot of the store.
    pub(super) fn read<T, E: From<rusqlite::Error>>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut lent = self.lend();
        let connection = match lent.connection.take() {
            Some(connection) => connection,
            None => connect(&self.path)?,
        };
        // A connection on which anything failed is not used again.
        let snapshot = connection.unchecked_transaction()?;
        let done = work(&snapshot)?;
        snapshot.finish()?;
        lent.connection = Some(connection);
        Ok(done)
    }

    /// An idle one, or leave to open one.
    fn lend(&self) -> Lent<'_> {
        let full = |shelf: &mut Shelf| shelf.lent >= STORE_READERS_MAX;
        let mut shelf = self.returned.wait_while(self.shelf(), full).unwrap_or_else(PoisonError::into_inner);
        shelf.lent += 1;
        Lent { pool: self, connection: shelf.idle.pop() }
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut shelf = self.pool.shelf();
        shelf.lent -= 1;
        shelf.idle.extend(self.connection.take());
        self.pool.returned.notify_one();
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(Duration::from_millis(STORE_LOCK_MS_MAX))?;
    connection.pragma_update(None, "query_only", true)?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    Ok(connection)
}
