//! Signs that a peer lives but is sick (R227). Pure.

use serde_json::value::RawValue;

use crate::wire::{Frame, RpcError, patch::Object};

/// What is wrong with a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sickness {
    /// Two internal errors in a row.
    Errors,
    /// It does not know its own session any more.
    Lost,
    /// It says that a turn was cancelled which nobody cancelled.
    Cancelled,
    /// Right after a cancel it ends a turn with nothing said.
    Empty,
}

impl Sickness {
    /// The kind, as it is counted.
    pub fn word(self) -> &'static str {
        match self {
            Self::Errors => "sick_errors",
            Self::Lost => "sick_lost",
            Self::Cancelled => "sick_cancelled",
            Self::Empty => "sick_empty",
        }
    }
}

/// How the last turns of a process went.
#[derive(Debug, Default)]
pub struct Health {
    errors: u8,
    /// The turn before this one was cancelled by us.
    after_cancel: bool,
    /// Something was said in this turn.
    said: bool,
    /// A permission was decided in this turn: some agents end a turn as cancelled when it is refused.
    decided: bool,
}

impl Health {
    /// Something of the turn was seen.
    pub fn saw_update(&mut self) {
        self.said = true;
    }

    /// A permission that the peer asked for was decided.
    pub fn saw_decision(&mut self) {
        self.decided = true;
    }

    /// A turn ended with this answer. What that says about the peer.
    pub fn turn_ended(&mut self, answer: &Frame, cancelled_by_us: bool) -> Option<Sickness> {
        let sickness = self.judge(answer, cancelled_by_us);
        let errors = if sickness == Some(Sickness::Errors) { 0 } else { self.errors };
        *self = Self { errors, after_cancel: cancelled_by_us, ..Self::default() };
        sickness
    }

    fn judge(&mut self, answer: &Frame, cancelled_by_us: bool) -> Option<Sickness> {
        let error = answer.member("error").map(RpcError::of);
        self.errors = if error.as_ref().is_some_and(|e| e.code == -32603) { self.errors + 1 } else { 0 };
        match (error, reason(answer).as_deref()) {
            _ if cancelled_by_us => None,
            (Some(e), _) if e.code == -32002 => Some(Sickness::Lost),
            (Some(_), _) if self.errors >= 2 => Some(Sickness::Errors),
            (None, Some("cancelled")) if !self.decided => Some(Sickness::Cancelled),
            (None, Some("end_turn")) if self.after_cancel && !self.said => Some(Sickness::Empty),
            _ => None,
        }
    }
}

fn reason(answer: &Frame) -> Option<String> {
    let result = Object::of(answer.member("result")?.get());
    result.get("stopReason").map(RawValue::get).and_then(|r| serde_json::from_str(r).ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ended(reason: &str) -> Frame {
        Frame::result(&json!({ "stopReason": reason }))
    }

    fn error(code: i32) -> Frame {
        Frame::error(&RpcError::new(code, "no"))
    }

    /// R227: the four signs, and what looks like them but is none.
    #[test]
    fn a_sick_peer_is_told_from_a_well_one() {
        let mut h = Health::default();
        assert_eq!(h.turn_ended(&error(-32603), false), None);
        assert_eq!(h.turn_ended(&error(-32603), false), Some(Sickness::Errors));
        assert_eq!(h.turn_ended(&error(-32603), false), None);
        assert_eq!(h.turn_ended(&ended("end_turn"), false), None);
        assert_eq!(h.turn_ended(&error(-32603), false), None);
        assert_eq!(h.turn_ended(&error(-32002), false), Some(Sickness::Lost));
        assert_eq!(h.turn_ended(&ended("cancelled"), false), Some(Sickness::Cancelled));
        h.saw_decision();
        assert_eq!(h.turn_ended(&ended("cancelled"), false), None);
        assert_eq!(h.turn_ended(&ended("cancelled"), true), None);
        assert_eq!(h.turn_ended(&ended("end_turn"), false), Some(Sickness::Empty));
        assert_eq!(h.turn_ended(&ended("cancelled"), true), None);
        h.saw_update();
        assert_eq!(h.turn_ended(&ended("end_turn"), false), None);
        assert_eq!(h.turn_ended(&ended("end_turn"), false), None);
    }
}
