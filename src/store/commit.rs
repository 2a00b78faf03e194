//! Writes become rows: some writes, one transaction, one commit (R273).
//!
//! A write that is refused is taken back alone, by a savepoint, and the others go on. When the commit fails, nothing of
//! any of them is there.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    time::{Instant, SystemTime},
};

use rusqlite::Connection;
use tokio::sync::watch;

use super::{
    Op, Opened, StoreError, Write,
    apply::{Effects, Known, Scribe, Touched},
    failure::{Failure, Setback},
    schema::Strain,
    wal::Wal,
};
use crate::id::SessionId;

/// The connection that writes, and what must be known to write.
pub(super) struct Committer {
    pub(super) connection: Connection,
    pub(super) path: PathBuf,
    pub(super) wal: Wal,
    known: Known,
    joined: Vec<u8>,
    latest: watch::Sender<i64>,
    strain: Strain,
}

/// What came of a commit.
#[derive(Debug)]
pub(super) struct Done {
    /// Of each write, in order: the last row as of it.
    pub(super) outcomes: Vec<Result<i64, StoreError>>,
    /// How large each session is whose transcript changed.
    pub(super) sizes: Vec<(SessionId, u64)>,
    /// Text was taken out that must not stay in the file.
    pub(super) freed: bool,
    last: i64,
}

impl Committer {
    /// Takes over what was opened.
    pub(super) fn new(opened: Opened) -> Self {
        Self {
            connection: opened.connection,
            path: opened.path,
            wal: opened.wal,
            known: Known::default(),
            joined: Vec::new(),
            latest: opened.latest,
            strain: opened.strain,
        }
    }

    /// Commits these writes, and waits for the disk when one of them wants that. On a setback nothing of them is kept.
    pub(super) fn commit(&mut self, writes: &[Write]) -> Result<Done, Setback> {
        let done = match self.transact(writes) {
            Ok(done) => done,
            Err(error) => {
                self.undo()?;
                return Err(Setback::of(&error, &self.path));
            }
        };
        self.wal.written(Instant::now());
        if writes.iter().any(|write| write.sync) {
            self.sync()?;
        }
        self.latest.send_replace(done.last);
        Ok(done)
    }

    /// Waits until all that was committed is on the disk. What was committed cannot be taken back, so that there is no
    /// going on without it.
    pub(super) fn sync(&mut self) -> Result<(), Setback> {
        self.wal.sync().map_err(|error| Setback::Broken(format!("cannot sync the log: {error}")))
    }

    fn transact(&mut self, writes: &[Write]) -> rusqlite::Result<Done> {
        (self.strain)(&self.connection)?;
        self.execute("BEGIN IMMEDIATE")?;
        let mut done = Done {
            outcomes: Vec::with_capacity(writes.len()),
            sizes: Vec::new(),
            freed: false,
            last: *self.latest.borrow(),
        };
        let mut touched = BTreeMap::new();
        let now_ms = now_ms();
        for write in writes {
            let outcome = self.apply(write, now_ms, &mut done, &mut touched)?;
            done.outcomes.push(outcome);
        }
        done.sizes = self.settle(touched, now_ms)?;
        self.execute("COMMIT")?;
        Ok(done)
    }

    /// One write, whole or not at all.
    fn apply(
        &mut self,
        write: &Write,
        now_ms: i64,
        done: &mut Done,
        touched: &mut BTreeMap<i64, Touched>,
    ) -> rusqlite::Result<Result<i64, StoreError>> {
        // one statement is whole by itself
        let alone = matches!(&*write.ops, [Op::Frames(..)]);
        if !alone {
            self.execute("SAVEPOINT one")?;
        }
        let effects = Effects { last: done.last, ..Effects::default() };
        let (connection, known, joined) = (&self.connection, &mut self.known, &mut self.joined);
        let mut scribe = Scribe { connection, known, joined, now_ms, effects };
        let outcome = match scribe.write(write) {
            Ok(()) => {
                merge(scribe.effects, done, touched);
                Ok(done.last)
            }
            Err(failure) => Err(self.refused(write, failure, alone)?),
        };
        if !alone {
            self.execute("RELEASE one")?;
        }
        Ok(outcome)
    }

    fn refused(&mut self, write: &Write, failure: Failure, alone: bool) -> rusqlite::Result<StoreError> {
        let error = failure.refusal(&self.path)?;
        self.known.forget(&write.session);
        if !alone {
            self.execute("ROLLBACK TO one")?;
        }
        Ok(error)
    }

    /// What all writes of the group did to the rows of their sessions, once for each.
    fn settle(
        &self,
        touched: BTreeMap<i64, Touched>,
        now_ms: i64,
    ) -> rusqlite::Result<Vec<(SessionId, u64)>> {
        const SETTLE: &str = "UPDATE session SET updated_ms = max(updated_ms, ?2), bytes = max(bytes + ?3, 0)
            WHERE pk = ?1 RETURNING bytes";
        let mut sizes = Vec::new();
        for touched in touched.into_values() {
            let updated = if touched.updated { now_ms } else { i64::MIN };
            let mut statement = self.connection.prepare_cached(SETTLE)?;
            let mut rows = statement.query([touched.pk, updated, touched.bytes])?;
            // none when the session was deleted after that
            while let Some(row) = rows.next()? {
                sizes.push((touched.session.clone(), row.get::<_, i64>(0)?.unsigned_abs()));
            }
        }
        Ok(sizes)
    }

    /// Takes back what a failed commit left.
    fn undo(&mut self) -> Result<(), Setback> {
        self.known.clear();
        if !self.connection.is_autocommit() {
            self.connection
                .execute_batch("ROLLBACK")
                .map_err(|error| Setback::Broken(format!("cannot roll back: {error}")))?;
        }
        Ok(())
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([])?;
        Ok(())
    }
}

fn merge(effects: Effects, done: &mut Done, all: &mut BTreeMap<i64, Touched>) {
    done.last = effects.last;
    done.freed |= effects.freed;
    for touched in effects.touched {
        match all.get_mut(&touched.pk) {
            Some(known) => {
                known.updated |= touched.updated;
                known.bytes += touched.bytes;
            }
            None => drop(all.insert(touched.pk, touched)),
        }
    }
}

fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}
