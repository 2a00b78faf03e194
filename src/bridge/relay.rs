//! The two directions of a bridge, a thread each, and the one place that decides when both end.
//!
//! ```text
//! stdin -> up -> socket          up, down, signals -> End -> watch
//! stdout <- down <- socket
//! ```
//!
//! Stdout sees whole lines only, and every request that the daemon will not answer is answered by us, once.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::Shutdown,
    os::{fd::AsFd, unix::net::UnixStream},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Receiver, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{
    answer,
    ledger::Ledger,
    lines::{Filled, Lines},
};
use crate::limits::{LINE_BYTES_MAX, READ_BYTES};

/// One read of the stream towards the editor: four of the daemon's writes may have come together.
const DOWN_BYTES: usize = 4 * READ_BYTES;
/// The daemon keeps its lines under the ceiling, but its ids may be longer than the peer's.
const DOWN_LINE_BYTES_MAX: usize = LINE_BYTES_MAX + READ_BYTES;
/// How often a write that gets nowhere looks whether the editor is still there.
const LOOK_AGAIN: Duration = Duration::from_millis(300);
/// What still may come after the editor closed our stdin (R252: 1 s in all).
const LAST_ANSWERS: Duration = Duration::from_millis(400);
/// For the first request of an editor that was turned away before it asked anything: only answers are shown.
const FIRST_REQUEST_MAX: Duration = Duration::from_secs(1);
/// For the write in progress to complete.
const LAST_WRITE: Duration = Duration::from_millis(250);
/// What requests get that the daemon left open.
const WENT_AWAY: &str = "acpvisor daemon went away";
/// What requests get that nobody waited for.
const TOO_LATE: &str = "stdin ended before the answer";

/// Why the bridge ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The editor closed our stdin.
    StdinClosed,
    /// The editor does not listen any more.
    StdoutClosed,
    /// The daemon died, or closed the connection without a word; open requests have been answered.
    DaemonGone,
    /// The daemon said why, and closed the connection; open requests have been answered.
    DaemonClosed(String),
    /// The daemon takes nothing more; what it has written may still be there.
    DaemonDeaf,
    /// We were asked to end, with this signal.
    Signal(i32),
}

/// Relays until one side ends. `signals` feeds the other end of `ends`.
pub(super) fn relay<I, O>(stdin: I, stdout: O, socket: &UnixStream, ends: &Ends) -> io::Result<End>
where
    I: Read + AsFd + Send + 'static,
    O: Write + AsFd + Send + 'static,
{
    socket.set_write_timeout(Some(LOOK_AGAIN))?;
    let joint = Arc::new(Joint { ledger: Ledger::default(), stdout: Mutex::new(stdout) });
    let (for_up, for_down) = (socket.try_clone()?, socket.try_clone()?);
    let (up, down) = (Arc::clone(&joint), Arc::clone(&joint));
    ends.spawn("up", move || up.up(stdin, for_up))?;
    ends.spawn("down", move || down.down(for_down))?;
    let end = ends.wait();
    match end {
        End::StdinClosed => {
            joint.ledger.last_answers();
            // the daemon sees the end of the editor, which is what makes it end its side
            let _ = socket.shutdown(Shutdown::Write);
            if ends.wait_for_down(LAST_ANSWERS) {
                return Ok(end);
            }
        }
        End::StdoutClosed | End::Signal(_) => {
            joint.ledger.close();
        }
        End::DaemonDeaf | End::DaemonGone | End::DaemonClosed(_) => {}
    }
    // down finds the end behind what is there already, and stops between two lines
    let _ = socket.shutdown(Shutdown::Both);
    match end {
        End::DaemonClosed(_) if !joint.ledger.was_asked() => ends.wait_for_up(FIRST_REQUEST_MAX),
        End::DaemonGone | End::DaemonClosed(_) => {}
        End::DaemonDeaf => return Ok(ends.wait()),
        End::StdinClosed | End::StdoutClosed | End::Signal(_) => {
            ends.wait_for_down(LAST_WRITE);
        }
    }
    Ok(end)
}

/// Where the ends are reported.
pub(super) struct Ends {
    reports: Receiver<End>,
    reporter: Sender<End>,
}

impl Ends {
    pub(super) fn new() -> Self {
        let (reporter, reports) = mpsc::channel();
        Self { reports, reporter }
    }

    /// Runs one source of an end on its own thread.
    pub(super) fn spawn(&self, name: &str, run: impl FnOnce() -> End + Send + 'static) -> io::Result<()> {
        let reporter = self.reporter.clone();
        let report = move || {
            // nobody waits for a report that comes after the last one needed
            let _ = reporter.send(run());
        };
        thread::Builder::new().name(name.to_owned()).spawn(report).map(drop)
    }

    fn wait(&self) -> End {
        self.reports.recv().expect("we hold a sender ourselves")
    }

    /// Waits till the way up has come to its end, or somebody wants it to.
    fn wait_for_up(&self, patience: Duration) {
        // whatever is reported: down was first
        let _ = self.reports.recv_timeout(patience);
    }

    /// Whether the way down came to its end in that time, and before a signal.
    fn wait_for_down(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        loop {
            match self.reports.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(End::DaemonGone | End::DaemonClosed(_) | End::StdoutClosed) => return true,
                Ok(End::StdinClosed | End::DaemonDeaf) => {}
                Ok(End::Signal(_)) | Err(_) => return false,
            }
        }
    }
}

/// What the two directions share.
struct Joint<O> {
    ledger: Ledger,
    /// Held for whole lines.
    stdout: Mutex<O>,
}

impl<O: Write + AsFd> Joint<O> {
    fn up(&self, mut stdin: impl Read + AsFd, socket: UnixStream) -> End {
        let mut lines = Lines::new(READ_BYTES, LINE_BYTES_MAX);
        loop {
            let Ok(filled) = patiently(&mut stdin, PollFlags::IN, |stdin| lines.fill(stdin)) else {
                return End::StdinClosed;
            };
            self.enter(match filled {
                Filled::End => lines.all(),
                Filled::Some | Filled::Overlong => lines.whole(),
            });
            // bytes passed on are not bytes held, and of an overlong line the daemon knows best what to say
            let (sent, all) = match filled {
                Filled::Some => (send(lines.whole(), &socket, &stdin), false),
                Filled::End | Filled::Overlong => (send(lines.all(), &socket, &stdin), true),
            };
            match sent {
                Err(end) => return end,
                Ok(()) if filled == Filled::End => return End::StdinClosed,
                Ok(()) if all => lines.take_all(),
                Ok(()) => lines.take_whole(),
            }
        }
    }

    /// Enters the requests among these lines; those that come too late get their answer here. Touches stdout for
    /// these only: it may be blocked by an editor that waits for us to read.
    fn enter(&self, lines: &[u8]) {
        let mut answers = Vec::new();
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            if let Some(id) = self.ledger.outgoing(line) {
                answer::error(&mut answers, id, &self.why());
            }
        }
        if !answers.is_empty() {
            // the end of stdout is found by the other direction
            let _ = self.print(&answers);
        }
    }

    fn down(&self, mut socket: UnixStream) -> End {
        let mut lines = Lines::new(DOWN_BYTES, DOWN_LINE_BYTES_MAX);
        while let Ok(Filled::Some) = patiently(&mut socket, PollFlags::IN, |socket| lines.fill(socket)) {
            if lines.whole().is_empty() {
                continue;
            }
            self.ledger.incoming(lines.whole());
            if self.print(lines.whole()).is_err() {
                return End::StdoutClosed;
            }
            lines.take_whole();
        }
        // what is left in `lines` is torn: its end will not come
        let why = self.why();
        let mut answers = Vec::new();
        for id in self.ledger.close() {
            answer::error(&mut answers, &id, &why);
        }
        match self.print(&answers) {
            Ok(()) => self.ledger.last_word().map_or(End::DaemonGone, End::DaemonClosed),
            Err(_) => End::StdoutClosed,
        }
    }

    /// Why nobody else answers.
    fn why(&self) -> String {
        match self.ledger.last_word() {
            _ if self.ledger.is_ending() => TOO_LATE.to_owned(),
            Some(word) => format!("acpvisor daemon closed the connection: {word}"),
            None => WENT_AWAY.to_owned(),
        }
    }

    fn print(&self, lines: &[u8]) -> io::Result<()> {
        let mut stdout = self.stdout.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rest = lines;
        while !rest.is_empty() {
            match patiently(&mut *stdout, PollFlags::OUT, |stdout| stdout.write(rest))? {
                0 => return Err(ErrorKind::WriteZero.into()),
                count => rest = &rest[count..],
            }
        }
        Ok(())
    }
}

/// Writes everything, unless the daemon takes nothing any more, or nothing for now and the editor is gone.
fn send(bytes: &[u8], mut socket: &UnixStream, stdin: &impl AsFd) -> Result<(), End> {
    let mut rest = bytes;
    while !rest.is_empty() {
        match socket.write(rest) {
            Ok(count) => rest = &rest[count..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if hung_up(stdin) {
                    return Err(End::StdinClosed);
                }
            }
            Err(_) => return Err(End::DaemonDeaf),
        }
    }
    Ok(())
}

/// Whether the far end of a pipe or socket is closed, though there may be bytes left in it.
fn hung_up(stdin: &impl AsFd) -> bool {
    let closed = PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR;
    let mut descriptors = [PollFd::new(stdin, PollFlags::RDHUP)];
    poll(&mut descriptors, Some(&Timespec::default())).is_ok() && descriptors[0].revents().intersects(closed)
}

/// Repeats what was interrupted, and waits where the editor gave us a descriptor that does not.
fn patiently<F: AsFd, T>(
    on: &mut F,
    ready: PollFlags,
    mut call: impl FnMut(&mut F) -> io::Result<T>,
) -> io::Result<T> {
    loop {
        match call(on) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                // its own failure shows at the next call
                let _ = poll(&mut [PollFd::new(on, ready)], None);
            }
            done => return done,
        }
    }
}
