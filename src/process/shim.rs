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
    ffi::{OsStr, OsString},
    io::{self, IoSliceMut},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, FromRawFd, OwnedFd},
        unix::process::CommandExt,
    },
    process::Command,
    time::{Duration, Instant},
};

use rustix::{
    cmsg_space,
    event::{PollFd, PollFlags, Timespec, poll},
    io::{Errno, fcntl_dupfd_cloexec, read},
    net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recv, recvmsg, send},
    process::{
        Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, WaitIdStatus, getpid, getppid,
        set_child_subreaper, set_parent_process_death_signal, setrlimit, waitid,
    },
};

use super::{
    exit::Status,
    procfs, tree,
    words::{Order, PACKET_BYTES_MAX, Report, Step},
};

/// First argument of a process that is a shim. Working directory, program and arguments follow; stdin is control.
pub const WORD: &str = "__shim";

/// From SIGTERM to SIGKILL for what an agent left behind.
const LEFTOVERS_GRACE: Duration = Duration::from_millis(200);
/// The same for everything, when the daemon is gone.
const ABANDONED_GRACE: Duration = Duration::from_millis(500);
/// Killing goes on this long; what is left then sits in the kernel or belongs to another user.
const KILL_MAX: Duration = Duration::from_secs(3);
/// Longest pause between two rounds of killing.
const KILL_PAUSE: Duration = Duration::from_millis(10);
/// A forked child waits this long for `Go`.
const GO_MAX: Duration = Duration::from_secs(30);

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
    let ends = receive_ends(&control)?;
    let mut next = || arguments.next().ok_or(io::ErrorKind::InvalidInput);
    let (cwd, program) = (next()?, next()?);
    match start(&control, ends, &cwd, &program, arguments) {
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

/// Waits for `Begin` and takes the agent's ends of stdin, stdout and stderr out of it.
fn receive_ends(control: &OwnedFd) -> io::Result<[OwnedFd; 3]> {
    let mut packet = [0; PACKET_BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(3))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received =
        recvmsg(control, &mut [IoSliceMut::new(&mut packet)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?.bytes;
    let mut ends = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            ends.extend(rights);
        }
    }
    match Order::parse(&packet[..received]) {
        Some(Order::Begin) => ends.try_into().map_err(|_| io::ErrorKind::InvalidData.into()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Forks the agent, which says who it is and becomes the program on `Go`. Our copies of its pipes end here.
fn start(
    control: &OwnedFd,
    [stdin, stdout, stderr]: [OwnedFd; 3],
    cwd: &OsStr,
    program: &OsStr,
    arguments: impl Iterator<Item = OsString>,
) -> Result<Pid, (Step, io::Error)> {
    env::set_current_dir(cwd).map_err(|error| (Step::Cwd, error))?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(stdin).stdout(stdout).stderr(stderr).process_group(0);
    let (shim, words) = (getpid(), control.try_clone().map_err(|error| (Step::Run, error))?);
    // SAFETY: the shim has one thread, so the forked child may do whatever the shim may.
    unsafe { command.pre_exec(move || become_agent(shim, &words)) };
    let child = command.spawn().map_err(|error| (Step::Run, error))?;
    // a shim must not keep a directory busy that its agent has left
    let _ = env::set_current_dir("/");
    say(control, &Report::Running);
    Ok(Pid::from_raw(child.id().cast_signed()).expect("a child has a number"))
}

/// In the forked child: a clean process that dies with its shim, known to the daemon, waiting for `Go`.
fn become_agent(shim: Pid, control: &OwnedFd) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid() != Some(shim) {
        return Err(Errno::SRCH.into());
    }
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    reset_signals();
    say(control, &Report::Waiting(getpid().as_raw_nonzero().get()));
    let mut watched = [PollFd::new(control, PollFlags::IN)];
    if poll(&mut watched, Some(&timespec(GO_MAX)))? == 0 {
        return Err(Errno::TIMEDOUT.into());
    }
    match listen(control) {
        Some(Order::Go) => Ok(()),
        _ => Err(Errno::CANCELED.into()),
    }
}

/// Undoes what the daemon ignores and the shim blocks.
fn reset_signals() {
    let mut none = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: default dispositions refer to no code, and the set is written before it is read. The numbers that
    // cannot be changed are refused, which is as good.
    unsafe {
        for signal in 1..=64 {
            libc::signal(signal, libc::SIG_DFL);
        }
        libc::sigemptyset(none.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
    }
}

/// Tells the daemon. If it is gone nobody need know.
fn say(control: &OwnedFd, report: &Report) {
    let _ = send(control, report.packet().as_bytes(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
}

/// The order that has come; `None` when the daemon is gone or the packet is no order.
fn listen(control: &OwnedFd) -> Option<Order> {
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
        let left = self.kill_all();
        let report = if left.is_empty() { Report::Gone } else { Report::Left(left) };
        say(&self.control, &report);
        i32::from(report != Report::Gone)
    }

    /// Until something ends the agent: how long it then has between TERM and KILL.
    fn stand_by(&mut self) -> Duration {
        loop {
            self.adopted();
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

    /// Kills until nothing is left below us: who is left when the bound is over.
    fn kill_all(&mut self) -> Vec<i32> {
        let bound = Instant::now() + KILL_MAX;
        while !(self.is_alone() && self.has_no_child()) {
            if Instant::now() >= bound {
                return procfs::below(self.me).into_iter().map(|process| process.pid).collect();
            }
            tree::kill((!self.reaped).then(|| self.group()), || procfs::below(self.me));
            self.event(Some(Instant::now() + KILL_PAUSE));
        }
        Vec::new()
    }

    /// Nothing is left but the unreaped leader, as far as /proc shows.
    fn is_alone(&mut self) -> bool {
        self.leader_ended() && self.adopted().is_empty()
    }

    /// Reaps the leader, which frees the number of its group, and asks the kernel: it knows, /proc may be late.
    fn has_no_child(&mut self) -> bool {
        tree::reap(self.group());
        self.reaped = true;
        let any = waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT);
        matches!(any, Err(Errno::CHILD))
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
            self.ended = true;
            say(&self.control, &Report::Exited { status, asked: self.asked });
        }
        true
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

fn status(found: &WaitIdStatus) -> Status {
    let signal = found.terminating_signal().map(Status::Signal);
    found.exit_status().map(Status::Code).or(signal).unwrap_or(Status::Unknown)
}

fn timespec(duration: Duration) -> Timespec {
    let tv_sec = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    Timespec { tv_sec, tv_nsec: duration.subsec_nanos().into() }
}
