//! `acpvisor send`: a message into the inbox of a session (R182).

use std::process::ExitCode;

use serde_json::{Value, json};

use super::{
    Failure, Globals,
    ls::shown,
    operator::{self, Operator},
    text,
};
use crate::limits::MIB;

/// Longest message: its line must fit what the daemon reads, when every other byte is escaped.
pub(super) const MESSAGE_BYTES_MAX: usize = MIB / 2 - 4_096;

/// Arguments of `send`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session; the first four characters of its id or more are enough while they are unique
    #[arg(value_name = "ID", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    id: String,
    /// What the message says; `-` reads it from stdin
    #[arg(value_name = "TEXT|-")]
    text: String,
    /// Bring a session that is only saved to life for it, without an editor
    #[arg(long)]
    wake: bool,
    /// An id of your own for the message: sent again under it, nothing happens
    #[arg(long = "id", value_name = "X")]
    entry: Option<String>,
    /// Who sends it, in a word; without it `user`
    #[arg(long, value_name = "S")]
    from: Option<String>,
    /// Print one JSON value
    #[arg(long)]
    json: bool,
}

impl Args {
    pub fn run(self, globals: &Globals) -> Result<ExitCode, Failure> {
        let mut operator = Operator::connect(&globals.paths()?)?;
        let id = operator.resolve(&self.id)?;
        let text = text::typed(self.text, "message", MESSAGE_BYTES_MAX)?;
        let mut params = json!({ "id": id, "text": text, "wake": self.wake });
        for (name, value) in [("entry", self.entry), ("source", self.from)] {
            if let Some(value) = value {
                params[name] = value.into();
            }
        }
        let sent = operator.call("sessions.send", &params)?;
        operator::present(&sent, self.json, |sent, _, _| told(sent, &id))
    }
}

fn told(sent: &Value, session: &str) -> String {
    let entry = shown(&sent["entry"]);
    let known = if sent["duplicate"] == true { ", which was known already" } else { "" };
    let then = match sent["live"].as_bool() {
        Some(true) => "",
        _ => "; it waits until the session is loaded, or woken with --wake",
    };
    format!("stored {entry} for {session}{known}{then}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_became_of_a_message_is_told() {
        let sent = |duplicate: bool, live: bool| {
            told(&json!({ "entry": "e", "duplicate": duplicate, "live": live }), "s")
        };
        assert_eq!(sent(false, true), "stored e for s\n");
        assert!(sent(true, false).starts_with("stored e for s, which was known already; it waits"));
    }
}
