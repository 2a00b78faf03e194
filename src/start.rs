//! Reaching the daemon's sockets, and starting a daemon when nobody listens (R253).
//!
//! Owns the child only until its socket answers. Never takes silence for death: a daemon that holds its socket
//! but does not accept is busy, and no second one is started beside it.

use std::{
    env,
    fs::{self, File},
    io,
    os::unix::{fs::FileExt, net::UnixStream},
    path::{self, Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::{MemfdFlags, memfd_create},
    io::Errno,
    net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect as connect_to, socket_with,
        sockopt::{Timeout, set_socket_timeout},
    },
};
use thiserror::Error;

use crate::{
    config::{
        Paths,
        paths::{RUNTIME_VARIABLE, STATE_VARIABLE},
    },
    limits::SOCKET_PATH_BYTES_MAX,
};

mod detach;

/// Exit code of a daemon that found another one in its place (R57).
pub const OWNED_ELSEWHERE: i32 = 100;
/// From the first attempt to giving up (R253).
const START_MAX: Duration = Duration::from_secs(5);
/// How long a full backlog is waited for when no daemon was started by us.
const BUSY_MAX: Duration = Duration::from_secs(5);
/// First and longest pause between two attempts.
const PAUSE: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(50));
/// The owner may be on its way out: after this another start is tried.
const RESTART_AFTER: Duration = Duration::from_secs(1);
/// Between the two locks of a daemon that starts pass microseconds; after this they say the same.
const LOCKED_AFTER: Duration = Duration::from_millis(200);
/// How much of a failed start's own words is shown.
const TEXT_BYTES_MAX: usize = 2 << 10;

/// Which of the daemon's two sockets (R255).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Socket {
    /// ACP, for hosts.
    Host,
    /// JSON-RPC, for operators.
    Control,
}

/// Why there is no connection.
#[derive(Debug, Error)]
pub enum StartError {
    /// Nobody listens, and starting was not wanted.
    #[error("reach a daemon at {}: none is running; start one with: acpvisor daemon", path.display())]
    NotRunning {
        /// The socket.
        path: PathBuf,
    },
    /// Somebody holds the socket but takes no connection.
    #[error(
        "reach the daemon at {}: it is running but accepts no connection (stopped, or overloaded); \
         continue it, or end it with: acpvisor stop",
        path.display()
    )]
    Busy {
        /// The socket.
        path: PathBuf,
    },
    /// The operating system limits the length of a socket's path.
    #[error(
        "reach a daemon at {}: the path has {} bytes and a socket may have {SOCKET_PATH_BYTES_MAX}; \
         set XDG_RUNTIME_DIR or {RUNTIME_VARIABLE} to a shorter directory",
        path.display(), path.as_os_str().len()
    )]
    PathTooLong {
        /// The socket.
        path: PathBuf,
    },
    /// Neither refused nor connected.
    #[error("connect to {}: {source}", path.display())]
    Connect {
        /// The socket.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// The daemon's process could not be made.
    #[error("start a daemon: {source}")]
    Spawn {
        /// The operating system's reason.
        source: io::Error,
    },
    /// The daemon ended before its socket was there.
    #[error("start a daemon: it ended with {status}: {text}")]
    Ended {
        /// How.
        status: ExitStatus,
        /// What it said.
        text: String,
    },
    /// The daemon is there, its socket is not.
    #[error(
        "start a daemon: nothing listens at {} after {} s; its log lies in {}",
        path.display(), START_MAX.as_secs(), logs.display()
    )]
    Late {
        /// The socket.
        path: PathBuf,
        /// Where it says why.
        logs: PathBuf,
    },
    /// The state is another daemon's, whose sockets lie elsewhere.
    #[error(
        "start a daemon: the one with pid {pid} owns {} and does not listen at {}; reach it with its own \
         {RUNTIME_VARIABLE} or XDG_RUNTIME_DIR, or set {STATE_VARIABLE} to a directory for another one",
        state_dir.display(), path.display()
    )]
    Elsewhere {
        /// Its process.
        pid: u32,
        /// What it owns.
        state_dir: PathBuf,
        /// Where it does not listen.
        path: PathBuf,
    },
}

impl Socket {
    /// Where it lies.
    pub fn path(self, paths: &Paths) -> PathBuf {
        match self {
            Self::Host => paths.host_socket(),
            Self::Control => paths.control_socket(),
        }
    }
}

/// Connects to the daemon; when nobody listens and `start` allows it, starts one first.
pub fn connect(paths: &Paths, socket: Socket, start: bool) -> Result<UnixStream, StartError> {
    let path = socket.path(paths);
    if let Some(stream) = attempt(&path, BUSY_MAX)? {
        return Ok(stream);
    }
    if !start {
        return Err(StartError::NotRunning { path });
    }
    let program = env::current_exe().map_err(|source| StartError::Spawn { source })?;
    start_and_connect(&program, paths, &path)
}

/// One attempt: a connection, `None` when nobody listens, or why it makes no sense to go on.
fn attempt(path: &Path, patience: Duration) -> Result<Option<UnixStream>, StartError> {
    let failed = |source: Errno| StartError::Connect { path: path.into(), source: source.into() };
    let address = SocketAddrUnix::new(path).map_err(|errno| match errno {
        Errno::NAMETOOLONG => StartError::PathTooLong { path: path.into() },
        other => failed(other),
    })?;
    let socket =
        socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).map_err(failed)?;
    // a full backlog makes connect wait, and the send timeout ends that wait
    set_socket_timeout(&socket, Timeout::Send, Some(patience)).map_err(failed)?;
    match connect_to(&socket, &address) {
        Ok(()) => {}
        Err(Errno::NOENT | Errno::CONNREFUSED) => return Ok(None),
        Err(Errno::AGAIN) => return Err(StartError::Busy { path: path.into() }),
        Err(errno) => return Err(failed(errno)),
    }
    set_socket_timeout(&socket, Timeout::Send, None).map_err(failed)?;
    Ok(Some(UnixStream::from(socket)))
}

fn start_and_connect(program: &Path, paths: &Paths, path: &Path) -> Result<UnixStream, StartError> {
    let began = Instant::now();
    let mut pause = PAUSE.0;
    let mut newborn = Newborn::start(program, paths)?;
    let mut lost_at = None;
    loop {
        thread::sleep(pause);
        pause = (pause * 2).min(PAUSE.1);
        let left = START_MAX.saturating_sub(began.elapsed());
        // at least a moment, since zero would mean for ever
        if let Some(stream) = attempt(path, left.max(PAUSE.1))? {
            return Ok(stream);
        }
        if left.is_zero() {
            return Err(StartError::Late { path: path.into(), logs: paths.logs_dir() });
        }
        match newborn.ended() {
            None => {}
            Some(status) if status.code() == Some(OWNED_ELSEWHERE) => {
                let since = *lost_at.get_or_insert_with(Instant::now);
                if let (true, Some(pid)) = (since.elapsed() >= LOCKED_AFTER, elsewhere(paths)) {
                    let state_dir = paths.state_dir.clone();
                    return Err(StartError::Elsewhere { pid, state_dir, path: path.into() });
                }
                if since.elapsed() >= RESTART_AFTER {
                    newborn = Newborn::start(program, paths)?;
                    lost_at = None;
                }
            }
            Some(status) => return Err(StartError::Ended { status, text: newborn.text() }),
        }
    }
}

/// The daemon that owns the state, when it is not the one that owns the place of the sockets.
fn elsewhere(paths: &Paths) -> Option<u32> {
    let owner = |lock: PathBuf| fs::read_to_string(lock).ok()?.trim().parse::<u32>().ok();
    owner(paths.state_lock()).filter(|pid| owner(paths.runtime_lock()) != Some(*pid))
}

/// A daemon on its way up. Dropped, it is let go, not ended.
struct Newborn {
    waiter: Child,
    stderr: File,
    status: Option<ExitStatus>,
}

impl Newborn {
    fn start(program: &Path, paths: &Paths) -> Result<Self, StartError> {
        let failed = |source| StartError::Spawn { source };
        // in memory and of this start alone: twenty at once do not mix their words, and no reader can go away
        let stderr =
            memfd_create("acpvisor-start", MemfdFlags::CLOEXEC).map_err(|errno| failed(errno.into()))?;
        let stderr = File::from(stderr);
        let mut command = Command::new(program);
        if paths.config.exists() {
            command.arg("--config").arg(path::absolute(&paths.config).map_err(failed)?);
        }
        command
            .args(["daemon", "--background"])
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr.try_clone().map_err(failed)?);
        detach::detach(&mut command);
        let waiter = command.spawn().map_err(failed)?;
        Ok(Self { waiter, stderr, status: None })
    }

    fn ended(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            // an error means that somebody else reaped the waiter: the daemon's fate is then its socket's
            self.status = self.waiter.try_wait().ok().flatten();
        }
        self.status
    }

    fn text(&self) -> String {
        let mut text = vec![0; TEXT_BYTES_MAX];
        let length = self.stderr.read_at(&mut text, 0).unwrap_or(0);
        match String::from_utf8_lossy(&text[..length]).trim() {
            "" => "it said nothing".to_owned(),
            text => text.to_owned(),
        }
    }
}

impl Drop for Newborn {
    fn drop(&mut self) {
        if self.status.is_none() {
            // neither can fail for a child that was not waited for
            let _ = self.waiter.kill();
            let _ = self.waiter.wait();
        }
    }
}

#[cfg(test)]
mod tests;
