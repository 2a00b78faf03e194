//! `acpvisor close`: ends a session and its process.

use std::process::ExitCode;

use super::{Failure, Globals, operator};

/// Arguments of `close`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session; the first four characters of its id or more are enough while they are unique
    #[arg(value_name = "ID", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    id: String,
}

impl Args {
    pub fn run(self, globals: &Globals) -> Result<ExitCode, Failure> {
        operator::order(globals, &self.id, "sessions.close", "closed")
    }
}
