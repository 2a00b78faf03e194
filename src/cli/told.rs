//! An event of a run as the daemon tells it, read back to be shown as `run` shows its own. Pure.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::event::Event;

#[derive(Deserialize)]
struct Text<'a> {
    #[serde(borrow)]
    text: Cow<'a, str>,
    starts: bool,
}

#[derive(Deserialize)]
struct Tool<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    tool: String,
    summary: String,
    #[serde(borrow, default)]
    status: Cow<'a, str>,
    #[serde(default)]
    denied: bool,
}

#[derive(Deserialize)]
struct Transcript<'a> {
    #[serde(borrow)]
    raw: &'a RawValue,
}

/// The event of that kind; nothing when it is none of a run, or shows nothing.
pub(super) fn event<'a>(kind: &str, event: &'a RawValue) -> Option<Event<'a>> {
    match kind {
        "text" => {
            let Text { text, starts } = serde_json::from_str(event.get()).ok()?;
            Some(Event::Text { text, message_id: None, starts, raw: RawValue::NULL })
        }
        "tool_use" | "tool_result" => Some(tool(kind, serde_json::from_str(event.get()).ok()?)),
        "transcript" => {
            let Transcript { raw } = serde_json::from_str(event.get()).ok()?;
            Some(Event::Transcript { label: None, raw: Cow::Borrowed(raw) })
        }
        _ => None,
    }
}

fn tool<'a>(kind: &str, Tool { id, tool, summary, status, denied }: Tool<'a>) -> Event<'a> {
    let raw = RawValue::NULL;
    if kind == "tool_use" {
        return Event::ToolUse { id, tool, summary, raw };
    }
    let status = match &*status {
        "completed" => "completed",
        "denied" => "denied",
        _ => "failed",
    };
    Event::ToolResult { id, tool, status, summary, denied, raw }
}
