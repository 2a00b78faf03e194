//! `acpvisor events`: what happens, as it happens (R258).

use std::{io, process::ExitCode, time::Duration};

use serde_json::{Map, Value, json};

use super::{
    Failure, Globals,
    ls::shown,
    operator::{self, Operator},
    print,
    style::Style,
};
use crate::event::cut;

/// Nothing may happen for as long as it likes.
const PATIENCE: Duration = Duration::from_secs(60 * 60);
/// Widest kind.
const KIND_WIDTH: usize = 18;

/// Arguments of `events`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only of this session; the first four characters of its id or more are enough while they are unique
    #[arg(long, value_name = "ID", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    session: Option<String>,
    /// Only of this kind, such as turn_ended or peer_gone; may be given several times
    #[arg(long = "kind", value_name = "K")]
    kinds: Vec<String>,
    /// Begin behind the event of this number, 0 for all that are stored; without it with what happens next
    #[arg(long, value_name = "N")]
    since: Option<u64>,
    /// Print one JSON value a line
    #[arg(long)]
    json: bool,
}

impl Args {
    pub fn run(self, globals: &Globals) -> Result<ExitCode, Failure> {
        let mut operator = Operator::connect(&globals.paths()?)?;
        let mut params = json!({ "since": self.since });
        if let Some(prefix) = &self.session {
            params["session"] = operator.resolve(prefix)?.into();
        }
        if !self.kinds.is_empty() {
            params["kinds"] = json!(self.kinds);
        }
        operator.call("events.subscribe", &params)?;
        let style = Style::of(&io::stdout());
        loop {
            let Some(line) = operator.next_told(PATIENCE)? else { continue };
            let Some(event) = operator::event(&line) else { continue };
            let value = operator::value(event);
            print(&if self.json { format!("{event}\n") } else { told(&value, style) })?;
            if value["kind"] == "ended" {
                return Ok(ExitCode::SUCCESS);
            }
        }
    }
}

/// One line: when, whose, what, and its members.
fn told(event: &Value, style: Style) -> String {
    let kind = format!("{:KIND_WIDTH$}", shown(&event["kind"]));
    let said = event["event"].as_object().map(members).unwrap_or_default();
    let line = format!("{} {} {} {said}", shown(&event["time"]), shown(&event["session"]), style.bold(&kind));
    format!("{}\n", line.trim_end())
}

/// What an event says, without the line of the agent that it comes from.
fn members(event: &Map<String, Value>) -> String {
    let told = event.iter().filter(|(name, _)| !matches!(name.as_str(), "type" | "raw"));
    let pairs = told.map(|(name, value)| (name, cut(&shown(value)))).filter(|(_, value)| !value.is_empty());
    pairs.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_a_line() {
        let event = json!({ "type": "tool_use", "id": "c", "tool": "read", "summary": "Read\nit", "raw": { "x": 1 } });
        let event = json!({ "seq": 7, "time": "1970-01-01T00:00:01.000Z", "session": "s1", "kind": "tool_use", "event": event });
        assert_eq!(
            told(&event, Style::default()),
            "1970-01-01T00:00:01.000Z s1 tool_use           id=c tool=read summary=Read it\n"
        );
    }
}
