//! Permission requests of the peer that nobody has answered: kept to be asked again (R41, R148). Pure.

use bytes::Bytes;

use crate::{id::Token, wire::Frame};

/// Open questions in the order they came.
#[derive(Debug, Default)]
pub struct Questions(Vec<(Token, Frame)>);

impl Questions {
    /// One is open from now on, in bytes of its own: its credit returns.
    pub fn note(&mut self, ours: Token, frame: &Frame) {
        if let Ok(copy) = Frame::parse(Bytes::copy_from_slice(frame.line())) {
            self.0.push((ours, copy));
        }
    }

    /// Forgets those for which this does not hold.
    pub fn keep(&mut self, is_open: impl Fn(Token) -> bool) {
        self.0.retain(|(ours, _)| is_open(*ours));
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = (Token, &Frame)> {
        self.0.iter().map(|(ours, frame)| (*ours, frame))
    }
}
