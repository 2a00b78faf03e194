//! The thread that writes: takes what is there, commits it in one transaction, and says so (R273).
//!
//! A full disk is told to those who wait and tried again for the others; any other failure ends the daemon (R274).
//! While there is nothing to do it sleeps, and writes nothing.

use std::{
    collections::HashMap,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc::{self, RecvTimeoutError},
    thread::{self, JoinHandle},
    time::Instant,
};

use super::{
    Msg, Opened, StoreError, Write,
    backlog::Backlog,
    commit::{Committer, Done},
    failure::Setback,
    retry::later,
    scrubbing::Scrubbing,
    shrink::{self, Shrunk},
};
use crate::{
    id::SessionId,
    limits::{COMMIT_BYTES_MAX, COMMIT_WRITES_MAX},
};

/// Whom it speaks to.
type Tell = Box<dyn FnMut(Msg) + Send>;

/// Starts it. It ends with the queue, and says so when it ends for another reason.
pub(super) fn start(
    opened: Opened,
    queue: mpsc::Receiver<Write>,
    tell: impl FnMut(Msg) + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let mut writer = Writer::new(opened, queue, Box::new(tell));
    thread::Builder::new().name("store".to_owned()).spawn(move || writer.live())
}

/// The thread's own.
pub(super) struct Writer {
    pub(super) committer: Committer,
    queue: mpsc::Receiver<Write>,
    tell: Tell,
    pub(super) backlog: Backlog,
    /// When the backlog is tried again.
    pub(super) again: Option<Instant>,
    /// When the file is made smaller.
    shrink: Option<Instant>,
    scrubbing: Scrubbing,
    session_bytes_max: u64,
    /// Sessions that were told to be larger, and how large they were then.
    large: HashMap<SessionId, u64>,
}

impl Writer {
    fn new(opened: Opened, queue: mpsc::Receiver<Write>, tell: Tell) -> Self {
        let session_bytes_max = opened.session_bytes_max;
        // what a former daemon did not get to
        let free = shrink::free_pages(&opened.connection).is_ok_and(|pages| pages > 0);
        Self {
            committer: Committer::new(opened),
            queue,
            tell,
            backlog: Backlog::default(),
            again: None,
            shrink: free.then(Instant::now),
            scrubbing: Scrubbing::default(),
            session_bytes_max,
            large: HashMap::new(),
        }
    }

    /// A panic ends it as any failure does: a daemon whose store is gone must not go on.
    fn live(&mut self) {
        let end = catch_unwind(AssertUnwindSafe(|| self.run()));
        let end = end.unwrap_or_else(|_| Err(self.broken("its writer panicked".to_owned())));
        if let Err(error) = end {
            tracing::error!(%error, "store failed");
            self.queue.try_iter().for_each(|write| say(write, Err(error.clone())));
            (self.tell)(Msg::Ended(error));
        }
    }

    fn run(&mut self) -> Result<(), StoreError> {
        loop {
            match self.next() {
                Ok(first) => {
                    let group = self.gather(first);
                    self.store(group)?;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.finish(),
            }
            self.chores(Instant::now())?;
        }
    }

    /// A write, or nothing when something else is to be done first.
    fn next(&self) -> Result<Write, RecvTimeoutError> {
        match self.due() {
            Some(due) => self.queue.recv_timeout(due.saturating_duration_since(Instant::now())),
            None => self.queue.recv().map_err(|_| RecvTimeoutError::Disconnected),
        }
    }

    /// When there is something to do without a further write.
    fn due(&self) -> Option<Instant> {
        [self.committer.wal.due(), self.again, self.shrink, self.scrubbing.due()].into_iter().flatten().min()
    }

    /// What else is there already.
    fn gather(&mut self, first: Write) -> Vec<Write> {
        let mut bytes = first.bytes();
        let mut group = self.scrubbing.clean(first).into_vec();
        while group.len() < COMMIT_WRITES_MAX && bytes < COMMIT_BYTES_MAX {
            let Ok(write) = self.queue.try_recv() else { break };
            bytes += write.bytes();
            group.extend(self.scrubbing.clean(write));
        }
        group
    }

    /// All of them are committed: says so, and their credit returns.
    pub(super) fn settle(&mut self, group: Vec<Write>, done: Done) {
        done.sizes.into_iter().for_each(|(session, bytes)| self.weigh(session, bytes));
        if done.freed {
            self.shrink.get_or_insert_with(Instant::now);
        }
        for (write, outcome) in group.into_iter().zip(done.outcomes) {
            if write.deletes() && outcome.is_ok() {
                self.large.remove(&write.session);
                drop(self.backlog.take(&write.session));
            }
            say(write, outcome);
        }
    }

    /// Says when a session becomes too large, and again when it has grown by a quarter of what it may be.
    fn weigh(&mut self, session: SessionId, bytes: u64) {
        if bytes <= self.session_bytes_max {
            self.large.remove(&session);
            return;
        }
        let told = self.large.get(&session).copied();
        if told.is_none_or(|told| bytes > told + self.session_bytes_max / 4) {
            self.large.insert(session.clone(), bytes);
            (self.tell)(Msg::Oversize(session, bytes));
        }
    }

    fn chores(&mut self, now: Instant) -> Result<(), StoreError> {
        let is_due = |due: Option<Instant>| due.is_some_and(|due| due <= now);
        if is_due(self.committer.wal.due()) {
            self.committer.sync().map_err(|setback| setback.told("", &self.committer.path))?;
        }
        if is_due(self.again) {
            self.flush_all()?;
        }
        if is_due(self.scrubbing.due()) {
            self.store_undecided()?;
        }
        if is_due(self.shrink) {
            self.shrink()?;
        }
        Ok(())
    }

    /// What waits for its continuation waits no longer (R243).
    fn store_undecided(&mut self) -> Result<(), StoreError> {
        let writes = self.scrubbing.flush_all();
        if writes.is_empty() { Ok(()) } else { self.store(writes) }
    }

    fn shrink(&mut self) -> Result<(), StoreError> {
        self.shrink = match shrink::step(&self.committer.connection) {
            Ok(Shrunk::Partly) => Some(Instant::now()),
            Ok(Shrunk::Held) => Some(later()),
            Ok(Shrunk::Whole) => None,
            Err(error) => match Setback::of(&error, &self.committer.path) {
                Setback::Broken(why) => return Err(self.broken(why)),
                Setback::Full | Setback::Busy(_) => Some(later()),
            },
        };
        Ok(())
    }

    /// Nothing more comes: what can be kept is kept.
    fn finish(&mut self) -> Result<(), StoreError> {
        self.store_undecided()?;
        self.flush_all()?;
        if !self.backlog.is_empty() {
            tracing::error!(writes = self.backlog.len(), "no space was found for what waited; it is lost");
        }
        self.committer.sync().map_err(|setback| setback.told("", &self.committer.path))?;
        let _ = shrink::empty_log(&self.committer.connection);
        Ok(())
    }

    pub(super) fn broken(&self, why: String) -> StoreError {
        StoreError::Io { path: self.committer.path.clone(), why }
    }
}

/// Tells whoever waits for a write; what nobody waits for and is refused would be lost without a word.
pub(super) fn say(write: Write, outcome: Result<i64, StoreError>) {
    match (write.ack, outcome) {
        (Some(ack), outcome) => ack.say(outcome),
        (None, Err(error)) => tracing::warn!(session = %write.session, %error, "lines are not stored"),
        (None, Ok(_)) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, time::Duration};

    use super::*;
    use crate::{
        limits::SYNC_MS_MAX,
        store::{
            Kind, Op, open,
            tests::{row, unacknowledged},
        },
    };

    /// R273, LOG-06: what was committed is synced within a second, or with its write; after that nothing is to be done,
    /// and nothing is written.
    #[test]
    fn a_commit_is_synced_within_a_second_and_an_idle_writer_has_nothing_to_do() {
        let directory = tempfile::tempdir().unwrap();
        let opened = open(directory.path()).unwrap();
        let (_queue, writes) = mpsc::channel();
        let mut writer = Writer::new(opened, writes, Box::new(|_| {}));
        assert_eq!(writer.due(), None);
        let row = row("/w");
        let id = row.id.clone();
        let create = unacknowledged(&id, [Op::Create(Box::new(row))]);
        writer.store(vec![Write { sync: true, ..create }]).unwrap();
        assert_eq!(writer.due(), None, "it was synced with the write");

        let line = || unacknowledged(&id, [Op::Frames(Kind::Peer, vec!["a".into()])]);
        writer.store(vec![line()]).unwrap();
        let due = writer.due().unwrap();
        assert!(due < Instant::now() + Duration::from_millis(SYNC_MS_MAX));
        writer.store(vec![line()]).unwrap();
        assert_eq!(writer.due(), Some(due), "later commits do not put it off");
        writer.chores(due - Duration::from_millis(1)).unwrap();
        assert_eq!(writer.due(), Some(due));
        writer.chores(due).unwrap();
        assert_eq!(writer.due(), None);

        let files = || {
            let files = fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().path());
            files.map(|file| fs::read(file).unwrap()).collect::<Vec<_>>()
        };
        let before = files();
        writer.chores(due + Duration::from_secs(600)).unwrap();
        assert_eq!(files(), before);
    }
}
