//! `acpvisor attach`: follows a session, from its beginning until it ends (R260).
//!
//! Only listens: whoever has the session keeps it, and when this is interrupted the session goes on.

use std::{
    io::{self, IsTerminal, Write},
    process::ExitCode,
    time::Duration,
};

use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::{
    Failure, Globals,
    ls::shown,
    operator::{self, Operator, OperatorError, value},
    print,
    run::screen::{Format, Screen},
    style::Style,
    told,
};
use crate::config::Paths;

/// After this silence it is looked whether the session still lives.
const LOOK_AFTER: Duration = Duration::from_secs(5);

/// Arguments of `attach`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session; the first four characters of its id or more are enough while they are unique
    #[arg(value_name = "ID", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    id: String,
    /// Print one JSON value a line for every event
    #[arg(long)]
    json: bool,
}

/// An event as the daemon tells it.
#[derive(Deserialize)]
struct Told<'a> {
    #[serde(borrow)]
    kind: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    event: &'a RawValue,
}

/// Where a session stands, by what was told of it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Life {
    /// All that was stored has been told.
    current: bool,
    /// The last thing that was told of its life was an end.
    closed: bool,
    /// Nothing more will be told.
    over: bool,
}

impl Args {
    pub fn run(self, globals: &Globals) -> Result<ExitCode, Failure> {
        let paths = globals.paths()?;
        let mut operator = Operator::connect(&paths)?;
        let id = operator.resolve(&self.id)?;
        operator.call("events.subscribe", &json!({ "session": id, "since": 0 }))?;
        let stdout = io::stdout();
        let mut screen =
            Screen::new(Format::Text, stdout.lock(), io::stderr(), Style::of(&stdout), stdout.is_terminal());
        let mut life = Life::default();
        while !life.over {
            let line = operator.next_told(LOOK_AFTER)?;
            let heard = match line.as_deref().and_then(operator::event) {
                Some(params) => self.tell(params, &mut screen)?,
                None => None,
            };
            life.hear(heard.as_deref());
            if life.wants_a_look(heard.as_deref()) {
                life.over = life.closed || !lives(&paths, &id)?;
            }
        }
        screen.break_off();
        Ok(ExitCode::SUCCESS)
    }

    /// Prints an event; gives its kind.
    fn tell<O: Write, E: Write>(
        &self,
        params: &RawValue,
        screen: &mut Screen<O, E>,
    ) -> Result<Option<String>, Failure> {
        let Ok(told) = serde_json::from_str::<Told<'_>>(params.get()) else { return Ok(None) };
        if self.json {
            print(&format!("{params}\n"))?;
        } else {
            draw(&told, screen);
            screen.take_broken().map_or(Ok(()), |error| Err(Failure::Stdout(error)))?;
        }
        Ok(Some(told.kind.into_owned()))
    }
}

impl Life {
    fn hear(&mut self, kind: Option<&str>) {
        match kind {
            Some("session_opened") => self.closed = false,
            Some("session_closed") => {
                self.closed = true;
                self.over |= self.current;
            }
            Some("current") => self.current = true,
            Some("ended") => self.over = true,
            _ => {}
        }
    }

    /// Whether it may have ended without a word: it ended before it was listened to, or has been silent for long.
    fn wants_a_look(&self, kind: Option<&str>) -> bool {
        self.current && !self.over && matches!(kind, Some("current") | None)
    }
}

/// Whether the session is live.
fn lives(paths: &Paths, id: &str) -> Result<bool, OperatorError> {
    match Operator::connect(paths)?.call("sessions.show", &json!({ "id": id })) {
        Ok(shown) => Ok(value(&shown)["session"]["state"] == "live"),
        Err(OperatorError::Refused { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

fn draw<O: Write, E: Write>(told: &Told<'_>, screen: &mut Screen<O, E>) {
    if let Some(event) = told::event(&told.kind, told.event) {
        return screen.show(&event);
    }
    let event = value(told.event);
    match &*told.kind {
        "prompt" => screen.quote(event["text"].as_str().unwrap_or_default()),
        "turn_ended" => turn_ended(&event, screen),
        "permission_asked" => {
            screen.note("permission", &format!("{}: {}", shown(&event["tool"]), matter(&event)));
        }
        "permission_decided" if event["decision"] != "deny" => {
            screen.note("permission", &format!("{} by {}", shown(&event["decision"]), shown(&event["by"])));
        }
        "peer_gone" => screen.note("agent", &shown(&event["cause"])),
        "host" => screen.note("host", &format!("{}: {}", shown(&event["state"]), shown(&event["reason"]))),
        "session_closed" => screen.note("session", &format!("closed: {}", shown(&event["reason"]))),
        "gap" => screen.complain(&format!("{} rows of the transcript are left out here", event["dropped"])),
        "ended" => screen.complain(&shown(&event["reason"])),
        _ => {}
    }
}

fn matter(event: &Value) -> String {
    let subject = shown(&event["subject"]);
    if subject.is_empty() { shown(&event["title"]) } else { subject }
}

/// A turn that ends as turns do is nothing to tell.
fn turn_ended<O: Write, E: Write>(event: &Value, screen: &mut Screen<O, E>) {
    screen.break_off();
    match (&event["stop_reason"], &event["error"]["message"]) {
        (Value::String(reason), _) if reason == "end_turn" => {}
        (Value::String(reason), _) => screen.note("turn", &format!("ended: {reason}")),
        (_, why) => screen.note("turn", &format!("failed: {}", shown(why))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(events: &[Value]) -> (String, String) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut screen = Screen::new(Format::Text, &mut out, &mut err, Style::default(), false);
        for event in events {
            let told = json!({ "kind": event["type"], "event": event }).to_string();
            draw(&serde_json::from_str(&told).unwrap(), &mut screen);
        }
        screen.break_off();
        (String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
    }

    /// R260: a session is shown as `run` shows its turn, with what was asked between.
    #[test]
    fn a_session_is_shown_as_a_run_is() {
        let thought = json!({ "sessionUpdate": "agent_thought_chunk", "content": { "text": "hm" } });
        let (out, err) = drawn(&[
            json!({ "type": "session_opened", "agent": "a" }),
            json!({ "type": "prompt", "text": "do\nthis" }),
            json!({ "type": "transcript", "raw": { "params": { "update": thought } } }),
            json!({ "type": "tool_use", "id": "c", "tool": "read", "summary": "Read it", "raw": {} }),
            json!({ "type": "permission_asked", "tool": "execute", "title": "t", "subject": "git push" }),
            json!({ "type": "tool_result", "id": "c", "tool": "read", "status": "completed", "summary": "Read it", "denied": false, "raw": {} }),
            json!({ "type": "text", "text": "fine", "starts": true, "raw": {} }),
            json!({ "type": "text", "text": "ly", "starts": false, "raw": {} }),
            json!({ "type": "turn_ended", "turn": 1, "stop_reason": "end_turn" }),
            json!({ "type": "turn_ended", "turn": 2, "stop_reason": "cancelled" }),
            json!({ "type": "gap", "dropped": 7 }),
            json!({ "type": "session_closed", "reason": "Closed" }),
        ]);
        let expected = "\
> do
> this
[thought] hm
[read] Read it
[permission] execute: git push
[read] completed: Read it
finely
[turn] ended: cancelled
[session] closed: Closed
";
        assert_eq!((&*out, &*err), (expected, "acpvisor: 7 rows of the transcript are left out here\n"));
    }

    /// R260: an end that lies in the past ends nothing, one that happens now does.
    #[test]
    fn only_an_end_that_happens_now_ends_it() {
        let mut life = Life::default();
        for kind in ["session_opened", "session_closed", "session_opened", "text", "current"] {
            life.hear(Some(kind));
            assert!(life.wants_a_look(Some(kind)) == (kind == "current") && !life.over, "{kind}");
        }
        assert!(life.wants_a_look(None) && !life.wants_a_look(Some("text")));
        life.hear(Some("session_closed"));
        assert!(life.over);
    }
}
