//! Permission requests: what they ask, what may be answered, and what is answered when nobody can be asked. Pure.

use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use crate::event::{Call, cut};

/// An open permission request.
#[derive(Debug)]
pub(super) struct Question {
    /// The request's id, as written.
    pub id: Box<str>,
    /// What the agent wants to do.
    pub call: Call,
    /// What may be answered.
    pub choices: Vec<Choice>,
}

/// One of the offered answers.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Choice {
    /// Its id.
    pub option_id: String,
    /// What people read.
    #[serde(default)]
    pub name: String,
    /// `allow_once`, `allow_always`, `reject_once`, `reject_always`, or something newer.
    #[serde(default)]
    pub kind: String,
}

/// What a permission request says.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Asked<'a> {
    /// The session that asks.
    #[serde(borrow, rename = "sessionId", default)]
    pub session: Option<std::borrow::Cow<'a, str>>,
    /// The call.
    #[serde(borrow, rename = "toolCall", default)]
    pub tool_call: Option<&'a RawValue>,
    #[serde(default)]
    options: Vec<Choice>,
}

impl<'a> Asked<'a> {
    /// Reads the params; what cannot be read asks nothing.
    pub fn read(params: Option<&'a RawValue>) -> Self {
        params.and_then(|params| serde_json::from_str(params.get()).ok()).unwrap_or_default()
    }

    /// Id of the call, empty without one.
    pub fn call_id(&self) -> String {
        #[derive(Deserialize)]
        struct Id {
            #[serde(rename = "toolCallId")]
            id: String,
        }
        let id = self.tool_call.and_then(|call| serde_json::from_str::<Id>(call.get()).ok());
        id.map(|call| call.id).unwrap_or_default()
    }

    /// The question it puts.
    pub fn question(self, id: &str, call: Call) -> Question {
        Question { id: id.into(), call, choices: self.options }
    }
}

impl Question {
    /// What it is about: the command or place, else the title.
    pub fn matter(&self) -> String {
        let subject = self.call.subject.as_deref().unwrap_or(&self.call.title);
        format!("{}: {subject}", self.call.kind)
    }

    /// What a person is asked: the matter, and the title when it says something else.
    pub fn asked(&self) -> String {
        let title: &str = &self.call.title;
        let repeats = |subject: &str| {
            title.strip_suffix(subject).is_some_and(|rest| !rest.ends_with(char::is_alphanumeric))
        };
        match self.call.subject.as_deref() {
            Some(subject) if !title.is_empty() && !repeats(subject) => format!("{} ({title})", self.matter()),
            _ => self.matter(),
        }
    }

    /// Why an event says it was refused: the seam first, since the matter may be long (R97).
    pub fn refusal(&self) -> String {
        cut(&format!(
            "refused, since nobody could be asked (run it on a terminal to allow it): {}",
            self.matter()
        ))
    }

    /// The choice a typed line means: its number, counted from one.
    pub fn choice(&self, typed: &str) -> Option<&Choice> {
        let number: usize = typed.trim().parse().ok()?;
        self.choices.get(number.checked_sub(1)?)
    }

    /// The answer when nobody can be asked: no for now, else no for ever, else none.
    pub fn unattended(&self) -> Value {
        let of = |kind| self.choices.iter().find(|choice| choice.kind == kind);
        of("reject_once").or_else(|| of("reject_always")).map_or_else(cancelled, selected)
    }
}

/// The outcome that picks that choice.
pub(super) fn selected(choice: &Choice) -> Value {
    json!({ "outcome": { "outcome": "selected", "optionId": choice.option_id } })
}

/// The outcome of a question that is not answered.
pub(super) fn cancelled() -> Value {
    json!({ "outcome": { "outcome": "cancelled" } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(kinds: &[&str]) -> Question {
        let options: Vec<Value> = kinds
            .iter()
            .map(|kind| json!({ "optionId": format!("o-{kind}"), "name": kind, "kind": kind }))
            .collect();
        let params = json!({ "sessionId": "s", "toolCall": {}, "options": options }).to_string();
        let params = RawValue::from_string(params).unwrap();
        let call = Call { kind: "execute".into(), title: "t".into(), subject: None };
        Asked::read(Some(&params)).question("1", call)
    }

    /// R288: unattended, a question gets the mildest no there is, and never a yes.
    #[test]
    fn nobody_to_ask_means_no() {
        let cases = [
            (&["allow_once", "reject_always", "reject_once"][..], selected_of("o-reject_once")),
            (&["allow_always", "reject_always"], selected_of("o-reject_always")),
            (&["allow_once", "allow_always", "of_tomorrow"], cancelled()),
            (&[], cancelled()),
        ];
        for (kinds, answer) in cases {
            assert_eq!(question(kinds).unattended(), answer, "{kinds:?}");
        }
    }

    fn selected_of(id: &str) -> Value {
        json!({ "outcome": { "outcome": "selected", "optionId": id } })
    }

    #[test]
    fn a_question_says_nothing_twice() {
        let asked = |title: &str, subject: Option<&str>| {
            let call = Call { kind: "edit".into(), title: title.into(), subject: subject.map(Into::into) };
            Question { call, ..question(&[]) }.asked()
        };
        assert_eq!(asked("Edit /w/a", Some("/w/a")), "edit: /w/a");
        assert_eq!(asked("List tools", Some("ls")), "edit: ls (List tools)");
        assert_eq!(asked("/w/a", Some("/w/a")), "edit: /w/a");
        assert_eq!(asked("", Some("/w/a")), "edit: /w/a");
        assert_eq!(asked("Mend it", Some("/w/a")), "edit: /w/a (Mend it)");
        assert_eq!(asked("Mend it", None), "edit: Mend it");
    }

    #[test]
    fn a_typed_number_picks_a_choice() {
        let question = question(&["allow_once", "reject_once"]);
        assert_eq!(question.choice(" 2\n").map(|c| &*c.option_id), Some("o-reject_once"));
        for typed in ["", "0", "3", "yes", "-1"] {
            assert!(question.choice(typed).is_none(), "{typed}");
        }
    }
}
