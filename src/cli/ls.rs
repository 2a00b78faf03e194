//! `acpvisor ls`: the sessions, live and saved.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::{
    Failure, Globals,
    operator::{self, Operator, value},
    style::{self, Style, one_line},
    table::Table,
};

/// Saved sessions that are listed unless all are wanted.
const SAVED_SHOWN: usize = 20;
/// Sessions asked for at once when all are wanted.
const PAGE: usize = 1_000;

/// Arguments of `ls`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// List all saved sessions, not only the 20 that were used last
    #[arg(long)]
    all: bool,
    /// Print one JSON value
    #[arg(long)]
    json: bool,
}

impl Args {
    pub fn run(self, globals: &Globals) -> Result<ExitCode, Failure> {
        let mut operator = Operator::connect(&globals.paths()?)?;
        let limit = if self.all { PAGE } else { SAVED_SHOWN };
        let answer = operator.call("sessions.list", &json!({ "saved": true, "limit": limit }))?;
        if !self.all {
            return operator::present(&answer, self.json, table);
        }
        let mut listed = value(&answer);
        while let Some(cursor) = listed["cursor"].as_str() {
            let more = json!({ "saved": true, "limit": PAGE, "cursor": cursor });
            join(&mut listed, value(&operator.call("sessions.list", &more)?));
        }
        let listed = serde_json::value::to_raw_value(&listed).expect("a value is JSON");
        operator::present(&listed, self.json, table)
    }
}

/// Puts a page behind those before it.
fn join(listed: &mut Value, mut page: Value) {
    if let (Some(all), Some(more)) = (listed["sessions"].as_array_mut(), page["sessions"].as_array_mut()) {
        all.append(more);
    }
    listed["cursor"] = page["cursor"].take();
}

const COLUMNS: [&str; 14] = [
    "id",
    "agent",
    "stage",
    "turn",
    "waiting",
    "open_requests",
    "waiting_permissions",
    "host",
    "inbox",
    "last_prompt",
    "since",
    "updated",
    "cwd",
    "title",
];
const HEADER: [&str; 14] = [
    "ID",
    "AGENT",
    "STAGE",
    "TURN",
    "WAITING",
    "OPEN",
    "PERMISSIONS",
    "HOST",
    "INBOX",
    "LAST PROMPT",
    "SINCE",
    "USED",
    "CWD",
    "TITLE",
];

fn table(listed: &Value, now_ms: u64, style: Style) -> String {
    let sessions = listed["sessions"].as_array().map(Vec::as_slice).unwrap_or_default();
    if sessions.is_empty() {
        return "no sessions\n".to_owned();
    }
    let mut table = Table::new(&HEADER);
    for session in sessions {
        table.row(COLUMNS.into_iter().map(|name| cell(session, name, now_ms)).collect());
    }
    let more = if listed["cursor"].is_string() { "and more saved ones: --all\n" } else { "" };
    table.render(style) + more
}

fn cell(session: &Value, name: &str, now_ms: u64) -> String {
    match (&session[name], name) {
        (Value::String(then), "since" | "updated") => ago(then, now_ms),
        (Value::Number(zero), "waiting" | "open_requests" | "waiting_permissions")
            if zero.as_u64() == Some(0) =>
        {
            String::new()
        }
        (Value::Null, "stage") => shown(&session["state"]),
        (inbox, "inbox") => waiting(inbox),
        (prompt, "last_prompt") => unsettled(&prompt["state"]),
        (value, _) => shown(value),
    }
}

/// How long ago a moment was.
pub(super) fn ago(then: &str, now_ms: u64) -> String {
    style::moment(then).map(|then| style::since(then, now_ms)).unwrap_or_default()
}

/// What of an inbox wants somebody's eye: what waits, and what nobody knows of.
fn waiting(inbox: &Value) -> String {
    let count = |state: &str| inbox[state].as_u64().filter(|count| *count > 0);
    let unknown = count("indeterminate").map(|count| format!("{count} indeterminate"));
    let queued = count("queued").map(|count| count.to_string());
    [queued, unknown].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// A prompt that was answered is nothing to tell.
fn unsettled(state: &Value) -> String {
    if state == "answered" { String::new() } else { shown(state) }
}

/// A value as people read it; nothing for what is not there.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Null | Value::Bool(false) => String::new(),
        Value::Bool(true) => "yes".to_owned(),
        Value::String(text) => one_line(text),
        other => one_line(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R260: a table for people; what is missing, and what would move the cursor, is not shown.
    #[test]
    fn sessions_are_listed_with_what_is_known_of_them() {
        let listed = json!({ "sessions": [
            { "id": "s1", "agent": "demo", "stage": "ready", "waiting": 0, "since": "1970-01-01T00:00:01Z", "title": "a\u{1b}[2J\nb" },
            { "id": "s2", "host": 4, "waiting": 2 },
        ]});
        let text = table(&listed, 62_000, Style::default());
        assert_eq!(
            text,
            "ID  AGENT  STAGE  WAITING  HOST  SINCE      TITLE\n\
             s1  demo   ready                 1 min 1 s  a [2J b\n\
             s2                2        4\n"
        );
        assert_eq!(table(&json!({}), 0, Style::default()), "no sessions\n");
    }

    /// R280: of a saved session is told what may need somebody, and that there are more of them.
    #[test]
    fn saved_sessions_are_listed_with_what_is_unsettled() {
        let listed = json!({ "cursor": "x", "sessions": [
            { "id": "s1", "state": "saved", "updated": "1970-01-01T00:00:01Z", "inbox": { "queued": 2, "done": 9 }, "last_prompt": { "state": "unknown" } },
            { "id": "s2", "state": "saved", "inbox": { "indeterminate": 1 }, "last_prompt": { "state": "answered" } },
        ]});
        assert_eq!(
            table(&listed, 6_000, Style::default()),
            "ID  STAGE  INBOX            LAST PROMPT  USED\n\
             s1  saved  2                unknown      5 s\n\
             s2  saved  1 indeterminate\n\
             and more saved ones: --all\n"
        );
    }
}
