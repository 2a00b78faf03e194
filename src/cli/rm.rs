//! `acpvisor rm`: a session with everything that is known of it (R285).

use std::{
    io::{self, BufRead, IsTerminal, Write},
    process::ExitCode,
};

use serde_json::json;

use super::{
    Failure, Globals,
    operator::{self, Operator},
    print,
};

/// Arguments of `rm`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session; the first four characters of its id or more are enough while they are unique
    #[arg(value_name = "ID", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    id: String,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    /// Print one JSON value
    #[arg(long)]
    json: bool,
}

impl Args {
    pub fn run(self, globals: &Globals) -> Result<ExitCode, Failure> {
        let mut operator = Operator::connect(&globals.paths()?)?;
        let id = operator.resolve(&self.id)?;
        if !self.yes && !confirmed(&id) {
            return Err(Failure::Unconfirmed);
        }
        let answer = operator.call("sessions.delete", &json!({ "id": id }))?;
        if self.json {
            return operator::present(&answer, true, |_, _, _| String::new());
        }
        print(&format!("removed {id}\n"))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Whether somebody says yes. Where nobody can be asked, nothing is removed: what is gone is gone for good.
fn confirmed(id: &str) -> bool {
    let stdin = io::stdin();
    if !stdin.is_terminal() || !io::stderr().is_terminal() {
        return false;
    }
    let mut stderr = io::stderr();
    let _ = write!(stderr, "Remove session {id} with its history and its inbox for good? [y/N] ");
    let _ = stderr.flush();
    let mut answer = String::new();
    let _ = stdin.lock().read_line(&mut answer);
    means_yes(&answer)
}

fn means_yes(answer: &str) -> bool {
    matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_yes_means_yes() {
        assert!(means_yes("y\n") && means_yes(" YES "));
        assert!(!means_yes("") && !means_yes("\n") && !means_yes("yy") && !means_yes("no"));
    }
}
