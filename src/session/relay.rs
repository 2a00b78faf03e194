//! Lines of both sides, each to where it belongs (R13, R107, R248).

use bytes::Bytes;
use serde_json::{json, value::RawValue};

use super::{
    actor::{Msg, Stage, State},
    children,
    ending::{Ending, Reason},
    ledger::{Kind, Open, Side},
    prompts::{unanswered, withdrawal},
    route::Route,
};
use crate::{
    id::{Address, Generation, Token},
    limits::{OPEN_PEER_REQUESTS_MAX, QUEUE_BYTES_MAX},
    peer::{self, Cause, Death, Outcome},
    wire::{
        Call, Envelope, Frame, Letter, Method, RpcError, Word, author, credit::Credit, frame::Class,
        patch::Object,
    },
};

impl State {
    pub(super) fn post(&mut self, letter: Letter) {
        match letter {
            Letter::Lines { from, envelopes, credit } if from == self.order.host => {
                self.host_lines(envelopes, credit);
            }
            Letter::Lines { from, envelopes, .. } => self.refuse_stranger(&from, &envelopes),
            Letter::Word { from: from @ Address::Host(_), .. } if from != self.order.host => {}
            Letter::Word { word: Word::HostLost(loss), .. } => self.end(Ending::host_lost(loss)),
            Letter::Word { word: Word::Cancel, .. } => self.cancel(),
            Letter::Word { word: Word::Abort, .. } => self.end(Ending::at_once(Reason::Killed)),
            Letter::Word { word: Word::Yield(done), .. } => self.yield_slot(done),
            Letter::Word { .. } => {}
        }
    }

    /// A host that had the session before this one: what it answers was asked by somebody else, and what it asks it
    /// may not.
    fn refuse_stranger(&self, host: &Address, envelopes: &[Envelope]) {
        let error = Frame::error(&RpcError::unknown_session(self.order.id.as_str()));
        let refusal = |envelope: &Envelope| match envelope.call {
            Call::Request(token) => Some(Envelope::new(Call::Response(token), error.clone())),
            Call::Response(_) | Call::Notification => None,
        };
        let envelopes = envelopes.iter().filter_map(refusal).collect();
        let letter = Letter::Lines { from: self.address(), envelopes, credit: Credit::none() };
        let _ = self.shared.directory.post(host, letter);
    }

    /// Lines of the host.
    pub(super) fn host_lines(&mut self, envelopes: Vec<Envelope>, mut credit: Credit) {
        for envelope in envelopes {
            crate::fault::strike("session", envelope.frame.line());
            let part = credit.split(1, envelope.frame.line().len());
            match (envelope.call, envelope.frame.class()) {
                (Call::Request(token), Class::Request(method)) => {
                    self.host_asks(token, method, envelope, part)
                }
                (Call::Response(ours), _) => self.host_answers(ours, envelope.frame, part),
                (_, Class::Notification(method)) => self.host_says(method, envelope, part),
                _ => {}
            }
        }
    }

    fn host_asks(&mut self, token: Token, method: Method, envelope: Envelope, credit: Credit) {
        match (method, self.stage) {
            (_, Stage::Ending) => self.refuse_host(token, &RpcError::unknown_session(self.order.id.as_str())),
            (Method::SessionPrompt, _) => self.prompt(token, envelope.frame, credit),
            (_, Stage::Starting) => self.wait_for_peer(token, envelope),
            // The new process does not know the session yet, by whatever name.
            (_, Stage::Opening) if !envelope.frame.sessions().is_empty() => {
                self.wait_for_peer(token, envelope)
            }
            (Method::Initialize, _) => self.answer_initialize(token),
            (Method::SessionNew | Method::SessionResume, Stage::Warm) => self.wanted(token, &envelope.frame),
            (Method::SessionResume, Stage::Live) => self.answer_resumed(token),
            _ => self.carry_to_peer(token, method, envelope, credit),
        }
    }

    /// The process is not there yet: the request waits for it, within bounds.
    fn wait_for_peer(&mut self, token: Token, envelope: Envelope) {
        let waiting: usize = self.early.iter().map(|e| e.frame.line().len()).sum();
        if waiting + envelope.frame.line().len() > QUEUE_BYTES_MAX
            || self.early.len() >= OPEN_PEER_REQUESTS_MAX
        {
            return self.refuse_host(token, &RpcError::pending_bytes());
        }
        self.early.push(envelope);
    }

    /// The host that holds the session asks for it again: the turn is not disturbed.
    fn answer_resumed(&self, token: Token) {
        let mut result = self.opened.clone().unwrap_or_default();
        result.keep(&["modes", "configOptions"]);
        self.answer_host(token, Frame::result(&result));
    }

    fn carry_to_peer(&mut self, token: Token, method: Method, envelope: Envelope, credit: Credit) {
        if self.peer.is_none() {
            let why = format!("agent `{}` is not running; the next prompt starts it", self.order.name);
            return self.refuse_host(token, &RpcError::runtime(why));
        }
        let kind = match method {
            Method::Authenticate => Kind::Authenticate,
            Method::Logout => Kind::Logout,
            _ => Kind::Other,
        };
        let ours = self.ledger.enter(Side::Host, token, kind);
        if kind == Kind::Authenticate {
            let copy =
                Frame::parse(Bytes::copy_from_slice(envelope.frame.line())).expect("it was parsed before");
            self.login = Some((ours, copy));
        }
        self.to_peer(vec![Envelope { call: Call::Request(ours), ..envelope }], credit);
    }

    fn host_answers(&mut self, ours: Token, frame: Frame, credit: Credit) {
        let Some(open) = self.ledger.close(ours) else {
            tracing::debug!(session = %self.order.id, kind = "unmatched_response", "late answer of the host dropped");
            return;
        };
        let made = open.kind == Kind::TerminalCreate;
        if open.side != Side::Peer {
            return self.release_terminals(terminal(&frame).filter(|_| made).into_iter().collect());
        }
        if matches!(open.kind, Kind::Permission | Kind::Elicitation) {
            self.health.saw_decision();
        }
        if made {
            self.note_terminal(&frame);
        }
        self.to_peer(vec![Envelope::new(Call::Response(open.token), frame)], credit);
    }

    fn host_says(&mut self, method: Method, envelope: Envelope, credit: Credit) {
        match method {
            Method::SessionCancel if self.is_ours(&envelope.frame) => self.cancel(),
            Method::SessionCancel => self.cancel_child(envelope, credit),
            Method::CancelRequest => self.host_withdraws(envelope),
            _ if self.stage == Stage::Live => self.to_peer(vec![envelope], credit),
            _ => {}
        }
    }

    /// Whether a line of the host names this session, however it spells it.
    fn is_ours(&self, frame: &Frame) -> bool {
        !frame.sessions().is_empty() || children::named(frame).is_some_and(|id| id == self.order.id.as_str())
    }

    /// `$/cancel_request` of the host: a prompt that waits is taken back, anything else is the peer's to decide
    /// (R72).
    fn host_withdraws(&mut self, envelope: Envelope) {
        let Some(token) = envelope.about else { return };
        if self.turn.withdraw(token) {
            return self.refuse_host(token, &RpcError::cancelled());
        }
        if self.unsent.take_if(|prompt| prompt.token == token).is_some() {
            return self.finish_turn(Frame::error(&RpcError::cancelled()));
        }
        if let Some(ours) = self.ledger.find(Side::Host, token) {
            // An agent may end a turn as cancelled for this: it is not sick then.
            self.health.saw_decision();
            self.to_peer(vec![Envelope { about: Some(ours), ..envelope }], Credit::none());
        }
    }

    pub(super) fn peer_event(&mut self, generation: Generation, event: peer::Event) {
        if let peer::Event::Down(death) = &event
            && self.leaving.contains(&generation)
        {
            return self.left(generation, death);
        }
        // What a process of before says is nobody's.
        if generation != self.generation || self.peer.is_none() {
            return;
        }
        match event {
            peer::Event::Lines(envelopes, credit) => self.peer_lines(envelopes, credit),
            peer::Event::Ready(answer) => self.ready(answer),
            peer::Event::Refused(ours) => self.not_sent(ours),
            peer::Event::Down(death) => self.peer_down(*death),
        }
    }

    /// Lines of the peer: what goes to the host leaves in one piece, in the order it came.
    fn peer_lines(&mut self, envelopes: Vec<Envelope>, credit: Credit) {
        self.card.touch();
        // What streams is updates: they pass as they came, in one piece.
        let plain = |e: &Envelope| e.call == Call::Notification && e.about.is_none();
        if !self.is_ending() && !self.swallows() && envelopes.iter().all(plain) {
            envelopes.iter().for_each(|e| self.note(&e.frame));
            return self.to_host(envelopes, credit);
        }
        let mut out = Vec::with_capacity(envelopes.len());
        let mut turn_ended = false;
        for envelope in envelopes {
            match envelope.call {
                Call::Notification => out.extend(self.peer_says(envelope)),
                Call::Request(token) => out.extend(self.peer_asks(token, envelope)),
                Call::Response(ours) => turn_ended |= self.peer_answers(ours, envelope.frame, &mut out),
            }
        }
        self.to_host(out, credit);
        if turn_ended {
            self.next_turn();
        }
    }

    /// What an update changes here. A child's tool calls are its own, and it announces none of ours.
    fn note(&mut self, frame: &Frame) {
        self.health.saw_update();
        if !frame.sessions().is_empty() {
            self.tools.note(frame);
            self.children.note(frame);
        }
    }

    fn peer_says(&mut self, envelope: Envelope) -> Option<Envelope> {
        if self.swallows() {
            return None;
        }
        self.note(&envelope.frame);
        // What comes once the session is on its way out reaches nobody (R204).
        if self.is_ending() {
            return None;
        }
        match envelope.about {
            Some(token) => {
                self.ledger.find(Side::Peer, token).map(|ours| Envelope { about: Some(ours), ..envelope })
            }
            None => Some(envelope),
        }
    }

    fn peer_asks(&mut self, token: Token, envelope: Envelope) -> Option<Envelope> {
        let Class::Request(method) = envelope.frame.class() else { return None };
        let refusal = match self.services.route(method, &envelope.frame) {
            Route::Host(kind) if self.is_ending() => unanswered(kind),
            Route::Host(kind) => match self.about(&envelope) {
                Ok(about) => return Some(self.carry_to_host(token, kind, Envelope { about, ..envelope })),
                Err(answer) => answer,
            },
            Route::Refuse(error) => Frame::error(&error),
        };
        self.to_peer(vec![Envelope::new(Call::Response(token), refusal)], Credit::none());
        None
    }

    fn carry_to_host(&mut self, token: Token, kind: Kind, envelope: Envelope) -> Envelope {
        if kind == Kind::TerminalRelease {
            self.forget_terminal(&envelope.frame);
        }
        let child = self.children.number(&envelope.frame);
        let ours = self.ledger.enter_for(child, token, kind);
        Envelope { call: Call::Request(ours), ..envelope }
    }

    /// The host's request that a question of the peer is about, if it is about one; else the answer to it.
    fn about(&self, envelope: &Envelope) -> Result<Option<Token>, Frame> {
        let Some(ours) = envelope.about else { return Ok(None) };
        match self.ledger.get(ours) {
            Some(Open { side: Side::Host, token, .. }) => Ok(Some(token)),
            Some(Open { kind: Kind::Open, .. }) if self.setup.as_ref().is_some_and(|s| s.token.is_some()) => {
                Ok(self.setup.as_ref().and_then(|s| s.token))
            }
            // It is about a request of our own: there is nobody to ask.
            _ => Err(unanswered(Kind::Elicitation)),
        }
    }

    /// An answer of the peer. Whether a turn ended with it.
    fn peer_answers(&mut self, ours: Token, frame: Frame, out: &mut Vec<Envelope>) -> bool {
        let Some(open) = self.ledger.close(ours) else {
            tracing::debug!(session = %self.order.id, kind = "unmatched_response", "late answer of the peer dropped");
            return false;
        };
        match open {
            Open { kind: Kind::Prompt, .. } => {
                self.answered += 1;
                self.examine(&frame);
                out.extend(self.prompt_answered(frame));
                return true;
            }
            Open { kind: Kind::Open, .. } => out.extend(self.open_answered(frame)),
            Open { kind: Kind::Authenticate, side: Side::Ours, .. } => {
                out.extend(self.reauthenticated(frame.class() == Class::Response { ok: true }));
            }
            Open { kind, side: Side::Host, token, .. } => {
                let ok = frame.class() == (Class::Response { ok: true });
                match kind {
                    Kind::Authenticate if ok => self.logged_in(ours),
                    Kind::Logout if ok => self.logged_out(),
                    _ => {}
                }
                // What was asked of a warm process was a use of it.
                if self.stage == Stage::Warm {
                    self.warm_later();
                }
                out.push(Envelope::new(Call::Response(token), frame));
            }
            Open { .. } => {}
        }
        false
    }

    fn logged_in(&mut self, ours: Token) {
        if let Some((_, frame)) = self.login.take_if(|(token, _)| *token == ours) {
            self.order.authenticated = Some(frame);
        }
        if let Some(peer) = &mut self.peer {
            peer.authenticated = true;
        }
    }

    fn logged_out(&mut self) {
        self.order.authenticated = None;
        if let Some(peer) = &mut self.peer {
            peer.authenticated = false;
        }
    }

    /// The peer's queue is full: the request is answered, the session lives on (R10).
    fn not_sent(&mut self, ours: Token) {
        let error = Frame::error(&RpcError::pending_bytes());
        match self.ledger.close(ours) {
            Some(Open { kind: Kind::Prompt, .. }) => self.finish_turn(error),
            Some(Open { side: Side::Host, token, .. }) => self.answer_host(token, error),
            Some(Open { kind: Kind::Open, .. }) => {
                let answer = self.open_answered(error);
                self.to_host(answer.into_iter().collect(), Credit::none());
            }
            Some(Open { kind: Kind::Authenticate, .. }) => {
                let answer = self.reauthenticated(false);
                self.to_host(answer.into_iter().collect(), Credit::none());
            }
            _ => {}
        }
    }

    fn peer_down(&mut self, mut death: Death) {
        self.peer = None;
        death.prompt_open = self.turn.is_active();
        self.card.set("last_exit", death.to_string());
        let outcome = death.outcome(self.answered);
        tracing::info!(session = %self.order.id, ?outcome, answered = self.answered, "peer exit classified");
        if self.is_ending() {
            return self.gone(&death);
        }
        self.note_unproved(&death);
        tracing::warn!(session = %self.order.id, %death, "peer is gone");
        if outcome == Outcome::Failed && death.is_failure() {
            let _ =
                self.reports.send_message(super::Report::Failed(self.order.program(), death.error().message));
        }
        let live = self.stage == Stage::Live;
        if live {
            self.notice(json!({ "peer": "gone" }));
        }
        // A prompt that waited starts another process right away.
        self.bereaved(&death.error());
        if !live {
            self.start_failed(&death);
        }
    }

    /// A process that was given up is gone: what waited for that goes on.
    fn left(&mut self, generation: Generation, death: &Death) {
        self.leaving.retain(|g| *g != generation);
        self.note_unproved(death);
        if !self.leaving.is_empty() {
            return;
        }
        if self.is_ending() && self.peer.is_none() {
            self.gone(death);
        } else if std::mem::take(&mut self.start_waits) {
            let _ = self.me.cast(Msg::Start(Ok(())));
        }
    }

    /// The peer's mailbox failed: its process went with it.
    pub(super) fn peer_panicked(&mut self, error: &str) {
        let death = Death {
            agent: self.order.name.clone(),
            cause: Cause::ReadFailed(format!("internal error: {error}")),
            exit: None,
            unanswered: None,
            stderr: String::new(),
            prompt_open: false,
        };
        match self.leaving.last().copied() {
            _ if self.peer.is_some() => self.peer_down(death),
            // Which of them it was does not matter: a mailbox that failed took its process with it.
            Some(generation) => self.left(generation, &death),
            None => {}
        }
    }

    /// The process is given up while its session lives on.
    pub(super) fn forsake_peer(&mut self, why: &str) {
        self.drop_peer(&RpcError::runtime(format!("agent `{}` was ended: {why}", self.order.name)));
    }

    /// Nobody answers any more what the peer was asked, and nobody waits for what it asked (R251).
    pub(super) fn bereaved(&mut self, error: &RpcError) {
        let waiting_for_nobody = self.ledger.take(|o| o.side == Side::Peer);
        let back = waiting_for_nobody.iter().map(|(ours, _)| withdrawal(*ours)).collect();
        self.to_host(back, Credit::none());
        let released = std::mem::take(&mut self.terminals);
        self.release_terminals(released);
        let turn = self.ledger.take(|o| o.kind == Kind::Prompt);
        for (_, open) in self.ledger.take(|o| o.side == Side::Host) {
            self.refuse_host(open.token, error);
        }
        self.ledger.take(|o| {
            o.side == Side::Ours && !matches!(o.kind, Kind::TerminalCreate | Kind::TerminalRelease)
        });
        // A terminal that the host makes all the same is released when it says so.
        for (ours, _) in waiting_for_nobody.iter().filter(|(_, o)| o.kind == Kind::TerminalCreate) {
            self.ledger.adopt(*ours, Kind::TerminalCreate);
        }
        if !turn.is_empty() {
            self.finish_turn(Frame::error(error));
        }
    }

    fn note_terminal(&mut self, answer: &Frame) {
        let room = self.terminals.len() < OPEN_PEER_REQUESTS_MAX;
        self.terminals.extend(terminal(answer).filter(|_| room));
    }

    fn forget_terminal(&mut self, request: &Frame) {
        let params = Object::of(request.member("params").map_or("{}", RawValue::get));
        if let Some(id) = params.get("terminalId") {
            self.terminals.retain(|t| **t != *id.get());
        }
    }

    /// The peer is gone and released nothing: its terminals at the host are released for it.
    fn release_terminals(&mut self, ids: Vec<Box<str>>) {
        let mut releases = Vec::with_capacity(ids.len());
        for id in ids.iter().filter_map(|id| serde_json::from_str(id).ok()) {
            let ours = self.ledger.enter(Side::Ours, 0, Kind::TerminalRelease);
            releases.push(Envelope::new(Call::Request(ours), author::release_terminal(&self.order.id, id)));
        }
        self.to_host(releases, Credit::none());
    }
}

/// The terminal that the host made, as written.
fn terminal(answer: &Frame) -> Option<Box<str>> {
    let result = Object::of(answer.member("result")?.get());
    result.get("terminalId").map(|id| id.get().into())
}
