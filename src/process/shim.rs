//! The shim: what this binary is when it is started again to stand between the daemon and one agent.
//!
//! Owns everything below it: it is a subreaper, and it leaves only when nothing is left or its bounds are over. It
//! never touches the agent's bytes. One thread, because PDEATHSIG follows the thread that forked. The invariant:
//! the leader stays unreaped until the sweep of its group is done, so that no signal meets a stranger (R213).
//!
//! ```text
//!  Begin -> child waits -> Go -> running --Kill------------------------> kill all -> Gone | Left
//!                                   |----daemon lost--> TERM, 500 ms ------^
//!                                   `----leader ends--> TERM, 200 ms ------'
//! ```

use std::{
    env,
    ffi::OsString,
    io,
    mem::MaybeUninit,
    os::fd::{AsFd, FromRawFd, OwnedFd},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{Errno, fcntl_dupfd_cloexec, read},
    net::{RecvFlags, SendFlags, recv, send},
    process::{
        Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, WaitOptions, WaitStatus, getpid,
        set_child_subreaper, wait, waitid,
    },
};

use super::{
    birth,
    exit::Status,
    procfs, tree,
    words::{Order, PACKET_BYTES_MAX, Report},
};

/// First argument of a process that is a shim. Working directory, program and arguments follow; stdin is control.
pub const WORD: &str = "__shim";

/// From SIGTERM to SIGKILL for what an agent left behind.
const LEFTOVERS_GRACE: Duration = Duration::from_millis(200);
/// The same for everything, when the daemon is gone.
const ABANDONED_GRACE: Duration = Duration::from_millis(500);
/// What is left after this long is named to the daemon, which need not wait for it.
const TELL_AFTER: Duration = Duration::from_secs(3);
/// Killing goes on this long; what is left then sits in the kernel or belongs to another user.
const KILL_MAX: Duration = Duration::from_secs(30);
/// Between two rounds of killing, for what was killed to die.
const KILL_PAUSE: Duration = Duration::from_millis(10);

/// Runs the shim if this process is one; its exit code. To be called before any thread or runtime exists.
pub fn main() -> Option<i32> {
    let mut arguments = env::args_os().skip(1);
    (arguments.next()? == WORD).then(|| {
        run(arguments).unwrap_or_else(|error| {
            eprintln!("acpvisor: failed to be a shim, which only the daemon starts: {error}");
            2
        })
    })
}

fn run(mut arguments: impl Iterator<Item = OsString>) -> io::Result<i32> {
    close_strangers();
    let control = fcntl_dupfd_cloexec(io::stdin(), 3)?;
    set_child_subreaper(Some(getpid()))?;
    // started as /proc/self/exe it would be called `exe`; a name is for the eyes alone
    let _ = rustix::thread::set_name(c"acpvisor-shim");
    let signals = take_signals()?;
    let ends = birth::receive_ends(&control)?;
    let mut next = || arguments.next().ok_or(io::ErrorKind::InvalidInput);
    let (cwd, program) = (next()?, next()?);
    match birth::start(&control, ends, &cwd, &program, arguments) {
        Ok(agent) => Ok(Shim::new(control, signals, agent).attend()),
        Err((step, error)) => {
            say(&control, &Report::Failed(step, error.raw_os_error().unwrap_or(libc::EINVAL)));
            Ok(127)
        }
    }
}

/// Closes what somebody in the daemon may have opened without CLOEXEC. A kernel that cannot (before 5.9) does not.
fn close_strangers() {
    // SAFETY: this process has just begun and owns no descriptor beyond the three of its stdio.
    unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, 0_u32) };
}

/// Blocks every signal, so that only the control descriptor decides; SIGCHLD is told by the descriptor returned.
fn take_signals() -> io::Result<OwnedFd> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is written before it is read, and the new descriptor is owned by nobody else.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        libc::sigfillset(set.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGCHLD);
        match libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
            -1 => Err(io::Error::last_os_error()),
            descriptor => Ok(OwnedFd::from_raw_fd(descriptor)),
        }
    }
}

/// Tells the daemon. If it is gone nobody need know.
pub(super) fn say(control: &OwnedFd, report: &Report) {
    let _ = send(control, report.packet().as_bytes(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
}

/// The order that has come; `None` when the daemon is gone or the packet is no order.
pub(super) fn listen(control: &OwnedFd) -> Option<Order> {
    let mut packet = [0; PACKET_BYTES_MAX];
    let (_, received) = recv(control, &mut packet[..], RecvFlags::DONTWAIT).ok()?;
    Order::parse(&packet[..received])
}

/// What ends a wait.
enum Event {
    Order(Order),
    /// The daemon is gone, or speaks in tongues.
    Abandoned,
    /// A child may have changed.
    Child,
    Due,
}

struct Shim {
    control: OwnedFd,
    signals: OwnedFd,
    me: i32,
    agent: Pid,
    /// An order to end came while the agent ran.
    asked: bool,
    /// The end of the leader is known and was reported.
    ended: bool,
    /// The leader is reaped: its group must not be signalled any more.
    reaped: bool,
    abandoned: bool,
}

impl Shim {
    fn new(control: OwnedFd, signals: OwnedFd, agent: Pid) -> Self {
        let me = getpid().as_raw_nonzero().get();
        Self { control, signals, me, agent, asked: false, ended: false, reaped: false, abandoned: false }
    }

    /// Stands by until the end, then brings it about. The exit code says whether it was complete.
    fn attend(mut self) -> i32 {
        let grace = self.stand_by();
        if !grace.is_zero() {
            self.term_all(grace);
        }
        let is_gone = self.kill_all();
        if is_gone {
            say(&self.control, &Report::Gone);
        }
        i32::from(!is_gone)
    }

    /// Until something ends the agent: how long it then has between TERM and KILL.
    fn stand_by(&mut self) -> Duration {
        loop {
            self.reap_adopted();
            if self.leader_ended() {
                return LEFTOVERS_GRACE;
            }
            match self.event(None) {
                Event::Order(Order::Term) => self.term(),
                Event::Order(Order::Kill) => return self.ask(Duration::ZERO),
                Event::Abandoned => return self.ask(ABANDONED_GRACE),
                Event::Order(Order::Begin | Order::Go) | Event::Child | Event::Due => {}
            }
        }
    }

    fn term(&mut self) {
        self.ask(Duration::ZERO);
        tree::signal_group(self.group(), Signal::TERM);
    }

    /// Remembers that the end was asked for, unless it came by itself before.
    fn ask(&mut self, grace: Duration) -> Duration {
        self.asked |= !self.leader_ended();
        grace
    }

    fn group(&self) -> i32 {
        self.agent.as_raw_nonzero().get()
    }

    /// TERM to the group and to whatever left it, and time to obey. An order to kill or a lost daemon cut it short.
    fn term_all(&mut self, grace: Duration) {
        let due = Instant::now() + grace;
        tree::signal_group(self.group(), Signal::TERM);
        procfs::below(self.me).into_iter().for_each(|process| tree::signal(process, Signal::TERM));
        while !self.is_alone() && Instant::now() < due {
            if matches!(self.event(Some(due)), Event::Order(Order::Kill) | Event::Abandoned) {
                break;
            }
        }
    }

    /// Kills until nothing is left below us; false when the bound is over.
    fn kill_all(&mut self) -> bool {
        let start = Instant::now();
        let (mut tell_at, kill_until) = (Some(start + TELL_AFTER), start + KILL_MAX);
        if self.is_alone() && !self.reap_all() {
            return true;
        }
        loop {
            tree::kill((!self.reaped).then(|| self.group()), kill_until, || procfs::children(self.me));
            if !self.let_die() {
                return true;
            }
            if tell_at.take_if(|at| Instant::now() >= *at).is_some() {
                let left = procfs::below(self.me).into_iter().map(|process| process.pid);
                say(&self.control, &Report::Left(left.collect()));
            }
            if Instant::now() >= kill_until {
                return false;
            }
        }
    }

    /// Reaps what dies within the pause; whether any child remains.
    fn let_die(&mut self) -> bool {
        let due = Instant::now() + KILL_PAUSE;
        while self.reap_all() {
            if Instant::now() >= due || matches!(self.event(Some(due)), Event::Due) {
                return true;
            }
        }
        false
    }

    /// Nothing is left but the unreaped leader, as far as /proc shows.
    fn is_alone(&mut self) -> bool {
        self.leader_ended() && self.adopted().is_empty()
    }

    /// Reaps whoever has ended, the leader too, which frees the number of its group; whether any child remains.
    /// The kernel's word: what has no child has nothing below it.
    fn reap_all(&mut self) -> bool {
        self.leader_ended();
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.agent => self.release(status),
                Ok(Some(_)) => {}
                Ok(None) | Err(Errno::INTR) => return true,
                Err(_) => return false,
            }
        }
    }

    /// The leader is reaped, and had not been seen to end before.
    fn release(&mut self, status: WaitStatus) {
        self.reaped = true;
        if !self.ended {
            let signal = status.terminating_signal().map(Status::Signal);
            self.tell_end(status.exit_status().map(Status::Code).or(signal).unwrap_or(Status::Unknown));
        }
    }

    /// Reaps the adopted that have ended, as long as the leader has not: a zombie that stays hides the later ones.
    fn reap_adopted(&self) {
        while let Some(pid) = ended_child().filter(|pid| *pid != self.group()) {
            tree::reap(pid);
        }
    }

    /// The children besides the leader that still run; those that do not are reaped.
    fn adopted(&self) -> Vec<i32> {
        let others = procfs::children(self.me).into_iter().filter(|pid| *pid != self.group());
        others.filter(|pid| !tree::reap(*pid)).collect()
    }

    /// Whether the leader has ended. It is reported at once and stays unreaped.
    fn leader_ended(&mut self) -> bool {
        if !self.ended {
            let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            let status = match waitid(WaitId::Pid(self.agent), look) {
                Ok(None) | Err(Errno::INTR) => return false,
                Ok(Some(found)) => status(&found),
                Err(_) => Status::Unknown,
            };
            self.tell_end(status);
        }
        true
    }

    fn tell_end(&mut self, status: Status) {
        self.ended = true;
        say(&self.control, &Report::Exited { status, asked: self.asked });
    }

    fn event(&mut self, due: Option<Instant>) -> Event {
        let timeout = due.map(|due| timespec(due.saturating_duration_since(Instant::now())));
        let mut watched =
            [PollFd::new(&self.signals, PollFlags::IN), PollFd::new(&self.control, PollFlags::IN)];
        // a lost daemon is readable for ever
        let count = if self.abandoned { 1 } else { 2 };
        match poll(&mut watched[..count], timeout.as_ref()) {
            Ok(0) => Event::Due,
            Ok(_) if watched[1].revents().is_empty() => self.child(),
            Ok(_) => self.order(),
            Err(_) => Event::Child,
        }
    }

    fn child(&self) -> Event {
        // pending SIGCHLDs are one, however many children changed
        let _ = read(self.signals.as_fd(), &mut [0_u8; 1024]);
        Event::Child
    }

    fn order(&mut self) -> Event {
        let order = listen(&self.control);
        self.abandoned = order.is_none();
        order.map_or(Event::Abandoned, Event::Order)
    }
}

/// A child that has ended, left as it is.
fn ended_child() -> Option<i32> {
    let mut found = MaybeUninit::<libc::siginfo_t>::zeroed();
    let look = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: all zeroes is a siginfo, with the number 0 that stands for nobody, and the kernel fills in the rest.
    let pid = unsafe {
        libc::waitid(libc::P_ALL, 0, found.as_mut_ptr(), look);
        found.assume_init().si_pid()
    };
    (pid > 0).then_some(pid)
}

fn status(found: &WaitIdStatus) -> Status {
    let signal = found.terminating_signal().map(Status::Signal);
    found.exit_status().map(Status::Code).or(signal).unwrap_or(Status::Unknown)
}

pub(super) fn timespec(duration: Duration) -> Timespec {
    let tv_sec = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    Timespec { tv_sec, tv_nsec: duration.subsec_nanos().into() }
}
