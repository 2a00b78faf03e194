//! The message that is being streamed (R94).
//!
//! Owns its text up to the length of one line. Never joins two messages.

use crate::limits::LINE_BYTES_MAX;

/// The current message of a turn; the last one is the turn's result.
#[derive(Debug, Default)]
pub(super) struct Message {
    id: Option<Box<str>>,
    text: String,
    cut: bool,
}

impl Message {
    /// Takes a piece; tells whether a new message starts with it.
    pub fn add(&mut self, id: Option<&str>, piece: &str) -> bool {
        let starts = self.text.is_empty() || id.is_some_and(|id| self.id.as_deref() != Some(id));
        if starts {
            *self = Self { id: id.map(Into::into), ..Self::default() };
        }
        self.cut |= self.text.len() + piece.len() > LINE_BYTES_MAX;
        if !self.cut {
            self.text.push_str(piece);
        }
        starts
    }

    /// Whether it was longer than is kept; then it is no complete report (R101).
    pub fn was_cut(&self) -> bool {
        self.cut
    }

    pub fn into_text(self) -> String {
        self.text
    }
}
