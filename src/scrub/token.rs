//! Tokens that tell themselves by their prefix.

use std::ops::Range;

use super::{
    run::{Rest, Set},
    view::{Edge, Step, Verdict, View},
};

/// Behind these words of `sk-` a few bytes are enough.
const FAMILIES: &[&[u8]] = &[b"ant-", b"proj-", b"or-v1-", b"svcacct-"];

/// A prefix and a random word.
pub fn prefixed(view: &View<'_>, anchor: Range<usize>) -> Verdict {
    // Those of GitHub's apps may hold a JWT.
    let dots = if view.bytes[anchor.start..].starts_with(b"gh") { 2 } else { 0 };
    let known = |body: &[u8]| FAMILIES.iter().any(|f| body.len() >= f.len() + 8 && body.starts_with(f));
    decide(view, anchor.start, anchor.end, Rest::Run(Set::Word, dots), |body| known(body) || is_random(body))
}

/// `xox`, a letter, a dash and numbers.
pub fn slack(view: &View<'_>, anchor: Range<usize>) -> Verdict {
    let sure = |body: &[u8]| match body {
        [letter, b'-', rest @ ..] => {
            letter.is_ascii_lowercase() && rest.len() >= 10 && rest.iter().any(u8::is_ascii_digit)
        }
        _ => false,
    };
    decide(view, anchor.start, anchor.end, Rest::Run(Set::Word, 0), sure)
}

/// `AKIA` and sixteen capitals or digits.
pub fn aws(view: &View<'_>, anchor: Range<usize>) -> Verdict {
    decide(view, anchor.start, anchor.end, Rest::Run(Set::Upper, 0), |body| body.len() >= 16)
}

/// `eyJ….eyJ….…`. A first part alone may be any base64, unless so much of it came that nothing else is likely.
pub fn jwt(view: &View<'_>, anchor: Range<usize>) -> Verdict {
    let (start, rest) = (anchor.start, Rest::Run(Set::Word, 2));
    let header = Rest::Run(Set::Word, 0).follow(view.bytes, start);
    let behind = &view.bytes[header.end..];
    let joint = b".eyJ";
    if !view.boundary(start) || (header.end - start < 10 && header.rest.is_none()) {
        Verdict::No
    } else if behind.starts_with(joint) {
        let run = rest.follow(view.bytes, start);
        Verdict::Secret(start..run.end, run.rest)
    } else if !joint.starts_with(behind) {
        Verdict::No
    } else {
        match view.edge {
            Edge::More => Verdict::Wait(start),
            Edge::Cut if header.end - start >= 12 => Verdict::Secret(start..header.end, Some(rest)),
            _ => Verdict::No,
        }
    }
}

/// `Bearer` and a token.
pub fn bearer(view: &View<'_>, anchor: Range<usize>) -> Verdict {
    bearer_step(view, anchor).unwrap_or_else(|early| early)
}

fn bearer_step(view: &View<'_>, anchor: Range<usize>) -> Step<Verdict> {
    let word = anchor.start.checked_sub(1).filter(|at| *at >= view.floor && view.bytes[*at] | 0x20 == b'b');
    let start = view.skip_blanks(anchor.end)?;
    if start == anchor.end || !word.is_some_and(|at| view.boundary(at)) {
        return Ok(Verdict::No);
    }
    let sure = |value: &[u8]| is_random(value) || (value.len() >= 8 && is_mixed(value));
    Ok(decide(view, start, start, TOKEN68, sure))
}

/// A token behind the name of a scheme.
pub const TOKEN68: Rest = Rest::Run(Set::Token68, u8::MAX);

/// A secret from `start`, when its bytes from `body` on are surely one. More of them never make it less sure.
pub fn decide(
    view: &View<'_>,
    start: usize,
    body: usize,
    rest: Rest,
    sure: impl Fn(&[u8]) -> bool,
) -> Verdict {
    let run = rest.follow(view.bytes, body);
    if !view.boundary(start) {
        Verdict::No
    } else if sure(&view.bytes[body..run.end]) {
        Verdict::Secret(start..run.end, run.rest)
    } else if run.rest.is_some() && view.edge == Edge::More {
        Verdict::Wait(start)
    } else {
        Verdict::No
    }
}

/// Whether it holds a digit and a letter.
pub fn is_mixed(bytes: &[u8]) -> bool {
    bytes.iter().any(u8::is_ascii_digit) && bytes.iter().any(u8::is_ascii_alphabetic)
}

/// Whether a part of it is longer than words are, or long and not spelled as words are.
pub fn is_random(bytes: &[u8]) -> bool {
    let odd = |part: &[u8]| {
        let has = |like: fn(&u8) -> bool| part.iter().any(like);
        has(u8::is_ascii_digit)
            || (part[1..].iter().any(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase))
    };
    let mut parts = bytes.split(|b| !b.is_ascii_alphanumeric());
    parts.any(|part| part.len() >= 20 || (part.len() >= 10 && odd(part)))
}
