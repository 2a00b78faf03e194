//! What /proc knows of processes: who they are, whose children, whether they still run.
//!
//! Never signals. An [`Identity`] names one process for ever; a bare pid only while somebody keeps it from reuse.

use std::{collections::BTreeSet, fs, io::Read, path::Path, sync::LazyLock};

use serde::{Deserialize, Serialize};

/// One process, told from every later one with the same pid by its start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Identity {
    /// Its number.
    pub(super) pid: i32,
    /// Clock ticks from boot to its start.
    pub(super) start: u64,
}

impl Identity {
    /// Who has that number now.
    pub(super) fn of(pid: i32) -> Option<Self> {
        stat(pid).map(|stat| Self { pid, start: stat.start })
    }

    /// Whether it still runs; a zombie does not.
    pub(super) fn is_alive(self) -> bool {
        stat(self.pid).is_some_and(|stat| stat.start == self.start && !stat.ended)
    }
}

/// The fields of `/proc/PID/stat` that matter here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) parent: i32,
    pub(super) group: i32,
    pub(super) start: u64,
    /// Of 2 and more, each may have children of its own.
    pub(super) threads: u32,
    /// A zombie: only its entry is left.
    pub(super) ended: bool,
}

/// Reads the entry of a process; `None` when there is none.
pub(super) fn stat(pid: i32) -> Option<Stat> {
    parse(&contents(&format!("/proc/{pid}/stat"))?)
}

fn parse(stat: &[u8]) -> Option<Stat> {
    // the command stands in parentheses and may itself hold any byte, so the last one counts
    let after = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let fields: Vec<&str> = str::from_utf8(stat.get(after..)?).ok()?.split_ascii_whitespace().collect();
    let field = |index: usize| fields.get(index).copied();
    // a leader whose main thread ended shows as a zombie while its other threads run on
    let threads: u32 = field(17)?.parse().ok()?;
    Some(Stat {
        threads,
        ended: matches!(field(0)?, "Z" | "X") && threads <= 1,
        parent: field(1)?.parse().ok()?,
        group: field(2)?.parse().ok()?,
        start: field(19)?.parse().ok()?,
    })
}

/// The direct children of a process, zombies included.
pub(super) fn children(pid: i32) -> Vec<i32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let threads = tasks.filter_map(|task| task.file_name().to_str()?.parse().ok());
    if *LISTED { threads.flat_map(|thread| listed(pid, thread)).collect() } else { searched(pid) }
}

/// Whether this kernel lists children; all do that can checkpoint processes.
static LISTED: LazyLock<bool> = LazyLock::new(|| Path::new("/proc/thread-self/children").exists());

fn listed(pid: i32, thread: i32) -> Vec<i32> {
    let list = contents(&format!("/proc/{pid}/task/{thread}/children")).unwrap_or_default();
    let list = str::from_utf8(&list).unwrap_or_default();
    list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

fn searched(parent: i32) -> Vec<i32> {
    all().filter(|pid| stat(*pid).is_some_and(|stat| stat.parent == parent)).collect()
}

/// Reads a file of /proc with as few calls as it takes: there may be thousands to read while a tree grows.
fn contents(path: &str) -> Option<Vec<u8>> {
    let (mut file, mut contents, mut chunk) = (fs::File::open(path).ok()?, Vec::new(), [0; 4096]);
    while let count @ 1.. = file.read(&mut chunk).ok()? {
        contents.extend_from_slice(&chunk[..count]);
    }
    Some(contents)
}

/// Everything that runs below a process, itself not included. One that moves meanwhile may be missed: look again.
pub(super) fn below(root: i32) -> BTreeSet<Identity> {
    let mut found = BTreeSet::new();
    let mut families = vec![(root, children(root))];
    while let Some((parent, children)) = families.pop() {
        for pid in children {
            // the number may have changed hands since it was listed
            let Some(stat) = stat(pid).filter(|stat| stat.parent == parent && !stat.ended) else { continue };
            if found.insert(Identity { pid, start: stat.start }) {
                families.push((pid, children_of(pid, stat)));
            }
        }
    }
    found
}

/// The children of a process that was just looked at: of one thread there is one list.
pub(super) fn children_of(pid: i32, stat: Stat) -> Vec<i32> {
    if *LISTED && stat.threads <= 1 { listed(pid, pid) } else { children(pid) }
}

/// The members of a process group.
pub(super) fn group(group: i32) -> BTreeSet<Identity> {
    let member =
        |pid| stat(pid).filter(|stat| stat.group == group).map(|stat| Identity { pid, start: stat.start });
    all().filter_map(member).collect()
}

fn all() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_with_parentheses_does_not_shift_the_fields() {
        let line = b"42 (a) R 1 (b) S 7 42 9 0 -1 0 0 0 0 0 0 0 0 0 20 0 3 0 777 0 0";
        assert_eq!(parse(line), Some(Stat { parent: 7, group: 42, start: 777, threads: 3, ended: false }));
        assert_eq!(parse(b"42 (cut"), None);
        assert_eq!(parse(b"42 (cut) S 1"), None);
    }

    #[test]
    fn a_zombie_has_ended_unless_threads_of_it_run_on() {
        let line = |threads| format!("42 (x) Z 7 42 9 0 -1 0 0 0 0 0 0 0 0 0 20 0 {threads} 0 777 0 0");
        assert!(parse(line(1).as_bytes()).expect("whole").ended);
        assert!(!parse(line(2).as_bytes()).expect("whole").ended);
    }

    #[test]
    fn a_child_is_found_and_known_until_it_ends() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep starts");
        let me = std::process::id() as i32;
        let identity = Identity::of(child.id() as i32).expect("it is there");
        assert!(below(me).contains(&identity) && children(me).contains(&identity.pid));
        assert!(identity.is_alive());
        assert!(!Identity { start: identity.start + 1, ..identity }.is_alive());
        child.kill().and_then(|()| child.wait()).expect("it can be killed");
        assert!(!identity.is_alive());
    }
}
