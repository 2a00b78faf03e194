//! What is being said: chunks of one message that follow one another become one (R37). Pure.
//!
//! Owns at most one chunk that is not out yet, of bounded length. Never joins two messages, never shortens one.

use serde_json::value::RawValue;

use super::{
    author,
    line::{Speaker, plain_text},
    literal,
};
use crate::limits::{LINE_BYTES_MAX, REPLAY_JOINED_BYTES_MAX, REPLAY_PIECE_BYTES_MAX};

/// Room for the envelope of a chunk beside its content.
const ENVELOPE_BYTES_MAX: usize = 1 << 10;

/// Whose message, as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Message<'a> {
    /// The session, quoted.
    pub session: &'a str,
    /// Who says it.
    pub speaker: Speaker,
    /// Its id, quoted.
    pub id: Option<&'a str>,
}

/// The chunk that is being joined.
#[derive(Debug)]
pub(super) struct Words {
    session: String,
    speaker: Speaker,
    id: Option<String>,
    body: String,
}

impl Default for Words {
    fn default() -> Self {
        Self { session: String::new(), speaker: Speaker::Agent, id: None, body: String::new() }
    }
}

impl Words {
    /// Adds a piece of a message, as it stands between quotes.
    pub fn say(&mut self, message: Message<'_>, body: &str, mut out: impl FnMut(String)) {
        let fits = self.body.len() + body.len() <= REPLAY_JOINED_BYTES_MAX;
        if self.message() != message || !fits {
            self.flush(&mut out);
            self.begin(message);
        }
        if body.len() <= REPLAY_JOINED_BYTES_MAX {
            self.body.push_str(body);
        } else {
            whole(message, body, out);
        }
    }

    /// Lets out what is there: something else comes.
    pub fn flush(&mut self, mut out: impl FnMut(String)) {
        if !self.body.is_empty() {
            out(text(self.message(), &self.body));
            self.body.clear();
        }
    }

    /// Bytes that are not out yet.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.body.len()
    }

    fn message(&self) -> Message<'_> {
        Message { session: &self.session, speaker: self.speaker, id: self.id.as_deref() }
    }

    fn begin(&mut self, message: Message<'_>) {
        self.session.clear();
        self.session.push_str(message.session);
        self.speaker = message.speaker;
        self.id = message.id.map(str::to_owned);
    }
}

/// A message that came in one piece, in as many as it takes.
pub(super) fn whole(message: Message<'_>, mut body: &str, mut out: impl FnMut(String)) {
    while !body.is_empty() {
        let (piece, rest) = body.split_at(literal::floor(body, REPLAY_PIECE_BYTES_MAX));
        out(text(message, piece));
        body = rest;
    }
}

/// A block of the user's, as it was written; one that fits no line comes in pieces, or is only named.
pub(super) fn block(session: &str, block: &RawValue, mut out: impl FnMut(String)) {
    let message = Message { session, speaker: Speaker::User, id: None };
    match plain_text(block) {
        Some(body) if body.len() > REPLAY_PIECE_BYTES_MAX => whole(message, body, out),
        _ if block.get().len() > LINE_BYTES_MAX - ENVELOPE_BYTES_MAX => {
            out(text(message, &format!("[{} bytes of the user's are left out here]", block.get().len())));
        }
        _ => out(author::chunk(session, Speaker::User, None, block.get())),
    }
}

fn text(message: Message<'_>, body: &str) -> String {
    author::text_chunk(message.session, message.speaker, message.id, body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(id: Option<&'static str>) -> Message<'static> {
        Message { session: "\"s\"", speaker: Speaker::Agent, id }
    }

    /// R37, R94: chunks are joined while they are of one message; another id, speaker or session ends it.
    #[test]
    fn chunks_of_one_message_are_joined() {
        let (mut words, mut out) = (Words::default(), Vec::new());
        let one = message(Some("\"1\""));
        let pieces = [
            (one, r"a\n"),
            (one, "b"),
            (message(Some("\"2\"")), "c"),
            (message(None), "d"),
            (message(None), "e"),
            (Message { speaker: Speaker::Thought, ..message(None) }, "f"),
            (Message { session: "\"child\"", ..message(None) }, "g"),
        ];
        pieces.iter().for_each(|(message, body)| words.say(*message, body, |line| out.push(line)));
        words.flush(|line| out.push(line));
        let texts =
            [(one, r"a\nb"), (pieces[2].0, "c"), (pieces[3].0, "de"), (pieces[5].0, "f"), (pieces[6].0, "g")];
        assert_eq!(out, texts.map(|(message, body)| text(message, body)));
        words.flush(|line| out.push(line));
        assert_eq!(out.len(), 5);
    }

    /// R281: a block that fits no line under its new envelope is named, so that the history can be loaded at all.
    #[test]
    fn a_block_that_fits_no_line_is_named() {
        let image = |bytes: usize| {
            let data = "A".repeat(bytes);
            RawValue::from_string(format!(r#"{{"type":"image","mimeType":"image/png","data":"{data}"}}"#))
                .unwrap()
        };
        let shown = |bytes| {
            let mut out = Vec::new();
            block("\"s\"", &image(bytes), |line| out.push(line));
            out.pop().unwrap()
        };
        assert!(
            shown(5 << 20).contains("image/png") && shown(LINE_BYTES_MAX - 100).contains("are left out here")
        );
        assert!(shown(LINE_BYTES_MAX - 100).len() < 300);
    }

    /// R281: no chunk is larger than a line may be, none is torn, and nothing is lost.
    #[test]
    fn a_message_of_any_length_comes_in_pieces() {
        let (mut words, mut out, mut whole) = (Words::default(), Vec::new(), String::new());
        for n in [10, REPLAY_JOINED_BYTES_MAX - 10, 1, REPLAY_JOINED_BYTES_MAX + 1, 3 << 20, 5] {
            let body = "\\u00e4".repeat(n / 6 + 1);
            words.say(message(None), &body, |line| out.push(line));
            assert!(words.bytes() <= REPLAY_JOINED_BYTES_MAX);
            whole.push_str(&body);
        }
        words.flush(|line| out.push(line));
        let read = |line: &String| -> String {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            line["params"]["update"]["content"]["text"].as_str().unwrap().to_owned()
        };
        assert!(out.iter().all(|line| line.len() < 1 << 20));
        assert_eq!(out.iter().map(read).collect::<String>(), literal::read(&whole));
    }
}
