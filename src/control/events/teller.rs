//! One session's rows as events (R258). Pure.
//!
//! Owns what a line means by those before it: the calls that are open, the message that streams, the running turn.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::note::{Note, Told};
use crate::{
    event::{Event, Mapper},
    history::Mark,
    store::Kind,
    wire::{Frame, Method, frame::Class, patch::Object},
};

/// Tells what happens in one session.
#[derive(Debug)]
pub(super) struct Teller {
    mapper: Mapper,
    /// For history that was made shorter: it stands under another name.
    compact: Option<Mapper>,
    turn: Turn,
}

/// The turn that runs.
#[derive(Debug, Default)]
struct Turn {
    /// Leading blocks of its prompt that are nobody's words.
    context_blocks: usize,
    /// The agent's last answer to a prompt.
    answer: Option<Box<RawValue>>,
}

impl Teller {
    /// Of a session that the agent knows by this id.
    pub fn new(peer_session: &str) -> Self {
        Self { mapper: Mapper::taken_up(peer_session), compact: None, turn: Turn::default() }
    }

    /// Tells what a line means.
    pub fn line(&mut self, kind: Kind, line: Bytes, tell: &mut impl FnMut(Told<'_>)) {
        if kind == Kind::Mark {
            return self.mark(&line, tell);
        }
        match Frame::parse(line) {
            Ok(frame) if kind == Kind::Sent => self.sent(&frame, tell),
            Ok(frame) if kind == Kind::Compact => self.shortened(&frame, tell),
            Ok(frame) => self.said(&frame, tell),
            Err(junk) => tell(Told::Run(self.mapper.unparsed(&junk))),
        }
    }

    /// The agent said it.
    fn said(&mut self, frame: &Frame, tell: &mut impl FnMut(Told<'_>)) {
        match frame.class() {
            Class::Notification(_) => notified(&mut self.mapper, frame, tell),
            Class::Request(Method::RequestPermission) => self.asked(frame, tell),
            Class::Response { .. } => self.answered(frame, tell),
            Class::Request(_) | Class::Unrecognised => tell(Told::Run(self.mapper.request(whole(frame)))),
        }
    }

    fn shortened(&mut self, frame: &Frame, tell: &mut impl FnMut(Told<'_>)) {
        if let Some(text) = asked_of_it(frame) {
            return tell(Told::Note(Note::Prompt { text }));
        }
        let name = frame.session().unwrap_or_default();
        notified(self.compact.get_or_insert_with(|| Mapper::taken_up(&name)), frame, tell);
    }

    fn asked(&self, frame: &Frame, tell: &mut impl FnMut(Told<'_>)) {
        let params = Object::of(frame.member("params").map_or("{}", RawValue::get));
        let tool_call = params.get("toolCall");
        let call = self.mapper.described(tool_call);
        let id = Object::of(tool_call.map_or("{}", RawValue::get));
        tell(Told::Note(Note::PermissionAsked {
            tool_call: id.get("toolCallId").and_then(text).unwrap_or_default(),
            tool: call.kind.into(),
            title: call.title.into(),
            subject: call.subject.map(Into::into),
            raw: whole(frame),
        }));
    }

    /// An answer to a prompt is told of when the turn has ended with it.
    fn answered(&mut self, frame: &Frame, tell: &mut impl FnMut(Told<'_>)) {
        match frame.member("result").filter(|result| stop_reason(result).is_some()) {
            Some(answer) => self.turn.answer = Some(answer.to_owned()),
            None => tell(Told::Run(self.mapper.request(whole(frame)))),
        }
    }

    /// It was sent to the agent: only a prompt is news.
    fn sent(&mut self, frame: &Frame, tell: &mut impl FnMut(Told<'_>)) {
        if frame.class() == Class::Request(Method::SessionPrompt) {
            tell(Told::Note(Note::Prompt { text: prompted(frame, self.turn.context_blocks) }));
        }
    }

    fn mark(&mut self, line: &[u8], tell: &mut impl FnMut(Told<'_>)) {
        let Ok(mark) = serde_json::from_slice::<Mark<'_>>(line) else { return };
        match mark {
            Mark::Opened { agent, how, peer_session } => {
                self.opened(&how, &peer_session);
                tell(Told::Note(Note::SessionOpened { agent, how, peer_session }));
            }
            Mark::TurnStarted { turn, source, context_blocks } => {
                self.mapper.begin_turn();
                self.turn = Turn { context_blocks, answer: None };
                tell(Told::Note(Note::TurnStarted { turn, source }));
            }
            Mark::TurnEnded { turn, stop_reason, error } => self.ended(turn, stop_reason, error, tell),
            Mark::Decision { .. } => self.decided(mark, line, tell),
            other => note(other).into_iter().for_each(|note| tell(Told::Note(note))),
        }
    }

    fn opened(&mut self, how: &str, peer_session: &str) {
        self.mapper = if how == "new" { Mapper::new(peer_session) } else { Mapper::taken_up(peer_session) };
    }

    /// The result is made of the agent's own answer, when that is what the turn ended with.
    fn ended(
        &mut self,
        turn: u64,
        stop: Option<Cow<'_, str>>,
        error: Option<Value>,
        tell: &mut impl FnMut(Told<'_>),
    ) {
        let answer = self.turn.answer.take().filter(|answer| stop_reason(answer) == stop);
        match (&error, answer) {
            (Some(error), _) => tell(Told::Run(self.mapper.failed(turn, &raw(error)))),
            (None, Some(answer)) => tell(Told::Run(self.mapper.answered(&answer))),
            (None, None) => {
                let answer = raw(&serde_json::json!({ "stopReason": stop }));
                tell(Told::Run(self.mapper.answered(&answer)));
            }
        }
        tell(Told::Note(Note::TurnEnded { turn, stop_reason: stop, error }));
    }

    /// What was denied is an event of the run as well (R97).
    fn decided(&mut self, mark: Mark<'_>, line: &[u8], tell: &mut impl FnMut(Told<'_>)) {
        let Mark::Decision { tool_call, kind, decision, by, reason } = mark else { return };
        if decision == "deny" {
            let raw = serde_json::from_slice(line).unwrap_or(RawValue::NULL);
            let why = format!("{by}: {reason}");
            tell(Told::Run(self.mapper.refused(&tool_call, &kind, &why, raw)));
        }
        tell(Told::Note(Note::PermissionDecided { tool_call, tool: kind, decision, by, reason }));
    }
}

/// A mark that means nothing for what comes behind it.
fn note(mark: Mark<'_>) -> Option<Note<'_>> {
    Some(match mark {
        Mark::Input { id, text } => Note::Input { id, text },
        Mark::Given { text } => Note::Prompt { text: text.into_owned() },
        Mark::PeerGone { cause } => Note::PeerGone { cause },
        Mark::Settings { settings } => Note::Settings { settings },
        Mark::Host { state, reason } => Note::Host { state, reason },
        Mark::Recovery { pending_resume } => Note::Recovery { pending_resume },
        Mark::Closed { reason } => Note::SessionClosed { reason },
        _ => return None,
    })
}

fn notified(mapper: &mut Mapper, frame: &Frame, tell: &mut impl FnMut(Told<'_>)) {
    let events = mapper.notification(&frame.method_name(), frame.member("params"), whole(frame));
    events.into_iter().for_each(|event: Event<'_>| tell(Told::Run(event)));
}

/// What somebody asked of the agent, in history that was made shorter.
fn asked_of_it(frame: &Frame) -> Option<String> {
    let params = Object::of(frame.member("params")?.get());
    let update = params.object("update");
    let is_users = update.get("sessionUpdate").and_then(text)? == "user_message_chunk";
    let content = update.object("content");
    is_users.then(|| content.get("text").and_then(text)).flatten()
}

/// What a prompt says, without its leading blocks; what is no text is named.
fn prompted(frame: &Frame, context_blocks: usize) -> String {
    let params = Object::of(frame.member("params").map_or("{}", RawValue::get));
    let blocks = params.get("prompt").map_or("[]", RawValue::get);
    let blocks: Vec<Value> = serde_json::from_str(blocks).unwrap_or_default();
    let said = |block: &Value| match (block["text"].as_str(), block["type"].as_str()) {
        (Some(text), _) => text.to_owned(),
        (None, kind) => format!("[{}]", kind.unwrap_or("unknown")),
    };
    blocks.iter().skip(context_blocks).map(said).collect::<Vec<_>>().join("\n")
}

fn stop_reason(answer: &RawValue) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Answer<'a> {
        #[serde(borrow, rename = "stopReason")]
        stop_reason: Option<Cow<'a, str>>,
    }
    serde_json::from_str::<Answer<'_>>(answer.get()).ok()?.stop_reason
}

fn text(raw: &RawValue) -> Option<String> {
    serde_json::from_str(raw.get()).ok()
}

fn raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).expect("a value is always JSON")
}

fn whole(frame: &Frame) -> &RawValue {
    serde_json::from_slice(frame.line()).unwrap_or(RawValue::NULL)
}
