//! One line of the protocol, read as strictly as the strictest reader there is (R1).

use std::{borrow::Cow, io::BufRead};

use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

/// The parts of a line that every reader needs, whatever the rest looks like.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    jsonrpc: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
}

/// Keeps an id that is null apart from one that is absent.
fn present<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(value).map(Some)
}

/// Reads one line with its line feed: one JSON-RPC object, UTF-8, no CR, nothing that some reader takes for
/// the end of a line. A message that no `Value` can hold (numbers too large, nested too deep) comes back as
/// its envelope.
pub fn parse(line: &[u8]) -> Result<Value, String> {
    let body = line.strip_suffix(b"\n").ok_or("it does not end with a line feed")?;
    let text = std::str::from_utf8(body).map_err(|e| e.to_string())?;
    if let Some(bad) = text.chars().find(|c| matches!(c, '\r' | '\u{2028}' | '\u{2029}')) {
        return Err(format!("{bad:?} in it ends a line for some readers"));
    }
    let envelope: Envelope<'_> = serde_json::from_str(text).map_err(|e| e.to_string())?;
    if envelope.jsonrpc != "2.0" {
        return Err(format!("jsonrpc is {:?}", envelope.jsonrpc));
    }
    Ok(serde_json::from_str(text).unwrap_or_else(|_| bare(&envelope)))
}

fn bare(envelope: &Envelope<'_>) -> Value {
    let mut value = json!({"jsonrpc": "2.0"});
    if let Some(id) = envelope.id.and_then(|id| serde_json::from_str(id.get()).ok()) {
        value["id"] = id;
    }
    if let Some(method) = &envelope.method {
        value["method"] = method.as_ref().into();
    }
    value
}

/// Shows the beginning of a line in a failure.
pub fn shown(line: &[u8]) -> String {
    let head = String::from_utf8_lossy(&line[..line.len().min(400)]).into_owned();
    if line.len() > 400 { format!("{head}… ({} bytes)", line.len()) } else { head }
}

/// The next line with its line feed; empty at the end.
pub fn read(from: &mut impl BufRead) -> Vec<u8> {
    let mut line = Vec::new();
    // A reset connection has ended like any other.
    let _ = from.read_until(b'\n', &mut line);
    line
}

/// Text of an `agent_message_chunk`.
pub fn text(message: &Value) -> Option<&str> {
    let update = &message["params"]["update"];
    (update["sessionUpdate"] == "agent_message_chunk").then(|| update["content"]["text"].as_str()).flatten()
}

/// An `agent_message_chunk` for that session.
pub fn chunk(session: &str, text: &str) -> Value {
    let content = json!({"type": "text", "text": text});
    let update = json!({"sessionUpdate": "agent_message_chunk", "content": content});
    json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}})
}

#[test]
fn the_strict_reader_takes_only_what_everybody_can_read() {
    let good: [&[u8]; 3] = [
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":null}\n",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":[1e400]}\n",
        "{\"jsonrpc\":\"2.0\",\"method\":\"ü\\u2028\"}\n".as_bytes(),
    ];
    for line in good {
        parse(line).unwrap();
    }
    let bad: [&[u8]; 7] = [
        b"{\"jsonrpc\":\"2.0\",\"method\":\"x\"}",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"x\"}\r\n",
        b"[]\n",
        b"\n",
        b"{\"method\":\"x\"}\n",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"\xe9\"}\n",
        "{\"jsonrpc\":\"2.0\",\"method\":\"\u{2028}\"}\n".as_bytes(),
    ];
    for line in bad {
        assert!(parse(line).is_err(), "{}", shown(line));
    }
    assert_eq!(
        parse(b"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"x\",\"params\":1e400}\n").unwrap()["id"],
        Value::Null
    );
}
