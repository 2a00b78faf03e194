//! The agent's side of a play: what it says, and what the host is to get of it.

use std::collections::{BTreeSet, HashMap};

use super::{
    expected::{Own, turn_answer},
    life::Heard,
    play::Play,
    session::{Asked, Due, Question},
};
use crate::recording::Message;

const NOT_OPEN: &str = "of a session that the daemon has not open";
const HISTORY: &str = "history in whose place the daemon showed its own";
const ANSWERED_HERE: &str = "answers to what the daemon answers itself";

impl Play<'_> {
    pub(super) fn agent_says(&mut self, message: &Message) {
        let Some(method) = message.method() else { return self.agent_answers(message) };
        let Some(name) = message.session() else {
            self.peers.first(self.puppets).say(&message.0);
            self.due.entry(None).or_default().push_back(Due::same(message));
            return;
        };
        if let Some((_, played)) = self.replaying.get(&name) {
            match played {
                true => self.tally.swallowed += 1,
                false => self.tally.leave_out(None, HISTORY),
            }
            return;
        }
        let Some(session) = self.sessions.get_mut(&name) else {
            self.unasked.extend(message.id());
            return self.tally.leave_out(Some(message), NOT_OPEN);
        };
        let peer = self.peers.at(session.peer);
        peer.say(&message.0);
        if let Some(id) = message.id() {
            if !self.services.as_ref().is_some_and(|s| s.offer(&method)) {
                let refusal = peer.next("a refusal");
                assert!(refusal.id().as_deref() == Some(&id) && !refusal.succeeds(), "{refusal:?}");
                self.unasked.insert(id);
                self.tally.own += 1;
                return;
            }
            let revocable = matches!(method.as_str(), "session/request_permission" | "elicitation/create");
            let question = Question {
                peer: session.peer,
                session: name.clone(),
                host_id: String::new(),
                revocable,
                revoked: false,
            };
            self.questions.insert(id, question);
        }
        let due = match self.lives.of(&name).heard(message) {
            Heard::Same => Due::same(message),
            Heard::Other(instead) => Due { said: message.clone(), instead: Some(instead) },
            Heard::Swallowed => return self.tally.swallowed += 1,
        };
        if self.sessions[&name].open {
            self.due.entry(Some(name)).or_default().push_back(due);
        } else {
            self.sessions.get_mut(&name).expect("just seen").early.push(due);
        }
    }

    fn agent_answers(&mut self, message: &Message) {
        let id = message.id().unwrap_or_default();
        self.replaying.retain(|_, (asked, _)| *asked != id);
        match self.asked.remove(&id) {
            None | Some(Asked::Own) => self.tally.leave_out(Some(message), ANSWERED_HERE),
            Some(Asked::Answered) => {}
            Some(Asked::Waiting(name)) => {
                let session = self.sessions.get_mut(&name).expect("a prompt waits in it");
                session.late.insert(id.clone(), message.clone());
                self.asked.insert(id, Asked::Waiting(name));
            }
            Some(Asked::Peer { peer, id, method, session }) => {
                self.peers.at(peer).say(&message.translated(Some(&id), &HashMap::new()));
                let instead = session.as_ref().and_then(|name| self.answer_instead(name, &method, message));
                let due = self.due.entry(session.clone()).or_default();
                due.push_back(Due { said: message.clone(), instead });
                match (method.as_str(), session) {
                    ("session/new", Some(name)) => self.opened(&name),
                    ("session/prompt", Some(name)) => self.turn_ended(&name),
                    _ => {}
                }
            }
        }
    }

    /// What the daemon makes of an answer in that session.
    fn answer_instead(&mut self, name: &str, method: &str, answer: &Message) -> Option<Message> {
        let request = || self.process.request(&answer.id()?);
        match method {
            "session/prompt" => turn_answer(self.sessions.get(name)?, answer),
            "session/new" => self.lives.of(name).opened(answer),
            _ if method.starts_with("session/set_") => self.lives.of(name).set(method, request()?, answer),
            _ => None,
        }
    }

    fn opened(&mut self, name: &str) {
        let session = self.sessions.get_mut(name).expect("it is being opened");
        session.open = true;
        let early = std::mem::take(&mut session.early);
        self.due.entry(Some(name.to_owned())).or_default().extend(early);
    }

    /// The questions of the turn are taken back, and the next prompt is the turn (R72).
    fn turn_ended(&mut self, name: &str) {
        let Some(session) = self.sessions.get_mut(name) else { return };
        (session.turn, session.cancelled) = (None, false);
        let (peer, next) = (session.peer, session.waiting.pop_front());
        self.settle();
        self.lives.of(name).seen.turn_ended();
        self.revoke_questions(name, peer);
        let Some((id, prompt)) = next else { return };
        let got = self.next_of_session(name, "session/prompt");
        let peer = self.sessions[name].peer;
        self.arrived_at_peer(&prompt, &got, peer, "session/prompt", Some(name.to_owned()));
        let session = self.sessions.get_mut(name).expect("just seen");
        session.turn = Some(id.clone());
        if let Some(answer) = session.late.remove(&id) {
            self.agent_answers(&answer);
        }
    }

    /// What is open now is answered by the daemon (R251).
    pub(super) fn agent_ends(&mut self) {
        if self.ended {
            return;
        }
        self.settle();
        self.ended = true;
        let mut crashing = BTreeSet::new();
        for (id, asked) in &self.asked {
            if let Asked::Peer { peer, .. } = asked {
                crashing.insert(*peer);
                self.own.insert(id.clone(), Own::AnyError);
            }
        }
        crashing.into_iter().for_each(|peer| self.peers.at(peer).crash());
        self.settle();
        self.sessions.keys().for_each(|name| self.lives.of(name).seen.turn_ended());
    }
}
