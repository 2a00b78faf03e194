//! From frames to events.
//!
//! Owns the last message, the last usage and the calls of one session, all bounded. Never lets another session's
//! frame supply text or results (R105). Invariant: one result for every prompt.

use std::borrow::Cow;

use serde_json::value::{RawValue, to_raw_value};
use smallvec::smallvec;

use super::{
    Event, Events, Evidence, Handshake, Label, UNREPORTED,
    calls::{Call, Calls},
    cut,
    message::Message,
    reading::{Update, model, peer_session_id, stop_reason, text, tool_call_of, update_of},
    spending::Spending,
};

/// Turns the frames of one session into events.
#[derive(Debug)]
pub struct Mapper {
    session: Box<str>,
    message: Message,
    usage: Option<Box<RawValue>>,
    spending: Spending,
    calls: Calls,
}

impl Mapper {
    /// For a new session of that id, which has cost nothing yet.
    pub fn new(session: &str) -> Self {
        Self {
            session: session.into(),
            message: Message::default(),
            usage: None,
            spending: Spending::of_new_session(),
            calls: Calls::default(),
        }
    }

    /// For a session that was there before: nobody knows what it has cost by now.
    pub fn taken_up(session: &str) -> Self {
        Self { spending: Spending::of_known_session(), ..Self::new(session) }
    }

    /// The synthesised first event (R29).
    pub fn init<'a>(&'a self, initialize: &'a RawValue, session_new: &'a RawValue) -> Event<'a> {
        Event::Init {
            session_id: Cow::Borrowed(&*self.session),
            peer_session_id: peer_session_id(session_new),
            model: model(session_new).unwrap_or_else(|| UNREPORTED.to_owned()),
            synthesised: true,
            raw: Handshake { initialize, session_new },
        }
    }

    /// A new prompt: text and usage of the one before are forgotten (R94, R102, R221).
    pub fn begin_turn(&mut self) {
        self.message = Message::default();
        self.usage = None;
    }

    /// One notification of the peer; `frame` is the whole of it.
    pub fn notification<'a>(
        &mut self,
        method: &str,
        params: Option<&'a RawValue>,
        frame: &'a RawValue,
    ) -> Events<'a> {
        if method != "session/update" {
            return smallvec![kept(frame)];
        }
        match update_of(params) {
            Some((session, _)) if session != *self.session => smallvec![labelled(frame, Label::OtherSession)],
            Some((_, update)) => self.update(&update, frame),
            None => smallvec![kept(frame)],
        }
    }

    /// A request of the peer. What is decided about it may make an event of its own (R97).
    pub fn request<'a>(&self, frame: &'a RawValue) -> Event<'a> {
        kept(frame)
    }

    /// A refusal at our seam (R97); `reason` names the seam and the rule.
    pub fn refused<'a>(&mut self, id: &'a str, kind: &str, reason: &str, frame: &'a RawValue) -> Event<'a> {
        self.calls.settle(id);
        Event::ToolResult {
            id: Cow::Borrowed(id),
            tool: cut(kind),
            status: "denied",
            summary: cut(reason),
            denied: true,
            raw: frame,
        }
    }

    /// The answer to the prompt (R99).
    pub fn answered<'a>(&mut self, answer: &'a RawValue) -> Event<'a> {
        let verbatim = stop_reason(answer);
        let stop_reason = text(verbatim).map(Cow::into_owned);
        let message = std::mem::take(&mut self.message);
        Event::Result {
            turns: 1,
            is_error: stop_reason.as_deref() != Some("end_turn") || message.was_cut(),
            text: message.into_text(),
            stop_reason,
            cost_usd: self.spending.settle(),
            raw: Evidence::Answer { answer, usage: self.usage.take(), stop_reason: verbatim },
        }
    }

    /// An error instead of the answer (R100).
    pub fn failed<'a>(&mut self, id: u64, error: &'a RawValue) -> Event<'a> {
        self.begin_turn();
        Event::Result {
            text: format!("the prompt failed: {error}"),
            turns: 1,
            is_error: true,
            stop_reason: None,
            cost_usd: self.spending.settle(),
            raw: Evidence::Error { error, id },
        }
    }

    /// An answer that nobody waits for (R5).
    pub fn unmatched<'a>(&self, frame: &'a RawValue) -> Event<'a> {
        labelled(frame, Label::UnmatchedResponse)
    }

    /// A line that is no JSON (R6).
    pub fn unparsed(&self, line: &[u8]) -> Event<'static> {
        let raw = to_raw_value(&String::from_utf8_lossy(line)).expect("a string is always JSON");
        Event::Transcript { label: Some(Label::Unparsed), raw: Cow::Owned(raw) }
    }

    /// What is known of a call that has not ended.
    pub fn call(&self, id: &str) -> Option<&Call> {
        self.calls.get(id)
    }

    /// A call as a permission request describes it: what it says, over what is known already.
    pub fn described(&self, tool_call: Option<&RawValue>) -> Call {
        let update = tool_call_of(tool_call);
        let known = update.call_id().and_then(|id| self.calls.get(&id).cloned());
        match known {
            Some(call) => call.amended(&update),
            None => Call::described_by(&update),
        }
    }

    /// Whether an announced call has neither ended nor been refused (R225).
    pub fn has_open_calls(&self) -> bool {
        self.calls.any_open()
    }

    fn update<'a>(&mut self, update: &Update<'a>, frame: &'a RawValue) -> Events<'a> {
        match text(update.variant).as_deref() {
            Some("agent_message_chunk") => smallvec![self.chunk(update, frame)],
            Some("tool_call") => self.tool_call(update, frame),
            Some("tool_call_update") => smallvec![self.tool_call_update(update, frame)],
            Some("usage_update") => smallvec![self.usage_update(update, frame)],
            _ => smallvec![kept(frame)],
        }
    }

    fn chunk<'a>(&mut self, update: &Update<'a>, frame: &'a RawValue) -> Event<'a> {
        match update.chunk_text() {
            Some(piece) if !piece.is_empty() => {
                let message_id = text(update.message_id);
                let starts = self.message.add(message_id.as_deref(), &piece);
                Event::Text { text: piece, message_id, starts, raw: frame }
            }
            _ => kept(frame),
        }
    }

    fn tool_call<'a>(&mut self, update: &Update<'a>, frame: &'a RawValue) -> Events<'a> {
        let Some(id) = update.call_id() else { return smallvec![labelled(frame, Label::ToolCallId)] };
        let call = Call::described_by(update);
        let begin = Event::ToolUse {
            id: id.clone(),
            tool: call.kind.to_string(),
            summary: call.title.to_string(),
            raw: frame,
        };
        self.calls.announce(&id, call);
        // some agents announce a call when it is over already
        std::iter::once(begin).chain(self.end(id, update, frame)).collect()
    }

    fn tool_call_update<'a>(&mut self, update: &Update<'a>, frame: &'a RawValue) -> Event<'a> {
        let Some(id) = update.call_id() else { return labelled(frame, Label::ToolCallId) };
        self.calls.amend(&id, update);
        self.end(id, update, frame).unwrap_or_else(|| kept(frame))
    }

    fn usage_update<'a>(&mut self, update: &Update<'a>, frame: &'a RawValue) -> Event<'a> {
        self.spending.report(update.total_usd());
        self.usage = Some(frame.to_owned());
        kept(frame)
    }

    /// The result event, when the update ends the call (R96).
    fn end<'a>(&mut self, id: Cow<'a, str>, update: &Update<'a>, frame: &'a RawValue) -> Option<Event<'a>> {
        let status = match text(update.status).as_deref() {
            Some("completed") => "completed",
            Some("failed") => "failed",
            _ => return None,
        };
        let call = self.calls.end(&id).unwrap_or_else(|| Call::described_by(update));
        let said = update.first_text().map(|text| cut(&text));
        let candidates = [said, Some(call.title.into())];
        let summary = candidates.into_iter().flatten().find(|text| !text.trim().is_empty());
        Some(Event::ToolResult {
            id,
            tool: call.kind.into(),
            status,
            summary: summary.unwrap_or_else(|| status.to_owned()),
            denied: false,
            raw: frame,
        })
    }
}

fn kept(frame: &RawValue) -> Event<'_> {
    Event::Transcript { label: None, raw: Cow::Borrowed(frame) }
}

fn labelled(frame: &RawValue, label: Label) -> Event<'_> {
    Event::Transcript { label: Some(label), raw: Cow::Borrowed(frame) }
}
