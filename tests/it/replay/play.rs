//! Plays one process of a recording: its agent side as puppets, its host side as a host, the daemon between.
//!
//! The recording's order leads: before a line of the host is sent, everything that the agent said earlier has
//! reached the host; before the agent says something, it has got what the host sent earlier.

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::json;

use super::{
    ends::{HostEnd, PeerEnds},
    expected::{Own, fits, is_aside, passes, reads_as},
    life::Lives,
    session::{Asked, Due, Opening, Question, Services, Session},
    tally::Tally,
};
use crate::{
    host::Host,
    line,
    peer::Puppets,
    recording::{Message, Process, Record},
    sandbox::Sandbox,
};

const AFTER_THE_END: &str = "after the end of the agent";

/// One process being played.
pub struct Play<'a> {
    pub(super) process: &'a Process,
    pub(super) puppets: &'a mut Puppets,
    pub(super) lives: &'a mut Lives,
    pub(super) tally: &'a mut Tally,
    pub(super) host: HostEnd,
    pub(super) peers: PeerEnds,
    pub(super) services: Option<Services>,
    pub(super) ended: bool,
    pub(super) sessions: HashMap<String, Session>,
    pub(super) asked: HashMap<String, Asked>,
    pub(super) questions: HashMap<String, Question>,
    /// Requests of the agent that no host gets.
    pub(super) unasked: HashSet<String>,
    /// What the host is to get, by session.
    pub(super) due: HashMap<Option<String>, VecDeque<Due>>,
    /// What the daemon is to answer by itself.
    pub(super) own: HashMap<String, Own>,
    /// What the daemon is opening by itself.
    pub(super) opening: Option<Opening>,
    /// Sessions of which the agent tells history until it answers that request; whether that was played already.
    pub(super) replaying: HashMap<String, (String, bool)>,
}

impl<'a> Play<'a> {
    /// Connects the host. A session of an earlier life that the recording takes up gets that life first.
    pub fn begin(
        process: &'a Process,
        sandbox: &Sandbox,
        puppets: &'a mut Puppets,
        lives: &'a mut Lives,
        tally: &'a mut Tally,
    ) -> Self {
        if let Some(session) = taken_up(process).filter(|session| !lives.has(session)) {
            let ours = earlier_life(&session, process.cwd(), sandbox, puppets);
            lives.known.insert(session, ours);
        }
        Self {
            process,
            puppets,
            lives,
            tally,
            host: HostEnd::connect(sandbox),
            peers: PeerEnds::default(),
            services: None,
            ended: false,
            sessions: HashMap::new(),
            asked: HashMap::new(),
            questions: HashMap::new(),
            unasked: HashSet::new(),
            due: HashMap::new(),
            own: HashMap::new(),
            opening: None,
            replaying: HashMap::new(),
        }
    }

    /// Plays all of it, then closes the connection and sees every process go.
    pub fn run(mut self) {
        for record in &self.process.records {
            match record {
                Record::Ended => self.agent_ends(),
                Record::Host(message) | Record::Agent(message) if self.ended => {
                    self.tally.leave_out(Some(message), AFTER_THE_END);
                }
                Record::Junk(_) if self.ended => self.tally.leave_out(None, AFTER_THE_END),
                Record::Host(message) => self.host_says(message),
                Record::Junk(line) => self.host_babbles(line),
                Record::Agent(message) => self.agent_says(message),
            }
        }
        self.settle();
        for left in self.host.unread() {
            assert!(is_aside(&left), "the host got what nobody recorded: {}", line::shown(left.0.as_bytes()));
            self.aside(&left);
        }
        for (_, prompt) in self.sessions.values().flat_map(|s| &s.waiting) {
            self.tally.leave_out(Some(prompt), "prompts behind a turn without end");
        }
        for answer in self.sessions.values().flat_map(|s| s.late.values()) {
            self.tally.leave_out(Some(answer), "answers to prompts behind a turn without end");
        }
        self.sessions.keys().for_each(|name| self.lives.of(name).seen.turn_ended());
        self.leave();
    }

    /// The host goes, and every process after it.
    pub(super) fn leave(self) {
        drop(self.host);
        self.peers.finish();
    }

    /// Waits until the host got everything that it is to get.
    pub(super) fn settle(&mut self) {
        loop {
            let due = self.due.values().flatten().map(|due| due.said.0.as_str()).next();
            let Some(what) = due.or(self.own.keys().map(String::as_str).next()) else { return };
            let got = self.host.next(&line::shown(what.as_bytes()));
            self.arrived_at_host(&got);
        }
    }

    pub(super) fn arrived_at_host(&mut self, got: &Message) {
        if got.method().is_none()
            && let Some(own) = self.own.remove(&got.id().unwrap_or_default())
        {
            return self.answered_here(&own, got);
        }
        if let Some(opening) = &mut self.opening
            && got.method().as_deref() == Some("session/update")
            && got.session().and_then(|ours| self.lives.name_of(&ours)).as_ref() == Some(&opening.name)
        {
            return opening.shown.update(&got.value()["params"]["update"]);
        }
        let Some(due) = self.take_due(got) else {
            assert!(is_aside(got), "the host got what nobody recorded: {}", line::shown(got.0.as_bytes()));
            return self.aside(got);
        };
        self.tally.host_got(&due.said);
        self.lives.shown(&due.said);
        if due.said.method().is_some()
            && let Some(question) = due.said.id().and_then(|id| self.questions.get_mut(&id))
        {
            question.host_id = got.id().expect("a request has an id");
        }
    }

    fn answered_here(&mut self, own: &Own, got: &Message) {
        own.check(got);
        match own {
            Own::Listed => self.lives.assert_listed(&got.value()["result"]),
            Own::Opened(opens) => self.opened_at_host(*opens, got),
            Own::Result | Own::Error(_) | Own::AnyError => {}
        }
    }

    fn aside(&mut self, got: &Message) {
        self.tally.asides += 1;
        if let Some(name) = got.session().and_then(|ours| self.lives.name_of(&ours)) {
            self.lives.of(&name).seen.update(&got.value()["params"]["update"]);
        }
    }

    /// Takes out what this line is: the oldest of its session, or any that names no session.
    fn take_due(&mut self, got: &Message) -> Option<Due> {
        let ours = got.session();
        let named = ours.and_then(|ours| self.lives.name_of(&ours));
        let is_answer = got.method().is_none();
        let mut queues = self.due.iter_mut().filter(|(name, _)| is_answer || **name == named);
        let (queue, at) = queues.find_map(|(name, queue)| {
            let reach = if name.is_some() { 1 } else { queue.len() };
            let at = queue.iter().take(reach).position(|due| due.may_be(got));
            at.map(|at| (queue, at))
        })?;
        queue[at].learn(got, &mut self.lives.known);
        let expected = queue[at].expected(got, &self.lives.known);
        let same = queue[at].instead.is_some() && (reads_as(got, &expected) || fits(got, &expected));
        if !same && (!is_aside(got) || expected == got.0) {
            passes(&expected, got, "the host");
        } else if !same {
            return None;
        }
        queue.remove(at)
    }
}

/// The session of an earlier life that this process takes up and goes on with.
fn taken_up(process: &Process) -> Option<String> {
    let method = ["session/load", "session/resume"].into_iter().find(|method| {
        process.answer_to(method).is_some_and(Message::succeeds) && process.answer_to("session/new").is_none()
    })?;
    let session = process.asked(method)?.session();
    session.filter(|session| process.prompts(session))
}

/// Opens that session and leaves it; returns the daemon's id of it.
fn earlier_life(session: &str, cwd: &str, sandbox: &Sandbox, puppets: &mut Puppets) -> String {
    let mut host = Host::direct(sandbox);
    host.initialize(json!({}));
    let id = host.request_session(cwd);
    let mut peer = puppets.next();
    let new = peer.expect("session/new");
    peer.reply(&new, json!({ "sessionId": session }));
    let ours = host.result(&id)["sessionId"].as_str().expect("a session id").to_owned();
    drop(host);
    peer.wait_gone();
    ours
}
