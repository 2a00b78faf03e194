//! The agent: a text of its prompt is a command.
//!
//! A prompt is `compose COUNT BYTES`, for that many updates with that much text, each made as an agent makes it;
//! `flood COUNT BYTES`, for the same lines made once and written in large pieces, which no real agent can do; or
//! anything else, for none. Every other request is answered with an empty object.

use std::{
    fs::File,
    io::{BufRead, BufReader, BufWriter, Write, stdin, stdout},
    os::fd::AsFd,
    process,
};

use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use crate::Outcome;

/// Argument that makes this binary an agent.
pub const MODE: &str = "--agent";

/// How much one write of a flood holds at most: a pipe.
const BLOCK_BYTES: usize = 64 << 10;

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<&'a str>,
    #[serde(default)]
    params: Params,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Params {
    session_id: String,
    prompt: Vec<Block>,
}

#[derive(Deserialize)]
struct Block {
    #[serde(default)]
    text: String,
}

/// Serves stdin and stdout until one of them ends.
pub fn run() -> Outcome<()> {
    let mut input = BufReader::with_capacity(BLOCK_BYTES, File::from(stdin().as_fd().try_clone_to_owned()?));
    let mut output = File::from(stdout().as_fd().try_clone_to_owned()?);
    let mut line = String::new();
    let mut sessions = 0;
    while input.read_line(&mut line)? > 0 {
        let request: Request = serde_json::from_str(&line)?;
        let result = match request.method {
            Some("initialize") => INITIALIZED.to_owned(),
            Some("session/new") => {
                sessions += 1;
                format!("{{\"sessionId\":\"bench-{}-{sessions}\"}}", process::id())
            }
            Some("session/prompt") => {
                prompt(&request.params, &mut output)?;
                r#"{"stopReason":"end_turn"}"#.to_owned()
            }
            _ => "{}".to_owned(),
        };
        if let (Some(id), Some(_)) = (request.id, request.method) {
            output
                .write_all(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n").as_bytes())?;
        }
        line.clear();
    }
    Ok(())
}

const INITIALIZED: &str = r#"{"protocolVersion":1,"agentInfo":{"name":"spine","version":"1"},"agentCapabilities":{"loadSession":true},"authMethods":[]}"#;

fn prompt(params: &Params, output: &mut File) -> Outcome<()> {
    let text = params.prompt.last().map_or("", |block| &block.text);
    match text.split(' ').collect::<Vec<_>>()[..] {
        ["compose", count, bytes] => compose(&params.session_id, count.parse()?, bytes.parse()?, output),
        ["flood", count, bytes] => flood(&params.session_id, count.parse()?, bytes.parse()?, output),
        _ => Ok(()),
    }
}

fn update(session: &str, text: &str) -> Value {
    json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": session, "update": {
        "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } } } })
}

fn compose(session: &str, count: usize, bytes: usize, output: &mut File) -> Outcome<()> {
    let text = "x".repeat(bytes);
    let mut output = BufWriter::with_capacity(BLOCK_BYTES, output);
    for _ in 0..count {
        serde_json::to_writer(&mut output, &update(session, &text))?;
        output.write_all(b"\n")?;
    }
    Ok(output.flush()?)
}

fn flood(session: &str, count: usize, bytes: usize, output: &mut File) -> Outcome<()> {
    let line = format!("{}\n", update(session, &"x".repeat(bytes)));
    let in_block = (BLOCK_BYTES / line.len()).max(1);
    let block = line.repeat(in_block);
    let mut left = count;
    while left > 0 {
        let lines = in_block.min(left);
        output.write_all(&block.as_bytes()[..lines * line.len()])?;
        left -= lines;
    }
    Ok(())
}
