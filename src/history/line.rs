//! One stored line, as far as history cares: an update, a request, an answer. Pure.
//!
//! Everything borrows from the line. A member that is null counts as absent, as the protocol has it.

use std::{borrow::Cow, ops::Range};

use bytes::Bytes;
use memchr::memchr_iter;
use serde_json::value::RawValue;

use super::visit;

/// A line of the wire.
#[derive(Debug)]
pub(super) enum Line<'a> {
    /// A `session/update`.
    Update(Update<'a>),
    /// Any other request or notification.
    Call {
        /// Its id; a notification has none.
        id: Option<&'a RawValue>,
        /// Its method.
        method: Cow<'a, str>,
        /// Its params.
        params: Option<&'a RawValue>,
    },
    /// An answer.
    Answer {
        /// The id of what it answers.
        id: &'a RawValue,
        /// Its result, or the error.
        outcome: Result<&'a RawValue, &'a RawValue>,
    },
    /// JSON that is none of these.
    Other,
}

/// What an update is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A piece of what somebody says.
    Chunk(Speaker),
    /// A tool call is announced.
    ToolCall,
    /// A tool call changes.
    ToolCallUpdate,
    /// One of those that count only as they stand in the end.
    Standing(Standing),
    /// A child session is announced or changes.
    Subagent,
    /// No part of the history: the commands there are, a notice.
    Passing,
    /// Anything else.
    Other,
}

/// Who says something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Speaker {
    User,
    Agent,
    Thought,
}

/// What counts only as it stands in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    Plan,
    Mode,
    Options,
    Info,
    Usage,
}

/// The status that an update of a tool call names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    /// `completed` or `failed`.
    Ended,
    /// Any other.
    Open,
    /// None.
    Unnamed,
}

/// A `session/update`.
#[derive(Debug)]
pub(super) struct Update<'a> {
    /// Whose, as written.
    pub session: &'a RawValue,
    /// What about.
    pub kind: Kind,
    /// The update itself.
    pub raw: &'a RawValue,
    /// The message that a chunk belongs to.
    pub message_id: Option<&'a RawValue>,
    /// The content of a chunk or of a tool call.
    pub content: Option<&'a RawValue>,
    /// The id of a tool call.
    pub call: Option<&'a RawValue>,
    /// Its status.
    pub status: Status,
    /// The child that is announced.
    pub child: Option<&'a RawValue>,
    /// Whether the line has no members beyond those of a plain chunk.
    bare: bool,
}

/// The lines of a row, without their newlines.
pub(super) fn lines(row: &Bytes) -> impl Iterator<Item = Bytes> {
    let mut from = 0;
    let ends = memchr_iter(b'\n', row).chain((!row.ends_with(b"\n")).then_some(row.len()));
    let ranges = ends.map(move |end| std::mem::replace(&mut from, end + 1)..end);
    ranges.filter(|range: &Range<usize>| !range.is_empty()).map(|range| row.slice(range))
}

impl<'a> Line<'a> {
    /// Reads a line; nothing when it is no object.
    pub fn read(line: &'a [u8]) -> Option<Self> {
        let (mut id, mut method, mut params) = (None, None, None);
        let (mut result, mut error, mut bare) = (None, None, true);
        let whole = visit::object(std::str::from_utf8(line).ok()?, |key, value| match key {
            "jsonrpc" => {}
            "id" => id = Some(value),
            "method" => method = visit::text(value),
            "params" => params = Some(value),
            "result" => result = Some(value),
            "error" => error = Some(value),
            _ => bare = false,
        });
        let answer = |id| Some((id, result.map(Ok).or(error.map(Err))?));
        whole.then(|| match method {
            Some(method) if id.is_none() && method == "session/update" => {
                params.and_then(|p| Update::read(p, bare)).map_or(Self::Other, Self::Update)
            }
            Some(method) => Self::Call { id, method, params },
            None => id.and_then(answer).map_or(Self::Other, |(id, outcome)| Self::Answer { id, outcome }),
        })
    }
}

impl<'a> Update<'a> {
    fn read(params: &'a RawValue, mut bare: bool) -> Option<Self> {
        let (mut session, mut update) = (None, None);
        visit::object(params.get(), |key, value| match key {
            "sessionId" => session = Some(value),
            "update" => update = Some(value),
            _ => bare &= visit::is_null(value),
        });
        let mut read = Self {
            session: session.filter(|s| s.get().starts_with('"'))?,
            kind: Kind::Other,
            raw: update?,
            message_id: None,
            content: None,
            call: None,
            status: Status::Unnamed,
            child: None,
            bare,
        };
        visit::object(read.raw.get(), |key, value| read.note(key, value)).then_some(read)
    }

    fn note(&mut self, key: &str, value: &'a RawValue) {
        if visit::is_null(value) {
            return;
        }
        match key {
            "sessionUpdate" => self.kind = visit::text(value).map_or(Kind::Other, |name| kind(&name)),
            "content" => self.content = Some(value),
            "messageId" => self.message_id = Some(value),
            "toolCallId" => self.call = Some(value),
            "status" => self.status = status(value),
            "sessionId" => self.child = Some(value),
            _ => self.bare = false,
        }
    }

    /// The text of a chunk that is text and nothing more, as it stands between its quotes.
    pub fn plain_text(&self) -> Option<&'a str> {
        let id_is_plain = self.message_id.is_none_or(|id| id.get().starts_with('"'));
        let bare = self.bare && id_is_plain && self.child.is_none();
        plain_text(self.content.filter(|_| bare)?)
    }
}

/// The text of a block of content that is text and nothing more.
pub(super) fn plain_text(block: &RawValue) -> Option<&str> {
    let (text, bare) = text_of(block);
    text.filter(|_| bare)
}

/// The text of a block of content, whatever stands beside it.
pub(super) fn block_text(block: &RawValue) -> Option<&str> {
    text_of(block).0
}

fn text_of(block: &RawValue) -> (Option<&str>, bool) {
    let (mut is_text, mut text, mut bare) = (false, None, true);
    visit::object(block.get(), |key, value| match key {
        "type" => is_text = value.get() == "\"text\"",
        "text" => text = visit::body(value),
        _ => bare &= visit::is_null(value),
    });
    (text.filter(|_| is_text), bare)
}

fn kind(name: &str) -> Kind {
    match name {
        "agent_message_chunk" => Kind::Chunk(Speaker::Agent),
        "agent_thought_chunk" => Kind::Chunk(Speaker::Thought),
        "user_message_chunk" => Kind::Chunk(Speaker::User),
        "tool_call" => Kind::ToolCall,
        "tool_call_update" => Kind::ToolCallUpdate,
        "plan" => Kind::Standing(Standing::Plan),
        "current_mode_update" => Kind::Standing(Standing::Mode),
        "config_option_update" => Kind::Standing(Standing::Options),
        "session_info_update" => Kind::Standing(Standing::Info),
        "usage_update" => Kind::Standing(Standing::Usage),
        "subagent_update" => Kind::Subagent,
        "available_commands_update" | "notice" => Kind::Passing,
        _ => Kind::Other,
    }
}

fn status(value: &RawValue) -> Status {
    match value.get() {
        "\"completed\"" | "\"failed\"" => Status::Ended,
        _ => Status::Open,
    }
}

impl Speaker {
    /// The update that carries what it says.
    pub fn update(self) -> &'static str {
        match self {
            Self::User => "user_message_chunk",
            Self::Agent => "agent_message_chunk",
            Self::Thought => "agent_thought_chunk",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(line: &str) -> Option<String> {
        match Line::read(line.as_bytes())? {
            Line::Update(update) => update.plain_text().map(str::to_owned),
            _ => None,
        }
    }

    fn chunk(envelope: &str, params: &str, update: &str, content: &str) -> String {
        format!(
            r#"{{"method":"session/update"{envelope},"params":{{"update":{{"content":{{"type":"text","text":"a\n"{content}}},"sessionUpdate":"agent_message_chunk"{update}}},"sessionId":"p"{params}}}}}"#
        )
    }

    /// R37: a chunk is plain only when nothing that could mean something stands beside its text; null means nothing.
    #[test]
    fn a_member_beyond_the_plain_ones_is_seen_wherever_it_is() {
        let (nothing, more) = (r#","_meta":null"#, r#","_meta":{}"#);
        assert_eq!(plain(&chunk("", nothing, nothing, nothing)).as_deref(), Some(r"a\n"));
        for at in 0..4 {
            let part = |n| if n == at { more } else { "" };
            assert_eq!(plain(&chunk(part(0), part(1), part(2), part(3))), None, "{at}");
        }
        assert_eq!(plain(&chunk("", "", r#","messageId":7"#, "")), None);
        assert!(plain(&chunk("", "", r#","messageId":"7""#, "")).is_some());
    }

    #[test]
    fn a_row_is_its_lines() {
        let all = |row: &'static str| lines(&Bytes::from(row)).map(|l| l.to_vec()).collect::<Vec<_>>();
        assert_eq!(all("a\n\nbc\n"), [b"a".to_vec(), b"bc".to_vec()]);
        assert_eq!(all("a\nb"), [b"a", b"b"]);
        assert!(all("").is_empty());
    }

    #[test]
    fn lines_are_told_apart_by_their_shape() {
        let read = |line: &'static str| Line::read(line.as_bytes());
        assert!(matches!(read(r#"{"id":"x","result":null}"#), Some(Line::Answer { outcome: Ok(_), .. })));
        assert!(matches!(read(r#"{"id":1,"error":{}}"#), Some(Line::Answer { outcome: Err(_), .. })));
        assert!(matches!(
            read(r#"{"id":1,"method":"session/update"}"#),
            Some(Line::Call { id: Some(_), .. })
        ));
        assert!(matches!(read(r#"{"method":"session/update","params":{}}"#), Some(Line::Other)));
        assert!(matches!(read("{}"), Some(Line::Other)));
        assert!(read("[]").is_none() && read("{").is_none());
    }
}
