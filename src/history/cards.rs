//! The tool calls of a replay for those who read it: what was announced and what it came to are one card (R31, R270).
//! Pure.
//!
//! Owns the cards of calls that are open, within bounds.

use std::collections::HashMap;

use serde_json::value::RawValue;

use super::{
    card::Card,
    line::{self, Update},
    literal, visit,
};
use crate::{
    event::cut,
    limits::{REPLAY_CALLS_BYTES_MAX, TOOL_CALLS_MAX},
};

/// Cards by session and id, as written.
#[derive(Debug, Default)]
pub(super) struct Cards {
    open: HashMap<String, Card>,
    bytes: usize,
}

impl Cards {
    /// What an update says of a call.
    pub fn note(&mut self, update: &Update<'_>) {
        if self.open.len() >= 2 * TOOL_CALLS_MAX || self.bytes > REPLAY_CALLS_BYTES_MAX {
            *self = Self::default();
        }
        let card = self.open.entry(key(update)).or_default();
        self.bytes -= card.bytes();
        card.merge(update.raw);
        self.bytes += card.bytes();
    }

    /// The call with its last update; nothing more will come of it.
    pub fn end(&mut self, update: &Update<'_>) -> Card {
        self.note(update);
        let card = self.open.remove(&key(update)).unwrap_or_default();
        self.bytes -= card.bytes();
        card
    }
}

fn key(update: &Update<'_>) -> String {
    let id = update.call.map_or("", RawValue::get);
    [update.session.get(), id].concat()
}

impl Card {
    /// Its kind and its title, in one line.
    pub(super) fn name(&self) -> String {
        let title = self.text("title").unwrap_or_default();
        let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
        format!("{}: {}", self.kind(), cut(&title))
    }

    /// Its kind; `other` when none was given.
    pub(super) fn kind(&self) -> String {
        self.text("kind").map_or_else(|| "other".to_owned(), |kind| cut(&kind))
    }

    /// A member that is a string.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        let raw = self.get(name)?;
        Some(literal::read(raw.strip_prefix('"')?.strip_suffix('"')?))
    }

    /// What it put out, as it stands between quotes: the texts of its content, else its raw output.
    pub(super) fn output(&self) -> String {
        let mut body = String::new();
        visit::list(self.get("content").unwrap_or("[]"), |item| {
            if let Some(text) = visit::member(item.get(), "content").and_then(line::block_text) {
                body.push_str(if body.is_empty() { "" } else { "\\n" });
                body.push_str(text);
            }
        });
        match self.get("rawOutput").filter(|_| body.is_empty()) {
            Some(raw) if raw.starts_with('"') => raw[1..raw.len() - 1].to_owned(),
            Some(raw) => literal::of(raw),
            None => body,
        }
    }

    /// Its diffs.
    pub(super) fn diffs(&self) -> Vec<&RawValue> {
        let mut diffs = Vec::new();
        visit::list(self.get("content").unwrap_or("[]"), |item| {
            if visit::text_member(item.get(), "type").is_some_and(|kind| kind == "diff") {
                diffs.push(item);
            }
        });
        diffs
    }
}
