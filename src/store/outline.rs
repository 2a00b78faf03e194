//! What is asked of a session without reading all of it: how much lies there, and what came last.

use rusqlite::params;
use serde::Serialize;

use super::{EntryState, PromptRow, Reader, StoreError, decode, reader::pk};
use crate::id::SessionId;

/// How many messages an inbox holds, by their states.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the states are described where they are defined")]
pub struct Tally {
    pub queued: u64,
    pub running: u64,
    pub done: u64,
    pub discarded: u64,
    pub indeterminate: u64,
}

/// Rows of a transcript, and the bytes of their lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Extent {
    pub rows: u64,
    pub bytes: u64,
}

impl Tally {
    fn of(&mut self, state: EntryState) -> &mut u64 {
        match state {
            EntryState::Queued => &mut self.queued,
            EntryState::Running => &mut self.running,
            EntryState::Done => &mut self.done,
            EntryState::Discarded => &mut self.discarded,
            EntryState::Indeterminate => &mut self.indeterminate,
        }
    }
}

impl Reader {
    /// How many messages the inbox of a session holds.
    pub fn tally(&self, id: &SessionId) -> Result<Tally, StoreError> {
        const TALLY: &str = "SELECT state, count(*) FROM inbox WHERE session = ?1 GROUP BY state";
        self.read(|connection| {
            let pk = pk(connection, id)?;
            let mut statement = connection.prepare_cached(TALLY)?;
            let mut states = statement.query([pk])?;
            let mut tally = Tally::default();
            while let Some(columns) = states.next()? {
                let word: String = columns.get(0)?;
                *tally.of(decode::entry_state(id, "in the inbox", &word)?) = columns.get(1)?;
            }
            Ok(tally)
        })
    }

    /// What became of the last prompts of a session, oldest first.
    pub fn last_prompts(&self, id: &SessionId, limit: usize) -> Result<Vec<PromptRow>, StoreError> {
        let sql =
            format!("SELECT {} FROM prompt WHERE session = ?1 ORDER BY number DESC LIMIT ?2", decode::PROMPT);
        self.read(|connection| {
            let pk = pk(connection, id)?;
            let mut statement = connection.prepare_cached(&sql)?;
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let rows = statement.query_and_then(params![pk, limit], |columns| decode::prompt(id, columns))?;
            let mut rows = rows.collect::<Result<Vec<_>, _>>()?;
            rows.reverse();
            Ok(rows)
        })
    }

    /// How much lies behind `after` and up to `upto`, of one session or of all.
    pub fn extent(&self, session: Option<&SessionId>, after: i64, upto: i64) -> Result<Extent, StoreError> {
        // The length of a value stands beside it: the lines themselves are not read.
        const EXTENT: &str = "SELECT count(*), ifnull(sum(length(lines)), 0) FROM frame
            WHERE id > ?1 AND id <= ?2";
        self.read(|connection| {
            let mut extent = Extent::default();
            let read = |columns: &rusqlite::Row<'_>| Ok((columns.get(0)?, columns.get(1)?));
            (extent.rows, extent.bytes) = match session {
                Some(id) => {
                    let sql = format!("{EXTENT} AND session = ?3");
                    let bounds = params![after, upto, pk(connection, id)?];
                    connection.prepare_cached(&sql)?.query_row(bounds, read)?
                }
                None => connection.prepare_cached(EXTENT)?.query_row(params![after, upto], read)?,
            };
            Ok(extent)
        })
    }
}
