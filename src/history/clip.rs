//! Text that grows without end, of which head and tail are kept. Pure.
//!
//! Text is meant as it stands between the quotes of a JSON string ([`super::literal`]).

use super::literal;

/// Head and tail of a text.
#[derive(Debug, Clone)]
pub(super) struct Clip {
    max: usize,
    head: String,
    tail: String,
    head_is_full: bool,
    left_out: usize,
}

impl Clip {
    /// Keeps at most that many bytes when it is read, and less than twice as many meanwhile.
    pub fn new(max: usize) -> Self {
        Self { max, head: String::new(), tail: String::new(), head_is_full: false, left_out: 0 }
    }

    /// Adds a piece.
    pub fn push(&mut self, mut body: &str) {
        if !self.head_is_full {
            let at = literal::floor(body, literal::head_of(self.max) - self.head.len());
            self.head.push_str(&body[..at]);
            self.head_is_full = at < body.len();
            body = &body[at..];
        }
        // A piece that is longer than all that is kept needs no copy of what will be left out.
        let skipped = literal::ceil(body, body.len().saturating_sub(self.tail_max()));
        if skipped > 0 {
            self.left_out += literal::length(&self.tail) + literal::length(&body[..skipped]);
            self.tail.clear();
        }
        self.tail.push_str(&body[skipped..]);
        if self.tail.len() > 2 * self.tail_max() {
            self.trim();
        }
    }

    /// Bytes that it takes now.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// What is kept, with a note between head and tail where something is left out.
    pub fn text(&self) -> String {
        let mut kept = self.clone();
        kept.trim();
        let note = if kept.left_out > 0 { literal::note(kept.left_out) } else { String::new() };
        [kept.head, note, kept.tail].concat()
    }

    fn tail_max(&self) -> usize {
        self.max - self.head.len()
    }

    fn trim(&mut self) {
        let at = literal::ceil(&self.tail, self.tail.len().saturating_sub(self.tail_max()));
        self.left_out += literal::length(&self.tail[..at]);
        self.tail.drain(..at);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_short_text_is_whole() {
        let mut clip = Clip::new(30);
        ["one ", "two ", r"three\n", "four"].iter().for_each(|piece| clip.push(piece));
        assert_eq!(clip.text(), r"one two three\nfour");
    }

    proptest! {
        /// R281: head and tail are the text's own, the note counts what is missing, and memory is bounded.
        #[test]
        fn head_and_tail_are_kept(pieces in prop::collection::vec("[a-z\\nä🦀\"]{0,40}", 0..30), max in 12_usize..60) {
            let mut clip = Clip::new(max);
            let whole: String = pieces.iter().map(|piece| literal::of(piece)).collect();
            for piece in &pieces {
                clip.push(&literal::of(piece));
                prop_assert!(clip.bytes() <= 2 * max);
            }
            let text = clip.text();
            if whole.len() <= max {
                prop_assert_eq!(text, whole);
            } else if let Some((head, rest)) = text.split_once("\\n[… ") {
                let (count, tail) = rest.split_once(" bytes are left out here …]\\n").unwrap();
                prop_assert!(whole.starts_with(head) && whole.ends_with(tail));
                let left_out: usize = count.parse().unwrap();
                prop_assert_eq!(literal::length(head) + left_out + literal::length(tail), literal::length(&whole));
            } else {
                prop_assert_eq!(text, whole);
            }
        }
    }
}
