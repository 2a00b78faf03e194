//! From columns to what they mean. What no daemon of ours wrote is an error that names its row (R185).

use std::{ffi::OsString, os::unix::ffi::OsStringExt};

use rusqlite::Row as Columns;

use super::{Entry, EntryState, Kind, PromptRow, PromptState, Row, Settings, StoreError, failure::Failure};
use crate::id::SessionId;

/// The columns that [`session`] reads.
pub(super) const SESSION: &str =
    "id, agent, cwd, params, peer_session, title, created_ms, updated_ms, parent, settings, pk";
/// The columns that [`prompt`] reads.
pub(super) const PROMPT: &str = "number, state, source, outcome, taken_ms, ended_ms";
/// The columns that [`entry`] reads.
pub(super) const ENTRY: &str = "id, source, content, queued_ms, state, attempt";

/// A row that says what it should not.
pub(super) fn foreign(session: &str, why: String) -> Failure {
    StoreError::Foreign { session: session.to_owned(), why }.into()
}

/// A session.
pub(super) fn session(columns: &Columns<'_>) -> Result<Row, Failure> {
    let name: String = columns.get(0)?;
    read_session(&name, columns).map_err(|failure| spoilt(failure, &name, "a row of sessions"))
}

/// A value that its column cannot have is a foreign row too.
fn spoilt(failure: Failure, session: &str, place: &str) -> Failure {
    match failure {
        Failure::Sqlite(error) if error.sqlite_error_code().is_none() => {
            foreign(session, format!("{error}, in {place}"))
        }
        other => other,
    }
}

fn read_session(name: &str, columns: &Columns<'_>) -> Result<Row, Failure> {
    let at = |what: &str| foreign(name, format!("{what} in row {} of sessions", number(columns)));
    let parent: Option<String> = columns.get(8)?;
    let parent = parent.map(|parent| SessionId::parse(&parent).ok_or(parent)).transpose();
    let settings: Settings =
        serde_json::from_str(columns.get_ref(9)?.as_str().map_err(rusqlite::Error::from)?)
            .map_err(|error| at(&format!("unreadable settings ({error})")))?;
    Ok(Row {
        id: session_id(name, &number(columns))?,
        agent: columns.get(1)?,
        cwd: OsString::from_vec(columns.get(2)?).into(),
        params: columns.get(3)?,
        peer_session: columns.get(4)?,
        title: columns.get(5)?,
        created_ms: columns.get(6)?,
        updated_ms: columns.get(7)?,
        parent: parent.map_err(|parent| at(&format!("an impossible parent {parent:?}")))?,
        settings,
    })
}

fn number(columns: &Columns<'_>) -> String {
    columns.get::<_, i64>(10).map_or_else(|error| error.to_string(), |pk| pk.to_string())
}

/// An id as the store holds it.
pub(super) fn session_id(text: &str, row: &str) -> Result<SessionId, Failure> {
    SessionId::parse(text).ok_or_else(|| foreign(text, format!("an impossible id in row {row} of sessions")))
}

/// What a row of the transcript is.
pub(super) fn kind(session: &SessionId, row: i64, number: i64) -> Result<Kind, Failure> {
    Kind::of(number).ok_or_else(|| {
        foreign(session.as_str(), format!("unknown kind {number} of row {row} of the transcript"))
    })
}

/// A prompt of that session.
pub(super) fn prompt(session: &SessionId, columns: &Columns<'_>) -> Result<PromptRow, Failure> {
    read_prompt(session, columns).map_err(|failure| spoilt(failure, session.as_str(), "a prompt"))
}

fn read_prompt(session: &SessionId, columns: &Columns<'_>) -> Result<PromptRow, Failure> {
    let (number, word): (u64, String) = (columns.get(0)?, columns.get(1)?);
    let unknown = || foreign(session.as_str(), format!("unknown state {word:?} of prompt {number}"));
    Ok(PromptRow {
        number,
        state: PromptState::of(&word).ok_or_else(unknown)?,
        source: columns.get(2)?,
        outcome: columns.get(3)?,
        taken_ms: columns.get(4)?,
        ended_ms: columns.get(5)?,
    })
}

/// An inbox entry of that session.
pub(super) fn entry(session: &SessionId, columns: &Columns<'_>) -> Result<Entry, Failure> {
    read_entry(session, columns).map_err(|failure| spoilt(failure, session.as_str(), "an inbox entry"))
}

fn read_entry(session: &SessionId, columns: &Columns<'_>) -> Result<Entry, Failure> {
    let (id, word): (String, String) = (columns.get(0)?, columns.get(4)?);
    Ok(Entry {
        state: entry_state(session, &id, &word)?,
        id,
        source: columns.get(1)?,
        text: columns.get(2)?,
        queued_ms: columns.get(3)?,
        attempt: columns.get(5)?,
    })
}

/// How far that entry has come.
pub(super) fn entry_state(session: &SessionId, entry: &str, word: &str) -> Result<EntryState, Failure> {
    EntryState::of(word)
        .ok_or_else(|| foreign(session.as_str(), format!("unknown state {word:?} of entry {entry}")))
}
