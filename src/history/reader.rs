//! A history for those who make a text of it: what is shown, with what else they have to know of it. Pure.

use bytes::Bytes;

use super::{
    Mark, Replay,
    line::{Kind, Line},
};
use crate::{id::SessionId, store, wire::Frame};

/// Reads line by line.
#[derive(Debug)]
pub(super) struct Reader {
    replay: Replay,
    /// Ends of calls that follow in compacted history and are none of the peer's.
    unfinished: usize,
}

/// What a line brings.
#[derive(Debug, Default)]
pub(super) struct Brought {
    /// Updates that are shown now.
    pub shown: Vec<Shown>,
    /// Whether the line is the prompt of the turn.
    pub is_prompt: bool,
}

/// An update that is shown.
#[derive(Debug)]
pub(super) struct Shown {
    /// It.
    pub frame: Frame,
    /// Whether it ends a call that the peer never ended: what became of that call nobody knows.
    pub is_unfinished: bool,
}

impl Reader {
    /// Of that session.
    pub fn new(session: SessionId) -> Self {
        Self { replay: Replay::new(session), unfinished: 0 }
    }

    /// The next line of a row of that kind.
    pub fn line(&mut self, kind: store::Kind, line: &Bytes) -> Brought {
        let (was_sent, mut frames) = (self.replay.has_prompt(), Vec::new());
        self.replay.line(kind, line, &mut frames);
        if let (store::Kind::Mark, Ok(Mark::Unfinished { calls })) = (kind, serde_json::from_slice(line)) {
            self.unfinished = calls;
        }
        let is_prompt = kind == store::Kind::Sent && !was_sent && self.replay.has_prompt();
        let is_decided =
            kind == store::Kind::Mark && matches!(serde_json::from_slice(line), Ok(Mark::Decision { .. }));
        let shown = frames.into_iter().map(|frame| match kind {
            // A mark brings nothing of the peer's, so an end of a call that it brings is none either; but what was
            // refused was not done.
            store::Kind::Mark => Shown { is_unfinished: !is_decided && is_call_update(&frame), frame },
            store::Kind::Compact => Shown { is_unfinished: self.is_unfinished(&frame), frame },
            _ => Shown { is_unfinished: false, frame },
        });
        Brought { shown: shown.collect(), is_prompt }
    }

    /// There are no more lines.
    pub fn finish(&mut self) -> Vec<Shown> {
        let mut frames = Vec::new();
        self.replay.finish(&mut frames);
        frames.into_iter().map(|frame| Shown { is_unfinished: is_call_update(&frame), frame }).collect()
    }

    fn is_unfinished(&mut self, frame: &Frame) -> bool {
        let is = self.unfinished > 0 && is_call_update(frame);
        self.unfinished -= usize::from(is);
        is
    }
}

fn is_call_update(frame: &Frame) -> bool {
    matches!(Line::read(frame.line()), Some(Line::Update(update)) if update.kind == Kind::ToolCallUpdate)
}
