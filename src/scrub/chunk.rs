//! Chunks of a message: which line is one, where its text lies, and to which message it belongs.
//!
//! The lines of one message mostly differ in their texts alone. So a message keeps what stands before and behind the
//! text of its last line; a line that has the same is a chunk of it, without being read.

use std::{ops::Range, sync::LazyLock};

use memchr::{memchr_iter, memmem::Finder};

use super::json::{Mark, Marks};

/// Path to the text.
const PATH: [&[u8]; 4] = [b"params", b"update", b"content", b"text"];

/// What each chunk has in its kind.
static CHUNK: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"_chunk\""));

/// A chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// Where the inside of its text lies.
    pub text: Range<usize>,
    session: &'a [u8],
    kind: &'a [u8],
    id: Option<&'a [u8]>,
}

impl<'a> Chunk<'a> {
    /// Reads a line; `None` when it is no chunk of text.
    pub fn read(line: &'a [u8]) -> Option<Self> {
        CHUNK.find(line)?;
        let mut reader = Reader::default();
        for mark in Marks::new(line) {
            reader.mark(mark, line)?;
        }
        let kind = reader.kind.filter(|kind| kind.ends_with(b"_chunk"))?;
        Some(Self { text: reader.text?, session: reader.session.unwrap_or_default(), kind, id: reader.id })
    }
}

/// What was read of a line so far.
#[derive(Default)]
struct Reader<'a> {
    depth: usize,
    /// How deep the path was followed.
    path: usize,
    name: &'a [u8],
    text: Option<Range<usize>>,
    session: Option<&'a [u8]>,
    kind: Option<&'a [u8]>,
    id: Option<&'a [u8]>,
}

impl<'a> Reader<'a> {
    fn mark(&mut self, mark: Mark, line: &'a [u8]) -> Option<()> {
        match mark {
            Mark::Open { list } => {
                let first = self.depth == 0 && !list;
                let next =
                    self.path > 0 && self.path == self.depth && PATH.get(self.depth - 1) == Some(&self.name);
                self.path += usize::from(first || (next && !list));
                self.depth += 1;
            }
            Mark::Close => {
                self.depth = self.depth.checked_sub(1)?;
                self.path = self.path.min(self.depth);
            }
            Mark::Name(name) => self.name = &line[name],
            Mark::Text(text) if self.path == self.depth => self.text(text, line)?,
            Mark::Text(_) | Mark::Other => {}
            Mark::Broken => return None,
        }
        Some(())
    }

    /// A member that stands twice makes the line none that could be understood.
    fn text(&mut self, text: Range<usize>, line: &'a [u8]) -> Option<()> {
        let place = match (self.depth, self.name) {
            (4, b"text") => return self.text.replace(text).is_none().then_some(()),
            (2, b"sessionId") => &mut self.session,
            (3, b"sessionUpdate") => &mut self.kind,
            (3, b"messageId" | b"compactionId") => &mut self.id,
            _ => return Some(()),
        };
        place.replace(&line[text]).is_none().then_some(())
    }
}

/// The message whose chunks come.
#[derive(Debug, Default)]
pub struct Message {
    session: Vec<u8>,
    kind: Vec<u8>,
    id: Option<Vec<u8>>,
    /// What stands before and behind the text of a line.
    around: Option<(Vec<u8>, Vec<u8>)>,
}

impl Message {
    /// The message of that chunk.
    pub fn of(chunk: &Chunk<'_>) -> Self {
        let id = chunk.id.map(<[u8]>::to_vec);
        Self { session: chunk.session.to_vec(), kind: chunk.kind.to_vec(), id, around: None }
    }

    /// Whether the chunk is one of this message. One without an id goes on with the message that is there (R94).
    pub fn continues(&self, chunk: &Chunk<'_>) -> bool {
        let same_id = chunk.id.is_none() || chunk.id == self.id.as_deref();
        self.kind == chunk.kind && self.session == chunk.session && same_id
    }

    /// Whether it has an id, by which it can go on behind other lines.
    pub fn is_named(&self) -> bool {
        self.id.is_some()
    }

    /// Takes a line for an example.
    pub fn learn(&mut self, line: &[u8], text: &Range<usize>) {
        let (before, behind) = self.around.get_or_insert_default();
        before.clear();
        before.extend_from_slice(&line[..text.start]);
        behind.clear();
        behind.extend_from_slice(&line[text.end..]);
    }

    /// Where the text lies of a line that differs in nothing else from the example.
    pub fn text(&self, line: &[u8]) -> Option<Range<usize>> {
        let (before, behind) = self.around.as_ref()?;
        let text = before.len()..line.len().checked_sub(behind.len())?;
        let same = text.start <= text.end && line.starts_with(before) && line.ends_with(behind);
        (same && is_inside(&line[text.clone()])).then_some(text)
    }
}

/// Whether no string ends in there, and no escape is cut off.
fn is_inside(text: &[u8]) -> bool {
    let even = |end: usize| text[..end].iter().rev().take_while(|b| **b == b'\\').count() % 2 == 0;
    memchr_iter(b'"', text).all(|quote| !even(quote)) && even(text.len())
}
