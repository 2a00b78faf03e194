//! What a large member of a tool call is replaced by (R281). Pure.
//!
//! What came out of a tool is cut to head and tail in place, so that an object stays an object; only when that is not
//! enough is it replaced as a whole.

use std::borrow::Cow;

use super::{content, literal};
use crate::limits::{REPLAY_TEXT_BYTES_MAX, REPLAY_WHOLE_BYTES_MAX};

/// Each string in an object that is too large keeps this much.
const STRING_BYTES_MAX: usize = REPLAY_TEXT_BYTES_MAX / 4;

/// A member as replay shows it; `null` when there is nothing to show.
pub(super) fn member<'a>(name: &str, raw: &'a str, terminals: content::Show<'_>) -> Cow<'a, str> {
    match name {
        "content" => content::shorter(raw, terminals),
        "rawInput" | "locations" => shorter(name, raw, REPLAY_WHOLE_BYTES_MAX),
        _ => shorter(name, raw, REPLAY_TEXT_BYTES_MAX),
    }
}

fn shorter<'a>(name: &str, raw: &'a str, max: usize) -> Cow<'a, str> {
    if raw.len() <= max {
        return Cow::Borrowed(raw);
    }
    if let Some(body) = raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"')) {
        let clipped = literal::clipped(body, REPLAY_TEXT_BYTES_MAX);
        return clipped.map_or(Cow::Borrowed(raw), |body| Cow::Owned(format!("\"{body}\"")));
    }
    let shorter = with_short_strings(raw);
    if shorter.len() <= max { Cow::Owned(shorter) } else { Cow::Owned(replaced(name, &shorter)) }
}

/// Input and output may be of any type, so text stands for them; what else is too large is left out.
fn replaced(name: &str, raw: &str) -> String {
    if !matches!(name, "rawInput" | "rawOutput") {
        return "null".to_owned();
    }
    let max = REPLAY_TEXT_BYTES_MAX / 2;
    let head = &raw[..literal::char_floor(raw, literal::head_of(max))];
    let tail = &raw[literal::char_ceil(raw, raw.len() - (max - literal::head_of(max)))..];
    let note = literal::note(raw.len() - head.len() - tail.len());
    format!("\"{}{note}{}\"", literal::of(head), literal::of(tail))
}

/// The same value with each long string in it cut to head and tail.
fn with_short_strings(raw: &str) -> String {
    let (mut out, mut from) = (String::new(), 0);
    while let Some(open) = memchr::memchr(b'"', &raw.as_bytes()[from..]).map(|at| from + at + 1) {
        let close = string_end(raw.as_bytes(), open);
        out.push_str(&raw[from..open]);
        let body = &raw[open..close];
        out.push_str(literal::clipped(body, STRING_BYTES_MAX).as_deref().unwrap_or(body));
        out.push('"');
        from = (close + 1).min(raw.len());
    }
    out + &raw[from..]
}

/// Where the string that begins there ends.
fn string_end(json: &[u8], mut from: usize) -> usize {
    while let Some(at) = memchr::memchr2(b'"', b'\\', &json[from..]).map(|at| from + at) {
        if json[at] == b'"' {
            return at;
        }
        from = (at + 2).min(json.len());
    }
    json.len()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn shown(name: &str, value: &Value) -> (Value, usize) {
        let raw = value.to_string();
        let shown = member(name, &raw, content::Show::Keep);
        (serde_json::from_str(&shown).unwrap(), shown.len())
    }

    /// R281: a long output keeps its type, its head and its tail, and says what is missing.
    #[test]
    fn long_output_is_cut_in_place() {
        let long = format!("begin{}end\n", "\u{e4}\n".repeat(50_000));
        let (text, length) = shown("rawOutput", &json!(long));
        let text = text.as_str().unwrap();
        assert!(text.starts_with("begin") && text.ends_with("end\n") && length < 70_000);
        let (left_out, _) = text.split_once("[… ").unwrap().1.split_once(' ').unwrap();
        let note = format!("\n[… {left_out} bytes are left out here …]\n");
        assert_eq!(text.len() - note.len() + left_out.parse::<usize>().unwrap(), long.len());

        let (object, _) = shown("rawOutput", &json!({ "stdout": long, "code": 3, "q": "\\\"" }));
        assert_eq!((&object["code"], &object["q"]), (&json!(3), &json!("\\\"")));
        assert!(object["stdout"].as_str().unwrap().ends_with("end\n"));
    }

    /// R281: what has no long strings to cut becomes text, or goes.
    #[test]
    fn what_cannot_be_cut_in_place_is_replaced() {
        let many: Value = (0..100_000).map(|n| json!({ "\"q\\": n })).collect();
        let (text, length) = shown("rawOutput", &many);
        assert!(text.as_str().unwrap().starts_with(r#"[{"\"q\\":0}"#) && length < 70_000, "{length}");
        assert_eq!(shown("_meta", &many).0, Value::Null);
        assert_eq!(shown("locations", &json!([{ "path": "/x" }])).0, json!([{ "path": "/x" }]));
    }

    #[test]
    fn what_is_small_stands_as_it_is() {
        let raw = r#"{ "a" : 1.0 }"#;
        assert!(matches!(member("rawOutput", raw, content::Show::Keep), Cow::Borrowed(same) if same == raw));
    }
}
