//! A buffer that takes what a descriptor has and gives back whole lines only.
//!
//! Holds one unfinished line and one read at most. Never looks inside a line.

use std::io::{self, Read};

/// Bytes on their way through.
pub(super) struct Lines {
    bytes: Vec<u8>,
    filled: usize,
    /// End of the last whole line; what lies behind it has no newline.
    whole: usize,
    read: usize,
    line_max: usize,
}

/// What a read brought.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Filled {
    /// Perhaps whole lines.
    Some,
    /// The other end is done; what is left has no newline.
    End,
    /// The unfinished line is over the ceiling.
    Overlong,
}

impl Lines {
    /// Takes up to `read` bytes at once and lines of up to `line_max`.
    pub(super) fn new(read: usize, line_max: usize) -> Self {
        Self { bytes: vec![0; read], filled: 0, whole: 0, read, line_max }
    }

    /// Reads once. The whole lines of the last time must have been taken.
    pub(super) fn fill(&mut self, from: &mut impl Read) -> io::Result<Filled> {
        if self.filled > self.line_max {
            return Ok(Filled::Overlong);
        }
        if self.filled == self.bytes.len() {
            // doubling keeps the copying of a long line linear
            self.bytes.resize((self.bytes.len() * 2).min(self.line_max + self.read), 0);
        }
        let count = match from.read(&mut self.bytes[self.filled..])? {
            0 => return Ok(Filled::End),
            count => count,
        };
        let new = self.filled..self.filled + count;
        self.filled = new.end;
        if let Some(newline) = memchr::memrchr(b'\n', &self.bytes[new.clone()]) {
            self.whole = new.start + newline + 1;
        }
        Ok(Filled::Some)
    }

    /// The whole lines that are there.
    pub(super) fn whole(&self) -> &[u8] {
        &self.bytes[..self.whole]
    }

    /// Everything, the unfinished line too.
    pub(super) fn all(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }

    /// Forgets the whole lines.
    pub(super) fn take_whole(&mut self) {
        let rest = self.filled - self.whole;
        self.bytes.copy_within(self.whole..self.filled, 0);
        self.filled = rest;
        self.whole = 0;
        self.shrink();
    }

    /// Forgets everything.
    pub(super) fn take_all(&mut self) {
        self.filled = 0;
        self.whole = 0;
        self.shrink();
    }

    fn shrink(&mut self) {
        if self.bytes.len() > self.read && self.filled < self.read {
            self.bytes.truncate(self.read);
            self.bytes.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_lines_come_out() {
        let mut lines = Lines::new(8, 64);
        let mut from: &[u8] = b"one\ntwo\nthree\nrest";
        let mut out = Vec::new();
        while lines.fill(&mut from).unwrap() == Filled::Some {
            out.extend_from_slice(lines.whole());
            lines.take_whole();
        }
        assert_eq!(out, b"one\ntwo\nthree\n");
        assert_eq!(lines.all(), b"rest");
    }

    #[test]
    fn a_long_line_grows_the_buffer_and_its_end_shrinks_it() {
        let mut lines = Lines::new(8, 1 << 20);
        let line = [vec![b'x'; 100_000], vec![b'\n']].concat();
        let mut from = &line[..];
        while lines.whole().is_empty() {
            assert_eq!(lines.fill(&mut from).unwrap(), Filled::Some);
        }
        assert_eq!(lines.whole(), line);
        lines.take_whole();
        assert_eq!(lines.bytes.capacity(), 8);
    }

    #[test]
    fn a_line_over_the_ceiling_is_not_gathered_further() {
        let mut lines = Lines::new(8, 32);
        let mut endless = io::repeat(b'x');
        while lines.fill(&mut endless).unwrap() == Filled::Some {}
        assert_eq!(lines.fill(&mut endless).unwrap(), Filled::Overlong);
        assert!(lines.all().len() <= 64);
    }
}
