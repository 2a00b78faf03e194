//! The daemon's own children: shims, known by their number from birth until they are reaped, and nobody else.
//!
//! A child that is no shim was adopted from a shim that somebody killed; it is ended and reaped here (R279). Every
//! child of the daemon is started through [`start`], or it would be taken for such an orphan.

use std::{
    collections::BTreeMap,
    io,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{child_subreaper, getpid, set_child_subreaper};
use tokio::process::{Child, Command};

use super::{procfs, tree};

/// Pause between two rounds of ending orphans.
const PAUSE: Duration = Duration::from_millis(5);

/// The live children by number, each with a token: a number may return before its former owner is forgotten.
/// Held while a child is born and while orphans are told from children, never across a wait.
static KNOWN: Mutex<(u64, BTreeMap<i32, u64>)> = Mutex::new((0, BTreeMap::new()));

static SWEEP: Mutex<()> = Mutex::new(());

fn known() -> MutexGuard<'static, (u64, BTreeMap<i32, u64>)> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A child that is known. Keep it until the child is reaped.
#[derive(Debug)]
pub struct Known {
    pid: i32,
    token: u64,
}

impl Drop for Known {
    fn drop(&mut self) {
        let table = &mut known().1;
        if table.get(&self.pid) == Some(&self.token) {
            table.remove(&self.pid);
        }
    }
}

/// Makes this process the one that orphans of killed shims come to. To be called once, when the daemon starts.
pub fn adopt_orphans() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Starts a child of the daemon. The command has no `pre_exec`, which would copy the page tables of the daemon.
pub fn start(command: &mut Command) -> io::Result<(Child, Known)> {
    let mut table = known();
    let child = command.spawn()?;
    let pid = child.id().expect("nobody has waited for it yet").cast_signed();
    table.0 += 1;
    let token = table.0;
    table.1.insert(pid, token);
    Ok((child, Known { pid, token }))
}

/// Numbers of the children that are there.
pub fn pids() -> Vec<i32> {
    known().1.keys().copied().collect()
}

/// Ends and reaps the orphans; who is left when the bound is over, or `None` where no orphan comes to us. Blocks.
pub(super) fn end_orphans(bound: Duration) -> Option<Vec<i32>> {
    child_subreaper().ok().flatten()?;
    // one at a time: a number that one sweep reaps must not be one that another has just listed
    let _sweeping = SWEEP.lock().unwrap_or_else(PoisonError::into_inner);
    let due = Instant::now() + bound;
    loop {
        let left = reap_orphans();
        if left.is_empty() || Instant::now() >= due {
            return Some(left);
        }
        tree::kill(None, due, || orphans(&known()));
        thread::sleep(PAUSE);
    }
}

/// The orphans that still run. The table is held, because a number that is reaped may be that of a child at once.
fn reap_orphans() -> Vec<i32> {
    let table = known();
    orphans(&table).into_iter().filter(|pid| !tree::reap(*pid)).collect()
}

fn orphans((_, children): &(u64, BTreeMap<i32, u64>)) -> Vec<i32> {
    let all = procfs::children(getpid().as_raw_nonzero().get()).into_iter();
    all.filter(|pid| !children.contains_key(pid)).collect()
}
