//! A store with its actor, as the daemon has it.

use std::{
    path::Path,
    sync::mpsc,
    time::{Duration, Instant},
};

use acpvisor::{
    directory::Directory,
    id::SessionId,
    store::{self, Ack, Kind, Msg, Op, Query, Reader, Row, Settings, Store, StoreError, Write},
    wire::credit::Credit,
};
use bytes::Bytes;
use ractor::{Actor, ActorRef};
use tokio::runtime::Runtime;

use crate::{Outcome, rounds::BATCH_LINES};

/// Batches of one peer that are on their way to the store at once: a window.
const IN_FLIGHT: usize = 2;
/// A page of a transcript.
const PAGE_BYTES: usize = 1 << 20;

/// The running store.
pub struct Shelf {
    actor: ActorRef<Msg>,
    pub reader: Reader,
    runtime: Runtime,
    /// From the call to a store that may be used.
    pub opened: Duration,
}

type Answer = Result<i64, StoreError>;

impl Shelf {
    /// In that directory.
    pub fn open(directory: &Path) -> Outcome<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build()?;
        let began = Instant::now();
        let opened = store::open(directory)?;
        let time = began.elapsed();
        let reader = opened.reader.clone();
        let spawned = Actor::spawn(None, Store, (Directory::default(), opened));
        let (actor, _) = runtime.block_on(spawned)?;
        Ok(Self { actor, reader, runtime, opened: time })
    }

    /// Ends it and waits for that.
    pub fn close(self) -> Outcome<()> {
        self.actor.drain()?;
        self.runtime.block_on(self.reader.ended());
        Ok(())
    }

    fn post(&self, session: &SessionId, op: Op, sync: bool, told: &mpsc::Sender<Answer>) -> Outcome<()> {
        let told = told.clone();
        let ack = Ack::new(move |outcome| drop(told.send(outcome)));
        let (session, ops) = (session.clone(), [op].into_iter().collect());
        Ok(self.actor.cast(Msg::Write(Write {
            session,
            ops,
            sync,
            credit: Credit::none(),
            ack: Some(ack),
        }))?)
    }

    fn write(&self, session: &SessionId, op: Op, sync: bool) -> Outcome<Duration> {
        let (told, answer) = mpsc::channel();
        let began = Instant::now();
        self.post(session, op, sync, &told)?;
        answer.recv()??;
        Ok(began.elapsed())
    }

    /// Sessions with nothing in them; the last one.
    pub fn sessions(&self, count: usize) -> Outcome<SessionId> {
        let (told, answers) = mpsc::channel();
        let mut last = SessionId::fresh();
        for number in 0..count {
            let row = row(number as i64);
            last = row.id.clone();
            self.post(&last, Op::Create(Box::new(row)), false, &told)?;
        }
        for _ in 0..count {
            answers.recv()??;
        }
        Ok(last)
    }

    /// Batches of lines, spread over these sessions, each with no more on their way than a window holds.
    pub fn append(&self, sessions: &[SessionId], line: &[u8], batches: usize) -> Outcome<Duration> {
        let line = Bytes::copy_from_slice(line);
        let (told, answers) = mpsc::channel();
        let began = Instant::now();
        for number in 0..batches {
            if number >= IN_FLIGHT * sessions.len() {
                answers.recv()??;
            }
            let lines = vec![line.clone(); BATCH_LINES];
            let session = &sessions[number % sessions.len()];
            self.post(session, Op::Frames(Kind::Peer, lines), false, &told)?;
        }
        drop(told);
        answers.iter().try_for_each(|answer| answer.map(drop))?;
        Ok(began.elapsed())
    }

    /// One small write that somebody waits for.
    pub fn note(&self, session: &SessionId, line: &[u8], sync: bool) -> Outcome<Duration> {
        self.write(session, Op::Frames(Kind::Mark, vec![Bytes::copy_from_slice(line)]), sync)
    }

    /// Reads the first lines of a session back.
    pub fn read(&self, session: &SessionId, lines: usize) -> Outcome<Duration> {
        let began = Instant::now();
        let (mut after, mut seen) = (0, 0);
        while seen < lines {
            let rows = self.reader.rows(Some(session), after, i64::MAX, PAGE_BYTES)?;
            after = rows.last().ok_or("the session is too short")?.number;
            seen += rows.iter().map(|row| memchr::memchr_iter(b'\n', &row.lines).count()).sum::<usize>();
        }
        Ok(began.elapsed())
    }

    /// A page of sessions from the middle of the list.
    pub fn list(&self) -> Outcome<Duration> {
        let half = Query { limit: self.reader.saved()? / 2, ..Query::default() };
        let after = self.reader.list(&half)?.next;
        let began = Instant::now();
        let page = self.reader.list(&Query { limit: 50, after, cwd: None })?;
        let took = began.elapsed();
        if page.rows.len() < 50 { Err("the list is too short".into()) } else { Ok(took) }
    }
}

fn row(number: i64) -> Row {
    Row {
        id: SessionId::fresh(),
        agent: "bench".to_owned(),
        cwd: format!("/project/{}", number % 20).into(),
        params: r#"{"mcpServers":[{"name":"x","command":"/usr/bin/x","args":[],"env":[]}]}"#.to_owned(),
        peer_session: br#""0195-bench""#.to_vec(),
        title: Some(format!("Session number {number}")),
        created_ms: number,
        updated_ms: number,
        parent: None,
        settings: Settings::default(),
    }
}
