//! Lines of the host: each is answered here, or posted to the session it names (R13, R54, R277).

use bytes::Bytes;
use serde_json::value::RawValue;

use super::{
    actor::{Asked, State},
    ordering::Wish,
    stage::{Desk, Stage},
};
use crate::{
    berth::{self, Answer},
    hello::Hello,
    id::{Address, SessionId, Token},
    ingress::{Batch, Input},
    session::{Ending, Reason},
    wire::{
        Call, Envelope, Frame, Letter, Method, RpcError, credit::Credit, frame::Class, line::Overlong,
        parse::repeats_a_key, patch::Object,
    },
};

impl State {
    pub(super) fn read(&mut self, batch: Batch) {
        let mut credit = batch.credit;
        for input in batch.inputs {
            // A host that asks and does not read is not read from either: the item is held until the answer is written.
            self.owed = Some(credit.split(1, 0));
            match input {
                Input::Frame(frame) => {
                    self.heard = true;
                    let part = credit.split(0, frame.line().len());
                    self.frame(frame, part);
                }
                Input::Unparsed(_) => self.say_null(&RpcError::parse()),
                Input::Overlong(line) => self.overlong(&line),
            }
        }
        self.owed = None;
        self.publish();
    }

    fn frame(&mut self, frame: Frame, credit: Credit) {
        crate::fault::strike("host", frame.line());
        match frame.class() {
            Class::Request(method) => self.request(method, frame, credit),
            Class::Notification(method) => self.notification(method, frame, credit),
            Class::Response { .. } => self.response(frame, credit),
            // What looks like an answer is not answered: two ends could do that for ever.
            Class::Unrecognised if frame.member("result").or(frame.member("error")).is_some() => {}
            Class::Unrecognised => self.say_null(&RpcError::invalid_request("the line is no request")),
        }
    }

    fn overlong(&mut self, line: &Overlong) {
        let why = format!("a line of {} bytes is longer than limits.line_bytes_max", line.length);
        let id = line.id.clone().unwrap_or_else(|| b"null".to_vec());
        let number = std::str::from_utf8(&id).ok().and_then(|id| id.parse().ok());
        match number.filter(|_| line.method.is_none()).and_then(|n| self.pending.answered(n)) {
            // The answer to a question of the peer's is lost: the peer hears so.
            Some(carried) => {
                let error = Frame::error(&RpcError::internal(format!("the host's answer is lost: {why}")));
                self.hand_on(
                    &carried.from,
                    Envelope::new(Call::Response(carried.token), error),
                    Credit::none(),
                );
            }
            None => self.say(&Frame::error(&RpcError::invalid_request(why)), &id),
        }
    }

    fn request(&mut self, method: Method, frame: Frame, credit: Credit) {
        if !frame.id_is_proper() {
            return self.say_null(&RpcError::invalid_request("an id is a number, a string or null"));
        }
        let id = frame.id().unwrap_or_default().to_vec();
        if self.pending.inbound_len() >= self.shared.limits.host_requests_max {
            let max = self.shared.limits.host_requests_max;
            let error = RpcError::internal(format!("{max} requests are open: limits.host_requests_max"));
            return self.say(&Frame::error(&error), &id);
        }
        let login = (method == Method::Authenticate).then(|| copy(&frame));
        let asked = Asked { method, to: None, closes: None, cwd: None, owed: self.owed.take(), login };
        match self.pending.receive(&id, asked) {
            Ok(token) => self.ask(token, method, frame, credit),
            Err(asked) => {
                self.owed = asked.owed;
                let error = RpcError::invalid_request("a request with this id is still open");
                self.say(&Frame::error(&error), &id);
            }
        }
    }

    fn ask(&mut self, token: Token, method: Method, frame: Frame, credit: Credit) {
        let session = frame.session();
        match self.stage.desk(method, &frame.method_name(), session.is_some()) {
            Desk::Refuse(error) => self.refuse(token, &error),
            Desk::Initialize => self.initialize(token, &frame),
            Desk::New | Desk::Take | Desk::Fork if repeats(&frame) => self.refuse(token, &ambiguous()),
            _ if frame.repeats() => self.refuse(token, &ambiguous()),
            Desk::New => self.order(token, Wish::New, frame),
            Desk::Take => self.order(token, Wish::Take, frame),
            Desk::Fork if !self.config.host.fork => {
                self.refuse(token, &RpcError::method_not_found("session/fork"))
            }
            Desk::Fork => self.order(token, Wish::Fork, frame),
            Desk::List => self.list(token, &frame),
            Desk::Delete => self.delete(token, &session.unwrap_or_default()),
            Desk::Close => self.close_session(token, &session.unwrap_or_default()),
            Desk::Session => self.for_session(token, &session.unwrap_or_default(), frame, credit),
            Desk::Process => self.for_process(token, method, frame, credit),
        }
    }

    /// The first request. What the host can is fixed by it (R16); asked again it is answered again, and changes nothing.
    fn initialize(&mut self, token: Token, frame: &Frame) {
        if self.stage != Stage::Ready {
            let params = Object::of(frame.member("params").map_or("{}", RawValue::get));
            self.capabilities = params.object("clientCapabilities");
            let named = params.object("_meta").object("acpvisor");
            self.agent = named.get("agent").and_then(|name| serde_json::from_str(name.get()).ok());
            self.stage = Stage::Initialising;
        }
        self.order(token, Wish::Initialize, copy(frame));
    }

    /// The session that a line names, when this connection holds it and does not close it.
    fn held(&self, name: &str) -> Option<SessionId> {
        let id = SessionId::parse(name)?;
        (self.sessions.contains(&id) && !self.closing.contains(&id)).then_some(id)
    }

    /// The session that announced this child.
    fn parent(&self, child: &str) -> Option<SessionId> {
        self.children.iter().find(|(_, children)| children.contains(child)).map(|(id, _)| id.clone())
    }

    fn for_session(&mut self, token: Token, name: &str, frame: Frame, credit: Credit) {
        match self.held(name) {
            Some(id) => self.post_request(token, &id, frame, credit),
            None => self.refuse(token, &RpcError::unknown_session(name)),
        }
    }

    /// A request that names no session is for the agent process of the connection (R13); a login is for the process
    /// that waits for one (R18).
    fn for_process(&mut self, token: Token, method: Method, frame: Frame, credit: Credit) {
        let (latest, warm) = (self.latest.clone(), self.warm.as_ref().map(|w| w.id.clone()));
        let id = if method == Method::Authenticate { warm.or(latest) } else { latest.or(warm) };
        match id {
            Some(id) => self.post_request(token, &id, frame, credit),
            // The agent was known from memory: a login needs a process all the same (R18).
            None if matches!(method, Method::Authenticate | Method::Logout) => {
                self.order(token, Wish::Process, copy(&frame));
            }
            None => self.refuse(token, &RpcError::method_not_found(&frame.method_name())),
        }
    }

    /// Posts a request to a session; one that is gone meanwhile is answered for.
    pub(super) fn post_request(&mut self, token: Token, id: &SessionId, mut frame: Frame, credit: Credit) {
        frame.keep_sessions(quoted(id).as_bytes());
        if let Some(asked) = self.pending.inbound_mut(token) {
            asked.to = Some(id.clone());
        }
        let envelope = Envelope::new(Call::Request(token), frame);
        if !self.hand_on(&Address::Session(id.clone()), envelope, credit) {
            self.forget(id);
            self.refuse(token, &RpcError::unknown_session(id.as_str()));
        }
    }

    /// Whether somebody took it.
    pub(super) fn hand_on(&self, to: &Address, envelope: Envelope, credit: Credit) -> bool {
        let from = Address::Host(self.number);
        let letter = Letter::Lines { from, envelopes: vec![envelope], credit };
        self.shared.directory.post(to, letter).is_ok()
    }

    /// R50: closing what is not there succeeds; what another connection holds is not there for this one.
    fn close_session(&mut self, token: Token, name: &str) {
        // Who closes it again waits for the same end (R203).
        let ours = SessionId::parse(name).filter(|id| self.sessions.contains(id));
        let Some(id) = ours else {
            let elsewhere =
                SessionId::parse(name).is_some_and(|id| self.shared.directory.has(&Address::Session(id)));
            return match elsewhere {
                true => self.refuse(token, &RpcError::held_elsewhere(name)),
                false => self.answer(token, &Frame::result(&serde_json::json!({}))),
            };
        };
        if let Some(asked) = self.pending.inbound_mut(token) {
            asked.closes = Some(id.clone());
        }
        self.latest.take_if(|latest| *latest == id);
        self.closing.insert(id.clone());
        let answer = Answer::Host(Address::Host(self.number), token);
        let _ = self.berths.cast(berth::Msg::End(id, Ending::orderly(Reason::Closed), answer));
    }

    /// R285: what is not there is gone already.
    fn delete(&mut self, token: Token, name: &str) {
        match SessionId::parse(name) {
            Some(id) => {
                if let Some(asked) = self.pending.inbound_mut(token) {
                    asked.closes = Some(id.clone());
                }
                let answer = Answer::Host(Address::Host(self.number), token);
                let _ = self.berths.cast(berth::Msg::Delete(id, answer));
            }
            None => self.answer(token, &Frame::result(&serde_json::json!({}))),
        }
    }

    fn notification(&mut self, method: Method, mut frame: Frame, credit: Credit) {
        match method {
            Method::Hello if self.stage == Stage::First && self.hello.is_none() => {
                return self.greeted(&frame);
            }
            Method::Hello => return,
            Method::CancelRequest => return self.withdraw(&frame, credit),
            _ => {}
        }
        let named = frame.session();
        let id = match &named {
            // All that a host may do to a child is to cancel it (R276).
            Some(name) if method == Method::SessionCancel => self.held(name).or_else(|| self.parent(name)),
            Some(name) => self.held(name),
            // No session is meant just because it is the latest (R36).
            None if method == Method::SessionCancel => None,
            None => self.latest.clone(),
        };
        match id {
            Some(id) => {
                frame.keep_sessions(quoted(&id).as_bytes());
                self.hand_on(&Address::Session(id), Envelope::new(Call::Notification, frame), credit);
            }
            None => tracing::debug!(host = self.number, ?method, "notification for nobody"),
        }
    }

    fn greeted(&mut self, frame: &Frame) {
        let params = frame.member("params").map_or("{}", RawValue::get);
        match serde_json::from_str::<Hello>(params) {
            Ok(hello) => self.hello = Some(hello),
            Err(error) => tracing::warn!(host = self.number, %error, "hello not understood"),
        }
    }

    /// `$/cancel_request`: its id is one of this wire, so it travels as a token.
    fn withdraw(&mut self, frame: &Frame, credit: Credit) {
        let named = frame.request_id().and_then(|id| self.pending.inbound_token(id));
        let Some((token, to)) = named.and_then(|(token, asked)| Some((token, asked.to.clone()?))) else {
            return;
        };
        let mut frame = frame.clone();
        frame.keep_sessions(quoted(&to).as_bytes());
        let envelope = Envelope { call: Call::Notification, about: Some(token), frame };
        self.hand_on(&Address::Session(to), envelope, credit);
    }

    fn response(&mut self, frame: Frame, credit: Credit) {
        let Some(carried) = frame.id_number().and_then(|id| self.pending.answered(id)) else {
            tracing::debug!(host = self.number, kind = "unmatched_response", "answer to nothing dropped");
            return;
        };
        self.hand_on(&carried.from, Envelope::new(Call::Response(carried.token), frame), credit);
    }
}

fn ambiguous() -> RpcError {
    RpcError::invalid_params("an object repeats a key, so its meaning is not certain")
}

/// Whether an object of the params repeats a key (R12).
fn repeats(frame: &Frame) -> bool {
    frame.repeats() || frame.member("params").is_some_and(|p| repeats_a_key(p.get()))
}

/// The frame in bytes of its own, for what stays after its credit has returned.
fn copy(frame: &Frame) -> Frame {
    Frame::parse(Bytes::copy_from_slice(frame.line())).expect("it was parsed before")
}

/// A session id as it is written on the wire.
pub(super) fn quoted(id: &SessionId) -> String {
    format!("\"{id}\"")
}
