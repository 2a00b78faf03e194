//! Reading beside the writer: read-only connections, blocking calls. Call them where blocking is allowed.

use std::{os::unix::ffi::OsStrExt, path::PathBuf, sync::Arc};

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, params};
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock, watch};

use super::{Entry, Kind, PromptRow, Row, StoreError, decode, failure::Failure, pool::Pool, transcript};
use crate::id::SessionId;

/// Reads the store. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Reader {
    pool: Arc<Pool>,
    latest: watch::Receiver<i64>,
    still: Arc<RwLock<()>>,
}

/// While it is held, rows that are there stay where they are: a transcript can be read page by page (R289).
pub type Still = OwnedRwLockReadGuard<()>;

/// One row of a transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Its number: ascending over all sessions, without a promise that none is left out.
    pub number: i64,
    /// Whose lines they are.
    pub session: SessionId,
    /// When they were stored, in milliseconds since the Unix epoch.
    pub time_ms: i64,
    /// What they are.
    pub kind: Kind,
    /// The lines, each ended by LF.
    pub lines: Bytes,
}

/// Which sessions to list (R45).
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// Only those of that directory.
    pub cwd: Option<PathBuf>,
    /// Only what comes behind that one.
    pub after: Option<Cursor>,
    /// At most so many.
    pub limit: usize,
}

/// Where a page ended. Opaque outside: [`Cursor::to_text`] and [`Cursor::parse`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    updated_ms: i64,
    pk: i64,
}

/// One page of sessions, newest first.
#[derive(Debug, Clone)]
pub struct Page {
    /// The sessions.
    pub rows: Vec<Row>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<Cursor>,
}

impl Cursor {
    /// What a host gets.
    pub fn to_text(&self) -> String {
        format!("{}.{}", self.updated_ms, self.pk)
    }

    /// What a host gives back; `None` when it made it up.
    pub fn parse(text: &str) -> Option<Self> {
        let (updated_ms, pk) = text.split_once('.')?;
        Some(Self { updated_ms: updated_ms.parse().ok()?, pk: pk.parse().ok()? })
    }
}

/// Sessions in whose inbox something waits.
pub(super) const PENDING: &str = "SELECT session.id, session.pk, count(*) FROM inbox
    JOIN session ON session.pk = inbox.session WHERE inbox.state = 'queued'
    GROUP BY session.pk ORDER BY min(inbox.pk)";

impl Reader {
    pub(super) fn new(path: PathBuf, latest: watch::Receiver<i64>) -> Self {
        Self { pool: Arc::new(Pool::new(path)), latest, still: Arc::default() }
    }

    /// Holds rows where they are. Whoever wants to move some waits, and keeps nobody else from reading.
    pub async fn hold_still(&self) -> Still {
        self.still.clone().read_owned().await
    }

    /// The right to move rows; `None` while somebody reads.
    pub fn try_move(&self) -> Option<OwnedRwLockWriteGuard<()>> {
        self.still.clone().try_write_owned().ok()
    }

    /// A session.
    pub fn row(&self, id: &SessionId) -> Result<Option<Row>, StoreError> {
        let sql = format!("SELECT {} FROM session WHERE id = ?1", decode::SESSION);
        self.read(|connection| {
            let mut statement = connection.prepare_cached(&sql)?;
            let mut rows = statement.query([id.as_str()])?;
            rows.next()?.map(decode::session).transpose()
        })
    }

    /// A page of sessions.
    pub fn list(&self, query: &Query) -> Result<Page, StoreError> {
        self.read(|connection| list(connection, query))
    }

    /// Rows behind `after` and up to `upto`, of one session or of all, in order: at least one row when there is any,
    /// then as many as fit `bytes`.
    pub fn rows(
        &self,
        session: Option<&SessionId>,
        after: i64,
        upto: i64,
        bytes: usize,
    ) -> Result<Vec<Stored>, StoreError> {
        self.read(|connection| match session {
            Some(id) => transcript::of_one(connection, (id, pk(connection, id)?), after..upto, bytes),
            None => transcript::of_all(connection, after..upto, bytes),
        })
    }

    /// Number of the last row that is committed; changes with each commit.
    pub fn latest(&self) -> watch::Receiver<i64> {
        self.latest.clone()
    }

    /// Waits until the writer is gone: everything that it took is committed then, or refused.
    pub async fn ended(&self) {
        let mut latest = self.latest();
        while latest.changed().await.is_ok() {}
    }

    /// What became of the prompts of a session, oldest first.
    pub fn prompts(&self, id: &SessionId) -> Result<Vec<PromptRow>, StoreError> {
        let sql = format!("SELECT {} FROM prompt WHERE session = ?1 ORDER BY number", decode::PROMPT);
        self.read(|connection| {
            let pk = pk(connection, id)?;
            let mut statement = connection.prepare_cached(&sql)?;
            let rows = statement.query_and_then([pk], |columns| decode::prompt(id, columns))?;
            rows.collect()
        })
    }

    /// The number of its last prompt, 0 before the first.
    pub fn prompt_count(&self, id: &SessionId) -> Result<u64, StoreError> {
        self.of_session(id, "SELECT ifnull(max(number), 0) FROM prompt WHERE session = ?1")
    }

    /// The inbox of a session in queue order.
    pub fn inbox(&self, id: &SessionId) -> Result<Vec<Entry>, StoreError> {
        let sql = format!("SELECT {} FROM inbox WHERE session = ?1 ORDER BY pk", decode::ENTRY);
        self.read(|connection| {
            let pk = pk(connection, id)?;
            let mut statement = connection.prepare_cached(&sql)?;
            let rows = statement.query_and_then([pk], |columns| decode::entry(id, columns))?;
            rows.collect()
        })
    }

    /// How many sessions there are.
    pub fn saved(&self) -> Result<usize, StoreError> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached("SELECT count(*) FROM session")?;
            Ok(statement.query_row([], |row| row.get(0))?)
        })
    }

    /// Sessions with entries that wait, and how many of them, whoever waits longest first.
    pub fn pending(&self) -> Result<Vec<(SessionId, usize)>, StoreError> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(PENDING)?;
            let rows = statement.query_and_then([], |row| {
                let (id, pk): (String, i64) = (row.get(0)?, row.get(1)?);
                Ok((decode::session_id(&id, &pk.to_string())?, row.get(2)?))
            })?;
            rows.collect()
        })
    }

    /// Bytes of its transcript (R289).
    pub fn size(&self, id: &SessionId) -> Result<u64, StoreError> {
        self.of_session(id, "SELECT bytes FROM session WHERE pk = ?1")
    }

    /// Where it lies.
    pub fn path(&self) -> &std::path::Path {
        self.pool.path()
    }

    fn of_session(&self, id: &SessionId, sql: &str) -> Result<u64, StoreError> {
        self.read(|connection| {
            let pk = pk(connection, id)?;
            Ok(connection.prepare_cached(sql)?.query_row([pk], |row| row.get(0))?)
        })
    }

    pub(super) fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Failure>,
    ) -> Result<T, StoreError> {
        self.pool.read(work).map_err(|failure| failure.told(self.path()))
    }
}

/// Its number in the store.
pub(super) fn pk(connection: &Connection, id: &SessionId) -> Result<i64, Failure> {
    let mut statement = connection.prepare_cached("SELECT pk FROM session WHERE id = ?1")?;
    let pk = statement.query_row([id.as_str()], |row| row.get(0)).optional()?;
    pk.ok_or_else(|| StoreError::Unknown(id.to_string()).into())
}

/// One row more than wanted tells whether there is a next page.
fn list(connection: &Connection, query: &Query) -> Result<Page, Failure> {
    let only = if query.cwd.is_some() { "cwd = ?4 AND" } else { "?4 IS NULL AND" };
    let sql = format!(
        "SELECT {} FROM session WHERE {only} (updated_ms, pk) < (?1, ?2)
         ORDER BY updated_ms DESC, pk DESC LIMIT ?3",
        decode::SESSION
    );
    let after = query.after.as_ref().map_or((i64::MAX, i64::MAX), |after| (after.updated_ms, after.pk));
    let cwd = query.cwd.as_ref().map(|cwd| cwd.as_os_str().as_bytes());
    let mut statement = connection.prepare_cached(&sql)?;
    let limit = i64::try_from(query.limit).unwrap_or(i64::MAX).saturating_add(1);
    let mut found = statement.query(params![after.0, after.1, limit, cwd])?;
    let mut page = Page { rows: Vec::new(), next: None };
    let mut last = None;
    while let Some(columns) = found.next()? {
        if page.rows.len() == query.limit {
            page.next = last;
            break;
        }
        last = Some(Cursor { updated_ms: columns.get(7)?, pk: columns.get(10)? });
        match decode::session(columns) {
            Ok(row) => page.rows.push(row),
            // One that was changed by hand hides no other; who asks for it by its id hears what is wrong.
            Err(Failure::Refused(error)) => tracing::warn!(%error, "not listed"),
            Err(error) => return Err(error),
        }
    }
    Ok(page)
}
