//! How far the bytes of a secret go, also over the end of what is there.

use memchr::memmem;

/// Bytes that a secret may consist of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Set {
    /// Letters, digits, `_` and `-`.
    Word,
    /// Capitals and digits.
    Upper,
    /// What `Authorization` takes, but for dots.
    Token68,
    /// A value without quotes.
    Bare,
    /// A value in quotes: which, and whether they are escaped.
    Quoted(u8, bool),
}

/// How a secret goes on behind the end of what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// With such bytes, and at most so many dots between them.
    Run(Set, u8),
    /// Until the mark that ends a block.
    Block,
}

/// Where a secret ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Behind its last byte.
    pub end: usize,
    /// How it goes on, when the end of the text is near enough to hide it.
    pub rest: Option<Rest>,
}

/// Longest mark that ends a block, and more.
pub const END_BYTES_MAX: usize = 64;

impl Set {
    /// Whether the byte is one of them.
    pub fn has(self, b: u8) -> bool {
        match self {
            Self::Word => b.is_ascii_alphanumeric() || b == b'_' || b == b'-',
            Self::Upper => b.is_ascii_uppercase() || b.is_ascii_digit(),
            Self::Token68 => {
                b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'~' | b'+' | b'/' | b'=')
            }
            Self::Bare => b.is_ascii_alphanumeric() || (b > b' ' && b != 0x7f && !ends_bare(b)),
            Self::Quoted(quote, escaped) => {
                b != quote && !b.is_ascii_whitespace() && !(escaped && b == b'\\')
            }
        }
    }
}

/// Whether no value without quotes goes on over this sign.
fn ends_bare(b: u8) -> bool {
    matches!(
        b,
        b'"' | b'\''
            | b'`'
            | b','
            | b';'
            | b'&'
            | b'|'
            | b'<'
            | b'>'
            | b'('
            | b')'
            | b'{'
            | b'}'
            | b'['
            | b']'
            | b'\\'
    )
}

impl Rest {
    /// Follows it from this byte.
    pub fn follow(self, bytes: &[u8], from: usize) -> Run {
        match self {
            Self::Run(set, dots) => run(bytes, from, set, dots),
            Self::Block => match block_end(bytes, from) {
                Some(end) => Run { end, rest: None },
                None => Run { end: bytes.len(), rest: Some(self) },
            },
        }
    }
}

/// A dot belongs to it when something follows: else it ends a sentence.
fn run(bytes: &[u8], from: usize, set: Set, dots: u8) -> Run {
    let end = from + bytes[from..].iter().take_while(|b| set.has(**b)).count();
    let rest = Some(Rest::Run(set, dots));
    match bytes[end..] {
        [] => Run { end, rest },
        [b'.'] if dots > 0 => Run { end, rest },
        [b'.', b, ..] if dots > 0 && set.has(b) => run(bytes, end + 1, set, dots - 1),
        _ => Run { end, rest: None },
    }
}

/// Behind the mark that ends a block.
fn block_end(bytes: &[u8], from: usize) -> Option<usize> {
    let word = |b: &u8| b.is_ascii_uppercase() || b.is_ascii_digit() || *b == b' ';
    memmem::find_iter(&bytes[from..], b"-----END ").find_map(|at| {
        let name = from + at + b"-----END ".len();
        let end = name + bytes[name..].iter().take(END_BYTES_MAX / 2).take_while(|b| word(b)).count();
        bytes[end..].starts_with(b"-----").then_some(end + 5)
    })
}
