//! A lock file: the kernel holds the lock for as long as its owner lives, and the file says who that is.
//!
//! The file is never unlinked: two processes must never lock two files of one name.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::OFlags,
    process::{Pid, test_kill_process},
};

use super::claim::ClaimError;

/// How long a refused process waits for the owner to write its pid.
const PID_WAIT: Duration = Duration::from_millis(500);
const PID_POLL: Duration = Duration::from_millis(5);

/// A lock that is held.
#[derive(Debug)]
pub struct Lock(File);

impl Lock {
    /// Takes the lock, or says who has it.
    pub fn take(path: PathBuf) -> Result<Self, ClaimError> {
        let failed = |source| ClaimError::Lock { path: path.clone(), source };
        let file = open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(owned(&path)),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        let lock = Self(file);
        lock.sign().map_err(failed)?;
        Ok(lock)
    }

    fn sign(&self) -> io::Result<()> {
        self.0.set_len(0)?;
        (&self.0).write_all(format!("{}\n", std::process::id()).as_bytes())
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // So that whoever loses against the next owner does not read our pid in the file.
        let _ = self.0.set_len(0);
    }
}

fn open(path: &Path) -> io::Result<File> {
    let no_follow = i32::try_from(OFlags::NOFOLLOW.bits()).map_err(io::Error::other)?;
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(no_follow)
        .open(path)
}

/// The owner took the lock before it wrote its pid, and a killed one left its own: waits for that of a live process.
fn owned(path: &Path) -> ClaimError {
    let deadline = Instant::now() + PID_WAIT;
    let mut pid = signature(path);
    while !pid.is_some_and(lives) && Instant::now() < deadline {
        thread::sleep(PID_POLL);
        pid = signature(path);
    }
    ClaimError::Owned { pid, dir: path.parent().unwrap_or(path).to_owned() }
}

fn signature(path: &Path) -> Option<u32> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn lives(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    // A process that may not be signalled is one nevertheless.
    pid.is_some_and(|pid| !matches!(test_kill_process(pid), Err(rustix::io::Errno::SRCH)))
}
