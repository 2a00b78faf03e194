//! Pages of a transcript, bounded in bytes. The lines of a row are loaded only when they are on the page (R281).

use std::ops::Range;

use bytes::Bytes;
use rusqlite::{Connection, params};

use super::{Kind, Stored, decode, failure::Failure};
use crate::id::SessionId;

/// Lines up to a page come along at once; SQLite does not load what it does not give out.
const OF_ONE: &str = "SELECT id, time_ms, kind, length(lines), iif(length(lines) <= ?3, lines, NULL)
    FROM frame WHERE session = ?4 AND id > ?1 AND id <= ?2 ORDER BY id";
const OF_ALL: &str = "SELECT frame.id, frame.time_ms, frame.kind, length(frame.lines),
    iif(length(frame.lines) <= ?3, frame.lines, NULL), session.id, session.pk
    FROM frame JOIN session ON session.pk = frame.session
    WHERE frame.id > ?1 AND frame.id <= ?2 ORDER BY frame.id";

/// Rows of a session, of which the id in the store comes along; behind the start of the range and up to its end.
pub(super) fn of_one(
    connection: &Connection,
    (id, pk): (&SessionId, i64),
    range: Range<i64>,
    bytes: usize,
) -> Result<Vec<Stored>, Failure> {
    let mut statement = connection.prepare_cached(OF_ONE)?;
    let rows = statement.query(params![range.start, range.end, whole(bytes), pk])?;
    page(connection, rows, bytes, |_| Ok(id.clone()))
}

/// Rows of all sessions, likewise.
pub(super) fn of_all(
    connection: &Connection,
    range: Range<i64>,
    bytes: usize,
) -> Result<Vec<Stored>, Failure> {
    let mut statement = connection.prepare_cached(OF_ALL)?;
    let rows = statement.query(params![range.start, range.end, whole(bytes)])?;
    page(connection, rows, bytes, |columns| {
        let (id, pk): (String, i64) = (columns.get(5)?, columns.get(6)?);
        decode::session_id(&id, &pk.to_string())
    })
}

fn whole(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

fn page(
    connection: &Connection,
    mut rows: rusqlite::Rows<'_>,
    bytes: usize,
    whose: impl Fn(&rusqlite::Row<'_>) -> Result<SessionId, Failure>,
) -> Result<Vec<Stored>, Failure> {
    let (mut page, mut room) = (Vec::new(), bytes);
    while let Some(columns) = rows.next()? {
        let length: usize = columns.get(3)?;
        if length > room && !page.is_empty() {
            break;
        }
        room = room.saturating_sub(length);
        page.push(stored(connection, columns, whose(columns)?)?);
    }
    Ok(page)
}

fn stored(
    connection: &Connection,
    columns: &rusqlite::Row<'_>,
    session: SessionId,
) -> Result<Stored, Failure> {
    let (number, kind): (i64, i64) = (columns.get(0)?, columns.get(2)?);
    let kind: Kind = decode::kind(&session, number, kind)?;
    let lines = match columns.get_ref(4)?.as_blob_or_null().map_err(rusqlite::Error::from)? {
        Some(lines) => Bytes::copy_from_slice(lines),
        None => alone(connection, number)?,
    };
    if lines.last() != Some(&b'\n') {
        let why = format!("row {number} of the transcript does not end with a line");
        return Err(decode::foreign(session.as_str(), why));
    }
    Ok(Stored { number, session, time_ms: columns.get(1)?, kind, lines })
}

/// A row that is larger than a page.
fn alone(connection: &Connection, number: i64) -> Result<Bytes, Failure> {
    let mut statement = connection.prepare_cached("SELECT lines FROM frame WHERE id = ?1")?;
    let lines: Vec<u8> = statement.query_row([number], |row| row.get(0))?;
    Ok(lines.into())
}
