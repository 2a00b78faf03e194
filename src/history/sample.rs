//! Rows for the tests of this room, as a session would store them: the peer calls the session `p`, the daemon `s`.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Mark, Replay};
use crate::{
    id::SessionId,
    store::{Kind, Stored},
    wire::Frame,
};

/// The daemon's id.
pub fn session() -> SessionId {
    SessionId::parse("s").expect("an id")
}

/// Rows, numbered from 1, one second apart.
#[derive(Debug, Default, Clone)]
pub struct Sample {
    pub rows: Vec<Stored>,
    turn: u64,
    /// The number of the last request in either direction.
    request: u64,
}

impl Sample {
    /// With the mark of a process that took the session up.
    pub fn new() -> Self {
        Self::default().opened("new", "p")
    }

    /// Rows from elsewhere.
    pub fn of(rows: Vec<Stored>) -> Self {
        Self { rows, ..Self::default() }
    }

    pub fn row(mut self, kind: Kind, lines: &[String]) -> Self {
        let number = self.rows.len() as i64 + 1;
        let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let time_ms = 1_767_225_600_000 + number * 1_000;
        self.rows.push(Stored { number, session: session(), time_ms, kind, lines: Bytes::from(lines) });
        self
    }

    pub fn line(self, kind: Kind, line: &Value) -> Self {
        self.row(kind, &[line.to_string()])
    }

    pub fn mark(self, mark: &Mark<'_>) -> Self {
        self.line(Kind::Mark, &json!(mark))
    }

    pub fn opened(self, how: &str, peer: &str) -> Self {
        self.mark(&Mark::Opened { agent: "claude".into(), how: how.into(), peer_session: peer.into() })
    }

    /// A turn of the host's begins with these blocks, the first of them context.
    pub fn prompt_blocks(mut self, source: &str, context_blocks: usize, blocks: &Value) -> Self {
        self.turn += 1;
        self.request += 1;
        let request = json!({ "jsonrpc": "2.0", "id": self.request, "method": "session/prompt",
            "params": { "sessionId": "p", "prompt": blocks } });
        let turn = self.turn;
        self.mark(&Mark::TurnStarted { turn, source: source.to_owned().into(), context_blocks })
            .line(Kind::Sent, &request)
    }

    /// A turn of the host's begins with this text.
    pub fn prompt(self, text: &str) -> Self {
        self.prompt_blocks("host", 0, &json!([{ "type": "text", "text": text }]))
    }

    /// The peer answers the prompt, and the turn is over.
    pub fn ends(self, stop_reason: &str) -> Self {
        let (id, turn) = (self.request, self.turn);
        let answer = json!({ "jsonrpc": "2.0", "id": id, "result": { "stopReason": stop_reason } });
        let stop_reason = Some(stop_reason.to_owned().into());
        self.line(Kind::Peer, &answer).mark(&Mark::TurnEnded { turn, stop_reason, error: None })
    }

    /// The turn ends without an answer of the peer's.
    pub fn fails(self, error: Value) -> Self {
        let turn = self.turn;
        self.mark(&Mark::TurnEnded { turn, stop_reason: None, error: Some(error) })
    }

    /// An update of the session.
    pub fn update(self, update: &Value) -> Self {
        self.update_of("p", update)
    }

    pub fn update_of(self, session: &str, update: &Value) -> Self {
        self.line(Kind::Peer, &notification(session, update))
    }

    pub fn says(self, text: &str) -> Self {
        self.update(&chunk("agent_message_chunk", text))
    }

    /// The peer asks for the output of a terminal, and gets it.
    pub fn output(mut self, terminal: &str, output: &str) -> Self {
        self.request += 1;
        let id = format!("r{}", self.request);
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": "terminal/output",
            "params": { "sessionId": "p", "terminalId": terminal } });
        let answer =
            json!({ "jsonrpc": "2.0", "id": id, "result": { "output": output, "truncated": false } });
        self.line(Kind::Peer, &request).line(Kind::Sent, &answer)
    }

    /// The updates that a host sees.
    pub fn replayed(&self) -> Vec<Value> {
        self.frames().iter().map(|frame| params(frame)["update"].clone()).collect()
    }

    pub fn frames(&self) -> Vec<Frame> {
        let (mut replay, mut out) = (Replay::new(session()), Vec::new());
        self.rows.iter().for_each(|row| replay.take(row, &mut out));
        replay.finish(&mut out);
        out
    }
}

/// The params of a frame.
pub fn params(frame: &Frame) -> Value {
    frame.member("params").and_then(|params| serde_json::from_str(params.get()).ok()).unwrap_or_default()
}

pub fn notification(session: &str, update: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": session, "update": update } })
}

pub fn chunk(kind: &str, text: &str) -> Value {
    json!({ "sessionUpdate": kind, "content": { "type": "text", "text": text } })
}

/// A tool call is announced.
pub fn call(id: &str, title: &str) -> Value {
    json!({ "sessionUpdate": "tool_call", "toolCallId": id, "title": title, "kind": "execute", "status": "pending" })
}

/// A tool call changes.
pub fn call_update(id: &str, members: &Value) -> Value {
    let mut update = json!({ "sessionUpdate": "tool_call_update", "toolCallId": id });
    let members = members.as_object().into_iter().flatten();
    members.for_each(|(name, value)| update[name] = value.clone());
    update
}

/// A text among the content of a tool call.
pub fn text(text: &str) -> Value {
    json!({ "type": "content", "content": { "type": "text", "text": text } })
}
