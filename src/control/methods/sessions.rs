//! Results about sessions, live and saved, and about their inboxes. Pure.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::daemon::Node;
use crate::store::{Settings, Tally};

/// Sessions.
#[derive(Debug, Serialize)]
pub struct Sessions {
    /// The live ones, oldest first, then the saved ones, the latest used first.
    pub sessions: Vec<Session>,
    /// Where the next page begins; null at the end.
    pub cursor: Option<String>,
}

/// One session.
#[derive(Debug, Serialize)]
pub struct Session {
    /// Its id.
    pub id: String,
    /// `live` or `saved`.
    pub state: &'static str,
    /// When it became live; null when it is not.
    pub since: Option<String>,
    /// When its last frame passed, in milliseconds since the Unix epoch; null before the first.
    pub last_frame_ms: Option<u64>,
    /// When it was made; null when nothing is saved of it.
    pub created: Option<String>,
    /// When something last happened in it; likewise.
    pub updated: Option<String>,
    /// How many messages its inbox holds, by their states; likewise.
    pub inbox: Option<Tally>,
    /// What became of its last prompt; null before the first.
    pub last_prompt: Option<Prompt>,
    /// What is known of it: `agent`, `cwd`, `title`; and what a live one says about itself: `stage`, `turn`, `waiting`,
    /// `waiting_permissions`, `open_requests`, `idle`, `host`, `peer_session`, as far as it does.
    #[serde(flatten)]
    pub facts: BTreeMap<String, Value>,
}

/// What became of a prompt (R280).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Prompt {
    /// Counts the prompts of its session, from 1.
    pub number: u64,
    /// `waiting`, `running`, `answered`, `not_started`, or `unknown` when the daemon died meanwhile.
    pub state: &'static str,
    /// `host` or `inbox`.
    pub source: String,
    /// Its stop reason, or in a word why there is none.
    pub outcome: Option<String>,
    /// When it was taken.
    pub taken: String,
    /// When it ended.
    pub ended: Option<String>,
}

/// One session with everything that is known of it.
#[derive(Debug, Serialize)]
pub struct Shown {
    /// The session.
    pub session: Session,
    /// What is set in it; null when nothing is saved of it.
    pub settings: Option<Settings>,
    /// The session it was forked from.
    pub parent: Option<String>,
    /// Bytes of its transcript.
    pub bytes: u64,
    /// Its last prompts, oldest first.
    pub prompts: Vec<Prompt>,
    /// Its part of the tree; null when it is not live.
    pub tree: Option<Node>,
}

/// A message was accepted (R182).
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Sent {
    /// The message's id.
    pub entry: String,
    /// Whether that id was known already: then nothing changed.
    pub duplicate: bool,
    /// Whether the session is live and was told.
    pub live: bool,
}

/// The inbox of a session.
#[derive(Debug, Serialize)]
pub struct Inbox {
    /// Its messages in queue order.
    pub entries: Vec<Entry>,
}

/// One message in an inbox.
#[derive(Debug, Serialize)]
pub struct Entry {
    /// Its id.
    pub entry: String,
    /// `queued`, `running`, `done`, `discarded`, or `indeterminate` when nobody can know.
    pub state: &'static str,
    /// Who sent it.
    pub source: String,
    /// When it was queued.
    pub queued: String,
    /// How often it was tried.
    pub attempt: u32,
    /// What it says; in a list its beginning, on one line.
    pub text: String,
}

/// A transcript was handed out.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Exported {
    /// In how many pieces.
    pub pieces: u64,
    /// How many bytes they are together.
    pub bytes: u64,
}

/// A stream of events began.
#[derive(Debug, Serialize)]
pub struct Subscribed {
    /// Its number on this connection.
    pub subscription: u64,
    /// What happened before now has a number up to this.
    pub newest: u64,
}
