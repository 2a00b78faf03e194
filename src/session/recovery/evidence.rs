//! What was seen of a turn: enough to know that its prompt must not be repeated (R193). Pure.

use serde_json::value::RawValue;

use crate::wire::{
    Frame, Method,
    frame::{Class, ToolStatus},
    parse::text,
    patch::Object,
};

/// A sign that the agent worked on the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// A piece of its message.
    Text,
    /// A piece of its thoughts.
    Thought,
    /// A plan, or other output that is no text.
    Structured,
    /// A tool call began, or asked for permission or a service.
    ToolStart,
    /// A tool call went on.
    ToolProgress,
    /// A tool call ended.
    ToolResult,
    /// Nobody knows: counts as all of them.
    Unknown,
}

impl Evidence {
    /// Of a line of the peer in a turn; `None` when it says nothing about the prompt.
    pub fn of(frame: &Frame) -> Option<Self> {
        match frame.class() {
            Class::Request(method) => Some(of_request(method)),
            Class::Notification(Method::SessionUpdate) => of_update(frame),
            Class::Notification(_) | Class::Response { .. } | Class::Unrecognised => None,
        }
    }
}

fn of_request(method: Method) -> Evidence {
    match method {
        Method::RequestPermission | Method::FsRead | Method::FsWrite | Method::ElicitationCreate => {
            Evidence::ToolStart
        }
        method if method.is_terminal() => Evidence::ToolStart,
        _ => Evidence::Unknown,
    }
}

fn of_update(frame: &Frame) -> Option<Evidence> {
    let params = Object::of(frame.member("params").map_or("{}", RawValue::get));
    let update = params.object("update");
    let kind = update.get("sessionUpdate").map(text).unwrap_or_default();
    Some(match &*kind {
        "agent_message_chunk" => Evidence::Text,
        "agent_thought_chunk" => Evidence::Thought,
        "plan" | "plan_update" | "plan_removed" => Evidence::Structured,
        "tool_call" | "subagent_update" => Evidence::ToolStart,
        "tool_call_update" => match frame.update().map(|update| update.status) {
            Some(ToolStatus::Terminal) => Evidence::ToolResult,
            _ => Evidence::ToolProgress,
        },
        // About the session, or the prompt said back.
        "user_message_chunk"
        | "available_commands_update"
        | "current_mode_update"
        | "config_option_update"
        | "session_info_update"
        | "usage_update"
        | "cursor_update"
        | "prompt_suggestions_update"
        | "notice" => return None,
        _ => Evidence::Unknown,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn update(update: serde_json::Value) -> Option<Evidence> {
        let params = json!({ "sessionId": "s", "update": update });
        Evidence::of(&Frame::notification("session/update", &params))
    }

    /// R193, R251: every kind of output and tool event, what is neither, and what nobody knows.
    #[test]
    fn evidence_is_read_from_the_lines_of_a_turn() {
        let kind = |kind: &str| update(json!({ "sessionUpdate": kind }));
        for (word, want) in [
            ("agent_message_chunk", Some(Evidence::Text)),
            ("agent_thought_chunk", Some(Evidence::Thought)),
            ("plan", Some(Evidence::Structured)),
            ("tool_call", Some(Evidence::ToolStart)),
            ("tool_call_update", Some(Evidence::ToolProgress)),
            ("subagent_update", Some(Evidence::ToolStart)),
            ("x_future", Some(Evidence::Unknown)),
            ("", Some(Evidence::Unknown)),
            ("user_message_chunk", None),
            ("usage_update", None),
            ("config_option_update", None),
        ] {
            assert_eq!(kind(word), want, "{word}");
        }
        let ended = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "failed" });
        assert_eq!(update(ended), Some(Evidence::ToolResult));
        let asks = |method| Evidence::of(&Frame::request(method, &json!({})));
        assert_eq!(asks("session/request_permission"), Some(Evidence::ToolStart));
        assert_eq!(asks("terminal/create"), Some(Evidence::ToolStart));
        assert_eq!(asks("_vendor/ask"), Some(Evidence::Unknown));
        assert_eq!(Evidence::of(&Frame::notification("_auth/status_update", &json!({}))), None);
    }
}
