//! Reads the few members of a line that routing needs, in one pass, keeping where they lie.
//!
//! Nothing is unescaped, reordered or printed again. Members that nobody asks for are skipped without being
//! looked at, so depth and number spelling do not matter (R12).

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

/// Top-level members.
#[derive(Default)]
pub struct Members<'a> {
    pub jsonrpc: Option<&'a RawValue>,
    pub id: Option<&'a RawValue>,
    pub method: Option<&'a RawValue>,
    pub params: Option<Params<'a>>,
    pub result: Option<Body<'a>>,
    pub error: Option<Body<'a>>,
    /// A member of the envelope stands twice (R6).
    pub repeated: bool,
}

/// Members of `params`.
#[derive(Default)]
pub struct Params<'a> {
    pub session_id: Option<&'a RawValue>,
    pub request_id: Option<&'a RawValue>,
    pub update: Option<Update<'a>>,
    pub repeated: bool,
}

/// Members of `params.update`.
#[derive(Default)]
pub struct Update<'a> {
    pub kind: Option<Cow<'a, str>>,
    pub tool_call_id: Option<&'a RawValue>,
    pub status: Option<&'a RawValue>,
    pub content: Option<&'a RawValue>,
    pub session_id: Option<&'a RawValue>,
    pub sender: Option<&'a RawValue>,
    pub recipient: Option<&'a RawValue>,
    pub repeated: bool,
}

/// Members of a `result` or of an `error` that may name a session.
#[derive(Default)]
pub struct Body<'a> {
    pub session_id: Option<&'a RawValue>,
}

/// Sets a member once; says whether it was there before.
fn once<T>(slot: &mut Option<T>, value: T) -> bool {
    slot.replace(value).is_some()
}

/// Implements a visitor that takes an object apart and skips any other value.
macro_rules! object {
    ($type:ident, $key:ident { $($name:literal => $variant:ident),* $(,)? }, |$this:ident, $map:ident| { $($arm:ident => $take:expr),* $(,)? }) => {
        enum $key { $($variant,)* Unknown }

        impl<'de> Deserialize<'de> for $key {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                struct Name;
                impl Visitor<'_> for Name {
                    type Value = $key;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str("a member name") }
                    fn visit_str<E>(self, name: &str) -> Result<$key, E> {
                        Ok(match name { $($name => $key::$variant,)* _ => $key::Unknown })
                    }
                }
                d.deserialize_str(Name)
            }
        }

        impl<'de: 'a, 'a> Deserialize<'de> for $type<'a> {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                struct Object;
                impl<'de> Visitor<'de> for Object {
                    type Value = $type<'de>;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str("a value") }
                    fn visit_map<M: MapAccess<'de>>(self, mut $map: M) -> Result<$type<'de>, M::Error> {
                        let mut $this = $type::default();
                        while let Some(key) = $map.next_key::<$key>()? {
                            match key {
                                $($key::$arm => $take,)*
                                $key::Unknown => { $map.next_value::<IgnoredAny>()?; }
                            }
                        }
                        Ok($this)
                    }
                    fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<$type<'de>, S::Error> {
                        while seq.next_element::<IgnoredAny>()?.is_some() {}
                        Ok($type::default())
                    }
                    fn visit_bool<E>(self, _: bool) -> Result<$type<'de>, E> { Ok($type::default()) }
                    fn visit_i64<E>(self, _: i64) -> Result<$type<'de>, E> { Ok($type::default()) }
                    fn visit_u64<E>(self, _: u64) -> Result<$type<'de>, E> { Ok($type::default()) }
                    fn visit_f64<E>(self, _: f64) -> Result<$type<'de>, E> { Ok($type::default()) }
                    fn visit_str<E>(self, _: &str) -> Result<$type<'de>, E> { Ok($type::default()) }
                    fn visit_unit<E>(self) -> Result<$type<'de>, E> { Ok($type::default()) }
                }
                d.deserialize_any(Object)
            }
        }
    };
}

object!(Members, Member {
    "jsonrpc" => Jsonrpc, "id" => Id, "method" => Method, "params" => Params, "result" => Result, "error" => Error,
}, |m, map| {
    Jsonrpc => m.repeated |= once(&mut m.jsonrpc, map.next_value()?),
    Id => m.repeated |= once(&mut m.id, map.next_value()?),
    Method => m.repeated |= once(&mut m.method, map.next_value()?),
    Params => m.repeated |= once(&mut m.params, map.next_value()?),
    Result => m.repeated |= once(&mut m.result, map.next_value()?),
    Error => m.repeated |= once(&mut m.error, map.next_value()?),
});

object!(Params, ParamsMember {
    "sessionId" => SessionId, "requestId" => RequestId, "update" => Update,
}, |p, map| {
    SessionId => p.repeated |= once(&mut p.session_id, map.next_value()?),
    RequestId => p.repeated |= once(&mut p.request_id, map.next_value()?),
    Update => p.repeated |= once(&mut p.update, map.next_value()?),
});

object!(Update, UpdateMember {
    "sessionUpdate" => Kind, "toolCallId" => ToolCallId, "status" => Status, "content" => Content,
    "sessionId" => SessionId, "senderSessionId" => Sender, "recipientSessionId" => Recipient,
}, |u, map| {
    Kind => u.repeated |= once(&mut u.kind, text(map.next_value()?)),
    ToolCallId => u.repeated |= once(&mut u.tool_call_id, map.next_value()?),
    Status => u.repeated |= once(&mut u.status, map.next_value()?),
    Content => u.repeated |= once(&mut u.content, map.next_value()?),
    SessionId => u.repeated |= once(&mut u.session_id, map.next_value()?),
    Sender => u.repeated |= once(&mut u.sender, map.next_value()?),
    Recipient => u.repeated |= once(&mut u.recipient, map.next_value()?),
});

object!(Body, BodyMember { "sessionId" => SessionId, "data" => Data }, |b, map| {
    SessionId => { once(&mut b.session_id, map.next_value()?); },
    Data => { let inner: Body<'_> = map.next_value()?; b.session_id = b.session_id.or(inner.session_id); },
});

/// The text of a JSON string; empty for any other value.
pub fn text(raw: &RawValue) -> Cow<'_, str> {
    match raw.get().strip_prefix('"').and_then(|t| t.strip_suffix('"')) {
        Some(inner) if !inner.contains('\\') => Cow::Borrowed(inner),
        Some(_) => serde_json::from_str::<String>(raw.get()).map_or(Cow::Borrowed(""), Cow::Owned),
        None => Cow::Borrowed(""),
    }
}

/// Session references inside the content of a tool call: items `{"type": "session", "sessionId": …}`.
pub fn session_references(content: &RawValue) -> Vec<&RawValue> {
    #[derive(Deserialize)]
    struct Item<'a> {
        #[serde(borrow, default)]
        r#type: Option<&'a RawValue>,
        #[serde(borrow, default, rename = "sessionId")]
        session_id: Option<&'a RawValue>,
    }
    // The content of a chunk is an object: only that of a tool call is a list.
    if !content.get().starts_with('[') || !content.get().contains("\"sessionId\"") {
        return Vec::new();
    }
    let items: Vec<Item<'_>> = serde_json::from_str(content.get()).unwrap_or_default();
    let is_session = |i: &Item<'_>| i.r#type.is_some_and(|t| text(t) == "session");
    items.iter().filter(|i| is_session(i)).filter_map(|i| i.session_id).collect()
}

/// Whether any object in there repeats a key, or is too deep to tell (R12).
pub fn repeats_a_key(json: &str) -> bool {
    struct Unique;
    impl<'de> Deserialize<'de> for Unique {
        fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
            d.deserialize_any(Look)
        }
    }
    struct Look;
    impl<'de> Visitor<'de> for Look {
        type Value = Unique;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a value without repeated keys")
        }
        fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Unique, M::Error> {
            let mut seen = std::collections::HashSet::new();
            while let Some(key) = map.next_key::<Cow<'de, str>>()? {
                if !seen.insert(key) {
                    return Err(serde::de::Error::custom("repeated key"));
                }
                map.next_value::<Unique>()?;
            }
            Ok(Unique)
        }
        fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<Unique, S::Error> {
            while seq.next_element::<Unique>()?.is_some() {}
            Ok(Unique)
        }
        fn visit_bool<E>(self, _: bool) -> Result<Unique, E> {
            Ok(Unique)
        }
        fn visit_i64<E>(self, _: i64) -> Result<Unique, E> {
            Ok(Unique)
        }
        fn visit_u64<E>(self, _: u64) -> Result<Unique, E> {
            Ok(Unique)
        }
        fn visit_f64<E>(self, _: f64) -> Result<Unique, E> {
            Ok(Unique)
        }
        fn visit_str<E>(self, _: &str) -> Result<Unique, E> {
            Ok(Unique)
        }
        fn visit_unit<E>(self) -> Result<Unique, E> {
            Ok(Unique)
        }
    }
    serde_json::from_str::<Unique>(json).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R12: two `command` members, anywhere, are seen.
    #[test]
    fn a_repeated_key_is_seen_at_any_depth() {
        assert!(repeats_a_key(r#"{"a":{"command":"x","command":"y"}}"#));
        assert!(repeats_a_key(r#"{"a":[{"b":1,"\u0062":2}]}"#));
        assert!(!repeats_a_key(r#"{"a":{"b":1},"c":[{"b":1},{"b":2}]}"#));
    }

    #[test]
    fn numbers_that_no_float_holds_are_skipped_over() {
        let m: Members<'_> =
            serde_json::from_str(r#"{"id":1,"x":1e400,"params":{"n":-1e999,"sessionId":"s"}}"#)
                .expect("valid");
        assert_eq!(m.params.and_then(|p| p.session_id).map(RawValue::get), Some("\"s\""));
    }
}
