//! Rows of a transcript that are joined, copied and replaced (R46, R273, R289).

use bytes::Bytes;
use rusqlite::{Connection, params};

use super::{Kind, failure::Failure};

/// What is copied with one statement, which SQLite keeps in memory meanwhile.
const COPY_BYTES: i64 = 4 << 20;
/// A buffer that grew beyond this for one large line is not kept.
const JOINED_BYTES_KEPT: usize = 1 << 20;

/// Joins the lines, each ended by LF.
pub(super) fn join(lines: &[Bytes], joined: &mut Vec<u8>) {
    joined.clear();
    joined.shrink_to(JOINED_BYTES_KEPT);
    for line in lines {
        joined.extend_from_slice(line);
        if line.last() != Some(&b'\n') {
            joined.push(b'\n');
        }
    }
}

/// Copies the rows of one session to another that has none yet: how many bytes they hold.
pub(super) fn copy(connection: &Connection, from: i64, to: i64) -> Result<i64, Failure> {
    const COPY: &str = "INSERT INTO frame (session, time_ms, kind, lines)
        SELECT ?2, time_ms, kind, lines FROM frame WHERE session = ?1 AND id > ?3 AND id <= ?4 ORDER BY id";
    let mut statement = connection.prepare_cached(COPY)?;
    let (mut after, mut bytes) = (0, 0);
    while let Some((upto, length)) = stretch(connection, from, after)? {
        statement.execute([from, to, after, upto])?;
        after = upto;
        bytes += length;
    }
    Ok(bytes)
}

/// How far the next rows reach that are copied together, and what they hold.
fn stretch(connection: &Connection, session: i64, after: i64) -> Result<Option<(i64, i64)>, Failure> {
    const LENGTHS: &str = "SELECT id, length(lines) FROM frame WHERE session = ?1 AND id > ?2 ORDER BY id";
    let mut statement = connection.prepare_cached(LENGTHS)?;
    let mut rows = statement.query([session, after])?;
    let mut found = None;
    while let Some(row) = rows.next()? {
        let (id, length): (i64, i64) = (row.get(0)?, row.get(1)?);
        let bytes = found.map_or(0, |(_, bytes)| bytes) + length;
        found = Some((id, bytes));
        if bytes >= COPY_BYTES {
            break;
        }
    }
    Ok(found)
}

/// Puts these rows in the place of those behind the first number and up to the second: how much the session grew,
/// `None` when there are not as many places. They take the numbers of the first rows, so that the order stays.
pub(super) fn replace(
    connection: &Connection,
    session: i64,
    (after, upto): (i64, i64),
    rows: &[(Kind, Bytes)],
) -> Result<Option<i64>, Failure> {
    const REPLACE: &str = "UPDATE frame SET kind = ?2, lines = ?3 WHERE id = ?1";
    const DROP: &str = "DELETE FROM frame WHERE session = ?1 AND id > ?2 AND id <= ?3";
    let (places, bytes) = places(connection, session, (after, upto), rows.len())?;
    if bytes == 0 || places.len() < rows.len() {
        return Ok(None);
    }
    let (mut grown, mut done) = (-bytes, after);
    for (id, (kind, lines)) in places.iter().zip(rows) {
        connection.prepare_cached(REPLACE)?.execute(params![id, kind.number(), &**lines])?;
        grown += lines.len() as i64;
        done = *id;
    }
    connection.prepare_cached(DROP)?.execute([session, done, upto])?;
    Ok(Some(grown))
}

/// The numbers of the first rows of that range, and the bytes of all of them.
fn places(
    connection: &Connection,
    session: i64,
    (after, upto): (i64, i64),
    wanted: usize,
) -> Result<(Vec<i64>, i64), Failure> {
    const RANGE: &str =
        "SELECT id, length(lines) FROM frame WHERE session = ?1 AND id > ?2 AND id <= ?3 ORDER BY id";
    let mut statement = connection.prepare_cached(RANGE)?;
    let mut rows = statement.query([session, after, upto])?;
    let (mut places, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        if places.len() < wanted {
            places.push(row.get(0)?);
        }
        bytes += row.get::<_, i64>(1)?;
    }
    Ok((places, bytes))
}
