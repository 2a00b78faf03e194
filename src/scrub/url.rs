//! The password in `scheme://user:password@host`.

use std::ops::Range;

use super::{
    anchor::{self, Anchor},
    value,
    view::{Edge, Verdict, View},
};

/// Longest part between the slashes.
const AUTHORITY_BYTES_MAX: usize = 256;

/// The authority behind `://`.
pub fn judge(view: &View<'_>, anchor: Range<usize>) -> Verdict {
    let start = anchor.end;
    let part = |b: &u8| *b > b' ' && !matches!(b, b'/' | b'?' | b'#' | b'^' | b'|' | b',') && !is_bracket(*b);
    let rest = &view.bytes[start..];
    let authority = &rest[..rest.iter().take(AUTHORITY_BYTES_MAX).take_while(|b| part(b)).count()];
    let end = start + authority.len();
    let password = authority.iter().position(|b| *b == b':').map(|colon| start + colon + 1);
    let user = start..password.unwrap_or(end);
    if authority.len() == AUTHORITY_BYTES_MAX || has_token(view, user) {
        return Verdict::No;
    }
    if end == view.bytes.len() && view.edge == Edge::More {
        return password.filter(|at| *at < end).map_or(Verdict::Ahead, Verdict::Wait);
    }
    let at = authority.iter().rposition(|b| *b == b'@').map(|at| start + at);
    match (password, at) {
        (Some(from), Some(to)) if from < to && !value::is_placeholder(&view.bytes[from..to]) => {
            Verdict::Secret(from..to, None)
        }
        _ => Verdict::No,
    }
}

fn is_bracket(b: u8) -> bool {
    matches!(b, b'"' | b'\'' | b'`' | b'<' | b'>' | b'(' | b')' | b'[' | b']' | b'{' | b'}' | b'\\' | 0x7f)
}

/// A user that is a token itself is found as one.
fn has_token(view: &View<'_>, user: Range<usize>) -> bool {
    let (bytes, mut at) = (&view.bytes[..user.end], user.start);
    while let Some((place, anchor)) = anchor::find(bytes, at) {
        if matches!(anchor, Anchor::Prefixed | Anchor::Slack | Anchor::Aws | Anchor::Jwt) {
            return true;
        }
        at = place.end;
    }
    false
}
