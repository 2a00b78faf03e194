//! Events of the daemon's own, beside those of a run (R258). Pure.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Value, value::RawValue};

use super::Kind;
use crate::event::Event;

/// What is told: something that the agent said, or something about it.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Told<'a> {
    /// An event of a run.
    Run(Event<'a>),
    /// An event of the daemon's.
    Note(Note<'a>),
}

/// An event of the daemon's. `docs/control.md` describes each.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Note<'a> {
    SessionOpened {
        agent: Cow<'a, str>,
        how: Cow<'a, str>,
        peer_session: Cow<'a, str>,
    },
    SessionClosed {
        reason: Cow<'a, str>,
    },
    Host {
        state: Cow<'a, str>,
        reason: Cow<'a, str>,
    },
    Settings {
        settings: Value,
    },
    TurnStarted {
        turn: u64,
        source: Cow<'a, str>,
    },
    Prompt {
        text: String,
    },
    Input {
        id: Cow<'a, str>,
        text: Cow<'a, str>,
    },
    TurnEnded {
        turn: u64,
        stop_reason: Option<Cow<'a, str>>,
        error: Option<Value>,
    },
    PermissionAsked {
        tool_call: String,
        tool: String,
        title: String,
        subject: Option<String>,
        raw: &'a RawValue,
    },
    PermissionDecided {
        tool_call: Cow<'a, str>,
        tool: Cow<'a, str>,
        decision: Cow<'a, str>,
        by: Cow<'a, str>,
        reason: Cow<'a, str>,
    },
    PeerGone {
        cause: Cow<'a, str>,
    },
    Recovery {
        pending_resume: Value,
    },
    Gap {
        dropped: u64,
    },
    Current {},
    Ended {
        reason: String,
    },
}

impl Told<'_> {
    /// What it is about.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Run(event) => of_run(event),
            Self::Note(note) => of_note(note),
        }
    }
}

fn of_run(event: &Event<'_>) -> Kind {
    match event {
        Event::Text { .. } => Kind::Text,
        Event::ToolUse { .. } => Kind::ToolUse,
        Event::ToolResult { .. } => Kind::ToolResult,
        Event::Result { .. } => Kind::Result,
        // The store has the handshake of no session: nothing makes the first event of a run here.
        Event::Init { .. } | Event::Transcript { .. } => Kind::Transcript,
    }
}

fn of_note(note: &Note<'_>) -> Kind {
    match note {
        Note::SessionOpened { .. } => Kind::SessionOpened,
        Note::SessionClosed { .. } => Kind::SessionClosed,
        Note::Host { .. } => Kind::Host,
        Note::Settings { .. } => Kind::Settings,
        Note::TurnStarted { .. } => Kind::TurnStarted,
        Note::Prompt { .. } => Kind::Prompt,
        Note::Input { .. } => Kind::Input,
        Note::TurnEnded { .. } => Kind::TurnEnded,
        Note::PermissionAsked { .. } => Kind::PermissionAsked,
        Note::PermissionDecided { .. } => Kind::PermissionDecided,
        Note::PeerGone { .. } => Kind::PeerGone,
        Note::Recovery { .. } => Kind::Recovery,
        Note::Gap { .. } => Kind::Gap,
        Note::Current {} => Kind::Current,
        Note::Ended { .. } => Kind::Ended,
    }
}
