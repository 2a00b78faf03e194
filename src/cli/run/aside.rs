//! What an agent shows beside its answer, for people: thoughts, plans, notices. Pure.

use serde_json::{Value, value::RawValue};

/// Something beside the answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Aside {
    /// A piece of reasoning.
    Thought(String),
    /// The whole plan: a mark and what is to be done.
    Plan(Vec<(char, String)>),
    /// A word from the agent about itself.
    Notice(String),
}

/// Reads a frame of the session; most are none.
pub(super) fn aside(frame: &RawValue) -> Option<Aside> {
    let frame: Value = serde_json::from_str(frame.get()).ok()?;
    let update = &frame["params"]["update"];
    match update["sessionUpdate"].as_str()? {
        "agent_thought_chunk" => {
            let text = update["content"]["text"].as_str()?;
            (!text.is_empty()).then(|| Aside::Thought(text.to_owned()))
        }
        "plan" => Some(Aside::Plan(update["entries"].as_array()?.iter().filter_map(entry).collect())),
        "notice" => Some(Aside::Notice(update["title"].as_str()?.to_owned())),
        _ => None,
    }
}

fn entry(entry: &Value) -> Option<(char, String)> {
    let mark = match entry["status"].as_str() {
        Some("completed") => 'x',
        Some("in_progress") => '>',
        _ => ' ',
    };
    Some((mark, entry["content"].as_str()?.to_owned()))
}
