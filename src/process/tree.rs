//! Ends processes that may be forking meanwhile: stop until nobody new appears, then kill.
//!
//! Signals go through pidfds, after a look that the handle is the process that was found: a stranger with a reused
//! number is never hit (R213). Reaps nothing.

use std::collections::BTreeSet;

use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group},
    process::{pidfd_open, pidfd_send_signal, waitid},
};

use super::procfs::{self, Identity};

/// Looks after which the killing starts even though new members still appear.
const STOP_LOOKS_MAX: usize = 50;

/// Sends a signal to exactly that process.
pub(super) fn signal(process: Identity, signal: Signal) {
    let Some(pid) = Pid::from_raw(process.pid) else { return };
    let handle = pidfd_open(pid, PidfdFlags::empty());
    if procfs::stat(process.pid).is_none_or(|stat| stat.start != process.start) {
        return;
    }
    // an end that came first is what was wanted; without descriptors to spare the bare number must do
    let _ = match handle {
        Ok(handle) => pidfd_send_signal(handle, signal),
        Err(Errno::SRCH) => Ok(()),
        Err(_) => kill_process(pid, signal),
    };
}

/// Sends a signal to a group. The caller knows that its number cannot have been reused.
pub(super) fn signal_group(group: i32, signal: Signal) {
    if let Some(group) = Pid::from_raw(group).filter(|group| group.as_raw_pid() > 1) {
        let _ = kill_process_group(group, signal);
    }
}

/// One round of STOP and KILL over a group whose number is held and over `members`, asked again and again.
pub(super) fn kill(group: Option<i32>, members: impl Fn() -> BTreeSet<Identity>) {
    let to_group = |signal| group.into_iter().for_each(|group| signal_group(group, signal));
    to_group(Signal::STOP);
    let mut stopped = BTreeSet::new();
    for _ in 0..STOP_LOOKS_MAX {
        let fresh: Vec<Identity> = members().into_iter().filter(|member| stopped.insert(*member)).collect();
        if fresh.is_empty() {
            break;
        }
        fresh.into_iter().for_each(|member| signal(member, Signal::STOP));
    }
    to_group(Signal::KILL);
    members().into_iter().for_each(|member| signal(member, Signal::KILL));
}

/// Reaps one child of ours if it has ended; true when it is no child any more.
pub(super) fn reap(pid: i32) -> bool {
    let Some(pid) = Pid::from_raw(pid) else { return true };
    !matches!(waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG), Ok(None))
}
