//! What the player knows of a session beyond one connection: its name in the daemon, what its host saw of it, how it is
//! set. Pure.

use std::collections::HashMap;

use serde_json::Value;

use super::{offered::Offered, seen::Seen};
use crate::recording::Message;

/// One session.
#[derive(Clone, Default)]
pub struct Life {
    /// What its host saw.
    pub seen: Seen,
    /// What can be set in it, and how it is.
    pub offered: Offered,
    /// How much of it there was when it was loaded last.
    pub loaded: Option<usize>,
    /// Its process was given no more than the transcript, before the next prompt (R31).
    pub blank: bool,
}

/// What the host gets of what the agent says.
pub enum Heard {
    /// The same.
    Same,
    /// This.
    Other(Message),
    /// Nothing: it is about modes that the host does not see.
    Swallowed,
}

impl Life {
    /// The agent opens it.
    pub fn opened(&mut self, answer: &Message) -> Option<Message> {
        let mut message = answer.value();
        let result = message.get_mut("result")?;
        self.offered.opened(result, true);
        *result = self.offered.decorate(result);
        Some(Message(message.to_string()))
    }

    /// The agent says something in it.
    pub fn heard(&mut self, message: &Message) -> Heard {
        let mut value = message.value();
        let update = &mut value["params"]["update"];
        match update["sessionUpdate"].as_str() {
            Some("current_mode_update") if self.offered.is_shown_own() => Heard::Swallowed,
            Some("current_mode_update") => {
                self.offered.says_mode(&update["currentModeId"]);
                Heard::Same
            }
            Some("config_option_update") if self.offered.options(update) => {
                update["configOptions"] = self.offered.list();
                Heard::Other(Message(value.to_string()))
            }
            _ => Heard::Same,
        }
    }

    /// The agent was asked to set something.
    pub fn set(&mut self, method: &str, request: &Message, answer: &Message) -> Option<Message> {
        let mut message = answer.value();
        let result = message.get_mut("result")?;
        self.offered.set(method, &request.value()["params"], result);
        if method != "session/set_config_option" {
            return None;
        }
        result["configOptions"] = self.offered.list();
        Some(Message(message.to_string()))
    }
}

/// All of them, by their ids in the recording.
#[derive(Default)]
pub struct Lives {
    /// The daemon's ids of them.
    pub known: HashMap<String, String>,
    lives: HashMap<String, Life>,
}

impl Lives {
    /// One; it begins when it is first named.
    pub fn of(&mut self, name: &str) -> &mut Life {
        self.lives.entry(name.to_owned()).or_default()
    }

    /// Whether the daemon has it.
    pub fn has(&self, name: &str) -> bool {
        self.known.contains_key(name)
    }

    /// What the recording calls the session of that id of the daemon.
    pub fn name_of(&self, ours: &str) -> Option<String> {
        self.known.iter().find(|(_, id)| **id == ours).map(|(name, _)| name.clone())
    }

    /// Those of which there is more than was loaded.
    pub fn to_load(&self) -> Vec<String> {
        let more = |life: &Life| life.loaded != Some(life.seen.updates);
        let names = self.known.keys().filter(|name| self.lives.get(*name).is_none_or(more));
        names.cloned().collect()
    }

    /// It is gone for good.
    pub fn forget(&mut self, name: &str) {
        self.known.remove(name);
        self.lives.remove(name);
    }

    /// The host got that of a session.
    pub fn shown(&mut self, message: &Message) {
        let Some(name) = message.session() else { return };
        let params = &message.value()["params"];
        match message.method().as_deref() {
            Some("session/update") => self.of(&name).seen.update(&params["update"]),
            Some("session/request_permission") => self.of(&name).seen.asked(&params["toolCall"]),
            _ => {}
        }
    }

    /// Every list of sessions names all of them, the newest first (R45).
    pub fn assert_listed(&self, result: &Value) {
        let listed = result["sessions"].as_array().expect("a list of sessions");
        let ids = listed.iter().map(|entry| entry["sessionId"].as_str().unwrap().to_owned());
        let mut ids: Vec<String> = ids.collect();
        let mut known: Vec<String> = self.known.values().cloned().collect();
        ids.sort();
        known.sort();
        assert_eq!(ids, known, "the sessions that are listed");
        let at = |entry: &Value| entry["updatedAt"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        assert!(listed.is_sorted_by(|a, b| at(a) >= at(b)), "{listed:?}");
    }
}
