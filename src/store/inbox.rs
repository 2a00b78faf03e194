//! What waits for a session: how much may, and how entries change (R182 to R189).

use rusqlite::{OptionalExtension, params};

use super::{Entry, EntryState, StoreError, apply::Scribe, decode, failure::Failure};
use crate::{
    id::SessionId,
    limits::{INBOX_BYTES_MAX, INBOX_OTHER_ENTRIES_MAX, INBOX_SHARE_BYTES_MAX, INBOX_USER_ENTRIES_MAX, MIB},
};

/// The source that has a share of its own (R189).
const USER: &str = "user";

/// What waits in an inbox: of the user, and of all others.
#[derive(Debug, Default, Clone, Copy)]
struct Load {
    user: Share,
    others: Share,
}

#[derive(Debug, Default, Clone, Copy)]
struct Share {
    entries: usize,
    bytes: usize,
}

impl Load {
    fn share(&mut self, user: bool) -> &mut Share {
        if user { &mut self.user } else { &mut self.others }
    }

    /// Which limit is met when this waits too.
    fn with(mut self, user: bool, bytes: usize) -> Result<(), String> {
        let (entries_max, whose) =
            if user { (INBOX_USER_ENTRIES_MAX, "the user") } else { (INBOX_OTHER_ENTRIES_MAX, "others") };
        let share = self.share(user);
        share.entries += 1;
        share.bytes += bytes;
        if share.entries > entries_max {
            return Err(format!("{entries_max} messages of {whose} wait"));
        }
        if share.bytes > INBOX_SHARE_BYTES_MAX {
            return Err(format!("messages of {whose} may hold {} MiB", INBOX_SHARE_BYTES_MAX / MIB));
        }
        if self.user.bytes + self.others.bytes > INBOX_BYTES_MAX {
            return Err(format!("all messages may hold {} MiB", INBOX_BYTES_MAX / MIB));
        }
        Ok(())
    }
}

/// Whether an entry may go from one state to the other. What is over stays so.
fn follows(from: EntryState, to: EntryState) -> bool {
    use EntryState::{Discarded, Done, Indeterminate, Queued, Running};
    match (from, to) {
        (Queued, Running | Discarded) | (Running, Queued | Done | Indeterminate | Discarded) => true,
        // an operator lets it run again, or lets it go (R187)
        (Indeterminate, Queued | Running | Done | Discarded) => true,
        (from, to) => from == to && to != Running,
    }
}

impl Scribe<'_> {
    pub(super) fn enqueue(&mut self, session: &SessionId, entry: &Entry) -> Result<(), Failure> {
        const ENQUEUE: &str = "INSERT INTO inbox (session, id, source, content, queued_ms, state, attempt)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let pk = self.pk(session)?;
        if self.state(session, &entry.id)?.is_some() {
            return Ok(());
        }
        self.admit(session, (&entry.id, &entry.source), entry.text.len())?;
        self.run(
            ENQUEUE,
            params![
                pk,
                entry.id,
                entry.source,
                entry.text,
                entry.queued_ms,
                entry.state.word(),
                entry.attempt
            ],
        )?;
        self.touch(session, true, 0)
    }

    /// An attempt is told from a former one by the rows that came behind its start (R184).
    pub(super) fn entry_to(&mut self, session: &SessionId, id: &str, to: EntryState) -> Result<(), Failure> {
        const BEGIN: &str = "UPDATE inbox SET state = ?3, attempt = attempt + 1, began = ?4
            WHERE session = ?1 AND id = ?2";
        const CHANGE: &str = "UPDATE inbox SET state = ?3 WHERE session = ?1 AND id = ?2";
        let pk = self.pk(session)?;
        self.expect(session, id, |from| follows(from, to))?;
        if to == EntryState::Running {
            self.run(BEGIN, params![pk, id, to.word(), self.effects.last])?;
        } else {
            self.run(CHANGE, params![pk, id, to.word()])?;
        }
        Ok(())
    }

    /// An entry that was changed since it was read does not run as it was (R295).
    pub(super) fn begin(&mut self, session: &SessionId, id: &str, text: &str) -> Result<(), Failure> {
        const SAYS: &str = "SELECT content = ?3 FROM inbox WHERE session = ?1 AND id = ?2";
        self.entry_to(session, id, EntryState::Running)?;
        let pk = self.pk(session)?;
        let says =
            self.connection.prepare_cached(SAYS)?.query_row(params![pk, id, text], |row| row.get(0))?;
        match says {
            true => Ok(()),
            false => {
                let (session, entry) = (session.to_string(), id.to_owned());
                Err(StoreError::Entry { session, entry, why: "it was changed".to_owned() }.into())
            }
        }
    }

    pub(super) fn rewrite(&mut self, session: &SessionId, id: &str, text: &str) -> Result<(), Failure> {
        const SOURCE: &str = "SELECT source FROM inbox WHERE session = ?1 AND id = ?2";
        const REWRITE: &str = "UPDATE inbox SET content = ?3 WHERE session = ?1 AND id = ?2";
        let pk = self.pk(session)?;
        self.expect(session, id, |state| state == EntryState::Queued)?;
        let source: String =
            self.connection.prepare_cached(SOURCE)?.query_row(params![pk, id], |row| row.get(0))?;
        self.admit(session, (id, &source), text.len())?;
        self.run(REWRITE, params![pk, id, text])?;
        self.effects.freed = true;
        Ok(())
    }

    pub(super) fn remove(&mut self, session: &SessionId, id: &str) -> Result<(), Failure> {
        let pk = self.pk(session)?;
        self.expect(session, id, |state| state != EntryState::Running)?;
        self.run("DELETE FROM inbox WHERE session = ?1 AND id = ?2", params![pk, id])?;
        self.effects.freed = true;
        Ok(())
    }

    pub(super) fn discard(&mut self, session: &SessionId) -> Result<(), Failure> {
        const DISCARD: &str = "UPDATE inbox SET state = 'discarded' WHERE session = ?1 AND state = 'queued'";
        let pk = self.pk(session)?;
        self.run(DISCARD, [pk])?;
        Ok(())
    }

    /// Refuses what would be too much with that entry, which may be in there already with another text.
    fn admit(
        &mut self,
        session: &SessionId,
        (id, source): (&str, &str),
        bytes: usize,
    ) -> Result<(), Failure> {
        const LOAD: &str = "SELECT source = ?3, count(*), ifnull(sum(octet_length(content)), 0) FROM inbox
            WHERE session = ?1 AND id <> ?2 AND state IN ('queued', 'running') GROUP BY 1";
        let pk = self.pk(session)?;
        let mut statement = self.connection.prepare_cached(LOAD)?;
        let mut rows = statement.query(params![pk, id, USER])?;
        let mut load = Load::default();
        while let Some(row) = rows.next()? {
            *load.share(row.get(0)?) = Share { entries: row.get(1)?, bytes: row.get(2)? };
        }
        let full = |limit| StoreError::QueueFull { session: session.to_string(), limit };
        Ok(load.with(source == USER, bytes).map_err(full)?)
    }

    /// The entry must be there, in a state that allows what is to come.
    fn expect(
        &mut self,
        session: &SessionId,
        id: &str,
        allows: impl FnOnce(EntryState) -> bool,
    ) -> Result<(), Failure> {
        let why = match self.state(session, id)? {
            Some(state) if allows(state) => return Ok(()),
            Some(state) => format!("it is {}", state.word()),
            None => "there is none of that id".to_owned(),
        };
        Err(StoreError::Entry { session: session.to_string(), entry: id.to_owned(), why }.into())
    }

    fn state(&mut self, session: &SessionId, id: &str) -> Result<Option<EntryState>, Failure> {
        const STATE: &str = "SELECT state FROM inbox WHERE session = ?1 AND id = ?2";
        let pk = self.pk(session)?;
        let mut statement = self.connection.prepare_cached(STATE)?;
        let word: Option<String> = statement.query_row(params![pk, id], |row| row.get(0)).optional()?;
        word.map(|word| decode::entry_state(session, id, &word)).transpose()
    }
}
