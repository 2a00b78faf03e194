//! `acpvisor inbox`: the messages that wait for a session, by hand (R295).

use std::process::ExitCode;

use clap::Subcommand;
use serde_json::{Value, json};

use super::{
    Failure, Globals,
    ls::{ago, shown},
    operator::{self, Operator, OperatorError, value},
    print,
    send::MESSAGE_BYTES_MAX,
    style::{Style, harmless},
    table::Table,
    text,
};

/// Arguments of `inbox`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session; the first four characters of its id or more are enough while they are unique
    #[arg(value_name = "ID", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    id: String,
    #[command(subcommand)]
    what: Option<What>,
    /// Print one JSON value
    #[arg(long, global = true)]
    json: bool,
}

/// What is to be done; without it the messages are listed.
#[derive(Debug, Subcommand)]
enum What {
    /// List the messages
    Ls,
    /// Show one of them
    Show(Entry),
    /// Let one that waits say something else
    Edit(Edit),
    /// Take one out: it never runs
    Rm(Entry),
    /// Let one that is over run again
    Again(Entry),
}

/// Which message.
#[derive(Debug, clap::Args)]
struct Entry {
    /// The message; the first four characters of its id or more are enough while they are unique
    #[arg(value_name = "ENTRY", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    entry: String,
}

/// Which message, and what it is to say.
#[derive(Debug, clap::Args)]
struct Edit {
    #[command(flatten)]
    of: Entry,
    /// What it says from now on; `-` reads it from stdin
    #[arg(value_name = "TEXT|-")]
    text: String,
}

impl Args {
    pub fn run(self, globals: &Globals) -> Result<ExitCode, Failure> {
        let mut operator = Operator::connect(&globals.paths()?)?;
        let id = operator.resolve(&self.id)?;
        let inbox = Inbox { operator, id, json: self.json };
        match self.what.unwrap_or(What::Ls) {
            What::Ls => inbox.list(),
            What::Show(of) => inbox.show(&of.entry),
            What::Edit(Edit { of, text }) => {
                let text = text::typed(text, "message", MESSAGE_BYTES_MAX)?;
                inbox.order("inbox.edit", &of.entry, "edited", json!({ "text": text }))
            }
            What::Rm(of) => inbox.order("inbox.remove", &of.entry, "removed", json!({})),
            What::Again(of) => inbox.order("inbox.again", &of.entry, "queued again", json!({})),
        }
    }
}

struct Inbox {
    operator: Operator,
    id: String,
    json: bool,
}

impl Inbox {
    fn list(mut self) -> Result<ExitCode, Failure> {
        let entries = self.operator.call("inbox.list", &json!({ "id": self.id }))?;
        operator::present(&entries, self.json, table)
    }

    fn show(mut self, prefix: &str) -> Result<ExitCode, Failure> {
        let entry = self.resolve(prefix)?;
        let entry = self.operator.call("inbox.show", &json!({ "id": self.id, "entry": entry }))?;
        operator::present(&entry, self.json, whole)
    }

    fn order(
        mut self,
        method: &str,
        prefix: &str,
        done: &str,
        mut params: Value,
    ) -> Result<ExitCode, Failure> {
        let entry = self.resolve(prefix)?;
        (params["id"], params["entry"]) = (self.id.as_str().into(), entry.as_str().into());
        let answer = self.operator.call(method, &params)?;
        if self.json {
            return operator::present(&answer, true, |_, _, _| String::new());
        }
        print(&format!("{done} {entry}\n"))?;
        Ok(ExitCode::SUCCESS)
    }

    /// The one message whose id is that, or starts with that.
    fn resolve(&mut self, prefix: &str) -> Result<String, OperatorError> {
        let listed = value(&self.operator.call("inbox.list", &json!({ "id": self.id }))?);
        let entries = listed["entries"].as_array().map(Vec::as_slice).unwrap_or_default();
        operator::pick(entries.iter().filter_map(|entry| entry["entry"].as_str()), prefix, "message")
    }
}

fn table(listed: &Value, now_ms: u64, style: Style) -> String {
    let entries = listed["entries"].as_array().map(Vec::as_slice).unwrap_or_default();
    if entries.is_empty() {
        return "no messages\n".to_owned();
    }
    let mut table = Table::new(&["ENTRY", "STATE", "FROM", "QUEUED", "ATTEMPTS", "TEXT"]);
    for entry in entries {
        let attempts = entry["attempt"].as_u64().filter(|n| *n > 0).map(|n| n.to_string());
        table.row(vec![
            shown(&entry["entry"]),
            shown(&entry["state"]),
            shown(&entry["source"]),
            entry["queued"].as_str().map(|then| ago(then, now_ms)).unwrap_or_default(),
            attempts.unwrap_or_default(),
            shown(&entry["text"]),
        ]);
    }
    table.render(style)
}

fn whole(entry: &Value, now_ms: u64, style: Style) -> String {
    let queued = entry["queued"].as_str().map(|then| ago(then, now_ms)).unwrap_or_default();
    let heading = format!(
        "{}, {}, from {}, queued {queued} ago",
        shown(&entry["entry"]),
        shown(&entry["state"]),
        shown(&entry["source"])
    );
    format!(
        "{}\n\n{}\n",
        style.bold(&heading),
        harmless(entry["text"].as_str().unwrap_or_default().trim_end())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R295: what waits is listed in its order, and one message is shown whole.
    #[test]
    fn messages_are_listed_and_shown() {
        let entry = json!({ "entry": "e1", "state": "indeterminate", "source": "user", "attempt": 1,
            "queued": "1970-01-01T00:00:01Z", "text": "do\nthis" });
        let listed = json!({ "entries": [entry, { "entry": "e2", "state": "queued", "attempt": 0 }] });
        let expected = "\
ENTRY  STATE          FROM  QUEUED  ATTEMPTS  TEXT
e1     indeterminate  user  5 s     1         do this
e2     queued
";
        assert_eq!(table(&listed, 6_000, Style::default()), expected);
        assert_eq!(table(&json!({}), 0, Style::default()), "no messages\n");
        let shown = "e1, indeterminate, from user, queued 5 s ago\n\ndo\nthis\n";
        assert_eq!(whole(&listed["entries"][0], 6_000, Style::default()), shown);
    }
}
