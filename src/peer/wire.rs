//! The peer's end of its wire: which ids are open, whose session a line is, what is held back. Pure.
//!
//! Every request of the peer is answered once; what is not ours never gets further (R5, R27, R105).

use std::collections::VecDeque;

use bytes::Bytes;

use super::{
    handshake::{self, HandshakeError},
    stage::{Binding, Owner},
};
use crate::{
    id::Token,
    ingress::Input,
    limits::{EARLY_BYTES_MAX, EARLY_ITEMS_MAX, OPEN_PEER_REQUESTS_MAX},
    wire::{
        Call, Envelope, Frame, Method, RpcError,
        frame::{Class, UpdateKind},
        line::Overlong,
        outgoing::{Outgoing, Splice},
        parse::repeats_a_key,
        pending::Pending,
    },
};

/// What one input of the wire comes to.
#[derive(Debug)]
#[must_use]
pub enum Step {
    /// It goes on to the session.
    Forward(Envelope),
    /// It is answered here.
    Reply {
        /// The question.
        line: Bytes,
        /// The answer.
        answer: Frame,
        /// Its id, as written.
        id: Vec<u8>,
    },
    /// The answer to our own `initialize`.
    Initialised(Frame),
    /// The program cannot be gone on with.
    Fail(HandshakeError),
    /// It waits here for the session that it may be of (R105).
    Held,
    /// It is counted under this name and kept, and that is all.
    Kept(&'static str, Bytes),
}

/// A request to the peer that is open.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The session's token; `None` for our own `initialize`.
    pub token: Option<Token>,
    /// What was asked.
    pub method: Method,
}

/// The wire's state.
#[derive(Debug, Default)]
pub struct Wire {
    pending: Pending<(), Asked>,
    binding: Binding,
    early: VecDeque<Frame>,
    early_bytes: usize,
    /// Junk is a failure (R6).
    strict: bool,
}

impl Wire {
    /// A wire on which junk is a failure, or is not (R6).
    pub fn new(strict: bool) -> Self {
        Self { strict, ..Self::default() }
    }

    /// Takes one input of the peer.
    pub fn read(&mut self, input: Input) -> Step {
        match input {
            Input::Frame(frame) => self.frame(frame),
            Input::Unparsed(line) => Step::Kept("unparsed", line),
            Input::Overlong(line) => self.overlong(&line),
        }
    }

    /// Why a strict agent is not gone on with after this input (R6).
    pub fn offence(&self, input: &Input) -> Option<&'static str> {
        if !self.strict {
            return None;
        }
        match input {
            Input::Unparsed(line) if std::str::from_utf8(line).is_err() => Some("a line is not UTF-8"),
            Input::Unparsed(_) => Some("a line is not JSON"),
            Input::Overlong(_) => Some("a line is longer than line_bytes_max"),
            Input::Frame(f) if f.flaws().repeated => Some("a line repeats an envelope member"),
            Input::Frame(f) if f.flaws().both => Some("an answer holds a result and an error"),
            Input::Frame(f) if f.flaws().version && f.class() != Class::Unrecognised => {
                Some("a line is not tagged jsonrpc 2.0")
            }
            Input::Frame(_) => None,
        }
    }

    fn frame(&mut self, frame: Frame) -> Step {
        match frame.class() {
            Class::Response { ok } => self.response(frame, ok),
            Class::Request(method) => self.request(method, frame),
            Class::Notification(method) => self.notification(method, frame),
            Class::Unrecognised => Step::Kept("unrecognised", frame.line().clone()),
        }
    }

    fn response(&mut self, frame: Frame, ok: bool) -> Step {
        let Some(asked) = frame.id_number().and_then(|id| self.pending.answered(id)) else {
            return Step::Kept("unmatched_responses", frame.line().clone());
        };
        let Some(token) = asked.token else { return Step::Initialised(frame) };
        if ok && asked.method == Method::SessionNew {
            match handshake::session_id(&frame) {
                Some(id) => self.binding.opened(Some(&id)),
                None => return Step::Fail(HandshakeError::NoSession),
            }
        } else if binds(asked.method) {
            self.binding.opened(None);
        }
        Step::Forward(Envelope::new(Call::Response(token), self.ours(proper(frame))))
    }

    fn request(&mut self, method: Method, frame: Frame) -> Step {
        if method == Method::Initialize {
            return Step::Fail(HandshakeError::Echo);
        }
        let id = frame.id().unwrap_or_default().to_vec();
        if let Some(error) = self.refusal(method, &frame) {
            let id = if frame.id_is_proper() { id } else { b"null".to_vec() };
            return Step::Reply { line: frame.line().clone(), answer: Frame::error(&error), id };
        }
        match self.pending.receive(&id, ()) {
            Ok(token) => {
                let about = frame.request_id().filter(|_| method == Method::ElicitationCreate);
                let about = about.and_then(|id| self.asked_by(id));
                Step::Forward(Envelope { call: Call::Request(token), about, frame: self.ours(frame) })
            }
            Err(()) => {
                let error = RpcError::invalid_request("a request with this id is still open");
                Step::Reply { line: frame.line().clone(), answer: Frame::error(&error), id }
            }
        }
    }

    /// Why a request of the peer is answered right here.
    fn refusal(&self, method: Method, frame: &Frame) -> Option<RpcError> {
        let inspected = !matches!(method, Method::Extension | Method::Other);
        let params = || frame.member("params").is_some_and(|p| repeats_a_key(p.get()));
        if !frame.id_is_proper() {
            return Some(RpcError::invalid_request("an id is a number, a string or null"));
        }
        if self.pending.inbound_len() >= OPEN_PEER_REQUESTS_MAX {
            return Some(RpcError::internal(format!("{OPEN_PEER_REQUESTS_MAX} requests are open already")));
        }
        if inspected && (frame.repeats() || params()) {
            return Some(RpcError::invalid_params("an object repeats a key, so its meaning is not certain"));
        }
        if method == Method::ElicitationCreate
            && let Some(id) = frame.request_id()
        {
            // It is about a request, and so may come before there is a session.
            let unknown = self.asked_by(id).is_none();
            return unknown.then(|| RpcError::invalid_params("requestId names no request that is open"));
        }
        match self.owner(frame) {
            Owner::Ours if self.binding.own().is_none() && inspected => {
                Some(RpcError::internal("there is no session yet"))
            }
            Owner::Ours => None,
            Owner::Early => Some(RpcError::internal("there is no session yet")),
            Owner::Foreign => Some(RpcError::unknown_session(&frame.session().unwrap_or_default())),
        }
    }

    /// The session's token of a request to the peer, by its id as the peer writes it.
    fn asked_by(&self, id: &[u8]) -> Option<Token> {
        let id = std::str::from_utf8(id).ok()?.parse().ok()?;
        self.pending.outbound(id)?.token
    }

    fn notification(&mut self, method: Method, frame: Frame) -> Step {
        match self.owner(&frame) {
            Owner::Ours => {}
            Owner::Early => return self.hold(frame),
            Owner::Foreign => return Step::Kept("foreign_updates", frame.line().clone()),
        }
        if let Some(update) = frame.update()
            && update.kind == UpdateKind::Subagent
            && let Some(child) = update.child
        {
            self.binding.announce(frame.bytes(child));
        }
        let mut about = None;
        if method == Method::CancelRequest {
            let named = frame.request_id().and_then(|id| self.pending.inbound_token(id));
            let Some((token, ())) = named else {
                return Step::Kept("unmatched_cancels", frame.line().clone());
            };
            about = Some(token);
        }
        Step::Forward(Envelope { call: Call::Notification, about, frame: self.ours(frame) })
    }

    /// Keeps a line for the session that is being opened, in bytes of its own, so that its credit can return.
    fn hold(&mut self, frame: Frame) -> Step {
        self.early_bytes += frame.line().len();
        if self.early.len() >= EARLY_ITEMS_MAX || self.early_bytes > EARLY_BYTES_MAX {
            return Step::Fail(HandshakeError::TooEarly("the request that opens the session".to_owned()));
        }
        let copy = Frame::parse(Bytes::copy_from_slice(frame.line())).expect("it was parsed before");
        self.early.push_back(copy);
        Step::Held
    }

    /// What was held for a session that is open now, in its order.
    pub fn release(&mut self) -> Vec<Envelope> {
        self.early_bytes = 0;
        let held = std::mem::take(&mut self.early);
        held.into_iter()
            .filter_map(|frame| match self.frame(frame) {
                Step::Forward(envelope) => Some(envelope),
                _ => None,
            })
            .collect()
    }

    /// A line over the ceiling: who waits for it is answered (R9).
    fn overlong(&mut self, line: &Overlong) -> Step {
        let id = line.id.clone().unwrap_or_default();
        let why = format!("a line of {} bytes is longer than line_bytes_max", line.length);
        let ends = || Bytes::from([line.head.as_slice(), "\u{2026}".as_bytes(), &line.tail].concat());
        if line.method.is_some() {
            let answer = Frame::error(&RpcError::invalid_request(why));
            return match id.is_empty() {
                true => Step::Kept("overlong", ends()),
                false => Step::Reply { line: ends(), answer, id },
            };
        }
        let number = std::str::from_utf8(&id).ok().and_then(|id| id.parse().ok());
        match number.and_then(|n| self.pending.answered(n)).map(|asked| asked.token) {
            Some(None) => Step::Fail(HandshakeError::Unreadable(why)),
            Some(Some(token)) => {
                let error = Frame::error(&RpcError::runtime(format!("the agent's answer is lost: {why}")));
                Step::Forward(Envelope::new(Call::Response(token), error))
            }
            None => Step::Kept("overlong", ends()),
        }
    }

    fn owner(&self, frame: &Frame) -> Owner {
        self.binding.owner(frame.sessions().first().map(|s| frame.bytes(*s)))
    }

    /// Only our own session id is replaced when the line leaves (R229).
    fn ours(&self, mut frame: Frame) -> Frame {
        frame.keep_sessions(self.binding.own().unwrap_or_default());
        frame
    }

    /// Puts our own `initialize` in, under number 1.
    pub fn initialise(&mut self, frame: &Frame, out: &mut Outgoing) -> u64 {
        let id = self.pending.send(Asked { token: None, method: Method::Initialize });
        out.push(frame, Splice { id: Some(id.to_string().as_bytes()), ..Splice::default() });
        id
    }

    /// Puts a line of the session in, with this wire's ids. `known` is the peer's id of a session that is taken up
    /// again. Returns the number of a request.
    pub fn send(&mut self, envelope: &Envelope, known: Option<&[u8]>, out: &mut Outgoing) -> Option<u64> {
        let frame = &envelope.frame;
        match envelope.call {
            Call::Request(token) => {
                let method = method(frame);
                if binds(method) {
                    self.binding.open(known, method != Method::SessionLoad);
                }
                let id = self.pending.send(Asked { token: Some(token), method });
                self.push(frame, Some(id.to_string().as_bytes()), None, out);
                Some(id)
            }
            Call::Response(token) => {
                let (id, ()) = self.pending.answer(token)?;
                self.push(frame, Some(&id), None, out);
                None
            }
            Call::Notification => {
                let named = envelope.about.map(|t| self.pending.find_outbound(|a| a.token == Some(t)));
                let named = match named {
                    Some(None) => return None,
                    Some(Some(id)) => Some(id.to_string().into_bytes()),
                    None => None,
                };
                self.push(frame, None, named.as_deref(), out);
                None
            }
        }
    }

    fn push(&self, frame: &Frame, id: Option<&[u8]>, request_id: Option<&[u8]>, out: &mut Outgoing) {
        out.push(frame, Splice { id, session: self.binding.own(), request_id });
    }

    /// A request that never left: takes it out again.
    pub fn unsent(&mut self, token: Token) {
        if let Some(id) = self.pending.find_outbound(|asked| asked.token == Some(token)) {
            self.pending.answered(id);
        }
    }

    /// What is asked under that number, while it is open.
    pub fn asked(&self, id: u64) -> Option<&Asked> {
        self.pending.outbound(id)
    }

    /// The request of the handshake that is open: its method and its number.
    pub fn unanswered(&self) -> Option<(Method, u64)> {
        let id = self.pending.find_outbound(|a| a.token.is_none() || binds(a.method))?;
        self.pending.outbound(id).map(|asked| (asked.method, id))
    }
}

/// An error that is none by JSON-RPC's rules becomes one: a host may drop the answer otherwise, and wait for ever.
fn proper(answer: Frame) -> Frame {
    match answer.member("error").map(|error| error.get().starts_with('{')) {
        Some(false) if answer.class() == (Class::Response { ok: false }) => {
            let why = "the agent answered with an error that is no JSON-RPC error";
            Frame::error(&RpcError::runtime(why))
        }
        _ => answer,
    }
}

/// The method of a request or notification.
pub fn method(frame: &Frame) -> Method {
    match frame.class() {
        Class::Request(method) | Class::Notification(method) => method,
        _ => Method::Other,
    }
}

/// Whether the answer to this binds the wire to a session.
pub fn binds(method: Method) -> bool {
    matches!(method, Method::SessionNew | Method::SessionResume | Method::SessionLoad)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(line: &str) -> Input {
        Input::Frame(Frame::parse(Bytes::copy_from_slice(line.as_bytes())).expect("JSON"))
    }

    fn opened() -> Wire {
        let mut wire = Wire::default();
        let new = Frame::request("session/new", &serde_json::json!({}));
        let sent = wire.send(&Envelope::new(Call::Request(9), new), None, &mut Outgoing::default());
        assert_eq!(sent, Some(1));
        wire
    }

    /// R5: an answer to nothing is kept and changes nothing.
    #[test]
    fn an_answer_to_nothing_is_only_counted() {
        let mut wire = opened();
        assert!(matches!(
            wire.read(input(r#"{"id":999,"result":{}}"#)),
            Step::Kept("unmatched_responses", _)
        ));
        assert!(matches!(wire.read(input(r#"{"id":1,"result":{"sessionId":"p"}}"#)), Step::Forward(_)));
    }

    /// R105, FINDINGS 13: updates before the answer wait for it; those of another session stay out.
    #[test]
    fn early_updates_come_after_the_answer() {
        let mut wire = opened();
        let update = |s: &str| format!(r#"{{"method":"session/update","params":{{"sessionId":"{s}"}}}}"#);
        assert!(matches!(wire.read(input(&update("p"))), Step::Held));
        assert!(matches!(wire.read(input(&update("other"))), Step::Held));
        assert!(matches!(wire.read(input(r#"{"id":1,"result":{"sessionId":"p"}}"#)), Step::Forward(_)));
        assert_eq!(wire.release().len(), 1);
    }

    /// R27: before there is a session, a call on services gets an error.
    #[test]
    fn a_call_before_the_session_is_refused() {
        let mut wire = opened();
        let call = r#"{"id":"a","method":"fs/read_text_file","params":{"sessionId":"p","path":"/x"}}"#;
        let Step::Reply { answer: frame, id, .. } = wire.read(input(call)) else { panic!("not answered") };
        assert_eq!((frame.class(), id.as_slice()), (Class::Response { ok: false }, &b"\"a\""[..]));
    }
}
