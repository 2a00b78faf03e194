//! `acpvisor show`: one session, live or saved, with everything that is known of it.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::{
    Failure, Globals,
    ls::{ago, shown},
    operator::{self, Operator},
    style::{self, Style, one_line},
    table::Table,
    tree,
};

/// Arguments of `show`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session; the first four characters of its id or more are enough while they are unique
    #[arg(value_name = "ID", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    id: String,
    /// Print one JSON value
    #[arg(long)]
    json: bool,
}

impl Args {
    pub fn run(self, globals: &Globals) -> Result<ExitCode, Failure> {
        let mut operator = Operator::connect(&globals.paths()?)?;
        let id = operator.resolve(&self.id)?;
        let answer = operator.call("sessions.show", &json!({ "id": id }))?;
        operator::present(&answer, self.json, drawn)
    }
}

fn drawn(shown: &Value, now_ms: u64, style: Style) -> String {
    let mut text = style.bold(&heading(&shown["session"])) + "\n";
    let facts = facts(shown, now_ms);
    let widest = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, fact) in facts {
        text.push_str(&format!("  {name:widest$}  {fact}\n"));
    }
    text + &prompts(&shown["prompts"], now_ms, style) + &branch(&shown["tree"], now_ms, style)
}

fn heading(session: &Value) -> String {
    format!("session {}, {}", shown(&session["id"]), shown(&session["state"]))
}

/// What is known of it, by names for people.
fn facts(shown: &Value, now_ms: u64) -> Vec<(String, String)> {
    let session = shown["session"].as_object().cloned().unwrap_or_default();
    let apart = ["id", "state", "last_prompt"];
    let mut facts: Vec<(String, String)> = session
        .iter()
        .filter(|(name, _)| !apart.contains(&name.as_str()))
        .map(|(name, value)| (label(name), fact(name, value, now_ms)))
        .collect();
    facts.push(("forked from".to_owned(), super::ls::shown(&shown["parent"])));
    facts.push(("transcript".to_owned(), shown["bytes"].as_u64().map(style::size).unwrap_or_default()));
    facts.push(("settings".to_owned(), pairs(&shown["settings"])));
    facts.retain(|(_, fact)| !fact.is_empty());
    facts
}

fn label(name: &str) -> String {
    one_line(&name.trim_end_matches("_ms").replace('_', " "))
}

fn fact(name: &str, value: &Value, now_ms: u64) -> String {
    match (name, value) {
        ("since" | "created" | "updated", Value::String(then)) => format!("{} ago", ago(then, now_ms)),
        ("last_frame_ms", Value::Number(then)) => {
            then.as_u64().map(|then| format!("{} ago", style::since(then, now_ms))).unwrap_or_default()
        }
        (_, Value::Object(_)) => pairs(value),
        (_, value) => shown(value),
    }
}

/// The members that say something.
fn pairs(value: &Value) -> String {
    let members = value.as_object().into_iter().flatten();
    let said = members.map(|(name, value)| (one_line(name), shown(value)));
    let said = said.filter(|(_, value)| !matches!(value.as_str(), "" | "0" | "[]"));
    said.map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
}

fn prompts(prompts: &Value, now_ms: u64, style: Style) -> String {
    let prompts = prompts.as_array().map(Vec::as_slice).unwrap_or_default();
    if prompts.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["PROMPT", "SOURCE", "STATE", "OUTCOME", "TAKEN", "ENDED"]);
    for prompt in prompts {
        let then = |name: &str| prompt[name].as_str().map(|then| ago(then, now_ms)).unwrap_or_default();
        let cells = ["number", "source", "state", "outcome"].map(|name| shown(&prompt[name]));
        table.row(cells.into_iter().chain([then("taken"), then("ended")]).collect());
    }
    format!("\n{}", table.render(style))
}

fn branch(node: &Value, now_ms: u64, style: Style) -> String {
    match node {
        Value::Null => String::new(),
        node => format!("\n{}", tree::drawn(&json!({ "roots": [node] }), now_ms, style)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R260, R280: what is known is shown, and what there is none of is not.
    #[test]
    fn a_session_is_shown_with_its_prompts() {
        let session = json!({ "id": "s1", "state": "saved", "since": null, "updated": "1970-01-01T00:00:01Z", "last_frame_ms": 2_000, "agent": "demo",
            "inbox": { "queued": 2, "done": 0 }, "last_prompt": { "number": 7 } });
        let prompt = json!({ "number": 7, "state": "unknown", "source": "host", "outcome": null, "taken": "1970-01-01T00:00:01Z" });
        let known = json!({ "session": session, "bytes": 2048, "prompts": [prompt], "tree": null, "parent": null,
            "settings": { "approval": "default", "mode": null, "options": [] } });
        let expected = "\
session s1, saved
  updated     5 s ago
  last frame  4 s ago
  agent       demo
  inbox       queued 2
  transcript  2 KiB
  settings    approval default

PROMPT  SOURCE  STATE    TAKEN
7       host    unknown  5 s
";
        assert_eq!(drawn(&known, 6_000, Style::default()), expected);
    }
}
