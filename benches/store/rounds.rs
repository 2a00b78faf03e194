//! The rounds: the store and the plain file do everything once, then again.

use std::time::Duration;

use crate::{Outcome, plain::Plain, shelf::Shelf};

const ROUNDS: usize = 7;
/// What an ingress hands over at once.
pub const BATCH_LINES: usize = 96;
const LINE_BYTES: usize = 300;
/// About 58 MB.
const BATCHES: usize = 2_000;
/// Sessions that stream at once in the second row of the table.
pub const AT_ONCE: usize = 16;
/// Updates that are read back (R282).
const UPDATES: usize = 10_000;
/// Sessions of a large store (R282).
pub const SESSIONS: usize = 10_000;
const NOTES: usize = 200;

/// All that both did, as lines in a second or as seconds.
#[derive(Default)]
pub struct Measured {
    pub appended: Pair,
    pub appended_at_once: Pair,
    pub read: Pair,
    /// One small write that was committed.
    pub noted: Vec<f64>,
    /// The same on the disk.
    pub synced: Pair,
    pub opened_empty: Vec<f64>,
    pub opened: Vec<f64>,
    pub listed: Vec<f64>,
}

/// The store and the plain file.
#[derive(Default)]
pub struct Pair {
    pub store: Vec<f64>,
    pub plain: Vec<f64>,
}

/// Does the rounds.
pub fn measure() -> Outcome<Measured> {
    let mut measured = Measured::default();
    for _ in 0..ROUNDS {
        stream(&mut measured)?;
        many(&mut measured)?;
    }
    Ok(measured)
}

fn stream(measured: &mut Measured) -> Outcome<()> {
    let directory = tempfile::Builder::new().prefix("store").tempdir()?;
    let mut plain = Plain::new(directory.path())?;
    let store = Shelf::open(directory.path())?;
    measured.opened_empty.push(store.opened.as_secs_f64());
    let line = vec![b'x'; LINE_BYTES - 1];
    let mut sessions = Vec::new();
    for _ in 0..AT_ONCE {
        sessions.push(store.sessions(1)?);
    }
    for (pair, streaming) in [(&mut measured.appended, 1), (&mut measured.appended_at_once, AT_ONCE)] {
        let lines = BATCHES * BATCH_LINES;
        pair.store.push(rate(lines, store.append(&sessions[..streaming], &line, BATCHES)?));
        pair.plain.push(rate(lines, plain.append(&line, BATCHES)?));
    }
    measured.read.store.push(rate(UPDATES, store.read(&sessions[0], UPDATES)?));
    measured.read.plain.push(rate(UPDATES, plain.read(UPDATES)?));
    for _ in 0..NOTES {
        measured.noted.push(store.note(&sessions[0], &line, false)?.as_secs_f64());
        measured.synced.store.push(store.note(&sessions[0], &line, true)?.as_secs_f64());
        measured.synced.plain.push(plain.sync(&line)?.as_secs_f64());
    }
    store.close()
}

fn many(measured: &mut Measured) -> Outcome<()> {
    let directory = tempfile::Builder::new().prefix("store").tempdir()?;
    let store = Shelf::open(directory.path())?;
    store.sessions(SESSIONS)?;
    store.close()?;
    let store = Shelf::open(directory.path())?;
    measured.opened.push(store.opened.as_secs_f64());
    for _ in 0..NOTES {
        measured.listed.push(store.list()?.as_secs_f64());
    }
    store.close()
}

fn rate(lines: usize, took: Duration) -> f64 {
    lines as f64 / took.as_secs_f64()
}
