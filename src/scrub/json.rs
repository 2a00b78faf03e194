//! Reads a line of JSON as a row of marks: where things open and close, and where strings are.
//!
//! Checks no more than it needs to tell JSON from other text; looks at no string's inside.

use std::ops::Range;

use memchr::memchr2;

/// What stands there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mark {
    /// An object or a list opens.
    Open {
        /// Whether it is a list.
        list: bool,
    },
    /// It closes.
    Close,
    /// The inside of a member's name.
    Name(Range<usize>),
    /// The inside of any other string.
    Text(Range<usize>),
    /// A number, `true`, `false` or `null`, or a part of one.
    Other,
    /// It is no JSON.
    Broken,
}

/// The marks of a line.
pub struct Marks<'a> {
    line: &'a [u8],
    at: usize,
}

impl<'a> Marks<'a> {
    /// From its beginning.
    pub fn new(line: &'a [u8]) -> Self {
        Self { line, at: 0 }
    }

    fn string(&mut self) -> Mark {
        let start = self.at;
        let Some(end) = closing_quote(self.line, start) else { return Mark::Broken };
        let blanks = self.line[end + 1..].iter().take_while(|b| b.is_ascii_whitespace()).count();
        self.at = end + 1 + blanks;
        match self.line.get(self.at) {
            Some(b':') => Mark::Name(start..end),
            _ => Mark::Text(start..end),
        }
    }
}

impl Iterator for Marks<'_> {
    type Item = Mark;

    fn next(&mut self) -> Option<Mark> {
        loop {
            let b = *self.line.get(self.at)?;
            self.at += 1;
            return Some(match b {
                b' ' | b'\t' | b'\r' | b'\n' | b',' | b':' => continue,
                b'{' | b'[' => Mark::Open { list: b == b'[' },
                b'}' | b']' => Mark::Close,
                b'"' => self.string(),
                b'0'..=b'9'
                | b'+'
                | b'-'
                | b'.'
                | b'E'
                | b'a'
                | b'e'
                | b'f'
                | b'l'
                | b'n'
                | b'r'
                | b's'
                | b't'
                | b'u' => Mark::Other,
                _ => Mark::Broken,
            });
        }
    }
}

/// Where the string closes whose inside begins there.
pub fn closing_quote(line: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    loop {
        at += memchr2(b'"', b'\\', line.get(at..)?)?;
        if line[at] == b'"' {
            return Some(at);
        }
        at += 2;
    }
}

/// Whether it may be JSON that is worth to be read as such.
pub fn is_structured(line: &[u8]) -> bool {
    matches!(line.trim_ascii_start().first(), Some(b'{' | b'[' | b'"'))
}
