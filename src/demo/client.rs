//! What the client offers, and the calls a turn makes on it: permission, files, terminals.

use std::path::Path;

use serde_json::{Value, json};

use super::turn::{Answer, Cancelled, Turn};

/// Services the client declared in `initialize`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Offered {
    /// `fs/read_text_file`.
    pub read: bool,
    /// `fs/write_text_file`.
    pub write: bool,
    /// All of `terminal/*`.
    pub terminal: bool,
}

impl Offered {
    /// What those client capabilities offer; absent means no.
    pub fn of(capabilities: &Value) -> Self {
        let yes = |value: &Value| value.as_bool().unwrap_or_default();
        Self {
            read: yes(&capabilities["fs"]["readTextFile"]),
            write: yes(&capabilities["fs"]["writeTextFile"]),
            terminal: yes(&capabilities["terminal"]),
        }
    }
}

/// What became of a question of permission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// An allowing option was chosen; which.
    Allowed(String),
    /// A refusing option, an error or something unknown; what.
    Refused(String),
}

/// Asks for permission to do what the tool call describes. An outcome `cancelled` without a cancel of the
/// turn is a refusal: that is how a client without a rejecting option says no.
pub(super) fn permission(turn: &mut Turn, tool_call: &Value) -> Result<Verdict, Cancelled> {
    let options = json!([
        {"optionId": "allow-once", "name": "Allow", "kind": "allow_once"},
        {"optionId": "allow-always", "name": "Always allow", "kind": "allow_always"},
        {"optionId": "reject-once", "name": "Reject", "kind": "reject_once"},
    ]);
    let params = json!({"sessionId": turn.session(), "toolCall": tool_call, "options": options});
    let answer = turn.ask("session/request_permission", params)?;
    turn.check()?;
    Ok(verdict(&answer))
}

fn verdict(answer: &Answer) -> Verdict {
    let outcome = match answer {
        Ok(result) => &result["outcome"],
        Err(error) => return Verdict::Refused(format!("error {}", error["code"])),
    };
    let chosen = outcome["optionId"].as_str().or(outcome["outcome"].as_str()).unwrap_or("nothing").to_owned();
    if chosen.starts_with("allow-") { Verdict::Allowed(chosen) } else { Verdict::Refused(chosen) }
}

/// Reads a file through the client, at most `limit` lines of it.
pub(super) fn read(turn: &mut Turn, path: &Path, limit: Option<u32>) -> Result<Answer, Cancelled> {
    let mut params = json!({"sessionId": turn.session(), "path": path.to_string_lossy()});
    if let Some(limit) = limit {
        params["limit"] = limit.into();
    }
    turn.ask("fs/read_text_file", params)
}

/// Writes a file through the client.
pub(super) fn write(turn: &mut Turn, path: &Path, content: &str) -> Result<Answer, Cancelled> {
    let path = path.to_string_lossy();
    turn.ask("fs/write_text_file", json!({"sessionId": turn.session(), "path": path, "content": content}))
}

/// What a command in the client's terminal came to.
#[derive(Debug)]
pub(super) struct Ran {
    /// `exitCode` and `signal`, as the client said it.
    pub status: Value,
    /// What it printed.
    pub output: String,
}

/// Runs a command in a terminal of the client, shown in that tool call: create, wait, read, release. A
/// cancelled turn kills it; it is released on every way out.
pub(super) fn run(
    turn: &mut Turn,
    tool_call: &str,
    command: &str,
    args: &[&str],
) -> Result<Result<Ran, Value>, Cancelled> {
    let cwd = turn.cwd().to_string_lossy().into_owned();
    let params = json!({
        "sessionId": turn.session(), "command": command, "args": args, "cwd": cwd, "outputByteLimit": 65536,
    });
    let created = match turn.ask("terminal/create", params)? {
        Ok(created) => created,
        Err(error) => return Ok(Err(error)),
    };
    let terminal = json!({"sessionId": turn.session(), "terminalId": created["terminalId"]});
    turn.tool_update(json!({
        "toolCallId": tool_call, "status": "in_progress",
        "content": [{"type": "terminal", "terminalId": created["terminalId"]}],
    }));
    let ran = wait(turn, &terminal);
    if ran.is_err() {
        turn.tell("terminal/kill", terminal.clone());
    }
    turn.tell("terminal/release", terminal);
    ran
}

fn wait(turn: &mut Turn, terminal: &Value) -> Result<Result<Ran, Value>, Cancelled> {
    let status = match turn.ask_unless_cancelled("terminal/wait_for_exit", terminal.clone())? {
        Ok(status) => status,
        Err(error) => return Ok(Err(error)),
    };
    let output = turn.ask("terminal/output", terminal.clone())?;
    Ok(output.map(|o| Ran { status, output: o["output"].as_str().unwrap_or_default().to_owned() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_declared_is_not_offered() {
        assert_eq!(Offered::of(&Value::Null), Offered::default());
        let fs = json!({"fs": {"readTextFile": true, "writeTextFile": null}, "terminal": false});
        assert_eq!(Offered::of(&fs), Offered { read: true, ..Offered::default() });
    }

    #[test]
    fn whatever_is_no_allowing_option_refuses() {
        let selected = |option: &str| Ok(json!({"outcome": {"outcome": "selected", "optionId": option}}));
        assert_eq!(verdict(&selected("allow-once")), Verdict::Allowed("allow-once".into()));
        assert_eq!(verdict(&selected("reject-once")), Verdict::Refused("reject-once".into()));
        let cancelled = Ok(json!({"outcome": {"outcome": "cancelled"}}));
        assert_eq!(verdict(&cancelled), Verdict::Refused("cancelled".into()));
        assert_eq!(verdict(&Err(json!({"code": -32603}))), Verdict::Refused("error -32603".into()));
    }
}
