//! Writes updates from parts that are JSON already. Pure.

use super::{line::Speaker, literal};

/// A chunk.
pub(super) fn chunk(session: &str, speaker: Speaker, message_id: Option<&str>, content: &str) -> String {
    let update = speaker.update();
    let id = message_id.map_or_else(String::new, |id| format!(r#","messageId":{id}"#));
    notification(session, &format!(r#"{{"sessionUpdate":"{update}","content":{content}{id}}}"#))
}

/// A chunk of text, as it stands between quotes.
pub(super) fn text_chunk(session: &str, speaker: Speaker, message_id: Option<&str>, body: &str) -> String {
    chunk(session, speaker, message_id, &text(body))
}

/// A block of text.
pub(super) fn text(body: &str) -> String {
    format!(r#"{{"type":"text","text":"{body}"}}"#)
}

/// What stands before and behind a text that is an item of a tool call's content.
pub(super) const TEXT_ITEM: (&str, &str) =
    (r#"{"type":"content","content":{"type":"text","text":""#, r#""}}"#);

/// A text as a tool call holds it.
pub(super) fn text_item(body: &str) -> String {
    [TEXT_ITEM.0, body, TEXT_ITEM.1].concat()
}

/// An update of that kind with these members.
pub(super) fn update<'a>(
    session: &str,
    kind: &str,
    members: impl Iterator<Item = (&'a str, &'a str)>,
) -> String {
    let mut update = format!(r#"{{"sessionUpdate":"{kind}""#);
    for (name, value) in members {
        let name = serde_json::to_string(name).expect("a string is always JSON");
        update.extend([",", &name, ":", value]);
    }
    update.push('}');
    notification(session, &update)
}

/// A tool call that was refused, and why, as the host saw it (R248).
pub(super) fn refusal(session: &str, tool_call: &str, why: &str) -> String {
    let id = format!("\"{}\"", literal::of(tool_call));
    let content = format!("[{}]", text_item(&literal::of(&format!("refused: {why}"))));
    let members = [("toolCallId", &*id), ("status", "\"failed\""), ("content", &content)];
    update(session, "tool_call_update", members.into_iter())
}

fn notification(session: &str, update: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":{session},"update":{update}}}}}"#
    )
}
