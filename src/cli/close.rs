//! `acpvisor close`: ends a session and its process.

use std::process::ExitCode;

use serde_json::json;

use super::{Failure, Globals, operator::Operator, print};

/// Arguments of `close`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session; the first four characters of its id or more are enough while they are unique
    #[arg(value_name = "ID", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    id: String,
}

impl Args {
    pub fn run(self, globals: &Globals) -> Result<ExitCode, Failure> {
        let mut operator = Operator::connect(&globals.paths()?)?;
        let id = operator.resolve(&self.id)?;
        operator.call("sessions.close", &json!({ "id": id }))?;
        print(&format!("closed {id}\n"))?;
        Ok(ExitCode::SUCCESS)
    }
}
