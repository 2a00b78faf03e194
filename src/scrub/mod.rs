//! Takes credentials out of what is stored (R243): lines of a transcript, messages over their chunks, plain texts.
//!
//! Owns the shapes of credentials and what is undecided of one message. Never changes anything but a secret: a line of
//! JSON stays one of the same structure, a line without secrets leaves as the bytes that came. Pure.
//!
//! ```text
//!   line -- chunk? --no--> line -----------------.            anchors (one pass over the raw bytes)
//!             '---yes--> scrubber: window, held --+--> scan --> judge: token, block, url, assign --> spans
//! ```

mod anchor;
mod assign;
mod block;
mod chunk;
mod escape;
mod json;
mod line;
mod name;
mod run;
mod scan;
mod scrubber;
mod seam;
mod token;
mod url;
mod value;
mod view;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

pub use line::scrub as line;
pub use scrubber::Scrubber;

use scan::scan;
use view::Edge;

/// What stands where a secret stood. No quotes and no backslashes, so that it fits any string.
pub const MARK: &str = "[scrubbed]";

/// A plain text without its secrets.
pub fn text(text: &str) -> Cow<'_, str> {
    let spans = scan(text.as_bytes(), 0, Edge::End).spans;
    if spans.is_empty() {
        return Cow::Borrowed(text);
    }
    let (mut clean, mut at) = (String::with_capacity(text.len()), 0);
    for span in spans {
        clean.push_str(&text[at..span.start]);
        clean.push_str(MARK);
        at = span.end;
    }
    clean.push_str(&text[at..]);
    Cow::Owned(clean)
}
