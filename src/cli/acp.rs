//! `acpvisor acp`: what an editor starts (R252).

use std::process::ExitCode;

use super::{Failure, Globals};

const BEHAVIOUR: &str = "Starts a daemon when none is running, and passes lines on as they are. Nothing but ACP is \
    printed on stdout.\n\
    Ends within 1 s of the end of stdin, or of a signal.\n\
    Exit codes: 0 the editor ended it, 1 the daemon could not be reached or went away, 3 no daemon with --no-start, \
    130 interrupted.";

/// Arguments of `acp`.
#[derive(Debug, clap::Args)]
#[command(after_help = BEHAVIOUR)]
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
