//! The run event stream: what one frame of a session's peer means to whoever follows a run (R29, R93 to R106).
//!
//! Owns the shape of the events; [`Mapper`] makes them. Nothing is invented: what has no meaning of its own is
//! kept as [`Event::Transcript`]. Pure; knows no clock and no wire.

mod calls;
mod mapper;
mod message;
mod reading;
mod spending;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;
use smallvec::SmallVec;

pub use calls::Call;
pub use mapper::Mapper;

/// Characters of a summary (R95 to R97).
pub const SUMMARY_CHARS_MAX: usize = 200;
/// Label of a model that the peer did not report (R29).
pub const UNREPORTED: &str = "unreported";

/// Events of one frame, in order. Hardly ever more than one.
pub type Events<'a> = SmallVec<[Event<'a>; 2]>;

/// One event of a run. `raw` is the frame it comes from, byte for byte.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event<'a> {
    /// The first one, made by the daemon's side from both handshake answers (R29).
    Init {
        /// The daemon's id of the session.
        session_id: Cow<'a, str>,
        /// The peer's own id, where it is known.
        peer_session_id: Option<String>,
        /// What the peer says its model is, else `unreported`.
        model: String,
        /// Always true: no frame says this.
        synthesised: bool,
        /// Both handshake answers.
        raw: Handshake<'a>,
    },
    /// A piece of the agent's message (R93).
    Text {
        /// The piece.
        text: Cow<'a, str>,
        /// The message it belongs to, where the peer says so.
        message_id: Option<Cow<'a, str>>,
        /// Whether a new message starts with it (R94).
        starts: bool,
        /// The frame.
        raw: &'a RawValue,
    },
    /// A tool call begins (R95).
    ToolUse {
        /// Its id.
        id: Cow<'a, str>,
        /// ACP kind.
        tool: String,
        /// Title, cut.
        summary: String,
        /// The frame.
        raw: &'a RawValue,
    },
    /// A tool call ended (R96) or was refused at our seam (R97).
    ToolResult {
        /// Its id, as far as known.
        id: Cow<'a, str>,
        /// ACP kind.
        tool: String,
        /// `completed`, `failed` or `denied`.
        status: &'static str,
        /// First text, else title, else status; of a refusal the seam and the reason.
        summary: String,
        /// Whether it was refused at our seam. A tool that failed was not.
        denied: bool,
        /// The frame.
        raw: &'a RawValue,
    },
    /// The end of a prompt (R99, R100).
    Result {
        /// The last message, or what went wrong.
        text: String,
        /// Always 1.
        turns: u32,
        /// False only for `end_turn`.
        is_error: bool,
        /// The stop reason verbatim.
        stop_reason: Option<String>,
        /// What this turn cost, if the peer said so (R102).
        cost_usd: Option<f64>,
        /// What it is made from.
        raw: Evidence<'a>,
    },
    /// Kept and nothing more (R103).
    Transcript {
        /// Why it means nothing, where that is worth a word.
        #[serde(skip_serializing_if = "Option::is_none")]
        label: Option<Label>,
        /// The frame, or the text of a line that is none.
        raw: Cow<'a, RawValue>,
    },
}

/// The answers a run starts with.
#[derive(Debug, Serialize)]
pub struct Handshake<'a> {
    /// Of `initialize`.
    pub initialize: &'a RawValue,
    /// Of `session/new`.
    #[serde(rename = "session/new")]
    pub session_new: &'a RawValue,
}

/// What a result is made from.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Evidence<'a> {
    /// The peer answered (R99).
    Answer {
        /// Its answer.
        answer: &'a RawValue,
        /// The frame of the turn's last usage update.
        usage: Option<Box<RawValue>>,
        /// Verbatim, whatever its type; null when it is missing.
        #[serde(rename = "stopReason")]
        stop_reason: Option<&'a RawValue>,
    },
    /// The prompt failed (R100).
    Error {
        /// The error object.
        error: &'a RawValue,
        /// Id of the prompt's request.
        id: u64,
    },
}

/// Why a frame is in the transcript only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Label {
    /// No JSON (R6).
    Unparsed,
    /// An answer to nothing (R5).
    UnmatchedResponse,
    /// It names another session (R105).
    OtherSession,
    /// A tool call id that is empty or too long (R106).
    ToolCallId,
}

/// The first 200 characters (R95 to R97).
pub fn cut(text: &str) -> String {
    text.chars().take(SUMMARY_CHARS_MAX).collect()
}
