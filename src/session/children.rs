//! Sessions that the peer announced as children of this one (R276). Pure.
//!
//! They take their parent's routes under their own ids, but their questions are their own, and a cancel reaches them
//! only where the peer announced that it may.

use std::collections::HashMap;

use serde_json::value::RawValue;

use crate::{
    limits::CHILDREN_MAX,
    wire::{Frame, frame::UpdateKind, patch::Object},
};

/// A child among those of its session.
pub type Number = u32;

#[derive(Debug, Clone, Copy)]
struct Child {
    number: Number,
    cancels: bool,
}

/// Children by their ids.
#[derive(Debug, Default)]
pub struct Children(HashMap<String, Child>);

impl Children {
    /// Looks at an update of the session itself: it may announce a child, or change what is known of one.
    pub fn note(&mut self, frame: &Frame) {
        let Some(id) = announced(frame) else { return };
        let params = Object::of(frame.member("params").map_or("{}", RawValue::get));
        let update = params.object("update");
        let number = Number::try_from(self.0.len()).unwrap_or(Number::MAX);
        if self.0.len() >= CHILDREN_MAX && !self.0.contains_key(&id) {
            return;
        }
        let child = self.0.entry(id).or_insert(Child { number, cancels: false });
        // What an update leaves out stays as it was.
        if update.get("capabilities").is_some() {
            child.cancels = update.object("capabilities").marks("cancel");
        }
    }

    /// Whether none was announced.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The child that a line names.
    pub fn number(&self, frame: &Frame) -> Option<Number> {
        Some(self.0.get(&named(frame)?)?.number)
    }

    /// Whether a line names a child that may be cancelled.
    pub fn may_cancel(&self, frame: &Frame) -> bool {
        named(frame).and_then(|id| self.0.get(&id)).is_some_and(|child| child.cancels)
    }
}

/// The child that an update announces, if it is such an update.
pub fn announced(frame: &Frame) -> Option<String> {
    let update = frame.update().filter(|u| u.kind == UpdateKind::Subagent)?;
    serde_json::from_slice(frame.bytes(update.child?)).ok()
}

/// The session that a line names in `params.sessionId`.
pub fn named(frame: &Frame) -> Option<String> {
    let params = Object::of(frame.member("params")?.get());
    serde_json::from_str(params.get("sessionId")?.get()).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn update(id: &str, rest: &str) -> Frame {
        let line = format!(
            r#"{{"method":"session/update","params":{{"sessionId":"p","update":{{"sessionUpdate":"subagent_update","sessionId":"{id}"{rest}}}}}}}"#
        );
        Frame::parse(line.into_bytes().into()).expect("JSON")
    }

    fn cancel(id: &str) -> Frame {
        Frame::notification("session/cancel", &json!({ "sessionId": id }))
    }

    /// R276: what is not named stays, null takes it back, and each child keeps its number.
    #[test]
    fn a_child_is_patched() {
        let mut c = Children::default();
        assert_eq!((c.number(&cancel("a")), c.may_cancel(&cancel("a"))), (None, false));
        c.note(&update("a", r#","capabilities":{"cancel":{}}"#));
        c.note(&update("b", ""));
        c.note(&update("a", r#","title":"x""#));
        assert_eq!((c.number(&cancel("a")), c.number(&cancel("b"))), (Some(0), Some(1)));
        assert_eq!((c.may_cancel(&cancel("a")), c.may_cancel(&cancel("b"))), (true, false));
        c.note(&update("a", r#","capabilities":null"#));
        assert!(!c.may_cancel(&cancel("a")));
    }

    #[test]
    fn children_are_bounded() {
        let mut c = Children::default();
        (0..2_000).for_each(|n| c.note(&update(&n.to_string(), "")));
        assert_eq!((c.number(&cancel("1023")), c.number(&cancel("1024"))), (Some(1_023), None));
    }
}
