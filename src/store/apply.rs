//! One write as rows, inside the transaction of its group.
//!
//! What a write does beside its rows is gathered as [`Effects`] and forgotten when the write is refused.

use std::{collections::HashMap, os::unix::ffi::OsStrExt};

use bytes::Bytes;
use rusqlite::{Connection, Params, params};
use smallvec::SmallVec;

use super::{Kind, Op, PromptState, Row, Settings, StoreError, Write, failure::Failure, frames, reader};
use crate::id::SessionId;

/// Sessions whose numbers are remembered.
const KNOWN_MAX: usize = 4_096;

/// The numbers that sessions have in the store, as far as they were asked for.
#[derive(Debug, Default)]
pub(super) struct Known(HashMap<SessionId, i64>);

/// A session of which a write changed more than its own rows.
#[derive(Debug)]
pub(super) struct Touched {
    pub(super) pk: i64,
    pub(super) session: SessionId,
    /// Something happened in it, which its place in the list shows.
    pub(super) updated: bool,
    /// How much its transcript grew.
    pub(super) bytes: i64,
}

/// What a write did beside its rows.
#[derive(Debug, Default)]
pub(super) struct Effects {
    pub(super) touched: SmallVec<[Touched; 2]>,
    /// The last row of all transcripts.
    pub(super) last: i64,
    /// Text was taken out that must not stay in the file (R285).
    pub(super) freed: bool,
}

/// Writes one write.
pub(super) struct Scribe<'a> {
    pub(super) connection: &'a Connection,
    pub(super) known: &'a mut Known,
    /// Where lines are joined.
    pub(super) joined: &'a mut Vec<u8>,
    pub(super) now_ms: i64,
    pub(super) effects: Effects,
}

impl Known {
    /// The number of that session.
    fn pk(&mut self, connection: &Connection, session: &SessionId) -> Result<i64, Failure> {
        if let Some(pk) = self.0.get(session) {
            return Ok(*pk);
        }
        let pk = reader::pk(connection, session)?;
        if self.0.len() >= KNOWN_MAX {
            self.0.clear();
        }
        self.0.insert(session.clone(), pk);
        Ok(pk)
    }

    /// It may not be there any more, or never was.
    pub(super) fn forget(&mut self, session: &SessionId) {
        self.0.remove(session);
    }

    /// What was made is gone.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

impl Scribe<'_> {
    /// All operations of a write, in order.
    pub(super) fn write(&mut self, write: &Write) -> Result<(), Failure> {
        write.ops.iter().try_for_each(|op| self.op(&write.session, op))
    }

    fn op(&mut self, session: &SessionId, op: &Op) -> Result<(), Failure> {
        match op {
            Op::Create(row) => self.create(row),
            Op::Fork(source, row) => self.fork(source, row),
            Op::Frames(kind, lines) => self.frames(session, *kind, lines),
            Op::PeerSession(id) => self.peer_session(session, id),
            Op::Title(title) => self.title(session, title.as_deref()),
            Op::Settings(settings) => self.settings(session, settings),
            Op::Prompt(number, state, source) => self.prompt(session, *number, *state, source),
            Op::PromptTo(number, state, outcome) => {
                self.prompt_to(session, *number, *state, outcome.as_deref())
            }
            Op::Enqueue(entry) => self.enqueue(session, entry),
            Op::Begin(entries) => entries.iter().try_for_each(|(id, text)| self.begin(session, id, text)),
            Op::Entries(ids, state) => ids.iter().try_for_each(|id| self.entry_to(session, id, *state)),
            Op::Rewrite(id, text) => self.rewrite(session, id, text),
            Op::Remove(id) => self.remove(session, id),
            Op::Discard => self.discard(session),
            Op::Replace { after, upto, rows } => self.replace(session, (*after, *upto), rows),
            Op::Delete => self.delete(session),
        }
    }

    fn create(&mut self, row: &Row) -> Result<(), Failure> {
        const CREATE: &str = "INSERT INTO session
            (id, agent, cwd, params, peer_session, title, created_ms, updated_ms, parent, settings)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT (id) DO NOTHING";
        let made = self.run(
            CREATE,
            params![
                row.id.as_str(),
                row.agent,
                row.cwd.as_os_str().as_bytes(),
                row.params,
                row.peer_session,
                row.title,
                row.created_ms,
                row.updated_ms,
                row.parent.as_ref().map(SessionId::as_str),
                json(&row.settings),
            ],
        )?;
        if made == 0 {
            return Err(StoreError::Exists(row.id.to_string()).into());
        }
        Ok(())
    }

    fn fork(&mut self, source: &SessionId, row: &Row) -> Result<(), Failure> {
        const INHERIT: &str = "UPDATE session SET
            (params, title, settings, parent) = (SELECT iif(session.params = '', source.params, session.params),
                ifnull(session.title, source.title), source.settings, ifnull(session.parent, source.id)
                FROM session AS source WHERE source.pk = ?2) WHERE pk = ?1";
        const PROMPTS: &str =
            "INSERT INTO prompt SELECT ?1, number, state, source, outcome, taken_ms, ended_ms
            FROM prompt WHERE session = ?2 AND state = 'answered'";
        let from = self.pk(source)?;
        self.create(row)?;
        let to = self.connection.last_insert_rowid();
        self.run(INHERIT, [to, from])?;
        self.run(PROMPTS, [to, from])?;
        let bytes = frames::copy(self.connection, from, to)?;
        if bytes > 0 {
            self.effects.last = self.connection.last_insert_rowid();
        }
        self.effects.touched.push(Touched { pk: to, session: row.id.clone(), updated: false, bytes });
        Ok(())
    }

    fn frames(&mut self, session: &SessionId, kind: Kind, lines: &[Bytes]) -> Result<(), Failure> {
        const APPEND: &str = "INSERT INTO frame (session, time_ms, kind, lines) VALUES (?1, ?2, ?3, ?4)";
        if lines.is_empty() {
            return Ok(());
        }
        let pk = self.pk(session)?;
        frames::join(lines, self.joined);
        self.connection.prepare_cached(APPEND)?.execute(params![
            pk,
            self.now_ms,
            kind.number(),
            &*self.joined
        ])?;
        self.effects.last = self.connection.last_insert_rowid();
        let updated = matches!(kind, Kind::Peer | Kind::Sent);
        self.touch(session, updated, self.joined.len() as i64)
    }

    fn replace(
        &mut self,
        session: &SessionId,
        range: (i64, i64),
        rows: &[(Kind, Bytes)],
    ) -> Result<(), Failure> {
        let pk = self.pk(session)?;
        let Some(bytes) = frames::replace(self.connection, pk, range, rows)? else {
            let (after, upto) = range;
            return Err(StoreError::Range { session: session.to_string(), after, upto }.into());
        };
        self.effects.freed = true;
        self.touch(session, false, bytes)
    }

    fn peer_session(&mut self, session: &SessionId, id: &[u8]) -> Result<(), Failure> {
        let pk = self.pk(session)?;
        self.run("UPDATE session SET peer_session = ?2 WHERE pk = ?1", params![pk, id])?;
        Ok(())
    }

    fn title(&mut self, session: &SessionId, title: Option<&str>) -> Result<(), Failure> {
        let pk = self.pk(session)?;
        self.run("UPDATE session SET title = ?2 WHERE pk = ?1", params![pk, title])?;
        self.touch(session, true, 0)
    }

    fn settings(&mut self, session: &SessionId, settings: &Settings) -> Result<(), Failure> {
        let pk = self.pk(session)?;
        self.run("UPDATE session SET settings = ?2 WHERE pk = ?1", params![pk, json(settings)])?;
        self.touch(session, true, 0)
    }

    fn prompt(
        &mut self,
        session: &SessionId,
        number: u64,
        state: PromptState,
        source: &str,
    ) -> Result<(), Failure> {
        const TAKEN: &str = "INSERT INTO prompt (session, number, state, source, taken_ms)
            VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING";
        let pk = self.pk(session)?;
        let taken = self.run(TAKEN, params![pk, number, state.word(), source, self.now_ms])?;
        if taken == 0 {
            let (session, why) = (session.to_string(), "there is one of that number");
            return Err(StoreError::Prompt { session, number, why }.into());
        }
        self.touch(session, true, 0)
    }

    fn prompt_to(
        &mut self,
        session: &SessionId,
        number: u64,
        state: PromptState,
        outcome: Option<&str>,
    ) -> Result<(), Failure> {
        const CAME_TO: &str =
            "UPDATE prompt SET state = ?3, outcome = ?4, ended_ms = ?5 WHERE session = ?1 AND number = ?2";
        let pk = self.pk(session)?;
        let open = matches!(state, PromptState::Waiting | PromptState::Running);
        let ended = (!open).then_some(self.now_ms);
        let found = self.run(CAME_TO, params![pk, number, state.word(), outcome, ended])?;
        if found == 0 {
            let (session, why) = (session.to_string(), "there is none of that number");
            return Err(StoreError::Prompt { session, number, why }.into());
        }
        self.touch(session, true, 0)
    }

    fn delete(&mut self, session: &SessionId) -> Result<(), Failure> {
        let gone = self.run("DELETE FROM session WHERE id = ?1", [session.as_str()])?;
        self.known.forget(session);
        self.effects.freed |= gone > 0;
        Ok(())
    }

    pub(super) fn pk(&mut self, session: &SessionId) -> Result<i64, Failure> {
        self.known.pk(self.connection, session)
    }

    pub(super) fn touch(&mut self, session: &SessionId, updated: bool, bytes: i64) -> Result<(), Failure> {
        let pk = self.pk(session)?;
        self.effects.touched.push(Touched { pk, session: session.clone(), updated, bytes });
        Ok(())
    }

    /// How many rows it changed.
    pub(super) fn run(&self, sql: &str, params: impl Params) -> Result<usize, Failure> {
        Ok(self.connection.prepare_cached(sql)?.execute(params)?)
    }
}

fn json(settings: &Settings) -> String {
    serde_json::to_string(settings).expect("words and lists of words can be written")
}
