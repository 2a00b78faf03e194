//! What a transcript means: to a host that loads it, to an agent that needs its context, to people (R31, R37, R270).
//!
//! Pure. Reads rows of the store in order, in bounded memory however long a session is; makes updates, texts and
//! events of them. Never touches the store itself.

mod author;
mod bulk;
mod calls;
mod card;
mod cards;
mod clip;
mod compact;
mod content;
mod context;
pub mod export;
mod line;
mod literal;
mod mark;
mod names;
mod outlet;
mod reader;
mod record;
mod replay;
#[cfg(test)]
mod sample;
mod standing;
mod terminals;
#[cfg(test)]
mod tests;
mod told;
mod turn;
mod visit;
mod words;

pub use compact::{Compactor, compact};
pub use context::Context;
pub use mark::Mark;
pub use replay::Replay;

use self::line::{Kind, Line, Standing};
use crate::wire::Frame;

/// Whether an update is one of those that a conversation consists of. What counts only as it stands in the end, and
/// what is unknown, is one when it comes amid others.
pub fn is_history(frame: &Frame, amid: bool) -> bool {
    let Some(Line::Update(update)) = Line::read(frame.line()) else { return amid };
    match update.kind {
        Kind::Chunk(_) | Kind::ToolCall | Kind::ToolCallUpdate | Kind::Standing(Standing::Plan) => true,
        Kind::Passing => false,
        Kind::Standing(_) | Kind::Subagent | Kind::Other => amid,
    }
}
