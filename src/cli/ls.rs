//! `acpvisor ls`: the sessions.

use std::process::ExitCode;

use serde_json::Value;

use super::{
    Failure, Globals, operator,
    style::{self, Style, one_line},
    table::Table,
};

/// Arguments of `ls`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Print one JSON value
    #[arg(long)]
    json: bool,
}

impl Args {
    pub fn run(self, globals: &Globals) -> Result<ExitCode, Failure> {
        operator::show(globals, "sessions.list", self.json, table)
    }
}

const COLUMNS: [&str; 10] =
    ["id", "agent", "stage", "turn", "waiting", "open_requests", "host", "since", "cwd", "title"];

fn table(listed: &Value, now_ms: u64, style: Style) -> String {
    let sessions = listed["sessions"].as_array().map(Vec::as_slice).unwrap_or_default();
    if sessions.is_empty() {
        return "no sessions\n".to_owned();
    }
    let mut table =
        Table::new(&["ID", "AGENT", "STAGE", "TURN", "WAITING", "OPEN", "HOST", "SINCE", "CWD", "TITLE"]);
    for session in sessions {
        let cell = |name: &str| match (&session[name], name) {
            (Value::String(then), "since") => {
                style::moment(then).map(|then| style::since(then, now_ms)).unwrap_or_default()
            }
            (Value::Number(zero), "waiting" | "open_requests") if zero.as_u64() == Some(0) => String::new(),
            (value, _) => shown(value),
        };
        table.row(COLUMNS.into_iter().map(cell).collect());
    }
    table.render(style)
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
    use serde_json::json;

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
}
