//! Processes as `/proc` shows them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal};

/// How long anything may take that should be quick.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Waits until `cond` holds; fails naming `what` after `deadline`.
pub fn wait_until(what: &str, deadline: Duration, mut cond: impl FnMut() -> bool) {
    let end = Instant::now() + deadline;
    while !cond() {
        assert!(Instant::now() < end, "not within {deadline:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether that process runs. A zombie does not.
pub fn alive(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
}

/// Whether that process is stopped by a signal.
pub fn stopped(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, _)| state == 'T')
}

/// Sends a signal; a process that is gone is no failure.
pub fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Everything that runs below that process, however deep.
pub fn descendants(of: u32) -> BTreeSet<u32> {
    let parents: BTreeMap<u32, u32> = all().filter_map(|pid| Some((pid, stat(pid)?.1))).collect();
    let below = |mut pid: u32| {
        while let Some(parent) = parents.get(&pid) {
            if *parent == of {
                return true;
            }
            pid = *parent;
        }
        false
    };
    parents.keys().copied().filter(|pid| below(*pid) && alive(*pid)).collect()
}

/// Everything that runs with a variable that contains that path, however far it wandered from its parents.
pub fn marked(with: &Path) -> BTreeSet<u32> {
    let mark = with.as_os_str().as_encoded_bytes();
    let has = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        memchr::memmem::find(&environment, mark).is_some()
    };
    all().filter(has).filter(|pid| alive(*pid)).collect()
}

/// Resident memory in bytes.
pub fn rss(pid: u32) -> usize {
    status(pid, "VmRSS:")
}

/// The most resident memory there ever was, in bytes.
pub fn peak_rss(pid: u32) -> usize {
    status(pid, "VmHWM:")
}

fn status(pid: u32, field: &str) -> usize {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<usize>().ok());
    kib.unwrap_or_default() << 10
}

/// Directory a process stands in.
pub fn cwd(pid: u32) -> Option<std::path::PathBuf> {
    fs::read_link(format!("/proc/{pid}/cwd")).ok()
}

/// State letter and parent.
fn stat(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

fn all() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}
