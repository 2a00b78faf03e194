//! Processes that a misbehaving agent leaves behind: a child, a grandchild in a session of its own, and one
//! that was forked twice and belongs to nobody. All hold the agent's stdout and stderr open.
//!
//! Each is this binary again (`--sleeper KIN`), so nothing is needed from the machine; each ends after ten
//! minutes, so a failed test leaves nothing for ever.

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    os::fd::AsFd,
    process::{Child, Command, Stdio},
    str::FromStr,
    thread,
    time::Duration,
};

use serde_json::{Value, json};

const LIFE: Duration = Duration::from_secs(600);

/// How a sleeping process is related to the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kin {
    /// A plain child.
    Child,
    /// A process in a session of its own.
    Apart,
    /// A child whose own child is apart.
    Parent,
    /// A child whose own child is apart, and which ends at once.
    Runaway,
}

impl Kin {
    fn as_str(self) -> &'static str {
        match self {
            Self::Child => "child",
            Self::Apart => "apart",
            Self::Parent => "parent",
            Self::Runaway => "runaway",
        }
    }
}

impl FromStr for Kin {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let all = [Self::Child, Self::Apart, Self::Parent, Self::Runaway];
        all.into_iter().find(|kin| kin.as_str() == text).ok_or(())
    }
}

/// Does nothing for as long as a sleeper may live.
pub(super) fn linger() {
    thread::sleep(LIFE);
}

/// The life of a sleeper. `Parent` and `Runaway` find the agent's stdout at their stdin: their own stdout is
/// the pipe on which they name their child.
pub(super) fn sleep(kin: Kin) -> i32 {
    let done = match kin {
        Kin::Child => Ok(()),
        Kin::Apart => rustix::process::setsid().map(drop).map_err(io::Error::from),
        Kin::Parent | Kin::Runaway => name_a_child(),
    };
    if done.is_err() {
        return 1;
    }
    if kin != Kin::Runaway {
        linger();
    }
    0
}

fn name_a_child() -> io::Result<()> {
    let held = io::stdin().as_fd().try_clone_to_owned()?;
    let child = sleeper(Kin::Apart)?.stdin(Stdio::null()).stdout(held).spawn()?;
    println!("{}", child.id());
    Ok(())
}

fn sleeper(kin: Kin) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["demo-agent", "--sleeper", kin.as_str()]);
    Ok(command)
}

/// Starts a child that sleeps; returns its pid.
pub(super) fn child(out: &File) -> io::Result<u32> {
    Ok(sleeper(Kin::Child)?.stdin(Stdio::null()).stdout(out.try_clone()?).spawn()?.id())
}

/// Starts a child and its child in a session of its own; returns both pids.
pub(super) fn grandchild(out: &File) -> io::Result<(u32, u32)> {
    let (child, pid) = parent_of_one(Kin::Parent, out)?;
    Ok((child.id(), pid))
}

/// Forks twice; returns the pid of the one that is left.
pub(super) fn orphan(out: &File) -> io::Result<u32> {
    let (mut child, pid) = parent_of_one(Kin::Runaway, out)?;
    child.wait()?;
    Ok(pid)
}

fn parent_of_one(kin: Kin, out: &File) -> io::Result<(Child, u32)> {
    let mut child = sleeper(kin)?.stdin(out.try_clone()?).stdout(Stdio::piped()).spawn()?;
    let named = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let mut line = String::new();
    BufReader::new(named).read_line(&mut line)?;
    let pid = line.trim().parse().map_err(|_| io::Error::other("a child that names no child of its own"))?;
    Ok((child, pid))
}

/// All of them at once; their pids by name.
pub(super) fn all(out: &File) -> io::Result<Value> {
    let child = child(out)?;
    let (parent, apart) = grandchild(out)?;
    let orphan = orphan(out)?;
    Ok(json!({"child": child, "parent": parent, "setsid": apart, "orphan": orphan}))
}
