//! Strings of JSON: what their escapes say, and where in them a byte of that lies.

use std::{borrow::Cow, ops::Range};

use memchr::memchr;

/// What the inside of a JSON string says. Halves of surrogate pairs become U+FFFD.
pub fn unescape(raw: &[u8]) -> Cow<'_, [u8]> {
    if memchr(b'\\', raw).is_none() {
        return Cow::Borrowed(raw);
    }
    let (mut text, mut at) = (Vec::with_capacity(raw.len()), 0);
    while let Some(next) = memchr(b'\\', &raw[at..]) {
        text.extend_from_slice(&raw[at..at + next]);
        let escape = Escape::at(&raw[at + next..]);
        text.extend_from_slice(escape.says());
        at += next + escape.length;
    }
    text.extend_from_slice(&raw[at..]);
    Cow::Owned(text)
}

/// One escape.
struct Escape {
    /// Bytes of it.
    length: usize,
    buffer: [u8; 4],
    says: usize,
}

impl Escape {
    fn at(raw: &[u8]) -> Self {
        let byte = |b: u8, length: usize| Self { length, buffer: [b, 0, 0, 0], says: 1 };
        match raw.get(1) {
            Some(b'n') => byte(b'\n', 2),
            Some(b'r') => byte(b'\r', 2),
            Some(b't') => byte(b'\t', 2),
            Some(b'b') => byte(8, 2),
            Some(b'f') => byte(12, 2),
            Some(b @ (b'"' | b'\\' | b'/')) => byte(*b, 2),
            Some(b'u') => Self::unicode(raw).unwrap_or(byte(b'\\', 1)),
            _ => byte(b'\\', 1),
        }
    }

    fn unicode(raw: &[u8]) -> Option<Self> {
        let first = u32::from(unit(raw)?);
        let second = raw.get(6..).and_then(unit).map(u32::from);
        let (code, length) = match second {
            Some(second) if (0xd800..0xdc00).contains(&first) && (0xdc00..0xe000).contains(&second) => {
                (0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00), 12)
            }
            _ => (first, 6),
        };
        let mut buffer = [0; 4];
        let says = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER).encode_utf8(&mut buffer).len();
        Some(Self { length, buffer, says })
    }

    fn says(&self) -> &[u8] {
        &self.buffer[..self.says]
    }
}

/// The unit of UTF-16 in `\uXXXX`.
fn unit(raw: &[u8]) -> Option<u16> {
    let digits = raw.strip_prefix(b"\\u")?.get(..4)?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Walks through the inside of a JSON string once, from the front.
pub struct Places<'a> {
    raw: &'a [u8],
    /// Bytes of what it says, and of the string itself, that lie behind.
    said: usize,
    at: usize,
}

impl<'a> Places<'a> {
    /// At its beginning.
    pub fn new(raw: &'a [u8]) -> Self {
        Self { raw, said: 0, at: 0 }
    }

    /// Where in the string the part lies that says this part. Parts must come in order.
    pub fn of(&mut self, part: &Range<usize>) -> Range<usize> {
        self.walk(part.start)..self.walk(part.end)
    }

    /// To the place of a byte of what it says.
    fn walk(&mut self, to: usize) -> usize {
        while self.said < to {
            let rest = &self.raw[self.at..];
            let plain = memchr(b'\\', rest).unwrap_or(rest.len());
            if self.said + plain >= to {
                self.at += to - self.said;
                self.said = to;
            } else {
                let escape = Escape::at(&rest[plain..]);
                self.at += plain + escape.length;
                self.said += plain + escape.says;
            }
        }
        self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_escape_says_what_json_says() {
        for raw in [r"a\n\t\r\b\f\/\\\u0041é", r"\u00e9x\ud83d\ude00y", "plain", r"\\n", ""] {
            let want: String = serde_json::from_str(&format!("\"{raw}\"")).expect("JSON");
            assert_eq!(&*unescape(raw.as_bytes()), want.as_bytes(), "{raw}");
        }
        assert_eq!(&*unescape(br"\ud83d!"), "\u{fffd}!".as_bytes());
        assert_eq!(&*unescape(br"\q\u12"), br"\q\u12");
    }

    #[test]
    fn a_place_is_found_behind_escapes() {
        let raw = r"a\nbc\u00e9d\ud83d\ude00e";
        let said = String::from_utf8(unescape(raw.as_bytes()).into_owned()).expect("text");
        let mut places = Places::new(raw.as_bytes());
        for (word, want) in [("bc", "bc"), ("d", "d"), ("e", "e")] {
            let at = said.rfind(word).expect("there");
            assert_eq!(&raw[places.of(&(at..at + word.len()))], want);
        }
    }
}
