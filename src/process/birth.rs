//! How a shim brings its agent into the world: forked at `Begin`, known to the daemon, its program from `Go` on.
//!
//! Owns the agent's ends of the pipes until the fork. The invariant: between the fork and the program the child
//! listens itself, so that an agent whose record is not on disk never runs (R210).

use std::{
    env,
    ffi::{OsStr, OsString},
    io::{self, IoSliceMut},
    mem::MaybeUninit,
    os::{fd::OwnedFd, unix::process::CommandExt},
    process::Command,
    time::Duration,
};

use rustix::{
    cmsg_space,
    event::{PollFd, PollFlags, poll},
    io::Errno,
    net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg},
    process::{Pid, Resource, Rlimit, Signal, getpid, getppid, set_parent_process_death_signal, setrlimit},
};

use super::{
    shim::{listen, say, timespec},
    words::{Order, PACKET_BYTES_MAX, Report, Step},
};

/// A forked child waits this long for `Go`.
const GO_MAX: Duration = Duration::from_secs(30);

/// Waits for `Begin` and takes the agent's ends of stdin, stdout and stderr out of it.
pub(super) fn receive_ends(control: &OwnedFd) -> io::Result<[OwnedFd; 3]> {
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
pub(super) fn start(
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
