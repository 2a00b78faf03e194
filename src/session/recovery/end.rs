//! How the turn of an attempt ended, and what that makes of its entries (R184, R187). Pure.

use serde_json::value::RawValue;

use super::Evidence;
use crate::{
    peer::Death,
    session::failure::Failure,
    store::EntryState,
    wire::{Frame, RpcError, patch::Object},
};

/// The end of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The peer gave its stop reason.
    Completed,
    /// The peer answered without one: finished, and nobody knows how (INB-05).
    NoReason,
    /// The peer did not take the prompt because it is at work by itself (INB-02).
    Busy,
    /// The turn was cancelled.
    Cancelled,
    /// It failed.
    Failed {
        /// How; `None` when that is not known.
        failure: Option<Failure>,
        /// The number of tool calls that were reported; `None` when nobody counted all of them.
        tool_calls: Option<u32>,
        /// Whether the entries still wait: not when they were acknowledged meanwhile.
        pending: bool,
    },
}

impl End {
    /// Of the peer's answer to the prompt.
    pub fn of_answer(answer: &Frame, tool_calls: Option<u32>) -> Self {
        if let Some(error) = answer.member("error").filter(|_| answer.member("result").is_none()) {
            let error = RpcError::of(error);
            // JSON-RPC's own word for a request that was not carried out.
            if error.code == -32600 {
                return Self::Busy;
            }
            return Self::Failed { failure: Some(Failure::of_error(&error)), tool_calls, pending: true };
        }
        let result = Object::of(answer.member("result").map_or("{}", RawValue::get));
        let reason = result.get("stopReason").and_then(|r| serde_json::from_str::<String>(r.get()).ok());
        match reason.as_deref() {
            Some("cancelled") => Self::Cancelled,
            Some(_) => Self::Completed,
            None => Self::NoReason,
        }
    }

    /// Of the death of the process in the turn (R251).
    pub fn of_death(death: &Death, tool_calls: Option<u32>) -> Self {
        Self::Failed { failure: Some(Failure::of_death(death)), tool_calls, pending: true }
    }

    /// Whether it is certain that nothing was done: nothing seen, and no tool call by the count (R193).
    pub(super) fn is_clean(&self, evidence: Option<Evidence>) -> bool {
        let counted = !matches!(self, Self::Failed { tool_calls, .. } if *tool_calls != Some(0));
        evidence.is_none() && counted
    }

    pub(super) fn is_pending(&self) -> bool {
        !matches!(self, Self::Failed { pending: false, .. })
    }

    /// The state of the entries after it; `None` when they are not the attempt's any more.
    pub(super) fn entries(&self, evidence: Option<Evidence>, aborted: bool) -> Option<EntryState> {
        Some(match self {
            Self::Busy => EntryState::Queued,
            Self::NoReason => EntryState::Indeterminate,
            _ if !self.is_pending() => return None,
            // A success that comes after the abort is not accepted (R196).
            Self::Completed if !aborted => EntryState::Done,
            _ if self.is_clean(evidence) => EntryState::Queued,
            _ => EntryState::Indeterminate,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::session::failure::Code;

    /// INB-02, INB-05, R202: what an answer of the peer comes to.
    #[test]
    fn an_end_is_read_from_the_answer() {
        let reason = |reason| End::of_answer(&Frame::result(&json!({ "stopReason": reason })), Some(0));
        assert_eq!((reason("end_turn"), reason("refusal")), (End::Completed, End::Completed));
        assert_eq!((reason("cancelled"), reason("of_tomorrow")), (End::Cancelled, End::Completed));
        for result in [json!({}), json!(null), json!({ "stopReason": null }), json!({ "stopReason": 1 })] {
            assert_eq!(End::of_answer(&Frame::result(&result), Some(0)), End::NoReason);
        }
        let error = |code| End::of_answer(&Frame::error(&RpcError::new(code, "no")), Some(2));
        let failed =
            |code: Code| End::Failed { failure: Some(code.into()), tool_calls: Some(2), pending: true };
        assert_eq!((error(-32600), error(-32603)), (End::Busy, failed(Code::Runtime)));
        assert_eq!(error(-32000), failed(Code::Authentication));
    }

    /// R184, R187: done, queued or indeterminate, by the end, by what was seen, and by who ended it.
    #[test]
    fn entries_follow_the_end_and_the_evidence() {
        use EntryState::{Done, Indeterminate, Queued};
        let failed = |tool_calls, pending| End::Failed { failure: None, tool_calls, pending };
        for (end, silent, spoke, aborted) in [
            (End::Completed, Some(Done), Some(Done), Some(Queued)),
            (End::NoReason, Some(Indeterminate), Some(Indeterminate), Some(Indeterminate)),
            (End::Busy, Some(Queued), Some(Queued), Some(Queued)),
            (End::Cancelled, Some(Queued), Some(Indeterminate), Some(Queued)),
            (failed(Some(0), true), Some(Queued), Some(Indeterminate), Some(Queued)),
            (failed(Some(1), true), Some(Indeterminate), Some(Indeterminate), Some(Indeterminate)),
            (failed(None, true), Some(Indeterminate), Some(Indeterminate), Some(Indeterminate)),
            (failed(Some(0), false), None, None, None),
        ] {
            assert_eq!(end.entries(None, false), silent, "{end:?}");
            assert_eq!(end.entries(Some(Evidence::Thought), false), spoke, "{end:?}");
            assert_eq!(end.entries(None, true), aborted, "{end:?}");
        }
        assert_eq!(End::Completed.entries(Some(Evidence::Text), true), Some(Indeterminate));
    }
}
