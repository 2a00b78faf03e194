//! From a process to a session on it: start, handshake, `session/new` or its kin, authentication (R18, R58).
//!
//! The same way serves a session that is new, one that is taken up again, and one whose process died (R31).

use std::time::Duration;

use bytes::Bytes;
use serde_json::{json, value::RawValue};
use smallvec::smallvec;
use tokio::sync::oneshot;

use super::{
    actor::{Msg, Report, Stage, State},
    capabilities::offer,
    ending::{Ending, Reason},
    ledger::{Kind, Side},
    outbox::Ticket,
    record::{After, noted},
};
use crate::{
    history::Mark,
    id::Token,
    peer::{can_load, can_resume},
    residency::Slot,
    store::{self, Op},
    wire::{Call, Envelope, Frame, Method, RpcError, credit::Credit, frame::Class, patch::Object},
};

/// What every answer has that opens a session.
const SHARED: [&str; 3] = ["modes", "configOptions", "models"];

/// Silence that ends the history which a process streams when it loads a session (R31).
const LOAD_SILENCE: Duration = Duration::from_millis(100);

/// How the process is asked for the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    New,
    Resume,
    /// What it streams is history, and swallowed (R31).
    Load,
}

/// The opening of a session, until it is open.
#[derive(Debug)]
pub(super) struct Setup {
    /// The host's token; `None` when a dead process is replaced, or nobody asked.
    pub token: Option<Token>,
    /// What the host asked.
    pub method: Method,
    /// As the host wrote it, in bytes of its own.
    pub frame: Frame,
    pub how: How,
    /// Our token of the request that is out.
    pub out: Option<Token>,
    /// `authenticate` was repeated on this process (R18).
    pub reauthenticated: bool,
    /// The process was restarted for the sake of authentication (R18).
    pub restarted: bool,
    /// The peer's refusal that made us authenticate again.
    pub refusal: Option<Frame>,
    /// Whether history was streamed of late.
    pub heard: bool,
    /// How often its end was waited for.
    pub silences: u32,
}

impl Setup {
    fn new(frame: Frame, how: How) -> Self {
        Self {
            token: None,
            method: Method::Other,
            frame,
            how,
            out: None,
            reauthenticated: false,
            restarted: false,
            refusal: None,
            heard: false,
            silences: 0,
        }
    }
}

impl State {
    /// The handshake is done.
    pub(super) fn ready(&mut self, answer: Object) {
        if self.is_ending() {
            return;
        }
        let _ = self.reports.send_message(Report::Learnt(self.order.learnt_key, answer.clone()));
        if let Some(peer) = &mut self.peer {
            peer.answer = Some(answer);
        }
        self.enter(Stage::Warm);
        if self.setup.is_none() && self.record.kept && !self.is_awaited() {
            self.reopen();
        } else if self.setup.is_some() {
            self.open();
        }
        let early = std::mem::take(&mut self.early);
        self.host_lines(early, Credit::none());
        if self.stage == Stage::Warm {
            self.warm_later();
        }
    }

    /// A warm process has this long to be used, from now on.
    pub(super) fn warm_later(&mut self) {
        self.warm_times += 1;
        let number = self.warm_times;
        self.later(Duration::from_millis(self.shared.limits.warm_ms), move || Msg::WarmDue(number));
    }

    /// Nobody wanted the warm process (R14). One that is asked something has more time.
    pub(super) fn warm_due(&mut self, number: u64) {
        if number != self.warm_times {
            return;
        }
        if self.is_unused() {
            self.end(Ending::at_once(Reason::Unused));
        } else if self.stage == Stage::Warm {
            self.warm_later();
        }
    }

    /// The host of a warm process that nobody uses needs its slot.
    pub(super) fn yield_slot(&mut self, done: oneshot::Sender<()>) {
        if self.is_unused() {
            self.yielded = Some(done);
            self.end(Ending::at_once(Reason::Unused));
        }
    }

    fn is_unused(&self) -> bool {
        self.stage == Stage::Warm && self.setup.is_none() && self.ledger.count(Side::Host) == 0
    }

    /// Whether a request that waits will say how the session is to be opened.
    fn is_awaited(&self) -> bool {
        let opens =
            |e: &Envelope| matches!(e.frame.class(), Class::Request(method) if method.opens_session());
        self.early.iter().any(opens)
    }

    /// The answer to a host's `initialize`.
    pub(super) fn answer_initialize(&mut self, token: Token) {
        if let Some(answer) = self.peer.as_ref().and_then(|p| p.answer.as_ref()) {
            let offer = offer(answer, &self.order.capabilities, &self.order.name, self.shared.host.fork);
            self.answer_host(token, Frame::result(&offer));
        }
    }

    /// A host's request that opens the session.
    pub(super) fn wanted(&mut self, token: Token, method: Method, frame: &Frame) {
        let copy = Frame::parse(Bytes::copy_from_slice(frame.line())).expect("it was parsed before");
        self.params = copy.member("params").map(RawValue::to_owned);
        self.works_in(&copy);
        let how = if method == Method::SessionNew { How::New } else { self.way_back() };
        self.setup = Some(Setup { token: Some(token), method, ..Setup::new(copy, how) });
        self.open();
    }

    /// A process that was started elsewhere serves it there: another one will start where the session is.
    fn works_in(&mut self, frame: &Frame) {
        let params = Object::of(frame.member("params").map_or("{}", RawValue::get));
        if let Some(cwd) = params.get("cwd").and_then(|cwd| serde_json::from_str(cwd.get()).ok()) {
            self.order.cwd = cwd;
            self.card.set("cwd", self.order.cwd.to_string_lossy());
        }
    }

    /// How a process takes a session up again: the best way it offers (R31).
    fn way_back(&self) -> How {
        let answer = self.peer.as_ref().and_then(|p| p.answer.as_ref());
        match answer.filter(|_| self.peer_session.is_some()) {
            Some(answer) if can_resume(answer) => How::Resume,
            Some(answer) if can_load(answer) => How::Load,
            _ => How::New,
        }
    }

    /// A new process for a session that is there, with nobody waiting for an answer: it is told what the old one was.
    fn reopen(&mut self) {
        let how = self.way_back();
        let frame = self.opening(how);
        self.setup = Some(Setup::new(frame, how));
        self.open();
    }

    /// The request that opens the session that way, with the params that opened it first.
    fn opening(&self, how: How) -> Frame {
        let mut params = Object::of(self.params.as_ref().map_or("{}", |p| p.get()));
        if !params.marks("mcpServers") {
            params.set("mcpServers", &json!([]));
        }
        let method = match how {
            How::New => "session/new",
            How::Resume => "session/resume",
            How::Load => "session/load",
        };
        match how {
            How::New => params.remove("sessionId"),
            How::Resume | How::Load => params.set("sessionId", &self.order.id.as_str()),
        }
        Frame::request(method, &params)
    }

    /// Asks the process for the session.
    fn open(&mut self) {
        let Some(setup) = &self.setup else { return };
        let (how, token) = (setup.how, setup.token.unwrap_or_default());
        let as_written = setup.token.is_some() && setup.frame.class() == Class::Request(method_of(how));
        let frame = if as_written { setup.frame.clone() } else { self.opening(how) };
        let out = self.ledger.enter(Side::Ours, token, Kind::Open);
        if let Some(setup) = &mut self.setup {
            setup.out = Some(out);
        }
        self.enter(Stage::Opening);
        let known = (how != How::New).then(|| self.peer_session.clone()).flatten();
        self.tell_peer_as(vec![Envelope::new(Call::Request(out), frame)], Credit::none(), known);
    }

    /// Whether the process was asked to load, and has not answered.
    pub(super) fn loads(&self) -> bool {
        self.setup.as_ref().is_some_and(|s| s.how == How::Load && s.out.is_some())
    }

    /// Whether what is said is history that the host has seen (R31): while a process takes a session up, until that is
    /// as it was, it has nothing new to say.
    pub(super) fn swallows(&self) -> bool {
        self.loads() || self.setup.as_ref().is_some_and(|s| s.out.is_none() && self.record.kept)
    }

    /// The process streams history.
    pub(super) fn heard_history(&mut self) {
        self.setup.iter_mut().for_each(|setup| setup.heard = true);
    }

    /// Everything was set. Some agents answer a load first and stream the history then: that is over when nothing of it
    /// came for a moment, and takes no longer than any step of the start.
    pub(super) fn restored_all(&mut self) {
        let silences_max = Duration::from_secs(self.order.agent.handshake_s).div_duration_f64(LOAD_SILENCE);
        let Some(setup) = &mut self.setup else { return };
        let waits = setup.how == How::Load && (setup.silences == 0 || setup.heard);
        if !waits || f64::from(setup.silences) >= silences_max {
            return self.set_up();
        }
        setup.silences += 1;
        setup.heard = false;
        let generation = self.generation;
        self.later(LOAD_SILENCE, move || Msg::SilenceDue(generation));
    }

    /// The process answered the request that opens the session. Returns what goes to the host, in its place.
    pub(super) fn open_answered(&mut self, answer: Frame) -> Option<Envelope> {
        let mut setup = self.setup.take()?;
        if answer.class() == (Class::Response { ok: true }) {
            self.open_succeeded(setup, &answer);
            return None;
        }
        let code = answer.member("error").map(|e| RpcError::of(e).code);
        if code == Some(-32000) && self.authenticate_again(&mut setup, &answer) {
            self.setup = Some(setup);
            return None;
        }
        if let Some(how) = self.next_way(&setup, code) {
            tracing::info!(session = %self.order.id, how = ?setup.how, next = ?how, "not taken up that way");
            self.setup = Some(Setup { how, ..setup });
            self.open();
            return None;
        }
        self.open_failed(&setup, answer, code == Some(-32000))
    }

    /// The process has the session. It is told what was set before anybody hears of that (R58).
    fn open_succeeded(&mut self, setup: Setup, answer: &Frame) {
        let result = Object::of(answer.member("result").map_or("{}", RawValue::get));
        if setup.how == How::New {
            self.peer_session = result.get("sessionId").map(|id| id.get().as_bytes().to_vec());
        }
        self.settings.set_up(&result, setup.how == How::New);
        self.opened = Some(result);
        self.setup = Some(Setup { out: None, ..setup });
        self.restore_next();
    }

    /// The session is as it was set: it is on record, then who asked for it is answered.
    pub(super) fn set_up(&mut self) {
        let Some(setup) = self.setup.take() else { return };
        let taken_up = self.record.kept;
        self.enter(Stage::Live);
        self.slot.iter().for_each(Slot::commit);
        let ticket = self.record_opened(setup.how);
        tracing::info!(session = %self.order.id, agent = %self.order.name, how = ?setup.how,
            peer_session = %String::from_utf8_lossy(self.peer_session.as_deref().unwrap_or_default()), "session open");
        self.answer_opened(&setup, ticket);
        if taken_up && setup.how == How::New {
            self.start_blank();
        }
        let lost = std::mem::take(&mut self.lost);
        lost.into_iter().for_each(|facts| self.notice(facts));
        if self.showing.is_none() {
            self.order.opened = None;
            self.attached();
        }
        // The prompt came first: what the host asked since then waited for the process that it needed.
        self.advance();
        let early = std::mem::take(&mut self.early);
        self.host_lines(early, Credit::none());
    }

    fn answer_opened(&mut self, setup: &Setup, ticket: Ticket) {
        let Some(token) = setup.token else {
            let changed = self.settings.resync(&self.order.id);
            let lines = changed.into_iter().map(|frame| Envelope::new(Call::Notification, frame)).collect();
            return self.tell_host(lines, Credit::none());
        };
        match setup.method {
            Method::SessionLoad | Method::SessionResume => {
                let answer = self.taken_up();
                self.show(token, answer, setup.method == Method::SessionLoad);
            }
            _ => {
                let answer = self.made(setup.method);
                self.tell_host_after(ticket, vec![Envelope::new(Call::Response(token), answer)]);
            }
        }
    }

    /// The answer to `session/new`, and that to a fork, which is shaped as it (R48).
    fn made(&mut self, method: Method) -> Frame {
        let mut result = self.settings.decorate(self.opened.clone().unwrap_or_default());
        if method == Method::SessionFork {
            result.keep(&SHARED);
            result.set("sessionId", &self.order.id.as_str());
        }
        Frame::result(&result)
    }

    /// What a host hears that takes the session up: modes and options, no id (R48).
    pub(super) fn taken_up(&mut self) -> Frame {
        let mut result = self.settings.decorate(self.opened.clone().unwrap_or_default());
        result.keep(&SHARED);
        Frame::result(&result)
    }

    /// A session that is new has its row before its host hears of it; one that is taken up has a new process (R273).
    fn record_opened(&mut self, how: How) -> Ticket {
        let peer_session = self.peer_session.clone().unwrap_or_default();
        let peer = serde_json::from_slice::<String>(&peer_session).unwrap_or_default();
        let way = if how == How::New && self.record.kept {
            "blank".to_owned()
        } else {
            format!("{how:?}").to_lowercase()
        };
        let opened = Mark::Opened {
            agent: self.order.name.as_str().into(),
            how: way.into(),
            peer_session: peer.into(),
        };
        let first =
            if self.record.kept { Op::PeerSession(peer_session) } else { Op::Create(Box::new(self.row())) };
        let sync = !self.record.kept;
        self.record.kept = true;
        self.write_then(smallvec![first, noted(&opened)], sync, After::Lines)
    }

    fn row(&self) -> store::Row {
        let now = jiff::Timestamp::now().as_millisecond();
        store::Row {
            id: self.order.id.clone(),
            agent: self.order.name.clone(),
            cwd: self.order.cwd.clone(),
            params: self.params.as_ref().map_or("{}", |p| p.get()).to_owned(),
            peer_session: self.peer_session.clone().unwrap_or_default(),
            title: None,
            created_ms: now,
            updated_ms: now,
            parent: None,
            settings: self.settings.stored().clone(),
        }
    }

    /// A session that this peer does not know any more falls through to the next way (R31).
    fn next_way(&self, setup: &Setup, code: Option<i32>) -> Option<How> {
        // Agents say it in many ways. What they cannot do just now is no reason to give up what they know.
        let forgotten = matches!(code, Some(-32_002 | -32_601 | -32_602 | -32_603));
        let answer = self.peer.as_ref().and_then(|p| p.answer.as_ref());
        match setup.how {
            How::New => None,
            _ if !forgotten && setup.token.is_some() => None,
            How::Resume if answer.is_some_and(can_load) => Some(How::Load),
            How::Resume | How::Load => Some(How::New),
        }
    }

    fn open_failed(&mut self, setup: &Setup, answer: Frame, auth: bool) -> Option<Envelope> {
        let Some(token) = setup.token else {
            let error = answer.member("error").map_or_else(|| RpcError::runtime("no session"), RpcError::of);
            self.drop_peer(&error);
            self.fail_early(&answer);
            self.fail_unsent(&answer);
            return None;
        };
        // The process stays for the authentication that the host will now ask for (R24).
        if auth && setup.method == Method::SessionNew {
            self.enter(Stage::Warm);
            self.warm_later();
            return Some(Envelope::new(Call::Response(token), answer));
        }
        self.last_answers.push((token, answer));
        self.end(Ending::at_once(Reason::Failed));
        None
    }

    /// The peer wants a login: repeats the connection's last one, or restarts a process that may read credentials
    /// only when it starts (R18). Whether there is something to wait for.
    fn authenticate_again(&mut self, setup: &mut Setup, refusal: &Frame) -> bool {
        let Some(peer) = &self.peer else { return false };
        let known = self.order.authenticated.clone();
        if let Some(frame) = known.filter(|_| !setup.reauthenticated && !peer.authenticated) {
            setup.reauthenticated = true;
            setup.refusal = Some(refusal.clone());
            let out = self.ledger.enter(Side::Ours, 0, Kind::Authenticate);
            let deadline = Duration::from_secs(self.order.agent.handshake_s);
            self.later(deadline, move || Msg::LoginDue(out));
            self.tell_peer(vec![Envelope::new(Call::Request(out), frame)], Credit::none());
            return true;
        }
        if peer.authenticated && !setup.restarted {
            setup.restarted = true;
            setup.reauthenticated = false;
            self.drop_peer(&RpcError::runtime("the agent is started again for its login"));
            self.restart_peer();
            return true;
        }
        false
    }

    /// Our own `authenticate` may wait for a person who is not there: the refusal that made us try is the answer (R22).
    pub(super) fn login_due(&mut self, ours: Token) {
        if self.ledger.close(ours).is_some() {
            let answer = self.reauthenticated(false);
            self.tell_host(answer.into_iter().collect(), Credit::none());
        }
    }

    /// Our own `authenticate` was answered.
    pub(super) fn reauthenticated(&mut self, ok: bool) -> Option<Envelope> {
        if ok {
            if let Some(peer) = &mut self.peer {
                peer.authenticated = true;
            }
            self.open();
            return None;
        }
        let setup = self.setup.take()?;
        let refusal = setup.refusal.clone()?;
        self.open_failed(&setup, refusal, true)
    }

    /// Requests that waited for the process, by their tokens.
    pub(super) fn take_early(&mut self) -> Vec<Token> {
        let token =
            |envelope: Envelope| if let Call::Request(token) = envelope.call { Some(token) } else { None };
        std::mem::take(&mut self.early).into_iter().filter_map(token).collect()
    }

    pub(super) fn fail_early(&mut self, answer: &Frame) {
        for token in self.take_early() {
            self.answer_host(token, answer.clone());
        }
    }

    pub(super) fn enter(&mut self, stage: Stage) {
        if self.stage != Stage::Ending {
            self.stage = stage;
        }
    }
}

fn method_of(how: How) -> Method {
    match how {
        How::New => Method::SessionNew,
        How::Resume => Method::SessionResume,
        How::Load => Method::SessionLoad,
    }
}
