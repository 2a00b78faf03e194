//! From a process to a session on it: start, handshake, `session/new` or its kin, authentication (R18, R58).
//!
//! The same way serves a session that is new, one that is taken up again, and one whose process died (R31).

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use ractor::SpawnErr;
use serde_json::{json, value::RawValue};
use tokio::sync::oneshot;

use super::{
    actor::{Link, Msg, Report, Stage, State},
    capabilities::offer,
    children::Children,
    ending::{Ending, Reason},
    health::Health,
    ledger::{Kind, Side},
};
use crate::{
    config::Home,
    id::Token,
    ingress::Held,
    limits::{RESTARTS_MAX, RESTARTS_WINDOW_MS},
    peer::{self, Death, Peer, can_load, can_resume},
    process::Scratch,
    residency::Slot,
    store,
    wire::{Call, Envelope, Frame, Method, RpcError, credit::Credit, frame::Class, patch::Object},
};

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
    /// The host's token; `None` when a dead process is replaced.
    pub token: Option<Token>,
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
}

impl State {
    /// Starts a process. It reports by itself.
    pub(super) async fn start_peer(&mut self) -> Result<(), SpawnErr> {
        self.generation += 1;
        self.answered = 0;
        self.health = Health::default();
        self.children = Children::default();
        self.enter(Stage::Starting);
        let scratch = match self.scratch() {
            Ok(scratch) => scratch,
            Err(error) => {
                let why = format!("make a scratch home for session {}: {error}", self.order.id);
                self.not_started(&RpcError::internal(why));
                return Ok(());
            }
        };
        let held = Held::default();
        let args = peer::Arguments {
            session: self.order.id.clone(),
            generation: self.generation,
            name: self.order.name.clone(),
            agent: self.order.agent.clone(),
            cwd: self.order.cwd.clone(),
            bridge_env: self.order.bridge_env.clone(),
            client_capabilities: self.order.capabilities.clone(),
            limits: self.shared.limits.clone(),
            directory: self.shared.directory.clone(),
            records: self.shared.records.clone(),
            large: self.shared.large.clone(),
            scratch,
            owner: self.me.get_derived(),
            held: held.clone(),
        };
        let actor = Peer::start(args, self.me.get_cell()).await?;
        self.peer = Some(Link { actor, held, answer: None, authenticated: false });
        Ok(())
    }

    /// The session's own home, made for its first process and kept for the next (R234).
    fn scratch(&mut self) -> std::io::Result<Option<Arc<Scratch>>> {
        if self.order.agent.home == Home::Scratch && self.scratch.is_none() {
            let made = Scratch::make(&self.shared.homes, self.order.id.as_str())?;
            self.scratch = Some(Arc::new(made));
        }
        Ok(self.scratch.clone())
    }

    /// Asks whether the program may be started again (R227).
    pub(super) fn restart_peer(&mut self) {
        self.enter(Stage::Starting);
        let (ask, answer) = oneshot::channel();
        let _ =
            self.reports.send_message(Report::MayStart(self.order.program(), self.order.name.clone(), ask));
        let me = self.me.clone();
        tokio::spawn(async move {
            let stopping = |_| Err(RpcError::internal("the daemon is stopping"));
            let _ = me.cast(Msg::Start(answer.await.unwrap_or_else(stopping)));
        });
    }

    pub(super) async fn start_allowed(&mut self, allowed: Result<(), RpcError>) -> Result<(), SpawnErr> {
        match allowed {
            _ if self.is_ending() => {}
            // One process at a time: the old one is gone before the new one starts.
            Ok(()) if !self.leaving.is_empty() => self.start_waits = true,
            Ok(()) => self.start_peer().await?,
            Err(error) => self.not_started(&error),
        }
        Ok(())
    }

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
        if self.setup.is_none() && self.peer_session.is_some() {
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

    /// The answer to a host's `initialize`.
    pub(super) fn answer_initialize(&self, token: Token) {
        if let Some(answer) = self.peer.as_ref().and_then(|p| p.answer.as_ref()) {
            let offer = offer(answer, &self.order.capabilities, &self.order.name);
            self.answer_host(token, Frame::result(&offer));
        }
    }

    /// A host's request that opens the session.
    pub(super) fn wanted(&mut self, token: Token, frame: &Frame) {
        let resumes = self.order.resume.is_some();
        let copy = Frame::parse(Bytes::copy_from_slice(frame.line())).expect("it was parsed before");
        self.params = copy.member("params").map(RawValue::to_owned);
        self.works_in(&copy);
        self.peer_session = self.order.resume.as_ref().map(|row| row.peer_session.clone());
        let how = if resumes { self.way_back() } else { Some(How::New) };
        let Some(how) = how else {
            let why = "this agent can neither resume nor load a session";
            self.last_answers.push((token, Frame::error(&RpcError::internal(why))));
            return self.end(Ending::at_once(Reason::Failed));
        };
        self.setup = Some(Setup {
            token: Some(token),
            frame: copy,
            how,
            out: None,
            reauthenticated: false,
            restarted: false,
            refusal: None,
        });
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
    fn way_back(&self) -> Option<How> {
        let answer = self.peer.as_ref()?.answer.as_ref()?;
        if can_resume(answer) { Some(How::Resume) } else { can_load(answer).then_some(How::Load) }
    }

    /// A new process for a session that is live: it is told what the old one was told.
    fn reopen(&mut self) {
        let how = self.way_back().unwrap_or(How::New);
        let frame = self.opening(how);
        self.setup = Some(Setup {
            token: None,
            frame,
            how,
            out: None,
            reauthenticated: false,
            restarted: false,
            refusal: None,
        });
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
        self.to_peer_as(vec![Envelope::new(Call::Request(out), frame)], Credit::none(), known);
    }

    /// Whether updates are history that the host has seen (R31).
    pub(super) fn swallows(&self) -> bool {
        self.setup.as_ref().is_some_and(|s| s.how == How::Load && s.out.is_some())
    }

    /// The process answered the request that opens the session. Returns what goes to the host, in its place.
    pub(super) fn open_answered(&mut self, answer: Frame) -> Option<Envelope> {
        let mut setup = self.setup.take()?;
        if answer.class() == (Class::Response { ok: true }) {
            return self.open_succeeded(&setup, answer);
        }
        let code = answer.member("error").map(|e| RpcError::of(e).code);
        if code == Some(-32000) && self.authenticate_again(&mut setup, &answer) {
            self.setup = Some(setup);
            return None;
        }
        if setup.how != How::New && self.try_next_way(&mut setup) {
            self.setup = Some(setup);
            self.open();
            return None;
        }
        self.open_failed(&setup, answer, code == Some(-32000))
    }

    fn open_succeeded(&mut self, setup: &Setup, answer: Frame) -> Option<Envelope> {
        let result = Object::of(answer.member("result").map_or("{}", RawValue::get));
        if setup.how == How::New {
            self.peer_session = result.get("sessionId").map(|id| id.get().as_bytes().to_vec());
        }
        self.enter(Stage::Live);
        self.slot.iter().for_each(Slot::commit);
        self.save();
        tracing::info!(session = %self.order.id, agent = %self.order.name, how = ?setup.how,
            peer_session = %String::from_utf8_lossy(self.peer_session.as_deref().unwrap_or_default()), "session open");
        let lost = setup.token.is_none() && setup.how == How::New;
        self.opened = Some(result);
        self.order.opened = None;
        if lost {
            self.notice(json!({ "context": "lost", "reason": "the agent was restarted and cannot resume" }));
        }
        // The prompt came first: what the host asked since then waited for the process that it needed.
        self.send_unsent();
        let early = std::mem::take(&mut self.early);
        self.host_lines(early, Credit::none());
        setup.token.map(|token| Envelope::new(Call::Response(token), self.opened_answer(setup, answer)))
    }

    /// The answer as the peer wrote it. To `session/resume` it holds no id, even if the peer was asked to load.
    fn opened_answer(&self, setup: &Setup, answer: Frame) -> Frame {
        let empty = answer.member("result").is_none_or(|r| r.get() == "null");
        if setup.how == How::New || !empty { answer } else { Frame::result(&json!({})) }
    }

    fn save(&self) {
        let answer = self.peer.as_ref().and_then(|p| p.answer.as_ref());
        let row = store::Row {
            id: self.order.id.clone(),
            agent: self.order.name.clone(),
            cwd: self.order.cwd.clone(),
            peer_session: self.peer_session.clone().unwrap_or_default(),
            resumable: answer.is_some_and(|a| can_resume(a) || can_load(a)),
        };
        let _ = self.shared.store.cast(store::Msg::Save(row, None));
    }

    /// A session that this peer does not know any more falls through to the next way (R31).
    fn try_next_way(&self, setup: &mut Setup) -> bool {
        let answer = self.peer.as_ref().and_then(|p| p.answer.as_ref());
        setup.how = match setup.how {
            How::Resume if answer.is_some_and(can_load) => How::Load,
            // A host that asked for the session must hear that it is gone; a dead process is replaced by a blank one.
            How::Resume | How::Load if setup.token.is_none() => How::New,
            _ => return false,
        };
        true
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
        if auth && setup.how == How::New {
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
            self.to_peer(vec![Envelope::new(Call::Request(out), frame)], Credit::none());
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
            self.to_host(answer.into_iter().collect(), Credit::none());
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

    /// Ends the process at once; what it still says is nobody's. It is waited for before anything follows it.
    pub(super) fn drop_peer(&mut self, error: &RpcError) {
        if let Some(peer) = self.peer.take() {
            let _ = peer.actor.cast(peer::Msg::End(Duration::ZERO));
            self.leaving.push(self.generation);
        }
        if self.stage != Stage::Ending {
            self.enter(Stage::Live);
        }
        self.bereaved(error);
    }

    /// A process did not come to life: who waits for it is told.
    pub(super) fn start_failed(&mut self, death: &Death) {
        self.not_started(&death.error());
    }

    pub(super) fn not_started(&mut self, error: &RpcError) {
        let wanted = self.setup.take().and_then(|setup| setup.token);
        let answer = Frame::error(error);
        if self.opened.is_none() {
            let waiting = wanted.into_iter().chain(self.take_early());
            let answers: Vec<_> = waiting.map(|token| (token, answer.clone())).collect();
            self.last_answers.extend(answers);
            return self.end(Ending::at_once(Reason::Failed));
        }
        self.enter(Stage::Live);
        self.fail_early(&answer);
        self.fail_unsent(&answer);
    }

    /// Requests that waited for the process, by their tokens.
    pub(super) fn take_early(&mut self) -> Vec<Token> {
        let token =
            |envelope: Envelope| if let Call::Request(token) = envelope.call { Some(token) } else { None };
        std::mem::take(&mut self.early).into_iter().filter_map(token).collect()
    }

    fn fail_early(&mut self, answer: &Frame) {
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

/// What is said of a program that keeps failing, and failed like this the last time (R227).
pub fn held_back(agent: &str, rest: Duration, last: &str) -> RpcError {
    let why = format!(
        "agent `{agent}` failed {RESTARTS_MAX} times in {} s in this directory and is held back for {} s; \
         its last error: {last}",
        RESTARTS_WINDOW_MS / 1_000,
        rest.as_secs().max(1)
    );
    RpcError::internal(why).with(json!({
        "failureType": "runtime",
        "failure": { "code": "runtime", "retryable": true },
        "retryAfterMs": u64::try_from(rest.as_millis()).unwrap_or(u64::MAX),
    }))
}
