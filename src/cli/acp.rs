//! `acpvisor acp`: what an editor starts (R252).

use std::process::ExitCode;

use super::{Failure, Globals};

/// Arguments of `acp`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Agent that serves the editor; without it the default agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Do not start a daemon when none is running
    #[arg(long)]
    no_start: bool,
}

impl Args {
    pub fn run(self, globals: &Globals) -> Result<ExitCode, Failure> {
        let (config, paths) = globals.load()?;
        let code = crate::bridge::run(self.agent, !self.no_start, &paths, &config)?;
        Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
    }
}
