//! What is known of one tool call: its members as the last update left them (R37). Pure.
//!
//! Members replace one another, as the protocol has it; one that is null changes nothing. What is too large is cut
//! before it is kept.

use serde_json::value::RawValue;

use super::{author, bulk, content::Show, visit};

/// Members remembered of a call: the protocol has ten.
const MEMBERS_MAX: usize = 32;

/// Members by their names, in the order they first came.
#[derive(Debug, Default)]
pub(super) struct Card {
    members: Vec<(Box<str>, String)>,
    bytes: usize,
}

impl Card {
    /// Takes over what an update says.
    pub fn merge(&mut self, update: &RawValue) {
        visit::object(update.get(), |name, value| {
            if !matches!(name, "sessionUpdate" | "toolCallId") && !visit::is_null(value) {
                self.set(name, &bulk::member(name, value.get(), Show::Keep));
            }
        });
    }

    /// Sets a member, in its old place when it had one.
    pub fn set(&mut self, name: &str, value: &str) {
        let at = self.members.iter().position(|(known, _)| **known == *name);
        if at.is_none() && self.members.len() < MEMBERS_MAX {
            self.members.push((name.into(), value.to_owned()));
            self.bytes += name.len() + value.len();
        } else if let Some((_, old)) = at.map(|at| &mut self.members[at]) {
            self.bytes = self.bytes + value.len() - old.len();
            old.clear();
            old.push_str(value);
        }
    }

    /// A member, as written.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.members.iter().find(|(known, _)| **known == *name).map(|(_, value)| value.as_str())
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Everything as one update.
    pub fn update(&self, session: &str, call: &str, terminals: Show<'_>) -> String {
        let shown = self.members.iter().map(|(name, value)| (&**name, bulk::member(name, value, terminals)));
        let shown: Vec<_> = shown.filter(|(_, value)| value != "null").collect();
        let members = shown.iter().map(|(name, value)| (*name, &**value));
        author::update(session, "tool_call_update", [("toolCallId", call)].into_iter().chain(members))
    }

    /// Everything as one update of that kind that is no tool call's; null stays null.
    pub fn patch(&self, session: &str, kind: &str) -> String {
        author::update(session, kind, self.members.iter().map(|(name, value)| (&**name, value.as_str())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    /// R37: what an update names replaces what was known, whole; null and what it leaves out change nothing.
    #[test]
    fn members_replace_one_another() {
        let mut card = Card::default();
        assert!(card.is_empty());
        card.merge(&raw(
            r#"{"sessionUpdate":"tool_call_update","toolCallId":"x","content":[1,2],"status":"in_progress","title":"t"}"#,
        ));
        card.merge(&raw(r#"{"content":[3],"title":null,"status":"completed","rawOutput":1.10}"#));
        let update = card.update("\"s\"", "\"x\"", Show::Keep);
        let want = r#"{"sessionUpdate":"tool_call_update","toolCallId":"x","content":[3],"status":"completed","title":"t","rawOutput":1.10}"#;
        assert!(update.contains(want), "{update}");
        assert_eq!(card.bytes(), "content[3]status\"completed\"title\"t\"rawOutput1.10".len());
    }

    #[test]
    fn members_are_bounded() {
        let mut card = Card::default();
        (0..100).for_each(|n| card.set(&n.to_string(), "1"));
        card.set("0", "22");
        assert_eq!((card.members.len(), card.members[0].1.as_str()), (MEMBERS_MAX, "22"));
    }
}
