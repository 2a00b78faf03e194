//! A text as it is judged: its bytes, where looking back ends, and what its end means.

use std::ops::Range;

use super::run::Rest;

/// What the end of a text means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// More of it comes: what is undecided waits.
    More,
    /// More may come, but nothing waits any longer: what looks like the beginning of a secret is one.
    Cut,
    /// It is all there.
    End,
}

/// What an anchor turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing.
    No,
    /// A secret; how it goes on when it reaches the end of the text.
    Secret(Range<usize>, Option<Rest>),
    /// What begins there may become a secret.
    Wait(usize),
    /// A secret may follow; nothing of it is here yet.
    Ahead,
}

/// A step on the way to a verdict; `Err` is the verdict when it comes early.
pub type Step<T> = Result<T, Verdict>;

/// A text and where one stands in it.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The text.
    pub bytes: &'a [u8],
    /// Nothing before this byte is looked at.
    pub floor: usize,
    /// What its end means.
    pub edge: Edge,
}

/// Most blanks between a name and its value.
const BLANKS_MAX: usize = 8;
/// Most backslashes before a quote: three levels of JSON in JSON.
const SLASHES_MAX: usize = 7;
/// Longest name.
const NAME_BYTES_MAX: usize = 64;

impl View<'_> {
    /// The byte there. At the end there may be more.
    pub fn peek(&self, at: usize) -> Step<u8> {
        self.bytes.get(at).copied().ok_or(if self.edge == Edge::More { Verdict::Ahead } else { Verdict::No })
    }

    /// Behind the bytes that are like this, at most `max` of them; it must be seen where they end.
    pub fn skip(&self, from: usize, max: usize, like: impl Fn(u8) -> bool) -> Step<usize> {
        let mut at = from;
        while at - from < max && like(self.peek(at)?) {
            at += 1;
        }
        self.peek(at).map(|_| at)
    }

    /// Behind blanks.
    pub fn skip_blanks(&self, from: usize) -> Step<usize> {
        self.skip(from, BLANKS_MAX, |b| b == b' ' || b == b'\t')
    }

    /// A quote there, perhaps escaped: how many backslashes, and which.
    pub fn quote(&self, from: usize) -> Step<Option<(usize, u8)>> {
        let at = self.skip(from, SLASHES_MAX, |b| b == b'\\')?;
        let quote = self.bytes[at];
        Ok(matches!(quote, b'"' | b'\'' | b'`').then_some((at - from, quote)))
    }

    /// Where the name begins that ends there.
    pub fn name_start(&self, end: usize) -> usize {
        let part = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'$');
        let lowest = end.saturating_sub(NAME_BYTES_MAX).max(self.floor);
        let length = self.bytes[lowest..end].iter().rev().take_while(|b| part(b)).count();
        let start = end - length;
        // The letter of an escape such as \n is none of the name.
        let escape = matches!(
            self.bytes[self.floor..end].get(..start - self.floor + 1),
            Some([.., b'\\', b'n' | b'r' | b't'])
        );
        start + usize::from(escape)
    }

    /// Whether a word may begin there.
    pub fn boundary(&self, at: usize) -> bool {
        match &self.bytes[self.floor..at] {
            [.., b'\\', b'n' | b'r' | b't'] | [] => true,
            [.., b'\\', b'u', a, b, c, d] if [a, b, c, d].iter().all(|b| b.is_ascii_hexdigit()) => true,
            [.., b'%', a, b] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => true,
            [before @ .., b'm'] => is_colour(before),
            [.., last] => !last.is_ascii_alphanumeric(),
        }
    }
}

/// Whether a terminal's change of colour ends there, but for its `m`.
fn is_colour(before: &[u8]) -> bool {
    let digits = before.iter().rev().take_while(|b| b.is_ascii_digit() || **b == b';').count();
    before[..before.len() - digits].ends_with(b"[")
}
