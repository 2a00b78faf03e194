//! What the daemon itself says, in the protocol's own types: what it relays it never prints again (R12).

use agent_client_protocol_schema::v1::{
    CancelNotification, ContentBlock, ContentChunk, CreateElicitationResponse, ElicitationAction, MessageId,
    Meta, PromptResponse, ReleaseTerminalRequest, RequestPermissionOutcome, RequestPermissionResponse,
    SessionInfoUpdate, SessionNotification, SessionUpdate, StopReason, ToolCallContent, ToolCallStatus,
    ToolCallUpdate, ToolCallUpdateFields,
};
use serde_json::Value;

use super::frame::Frame;
use crate::id::SessionId;

/// The key of `_meta` that is ours (R86).
const META_KEY: &str = "acpvisor";

/// The answer to a prompt whose turn was cancelled (R74).
pub fn cancelled_turn() -> Frame {
    Frame::result(&PromptResponse::new(StopReason::Cancelled))
}

/// The answer to a permission request that nobody will decide.
pub fn cancelled_permission() -> Frame {
    Frame::result(&RequestPermissionResponse::new(RequestPermissionOutcome::Cancelled))
}

/// The answer to an elicitation that nobody will answer.
pub fn cancelled_elicitation() -> Frame {
    Frame::result(&CreateElicitationResponse::new(ElicitationAction::Cancel))
}

/// Tells a peer to cancel the turn of a session: ours by our id, a child by its own.
pub fn cancel(session: &str) -> Frame {
    Frame::notification("session/cancel", &CancelNotification::new(session.to_owned()))
}

/// Gives a terminal of the host back for a peer that is gone.
pub fn release_terminal(session: &SessionId, terminal: String) -> Frame {
    Frame::request("terminal/release", &ReleaseTerminalRequest::new(session.to_string(), terminal))
}

/// Shows a tool call of a turn that was cut short as failed (R74).
pub fn failed_tool(session: &SessionId, tool_call: String) -> Frame {
    let failed = ToolCallUpdateFields::new().status(ToolCallStatus::Failed);
    update(session, SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(tool_call, failed)))
}

/// Shows a tool call that was refused as failed, and why (R248).
pub fn refused_tool(session: &SessionId, tool_call: String, why: &str) -> Frame {
    let content = ToolCallContent::from(format!("refused: {why}"));
    let failed = ToolCallUpdateFields::new().status(ToolCallStatus::Failed).content(vec![content]);
    update(session, SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(tool_call, failed)))
}

/// Shows input of a session's inbox as the user's (R92).
pub fn user_chunk(session: &SessionId, id: &str, text: &str) -> Frame {
    let chunk = ContentChunk::new(ContentBlock::from(text)).message_id(MessageId::new(id.to_owned()));
    update(session, SessionUpdate::UserMessageChunk(chunk))
}

/// Says something of a session that is no part of the conversation (R86). `now` is the time as RFC 3339.
pub fn notice(session: &SessionId, now: String, facts: Value) -> Frame {
    let meta = Meta::from_iter([(META_KEY.to_owned(), facts)]);
    update(session, SessionUpdate::SessionInfoUpdate(SessionInfoUpdate::new().updated_at(now).meta(meta)))
}

fn update(session: &SessionId, update: SessionUpdate) -> Frame {
    Frame::notification("session/update", &SessionNotification::new(session.to_string(), update))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn params(frame: &Frame) -> Value {
        serde_json::from_str(frame.member("params").unwrap().get()).unwrap()
    }

    fn result(frame: &Frame) -> Value {
        serde_json::from_str(frame.member("result").unwrap().get()).unwrap()
    }

    /// R12, R86: what the daemon authors is what the schema says, in a stable order, and no member more.
    #[test]
    fn what_the_daemon_says_is_plain() {
        let session = SessionId::parse("s").unwrap();
        assert_eq!(result(&cancelled_turn()), json!({ "stopReason": "cancelled" }));
        assert_eq!(result(&cancelled_permission()), json!({ "outcome": { "outcome": "cancelled" } }));
        assert_eq!(result(&cancelled_elicitation()), json!({ "action": "cancel" }));
        assert_eq!(params(&cancel("c")), json!({ "sessionId": "c" }));
        let release = params(&release_terminal(&session, "t".to_owned()));
        assert_eq!(release, json!({ "sessionId": "s", "terminalId": "t" }));
        let failed = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "x", "status": "failed" });
        assert_eq!(params(&failed_tool(&session, "x".to_owned()))["update"], failed);
        let notice = notice(&session, "now".to_owned(), json!({ "a": 1 }));
        let want =
            r#"{"sessionUpdate":"session_info_update","updatedAt":"now","_meta":{"acpvisor":{"a":1}}}"#;
        assert_eq!(params(&notice)["update"].to_string(), want);
    }
}
