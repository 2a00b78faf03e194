//! The host's side of a play: what it says goes to the daemon, and to the process that the daemon means it for.

use std::collections::HashMap;

use serde_json::json;

use super::{
    expected::{Own, cancelled, passes, reads_as},
    play::Play,
    session::{Asked, Due, Services, Session},
};
use crate::recording::{Message, Record};

impl Play<'_> {
    pub(super) fn host_says(&mut self, message: &Message) {
        self.settle();
        match (message.method(), message.id()) {
            (Some(method), Some(id)) => self.host_asks(message, &method, id),
            (Some(method), None) => self.host_tells(message, &method),
            (None, id) => self.host_answers(message, &id.unwrap_or_default()),
        }
    }

    fn host_asks(&mut self, message: &Message, method: &str, id: String) {
        let session = message.session();
        let open = session.as_ref().is_some_and(|s| self.sessions.contains_key(s));
        match method {
            "initialize" => {
                self.services.get_or_insert_with(|| Services::of(message));
                self.ask_daemon(message, id, Own::Result);
            }
            _ if self.services.is_none() => self.ask_daemon(message, id, Own::Error(-32600)),
            "session/new" if message.inner("params", "cwd").as_deref() == Some(self.process.cwd()) => {
                self.open(message, id);
            }
            "session/new" => self.ask_daemon(message, id, Own::Error(-32602)),
            "session/resume" if open => self.ask_daemon(message, id, Own::Result),
            "session/load" | "session/resume" if !open && self.returns(message, &id) => {
                self.take_up(message, id)
            }
            "session/resume" => self.ask_daemon(message, id, Own::AnyError),
            "session/load" | "session/list" | "session/fork" | "session/delete" => {
                self.ask_daemon(message, id, Own::Error(-32601));
            }
            "session/close" => {
                self.ask_daemon(message, id, Own::Result);
                self.sessions.remove(&session.unwrap_or_default());
            }
            _ if open => self.post_to_session(message, method, id, &session.expect("it is open")),
            _ if session.is_some() => self.ask_daemon(message, id, Own::Error(-32002)),
            _ => self.post_to_process(message, &message.0, id),
        }
    }

    /// Sends a request that the daemon answers.
    fn ask_daemon(&mut self, message: &Message, id: String, answer: Own) {
        self.host.send(&message.translated(None, self.known));
        self.asked.insert(id.clone(), Asked::Own);
        self.own.insert(id, answer);
        self.tally.own += 1;
    }

    /// The answer that the agent gave later.
    fn answer(&self, id: &str) -> Option<Message> {
        let agent = self.process.records.iter().filter_map(Record::of_agent);
        agent.filter(|m| m.method().is_none()).find(|m| m.id().as_deref() == Some(id)).cloned()
    }

    fn open(&mut self, message: &Message, id: String) {
        self.host.send(&message.translated(None, self.known));
        let is_new = |m: &Message| m.method().as_deref() == Some("session/new");
        let (peer, got) = self.peers.find(self.puppets, "session/new", is_new);
        let session = self.answer(&id).and_then(|answer| answer.inner("result", "sessionId"));
        if let Some(session) = &session {
            self.sessions.insert(session.clone(), Session::opening(peer));
        }
        self.arrived_at_peer(message, &got, peer, "session/new", session);
    }

    /// Whether the daemon can take that session up, and the agent did.
    fn returns(&self, message: &Message, id: &str) -> bool {
        let known = message.session().is_some_and(|session| self.known.contains_key(&session));
        known && self.answer(id).is_some_and(|answer| answer.succeeds())
    }

    /// A session of an earlier life. Loading is not offered yet, so it is taken up by `session/resume`; and as
    /// what comes before the answer may be history that is swallowed (R31), the answer comes first.
    fn take_up(&mut self, message: &Message, id: String) {
        let session = message.session().expect("it is known");
        let resume = message.with("method", "\"session/resume\"");
        self.host.send(&resume.translated(None, self.known));
        let takes_up = |m: &Message| matches!(m.method().as_deref(), Some("session/resume" | "session/load"));
        let (peer, got) = self.peers.find(self.puppets, "a session to take up", takes_up);
        self.sessions.insert(session.clone(), Session { open: true, ..Session::opening(peer) });
        let params = |m: &Message| m.member("params").unwrap_or_default();
        assert!(reads_as(&Message(params(&got)), &params(message)), "the agent got {got:?} for {message:?}");
        self.tally.peer_got += 1;
        let answer = self.answer(&id).expect("it returns");
        self.peers.at(peer).say(&answer.translated(got.id().as_deref(), &HashMap::new()));
        let empty = answer.member("result").as_deref() == Some("null");
        let instead = empty.then(|| answer.with("result", "{}"));
        self.due.entry(Some(session)).or_default().push_back(Due { said: answer, instead });
        self.asked.insert(id, Asked::Answered);
    }

    fn post_to_session(&mut self, message: &Message, method: &str, id: String, name: &str) {
        self.host.send(&message.translated(None, self.known));
        let session = self.sessions.get_mut(name).expect("it is open");
        if method == "session/prompt" {
            if session.turn.is_some() {
                session.waiting.push_back((id.clone(), message.clone()));
                self.asked.insert(id, Asked::Waiting(name.to_owned()));
                return;
            }
            session.turn = Some(id);
        }
        let got = self.next_of_session(name, method);
        let peer = self.sessions[name].peer;
        self.arrived_at_peer(message, &got, peer, method, Some(name.to_owned()));
    }

    /// The next line for that session. A process that the daemon replaced because it seemed sick (R227) has a
    /// successor, that takes the session up.
    pub(super) fn next_of_session(&mut self, name: &str, what: &str) -> Message {
        let fits = |m: &Message| m.inner("params", "sessionId").as_deref() == Some(name);
        loop {
            let (peer, got) = self.peers.find(self.puppets, what, fits);
            let takes_up = matches!(got.method().as_deref(), Some("session/resume" | "session/load"));
            let session = self.sessions.get_mut(name).expect("it is open");
            if !takes_up {
                assert_eq!(peer, session.peer, "another process got {got:?}");
                return got;
            }
            session.peer = peer;
            self.tally.replaced += 1;
            let answer = json!({ "jsonrpc": "2.0", "id": 0, "result": {} }).to_string();
            let answer = Message(answer).with("id", &got.id().expect("a request has an id"));
            self.peers.at(peer).say(&answer.0);
        }
    }

    /// A request that names no session goes to the process that the daemon thinks right.
    fn post_to_process(&mut self, message: &Message, line: &str, id: String) {
        self.host.send(line);
        let method = message.method().unwrap_or_default();
        let (peer, got) =
            self.peers.find(self.puppets, &method, |m| m.method().as_deref() == Some(method.as_str()));
        self.arrived_at_peer(message, &got, peer, &method, None);
        debug_assert!(self.asked.contains_key(&id));
    }

    /// The request is there: it is as it was but for its id.
    pub(super) fn arrived_at_peer(
        &mut self,
        sent: &Message,
        got: &Message,
        peer: usize,
        method: &str,
        session: Option<String>,
    ) {
        passes(&sent.translated(got.id().as_deref(), &HashMap::new()), got, "the agent");
        self.tally.peer_got += 1;
        let asked = Asked::Peer {
            peer,
            id: got.id().expect("a request has an id"),
            method: method.to_owned(),
            session,
        };
        self.asked.insert(sent.id().expect("a request has an id"), asked);
    }

    fn host_tells(&mut self, message: &Message, method: &str) {
        self.host.send(&message.translated(None, self.known));
        let peer = message.session().map(|name| self.sessions.get(&name).map(|s| s.peer));
        match (method, peer) {
            ("session/cancel", Some(Some(peer))) => self.cancel(message, peer),
            ("$/cancel_request", _) | (_, Some(None)) => self.tally.own += 1,
            (_, Some(Some(peer))) => {
                let got = self.peers.at(peer).next(method);
                passes(&message.0, &got, "the agent");
                self.tally.peer_got += 1;
            }
            (_, None) => {
                let fits = |m: &Message| m.method().as_deref() == Some(method);
                let (_, got) = self.peers.find(self.puppets, method, fits);
                passes(&message.0, &got, "the agent");
                self.tally.peer_got += 1;
            }
        }
    }

    /// Only a running turn is cancelled, and once; the questions of the agent are answered before (R250).
    fn cancel(&mut self, message: &Message, peer: usize) {
        let name = message.session().expect("it is open");
        let session = self.sessions.get_mut(&name).expect("it is open");
        if session.turn.is_none() || session.cancelled {
            self.tally.own += 1;
            return;
        }
        session.cancelled = true;
        self.revoke_questions(&name, peer);
        let got = self.peers.at(peer).next("session/cancel");
        assert!(reads_as(&got, &message.0), "the agent got {got:?} for {message:?}");
        self.tally.peer_got += 1;
    }

    pub(super) fn revoke_questions(&mut self, session: &str, peer: usize) {
        let open = self.questions.values_mut();
        let open = open.filter(|q| q.session == session && q.revocable && !q.revoked);
        let count = open.map(|question| question.revoked = true).count();
        for _ in 0..count {
            let got = self.peers.at(peer).next("the answer to a question that is taken back");
            let question = self.questions.get(&got.id().unwrap_or_default());
            assert!(question.is_some_and(|q| q.revoked) && cancelled(&got), "the agent got {got:?}");
        }
    }

    fn host_answers(&mut self, message: &Message, id: &str) {
        match self.questions.remove(id) {
            Some(question) => {
                self.host.send(&message.translated(Some(&question.host_id), self.known));
                if question.revoked {
                    assert!(cancelled(message), "a question that was taken back got {message:?}");
                    self.tally.own += 1;
                    return;
                }
                let got = self.peers.at(question.peer).next("an answer");
                passes(&message.0, &got, "the agent");
                self.tally.peer_got += 1;
            }
            None if self.unasked.remove(id) => {
                self.tally.leave_out(Some(message), "answers to what the host was not asked");
            }
            None => {
                self.host.send(&message.0);
                self.tally.own += 1;
            }
        }
    }

    /// A line that no JSON library wrote.
    pub(super) fn host_babbles(&mut self, text: &str) {
        self.settle();
        let message = Message(text.trim_end_matches('\r').to_owned());
        if let Some(id) = message.method().and(message.id()) {
            return self.post_to_process(&message, text, id);
        }
        self.host.send(text);
        self.tally.own += 1;
        if !text.is_empty() {
            let code = if text.starts_with('[') { -32600 } else { -32700 };
            self.own.insert("null".to_owned(), Own::Error(code));
        }
    }
}
