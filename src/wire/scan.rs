//! Walks over JSON without taking it apart: where values begin and end, and whether they are JSON at all.
//!
//! Most of a line is text that nobody here reads, so text is skipped many bytes at a time. Depth costs one bit; there
//! is no recursion. Accepts exactly what serde_json accepts; a test holds the two together.

use std::ops::Range;

/// The text is no JSON from here on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken;

/// How many bytes of text are looked at together.
const STRIDE: usize = 32;

/// A place in a JSON text.
#[derive(Debug, Clone, Copy)]
pub struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    /// At the beginning of a text that is valid UTF-8.
    pub fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// At a place inside it.
    pub fn from(text: &'a [u8], at: usize) -> Self {
        Self { text, at }
    }

    /// The next byte that is no white space.
    pub fn peek(&mut self) -> Option<u8> {
        while matches!(self.text.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    /// Nothing but white space is left.
    pub fn end(&mut self) -> Result<(), Broken> {
        self.peek().map_or(Ok(()), |_| Err(Broken))
    }

    /// Calls for every member of an object: with its name as written, without quotes, at its value. What is called
    /// goes behind the value.
    pub fn object(
        &mut self,
        mut member: impl FnMut(&[u8], &mut Self) -> Result<(), Broken>,
    ) -> Result<(), Broken> {
        self.expect(b'{')?;
        if self.take_if(b'}') {
            return Ok(());
        }
        loop {
            let name = self.string()?;
            self.expect(b':')?;
            member(&self.text[name.start + 1..name.end - 1], self)?;
            if self.take_if(b'}') {
                return Ok(());
            }
            self.expect(b',')?;
        }
    }

    /// Calls for every element of an array, at its place; what is called goes behind it.
    pub fn array(&mut self, mut element: impl FnMut(&mut Self) -> Result<(), Broken>) -> Result<(), Broken> {
        self.expect(b'[')?;
        if self.take_if(b']') {
            return Ok(());
        }
        loop {
            element(self)?;
            if self.take_if(b']') {
                return Ok(());
            }
            self.expect(b',')?;
        }
    }

    /// Goes behind the next value; where it stands.
    pub fn value(&mut self) -> Result<Range<usize>, Broken> {
        self.peek();
        let start = self.at;
        let mut open = Nesting::default();
        loop {
            match self.peek() {
                Some(b'{') => {
                    self.at += 1;
                    if !self.take_if(b'}') {
                        open.push(true);
                        self.name()?;
                        continue;
                    }
                }
                Some(b'[') => {
                    self.at += 1;
                    if !self.take_if(b']') {
                        open.push(false);
                        continue;
                    }
                }
                _ => self.scalar()?,
            }
            if self.close(&mut open)? {
                return Ok(start..self.at);
            }
        }
    }

    /// Behind a value: closes what ends with it. Whether nothing is open any more; else the next value follows.
    fn close(&mut self, open: &mut Nesting) -> Result<bool, Broken> {
        while let Some(is_object) = open.innermost() {
            if self.take_if(b',') {
                if is_object {
                    self.name()?;
                }
                return Ok(false);
            }
            self.expect(if is_object { b'}' } else { b']' })?;
            open.pop();
        }
        Ok(true)
    }

    fn name(&mut self) -> Result<(), Broken> {
        self.string()?;
        self.expect(b':')
    }

    fn scalar(&mut self) -> Result<(), Broken> {
        match self.peek() {
            Some(b'"') => self.string().map(drop),
            Some(b't') => self.word(b"true"),
            Some(b'f') => self.word(b"false"),
            Some(b'n') => self.word(b"null"),
            _ => self.number(),
        }
    }

    fn word(&mut self, word: &[u8]) -> Result<(), Broken> {
        if !self.text[self.at..].starts_with(word) {
            return Err(Broken);
        }
        self.at += word.len();
        Ok(())
    }

    fn number(&mut self) -> Result<(), Broken> {
        self.take(b"-");
        match self.text.get(self.at) {
            Some(b'0') => self.at += 1,
            _ => self.digits()?,
        }
        if self.take(b".") {
            self.digits()?;
        }
        if self.take(b"eE") {
            self.take(b"+-");
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Broken> {
        let count = self.text[self.at..].iter().take_while(|b| b.is_ascii_digit()).count();
        self.at += count;
        if count == 0 { Err(Broken) } else { Ok(()) }
    }

    /// Goes behind the next string; where it stands, quotes included.
    fn string(&mut self) -> Result<Range<usize>, Broken> {
        self.expect(b'"')?;
        let start = self.at - 1;
        loop {
            self.plain_text();
            match self.text.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(start..self.at);
                }
                Some(b'\\') => self.escape()?,
                _ => return Err(Broken),
            }
        }
    }

    /// Goes to the next byte of a string that is not plain text: a quote, a backslash, a control character.
    fn plain_text(&mut self) {
        let special = |b: u8| b == b'"' || b == b'\\' || b < 0x20;
        let rest = &self.text[self.at..];
        // Without a branch per byte, so that the compiler looks at a whole stride at once.
        let plain = |stride: &&[u8]| !stride.iter().fold(false, |any, b| any | special(*b));
        let strides = rest.chunks_exact(STRIDE).take_while(plain).count();
        self.at += strides * STRIDE;
        self.at += self.text[self.at..].iter().take_while(|b| !special(**b)).count();
    }

    fn escape(&mut self) -> Result<(), Broken> {
        let hex = |four: &[u8]| four.iter().all(u8::is_ascii_hexdigit);
        match self.text.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') if self.text.get(self.at + 2..self.at + 6).is_some_and(hex) => self.at += 6,
            _ => return Err(Broken),
        }
        Ok(())
    }

    fn expect(&mut self, byte: u8) -> Result<(), Broken> {
        if self.take_if(byte) { Ok(()) } else { Err(Broken) }
    }

    fn take_if(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    fn take(&mut self, any: &[u8]) -> bool {
        let there = self.text.get(self.at).is_some_and(|b| any.contains(b));
        self.at += usize::from(there);
        there
    }
}

/// Which objects and arrays are open: a bit each.
#[derive(Debug, Default)]
struct Nesting {
    /// The innermost 64; a set bit is an object.
    near: u64,
    far: Vec<u64>,
    depth: usize,
}

impl Nesting {
    fn push(&mut self, is_object: bool) {
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.far.push(self.near);
        }
        self.near = self.near << 1 | u64::from(is_object);
        self.depth += 1;
    }

    fn pop(&mut self) {
        self.depth -= 1;
        self.near >>= 1;
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.near = self.far.pop().unwrap_or_default();
        }
    }

    fn innermost(&self) -> Option<bool> {
        (self.depth > 0).then_some(self.near & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::de::IgnoredAny;

    use super::*;

    fn accepts(text: &str) -> bool {
        let mut scanner = Scanner::new(text.as_bytes());
        scanner.value().and_then(|_| scanner.end()).is_ok()
    }

    fn serde_accepts(text: &str) -> bool {
        serde_json::from_str::<IgnoredAny>(text).is_ok()
    }

    #[test]
    fn known_corners_are_judged_as_serde_json_judges_them() {
        let long = format!("\"{}\\u00e4{}\"", "x".repeat(70), "ä".repeat(40));
        for text in [
            "",
            " ",
            "{}",
            "[]",
            "[1,]",
            "{,}",
            "{\"a\":1,}",
            "{\"a\" : [ ] }",
            "01",
            "-0",
            "-",
            "1.",
            "1.5e+3",
            "1e",
            "1e400",
            "tru",
            "true",
            "nul",
            "null x",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\\ud800\"",
            "\"a\tb\"",
            "\"",
            "\u{7f}",
            "[[[[]]]]",
            "[{\"a\":[{}]}]",
            "{\"a\":{\"b\":{}},\"c\":[]}",
            "[1 2]",
            "{\"a\" 1}",
            "{1:2}",
            "]",
            "}",
            &long,
        ] {
            assert_eq!(accepts(text), serde_accepts(text), "{text:?}");
        }
    }

    #[test]
    fn depth_of_any_measure_closes_where_it_opened() {
        for depth in [1, 63, 64, 65, 127, 128, 129, 1_000, 10_000] {
            let open: String = (0..depth).map(|n| if n % 3 == 0 { "{\"k\":" } else { "[" }).collect();
            let close: String = (0..depth).rev().map(|n| if n % 3 == 0 { "}" } else { "]" }).collect();
            assert!(accepts(&format!("{open}1{close}")), "{depth}");
            assert!(!accepts(&format!("{open}1{}", close.replacen(']', "}", 1))) || depth < 2, "{depth}");
        }
    }

    proptest! {
        /// R6: what is a line of JSON is not a matter of who looks.
        #[test]
        fn accepts_what_serde_json_accepts(tokens in prop::collection::vec(prop::sample::select(vec![
            "{", "}", "[", "]", ",", ":", "\"a\"", "\"\\n\"", "\"\\u00fF\"", "\"", "\\", "1", "-1.5e3", "0", "true",
            "null", " ", "\n", "ä", "\"ä\"", "x",
        ]), 0..12)) {
            let text = tokens.concat();
            prop_assert_eq!(accepts(&text), serde_accepts(&text), "{:?}", text);
        }

        /// Whatever serde_json prints is walked over, and ends where it ends.
        #[test]
        fn walks_over_what_serde_json_prints(text in ".{0,80}", number in any::<f64>(), deep in 0usize..70) {
            let mut value = serde_json::json!({ "t": text, "n": number, "l": [null, true, { "x": [] }] });
            for _ in 0..deep {
                value = serde_json::json!([value, { "k": 1 }]);
            }
            let printed = serde_json::to_string(&value).unwrap();
            let mut scanner = Scanner::new(printed.as_bytes());
            prop_assert_eq!(scanner.value(), Ok(0..printed.len()));
        }
    }
}
