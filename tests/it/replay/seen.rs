//! What a host was shown of a session: who said what, and which tool calls came to what. Pure.
//!
//! A history that is loaded again must come to the same (R37): text is joined as far as nothing else stands between,
//! a call stands where it was announced, and is what it was in the end.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

/// The history of one session, as its host saw it.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    entries: Vec<Entry>,
    calls: HashMap<String, Map<String, Value>>,
    /// What counts only as it stands in the end.
    standing: HashMap<String, Value>,
    title: Option<Value>,
    /// What the user said in this turn, and the agent has not repeated.
    unrepeated: Vec<Value>,
    turn: bool,
    /// How much it is: updates and prompts.
    pub updates: usize,
}

#[derive(Clone, Debug, PartialEq)]
enum Entry {
    Said(String, String),
    Block(String, Value),
    Call(String),
    Other(Value),
}

impl Seen {
    /// A prompt is the turn now.
    pub fn prompt(&mut self, params: &Value) {
        let blocks = params["prompt"].as_array().cloned().unwrap_or_default();
        blocks.iter().for_each(|block| self.said("user_message_chunk", block));
        (self.unrepeated, self.turn) = (blocks, true);
        self.updates += 1;
    }

    /// The turn is over, and with it the calls that nobody ended (R280).
    pub fn turn_ended(&mut self) {
        (self.unrepeated, self.turn) = (Vec::new(), false);
        let over =
            |call: &Map<String, Value>| matches!(call["status"].as_str(), Some("completed" | "failed"));
        self.calls.values_mut().filter(|call| !over(call)).for_each(|call| call["status"] = json!("failed"));
    }

    /// An update, of the agent or of the history that is shown.
    pub fn update(&mut self, update: &Value) {
        let kind = update["sessionUpdate"].as_str().unwrap_or_default();
        let notice = update["_meta"]["acpvisor"].is_object();
        self.updates += 1;
        match kind {
            "user_message_chunk" if self.repeats(&update["content"]) => {}
            _ if kind.ends_with("_chunk") => self.said(kind, &update["content"]),
            "tool_call" | "tool_call_update" => self.call(update),
            "session_info_update" if notice => {}
            "session_info_update" => self.title = update.get("title").cloned().or(self.title.take()),
            "plan" | "usage_update" | "current_mode_update" | "config_option_update" => {
                self.standing.insert(kind.to_owned(), update.clone());
            }
            "available_commands_update" => {}
            _ => self.entries.push(Entry::Other(update.clone())),
        }
    }

    /// A permission is asked for a call: some agents announce it in no other way.
    pub fn asked(&mut self, call: &Value) {
        let id = call["toolCallId"].as_str().unwrap_or_default();
        if !self.calls.contains_key(id) {
            self.call(call);
        }
    }

    fn repeats(&mut self, block: &Value) -> bool {
        let says = |other: &Value| block["text"] == other["text"] && block["type"] == other["type"];
        let at = self.unrepeated.iter().position(says).filter(|_| self.turn);
        at.map(|at| self.unrepeated.swap_remove(at)).is_some()
    }

    fn said(&mut self, kind: &str, block: &Value) {
        let Some(text) = block["text"].as_str().filter(|_| block["type"] == "text") else {
            return self.entries.push(Entry::Block(kind.to_owned(), block.clone()));
        };
        match self.entries.last_mut() {
            Some(Entry::Said(speaker, said)) if speaker == kind => said.push_str(text),
            _ => self.entries.push(Entry::Said(kind.to_owned(), text.to_owned())),
        }
    }

    fn call(&mut self, update: &Value) {
        let id = update["toolCallId"].as_str().unwrap_or_default().to_owned();
        if !self.calls.contains_key(&id) {
            self.entries.push(Entry::Call(id.clone()));
        }
        let call = self.calls.entry(id).or_default();
        let members = update.as_object().into_iter().flatten();
        let members = members.filter(|(name, value)| *name != "sessionUpdate" && !value.is_null());
        call.extend(members.map(|(name, value)| (name.clone(), value.clone())));
        call.entry("status").or_insert(json!("pending"));
    }

    /// Fails unless the history that is shown is that one.
    pub fn assert_shown(&self, shown: &Self) {
        for (at, entry) in self.entries.iter().enumerate() {
            let other = shown.entries.get(at);
            assert!(other == Some(entry), "entry {at} of the history is {other:.300?}, not {entry:.300?}");
        }
        assert_eq!(shown.entries.len(), self.entries.len(), "more was shown: {:?}", shown.entries.last());
        for (id, call) in &self.calls {
            let other = &shown.calls[id];
            assert!(other == call, "call {id} is shown as {other:?}, not as {call:?}");
        }
        assert_eq!(
            shown.title.as_ref().filter(|t| !t.is_null()),
            self.title.as_ref().filter(|t| !t.is_null())
        );
        for name in ["plan", "usage_update"] {
            assert_eq!(shown.standing.get(name), self.standing.get(name), "the last {name}");
        }
    }

    /// The mode and the options that it shows.
    pub fn settings(&self) -> [Option<&Value>; 2] {
        ["current_mode_update", "config_option_update"].map(|name| self.standing.get(name))
    }
}
