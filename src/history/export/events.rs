//! The runs of a transcript as events, one JSON object a line (R29, R93 to R106, R270). Pure.
//!
//! Frames of the peer and what the daemon made of them; what was sent to the peer is no event. Invariant: the first
//! one is `init`, and every prompt that the peer had and that is over has one result.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::{
    json,
    value::{RawValue, to_raw_value},
};

use super::super::{
    Mark,
    line::{Kind as Update, Line, lines},
    names::{Names, Whose},
    visit,
};
use crate::{
    event::{Event, Mapper},
    id::SessionId,
    limits::{CONTEXT_BYTES_MAX, ID_BYTES_MAX},
    store::{Kind, Stored},
    wire::Frame,
};

/// What may be held back until it is known how the run began.
const HELD_BYTES_MAX: usize = CONTEXT_BYTES_MAX;

/// Requests that are remembered until they are answered.
const ASKED_MAX: usize = 64;

/// Turns rows into events.
#[derive(Debug)]
pub struct Events {
    mapper: Mapper,
    names: Names,
    /// What came before the first event, while it is not out.
    held: Option<Vec<u8>>,
    peer_session: Option<String>,
    /// Requests that were sent and wait for their answers: id as written.
    asked: Vec<(Box<str>, Asked)>,
    initialize: Option<Box<RawValue>>,
    opened: Option<Box<RawValue>>,
    turn: Turn,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Initialize,
    Open,
    Prompt,
}

/// How far the turn is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    None,
    Begun,
    /// The peer has its prompt, under this id.
    Sent(u64),
}

impl Events {
    /// Of that session.
    pub fn new(session: &SessionId) -> Self {
        Self {
            mapper: Mapper::new(session.as_str()),
            names: Names::new(session),
            held: Some(Vec::new()),
            peer_session: None,
            asked: Vec::new(),
            initialize: None,
            opened: None,
            turn: Turn::None,
        }
    }

    /// The next row.
    pub fn take(&mut self, row: &Stored, out: &mut Vec<u8>) {
        for line in lines(&row.lines) {
            match row.kind {
                Kind::Peer => self.peer(&line, out),
                Kind::Compact => self.compact(&line, out),
                Kind::Sent => self.sent(&line),
                Kind::Stray => self.stray(&line, out),
                Kind::Mark => self.mark(&line, out),
            }
        }
    }

    /// There are no more rows. A turn that is still open has no result: it may go on.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.init(out);
    }

    fn peer(&mut self, line: &Bytes, out: &mut Vec<u8>) {
        let Some(raw) = raw(line) else { return self.write(&self.mapper.unparsed(line), out) };
        match Line::read(line) {
            Some(Line::Update(update)) => {
                if update.kind == Update::Subagent {
                    self.names.announce(update.child);
                }
                let is_ours = self.names.whose(update.session) != Whose::Nobodys;
                let frame =
                    if is_ours { self.names.rewritten(line) } else { Frame::parse(line.clone()).ok() };
                self.update(frame.as_ref(), out);
            }
            Some(Line::Call { id: None, method, params }) => {
                let events = self.mapper.notification(&method, params, raw);
                events.iter().for_each(|event| self.write(event, out));
            }
            Some(Line::Answer { id, outcome }) => self.answer(id, outcome, raw, out),
            _ => self.write(&kept(raw), out),
        }
    }

    fn compact(&mut self, line: &Bytes, out: &mut Vec<u8>) {
        let Some(Line::Update(update)) = Line::read(line) else { return };
        if update.kind == Update::Subagent {
            self.names.announce(update.child);
        }
        let frame = self.names.adopted(line, update.session);
        self.update(frame.as_ref(), out);
    }

    fn update(&mut self, frame: Option<&Frame>, out: &mut Vec<u8>) {
        let Some((frame, raw)) = frame.and_then(|frame| Some((frame, raw(frame.line())?))) else { return };
        let events = self.mapper.notification("session/update", frame.member("params"), raw);
        events.iter().for_each(|event| self.write(event, out));
    }

    fn answer(
        &mut self,
        id: &RawValue,
        outcome: Result<&RawValue, &RawValue>,
        raw: &RawValue,
        out: &mut Vec<u8>,
    ) {
        let at = self.asked.iter().position(|(asked, _)| **asked == *id.get());
        let asked = at.map(|at| self.asked.remove(at).1);
        match (asked, outcome, self.turn) {
            (Some(Asked::Prompt), Ok(answer), _) => return self.answered(answer, out),
            (Some(Asked::Prompt), Err(error), Turn::Sent(id)) => return self.failed(id, error, out),
            (Some(Asked::Initialize), Ok(answer), _) => self.initialize = Some(answer.to_owned()),
            (Some(Asked::Open), Ok(answer), _) => {
                let session = visit::text_member(answer.get(), "sessionId");
                session.iter().for_each(|session| self.names.bind_first(session));
                self.opened = Some(answer.to_owned());
            }
            _ => {}
        }
        self.write(&kept(raw), out);
    }

    fn sent(&mut self, line: &Bytes) {
        let Some(Line::Call { id: Some(id), method, params }) = Line::read(line) else { return };
        let session = params.and_then(|params| visit::member(params.get(), "sessionId"));
        let asked = match &*method {
            "initialize" => Asked::Initialize,
            "session/new" | "session/load" | "session/resume" | "session/fork" => Asked::Open,
            "session/prompt" if self.turn == Turn::Begun => {
                if session.is_none_or(|session| self.names.whose(session) != Whose::Ours) {
                    return;
                }
                self.turn = Turn::Sent(id.get().parse().unwrap_or(0));
                Asked::Prompt
            }
            _ => return,
        };
        if id.get().len() <= ID_BYTES_MAX && self.asked.len() < ASKED_MAX {
            self.asked.push((id.get().into(), asked));
        }
    }

    fn stray(&mut self, line: &Bytes, out: &mut Vec<u8>) {
        let Some(raw) = raw(line) else { return self.write(&self.mapper.unparsed(line), out) };
        match Line::read(line) {
            Some(Line::Update(_)) => self.update(Frame::parse(line.clone()).ok().as_ref(), out),
            Some(Line::Answer { .. }) => self.write(&self.mapper.unmatched(raw), out),
            _ => self.write(&kept(raw), out),
        }
    }

    fn mark(&mut self, line: &Bytes, out: &mut Vec<u8>) {
        match serde_json::from_slice(line).unwrap_or(Mark::Other) {
            Mark::Opened { peer_session, .. } => {
                self.names.bind(&peer_session);
                self.peer_session = Some(peer_session.into_owned());
                self.init(out);
            }
            Mark::PeerGone { .. } => {
                self.names.unbind();
                self.asked.clear();
            }
            Mark::TurnStarted { .. } => {
                self.init(out);
                self.interrupted(out);
                self.mapper.begin_turn();
                self.turn = Turn::Begun;
            }
            Mark::TurnEnded { stop_reason, error, .. } => self.ended(stop_reason.as_deref(), error, out),
            Mark::Decision { tool_call, kind, decision, by, reason } if decision == "deny" => {
                let Some(raw) = raw(line) else { return };
                let event = self.mapper.refused(&tool_call, &kind, &format!("{by}: {reason}"), raw);
                self.write(&event, out);
            }
            _ => {}
        }
    }

    /// The turn ended, and if the peer did not answer its prompt, this is the result.
    fn ended(&mut self, stop_reason: Option<&str>, error: Option<serde_json::Value>, out: &mut Vec<u8>) {
        match (self.turn, stop_reason) {
            (Turn::None, _) => {}
            (_, Some(reason)) => self.answered(&to_raw(&json!({ "stopReason": reason })), out),
            (Turn::Sent(id), None) => self.failed(id, &to_raw(&error), out),
            (Turn::Begun, None) => self.failed(0, &to_raw(&error), out),
        }
    }

    /// A turn that was sent and that nothing more is known of.
    fn interrupted(&mut self, out: &mut Vec<u8>) {
        if let Turn::Sent(id) = self.turn {
            let error = json!({ "code": -32603, "message": "interrupted: nobody knows how the turn ended" });
            self.failed(id, &to_raw(&error), out);
        }
    }

    fn answered(&mut self, answer: &RawValue, out: &mut Vec<u8>) {
        self.end_turn();
        let event = self.mapper.answered(answer);
        self.write(&event, out);
    }

    fn failed(&mut self, id: u64, error: &RawValue, out: &mut Vec<u8>) {
        self.end_turn();
        let event = self.mapper.failed(id, error);
        self.write(&event, out);
    }

    fn end_turn(&mut self) {
        self.turn = Turn::None;
        self.asked.retain(|(_, asked)| *asked != Asked::Prompt);
    }

    /// The first event, and then what came before it.
    fn init(&mut self, out: &mut Vec<u8>) {
        let Some(held) = self.held.take() else { return };
        let null = to_raw(&());
        let answer = |answer: &'_ Option<Box<RawValue>>| answer.clone().unwrap_or_else(|| null.clone());
        let (initialize, opened) = (answer(&self.initialize), answer(&self.opened));
        let mut event = self.mapper.init(&initialize, &opened);
        if let Event::Init { peer_session_id, .. } = &mut event {
            *peer_session_id = self.peer_session.clone();
        }
        write(&event, out);
        out.extend(held);
    }

    fn write(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        let Some(held) = &mut self.held else { return write(event, out) };
        write(event, held);
        if held.len() > HELD_BYTES_MAX {
            self.init(out);
        }
    }
}

fn write(event: &Event<'_>, out: &mut Vec<u8>) {
    serde_json::to_writer(&mut *out, event).expect("plain data");
    out.push(b'\n');
}

fn kept(raw: &RawValue) -> Event<'_> {
    Event::Transcript { label: None, raw: Cow::Borrowed(raw) }
}

fn raw(line: &[u8]) -> Option<&RawValue> {
    serde_json::from_slice(line).ok()
}

fn to_raw(value: &impl serde::Serialize) -> Box<RawValue> {
    to_raw_value(value).expect("plain data")
}
