//! One pass over a text: which parts of it are secrets, and what is undecided at its end.

use std::ops::Range;

use smallvec::SmallVec;

use super::{
    anchor::{self, Anchor},
    assign, block,
    run::Rest,
    token, url,
    view::{Edge, Verdict, View},
};

/// What was found.
#[derive(Debug, Default)]
pub struct Scan {
    /// The secrets, in order.
    pub spans: SmallVec<[Range<usize>; 2]>,
    /// How the last one goes on behind the end.
    pub rest: Option<Rest>,
    /// From where on nothing is decided.
    pub wait: Option<usize>,
    /// Whether a secret may follow of which nothing is here yet.
    pub ahead: bool,
}

/// Looks at a text from `floor` on.
pub fn scan(bytes: &[u8], floor: usize, edge: Edge) -> Scan {
    let (mut view, mut found, mut at) = (View { bytes, floor, edge }, Scan::default(), floor);
    while let Some((place, anchor)) = anchor::find(bytes, at) {
        at = place.start + 1;
        match judge(&view, place, anchor) {
            Verdict::No => {}
            Verdict::Ahead => found.ahead = true,
            Verdict::Wait(from) => {
                found.wait = Some(from);
                return found;
            }
            Verdict::Secret(span, rest) => {
                (at, view.floor, found.rest) = (span.end, span.end, rest);
                found.spans.push(span);
            }
        }
        if found.rest.is_some() {
            found.wait = (edge == Edge::More && at < bytes.len()).then_some(at);
            return found;
        }
    }
    found.wait = (edge == Edge::More).then(|| anchor::unfinished(&view)).flatten();
    found
}

fn judge(view: &View<'_>, place: Range<usize>, anchor: Anchor) -> Verdict {
    match anchor {
        Anchor::Noun => assign::assigned(view, place.end),
        Anchor::Authorization => assign::authorized(view, place.end),
        Anchor::Bearer => token::bearer(view, place),
        Anchor::Prefixed => token::prefixed(view, place),
        Anchor::Slack => token::slack(view, place),
        Anchor::Aws => token::aws(view, place),
        Anchor::Jwt => token::jwt(view, place),
        Anchor::Block => block::judge(view, place),
        Anchor::Url => url::judge(view, place),
        Anchor::Json => Verdict::No,
    }
}
