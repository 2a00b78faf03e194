//! Tool calls of the running turn that have not ended: they are shown failed when the turn is cut short (R74). Pure.

use std::collections::HashSet;

use crate::{
    limits::{TOOL_CALL_ID_BYTES_MAX, TOOL_CALLS_MAX},
    wire::{
        Frame,
        frame::{ToolStatus, UpdateKind},
    },
};

/// Tool calls that are open, by their id as written.
#[derive(Debug, Default)]
pub struct Tools(HashSet<Box<[u8]>>);

impl Tools {
    /// Looks at an update. Calls beyond what is remembered are simply not closed by us (R106).
    pub fn note(&mut self, frame: &Frame) {
        let Some(update) = frame.update() else { return };
        let call = matches!(update.kind, UpdateKind::ToolCall | UpdateKind::ToolCallUpdate);
        let Some(id) = update.tool_call.filter(|_| call).map(|s| frame.bytes(s)) else { return };
        match update.status {
            ToolStatus::Terminal => {
                self.0.remove(id);
            }
            ToolStatus::Open | ToolStatus::Unnamed if update.kind == UpdateKind::ToolCall => self.open(id),
            ToolStatus::Open | ToolStatus::Unnamed => {}
        }
    }

    fn open(&mut self, id: &[u8]) {
        let fits = id.len() > 2 && id.len() <= TOOL_CALL_ID_BYTES_MAX + 2;
        if fits && self.0.len() < TOOL_CALLS_MAX {
            self.0.insert(id.into());
        }
    }

    /// Forgets all of them, and names them.
    pub fn drain(&mut self) -> Vec<String> {
        self.0.drain().filter_map(|id| serde_json::from_slice(&id).ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(kind: &str, id: &str, status: &str) -> Frame {
        let update = serde_json::json!({ "sessionUpdate": kind, "toolCallId": id, "status": status });
        Frame::notification("session/update", &serde_json::json!({ "sessionId": "s", "update": update }))
    }

    /// R106: what ended is forgotten, ids that are empty or too long are not taken, the number is bounded.
    #[test]
    fn open_calls_are_remembered_within_bounds() {
        let mut t = Tools::default();
        t.note(&update("tool_call", "a", "pending"));
        t.note(&update("tool_call", "b", "in_progress"));
        t.note(&update("tool_call_update", "a", "completed"));
        t.note(&update("tool_call", "", "pending"));
        t.note(&update("tool_call", &"x".repeat(257), "pending"));
        t.note(&update("plan", "c", "pending"));
        assert_eq!(t.drain(), ["b"]);
        (0..5_000).for_each(|n| t.note(&update("tool_call", &n.to_string(), "pending")));
        assert_eq!(t.drain().len(), TOOL_CALLS_MAX);
    }
}
