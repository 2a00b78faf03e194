//! Splits what was read into lines at LF alone, under a ceiling (R1, R9).
//!
//! A line longer than the ceiling is drained to its newline; its head, tail, id and method are kept while it
//! passes, so that nobody waits for an answer that was in it. The line after it is read normally.

use bytes::{Buf, Bytes, BytesMut};

use super::shallow::Shallow;
use crate::limits::{OVERLONG_KEPT_BYTES, READ_BYTES_MAX, READ_BYTES_MIN};

/// A line that was longer than the ceiling.
#[derive(Debug)]
pub struct Overlong {
    /// How long it was, without its newline.
    pub length: usize,
    /// Its first bytes.
    pub head: Vec<u8>,
    /// Its last bytes.
    pub tail: Vec<u8>,
    /// Its JSON-RPC id, as written.
    pub id: Option<Vec<u8>>,
    /// Its method, as written, quotes included.
    pub method: Option<Vec<u8>>,
}

/// What comes out of a wire.
#[derive(Debug)]
pub enum Line {
    /// A line without its newline, never blank.
    Whole(Bytes),
    /// A line over the ceiling.
    Overlong(Box<Overlong>),
}

/// Bytes in, lines out.
#[derive(Debug)]
pub struct Splitter {
    buffer: BytesMut,
    /// Bytes at the start of the buffer known to hold no newline.
    scanned: usize,
    ceiling: usize,
    draining: Option<Drain>,
    /// How much the next read is given room for: follows what the wire brings.
    room: usize,
}

#[derive(Debug, Default)]
struct Drain {
    length: usize,
    head: Vec<u8>,
    tail: Vec<u8>,
    scan: Shallow,
}

impl Splitter {
    /// For lines of at most that many bytes.
    pub fn new(ceiling: usize) -> Self {
        Self { buffer: BytesMut::new(), scanned: 0, ceiling, draining: None, room: READ_BYTES_MIN }
    }

    /// Where the next read goes. Empty buffers are not kept while nothing comes.
    pub fn buffer(&mut self) -> &mut BytesMut {
        self.buffer.reserve(self.room);
        &mut self.buffer
    }

    /// So much was read into it.
    pub fn filled(&mut self, read: usize) {
        if read >= self.room {
            self.room = (self.room * 2).min(READ_BYTES_MAX);
        } else if read < self.room / 4 {
            self.room = (self.room / 2).max(READ_BYTES_MIN);
        }
    }

    /// Gives the memory back while the wire is silent.
    pub fn rest(&mut self) {
        if self.buffer.is_empty() {
            self.buffer = BytesMut::new();
        }
    }

    /// Bytes of a line that is not complete yet.
    pub fn partial(&self) -> usize {
        self.buffer.len()
    }

    /// The next complete line.
    pub fn next_line(&mut self) -> Option<Line> {
        loop {
            let Some(end) = memchr::memchr(b'\n', &self.buffer[self.scanned..]) else {
                self.no_newline();
                return None;
            };
            let mut line = self.buffer.split_to(self.scanned + end + 1);
            line.truncate(line.len() - 1);
            self.scanned = 0;
            if let Some(line) = self.complete(line) {
                return Some(line);
            }
        }
    }

    /// What is left when the wire ends: one last line (R8).
    pub fn finish(&mut self) -> Option<Line> {
        self.scanned = 0;
        let rest = self.buffer.split();
        self.complete(rest)
    }

    fn no_newline(&mut self) {
        self.scanned = self.buffer.len();
        if self.draining.is_some() || self.buffer.len() > self.ceiling {
            let part = self.buffer.split();
            self.scanned = 0;
            self.draining.get_or_insert_default().take(&part);
        }
    }

    fn complete(&mut self, mut line: BytesMut) -> Option<Line> {
        if self.draining.is_some() || line.len() > self.ceiling {
            let mut drain = self.draining.take().unwrap_or_default();
            drain.take(&line);
            return Some(Line::Overlong(Box::new(drain.done())));
        }
        if line.starts_with(b"\xef\xbb\xbf") {
            line.advance(3);
        }
        if line.ends_with(b"\r") {
            line.truncate(line.len() - 1);
        }
        let blank = line.iter().all(u8::is_ascii_whitespace);
        (!blank).then(|| Line::Whole(line.freeze()))
    }
}

impl Drain {
    fn take(&mut self, part: &[u8]) {
        self.length += part.len();
        self.scan.feed(part);
        let room = OVERLONG_KEPT_BYTES - self.head.len();
        self.head.extend_from_slice(&part[..room.min(part.len())]);
        let last = &part[part.len().saturating_sub(OVERLONG_KEPT_BYTES)..];
        let surplus = (self.tail.len() + last.len()).saturating_sub(OVERLONG_KEPT_BYTES);
        self.tail.drain(..surplus.min(self.tail.len()));
        self.tail.extend_from_slice(last);
    }

    fn done(self) -> Overlong {
        Overlong {
            length: self.length,
            id: self.scan.id().map(<[u8]>::to_vec),
            method: self.scan.method().map(<[u8]>::to_vec),
            head: self.head,
            tail: self.tail,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(chunks: &[&[u8]], ceiling: usize) -> Vec<Line> {
        let mut s = Splitter::new(ceiling);
        let mut lines = Vec::new();
        for chunk in chunks {
            s.buffer().extend_from_slice(chunk);
            lines.extend(std::iter::from_fn(|| s.next_line()));
        }
        lines.extend(s.finish());
        lines
    }

    fn texts(lines: &[Line]) -> Vec<String> {
        let text = |l: &Line| match l {
            Line::Whole(b) => String::from_utf8_lossy(b).into_owned(),
            Line::Overlong(o) => format!("overlong {}", o.length),
        };
        lines.iter().map(text).collect()
    }

    /// R1, R7, R8: LF alone splits; blank lines are nothing; the last line needs no newline.
    #[test]
    fn splits_at_newlines_only() {
        let lines = split(&[b"\xef\xbb\xbfa\xe2\x80\xa8b\r\n\n  \r\nc", b"d\n", b"e"], 100);
        assert_eq!(texts(&lines), ["a\u{2028}b", "cd", "e"]);
    }

    /// R9: a line at the ceiling passes, one byte more does not, and the next one is read normally.
    #[test]
    fn an_overlong_line_is_drained_and_the_next_one_read() {
        let lines = split(&[b"1234567890\n", b"12345678901\nok\n", b"123456", b"78901", b"2345\nok\n"], 10);
        assert_eq!(texts(&lines), ["1234567890", "overlong 11", "ok", "overlong 15", "ok"]);
        let long = format!("{{\"id\":5,\"method\":\"m\",\"x\":\"{}\"}}", "y".repeat(20_000));
        let chunks: Vec<&[u8]> = long.as_bytes().chunks(1_000).collect();
        let Some(Line::Overlong(o)) = split(&chunks, 2_000).pop() else { panic!("not over-long") };
        assert_eq!((o.id.as_deref(), o.length), (Some(&b"5"[..]), long.len()));
        assert!(
            o.head.starts_with(b"{\"id\"")
                && o.tail.ends_with(b"y\"}")
                && o.tail.len() == OVERLONG_KEPT_BYTES
        );
    }
}
