//! What terminals said that are gone when the history is read (R37). Pure.
//!
//! Owns head and tail of the last output of so many terminals, as the peer asked for it or told it itself. Names and
//! ids are compared as they are written.

use std::collections::VecDeque;

use serde_json::value::RawValue;

use super::{clip::Clip, visit};
use crate::limits::{ID_BYTES_MAX, OPEN_PEER_REQUESTS_MAX, REPLAY_TERMINAL_BYTES_MAX, REPLAY_TERMINALS_MAX};

/// Stands where the output was not kept.
const UNKNOWN: &str = "[the output of this terminal was not kept]";

/// Terminals by their ids.
#[derive(Debug, Default)]
pub(super) struct Terminals {
    /// Requests for output that wait for their answers: id of the request, terminal.
    asked: VecDeque<(Box<str>, Box<str>)>,
    /// Outputs, longest known first.
    outputs: VecDeque<(Box<str>, Clip)>,
}

impl Terminals {
    /// The peer asks for output.
    pub fn asked(&mut self, id: &RawValue, params: Option<&RawValue>) {
        let terminal = params.and_then(|params| visit::member(params.get(), "terminalId"));
        let Some(terminal) = terminal.filter(|t| t.get().len() + id.get().len() <= ID_BYTES_MAX) else {
            return;
        };
        if self.asked.len() == OPEN_PEER_REQUESTS_MAX {
            self.asked.pop_front();
        }
        self.asked.push_back((id.get().into(), terminal.get().into()));
    }

    /// It is answered: what is asked for again is told from its beginning again.
    pub fn answered(&mut self, id: &RawValue, outcome: Result<&RawValue, &RawValue>) {
        let Some(at) = self.asked.iter().position(|(asked, _)| **asked == *id.get()) else { return };
        let Some((_, terminal)) = self.asked.remove(at) else { return };
        let output = outcome.ok().and_then(|result| visit::member(result.get(), "output"));
        if let Some(output) = output.and_then(visit::body) {
            let clip = self.output(&terminal);
            *clip = Clip::new(REPLAY_TERMINAL_BYTES_MAX);
            clip.push(output);
        }
    }

    /// An update of a tool call may carry output of a terminal that the peer runs itself: `_meta.terminal_output`, by
    /// which several agents tell it piece by piece.
    pub fn told(&mut self, update: &RawValue) {
        if memchr::memmem::find(update.get().as_bytes(), b"\"terminal_output\"").is_none() {
            return;
        }
        let meta = visit::member(update.get(), "_meta");
        let Some(told) = meta.and_then(|meta| visit::member(meta.get(), "terminal_output")) else { return };
        let piece = visit::member(told.get(), "data").and_then(visit::body);
        let terminal = visit::member(told.get(), "terminal_id").filter(|t| t.get().len() <= ID_BYTES_MAX);
        if let (Some(piece), Some(terminal)) = (piece, terminal) {
            self.output(terminal.get()).push(piece);
        }
    }

    /// The peer that asked is gone.
    pub fn forget(&mut self) {
        self.asked.clear();
    }

    /// What stands for a terminal, as it stands between quotes.
    pub fn text(&self, terminal: &str) -> String {
        let known = self.outputs.iter().find(|(name, _)| **name == *terminal);
        known.map_or_else(|| UNKNOWN.to_owned(), |(_, clip)| clip.text())
    }

    /// Bytes that they take.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.outputs.iter().map(|(_, clip)| clip.bytes()).sum()
    }

    fn output(&mut self, terminal: &str) -> &mut Clip {
        let known = self.outputs.iter().position(|(name, _)| **name == *terminal);
        let at = known.unwrap_or_else(|| {
            if self.outputs.len() == REPLAY_TERMINALS_MAX {
                self.outputs.pop_front();
            }
            self.outputs.push_back((terminal.into(), Clip::new(REPLAY_TERMINAL_BYTES_MAX)));
            self.outputs.len() - 1
        });
        &mut self.outputs[at].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    fn ask(t: &mut Terminals, terminal: &str, output: &str) {
        t.asked(&raw("\"r\""), Some(&raw(&format!(r#"{{"sessionId":"p","terminalId":"{terminal}"}}"#))));
        t.answered(&raw("\"r\""), Ok(&raw(&format!(r#"{{"output":"{output}","truncated":false}}"#))));
    }

    /// R37: the last output counts; an error, and an answer to something else, change nothing.
    #[test]
    fn the_last_output_is_kept() {
        let mut t = Terminals::default();
        ask(&mut t, "t", r"one\n");
        ask(&mut t, "t", r"one\ntwo\n");
        t.asked(&raw("4"), Some(&raw(r#"{"terminalId":"t"}"#)));
        t.answered(&raw("4"), Err(&raw("{}")));
        t.answered(&raw("5"), Ok(&raw(r#"{"output":"x"}"#)));
        assert_eq!(t.text("\"t\""), r"one\ntwo\n");
        assert_eq!(t.text("\"other\""), UNKNOWN);
    }

    #[test]
    fn what_an_agent_tells_piece_by_piece_is_put_together() {
        let mut t = Terminals::default();
        for piece in ["a", "b"] {
            t.told(&raw(&format!(
                r#"{{"_meta":{{"terminal_output":{{"terminal_id":"t","data":"{piece}"}}}}}}"#
            )));
        }
        assert_eq!(t.text("\"t\""), "ab");
    }

    /// R281: terminals and what is kept of each are bounded.
    #[test]
    fn memory_is_bounded() {
        let mut t = Terminals::default();
        (0..200).for_each(|n| ask(&mut t, &n.to_string(), &"x".repeat(200_000)));
        assert!(t.bytes() <= REPLAY_TERMINALS_MAX * REPLAY_TERMINAL_BYTES_MAX);
        let note = format!("[… {} bytes", 200_000 - REPLAY_TERMINAL_BYTES_MAX);
        assert_eq!((t.text("\"0\"").as_str(), t.text("\"199\"").contains(&note)), (UNKNOWN, true));
        (0..2 * OPEN_PEER_REQUESTS_MAX)
            .for_each(|n| t.asked(&raw(&n.to_string()), Some(&raw(r#"{"terminalId":"t"}"#))));
        assert_eq!(t.asked.len(), OPEN_PEER_REQUESTS_MAX);
    }
}
