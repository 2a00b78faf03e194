//! Lines on their way out: the bytes they came in, with the ids of the wire they leave by (R12).
//!
//! Small lines are copied next to each other, so that a batch leaves as one piece; a large line is not copied but
//! leaves as slices of the buffer it was read into.

use bytes::{Bytes, BytesMut};
use smallvec::SmallVec;

use super::frame::{Frame, Span};

/// From this size on a line is sliced instead of copied.
const SLICED_FROM_BYTES: usize = 16 << 10;

/// Pieces ready for one vectored write.
pub type Segments = SmallVec<[Bytes; 2]>;

/// What is spliced into a line.
#[derive(Debug, Clone, Copy, Default)]
pub struct Splice<'a> {
    /// Instead of the JSON-RPC id, as written.
    pub id: Option<&'a [u8]>,
    /// Instead of every session id, as written, quotes included.
    pub session: Option<&'a [u8]>,
    /// Instead of `params.requestId`, as written.
    pub request_id: Option<&'a [u8]>,
}

/// Collects lines into segments.
#[derive(Default)]
pub struct Outgoing {
    segments: Segments,
    open: BytesMut,
    lines: usize,
}

impl Outgoing {
    /// Room for about that many bytes of small lines.
    pub fn with_capacity(bytes: usize) -> Self {
        Self { open: BytesMut::with_capacity(bytes), ..Self::default() }
    }

    /// How many lines are in.
    pub fn lines(&self) -> usize {
        self.lines
    }

    /// Adds one line with other ids, and its newline.
    pub fn push(&mut self, frame: &Frame, splice: Splice<'_>) {
        let (id, sessions, request_id, separators) = frame.spans();
        let mut cuts: SmallVec<[(Span, &[u8]); 4]> = SmallVec::new();
        let mut cut = |span: Option<Span>, new| cuts.extend(span.zip(new));
        cut(id, splice.id);
        cut(request_id, splice.request_id);
        sessions.iter().for_each(|s| cut(Some(*s), splice.session));
        cuts.sort_unstable_by_key(|(span, _)| span.range().start);
        let mut from = 0;
        for (span, new) in cuts {
            self.piece(frame.line(), from..span.range().start, separators);
            self.open.extend_from_slice(new);
            from = span.range().end;
        }
        self.piece(frame.line(), from..frame.line().len(), separators);
        self.open.extend_from_slice(b"\n");
        self.lines += 1;
    }

    /// Everything, ready to be written.
    pub fn finish(mut self) -> Segments {
        self.seal();
        self.segments
    }

    fn piece(&mut self, line: &Bytes, range: std::ops::Range<usize>, separators: bool) {
        if separators {
            escape_separators(&line[range], &mut self.open);
        } else if range.len() < SLICED_FROM_BYTES {
            self.open.extend_from_slice(&line[range]);
        } else {
            self.seal();
            self.segments.push(line.slice(range));
        }
    }

    fn seal(&mut self) {
        if !self.open.is_empty() {
            self.segments.push(self.open.split().freeze());
        }
    }
}

/// Writes raw U+2028 and U+2029 escaped: readers that split lines there would hang (R12).
fn escape_separators(text: &[u8], out: &mut BytesMut) {
    let mut from = 0;
    for at in memchr::memmem::find_iter(text, b"\xe2\x80") {
        let escaped: &[u8] = match text.get(at + 2) {
            Some(0xa8) => b"\\u2028",
            Some(0xa9) => b"\\u2029",
            _ => continue,
        };
        out.extend_from_slice(&text[from..at]);
        out.extend_from_slice(escaped);
        from = at + 3;
    }
    out.extend_from_slice(&text[from..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn out(line: &str, splice: Splice<'_>) -> String {
        let frame = Frame::parse(Bytes::copy_from_slice(line.as_bytes())).expect("JSON");
        let mut o = Outgoing::default();
        o.push(&frame, splice);
        String::from_utf8(o.finish().concat()).expect("UTF-8")
    }

    /// R12: all bytes but the ids stay.
    #[test]
    fn only_ids_change() {
        let line = r#"{ "params" : {"x":1e400, "sessionId":"peer","n":9223372036854775807,"e":"\u00e4"},"id" : 7 ,"method":"a"}"#;
        let s = Splice { id: Some(b"\"h\""), session: Some(b"\"ours\""), request_id: None };
        let want = line.replace("\"peer\"", "\"ours\"").replace(": 7 ,", ": \"h\" ,") + "\n";
        assert_eq!(out(line, s), want);
    }

    /// R12: line separators leave escaped, their neighbours do not.
    #[test]
    fn raw_separators_leave_escaped() {
        let line = "{\"method\":\"x\",\"params\":{\"t\":\"a\u{2028}b\u{2029}c\u{2027}d\u{20ac}\"}}";
        let want = "{\"method\":\"x\",\"params\":{\"t\":\"a\\u2028b\\u2029c\u{2027}d\u{20ac}\"}}\n";
        assert_eq!(out(line, Splice::default()), want);
    }

    /// R111: a large line is not copied.
    #[test]
    fn a_large_line_is_sliced() {
        let line = Bytes::from(format!(r#"{{"id":1,"method":"{}"}}"#, "x".repeat(SLICED_FROM_BYTES)));
        let frame = Frame::parse(line.clone()).expect("JSON");
        let mut o = Outgoing::default();
        o.push(&frame, Splice { id: Some(b"22"), ..Splice::default() });
        let segments = o.finish();
        assert!(segments.iter().any(|s| line.as_ptr_range().contains(&s.as_ptr())));
        assert_eq!(segments.concat(), [&line[..6], b"22", &line[7..], b"\n"].concat());
    }
}
