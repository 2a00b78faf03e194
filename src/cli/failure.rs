//! Why a verb did not do its work, and the exit code that says so (R260, R288).

use std::{error::Error, io, path::PathBuf};

use thiserror::Error;

use super::operator::OperatorError;
use crate::{
    bridge::BridgeError,
    config::{ConfigError, PathsError},
    start::StartError,
};

/// Fits after "failed to".
#[derive(Debug, Error)]
pub(super) enum Failure {
    /// It is not known where things lie.
    #[error(transparent)]
    Paths(#[from] PathsError),
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// No daemon.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The bridge did not come about.
    #[error(transparent)]
    Bridge(#[from] BridgeError),
    /// The daemon did not answer, or refused.
    #[error(transparent)]
    Operator(#[from] OperatorError),
    /// The daemon ended; it knows its own exit code.
    #[error("run the daemon: could not {source}")]
    Daemon {
        /// What it ends with.
        code: u8,
        /// Why.
        source: Box<dyn Error + Send + Sync>,
    },
    /// It was asked to end and did not.
    #[error("stop the daemon: it is still there; see: acpvisor status")]
    StillThere,
    /// What was typed makes no sense.
    #[error("{0}")]
    Usage(String),
    /// The run did not get as far as an outcome.
    #[error(transparent)]
    Run(#[from] super::run::RunError),
    /// Somebody was asked and did not say yes.
    #[error("remove the session: nobody said yes; where nobody can be asked, say --yes")]
    Unconfirmed,
    /// A file cannot be written.
    #[error("write {}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Nobody reads what is printed, or it cannot be written.
    #[error("write to stdout: {0}")]
    Stdout(#[source] io::Error),
}

impl Failure {
    /// The exit code.
    pub fn code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Operator(OperatorError::TooShort { .. }) => 2,
            Self::Start(StartError::NotRunning { .. })
            | Self::Operator(OperatorError::Start(StartError::NotRunning { .. })) => 3,
            Self::Daemon { code, .. } => *code,
            _ => 1,
        }
    }

    /// Says it on stderr, unless stdout was closed on purpose.
    pub fn tell(&self) {
        let quiet = matches!(self, Self::Stdout(error) if error.kind() == io::ErrorKind::BrokenPipe);
        if !quiet {
            warn(format_args!("failed to {self}"));
        }
    }
}

/// Says something on stderr. A stderr that is closed changes nothing of what is done.
pub fn warn(what: std::fmt::Arguments<'_>) {
    let _ = io::Write::write_fmt(&mut io::stderr(), format_args!("acpvisor: {what}\n"));
}
