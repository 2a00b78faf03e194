//! The seam of two texts: whether something begins in one that only the next can finish.

use super::{
    anchor::{self, ANCHOR_BYTES_MAX},
    view::{Edge, View},
};

/// So much of a text's beginning and end is looked at.
const SIDE_BYTES: usize = 2 * ANCHOR_BYTES_MAX;

/// The end of a text with what follows it.
pub struct Seam {
    bytes: [u8; ANCHOR_BYTES_MAX + SIDE_BYTES],
    /// Where the following text begins, and where it ends.
    middle: usize,
    end: usize,
    /// Whether the following text is longer than what is here of it.
    cut: bool,
    tail: [u8; SIDE_BYTES],
}

impl Seam {
    /// Of a text that left and a string of JSON that may follow it.
    pub fn of(before: &[u8], raw: &[u8]) -> Self {
        let before = &before[before.len().saturating_sub(ANCHOR_BYTES_MAX)..];
        let (middle, side) = (before.len(), raw.len().min(SIDE_BYTES));
        let mut seam = Self {
            bytes: [0; ANCHOR_BYTES_MAX + SIDE_BYTES],
            middle,
            end: middle + side,
            cut: raw.len() > side,
            tail: [0; SIDE_BYTES],
        };
        seam.bytes[..middle].copy_from_slice(before);
        seam.bytes[middle..seam.end].copy_from_slice(&raw[..side]);
        seam.tail[..side].copy_from_slice(&raw[raw.len() - side..]);
        seam
    }

    /// Whether nothing lies over the seam, and nothing begins that may become a secret. May say no without need, never
    /// yes: escapes are not read.
    pub fn is_calm(&self) -> bool {
        let tail = if self.cut { &self.tail } else { &self.bytes[..self.end] };
        !self.is_crossed() && !ends_in_prefix(tail)
    }

    fn is_crossed(&self) -> bool {
        let (bytes, mut at) = (&self.bytes[..self.end], 0);
        while let Some((place, _)) = anchor::find(bytes, at) {
            if place.end > self.middle {
                return true;
            }
            at = place.start + 1;
        }
        false
    }
}

fn ends_in_prefix(tail: &[u8]) -> bool {
    let view = View { bytes: tail, floor: 0, edge: Edge::More };
    anchor::unfinished(&view).is_some() || (tail.contains(&b'\\') && anchor::unfinished_anywhere(tail))
}
