//! A transcript as a text for people (R270). Pure.
//!
//! Who said what, tool calls as one card each where they ended, how turns ended and what cut them short. What the host
//! was not shown is in it too: whoever exports a session owns it. Output of tools is cut (R89), the words of people and
//! agents are not.

use std::{borrow::Cow, fmt::Write};

use bytes::Bytes;
use serde_json::value::RawValue;

use super::{
    diff::diff,
    prose::{Prose, Voice, code, fenced, one_line},
    time,
};
use crate::{
    event::cut,
    history::{
        Mark,
        card::Card,
        cards::Cards,
        line::{Kind, Line, Speaker, Standing, Status, Update, lines},
        literal,
        reader::{Reader, Shown},
        told::told,
        visit,
    },
    store::{self, Row, Stored},
};

/// Characters of a tool's output (R89).
const OUTPUT_CHARS_MAX: usize = 2_000;
/// Stands where some of it is left out.
const CLIPPED: &str = "\n… clipped …\n";

/// Turns rows into Markdown.
#[derive(Debug)]
pub struct Markdown {
    /// The daemon's id, quoted.
    session: String,
    reader: Reader,
    cards: Cards,
    prose: Prose,
    is_inboxs: bool,
    was_opened: bool,
    turn: Option<u64>,
}

impl Markdown {
    /// Of that session.
    pub fn new(row: &Row) -> Self {
        let mut prose = Prose::default();
        let title = row.title.clone().unwrap_or_else(|| format!("Session {}", row.id));
        let head = format!(
            "# {}\n\n- Session: {}\n- Agent: {}\n- Directory: {}\n- Begun: {}\n",
            one_line(&title),
            code(row.id.as_str()),
            code(&row.agent),
            code(&row.cwd.to_string_lossy()),
            time(row.created_ms),
        );
        prose.head(&head);
        Self {
            session: serde_json::to_string(row.id.as_str()).expect("a string is always JSON"),
            reader: Reader::new(row.id.clone()),
            cards: Cards::default(),
            prose,
            is_inboxs: false,
            was_opened: false,
            turn: None,
        }
    }

    /// The next row.
    pub fn take(&mut self, row: &Stored, out: &mut Vec<u8>) {
        for line in lines(&row.lines) {
            let brought = self.reader.line(row.kind, &line);
            brought.shown.iter().for_each(|shown| self.shown(shown));
            match row.kind {
                store::Kind::Mark => self.mark(&line, row.time_ms),
                store::Kind::Sent if brought.is_prompt => self.prompt(&line),
                _ => {}
            }
        }
        out.extend(self.prose.take());
    }

    /// There are no more rows.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.reader.finish().iter().for_each(|shown| self.shown(shown));
        self.prose.end();
        out.extend(self.prose.take());
    }

    fn shown(&mut self, shown: &Shown) {
        let Some(Line::Update(update)) = Line::read(shown.frame.line()) else { return };
        match (update.kind, update.status) {
            // All of an inbox's prompt is told where it goes to the peer.
            (Kind::Chunk(Speaker::User), _) if self.is_inboxs && update.session.get() == self.session => {}
            (Kind::Chunk(speaker), _) => self.chunk(speaker, &update),
            (Kind::ToolCallUpdate, _) if shown.is_unfinished => self.call(&update, Some("not finished")),
            (Kind::ToolCall | Kind::ToolCallUpdate, Status::Ended) => self.call(&update, None),
            (Kind::ToolCall | Kind::ToolCallUpdate, _) => self.cards.note(&update),
            (Kind::Standing(Standing::Plan), _) => self.plan(&update),
            _ => {}
        }
    }

    fn chunk(&mut self, speaker: Speaker, update: &Update<'_>) {
        let Some(body) = update.content.map(told).filter(|body| !body.is_empty()) else { return };
        let is_ours = update.session.get() == self.session;
        let child = if is_ours { None } else { visit::text(update.session).map(Cow::into_owned) };
        let id = update.message_id.map(|id| id.get().to_owned());
        self.prose.say(Voice { child, speaker, message: id }, &literal::read(&body));
    }

    fn call(&mut self, update: &Update<'_>, instead: Option<&str>) {
        let card = self.cards.end(update);
        let status = card.text("status").unwrap_or_default();
        let status = instead.unwrap_or(&status);
        self.prose.block(&format!(
            "**Tool** ({}, {}): {}",
            one_line(&card.kind()),
            cut(status),
            code(&card.title())
        ));
        card.diffs().into_iter().for_each(|item| self.diff(item));
        let output = literal::read(&card.output());
        if !output.trim().is_empty() {
            self.prose.block(&fenced("text", &clipped(output.trim_end())));
        }
    }

    fn diff(&mut self, item: &RawValue) {
        let member = |name| visit::text_member(item.get(), name).unwrap_or_default();
        let (path, changes) = (member("path"), diff(&member("oldText"), &member("newText")));
        self.prose.block(&fenced("diff", &format!("--- {}\n{changes}", one_line(&path))));
    }

    fn plan(&mut self, update: &Update<'_>) {
        let mut plan = "## Plan\n".to_owned();
        let entries = visit::member(update.raw.get(), "entries");
        visit::list(entries.map_or("[]", RawValue::get), |entry| {
            let member = |name| visit::text_member(entry.get(), name).unwrap_or_default();
            let done = if member("status") == "completed" { 'x' } else { ' ' };
            write!(plan, "\n- [{done}] {}", one_line(&member("content"))).expect("a string takes everything");
        });
        self.prose.block(&plan);
    }

    fn prompt(&mut self, line: &Bytes) {
        let Some(Line::Call { params: Some(params), .. }) = Line::read(line) else { return };
        let Some(blocks) = visit::member(params.get(), "prompt").filter(|_| self.is_inboxs) else { return };
        visit::list(blocks.get(), |block| self.given(&literal::read(&told(block))));
    }

    fn given(&mut self, text: &str) {
        self.prose.block(&format!("### Inbox\n\n{}", text.trim_end()));
    }

    fn mark(&mut self, line: &Bytes, time_ms: i64) {
        match serde_json::from_slice(line).unwrap_or(Mark::Other) {
            Mark::TurnStarted { turn, source, .. } => self.begin(turn, &source, time_ms),
            Mark::TurnEnded { turn, stop_reason, error } => {
                let how = match (stop_reason, error) {
                    (Some(reason), _) => format!("Turn {turn} ended: {}", cut(&reason)),
                    (None, error) => {
                        let error = error.as_ref().and_then(|error| error["message"].as_str());
                        format!("Turn {turn} failed: {}", cut(error.unwrap_or("no reason is known")))
                    }
                };
                self.turn = None;
                self.aside(&how);
            }
            Mark::Opened { how, .. } if std::mem::replace(&mut self.was_opened, true) => {
                self.aside(&format!("Another process took the session up ({how}), {}", time(time_ms)));
            }
            Mark::PeerGone { cause } => self.aside(&format!("The agent's process ended: {}", cut(&cause))),
            Mark::Decision { kind, decision, by, reason, .. } if decision == "deny" => {
                self.aside(&format!("Refused ({kind}) by {by}: {}", cut(&reason)));
            }
            Mark::Given { text } => self.given(&text),
            Mark::Compacted { bytes, .. } => {
                self.aside(&format!("What is above was made shorter from {bytes} bytes"))
            }
            _ => {}
        }
    }

    fn begin(&mut self, turn: u64, source: &str, time_ms: i64) {
        if let Some(before) = self.turn.replace(turn) {
            self.aside(&format!("Turn {before} was interrupted: nobody knows how it ended"));
        }
        self.is_inboxs = source != "host";
        self.prose.block(&format!("## Turn {turn}, {}", time(time_ms)));
    }

    fn aside(&mut self, text: &str) {
        self.prose.block(&format!("*{}*", one_line(text)));
    }
}

impl Card {
    fn title(&self) -> String {
        cut(&one_line(&self.text("title").unwrap_or_default()))
    }
}

/// Head and tail of an output with a line between them that says so (R89).
fn clipped(text: &str) -> String {
    let count = text.chars().count();
    if count <= OUTPUT_CHARS_MAX {
        return text.to_owned();
    }
    let room = OUTPUT_CHARS_MAX - CLIPPED.chars().count();
    let at = |chars: usize| text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at);
    [&text[..at(room / 3)], CLIPPED, &text[at(count - (room - room / 3))..]].concat()
}
