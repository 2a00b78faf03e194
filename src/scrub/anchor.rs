//! Where a secret may be: a few bytes that each shape must have, looked for in one pass.
//!
//! Most lines hold none of them and are done with that. What an anchor means is judged elsewhere.

use std::{ops::Range, sync::LazyLock};

use aho_corasick::{AhoCorasick, MatchKind};

use super::{run::Set, view::View};

/// What an anchor announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// The end of a name such as `password`.
    Noun,
    /// `Authorization`.
    Authorization,
    /// `Bearer`.
    Bearer,
    /// A token of words behind a prefix.
    Prefixed,
    /// A Slack token, whose prefix goes on.
    Slack,
    /// An id of an AWS key.
    Aws,
    /// Base64 of `{"`.
    Jwt,
    /// The beginning of a PEM block.
    Block,
    /// The authority of a URL.
    Url,
    /// Only tells that a line of JSON wants a closer look.
    Json,
}

use Anchor::{Authorization, Aws, Bearer, Block, Json, Jwt, Noun, Prefixed, Slack, Url};

const ANCHORS: &[(&str, Anchor)] = &[
    ("key", Noun),
    ("Key", Noun),
    ("KEY", Noun),
    ("oken", Noun),
    ("OKEN", Noun),
    ("ecret", Noun),
    ("ECRET", Noun),
    ("pwd", Noun),
    ("Pwd", Noun),
    ("PWD", Noun),
    ("assword", Noun),
    ("assWord", Noun),
    ("ASSWORD", Noun),
    ("asswd", Noun),
    ("ASSWD", Noun),
    ("assphrase", Noun),
    ("ASSPHRASE", Noun),
    ("uthorization", Authorization),
    ("UTHORIZATION", Authorization),
    ("earer", Bearer),
    ("EARER", Bearer),
    ("sk-", Prefixed),
    ("sk_live_", Prefixed),
    ("sk_test_", Prefixed),
    ("rk_live_", Prefixed),
    ("ghp_", Prefixed),
    ("gho_", Prefixed),
    ("ghu_", Prefixed),
    ("ghs_", Prefixed),
    ("ghr_", Prefixed),
    ("github_pat_", Prefixed),
    ("glpat-", Prefixed),
    ("npm_", Prefixed),
    ("hf_", Prefixed),
    ("AIza", Prefixed),
    ("xox", Slack),
    ("xapp-", Prefixed),
    ("AKIA", Aws),
    ("ASIA", Aws),
    ("eyJ", Jwt),
    ("-----BEGIN", Block),
    ("://", Url),
    // A slash may be escaped, and so may any letter.
    (":\\/\\/", Json),
    ("\\u002", Json),
    ("\\u003", Json),
    ("\\u004", Json),
    ("\\u005", Json),
    ("\\u006", Json),
    ("\\u007", Json),
    // Values that are secret whatever they look like (R233).
    ("\"env\"", Json),
    ("eaders\"", Json),
];

/// The longest one.
pub const ANCHOR_BYTES_MAX: usize = "uthorization".len();

static SEARCH: LazyLock<AhoCorasick> = LazyLock::new(|| {
    let search =
        AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(ANCHORS.iter().map(|a| a.0));
    search.expect("a few short words")
});

/// The first anchor at or behind this byte: where it lies, and what it announces.
pub fn find(bytes: &[u8], from: usize) -> Option<(Range<usize>, Anchor)> {
    let hit = SEARCH.find(&bytes[from..])?;
    Some((from + hit.start()..from + hit.end(), ANCHORS[hit.pattern().as_usize()].1))
}

/// Whether there is any anchor.
pub fn any(bytes: &[u8]) -> bool {
    SEARCH.find(bytes).is_some()
}

/// Where the text ends in the beginning of a prefix that would belong to the secret.
pub fn unfinished(view: &View<'_>) -> Option<usize> {
    let bytes = view.bytes;
    let mut places = tail(bytes, view.floor);
    places.find(|at| (bytes[*at] == b'-' || view.boundary(*at)) && begins_prefix(&bytes[*at..]))
}

/// Whether it does so, no matter what stands before.
pub fn unfinished_anywhere(bytes: &[u8]) -> bool {
    tail(bytes, 0).any(|at| begins_prefix(&bytes[at..]))
}

/// Where a prefix may begin that the text ends in: in its last word.
fn tail(bytes: &[u8], floor: usize) -> impl Iterator<Item = usize> {
    let word = bytes[floor..].iter().rev().take(ANCHOR_BYTES_MAX).take_while(|b| Set::Word.has(**b)).count();
    let first = |b: u8| matches!(b, b's' | b'r' | b'g' | b'n' | b'h' | b'x' | b'A' | b'e' | b'-');
    (bytes.len() - word..bytes.len()).filter(move |at| first(bytes[*at]))
}

/// Whether these bytes are the beginning of a prefix and not yet all of it.
fn begins_prefix(bytes: &[u8]) -> bool {
    let hidden = |anchor: Anchor| matches!(anchor, Prefixed | Slack | Aws | Jwt | Block);
    let begins = |word: &str| word.len() > bytes.len() && word.as_bytes().starts_with(bytes);
    ANCHORS.iter().any(|(word, anchor)| hidden(*anchor) && begins(word))
}
