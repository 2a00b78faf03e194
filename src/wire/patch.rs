//! An object as an ordered list of members, to change a few and leave the rest as it was written.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
    ser::SerializeMap,
};
use serde_json::value::RawValue;

/// The members of an object in their order, values as written.
#[derive(Debug, Clone, Default)]
pub struct Object(Vec<(String, Box<RawValue>)>);

impl Object {
    /// Reads an object; anything else is an empty one.
    pub fn of(raw: &str) -> Self {
        let all = members(raw.as_bytes()).unwrap_or_default();
        Self(all.into_iter().map(|(key, value)| (key.into_owned(), value.to_owned())).collect())
    }

    /// The member of that name.
    pub fn get(&self, key: &str) -> Option<&RawValue> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| &**v)
    }

    /// The member of that name, as an object; empty without one.
    pub fn object(&self, key: &str) -> Self {
        self.get(key).map(|v| Self::of(v.get())).unwrap_or_default()
    }

    /// Whether the member is the JSON value `true`.
    pub fn is_true(&self, key: &str) -> bool {
        self.get(key).is_some_and(|v| v.get() == "true")
    }

    /// Whether the member is there and not null: a capability marker.
    pub fn marks(&self, key: &str) -> bool {
        self.get(key).is_some_and(|v| v.get() != "null")
    }

    /// Sets a member, in its old place when it had one.
    pub fn set(&mut self, key: &str, value: &impl Serialize) {
        let value = serde_json::value::to_raw_value(value).expect("plain data");
        match self.0.iter_mut().find(|(k, _)| k == key) {
            Some((_, old)) => *old = value,
            None => self.0.push((key.to_owned(), value)),
        }
    }

    /// Takes a member out.
    pub fn remove(&mut self, key: &str) {
        self.0.retain(|(k, _)| k != key);
    }

    /// Keeps only these members.
    pub fn keep(&mut self, keys: &[&str]) {
        self.0.retain(|(k, _)| keys.contains(&k.as_str()));
    }
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

/// The members of an object, borrowed; `None` when it is none.
pub fn members(json: &[u8]) -> Option<Vec<(Cow<'_, str>, &RawValue)>> {
    struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);
    impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
        fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
            struct List;
            impl<'de> Visitor<'de> for List {
                type Value = Members<'de>;
                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("an object")
                }
                fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Members<'de>, M::Error> {
                    let mut all = Vec::new();
                    while let Some(key) = map.next_key::<Name<'de>>()? {
                        all.push((key.0, map.next_value()?));
                    }
                    Ok(Members(all))
                }
            }
            d.deserialize_map(List)
        }
    }
    #[derive(Deserialize)]
    struct Name<'a>(#[serde(borrow)] Cow<'a, str>);
    serde_json::from_slice::<Members<'_>>(json).ok().map(|m| m.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untouched_members_keep_their_spelling_and_place() {
        let mut o = Object::of(r#"{"b":1.10,"a":{"x":1e400},"c":null}"#);
        o.set("a", &true);
        o.set("z", &"new");
        o.remove("c");
        assert_eq!(serde_json::to_string(&o).expect("plain"), r#"{"b":1.10,"a":true,"z":"new"}"#);
    }
}
