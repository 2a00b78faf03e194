//! The host's side of a play: what it says goes to the daemon, and to the process that the daemon means it for.

use std::collections::HashMap;

use serde_json::json;

use super::{
    expected::{Opens, Own, cancelled, passes, reads_as},
    offered,
    play::Play,
    session::{Asked, Services, Session},
};
use crate::recording::Message;

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
        let has = session.as_ref().is_some_and(|s| self.lives.has(s));
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
            "session/list" => self.ask_daemon(message, id, Own::Listed),
            "session/load" if open => self.show_again(message, &id, Opens::Load),
            "session/resume" if open => self.show_again(message, &id, Opens::Resume),
            "session/load" if has => self.take_up(message, &id, Opens::Load),
            "session/resume" if has => self.take_up(message, &id, Opens::Resume),
            "session/fork" if has => self.fork(message, &id),
            "session/load" | "session/resume" | "session/fork" => {
                self.tally.unknown += 1;
                self.ask_daemon(message, id, Own::Error(-32002));
            }
            "session/close" | "session/delete" => {
                self.ask_daemon(message, id, Own::Result);
                let name = session.unwrap_or_default();
                self.sessions.remove(&name);
                if method == "session/delete" {
                    self.settle();
                    self.lives.forget(&name);
                }
            }
            _ if open && method.starts_with("session/set_") => self.set(message, method, id),
            _ if open => self.post_to_session(message, method, id, &session.expect("it is open")),
            _ if session.is_some() => self.ask_daemon(message, id, Own::Error(-32002)),
            _ => self.post_to_process(message, &message.0, id),
        }
    }

    /// Sends a request that the daemon answers.
    pub(super) fn ask_daemon(&mut self, message: &Message, id: String, answer: Own) {
        self.host.send(&message.translated(None, &self.lives.known));
        self.asked.insert(id.clone(), Asked::Own);
        self.own.insert(id, answer);
        self.tally.own += 1;
    }

    /// A setting: the agent is asked when it can be set, and is not set so.
    fn set(&mut self, message: &Message, method: &str, id: String) {
        let name = message.session().expect("it is open");
        let turn = self.sessions[&name].turn.is_some();
        let own = match self.lives.of(&name).offered.asked(method, &message.value()["params"], turn) {
            offered::Asked::Forwarded => return self.post_to_session(message, method, id, &name),
            offered::Asked::Same => Own::Result,
            offered::Asked::Refused(code) => Own::Error(code),
        };
        self.ask_daemon(message, id, own);
        // What the agent said of it then may be news.
        self.settle();
    }

    fn open(&mut self, message: &Message, id: String) {
        self.host.send(&message.translated(None, &self.lives.known));
        let is_new = |m: &Message| m.method().as_deref() == Some("session/new");
        let (peer, got) = self.peers.find(self.puppets, "session/new", is_new);
        let session = self.process.answer(&id).and_then(|answer| answer.inner("result", "sessionId"));
        if let Some(session) = &session {
            self.sessions.insert(session.clone(), Session::opening(peer));
        }
        self.arrived_at_peer(message, &got, peer, "session/new", session);
    }

    fn post_to_session(&mut self, message: &Message, method: &str, id: String, name: &str) {
        self.host.send(&message.translated(None, &self.lives.known));
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
            let method = got.method().unwrap_or_default();
            if method != what && method.starts_with("session/set_") {
                self.is_set_again(peer, &got, name);
                continue;
            }
            let session = self.sessions.get_mut(name).expect("it is open");
            if !matches!(method.as_str(), "session/resume" | "session/load") {
                assert_eq!(peer, session.peer, "another process got {got:?}");
                return got;
            }
            session.peer = peer;
            self.tally.replaced += 1;
            self.reply(peer, &got, &json!({}));
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
        let expected = sent.translated(got.id().as_deref(), &HashMap::new());
        match session.as_ref().filter(|_| method == "session/prompt") {
            Some(name) => self.prompted(name, &expected, got),
            None => passes(&expected, got, "the agent"),
        }
        self.tally.peer_got += 1;
        let asked = Asked::Peer {
            peer,
            id: got.id().expect("a request has an id"),
            method: method.to_owned(),
            session,
        };
        self.asked.insert(sent.id().expect("a request has an id"), asked);
    }

    /// A process that knows nothing is told what was, before its first prompt (R31).
    fn prompted(&mut self, name: &str, expected: &str, got: &Message) {
        let life = self.lives.of(name);
        let is_told = life.blank && life.seen.updates > 0;
        life.blank = false;
        life.seen.prompt(&Message(expected.to_owned()).value()["params"]);
        if !is_told {
            return passes(expected, got, "the agent");
        }
        let mut plain = got.value();
        let context = plain["params"]["prompt"].as_array_mut().map(|blocks| blocks.remove(0));
        assert!(context.is_some_and(|block| block["text"].is_string()), "no context: {got:?}");
        assert!(reads_as(&Message(plain.to_string()), expected), "the agent got {got:?}");
    }

    fn host_tells(&mut self, message: &Message, method: &str) {
        self.host.send(&message.translated(None, &self.lives.known));
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
                self.host.send(&message.translated(Some(&question.host_id), &self.lives.known));
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
