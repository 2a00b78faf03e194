//! One option of a peer: its id, its value, and which values it takes (R180). Pure.

use serde_json::value::RawValue;

use crate::wire::{parse::text, patch::Object};

/// One member of `configOptions`, as it was written.
#[derive(Debug)]
pub struct Knob {
    id: String,
    raw: Box<RawValue>,
}

/// What an option is about, as far as another setting is about the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About {
    /// The mode, which `session/set_mode` sets too.
    Mode,
    /// The model, which the older `session/set_model` sets too.
    Model,
    /// Anything else.
    Other,
}

impl About {
    /// Of an option by its id alone.
    pub fn of(id: &str) -> Self {
        match id {
            "mode" => Self::Mode,
            "model" => Self::Model,
            _ => Self::Other,
        }
    }
}

impl Knob {
    /// Of anything: what has no id can only be shown.
    pub fn of(raw: &RawValue) -> Self {
        let id = Object::of(raw.get()).get("id").map(|id| text(id).into_owned()).unwrap_or_default();
        Self { id, raw: raw.to_owned() }
    }

    /// Its id; empty without one.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// As it is shown.
    pub fn raw(&self) -> &RawValue {
        &self.raw
    }

    /// What it is about.
    pub fn about(&self) -> About {
        match Object::of(self.raw.get()).get("category").map(text).as_deref() {
            Some("mode") => About::Mode,
            Some("model") => About::Model,
            _ => About::of(&self.id),
        }
    }

    /// Its value, as JSON text.
    pub fn current(&self) -> Option<String> {
        Object::of(self.raw.get()).get("currentValue").map(|value| value.get().to_owned())
    }

    /// It has another value.
    pub fn turn(&mut self, value: &RawValue) {
        let mut object = Object::of(self.raw.get());
        object.set("currentValue", &value);
        self.raw = serde_json::value::to_raw_value(&object).expect("members that were JSON");
    }

    /// Why it does not take that value; `None` when it does, or when its type is not known here (R275). What it has it
    /// takes, listed or not.
    pub fn objection(&self, value: &RawValue) -> Option<String> {
        let object = Object::of(self.raw.get());
        if object.get("currentValue").is_some_and(|current| same_value(current.get(), value.get())) {
            return None;
        }
        match object.get("type").map(text).as_deref() {
            Some("boolean") if !matches!(value.get(), "true" | "false") => {
                Some("takes true or false".to_owned())
            }
            Some("select") if !value.get().starts_with('"') => Some("takes the id of a value".to_owned()),
            Some("select") => {
                let values = values(object.get("options"));
                let known = values.is_empty() || values.iter().any(|listed| *listed == text(value));
                (!known).then(|| format!("takes one of {}", shown(&values)))
            }
            _ => None,
        }
    }
}

/// The values of a select, in groups or not; none when they cannot be read.
fn values(options: Option<&RawValue>) -> Vec<String> {
    let list = |raw: Option<&RawValue>| -> Vec<Object> {
        let all: Option<Vec<&RawValue>> = raw.and_then(|raw| serde_json::from_str(raw.get()).ok());
        all.unwrap_or_default().into_iter().map(|item| Object::of(item.get())).collect()
    };
    let value = |item: &Object| item.get("value").map(|value| text(value).into_owned());
    let of = |item: &Object| match value(item) {
        Some(value) => vec![value],
        None => list(item.get("options")).iter().filter_map(value).collect(),
    };
    list(options).iter().flat_map(of).collect()
}

/// Whether two values are one, however they are written.
pub fn same_value(a: &str, b: &str) -> bool {
    let value = |json: &str| serde_json::from_str::<serde_json::Value>(json).ok();
    a == b || value(a).is_some_and(|a| Some(a) == value(b))
}

/// A list from outside, as far as an error says it back.
pub fn shown(ids: &[impl AsRef<str>]) -> String {
    const SHOWN_MAX: usize = 12;
    let mut text = ids.iter().take(SHOWN_MAX).map(|id| quoted(id.as_ref())).collect::<Vec<_>>().join(", ");
    if ids.len() > SHOWN_MAX {
        text.push_str(", …");
    }
    text
}

/// A name from outside, as far as an error says it back.
pub fn quoted(name: &str) -> String {
    const NAME_CHARS_MAX: usize = 64;
    format!("`{}`", name.chars().take(NAME_CHARS_MAX).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    /// R180, R275: values of the wrong type, values that are not listed, and options of tomorrow.
    #[test]
    fn an_option_takes_its_own_values_only() {
        let select = r#"{"id":"m","type":"select","options":[{"value":"a","name":"A"},{"value":"b\/c"}]}"#;
        let groups = r#"{"id":"m","type":"select","options":[{"group":"g","options":[{"value":"a"}]},{"options":[{"value":"b/c"}]}]}"#;
        let switch = r#"{"id":"m","type":"boolean","currentValue":true}"#;
        for (knob, good, bad) in [
            (
                select,
                &[r#""a""#, r#""b/c""#, r#""\u0061""#][..],
                &[r#""nope""#, "true", "1", "null", "[]", r#""""#][..],
            ),
            (groups, &[r#""a""#, r#""b/c""#], &[r#""g""#, "false"]),
            (switch, &["true", "false"], &[r#""true""#, "1", "null"]),
            (
                r#"{"id":"m","type":"select","currentValue":"own","options":[{"value":"a"}]}"#,
                &[r#""own""#, r#""a""#],
                &[r#""b""#],
            ),
            (r#"{"id":"m","type":"slider","max":3}"#, &["7", r#""x""#, "null"], &[]),
            (r#"{"id":"m","type":"select","options":"later"}"#, &[r#""x""#], &["1"]),
            (r#"{"id":"m"}"#, &["1"], &[]),
        ] {
            let knob = Knob::of(&raw(knob));
            assert!(good.iter().all(|value| knob.objection(&raw(value)).is_none()), "{knob:?}");
            assert!(bad.iter().all(|value| knob.objection(&raw(value)).is_some()), "{knob:?}");
        }
    }

    /// R12: only the value changes.
    #[test]
    fn another_value_leaves_the_rest_as_it_was() {
        let mut knob = Knob::of(&raw(r#"{"a":1.0,"id":"m","currentValue":"x","z":1e400}"#));
        knob.turn(&raw("\"\\u0061\""));
        assert_eq!(knob.raw().get(), r#"{"a":1.0,"id":"m","currentValue":"\u0061","z":1e400}"#);
        assert_eq!((knob.id(), knob.current().as_deref()), ("m", Some("\"\\u0061\"")));
        assert_eq!((Knob::of(&raw("7")).id(), Knob::of(&raw("7")).raw().get()), ("", "7"));
    }

    /// FINDINGS 25: an option about the mode is one by its category, or by its id.
    #[test]
    fn options_about_mode_and_model_are_known() {
        let about = |json| Knob::of(&raw(json)).about();
        assert_eq!(about(r#"{"id":"x","category":"mode"}"#), About::Mode);
        assert_eq!(about(r#"{"id":"mode","category":"session"}"#), About::Mode);
        assert_eq!(about(r#"{"id":"m","category":"model"}"#), About::Model);
        assert_eq!(about(r#"{"id":"model"}"#), About::Model);
        assert_eq!(about(r#"{"id":"effort","category":"thought_level"}"#), About::Other);
    }

    #[test]
    fn long_lists_are_not_said_back_whole() {
        let ids: Vec<String> = (0..100).map(|n| format!("{n}{}", "x".repeat(1_000))).collect();
        assert!(shown(&ids).len() < 1_000 && shown(&ids).ends_with('…'));
        assert_eq!(shown(&["a", "b"]), "`a`, `b`");
    }
}
