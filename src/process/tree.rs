//! Ends processes that may be forking meanwhile: stop until nobody new appears, then kill.
//!
//! Each is stopped before its children are looked for, oldest first, so that a tree is caught while it grows.
//! Signals go through pidfds, after a look that the handle is the process that was found: a stranger with a reused
//! number is never hit (R213). Reaps nothing.

use std::{collections::BTreeMap, os::fd::OwnedFd, time::Instant};

use rustix::{
    io::{self, Errno},
    process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group},
    process::{pidfd_open, pidfd_send_signal, waitid},
};

use super::procfs::{self, Identity, Stat};

/// Looks after which the killing starts even though new members still appear.
const STOP_LOOKS_MAX: usize = 50;

/// Sends a signal to exactly that process.
pub(super) fn signal(process: Identity, signal: Signal) {
    signal_if(process.pid, signal, |stat| stat.start == process.start);
}

/// Sends a signal to whoever has that number, if `is_meant` says so of it; what it said yes to. The handle is taken
/// first: what is then seen under the number is what the handle stands for, or is gone.
fn signal_if(number: i32, signal: Signal, is_meant: impl FnOnce(&Stat) -> bool) -> Option<Stat> {
    let pid = Pid::from_raw(number)?;
    let handle = pidfd_open(pid, PidfdFlags::empty());
    let stat = procfs::stat(number).filter(is_meant)?;
    // an end that came first is what was wanted
    let _ = send(handle, pid, signal);
    Some(stat)
}

fn send(handle: io::Result<OwnedFd>, pid: Pid, signal: Signal) -> io::Result<()> {
    match handle {
        Ok(handle) => pidfd_send_signal(handle, signal),
        Err(Errno::SRCH) => Ok(()),
        // without descriptors to spare the bare number must do
        Err(_) => kill_process(pid, signal),
    }
}

/// Sends a signal to a group. The caller knows that its number cannot have been reused.
pub(super) fn signal_group(group: i32, signal: Signal) {
    if let Some(group) = Pid::from_raw(group).filter(|group| group.as_raw_pid() > 1) {
        let _ = kill_process_group(group, signal);
    }
}

/// One round of STOP and KILL over a group whose number is held, and over `tops` and everything below them. The
/// stopping ends at `until`; the killing is always done.
pub(super) fn kill(group: Option<i32>, until: Instant, tops: impl Fn() -> Vec<i32>) {
    let to_group = |signal| group.into_iter().for_each(|group| signal_group(group, signal));
    to_group(Signal::STOP);
    let mut stopped = BTreeMap::new();
    for _ in 0..STOP_LOOKS_MAX {
        if !stop(tops(), until, &mut stopped) || Instant::now() >= until {
            break;
        }
    }
    to_group(Signal::KILL);
    for (pid, stat) in stopped {
        signal(Identity { pid, start: stat.start }, Signal::KILL);
    }
}

/// Stops whoever is not stopped yet; whether there was any.
fn stop(mut tops: Vec<i32>, until: Instant, stopped: &mut BTreeMap<i32, Stat>) -> bool {
    tops.reverse();
    let mut next: Vec<(i32, Option<i32>)> = tops.into_iter().map(|top| (top, None)).collect();
    let mut is_fresh = false;
    while let Some((pid, parent)) = next.pop().filter(|_| Instant::now() < until) {
        let stat = match stopped.get(&pid) {
            // it was stopped before its children were looked for, so there are no new ones
            Some(stat) if stat.threads <= 1 => continue,
            Some(stat) => *stat,
            None => {
                let is_meant = |stat: &Stat| !stat.ended && parent.is_none_or(|parent| parent == stat.parent);
                let Some(stat) = signal_if(pid, Signal::STOP, is_meant) else { continue };
                is_fresh = true;
                stopped.insert(pid, stat);
                stat
            }
        };
        next.extend(procfs::children_of(pid, stat).into_iter().rev().map(|child| (child, Some(pid))));
    }
    is_fresh
}

/// Reaps one child of ours if it has ended; true when it is no child any more.
pub(super) fn reap(pid: i32) -> bool {
    let Some(pid) = Pid::from_raw(pid) else { return true };
    !matches!(waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG), Ok(None))
}
