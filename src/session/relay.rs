//! Lines of both sides, each to where it belongs (R13, R107, R248).

use bytes::Bytes;
use serde_json::value::RawValue;

use super::{
    actor::{Stage, State},
    children,
    ending::{Ending, Reason},
    ledger::{Kind, Open, Side},
    loss::terminal,
    prompts::unanswered,
    record::alone,
    route::Route,
    settings::Way,
};
use crate::{
    event::cut,
    history::is_history,
    id::{Address, Generation, Token},
    limits::{OPEN_PEER_REQUESTS_MAX, QUEUE_BYTES_MAX},
    peer::{self},
    store::{self, Op},
    wire::{
        Call, Envelope, Frame, Letter, Method, RpcError, Word,
        credit::Credit,
        frame::{Class, UpdateKind},
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
            Letter::Word { word: Word::HostLost(loss), .. } => {
                self.end_or_stay(Ending::host_lost(loss), None);
            }
            Letter::Word { word: Word::Cancel, .. } => self.cancel(),
            Letter::Word { word: Word::Wake, .. } => self.woken(),
            Letter::Word { word: Word::Abort, .. } => self.end(Ending::at_once(Reason::Killed)),
            Letter::Word { word: Word::Yield(done), .. } => self.yield_slot(done),
            Letter::Word { word: Word::Detach(stays), .. } => self.let_go(stays),
            Letter::Word { word: Word::Split(copied), .. } => self.split(copied),
            Letter::Word { word: Word::Sleep(asleep), .. } => self.sleep(Some(asleep)),
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
            (method, Stage::Warm) if method.opens_session() => self.wanted(token, method, &envelope.frame),
            (Method::SessionLoad | Method::SessionResume, Stage::Live) => {
                let answer = self.taken_up();
                self.show(token, answer, method == Method::SessionLoad);
            }
            _ => match Way::of(&envelope.frame.method_name()) {
                Some(way) => self.set(token, way, envelope, credit),
                None => self.carry_to_peer(token, method, envelope, credit),
            },
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
        self.tell_peer(vec![Envelope { call: Call::Request(ours), ..envelope }], credit);
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
        match open.kind {
            Kind::Permission => self.host_decided(ours, &frame),
            Kind::Elicitation => self.health.saw_decision(),
            _ => {}
        }
        if made {
            self.note_terminal(&frame);
        }
        self.tell_peer(vec![Envelope::new(Call::Response(open.token), frame)], credit);
    }

    fn host_says(&mut self, method: Method, envelope: Envelope, credit: Credit) {
        match method {
            Method::SessionCancel if self.is_ours(&envelope.frame) => self.cancel(),
            Method::SessionCancel => self.cancel_child(envelope, credit),
            Method::CancelRequest => self.host_withdraws(envelope),
            _ if self.stage == Stage::Live => self.tell_peer(vec![envelope], credit),
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
        if let Some(number) = self.turn.withdraw(token) {
            self.never_ran(number, "withdrawn");
            return self.refuse_host(token, &RpcError::cancelled());
        }
        if self.unsent.as_ref().is_some_and(|u| u.prompt.source.token() == Some(token)) {
            self.take_unsent();
            return self.finish_turn(Frame::error(&RpcError::cancelled()));
        }
        if let Some(ours) = self.ledger.find(Side::Host, token) {
            // An agent may end a turn as cancelled for this: it is not sick then.
            self.health.saw_decision();
            self.tell_peer(vec![Envelope { about: Some(ours), ..envelope }], Credit::none());
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
            peer::Event::Stray(lines, mut credit) => {
                self.keep_lines(store::Kind::Stray, lines, &mut credit);
            }
            peer::Event::Ready(answer) => self.ready(answer),
            peer::Event::Refused(ours) => self.not_sent(ours),
            peer::Event::Down(death) => self.peer_down(*death),
        }
    }

    /// Lines of the peer: what goes to the host leaves in one piece, in the order it came.
    fn peer_lines(&mut self, mut envelopes: Vec<Envelope>, mut credit: Credit) {
        self.card.touch();
        if self.swallows() {
            return self.peer_replays(envelopes, credit);
        }
        let opens = |call| matches!(call, Call::Response(ours) if self.is_of(ours, Kind::Open));
        if !self.record.kept
            && let Some(at) = envelopes.iter().position(|e| opens(e.call))
        {
            // What comes with a new session is on record behind it.
            let rest = envelopes.split_off(at + 1);
            let bytes = rest.iter().map(|e| e.frame.line().len()).sum();
            let part = credit.split(rest.len(), bytes);
            self.peer_mixed(envelopes, credit);
            return self.peer_lines(rest, part);
        }
        self.keep(store::Kind::Peer, &envelopes, &mut credit);
        // What streams is updates: they pass as they came, in one piece.
        let plain =
            |e: &Envelope| e.call == Call::Notification && e.about.is_none() && !is_settings(&e.frame);
        if !self.is_ending() && envelopes.iter().all(plain) {
            envelopes.iter().for_each(|e| self.note(&e.frame));
            return self.tell_host(envelopes, credit);
        }
        self.peer_mixed(envelopes, credit);
    }

    /// History that the peer streams is on record already, whether it comes before the answer or after it (R31, R37).
    fn peer_replays(&mut self, envelopes: Vec<Envelope>, mut credit: Credit) {
        let opens = |call| matches!(call, Call::Response(ours) if self.is_of(ours, Kind::Open));
        let end = envelopes.iter().position(|e| opens(e.call)).unwrap_or(envelopes.len());
        let end = if self.loads() { end } else { 0 };
        let is_old = |at, e: &Envelope| e.call == Call::Notification && is_history(&e.frame, at < end);
        let count = envelopes.len();
        let news: Vec<_> =
            envelopes.into_iter().enumerate().filter(|(at, e)| !is_old(*at, e)).map(|(_, e)| e).collect();
        if news.len() < count {
            self.heard_history();
        }
        let lines = news.iter().map(|e| e.frame.line().clone()).collect();
        self.keep_lines(store::Kind::Peer, lines, &mut credit);
        self.peer_mixed(news, credit);
    }

    fn peer_mixed(&mut self, envelopes: Vec<Envelope>, mut credit: Credit) {
        let mut out = Vec::with_capacity(envelopes.len());
        let mut turn_ended = false;
        for envelope in envelopes {
            // What may tell the host something by itself, or has to wait, comes behind what was said before it.
            let apart = match envelope.call {
                Call::Notification => is_settings(&envelope.frame),
                Call::Request(_) => true,
                Call::Response(ours) => self.is_of(ours, Kind::Prompt) || self.is_of(ours, Kind::Setting),
            };
            if apart {
                self.flush(&mut out, &mut credit);
            }
            match envelope.call {
                Call::Notification => out.extend(self.peer_says(envelope)),
                Call::Request(token) => {
                    // A refusal is told at once, behind the call that it is about.
                    self.flush(&mut out, &mut credit);
                    out.extend(self.peer_asks(token, envelope));
                }
                Call::Response(ours) if self.is_of(ours, Kind::Prompt) => {
                    self.ledger.close(ours);
                    self.answered += 1;
                    self.examine(&envelope.frame);
                    self.end_turn(envelope.frame);
                    turn_ended = true;
                }
                Call::Response(ours) => self.peer_answers(ours, envelope.frame, &mut out),
            }
        }
        self.tell_host(out, credit);
        if turn_ended {
            self.next_turn();
        }
    }

    /// Sends what was collected.
    fn flush(&mut self, out: &mut Vec<Envelope>, credit: &mut Credit) {
        let said = std::mem::take(out);
        let part = credit.split(said.len(), said.iter().map(|e| e.frame.line().len()).sum());
        self.tell_host(said, part);
    }

    fn is_of(&self, ours: Token, kind: Kind) -> bool {
        self.ledger.get(ours).is_some_and(|open| open.kind == kind)
    }

    /// What an update changes here. A child's tool calls are its own, and it announces none of ours.
    fn note(&mut self, frame: &Frame) {
        self.health.saw_update();
        self.watch(frame);
        if !frame.sessions().is_empty() {
            self.tools.note(frame);
            self.children.note(frame);
            self.note_title(frame);
        }
    }

    /// What the peer calls the session is what a list shows (R45).
    fn note_title(&self, frame: &Frame) {
        if frame.update().is_none_or(|update| update.kind != UpdateKind::SessionInfo) {
            return;
        }
        let params = Object::of(frame.member("params").map_or("{}", RawValue::get));
        let update = Object::of(params.get("update").map_or("{}", RawValue::get));
        let title = update.get("title").map(|title| serde_json::from_str::<Option<String>>(title.get()));
        if let Some(Ok(title)) = title {
            self.write(alone(Op::Title(title.as_deref().map(cut))), Credit::none());
        }
    }

    fn peer_says(&mut self, envelope: Envelope) -> Option<Envelope> {
        self.note(&envelope.frame);
        // What comes once the session is on its way out reaches nobody (R204).
        if self.is_ending() {
            return None;
        }
        match envelope.about {
            Some(token) => {
                self.ledger.find(Side::Peer, token).map(|ours| Envelope { about: Some(ours), ..envelope })
            }
            None if is_settings(&envelope.frame) => self.peer_sets(envelope),
            None => Some(envelope),
        }
    }

    fn peer_asks(&mut self, token: Token, envelope: Envelope) -> Option<Envelope> {
        let Class::Request(method) = envelope.frame.class() else { return None };
        self.watch(&envelope.frame);
        let refusal = match self.services.route(method, &envelope.frame) {
            Route::Host(kind) if self.is_ending() => unanswered(kind),
            Route::Host(Kind::Permission) => return self.permission(token, envelope),
            Route::Host(kind) if !self.is_attached() => {
                self.unserved(token, kind);
                return None;
            }
            Route::Host(kind) => match self.about(&envelope) {
                Ok(about) => return Some(self.carry_to_host(token, kind, Envelope { about, ..envelope })),
                Err(answer) => answer,
            },
            Route::Refuse(error) => Frame::error(&error),
        };
        self.tell_peer(vec![Envelope::new(Call::Response(token), refusal)], Credit::none());
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

    /// An answer of the peer to anything but a prompt.
    fn peer_answers(&mut self, ours: Token, frame: Frame, out: &mut Vec<Envelope>) {
        let Some(open) = self.ledger.close(ours) else {
            tracing::debug!(session = %self.order.id, kind = "unmatched_response", "late answer of the peer dropped");
            return;
        };
        match open {
            Open { kind: Kind::Open, .. } => out.extend(self.open_answered(frame)),
            Open { kind: Kind::Restore, .. } => self.restored(ours, &frame),
            Open { kind: Kind::Setting, token, .. } => out.extend(self.set_answered(ours, token, frame)),
            Open { kind: Kind::Fork, .. } => self.split_answered(ours, &frame),
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
                self.tell_host(answer.into_iter().collect(), Credit::none());
            }
            Some(Open { kind: Kind::Authenticate, .. }) => {
                let answer = self.reauthenticated(false);
                self.tell_host(answer.into_iter().collect(), Credit::none());
            }
            _ => {}
        }
    }
}

/// Whether it speaks of modes or options.
pub(super) fn is_settings(frame: &Frame) -> bool {
    frame.update().is_some_and(|update| update.kind == UpdateKind::Settings)
}
