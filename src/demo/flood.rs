//! Many updates with few writes: what a reader cannot keep up with.

use std::io::{self, Write};

/// Bytes gathered before a write.
const WRITE_BYTES: usize = 256 << 10;

/// Writes `count` chunks of that session. The text of each is its number from 0, then `x` up to `bytes`.
/// Stops early, between two writes, when `go_on` says no.
pub(super) fn pour(
    out: &mut impl Write,
    session: &str,
    count: u64,
    bytes: usize,
    mut go_on: impl FnMut() -> bool,
) -> io::Result<()> {
    let head = head(session);
    let mut buffer = Vec::with_capacity(WRITE_BYTES + bytes + 512);
    for number in 0..count {
        chunk(&mut buffer, &head, number, bytes);
        if buffer.len() >= WRITE_BYTES {
            out.write_all(&buffer)?;
            buffer.clear();
            if !go_on() {
                return Ok(());
            }
        }
    }
    out.write_all(&buffer)
}

fn head(session: &str) -> String {
    let session = serde_json::Value::from(session);
    format!(
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":{session},"update":{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":""#
    )
}

fn chunk(buffer: &mut Vec<u8>, head: &str, number: u64, bytes: usize) {
    buffer.extend_from_slice(head.as_bytes());
    let number = number.to_string();
    buffer.extend_from_slice(number.as_bytes());
    if let Some(rest) = bytes.checked_sub(number.len() + 1) {
        buffer.push(b' ');
        buffer.resize(buffer.len() + rest, b'x');
    }
    buffer.extend_from_slice(b"\"}}}}\n");
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn every_line_is_a_chunk_with_its_number() {
        let mut out = Vec::new();
        pour(&mut out, "a\"b", 3, 10, || true).unwrap();
        let lines: Vec<Value> =
            out.split(|b| *b == b'\n').filter_map(|l| serde_json::from_slice(l).ok()).collect();
        let texts: Vec<_> = lines.iter().map(|l| l["params"]["update"]["content"]["text"].as_str()).collect();
        assert_eq!(texts, [Some("0 xxxxxxxx"), Some("1 xxxxxxxx"), Some("2 xxxxxxxx")]);
        assert_eq!(lines[0]["params"]["sessionId"], "a\"b");
    }

    #[test]
    fn a_flood_stops_between_two_writes() {
        let mut out = Vec::new();
        pour(&mut out, "s", 1_000_000, 1000, || false).unwrap();
        assert!(out.len() < 2 * WRITE_BYTES);
    }
}
