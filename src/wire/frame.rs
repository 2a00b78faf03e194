//! One line, parsed once: its class, and where in it the ids lie.
//!
//! A frame is shared bytes plus offset ranges. It is never printed again: what leaves the house is the same
//! bytes with other ids spliced in ([`crate::wire::outgoing`]).

use std::num::NonZeroU32;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Value, value::RawValue};
use smallvec::SmallVec;

use crate::limits::ID_BYTES_MAX;

use super::{
    error::RpcError,
    method::Method,
    parse::{Members, Update, session_references, text},
};

/// A range of bytes in a line. Never empty, so that an optional one takes no more room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    start: u32,
    end: NonZeroU32,
}

impl Span {
    fn of(line: &[u8], part: &str) -> Self {
        let start = part.as_ptr() as usize - line.as_ptr() as usize;
        let at = |n: usize| u32::try_from(n).expect("a line is at most 32 MiB");
        Self { start: at(start), end: NonZeroU32::new(at(start + part.len())).expect("a value has a byte") }
    }

    /// The range itself.
    pub fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end.get() as usize
    }
}

/// What a line is by its shape (R2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// A string `method` and an `id`.
    Request(Method),
    /// A string `method` and no `id`.
    Notification(Method),
    /// An unsigned integer `id` and a `result` or an `error`.
    Response {
        /// Whether the answer is a `result`.
        ok: bool,
    },
    /// Valid JSON, but none of these.
    Unrecognised,
}

/// Which update a `session/update` carries, as far as the daemon cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the protocol's own")]
pub enum UpdateKind {
    ToolCall,
    ToolCallUpdate,
    Subagent,
    SessionInfo,
    /// `current_mode_update` or `config_option_update`.
    Settings,
    Other,
}

/// The state of a tool call in an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolStatus {
    /// Completed or failed.
    Terminal,
    /// Anything else that is named.
    Open,
    /// Not named.
    Unnamed,
}

/// What is known of a `session/update`.
#[derive(Debug, Clone, Copy)]
pub struct UpdateFacts {
    /// Its kind.
    pub kind: UpdateKind,
    /// Where its tool call id stands, quotes included.
    pub tool_call: Option<Span>,
    /// The tool call's status.
    pub status: ToolStatus,
    /// Where `update.sessionId` stands: the child that a `subagent_update` announces.
    pub child: Option<Span>,
}

/// Why a line is not as the specification wants it; tolerated unless the agent is `strict_wire` (R6).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flaws {
    /// A member of the envelope stands twice.
    pub repeated: bool,
    /// The version tag is not `2.0`.
    pub version: bool,
    /// `result` and `error` together.
    pub both: bool,
}

/// One line.
#[derive(Debug, Clone)]
pub struct Frame {
    line: Bytes,
    class: Class,
    id: Option<Span>,
    method: Option<Span>,
    /// Session ids to be spliced when the line leaves.
    sessions: SmallVec<[Span; 2]>,
    request_id: Option<Span>,
    update: Option<UpdateFacts>,
    repeated_params: bool,
    flaws: Flaws,
    /// Holds a raw U+2028 or U+2029, which leaves escaped (R12).
    separators: bool,
}

impl Frame {
    /// Parses a line without its newline. `Err` gives the line back: it is no JSON.
    pub fn parse(line: Bytes) -> Result<Self, Bytes> {
        let Ok(json) = std::str::from_utf8(&line) else { return Err(line) };
        // Anything but an object is valid JSON at best, and then unrecognised.
        if !json.trim_start().starts_with('{') {
            let valid = serde_json::from_str::<serde::de::IgnoredAny>(json).is_ok();
            return if valid { Ok(Self::unrecognised(line)) } else { Err(line) };
        }
        match serde_json::from_str::<Members<'_>>(json) {
            Ok(members) => Ok(Self::of(&line, &members)),
            Err(_) => Err(line),
        }
    }

    fn of(line: &Bytes, m: &Members<'_>) -> Self {
        let span = |part: &RawValue| Span::of(line, part.get());
        let mut sessions = SmallVec::new();
        let mut name = |part: Option<&RawValue>| {
            sessions.extend(part.filter(|p| p.get().starts_with('"')).map(span));
        };
        let params = m.params.as_ref();
        name(params.and_then(|p| p.session_id));
        let update = params.and_then(|p| p.update.as_ref());
        if let Some(u) = update {
            [u.session_id, u.sender, u.recipient].into_iter().for_each(&mut name);
            u.content.map(session_references).into_iter().flatten().for_each(|r| name(Some(r)));
        }
        [&m.result, &m.error].into_iter().for_each(|b| name(b.as_ref().and_then(|b| b.session_id)));
        Self {
            class: class(m),
            id: m.id.map(span),
            method: m.method.map(span),
            sessions,
            request_id: params.and_then(|p| p.request_id).map(span),
            update: update.map(|u| facts(line, u)),
            repeated_params: params.is_some_and(|p| p.repeated) || update.is_some_and(|u| u.repeated),
            flaws: Flaws {
                repeated: m.repeated,
                version: m.jsonrpc.is_none_or(|v| v.get() != "\"2.0\""),
                both: m.result.is_some() && m.error.is_some(),
            },
            separators: has_separator(line),
            line: line.clone(),
        }
    }

    fn unrecognised(line: Bytes) -> Self {
        Self {
            line,
            class: Class::Unrecognised,
            id: None,
            method: None,
            sessions: SmallVec::new(),
            request_id: None,
            update: None,
            repeated_params: false,
            flaws: Flaws::default(),
            separators: false,
        }
    }

    /// A request that the daemon authors.
    pub fn request(method: &str, params: &impl Serialize) -> Self {
        #[derive(Serialize)]
        struct Line<'a, P> {
            jsonrpc: &'a str,
            id: u8,
            method: &'a str,
            params: &'a P,
        }
        Self::author(&Line { jsonrpc: "2.0", id: 0, method, params })
    }

    /// A notification that the daemon authors.
    pub fn notification(method: &str, params: &impl Serialize) -> Self {
        #[derive(Serialize)]
        struct Line<'a, P> {
            jsonrpc: &'a str,
            method: &'a str,
            params: &'a P,
        }
        Self::author(&Line { jsonrpc: "2.0", method, params })
    }

    /// An answer that the daemon authors; the id is spliced when it leaves.
    pub fn result(result: &impl Serialize) -> Self {
        #[derive(Serialize)]
        struct Line<'a, R> {
            jsonrpc: &'a str,
            id: u8,
            result: &'a R,
        }
        Self::author(&Line { jsonrpc: "2.0", id: 0, result })
    }

    /// An error answer that the daemon authors; the id is spliced when it leaves.
    pub fn error(error: &RpcError) -> Self {
        #[derive(Serialize)]
        struct Line<'a> {
            jsonrpc: &'a str,
            id: u8,
            error: &'a RpcError,
        }
        Self::author(&Line { jsonrpc: "2.0", id: 0, error })
    }

    /// An error that answers nothing that could be told apart: its id is null (R13).
    pub fn null_error(error: &RpcError) -> Self {
        Self::author(&serde_json::json!({ "jsonrpc": "2.0", "id": Value::Null, "error": error }))
    }

    fn author(line: &impl Serialize) -> Self {
        let text = serde_json::to_string(line).expect("what the daemon authors is plain data");
        Self::parse(Bytes::from(text)).expect("what the daemon authors is JSON")
    }

    /// The line as it came, without its newline.
    pub fn line(&self) -> &Bytes {
        &self.line
    }

    /// Its class.
    pub fn class(&self) -> Class {
        self.class
    }

    /// What is wrong with it, as far as strictness cares.
    pub fn flaws(&self) -> Flaws {
        self.flaws
    }

    /// Whether an object that routing reads repeats a key (R12).
    pub fn repeats(&self) -> bool {
        self.repeated_params || self.flaws.repeated
    }

    /// Facts of a `session/update`.
    pub fn update(&self) -> Option<UpdateFacts> {
        self.update
    }

    /// The bytes of a span.
    pub fn bytes(&self, span: Span) -> &[u8] {
        &self.line[span.range()]
    }

    /// The JSON-RPC id, as written.
    pub fn id(&self) -> Option<&[u8]> {
        self.id.map(|s| self.bytes(s))
    }

    /// The id of a response as a number.
    pub fn id_number(&self) -> Option<u64> {
        std::str::from_utf8(self.id()?).ok()?.parse().ok()
    }

    /// Whether the id is one a request may have: a number, a string or null (R3), and no burden to give back.
    pub fn id_is_proper(&self) -> bool {
        let id = self.id().filter(|id| id.len() <= ID_BYTES_MAX);
        id.and_then(|id| id.first()).is_some_and(|b| matches!(b, b'"' | b'n' | b'-' | b'0'..=b'9'))
    }

    /// The method's name, unescaped; empty without one.
    pub fn method_name(&self) -> String {
        let raw = self.method.map_or(&b"\"\""[..], |s| self.bytes(s));
        serde_json::from_slice(raw).unwrap_or_default()
    }

    /// Where session ids stand, quotes included.
    pub fn sessions(&self) -> &[Span] {
        &self.sessions
    }

    /// The first session id, unescaped: the one that routes the line.
    pub fn session(&self) -> Option<String> {
        serde_json::from_slice(self.bytes(*self.sessions.first()?)).ok()
    }

    /// Keeps only the session ids that are written exactly so; the others are somebody else's and pass (R229).
    pub fn keep_sessions(&mut self, raw: &[u8]) {
        let line = &self.line;
        self.sessions.retain(|s| &line[s.range()] == raw);
    }

    /// `params.requestId`, as written: names a request on this wire.
    pub fn request_id(&self) -> Option<&[u8]> {
        self.request_id.map(|s| self.bytes(s))
    }

    /// A member at the top of the line, whole: `params`, `result` or `error`.
    pub fn member(&self, name: &str) -> Option<&RawValue> {
        let mut all = super::patch::members(&self.line)?;
        all.retain(|(key, _)| key == name);
        all.pop().map(|(_, value)| value)
    }

    pub(super) fn spans(&self) -> (Option<Span>, &[Span], Option<Span>, bool) {
        (self.id, &self.sessions, self.request_id, self.separators)
    }
}

fn class(m: &Members<'_>) -> Class {
    if let Some(method) = m.method.filter(|m| m.get().starts_with('"')) {
        let method = Method::of(&text(method));
        return if m.id.is_some() { Class::Request(method) } else { Class::Notification(method) };
    }
    let numbered = m.id.is_some_and(|id| id.get().bytes().all(|b| b.is_ascii_digit()));
    match (numbered, m.result.is_some(), m.error.is_some()) {
        (true, true, _) => Class::Response { ok: true },
        (true, false, true) => Class::Response { ok: false },
        _ => Class::Unrecognised,
    }
}

fn facts(line: &[u8], u: &Update<'_>) -> UpdateFacts {
    let kind = match u.kind.as_deref() {
        Some("tool_call") => UpdateKind::ToolCall,
        Some("tool_call_update") => UpdateKind::ToolCallUpdate,
        Some("subagent_update") => UpdateKind::Subagent,
        Some("session_info_update") => UpdateKind::SessionInfo,
        Some("current_mode_update" | "config_option_update") => UpdateKind::Settings,
        _ => UpdateKind::Other,
    };
    let status = match u.status.map(RawValue::get) {
        Some("\"completed\"" | "\"failed\"") => ToolStatus::Terminal,
        Some(s) if s != "null" => ToolStatus::Open,
        _ => ToolStatus::Unnamed,
    };
    let span = |part: &RawValue| Span::of(line, part.get());
    UpdateFacts { kind, tool_call: u.tool_call_id.map(span), status, child: u.session_id.map(span) }
}

/// Whether a raw U+2028 or U+2029 stands in there.
fn has_separator(line: &[u8]) -> bool {
    memchr::memchr_iter(0xe2, line).any(|at| matches!(line.get(at + 1..at + 3), Some([0x80, 0xa8 | 0xa9])))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(line: &str) -> Frame {
        Frame::parse(Bytes::copy_from_slice(line.as_bytes())).expect("JSON")
    }

    /// R2: the four classes, by shape.
    #[test]
    fn every_shape_has_its_class() {
        let response = Class::Response { ok: true };
        for (line, class) in [
            (r#"{"id":1,"method":"session/prompt"}"#, Class::Request(Method::SessionPrompt)),
            (r#"{"id":null,"method":"x"}"#, Class::Request(Method::Other)),
            (r#"{"method":"_a/b"}"#, Class::Notification(Method::Extension)),
            (r#"{"method":"session\/update"}"#, Class::Notification(Method::SessionUpdate)),
            (r#"{"id":1,"result":null}"#, response),
            (r#"{"id":1,"result":1,"error":{}}"#, response),
            (r#"{"id":1,"error":{"code":1}}"#, Class::Response { ok: false }),
            (r#"{"id":"1","result":{}}"#, Class::Unrecognised),
            (r#"{"id":-1,"result":{}}"#, Class::Unrecognised),
            (r#"{"id":1.5,"result":{}}"#, Class::Unrecognised),
            (r#"{"id":1}"#, Class::Unrecognised),
            (r#"{"id":1,"method":3,"result":{}}"#, response),
            ("{}", Class::Unrecognised),
            ("[]", Class::Unrecognised),
            ("3", Class::Unrecognised),
        ] {
            assert_eq!(frame(line).class(), class, "{line}");
        }
        assert!(Frame::parse(Bytes::from_static(b"garbage")).is_err());
        assert!(Frame::parse(Bytes::from_static(b"{\"jsonrpc\":\"2.0\",\"method\":\"session/upda")).is_err());
        assert!(Frame::parse(Bytes::from_static(b"{\"a\":\"caf\xe9\"}")).is_err());
    }

    /// R229: the known fields that may name a session are found, others are not.
    #[test]
    fn session_ids_are_found_where_the_protocol_puts_them() {
        let count = |line: &str| frame(line).sessions().len();
        assert_eq!(count(r#"{"id":1,"result":{"sessionId":"a"}}"#), 1);
        assert_eq!(count(r#"{"id":1,"error":{"code":1,"data":{"sessionId":"a"}}}"#), 1);
        assert_eq!(count(r#"{"method":"x","params":{"sessionId":"a","update":{"senderSessionId":"a"}}}"#), 2);
        assert_eq!(
            count(r#"{"method":"x","params":{"update":{"content":[{"type":"session","sessionId":"c"}]}}}"#),
            1
        );
        assert_eq!(count(r#"{"method":"x","params":{"sessionId":5,"_meta":{"sessionId":"a"}}}"#), 0);
    }

    /// R12: depth does not matter.
    #[test]
    fn nesting_of_ten_thousand_is_read() {
        let deep = format!(
            r#"{{"method":"x","params":{{"sessionId":"s","d":{}{}}}}}"#,
            "[".repeat(10_000),
            "]".repeat(10_000)
        );
        assert_eq!(frame(&deep).session().as_deref(), Some("s"));
    }
}
