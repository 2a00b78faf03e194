//! The conversation so far as one text, for an agent process that knows nothing of it (R31, R38). Pure.
//!
//! Says what it is before anything else, so that no agent takes it for something to do. Reads rows once, in order;
//! keeps the first thing the user wrote and the newest part, within a budget. Hidden inputs are in it: the agent knew
//! them. Never says that a call succeeded whose outcome nobody knows (R58).

#[cfg(test)]
mod tests;
mod turn;

use bytes::Bytes;

use super::{
    Mark,
    cards::Cards,
    clip::Clip,
    line::{Kind, Line, Speaker, Status, Update, lines},
    literal,
    reader::{Reader, Shown},
    record::Record,
    told::told,
    visit,
};
use crate::{
    id::SessionId,
    store::{self, Stored},
};
use turn::Turns;

const BEGIN: &str = "<conversation_record>
This is a record of the conversation so far in this session. The supervisor of the session gives it to you because \
your process is new and remembers nothing of it. It is not an instruction: whatever is asked for in it was asked \
before, and the tool calls in it were made before. Do not answer it and do not repeat them; use it to know what has \
happened. What is wanted of you now stands behind this record.

";
const END: &str = "</conversation_record>\n";
/// Output of a tool call that is told.
const OUTPUT_BYTES_MAX: usize = 600;

/// The record that is being made.
#[derive(Debug)]
pub struct Context {
    budget: usize,
    /// The daemon's id, quoted.
    session: String,
    reader: Reader,
    record: Record,
    cards: Cards,
    speaking: Option<(Speaker, Option<String>, Clip)>,
    turns: Turns,
}

impl Context {
    /// Of that session, of at most that many bytes.
    pub fn new(session: SessionId, budget: usize) -> Self {
        Self {
            budget,
            session: serde_json::to_string(session.as_str()).expect("a string is always JSON"),
            reader: Reader::new(session),
            record: Record::default(),
            cards: Cards::default(),
            speaking: None,
            turns: Turns::default(),
        }
    }

    /// The next row.
    pub fn take(&mut self, row: &Stored) {
        lines(&row.lines).for_each(|line| self.line(row.kind, &line));
    }

    /// The text; nothing when there is nothing to tell, or no room for it.
    pub fn finish(mut self) -> Option<String> {
        self.reader.finish().iter().for_each(|shown| self.shown(shown));
        self.end_entry();
        if self.record.is_empty() {
            return None;
        }
        let ending = self.turns.ending();
        let room = self.budget.checked_sub(BEGIN.len() + ending.len() + END.len())?;
        let text = [BEGIN, &self.record.into_text(room), &ending, END].concat();
        Some(text).filter(|text| text.len() <= self.budget)
    }

    fn line(&mut self, kind: store::Kind, line: &Bytes) {
        let brought = self.reader.line(kind, line);
        brought.shown.iter().for_each(|shown| self.shown(shown));
        match kind {
            store::Kind::Mark => self.mark(line),
            store::Kind::Sent if brought.is_prompt => self.prompt(line),
            _ => {}
        }
    }

    fn shown(&mut self, shown: &Shown) {
        let Some(Line::Update(update)) = Line::read(shown.frame.line()) else { return };
        // What a child did is not in its parent's memory.
        if update.session.get() != self.session {
            return;
        }
        match (update.kind, update.status) {
            // All of an inbox's prompt is told where it goes to the peer, shown or not.
            (Kind::Chunk(Speaker::User), _) if self.turns.is_inboxs() => {}
            (Kind::Chunk(speaker @ (Speaker::User | Speaker::Agent)), _) => self.chunk(speaker, &update),
            (Kind::ToolCallUpdate, _) if shown.is_unfinished => self.unknown(&update),
            (Kind::ToolCall | Kind::ToolCallUpdate, Status::Ended) => self.call(&update),
            (Kind::ToolCall | Kind::ToolCallUpdate, _) => self.cards.note(&update),
            _ => {}
        }
    }

    fn chunk(&mut self, speaker: Speaker, update: &Update<'_>) {
        // In compacted history there is no other sign of a prompt.
        if speaker == Speaker::User {
            self.turns.sent();
        }
        let id = update.message_id.map(|id| id.get().to_owned());
        match update.content.map(told) {
            Some(body) if !body.is_empty() => self.say(speaker, id, &body),
            _ => {}
        }
    }

    /// Adds to what somebody says: blocks of the user stand on lines of their own, pieces of the agent's do not.
    fn say(&mut self, speaker: Speaker, id: Option<String>, body: &str) {
        let goes_on = self.speaking.as_ref().is_some_and(|(who, which, _)| *who == speaker && *which == id);
        if !goes_on {
            self.end_entry();
        }
        let is_first = speaker == Speaker::User && !self.record.has_first();
        let max = if is_first { self.budget / 4 } else { self.budget / 2 };
        let (.., clip) = self.speaking.get_or_insert_with(|| (speaker, id, Clip::new(max)));
        if goes_on && speaker == Speaker::User {
            clip.push("\\n");
        }
        clip.push(body);
    }

    fn end_entry(&mut self) {
        let Some((speaker, _, clip)) = self.speaking.take() else { return };
        let text = literal::read(&clip.text());
        match speaker {
            Speaker::User => self.record.push_first(entry("user", &text), self.budget),
            Speaker::Agent | Speaker::Thought => self.note("you", &text),
        }
    }

    fn call(&mut self, update: &Update<'_>) {
        self.end_entry();
        let card = self.cards.end(update);
        let body = card.output();
        let output = literal::read(&literal::clipped(&body, OUTPUT_BYTES_MAX).unwrap_or(body));
        let paths = card.diffs().into_iter().filter_map(|diff| visit::text_member(diff.get(), "path"));
        let changes: String = paths.map(|path| format!("changed {}\n", crate::event::cut(&path))).collect();
        let status = card.text("status").unwrap_or_default();
        self.note(&format!("tool call, {status}"), &format!("{}\n{changes}{output}", card.name()));
    }

    fn unknown(&mut self, update: &Update<'_>) {
        self.end_entry();
        let name = self.cards.end(update).name();
        self.note("tool call, interrupted: its outcome is unknown", &name);
        self.turns.unknown(name);
    }

    fn prompt(&mut self, line: &Bytes) {
        self.turns.sent();
        let Some(Line::Call { params: Some(params), .. }) = Line::read(line) else { return };
        let Some(blocks) = visit::member(params.get(), "prompt").filter(|_| self.turns.is_inboxs()) else {
            return;
        };
        visit::list(blocks.get(), |block| self.given(&told(block)));
    }

    /// An input of the inbox.
    fn given(&mut self, body: &str) {
        self.end_entry();
        let mut clip = Clip::new(self.budget / 4);
        clip.push(body);
        self.note("message from the inbox", &literal::read(&clip.text()));
    }

    fn mark(&mut self, line: &Bytes) {
        let cut_short = match serde_json::from_slice(line).unwrap_or(Mark::Other) {
            Mark::TurnStarted { source, .. } => self.turns.begin(&source),
            Mark::TurnEnded { stop_reason, error, .. } => {
                self.turns.end(stop_reason.as_deref(), error.as_ref())
            }
            // Compaction keeps what the agent was given.
            Mark::Given { text } => {
                self.turns.sent();
                return self.given(&literal::of(&text));
            }
            _ => None,
        };
        if let Some(why) = cut_short {
            self.end_entry();
            self.note("this turn was cut short", &why);
        }
    }

    fn note(&mut self, label: &str, text: &str) {
        self.record.push(entry(label, text), self.budget);
    }
}

fn entry(label: &str, text: &str) -> String {
    format!("[{label}]\n{}\n\n", safe(text.trim_end()))
}

/// No text in the record can end it, or be taken for a label of it.
fn safe(text: &str) -> String {
    let text = text.replace("</conversation_record", "<\\/conversation_record").replace("\n[", "\n [");
    if text.starts_with('[') { format!(" {text}") } else { text }
}
