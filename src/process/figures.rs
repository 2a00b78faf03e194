//! What the kernel says about running processes, as they are at one moment.
//!
//! One pass over `/proc`, so that a subtree is summed from one picture. Blocks for that long.

use std::collections::HashMap;

use serde::Serialize;

/// A process and all that lives below it.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Process {
    /// Its id.
    pub pid: i32,
    /// Its process group.
    pub pgid: i32,
    /// Memory of the process itself.
    pub rss_bytes: u64,
    /// CPU time of the process itself.
    pub cpu_ms: u64,
    /// All processes below the shim, this one among them and the shim not.
    pub subtree: Sum,
}

/// Figures of several processes together.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sum {
    /// How many they are.
    pub processes: usize,
    /// Their memory; what they share counts for each.
    pub rss_bytes: u64,
    /// Their CPU time.
    pub cpu_ms: u64,
}

/// All processes that could be seen.
#[derive(Debug, Default)]
pub struct Processes {
    by_pid: HashMap<i32, Stat>,
    below: HashMap<i32, Vec<i32>>,
}

/// One line of `/proc/<pid>/stat`, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    pid: i32,
    parent: i32,
    group: i32,
    cpu_ticks: u64,
    rss_pages: u64,
}

impl Processes {
    /// Takes the picture. A process that ends meanwhile is not in it.
    pub fn read() -> Self {
        let Ok(entries) = std::fs::read_dir("/proc") else { return Self::default() };
        let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
        let stat = |pid| Stat::parse(&std::fs::read(format!("/proc/{pid}/stat")).ok()?);
        Self::of(pids.filter_map(stat))
    }

    fn of(all: impl Iterator<Item = Stat>) -> Self {
        let mut processes = Self::default();
        for stat in all {
            processes.by_pid.insert(stat.pid, stat);
            processes.below.entry(stat.parent).or_default().push(stat.pid);
        }
        processes
    }

    /// The figures of a process, and of all below its shim (or below and with itself, without a shim).
    pub fn figures(&self, pid: i32, shim: Option<i32>) -> Option<Process> {
        let stat = self.by_pid.get(&pid)?;
        let mut subtree = self.below(shim.unwrap_or(pid));
        if shim.is_none() {
            subtree.add(stat);
        }
        Some(Process { pid, pgid: stat.group, rss_bytes: stat.rss_bytes(), cpu_ms: stat.cpu_ms(), subtree })
    }

    fn below(&self, pid: i32) -> Sum {
        let mut sum = Sum::default();
        let mut waiting = vec![pid];
        while let Some(parent) = waiting.pop() {
            for child in self.below.get(&parent).into_iter().flatten() {
                sum.add(&self.by_pid[child]);
                waiting.push(*child);
            }
        }
        sum
    }
}

impl Sum {
    fn add(&mut self, stat: &Stat) {
        self.processes += 1;
        self.rss_bytes += stat.rss_bytes();
        self.cpu_ms += stat.cpu_ms();
    }
}

impl Stat {
    /// `pid (name) state parent group …`: the name may hold anything, so that the rest begins at the last `)`.
    fn parse(line: &[u8]) -> Option<Self> {
        let (open, close) = (memchr::memchr(b'(', line)?, memchr::memrchr(b')', line)?);
        let pid = std::str::from_utf8(&line[..open]).ok()?.trim().parse().ok()?;
        let rest: Vec<&str> =
            std::str::from_utf8(line.get(close + 1..)?).ok()?.split_ascii_whitespace().collect();
        // proc(5) counts from 1 with the pid; the state, its third field, is the first here.
        let field = |number: usize| rest.get(number - 3).copied();
        let count = |number: usize| field(number)?.parse::<u64>().ok();
        Some(Self {
            pid,
            parent: field(4)?.parse().ok()?,
            group: field(5)?.parse().ok()?,
            cpu_ticks: count(14)? + count(15)?,
            rss_pages: count(24)?,
        })
    }

    fn rss_bytes(&self) -> u64 {
        self.rss_pages * rustix::param::page_size() as u64
    }

    fn cpu_ms(&self) -> u64 {
        self.cpu_ticks * 1_000 / rustix::param::clock_ticks_per_second().max(1)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        os::unix::process::CommandExt,
        process::{Command, Stdio},
    };

    use super::*;

    fn stat(pid: i32, parent: i32) -> Stat {
        Stat { pid, parent, group: pid, cpu_ticks: 1, rss_pages: 1 }
    }

    #[test]
    fn a_name_may_hold_anything() {
        let line =
            b"42 (a) R 1 (\xff b) S 7 41 41 0 -1 4194560 1 0 0 0 30 12 5 5 20 0 1 0 99 1000 250 184 1 1";
        let expected = Stat { pid: 42, parent: 7, group: 41, cpu_ticks: 42, rss_pages: 250 };
        assert_eq!(Stat::parse(line), Some(expected));
        assert_eq!(Stat::parse(b"42 (a) S 7 41"), None);
        assert_eq!(Stat::parse(b""), None);
    }

    /// R259: all that an agent started is summed, whoever of them lost its parent to the shim.
    #[test]
    fn everything_below_a_shim_is_summed() {
        let all = [stat(1, 0), stat(10, 1), stat(11, 10), stat(12, 11), stat(13, 10), stat(20, 1)];
        let processes = Processes::of(all.into_iter());
        let page = rustix::param::page_size() as u64;
        let figures = processes.figures(11, Some(10)).unwrap();
        assert_eq!(
            (figures.rss_bytes, figures.subtree.processes, figures.subtree.rss_bytes),
            (page, 3, 3 * page)
        );
        assert_eq!(processes.figures(11, None).unwrap().subtree.processes, 2);
        assert_eq!(processes.figures(99, None), None);
    }

    #[test]
    fn a_running_process_is_in_the_picture() {
        let mut cat = Command::new("cat");
        let mut child = cat.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0).spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(b"!").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).expect("it runs");
        let pid = i32::try_from(child.id()).unwrap();
        let figures = Processes::read().figures(pid, None);
        child.kill().and_then(|()| child.wait()).unwrap();
        let figures = figures.unwrap();
        assert!(figures.rss_bytes > 0);
        assert_eq!((figures.pid, figures.pgid), (pid, pid));
    }
}
