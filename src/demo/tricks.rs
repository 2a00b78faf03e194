//! The commands a prompt can give: services asked for on their own, and every way an agent goes wrong.

use std::{
    fs::File,
    io::{self, Write},
    process,
    time::Duration,
};

use serde_json::{Map, Value, json};

use super::{
    brood,
    client::{self, Verdict},
    flood,
    script::{Script, words},
    terminate,
    turn::{Afterwards, Answer, Cancelled, Turn},
};

const BEAT: Duration = Duration::from_millis(100);

/// Plays one command. An ordinary prompt is not one; it does nothing.
pub(super) fn play(turn: &mut Turn, script: Script) -> Result<Afterwards, Cancelled> {
    match script {
        Script::Story(_) => {}
        Script::Crash(code) => crash(turn, code),
        Script::Hang => hang(turn),
        Script::Slow(count) => slow(turn, count)?,
        Script::Flood { count, bytes } => pour(turn, count, bytes)?,
        Script::Big(bytes) => turn.text(&"x".repeat(bytes)),
        Script::Fork => fork(turn),
        Script::Garbage => garbage(turn),
        Script::Stderr(bytes) => stderr(turn, bytes),
        Script::CloseStdout => turn.connection().close(),
        Script::Stop => stop(turn),
        Script::Ask => ask(turn)?,
        Script::Read(path) => {
            let answer = if turn.client().read { client::read(turn, &path, None)? } else { no_service() };
            tell(turn, answer.map(|read| read["content"].clone()));
        }
        Script::Write(path, text) => {
            let answer = if turn.client().write { client::write(turn, &path, &text)? } else { no_service() };
            tell(turn, answer.map(|_| "written".into()));
        }
        Script::Term(command) => term(turn, &command)?,
        Script::Env => turn.text(&env()),
        Script::Echo(text) => turn.text(&text),
        Script::Help => turn.text(&words()),
        Script::ExitAfter => {
            turn.text("goodbye");
            return Ok(Afterwards::Exit);
        }
        Script::Late(count) => return Ok(Afterwards::Updates(count)),
    }
    Ok(Afterwards::Nothing)
}

fn crash(turn: &Turn, code: i32) -> ! {
    turn.text("crashing");
    process::exit(code)
}

fn hang(turn: &Turn) -> ! {
    turn.text("hanging");
    turn.hang()
}

fn slow(turn: &mut Turn, count: u32) -> Result<(), Cancelled> {
    for number in 0..count {
        turn.text(&format!("{number} "));
        turn.pause(BEAT)?;
    }
    Ok(())
}

fn pour(turn: &mut Turn, count: u64, bytes: usize) -> Result<(), Cancelled> {
    let mut cancelled = Ok(());
    // The turn is borrowed by the question between two writes, the file by the writes: hence the copies.
    let (session, out) = (turn.session().to_owned(), stdout(turn));
    if let Ok(mut out) = out {
        let _ = flood::pour(&mut out, &session, count, bytes, || {
            cancelled = turn.check();
            cancelled.is_ok()
        });
    }
    cancelled
}

/// A second handle of stdout. Nobody else of this turn writes meanwhile.
fn stdout(turn: &Turn) -> io::Result<File> {
    let mut copy = Err(io::ErrorKind::BrokenPipe.into());
    turn.connection().with_out(|out| {
        copy = out.try_clone();
        Ok(())
    });
    copy
}

fn fork(turn: &Turn) {
    match stdout(turn).and_then(|out| brood::all(&out)) {
        Ok(pids) => turn.text(&pids.to_string()),
        Err(error) => turn.text(&format!("no processes: {error}")),
    }
}

fn garbage(turn: &Turn) {
    turn.text("before");
    let half = br#"{"jsonrpc":"2.0","method":"session/upda"#;
    for line in [&b"garbage"[..], b"", b"   ", b"[]", b"[1]", b"{}", b"3", half] {
        turn.connection().raw(&[line, b"\n"].concat());
    }
    turn.text("after");
}

fn stderr(turn: &Turn, bytes: usize) {
    let mut stderr = io::stderr().lock();
    let block = [b'e'; 64 << 10];
    let mut left = bytes;
    while left > 0 {
        let now = left.min(block.len());
        if stderr.write_all(&block[..now]).is_err() {
            break;
        }
        left -= now;
    }
    turn.text("said it");
}

fn stop(turn: &Turn) {
    turn.text("stopping");
    terminate::stop_here();
}

fn ask(turn: &mut Turn) -> Result<(), Cancelled> {
    let call = json!({
        "toolCallId": turn.fresh_call(), "title": "Ask for permission", "kind": "execute", "status": "pending",
        "rawInput": {"command": "true"},
    });
    turn.tool_call(call.clone());
    let (status, text) = match client::permission(turn, &call)? {
        Verdict::Allowed(option) => ("completed", format!("allowed: {option}")),
        Verdict::Refused(why) => ("failed", format!("refused: {why}")),
    };
    turn.tool_update(json!({"toolCallId": call["toolCallId"], "status": status}));
    turn.text(&text);
    Ok(())
}

fn term(turn: &mut Turn, command: &str) -> Result<(), Cancelled> {
    if !turn.client().terminal {
        tell(turn, no_service());
        return Ok(());
    }
    let call = turn.fresh_call();
    turn.tool_call(json!({
        "toolCallId": call, "title": command, "kind": "execute", "status": "pending",
        "rawInput": {"command": command},
    }));
    let ran = client::run(turn, &call, "sh", &["-c", command])?;
    let status = if ran.is_ok() { "completed" } else { "failed" };
    turn.tool_update(json!({"toolCallId": call, "status": status}));
    tell(turn, ran.map(|ran| format!("{}: {}", ran.status, ran.output).into()));
    Ok(())
}

fn no_service() -> Answer {
    Err(json!({"message": "the client does not offer that"}))
}

/// Says what the client answered: the text, or its error.
fn tell(turn: &Turn, answer: Answer) {
    match answer {
        Ok(text) => turn.text(text.as_str().unwrap_or_default()),
        Err(error) => turn.text(&format!("failed: {error}")),
    }
}

fn env() -> String {
    let text = |value: std::ffi::OsString| value.to_string_lossy().into_owned();
    let env: Map<String, Value> = std::env::vars_os().map(|(k, v)| (text(k), text(v).into())).collect();
    let cwd = std::env::current_dir().map(|cwd| text(cwd.into())).unwrap_or_default();
    json!({"env": env, "cwd": cwd}).to_string()
}
