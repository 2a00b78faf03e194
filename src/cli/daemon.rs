//! `acpvisor daemon`: the daemon itself.

use std::process::ExitCode;

use super::{Failure, Globals};

/// Arguments of `daemon`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Log to the log file only; this is how `acp` and `run` start it
    #[arg(long)]
    background: bool,
}

impl Args {
    pub fn run(self, globals: &Globals) -> Result<ExitCode, Failure> {
        let (config, paths) = globals.load()?;
        crate::daemon::run(config, paths, !self.background)
            .map_err(|error| Failure::Daemon { code: error.exit_code(), source: Box::new(error) })?;
        Ok(ExitCode::SUCCESS)
    }
}
