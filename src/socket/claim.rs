//! Becoming the daemon: directories, locks and sockets, in this order, or the one reason why not.

use std::{io, os::unix::net::UnixListener, path::PathBuf};

use super::{
    endpoint::{self, Offered},
    lock::Lock,
    private,
};
use crate::{
    config::{Paths, paths::RUNTIME_VARIABLE},
    limits::SOCKET_PATH_BYTES_MAX,
};

/// Exit code of a daemon that finds another one in its place (R57).
pub const OWNED_EXIT_CODE: u8 = 100;

/// The right to be the daemon, and what it listens on.
#[derive(Debug)]
pub struct Claim {
    /// The socket that speaks ACP; does not block.
    pub host: UnixListener,
    /// The operator's socket; does not block.
    pub control: UnixListener,
    /// Keeps the right. Dropping it unlinks the sockets and gives the right back.
    pub tenure: Tenure,
}

/// The right to be the daemon, for as long as this lives.
#[derive(Debug)]
#[must_use = "dropping it lets another daemon start"]
pub struct Tenure {
    // In this order: the files go while the locks are still held.
    _sockets: Vec<endpoint::Bound>,
    _locks: [Lock; 2],
}

/// Why this process cannot be the daemon.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// Another daemon is.
    #[error("own {}: {} already does", dir.display(), owner(*pid))]
    Owned {
        /// Its process id, when it could be read.
        pid: Option<u32>,
        /// What it owns.
        dir: PathBuf,
    },
    /// A directory cannot be made.
    #[error("create the directory {}: {source}; its parent must exist and be writable ({settings})", dir.display())]
    Create {
        /// The directory.
        dir: PathBuf,
        /// What decides where it lies.
        settings: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// A directory is open to others.
    #[error("trust the directory {}: it {why}", dir.display())]
    Unsafe {
        /// The directory.
        dir: PathBuf,
        /// What is wrong with it and what to do.
        why: String,
    },
    /// A lock file cannot be used.
    #[error("lock {}: {source}", path.display())]
    Lock {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A socket's path does not fit into its address.
    #[error(
        "use the socket path {}: it has {bytes} bytes of at most {SOCKET_PATH_BYTES_MAX}; \
         set $XDG_RUNTIME_DIR or {RUNTIME_VARIABLE} to a shorter directory", path.display()
    )]
    TooLong {
        /// The path.
        path: PathBuf,
        /// Its length.
        bytes: usize,
    },
    /// Something else has a socket's path.
    #[error("take the socket path {}: {what}; move it away if nobody needs it", path.display())]
    Taken {
        /// The path.
        path: PathBuf,
        /// What is there.
        what: &'static str,
    },
    /// A socket cannot be made.
    #[error("listen on {}: {source}", path.display())]
    Listen {
        /// Its path.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// What the service manager handed over is no pair of listening sockets.
    #[error("take the sockets of the service manager: {0}")]
    Activation(#[source] io::Error),
}

fn owner(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another daemon".to_owned(), |pid| format!("the daemon with pid {pid}"))
}

impl ClaimError {
    /// What the process exits with.
    pub fn exit_code(&self) -> u8 {
        if matches!(self, Self::Owned { .. }) { OWNED_EXIT_CODE } else { 1 }
    }
}

/// Becomes the daemon of these paths, or says who is or what is in the way. Call once.
pub fn claim(paths: &Paths) -> Result<Claim, ClaimError> {
    claim_with(paths, endpoint::offered().map_err(ClaimError::Activation)?)
}

pub(super) fn claim_with(paths: &Paths, offered: Offered) -> Result<Claim, ClaimError> {
    let (host, control) = (paths.host_socket(), paths.control_socket());
    endpoint::fits(&host)?;
    endpoint::fits(&control)?;
    private::state(&paths.state_dir)?;
    private::runtime(&paths.runtime_dir)?;
    let locks = [Lock::take(paths.state_lock())?, Lock::take(paths.runtime_lock())?];
    let mut sockets = Vec::new();
    let host = endpoint::listen(offered.host, &host, &mut sockets)?;
    let control = endpoint::listen(offered.control, &control, &mut sockets)?;
    Ok(Claim { host, control, tenure: Tenure { _sockets: sockets, _locks: locks } })
}
