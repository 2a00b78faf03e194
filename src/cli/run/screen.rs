//! What a run prints: people's text, the event stream, or the last message only (R261).
//!
//! Owns stdout and stderr of the run and where the cursor stands. A write that fails is remembered, and nothing is
//! written to stdout after it.

use std::io::{self, Write};

use clap::ValueEnum;

use super::{
    super::style::{Style, harmless, one_line},
    aside::{Aside, aside},
    conversation::Sink,
    outcome::Outcome,
};
use crate::event::{Event, Evidence};

/// What is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Format {
    /// Text as it comes, with a line for every tool call
    Text,
    /// One JSON object a line for every event
    Events,
    /// The last message only
    Result,
}

/// The run as it is printed.
pub(in crate::cli) struct Screen<O, E> {
    format: Format,
    out: O,
    err: E,
    style: Style,
    /// Whether stdout is a terminal, which no text of an agent may command.
    terminal: bool,
    broken: Option<io::Error>,
    writable: bool,
    section: Section,
    at_line_start: bool,
    /// As it was shown the last time.
    plan: Vec<(char, String)>,
}

/// What the last piece belonged to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Section {
    Start,
    Text,
    Thought,
    Line,
}

impl<O: Write, E: Write> Screen<O, E> {
    pub fn new(format: Format, out: O, err: E, style: Style, terminal: bool) -> Self {
        Self {
            format,
            out,
            err,
            style,
            terminal,
            broken: None,
            writable: true,
            section: Section::Start,
            at_line_start: true,
            plan: Vec::new(),
        }
    }

    /// Why stdout cannot be written any more, once.
    pub fn take_broken(&mut self) -> Option<io::Error> {
        self.broken.take()
    }

    /// The end: the last line of the event stream, and what went wrong on stderr.
    pub(super) fn finish(&mut self, outcome: &Outcome) {
        match self.format {
            Format::Events => self.json(&outcome.line()),
            Format::Text | Format::Result => self.break_off(),
        }
        if let Some(complaint) = outcome.complaint() {
            self.complain(&complaint);
        }
    }

    /// The end without an outcome: what comes next begins on a line of its own.
    pub fn break_off(&mut self) {
        if self.format == Format::Text {
            self.break_line();
        }
    }

    /// A line of its own that says what this is about.
    pub fn note(&mut self, label: &str, text: &str) {
        self.line(label, &one_line(text));
    }

    /// What somebody asked of the agent.
    pub fn quote(&mut self, text: &str) {
        self.break_line();
        for line in harmless(text).lines() {
            self.put(&self.style.dim(&format!("> {line}")));
            self.put("\n");
        }
        self.section = Section::Line;
    }

    /// Says something on stderr, on a line of its own.
    pub fn complain(&mut self, text: &str) {
        if self.terminal {
            self.break_off();
        }
        // stderr is the last resort: there is nobody else to tell
        let _ = writeln!(self.err, "acpvisor: {}", one_line(text));
    }

    /// Shows an event.
    pub fn show(&mut self, event: &Event<'_>) {
        match (self.format, event) {
            (Format::Events, event) => self.json(event),
            (Format::Text, event) => self.text_event(event),
            (Format::Result, Event::Result { text, raw: Evidence::Answer { .. }, .. })
                if !text.is_empty() =>
            {
                let text = if self.terminal { harmless(text) } else { text.clone() };
                self.put(&(text.trim_end_matches('\n').to_owned() + "\n"));
            }
            (Format::Result, _) => {}
        }
        if let Event::ToolResult { denied: true, summary, .. } = event {
            self.complain(summary);
        }
    }

    fn text_event(&mut self, event: &Event<'_>) {
        match event {
            Event::Text { text, starts, .. } => self.piece(Section::Text, text, *starts),
            Event::ToolUse { tool, summary, .. } => self.line(tool, &one_line(summary)),
            Event::ToolResult { tool, status, summary, .. } => self.tool_result(tool, status, summary),
            Event::Transcript { raw, .. } => match aside(raw) {
                Some(Aside::Thought(text)) => self.piece(Section::Thought, &text, false),
                Some(Aside::Plan(entries)) => self.plan(entries),
                Some(Aside::Notice(text)) => self.line("notice", &one_line(&text)),
                None => {}
            },
            Event::Init { .. } | Event::Result { .. } => {}
        }
    }

    fn tool_result(&mut self, tool: &str, status: &str, summary: &str) {
        let shown = if status == "completed" { status.to_owned() } else { self.style.red(status) };
        let colon = if summary == status { String::new() } else { format!(": {}", one_line(summary)) };
        self.line(tool, &format!("{shown}{colon}"));
    }

    /// A piece of running text. Another section, or a new message, begins on a new line.
    fn piece(&mut self, section: Section, text: &str, starts: bool) {
        if self.section != section || starts {
            self.break_line();
            if section == Section::Thought {
                self.put(&self.style.dim("[thought] "));
            }
        }
        self.section = section;
        let text = if self.terminal { harmless(text) } else { text.to_owned() };
        let shown = if section == Section::Thought { self.style.dim(&text) } else { text.clone() };
        self.put(&shown);
        self.at_line_start = text.ends_with('\n');
    }

    fn line(&mut self, label: &str, text: &str) {
        self.break_line();
        let label = format!("[{}]", one_line(label));
        let gap = if text.is_empty() { "" } else { " " };
        let line = format!("{}{gap}{text}\n", self.style.bold(&label));
        self.put(&line);
        self.section = Section::Line;
    }

    /// Agents send the whole plan each time: only what changed in it is news.
    fn plan(&mut self, entries: Vec<(char, String)>) {
        let news: Vec<_> = entries.iter().filter(|entry| !self.plan.contains(entry)).cloned().collect();
        self.plan = entries;
        if news.is_empty() {
            return;
        }
        self.line("plan", "");
        for (mark, content) in news {
            self.put(&format!("  [{mark}] {}\n", one_line(&content)));
        }
    }

    fn break_line(&mut self) {
        if !self.at_line_start {
            self.put("\n");
            self.at_line_start = true;
        }
    }

    fn json(&mut self, value: &impl serde::Serialize) {
        let line = serde_json::to_string(value).expect("events are plain data");
        self.put(&(line + "\n"));
    }

    fn put(&mut self, text: &str) {
        if self.writable {
            let done = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
            self.writable = done.is_ok();
            self.broken = done.err();
        }
    }
}

impl<O: Write, E: Write> Sink for Screen<O, E> {
    fn event(&mut self, event: &Event<'_>) {
        self.show(event);
    }
}
