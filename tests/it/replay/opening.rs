//! Sessions that the daemon opens by itself: loaded, resumed, forked. It shows their history from its own store, and
//! asks the agent for what it needs (R31, R37, R46, R53, R284).

use std::collections::HashMap;

use serde_json::{Value, json};

use super::{
    expected::{Opens, Own},
    life::Life,
    play::Play,
    session::{Asked, Opening, Session},
};
use crate::{
    process::{PATIENCE, wait_until},
    recording::Message,
};

impl Play<'_> {
    /// A session that this connection holds: the agent hears nothing of it.
    pub(super) fn show_again(&mut self, message: &Message, id: &str, opens: Opens) {
        let name = message.session().expect("it is open");
        self.serve(message, Opening::new(&name, id, opens));
    }

    /// A session of an earlier life.
    pub(super) fn take_up(&mut self, message: &Message, id: &str, opens: Opens) {
        let name = message.session().expect("it is known");
        self.serve(message, Opening::new(&name, id, opens));
    }

    /// A copy of a session, under the name that the agent gave it, if it made one.
    pub(super) fn fork(&mut self, message: &Message, id: &str) {
        let source = message.session().expect("it is known");
        let made = self.process.answer(id).and_then(|answer| answer.inner("result", "sessionId"));
        let name = made.unwrap_or_else(|| format!("{source}-fork"));
        let life = Life { loaded: None, ..self.lives.of(&source).clone() };
        *self.lives.of(&name) = life;
        self.serve(message, Opening { source: Some(source), ..Opening::new(&name, id, Opens::Fork) });
    }

    /// Plays the agent as far as the daemon asks it by itself, until the host is answered.
    fn serve(&mut self, message: &Message, opening: Opening) {
        let (id, name) = (opening.id.clone(), opening.name.clone());
        self.ask_daemon(message, id.clone(), Own::Opened(opening.opens));
        self.opening = Some(opening);
        wait_until(&format!("the answer to {}", message.0), PATIENCE, || {
            while let Some((peer, got)) = self.peers.try_find(self.puppets, |_| true) {
                self.agent_is_asked(peer, &got, message);
            }
            while let Some(got) = self.host.try_next() {
                self.arrived_at_host(&got);
            }
            !self.own.contains_key(&id)
        });
        let opening = self.opening.take().expect("it was put there");
        if opening.answered {
            self.tally.own += 1;
            self.asked.insert(id.clone(), Asked::Answered);
        }
        if self.process.answer(&id).is_some() {
            self.replaying.insert(name, (id, opening.played));
        }
    }

    /// The daemon asks the agent for what the host did not ask of it, or not so.
    fn agent_is_asked(&mut self, peer: usize, got: &Message, message: &Message) {
        let opening = self.opening.as_ref().expect("a session is being opened");
        let (name, source) = (opening.name.clone(), opening.source.clone());
        let method = got.method().unwrap_or_default();
        let params = got.value()["params"].take();
        match method.as_str() {
            "session/fork" => {
                assert_eq!(got.session(), source, "{got:?}");
                self.play_history(peer);
                self.say_answer(peer, got);
            }
            "session/load" | "session/resume" => {
                assert_eq!(got.session().as_ref(), Some(&name), "{got:?}");
                let wanted = message.value()["params"].take();
                assert!(source.is_some() || params == wanted, "the agent got {got:?} for {message:?}");
                self.takes_over(peer, got, &method);
            }
            "session/new" => {
                assert_eq!(params.get("sessionId"), None, "{got:?}");
                let mut result = self.lives.of(&name).offered.members();
                result["sessionId"] = json!(name);
                self.lives.of(&name).blank = true;
                self.holds(peer, got, &result, true);
            }
            "session/close" => self.reply(peer, got, &json!({})),
            _ => self.is_set_again(peer, got, &name),
        }
    }

    /// What was set is set again on another process (R284).
    pub(super) fn is_set_again(&mut self, peer: usize, got: &Message, name: &str) {
        let method = got.method().unwrap_or_default();
        assert!(method.starts_with("session/set_"), "the agent got {got:?}");
        let (offered, params) = (&mut self.lives.of(name).offered, &got.value()["params"]);
        offered.assert_kept(&method, params);
        offered.set(&method, params, &json!({}));
        self.reply(peer, got, &json!({}));
    }

    /// It answers what it answered, and another time as little as it may.
    fn takes_over(&mut self, peer: usize, got: &Message, method: &str) {
        let opening = self.opening.as_ref().expect("a session is being opened");
        let answer = self.process.answer(&opening.id).cloned();
        let (is_fork, answered) = (opening.source.is_some(), opening.answered);
        if method == "session/load" {
            self.play_history(peer);
        }
        match answer {
            Some(answer) if is_fork => {
                let mut result = answer.value()["result"].take();
                result.as_object_mut().map(|members| members.remove("sessionId"));
                self.holds(peer, got, &result, false);
            }
            Some(answer) if !answered => {
                if answer.succeeds() {
                    self.hold(peer, &answer.value()["result"], false);
                }
                self.say_answer(peer, got);
            }
            _ => self.holds(peer, got, &json!({}), false),
        }
    }

    /// What the agent said before it answered: history, and nobody is to hear it.
    fn play_history(&mut self, peer: usize) {
        let opening = self.opening.as_mut().expect("a session is being opened");
        if std::mem::replace(&mut opening.played, true) {
            return;
        }
        let told = self.process.said_until_answer(&opening.id);
        let told = told.filter(|m| m.session().as_ref() == Some(&opening.name));
        told.for_each(|message| self.peers.at(peer).say(&message.0));
    }

    /// Its own answer to what the host asked.
    fn say_answer(&mut self, peer: usize, got: &Message) {
        let opening = self.opening.as_mut().expect("a session is being opened");
        let answer = self.process.answer(&opening.id).expect("the agent answered");
        opening.answered = true;
        self.peers.at(peer).say(&answer.translated(got.id().as_deref(), &HashMap::new()));
    }

    fn holds(&mut self, peer: usize, got: &Message, result: &Value, fresh: bool) {
        self.hold(peer, result, fresh);
        self.reply(peer, got, result);
    }

    fn hold(&mut self, peer: usize, result: &Value, fresh: bool) {
        let name = self.opening.as_ref().expect("a session is being opened").name.clone();
        self.lives.of(&name).offered.opened(result, fresh);
        self.sessions.insert(name, Session { open: true, ..Session::opening(peer) });
    }

    pub(super) fn reply(&mut self, peer: usize, got: &Message, result: &Value) {
        let answer = json!({ "jsonrpc": "2.0", "id": got.value()["id"], "result": result });
        self.peers.at(peer).say(&answer.to_string());
    }

    /// The host has the answer: what was shown before it is what was seen, and what can be set is as it is (R37, R48).
    pub(super) fn opened_at_host(&mut self, opens: Opens, got: &Message) {
        let opening = self.opening.as_ref().expect("a session is being opened");
        let mut result = got.value()["result"].take();
        if opens == Opens::Fork {
            let ours = result.as_object_mut().and_then(|members| members.remove("sessionId"));
            let ours = ours.and_then(|id| id.as_str().map(str::to_owned)).expect("a fork has an id");
            self.lives.known.insert(opening.name.clone(), ours);
        }
        let life = self.lives.of(&opening.name);
        assert!(life.offered.is_answered(&result), "{result:#} instead of {:#}", life.offered.answer());
        if opens == Opens::Load {
            life.seen.assert_shown(&opening.shown);
            life.offered.assert_shown(opening.shown.settings());
            life.loaded = Some(life.seen.updates);
            self.tally.loads += 1;
            self.tally.shown += opening.shown.updates;
        } else {
            assert_eq!(opening.shown.updates, 0, "history was shown: {:?}", opening.shown);
        }
    }

    /// Another host comes back for every session of which there is more to see.
    pub(super) fn load_again(mut self) {
        let initialize = json!({ "jsonrpc": "2.0", "id": "again", "method": "initialize",
            "params": { "protocolVersion": 1, "clientCapabilities": {} } });
        self.ask_daemon(&Message(initialize.to_string()), "\"again\"".to_owned(), Own::Result);
        self.settle();
        for name in self.lives.to_load() {
            let load = json!({ "jsonrpc": "2.0", "id": format!("again {name}"), "method": "session/load",
                "params": { "sessionId": name, "cwd": self.process.cwd(), "mcpServers": [] } });
            let message = Message(load.to_string());
            self.take_up(&message, &message.id().expect("just given"), Opens::Load);
            self.settle();
        }
        self.leave();
    }
}
