//! Blocks of private keys: `-----BEGIN … PRIVATE KEY-----` up to its end, or to the end of the text.

use std::ops::Range;

use super::{
    run::Rest,
    view::{Edge, Step, Verdict, View},
};

const DASHES: usize = 5;
/// Longest kind of key, blanks included.
const KIND_BYTES_MAX: usize = 48;
/// Most bytes between a beginning that is in the midst of a line and the first word of the key.
const GAP_BYTES_MAX: usize = 16;
/// Words of prose are shorter.
const WORD_BYTES_MIN: usize = 16;

/// A block from its beginning.
pub fn judge(view: &View<'_>, anchor: Range<usize>) -> Verdict {
    let start = anchor.start;
    match body(view, anchor.end) {
        Ok(Some(body)) => {
            let run = Rest::Block.follow(view.bytes, body);
            Verdict::Secret(start..run.end, run.rest)
        }
        Ok(None) | Err(Verdict::No) => Verdict::No,
        Err(_) => Verdict::Wait(start),
    }
}

/// Where the body begins. In the midst of a line, the beginning of a block is mostly but spoken of.
fn body(view: &View<'_>, from: usize) -> Step<Option<usize>> {
    let kind = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b' ';
    let end = view.skip(from, KIND_BYTES_MAX, kind)?;
    let header = view.skip(end, DASHES, |b| b == b'-');
    let name = &view.bytes[from..end];
    let private = name.ends_with(b"PRIVATE KEY") || name.ends_with(b"PRIVATE KEY BLOCK");
    if !private || header.as_ref().is_ok_and(|header| *header < end + DASHES) {
        return Ok(None);
    }
    let header = header?;
    let line_ends = match view.bytes[header] {
        b'\\' => matches!(view.peek(view.skip(header, GAP_BYTES_MAX, |b| b == b'\\')?)?, b'n' | b'r'),
        b => b == b'\n' || b == b'\r',
    };
    Ok((line_ends || word_follows(view, header)?).then_some(header))
}

fn word_follows(view: &View<'_>, from: usize) -> Step<bool> {
    let start = view.skip(from, GAP_BYTES_MAX, |b| !b.is_ascii_alphanumeric())?;
    let base64 = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=');
    match view.skip(start, WORD_BYTES_MIN, base64) {
        Ok(end) => Ok(end - start == WORD_BYTES_MIN),
        Err(_) if view.edge == Edge::Cut || view.bytes.len() - start >= WORD_BYTES_MIN => Ok(true),
        Err(early) => Err(early),
    }
}
