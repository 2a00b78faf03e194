//! The agent's side of a play: what it says, and what the host is to get of it.

use std::collections::{BTreeSet, HashMap};

use super::{
    expected::{Own, turn_answer},
    play::Play,
    session::{Asked, Due, Question},
};
use crate::recording::Message;

const NOT_OPEN: &str = "of a session that the daemon has not open";
const ANSWERED_HERE: &str = "answers to what the daemon answers itself";

impl Play<'_> {
    pub(super) fn agent_says(&mut self, message: &Message) {
        let Some(method) = message.method() else { return self.agent_answers(message) };
        let Some(name) = message.session() else {
            self.peers.first(self.puppets).say(&message.0);
            self.due.entry(None).or_default().push_back(Due::same(message));
            return;
        };
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
        if session.open {
            self.due.entry(Some(name)).or_default().push_back(Due::same(message));
        } else {
            session.early.push(Due::same(message));
        }
    }

    fn agent_answers(&mut self, message: &Message) {
        let id = message.id().unwrap_or_default();
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
                let entry = session.as_ref().and_then(|name| self.sessions.get(name));
                let instead =
                    entry.filter(|_| method == "session/prompt").and_then(|s| turn_answer(s, message));
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
    }
}
