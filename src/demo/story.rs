//! An ordinary prompt: thinks, plans, looks around, acts when it was asked to and is allowed to, and answers.
//!
//! Looking asks nobody; acting is one tool call that asks for permission and stays undone without it.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Value, json};

use super::{
    client::{self, Verdict},
    script::Deed,
    turn::{Cancelled, Turn},
};

const WORD: Duration = Duration::from_millis(8);
const STEPS: [&str; 3] = ["Look around", "Do what was asked", "Answer"];
/// Command of a prompt that says `run`; permission is asked for exactly this line.
const COMMAND: (&str, &[&str]) = ("uname", &["-a"]);

/// Plays the whole turn.
pub(super) fn tell(turn: &mut Turn, prompt: &str) -> Result<(), Cancelled> {
    let deed = Deed::of(prompt);
    say(turn, "The prompt is a plain one. First a look at where I am.", Turn::thought)?;
    plan(turn, 0);
    let seen = look(turn)?;
    plan(turn, 1);
    let done = act(turn, deed)?;
    plan(turn, 2);
    let quoted: String = prompt.chars().take(200).collect();
    let greeting = format!("Hello! I am the demo agent of acpvisor. You said: \"{quoted}\". {seen} {done}");
    say(turn, greeting.trim(), Turn::text)?;
    plan(turn, STEPS.len());
    Ok(())
}

fn say(turn: &mut Turn, text: &str, piece: fn(&Turn, &str)) -> Result<(), Cancelled> {
    for word in text.split_inclusive(' ') {
        piece(turn, word);
        turn.pause(WORD)?;
    }
    Ok(())
}

/// Publishes the plan with everything before step `at` done.
fn plan(turn: &Turn, at: usize) {
    let status = |step: usize| match step.cmp(&at) {
        std::cmp::Ordering::Less => "completed",
        std::cmp::Ordering::Equal => "in_progress",
        std::cmp::Ordering::Greater => "pending",
    };
    let entry =
        |(n, step): (usize, &&str)| json!({"content": step, "priority": "medium", "status": status(n)});
    let entries: Vec<Value> = STEPS.iter().enumerate().map(entry).collect();
    turn.update(&json!({"sessionUpdate": "plan", "entries": entries}));
}

fn look(turn: &mut Turn) -> Result<String, Cancelled> {
    let file = readable(turn.cwd()).filter(|_| turn.client().read);
    let path = file.clone().unwrap_or_else(|| turn.cwd().to_owned());
    let call = turn.fresh_call();
    turn.tool_call(json!({
        "toolCallId": call, "title": format!("Read {}", path.display()), "kind": "read", "status": "in_progress",
        "locations": [{"path": path.to_string_lossy()}],
    }));
    let seen = match &file {
        Some(file) => first_line(client::read(turn, file, Some(20))?),
        None => listing(&path),
    };
    let (status, text) = match seen {
        Ok(text) => ("completed", text),
        Err(text) => ("failed", text),
    };
    finish(turn, &call, status, &text);
    turn.check()?;
    Ok(text)
}

fn readable(cwd: &Path) -> Option<PathBuf> {
    ["README.md", "README", "Cargo.toml", "package.json"].iter().map(|n| cwd.join(n)).find(|p| p.is_file())
}

fn first_line(answer: Result<Value, Value>) -> Result<String, String> {
    match answer {
        Ok(read) => {
            let content = read["content"].as_str().unwrap_or_default();
            let line = content.lines().find(|l| !l.trim().is_empty()).unwrap_or("nothing");
            Ok(format!("Your editor's copy of the file begins with: {line}."))
        }
        Err(error) => Err(format!("Reading failed: {}.", error["message"])),
    }
}

fn listing(cwd: &Path) -> Result<String, String> {
    match std::fs::read_dir(cwd) {
        Ok(entries) => Ok(format!("There are {} entries in {}.", entries.count(), cwd.display())),
        Err(error) => Err(format!("Looking into {} failed: {error}.", cwd.display())),
    }
}

fn act(turn: &mut Turn, deed: Deed) -> Result<String, Cancelled> {
    let (target, text) = (turn.cwd().join("acpvisor-demo.txt"), "Written by the demo agent.\n");
    let call = turn.fresh_call();
    let what = match deed {
        Deed::Look => return Ok("Ask me to run or to edit something and I will ask you first.".to_owned()),
        Deed::Edit => json!({
            "toolCallId": call, "title": format!("Edit {}", target.display()), "kind": "edit",
            "status": "pending", "locations": [{"path": target.to_string_lossy()}],
            "content": [{"type": "diff", "path": target.to_string_lossy(), "newText": text}],
        }),
        Deed::Run => {
            let line = format!("{} {}", COMMAND.0, COMMAND.1.join(" "));
            json!({
                "toolCallId": call, "title": line, "kind": "execute", "status": "pending",
                "rawInput": {"command": line},
            })
        }
    };
    turn.tool_call(what.clone());
    let done = match client::permission(turn, &what)? {
        Verdict::Refused(why) => Err(format!("I was not allowed to: {why}. So I left it.")),
        Verdict::Allowed(_) if deed == Deed::Run => run(turn, &call)?,
        Verdict::Allowed(_) => edit(turn, &target, text)?,
    };
    let (status, text) = match done {
        Ok(text) => ("completed", text),
        Err(text) => ("failed", text),
    };
    finish(turn, &call, status, &text);
    turn.check()?;
    Ok(text)
}

/// The outer result is the turn's, the inner one the tool call's.
fn run(turn: &mut Turn, call: &str) -> Result<Result<String, String>, Cancelled> {
    if !turn.client().terminal {
        return Ok(Err("This host offers no terminal, so nothing was run.".to_owned()));
    }
    Ok(match client::run(turn, call, COMMAND.0, COMMAND.1)? {
        Ok(ran) => Ok(format!("The command printed: {}.", ran.output.trim())),
        Err(error) => Err(format!("The terminal failed: {}.", error["message"])),
    })
}

fn edit(turn: &mut Turn, path: &Path, text: &str) -> Result<Result<String, String>, Cancelled> {
    if !turn.client().write {
        return Ok(Err("This host offers no files, so nothing was written.".to_owned()));
    }
    Ok(match client::write(turn, path, text)? {
        Ok(_) => Ok(format!("I wrote {}.", path.display())),
        Err(error) => Err(format!("Writing failed: {}.", error["message"])),
    })
}

/// Ends a tool call. A terminal in it stays shown: only the status changes then.
fn finish(turn: &Turn, call: &str, status: &str, text: &str) {
    let raw = json!({"text": text});
    turn.tool_update(json!({"toolCallId": call, "status": status, "rawOutput": raw}));
}
