//! Text as it stands between the quotes of a JSON string, cut where neither a character nor an escape is torn. Pure.
//!
//! Nothing is unescaped for it: pieces of such text that were cut here, or that were whole, can be put together again.

use memchr::memchr;

/// The place to cut such that at most `max` bytes are before it.
pub(super) fn floor(body: &str, max: usize) -> usize {
    if max >= body.len() {
        return body.len();
    }
    let mut from = 0;
    while let Some(at) = next_escape(body, from).filter(|at| *at < max) {
        let end = escape_end(body, at);
        if end > max {
            return at;
        }
        from = end;
    }
    char_floor(body, max)
}

/// The first place to cut that is not before `min`.
pub(super) fn ceil(body: &str, min: usize) -> usize {
    if min >= body.len() {
        return body.len();
    }
    let mut from = 0;
    while let Some(at) = next_escape(body, from).filter(|at| *at < min) {
        from = escape_end(body, at);
        if from >= min {
            return from;
        }
    }
    char_ceil(body, min)
}

/// The last place between two characters that is not behind `at`, in any text.
pub(super) fn char_floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// The first place between two characters that is not before `at`, in any text.
pub(super) fn char_ceil(text: &str, at: usize) -> usize {
    (at..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
}

/// How many bytes the text has when it is read.
pub(super) fn length(body: &str) -> usize {
    let (mut from, mut length) = (0, 0);
    while let Some(at) = next_escape(body, from) {
        let end = escape_end(body, at);
        length += at - from + escape_length(&body[at..end]);
        from = end;
    }
    length + body.len() - from
}

/// Text as it stands in JSON, without the quotes.
pub(super) fn of(text: &str) -> String {
    let quoted = serde_json::to_string(text).expect("a string is always JSON");
    quoted[1..quoted.len() - 1].to_owned()
}

/// The text that is meant. Halves of a character that stand alone become the replacement character.
pub(super) fn read(body: &str) -> String {
    if !body.contains('\\') {
        return body.to_owned();
    }
    let whole = serde_json::from_str(&format!("\"{body}\""));
    whole.unwrap_or_else(|_| read_piecewise(body))
}

/// The note that stands where bytes are left out, as such text.
pub(super) fn note(left_out: usize) -> String {
    format!("\\n[… {left_out} bytes are left out here …]\\n")
}

/// Its head and its tail with the note between them; nothing when it is not longer than `max`.
pub(super) fn clipped(body: &str, max: usize) -> Option<String> {
    if body.len() <= max {
        return None;
    }
    let head = floor(body, head_of(max));
    let tail = ceil(body, body.len() - (max - head_of(max)));
    Some([&body[..head], &note(length(&body[head..tail])), &body[tail..]].concat())
}

/// How much of a limit the head gets: a third, because what comes last matters most (R89).
pub(super) fn head_of(max: usize) -> usize {
    max / 3
}

fn next_escape(body: &str, from: usize) -> Option<usize> {
    memchr(b'\\', &body.as_bytes()[from..]).map(|at| from + at)
}

/// Behind the escape that begins there; both halves of a character in two escapes are one.
fn escape_end(body: &str, at: usize) -> usize {
    let is_u = |at: usize| body[at..].starts_with("\\u");
    let end = if !is_u(at) {
        at + 2
    } else if is_half(body, at, b'8'..=b'b') && is_half(body, at + 6, b'c'..=b'f') {
        at + 12
    } else {
        at + 6
    };
    end.min(body.len())
}

/// Whether an escape stands there that is one half of a character.
fn is_half(body: &str, at: usize, third: std::ops::RangeInclusive<u8>) -> bool {
    let escape = body.as_bytes().get(at..at + 6);
    escape.is_some_and(|e| {
        e.starts_with(b"\\u")
            && e[2].eq_ignore_ascii_case(&b'd')
            && third.contains(&e[3].to_ascii_lowercase())
    })
}

/// Bytes of what an escape means.
fn escape_length(escape: &str) -> usize {
    match escape.len() {
        12 => 4,
        6 => u16::from_str_radix(&escape[2..], 16).map_or(3, |unit| match unit {
            0..0x80 => 1,
            0x80..0x800 => 2,
            _ => 3,
        }),
        _ => 1,
    }
}

fn read_piecewise(body: &str) -> String {
    let (mut from, mut text) = (0, String::with_capacity(body.len()));
    while let Some(at) = next_escape(body, from) {
        text.push_str(&body[from..at]);
        from = escape_end(body, at);
        let escape = serde_json::from_str::<String>(&format!("\"{}\"", &body[at..from]));
        text.push_str(escape.as_deref().unwrap_or("\u{fffd}"));
    }
    text + &body[from..]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn no_escape_and_no_character_is_torn() {
        for (body, max, floor_at, ceil_at) in [
            (r"ab\ncd", 2, 2, 2),
            (r"ab\ncd", 3, 2, 4),
            (r"ab\\\n", 5, 4, 6),
            (r"x\u00e4y", 4, 1, 7),
            (r"x\ud83e\udd80y", 7, 1, 13),
            (r"x\ud83ey", 7, 7, 7),
            ("a🦀b", 3, 1, 5),
            ("abc", 9, 3, 3),
        ] {
            assert_eq!((floor(body, max), ceil(body, max)), (floor_at, ceil_at), "{body} {max}");
        }
    }

    #[test]
    fn text_that_cannot_be_read_whole_is_read_piece_by_piece() {
        assert_eq!(read(r"a\nb"), "a\nb");
        assert_eq!(read(r"a\ud83eb\u00e4"), "a\u{fffd}bä");
        assert_eq!(read(r"\ud83e\udd80"), "🦀");
    }

    proptest! {
        /// R281: whatever is cut, both parts are text again, and the note tells the truth.
        #[test]
        fn every_cut_leaves_text(text in "\\PC*|[\\x00-\\x7f]*", max in 0_usize..60, ascii: bool) {
            let mut body = of(&text);
            if ascii {
                let unit = |u: u16| if u < 128 { of(&char::from(u as u8).to_string()) } else { format!("\\u{u:04x}") };
                body = text.encode_utf16().map(unit).collect();
            }
            prop_assert_eq!(length(&body), text.len());
            prop_assert_eq!(read(&body), text);
            for at in [floor(&body, max), ceil(&body, max)] {
                let (a, b) = body.split_at(at);
                prop_assert_eq!(length(a) + length(b), length(&body));
                for part in [a, b] {
                    prop_assert!(serde_json::from_str::<String>(&format!("\"{part}\"")).is_ok(), "{}", part);
                }
            }
            prop_assert!(floor(&body, max) <= max && ceil(&body, max) >= max.min(body.len()));
        }
    }
}
