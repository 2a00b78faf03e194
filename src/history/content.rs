//! The content of a tool call as replay shows it: terminals by their text, long text by its head and tail, what is
//! large and no text by its name (R37, R281). Pure.
//!
//! All text items together have one limit, all others have another. A first look tells whether anything is to be
//! changed at all.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::{author, line, literal, terminals::Terminals, visit};
use crate::limits::{REPLAY_TEXT_BYTES_MAX, REPLAY_WHOLE_BYTES_MAX};

/// Items that are left out and named; more are counted.
const NAMED_MAX: usize = 8;

/// What is to become of terminals.
#[derive(Debug, Clone, Copy)]
pub(super) enum Show<'t> {
    /// They stay: the call is still open, and more may be known later.
    Keep,
    /// They are left out: what they say is shown when the call ends.
    Omit,
    /// Their text stands for them.
    Text(&'t Terminals),
}

/// The content, shorter if it is too long.
pub(super) fn shorter<'a>(raw: &'a str, terminals: Show<'_>) -> Cow<'a, str> {
    if raw.len() <= REPLAY_TEXT_BYTES_MAX && (matches!(terminals, Show::Keep) || !names_terminal(raw)) {
        return Cow::Borrowed(raw);
    }
    let mut look = Look::default();
    let is_list = visit::list(raw, |item| look.at(item, &Item::of(item, terminals)));
    if !is_list || !look.is_to_change() {
        return Cow::Borrowed(raw);
    }
    let mut shown = Shown { text: look.text, ..Shown::default() };
    visit::list(raw, |raw| shown.item(raw, &Item::of(raw, terminals)));
    Cow::Owned(shown.finish())
}

/// Whether a terminal may be in there.
pub(super) fn names_terminal(raw: &str) -> bool {
    memchr::memmem::find(raw.as_bytes(), b"terminal").is_some()
}

enum Item<'a> {
    /// Text, as it stands between quotes.
    Text(&'a str),
    /// A terminal's text, likewise.
    Terminal(String),
    /// A terminal that is not shown.
    Omitted,
    /// Something that is shown whole or not at all.
    Whole,
}

impl<'a> Item<'a> {
    fn of(item: &'a RawValue, terminals: Show<'_>) -> Self {
        let (mut kind, mut content, mut terminal) = (None, None, None);
        visit::object(item.get(), |key, value| match key {
            "type" => kind = visit::text(value),
            "content" => content = Some(value),
            "terminalId" => terminal = Some(value),
            _ => {}
        });
        match (kind.as_deref(), terminals) {
            (Some("content"), _) => content.and_then(line::block_text).map_or(Self::Whole, Self::Text),
            (Some("terminal"), Show::Omit) => Self::Omitted,
            (Some("terminal"), Show::Text(known)) => {
                Self::Terminal(known.text(terminal.map_or("", RawValue::get)))
            }
            _ => Self::Whole,
        }
    }
}

/// What a first look tells.
#[derive(Default)]
struct Look {
    text: usize,
    whole: usize,
    terminals: bool,
}

impl Look {
    fn at(&mut self, raw: &RawValue, item: &Item<'_>) {
        match item {
            Item::Text(body) => self.text += body.len(),
            Item::Terminal(body) => self.text += body.len(),
            Item::Omitted => {}
            Item::Whole => self.whole += raw.get().len(),
        }
        self.terminals |= matches!(item, Item::Terminal(_) | Item::Omitted);
    }

    fn is_to_change(&self) -> bool {
        self.terminals || self.text > REPLAY_TEXT_BYTES_MAX || self.whole > REPLAY_WHOLE_BYTES_MAX
    }
}

/// The list that is being written.
#[derive(Default)]
struct Shown {
    out: String,
    /// Bytes of all text.
    text: usize,
    /// Bytes of the text that was passed.
    passed: usize,
    left_out: usize,
    /// Where the note on them is to stand.
    note_at: Option<usize>,
    whole: usize,
    named: Vec<String>,
    unnamed: usize,
}

impl Shown {
    fn item(&mut self, raw: &RawValue, item: &Item<'_>) {
        match item {
            Item::Text(body) => self.text(Some(raw), body),
            Item::Terminal(body) => self.text(None, body),
            Item::Omitted => {}
            Item::Whole => self.whole(raw),
        }
    }

    fn text(&mut self, raw: Option<&RawValue>, body: &str) {
        let (head, tail) = self.kept(body);
        self.passed += body.len();
        if head == tail {
            let item =
                raw.map_or_else(|| Cow::Owned(author::text_item(body)), |raw| Cow::Borrowed(raw.get()));
            return self.push(&item);
        }
        self.left_out += literal::length(&body[head..tail]);
        if self.note_at.is_none() {
            let (begin, end) = author::TEXT_ITEM;
            self.push(begin);
            self.out.push_str(&body[..head]);
            self.note_at = Some(self.out.len());
            self.out.extend([&body[tail..], end]);
        } else if tail < body.len() {
            self.push(&author::text_item(&body[tail..]));
        }
    }

    /// Where in a text what is left out begins and ends: it is in the middle of all text together.
    fn kept(&self, body: &str) -> (usize, usize) {
        if self.text <= REPLAY_TEXT_BYTES_MAX {
            return (body.len(), body.len());
        }
        let head = literal::head_of(REPLAY_TEXT_BYTES_MAX);
        let tail_at = self.text - (REPLAY_TEXT_BYTES_MAX - head);
        let head = literal::floor(body, head.saturating_sub(self.passed));
        (head, literal::ceil(body, tail_at.saturating_sub(self.passed)).max(head))
    }

    fn whole(&mut self, raw: &RawValue) {
        if self.whole + raw.get().len() <= REPLAY_WHOLE_BYTES_MAX {
            self.whole += raw.get().len();
            self.push(raw.get());
        } else if self.named.len() < NAMED_MAX {
            self.named.push(named(raw));
        } else {
            self.unnamed += 1;
        }
    }

    fn push(&mut self, item: &str) {
        self.out.push(if self.out.is_empty() { '[' } else { ',' });
        self.out.push_str(item);
    }

    fn finish(mut self) -> String {
        if let Some(at) = self.note_at {
            self.out.insert_str(at, &literal::note(self.left_out));
        }
        if !self.named.is_empty() {
            let more = if self.unnamed > 0 { format!(", {} more", self.unnamed) } else { String::new() };
            let note = format!("[left out because of their size: {}{more}]", self.named.join(", "));
            self.push(&author::text_item(&literal::of(&note)));
        }
        if self.out.is_empty() {
            self.out.push('[');
        }
        self.out + "]"
    }
}

/// What an item is, in words.
fn named(item: &RawValue) -> String {
    let inner = visit::member(item.get(), "content");
    let kind = inner.and_then(|inner| visit::text_member(inner.get(), "type"));
    let kind = kind.or_else(|| visit::text_member(item.get(), "type")).unwrap_or("item".into());
    let path = visit::text_member(item.get(), "path").unwrap_or_default();
    let (kind, path) = (crate::event::cut(&kind), crate::event::cut(&path));
    let of = if path.is_empty() { "" } else { " of " };
    format!("{kind}{of}{path} ({} bytes)", item.get().len())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn shown(content: &Value, terminals: Show<'_>) -> Value {
        serde_json::from_str(&shorter(&content.to_string(), terminals)).unwrap()
    }

    fn text(text: &str) -> Value {
        json!({ "type": "content", "content": { "type": "text", "text": text } })
    }

    fn said(content: &Value) -> String {
        let texts = content.as_array().unwrap().iter();
        texts.filter_map(|item| item["content"]["text"].as_str()).collect()
    }

    /// R281: of all text together head and tail are kept, with the number of bytes that are missing.
    #[test]
    fn long_text_is_cut_to_head_and_tail_over_all_items() {
        let items: Vec<Value> = (0..40).map(|n| text(&format!("<{n}>{}", "ä🦀\n".repeat(400)))).collect();
        let whole = said(&json!(items));
        let shown = said(&shown(&json!(items), Show::Keep));
        let (head, rest) = shown.split_once("\n[… ").unwrap();
        let (left_out, tail) = rest
            .split_once(
                " bytes are left out here …]
",
            )
            .unwrap();
        assert!(whole.starts_with(head) && whole.ends_with(tail) && shown.len() < 70_000);
        assert_eq!(head.len() + tail.len() + left_out.parse::<usize>().unwrap(), whole.len());
    }

    /// R281: diffs and images pass whole up to a bound, a note names those that do not.
    #[test]
    fn what_is_too_large_and_no_text_is_named() {
        let diff = |n: usize| json!({ "type": "diff", "path": format!("/f{n}"), "newText": "x".repeat(n) });
        let image = json!({ "type": "content", "content": { "type": "image", "data": "A".repeat(2 << 20) } });
        let items = [diff(1_000_000), diff(100_000), diff(10), image, text("end")];
        let shown = shown(&json!(items), Show::Keep);
        assert_eq!((&shown[0], &shown[1], &shown[2]), (&items[0], &items[2], &items[4]));
        let note = shown[3]["content"]["text"].as_str().unwrap();
        assert!(note.starts_with("[left out because of their size: diff of /f100000 (1"), "{note}");
        assert!(note.contains(", image (2"), "{note}");
    }

    /// R37: a terminal that is gone is replayed as its text; until the call ends it waits.
    #[test]
    fn a_terminal_is_shown_by_its_text() {
        let mut known = Terminals::default();
        let raw = |json: &str| RawValue::from_string(json.to_owned()).unwrap();
        known.asked(&raw("1"), Some(&raw(r#"{"terminalId":"t"}"#)));
        known.answered(&raw("1"), Ok(&raw(r#"{"output":"ok\n"}"#)));
        let terminal = json!({ "type": "terminal", "terminalId": "t" });
        let content = json!([text("a"), terminal, { "type": "terminal", "terminalId": "u" }]);
        assert_eq!(shown(&content, Show::Keep), content);
        assert_eq!(shown(&content, Show::Omit), json!([text("a")]));
        assert_eq!(shown(&json!([terminal]), Show::Omit), json!([]));
        let unknown = "[the output of this terminal was not kept]";
        assert_eq!(
            shown(&content, Show::Text(&known)),
            json!([
                text("a"),
                text(
                    "ok
"
                ),
                text(unknown)
            ])
        );
        assert_eq!(shown(&json!([text("the terminal")]), Show::Omit), json!([text("the terminal")]));
    }

    /// R281: however many items there are, what is shown of them is bounded.
    #[test]
    fn many_items_are_bounded() {
        let mut known = Terminals::default();
        let raw = |json: &str| RawValue::from_string(json.to_owned()).unwrap();
        known.asked(&raw("1"), Some(&raw(r#"{"terminalId":"t"}"#)));
        known.answered(&raw("1"), Ok(&raw(&format!(r#"{{"output":"{}"}}"#, "x".repeat(60_000)))));
        let items = json!(vec![json!({ "type": "terminal", "terminalId": "t" }); 2_000]);
        assert!(shown(&items, Show::Text(&known)).to_string().len() < 80_000);
        assert!(shown(&json!(vec![3; 3_000_000]), Show::Keep).to_string().len() < 3 << 20);
    }
}
