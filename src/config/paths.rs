//! Where things lie (R255, R273).

use std::path::PathBuf;

/// Files and directories of one daemon.
#[derive(Debug, Clone)]
pub struct Paths {
    /// The configuration file; need not exist.
    pub config: PathBuf,
    /// Sockets, 0700.
    pub runtime_dir: PathBuf,
    /// Records, logs and the store, 0700.
    pub state_dir: PathBuf,
}
