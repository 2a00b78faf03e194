//! `acpvisor cancel`: ends the running turn of a session, not the session.

use std::process::ExitCode;

use serde_json::json;

use super::{Failure, Globals, operator::Operator, print};

/// Arguments of `cancel`.
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
        operator.call("sessions.cancel", &json!({ "id": id }))?;
        print(&format!("cancelled {id}\n"))?;
        Ok(ExitCode::SUCCESS)
    }
}
