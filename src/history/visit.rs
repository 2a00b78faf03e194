//! Looks at the members of an object and the items of a list as they are written, and keeps none of them. Pure.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

/// Shows every member of an object, in order. `false` when it is no object, or none to its end.
pub(super) fn object<'a>(json: &'a str, each: impl FnMut(&str, &'a RawValue)) -> bool {
    let mut reader = serde_json::Deserializer::from_str(json);
    reader.deserialize_map(Members(each)).is_ok() && reader.end().is_ok()
}

/// Shows every item of a list, in order. `false` when it is no list, or none to its end.
pub(super) fn list<'a>(json: &'a str, each: impl FnMut(&'a RawValue)) -> bool {
    let mut reader = serde_json::Deserializer::from_str(json);
    reader.deserialize_seq(Items(each)).is_ok() && reader.end().is_ok()
}

/// The member of an object, unless it is null.
pub(super) fn member<'a>(json: &'a str, name: &str) -> Option<&'a RawValue> {
    let mut found = None;
    object(json, |key, value| {
        if key == name && !is_null(value) {
            found = Some(value);
        }
    });
    found
}

/// The member of an object that is a string.
pub(super) fn text_member<'a>(json: &'a str, name: &str) -> Option<Cow<'a, str>> {
    member(json, name).and_then(text)
}

/// The text of a string.
pub(super) fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
    let body = body(raw)?;
    if !body.contains('\\') {
        return Some(Cow::Borrowed(body));
    }
    serde_json::from_str(raw.get()).ok().map(Cow::Owned)
}

/// What stands between the quotes of a string.
pub(super) fn body(raw: &RawValue) -> Option<&str> {
    raw.get().strip_prefix('"')?.strip_suffix('"')
}

/// Whether it is null, which counts as absent everywhere in the protocol.
pub(super) fn is_null(raw: &RawValue) -> bool {
    raw.get() == "null"
}

struct Members<F>(F);
struct Items<F>(F);

#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de, F: FnMut(&str, &'de RawValue)> Visitor<'de> for Members<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(mut self, mut map: M) -> Result<(), M::Error> {
        while let Some(Name(key)) = map.next_key()? {
            (self.0)(&key, map.next_value()?);
        }
        Ok(())
    }
}

impl<'de, F: FnMut(&'de RawValue)> Visitor<'de> for Items<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<S: SeqAccess<'de>>(mut self, mut seq: S) -> Result<(), S::Error> {
        while let Some(item) = seq.next_element()? {
            (self.0)(item);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_shown_as_they_are_written() {
        let mut seen = Vec::new();
        let whole = object(r#"{"a" : 1.10, "\u0062":[ 1e400 ]}"#, |k, v| {
            seen.push((k.to_owned(), v.get()));
        });
        assert!(whole);
        assert_eq!(seen, [("a".to_owned(), "1.10"), ("b".to_owned(), "[ 1e400 ]")]);
        assert!(!object("[1]", |_, _| ()) && !object(r#"{"a":1"#, |_, _| ()) && !object("{} {}", |_, _| ()));
        assert!(!list("{}", |_| ()) && list("[]", |_| ()));
    }
}
