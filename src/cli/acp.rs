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
        // stderr stays empty: an editor may show it as a failure
        let (config, paths, _) = globals.load_for_client()?;
        let code = crate::bridge::run(self.agent, !self.no_start, &paths, &config)?;
        Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
    }
}
