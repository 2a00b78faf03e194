//! What the player remembers of a session, and of what is open on the wire. Pure.

use std::collections::{HashMap, VecDeque};

use super::{expected::Opens, seen::Seen};
use crate::recording::Message;

/// A session of the recording that is open in the daemon, or is being opened.
pub struct Session {
    /// Number of its process.
    pub peer: usize,
    /// The answer that opens it was played.
    pub open: bool,
    /// What the agent said for it before that: the host gets it afterwards (R105).
    pub early: Vec<Due>,
    /// The prompt that is the turn, by the host's id.
    pub turn: Option<String>,
    /// The turn was told to end.
    pub cancelled: bool,
    /// Prompts that wait for the turn's end (R72), by the host's id.
    pub waiting: VecDeque<(String, Message)>,
    /// Answers of the agent to prompts that still wait.
    pub late: HashMap<String, Message>,
}

impl Session {
    /// Being opened on that process.
    pub fn opening(peer: usize) -> Self {
        Self {
            peer,
            open: false,
            early: Vec::new(),
            turn: None,
            cancelled: false,
            waiting: VecDeque::new(),
            late: HashMap::new(),
        }
    }
}

/// A line that the host is to get.
pub struct Due {
    /// As the agent said it.
    pub said: Message,
    /// What the daemon makes of it, when that is not the same.
    pub instead: Option<Message>,
}

impl Due {
    /// As it was said.
    pub fn same(said: &Message) -> Self {
        Self { said: said.clone(), instead: None }
    }
}

/// A request of the host, by its id.
pub enum Asked {
    /// That process was asked, under that id.
    Peer { peer: usize, id: String, method: String, session: Option<String> },
    /// It waits behind the turn of that session.
    Waiting(String),
    /// Its answer was played before its time.
    Answered,
    /// The daemon answers it.
    Own,
}

/// A session that the daemon opens for a host without asking the agent what the host asked.
pub struct Opening {
    /// What the recording calls it.
    pub name: String,
    /// The host's request.
    pub id: String,
    /// The session that it is a fork of.
    pub source: Option<String>,
    /// By what.
    pub opens: Opens,
    /// What the agent said before its answer was played.
    pub played: bool,
    /// Its answer was played.
    pub answered: bool,
    /// The history that the host was shown meanwhile.
    pub shown: Seen,
}

impl Opening {
    /// Of a host's request.
    pub fn new(name: &str, id: &str, opens: Opens) -> Self {
        let (name, id, shown) = (name.to_owned(), id.to_owned(), Seen::default());
        Self { name, id, source: None, opens, played: false, answered: false, shown }
    }
}

/// A request of the agent, by its id.
pub struct Question {
    /// Number of the process.
    pub peer: usize,
    /// The session that it names.
    pub session: String,
    /// Its id on the host's wire, once it got there.
    pub host_id: String,
    /// It is one that a cancel takes back (R250).
    pub revocable: bool,
    /// The daemon answered it meanwhile.
    pub revoked: bool,
}

/// What a host declared that it serves.
#[derive(Default)]
pub struct Services {
    read: bool,
    write: bool,
    terminal: bool,
}

impl Services {
    /// Of its `initialize`.
    pub fn of(initialize: &Message) -> Self {
        let message: serde_json::Value = serde_json::from_str(&initialize.0).unwrap();
        let capabilities = &message["params"]["clientCapabilities"];
        Self {
            read: capabilities["fs"]["readTextFile"] == true,
            write: capabilities["fs"]["writeTextFile"] == true,
            terminal: capabilities["terminal"] == true,
        }
    }

    /// Whether a request of the agent reaches the host (R17).
    pub fn offer(&self, method: &str) -> bool {
        match method {
            "fs/read_text_file" => self.read,
            "fs/write_text_file" => self.write,
            _ if method.starts_with("terminal/") => self.terminal,
            _ => method == "session/request_permission" || method.starts_with('_'),
        }
    }
}
