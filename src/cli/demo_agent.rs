//! `acpvisor demo-agent`: the scripted agent inside the binary (R265).

use std::{ffi::OsString, process::ExitCode};

use super::Failure;

/// Arguments of `demo-agent`.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(super) struct Args {
    /// What the agent itself understands
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub args: Vec<OsString>,
}

impl Args {
    pub fn run(self) -> Result<ExitCode, Failure> {
        let code = crate::demo::main(self.args.into_iter());
        Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
    }
}
