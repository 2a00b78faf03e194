//! What the tests of scrubbing share: made-up secrets, lines, and the ways a text can arrive.
//!
//! Secrets are written as `«…»`; `{a24}` stands for 24 bytes of letters and digits, so that no file holds one.

mod kept;
mod laws;
mod members;
mod messages;
mod shapes;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{MARK, Scrubber};

/// A row of a table: the text, and what is left of it.
struct Row {
    text: String,
    clean: String,
}

impl Row {
    fn of(row: &str) -> Self {
        let (mut text, mut clean) = (String::new(), String::new());
        for (n, part) in filled(row).split(['«', '»']).enumerate() {
            text.push_str(part);
            clean.push_str(if n % 2 == 0 { part } else { MARK });
        }
        Self { text, clean }
    }
}

/// With made-up bytes in the gaps.
fn filled(row: &str) -> String {
    let mut text = String::new();
    let mut parts = row.split('{');
    text.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let gap = part.split_once('}').and_then(|(gap, rest)| Some((made_up(gap)?, rest)));
        match gap {
            Some((bytes, rest)) => text.extend([&bytes, rest]),
            None => text.extend(["{", part]),
        }
    }
    text
}

fn made_up(gap: &str) -> Option<String> {
    let pool = match gap.get(..1)? {
        "a" => "X0y1Z2w3Q4",
        "l" => "fakevaluemadeupfortest",
        "h" => "0a1b2c3d4e5f",
        "d" => "0123456789",
        "u" => "A0B1C2D3E4",
        "b" => "M0a/N1b+P2c",
        _ => return None,
    };
    let length: usize = gap[1..].parse().ok()?;
    Some(pool.chars().cycle().take(length).collect())
}

/// A line with a piece of a message.
fn chunk(text: &str) -> Bytes {
    chunk_of("agent_message_chunk", Some("m1"), text)
}

fn chunk_of(kind: &str, id: Option<&str>, text: &str) -> Bytes {
    let mut update = json!({ "sessionUpdate": kind, "content": { "type": "text", "text": text } });
    if let Some(id) = id {
        update["messageId"] = id.into();
    }
    update_line("s1", &update)
}

fn update_line(session: &str, update: &Value) -> Bytes {
    let params = json!({ "sessionId": session, "update": update });
    Bytes::from(json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }).to_string())
}

/// What is stored of these lines.
fn stored(lines: impl IntoIterator<Item = Bytes>) -> Vec<Bytes> {
    let (mut scrubber, mut out) = (Scrubber::default(), Vec::new());
    lines.into_iter().for_each(|line| scrubber.take(line, &mut out));
    scrubber.flush(&mut out);
    out
}

fn one(line: &str) -> String {
    let out = stored([Bytes::copy_from_slice(line.as_bytes())]);
    assert_eq!(out.len(), 1, "{line}");
    String::from_utf8(out[0].to_vec()).expect("text")
}

/// The text of a chunk.
fn said(line: &Bytes) -> String {
    let line: Value = serde_json::from_slice(line).expect("JSON");
    line["params"]["update"]["content"]["text"].as_str().expect("a text").to_owned()
}

/// The texts that are left of a message in these pieces.
fn pieces(pieces: &[&str]) -> Vec<String> {
    stored(pieces.iter().map(|piece| chunk(piece))).iter().map(said).collect()
}

/// Every place where a text can be split.
fn places(text: &str) -> Vec<usize> {
    text.char_indices().map(|(at, _)| at).chain([text.len()]).collect()
}

/// A text arrives whole, in a string, in JSON in a string, and in two and three pieces split everywhere.
fn arrives(row: &Row) {
    let Row { text, clean } = row;
    assert_eq!(one(text), *clean, "as a line that is no JSON");
    let line = |text: &str| json!({ "update": { "rawOutput": { "output": text } } }).to_string();
    assert_eq!(one(&line(text)), line(clean), "in a string");
    let nested = |text: &str| line(&json!({ "stdout": text, "code": 0 }).to_string());
    assert_eq!(one(&nested(text)), nested(clean), "in JSON in a string");
    let escaped = |text: &str| text.replace('/', "\\/");
    assert_eq!(one(&escaped(&line(text))).replace("\\/", "/"), line(clean), "with escaped slashes");
    arrives_in_pieces(row);
}

/// As a text, and in pieces.
fn arrives_in_pieces(Row { text, clean }: &Row) {
    assert_eq!(super::text(text), *clean, "as a text");
    assert_eq!(super::text(clean), *clean, "scrubbed again");
    for first in places(text) {
        let two = pieces(&[&text[..first], &text[first..]]);
        assert_eq!(two.concat(), *clean, "split at {first}: {:?}", &text[..first]);
        assert_eq!(two.len(), 2);
        for second in places(&text[first..]).into_iter().map(|at| first + at) {
            let three = [&text[..first], &text[first..second], &text[second..]];
            assert_eq!(pieces(&three).concat(), *clean, "split as {three:?}");
        }
    }
}
