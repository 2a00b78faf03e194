//! The store as its users see it: a writer with its queue, and readers beside it.

mod crash;
mod file;
mod foreign;
mod full;
mod group;
mod inbox;
mod list;
mod outline;
mod prompts;
mod transcript;

use std::{
    path::Path,
    sync::mpsc,
    thread::JoinHandle,
    time::{Duration, Instant},
};

use bytes::Bytes;
use tempfile::TempDir;

use super::*;
use crate::{id::SessionId, store::writer, wire::credit::Credit};

/// Nothing here takes longer.
const DEADLINE: Duration = Duration::from_secs(20);

/// A running store, without the actor before it.
struct Running {
    queue: mpsc::Sender<Write>,
    reader: Reader,
    repaired: Repaired,
    told: mpsc::Receiver<Msg>,
    thread: JoinHandle<()>,
}

impl Running {
    fn start(directory: &Path) -> Self {
        Self::with(directory, |_| {})
    }

    /// What was opened may be changed before anything is written.
    fn with(directory: &Path, change: impl FnOnce(&mut Opened)) -> Self {
        let mut opened = open(directory).unwrap();
        change(&mut opened);
        let (reader, repaired) = (opened.reader.clone(), opened.repaired.clone());
        let ((queue, writes), (tell, told)) = (mpsc::channel(), mpsc::channel());
        let thread = writer::start(opened, writes, move |msg| drop(tell.send(msg))).unwrap();
        Self { queue, reader, repaired, told, thread }
    }

    /// Waits until that is stored.
    fn write(&self, session: &SessionId, ops: impl IntoIterator<Item = Op>) -> Result<(), StoreError> {
        self.post(session, ops).recv_timeout(DEADLINE).expect("an answer").map(drop)
    }

    /// Where the answer comes.
    fn post(
        &self,
        session: &SessionId,
        ops: impl IntoIterator<Item = Op>,
    ) -> mpsc::Receiver<Result<i64, StoreError>> {
        let (told, answer) = mpsc::channel();
        let ack = Ack::new(move |outcome| drop(told.send(outcome)));
        let write = Write { ack: Some(ack), ..unacknowledged(session, ops) };
        let _ = self.queue.send(write);
        answer
    }

    /// Nobody waits for it.
    fn cast(&self, session: &SessionId, ops: impl IntoIterator<Item = Op>) {
        self.queue.send(unacknowledged(session, ops)).unwrap();
    }

    /// A session with nothing in it yet.
    fn session(&self) -> SessionId {
        let row = row("/w");
        let id = row.id.clone();
        self.write(&id, [Op::Create(Box::new(row))]).unwrap();
        id
    }

    /// All lines of a session as one text.
    fn text(&self, session: &SessionId) -> String {
        let rows = self.reader.rows(Some(session), 0, i64::MAX, usize::MAX).unwrap();
        rows.iter().map(|row| str::from_utf8(&row.lines).unwrap()).collect()
    }

    /// Everything that was taken is committed when this returns.
    fn stop(self) {
        drop(self.queue);
        self.thread.join().unwrap();
    }

    /// As a daemon that is killed: nothing is said to the file.
    fn abandon(self) {
        // the writer sleeps on, in a process that ends before long
        std::mem::forget(self.queue);
    }
}

/// A write of which nobody wants to hear.
pub(super) fn unacknowledged(session: &SessionId, ops: impl IntoIterator<Item = Op>) -> Write {
    Write {
        session: session.clone(),
        ops: ops.into_iter().collect(),
        sync: false,
        credit: Credit::none(),
        ack: None,
    }
}

/// A session.
pub(super) fn row(cwd: &str) -> Row {
    Row {
        id: SessionId::fresh(),
        agent: "claude".to_owned(),
        cwd: cwd.into(),
        params: r#"{"mcpServers":[]}"#.to_owned(),
        peer_session: br#""p-1""#.to_vec(),
        title: None,
        created_ms: 1_000,
        updated_ms: 1_000,
        parent: None,
        settings: Settings::default(),
    }
}

fn lines(text: &'static str) -> Op {
    Op::Frames(Kind::Peer, text.split_terminator('\n').map(Bytes::from).collect())
}

fn directory() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// Waits until that is so.
fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let due = Instant::now() + DEADLINE;
    while !is() {
        assert!(Instant::now() < due, "not in time: {what}");
        std::thread::yield_now();
    }
}
