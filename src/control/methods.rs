//! Every method with the types of its params and results. `docs/control.md` describes the same; a test compares.
//!
//! Members are snake_case; times are milliseconds or RFC 3339 in UTC. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::rpc::Refusal;

/// Names of all methods, in the order of the reference page.
pub const METHODS: &[&str] = &[
    "status",
    "tree",
    "agents",
    "sessions.list",
    "sessions.show",
    "sessions.cancel",
    "sessions.close",
    "sessions.kill",
    "shutdown",
];

/// What an operator asks.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "every request is answered"]
pub enum Request {
    /// How the daemon is. Answers [`Status`].
    Status,
    /// The supervision tree as it is. Answers [`Tree`].
    Tree,
    /// The agents that can be started. Answers [`Agents`].
    Agents,
    /// The live sessions. Answers [`Sessions`].
    SessionsList,
    /// One of them with what lives below it. Answers [`Shown`].
    SessionsShow(SessionParams),
    /// Cancels what it runs, as `session/cancel` does. Answers [`Ordered`] when the order is given.
    SessionsCancel(SessionParams),
    /// Ends it with the usual grace. Answers [`Ordered`] when it is gone.
    SessionsClose(SessionParams),
    /// Ends it without any grace. Answers [`Ordered`] when it is gone.
    SessionsKill(SessionParams),
    /// Stops the daemon. Answers [`Ordered`] before it begins.
    Shutdown,
}

/// Params of a method that takes none.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NoParams {}

/// Which session is meant.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionParams {
    /// Its whole id.
    pub id: String,
}

/// How the daemon is.
#[derive(Debug, Serialize)]
pub struct Status {
    /// Version of the program.
    pub version: &'static str,
    /// Its process.
    pub pid: u32,
    /// When it started.
    pub started: String,
    /// How long it runs.
    pub uptime_ms: u64,
    /// Where its things lie.
    pub paths: Places,
    /// How full it is; null while nobody counts.
    pub residency: Option<Residency>,
    /// Hosts connected.
    pub hosts: usize,
    /// Sessions live.
    pub sessions: usize,
    /// Log lines lost since the start.
    pub dropped_log_lines: u64,
}

/// Where things lie.
#[derive(Debug, Serialize)]
pub struct Places {
    /// The configuration file; need not exist.
    pub config: String,
    /// Directory of the sockets.
    pub runtime_dir: String,
    /// Directory of records, logs and the store.
    pub state_dir: String,
    /// The socket that speaks ACP.
    pub host_socket: String,
    /// This socket.
    pub control_socket: String,
    /// Directory of the log.
    pub logs_dir: String,
}

/// Sessions against their ceiling (R246).
#[derive(Debug, Serialize)]
pub struct Residency {
    /// Sessions that are there.
    pub resident: u64,
    /// Places held for sessions that are being made.
    pub reserved: u64,
    /// How many there may be.
    pub max: u64,
}

/// The supervision tree (R259).
#[derive(Debug, Serialize)]
pub struct Tree {
    /// Actors without a parent: the root, and whoever is just losing its own.
    pub roots: Vec<Node>,
}

/// One actor.
#[derive(Debug, Serialize)]
pub struct Node {
    /// What it is, such as `session` or `peer`.
    pub kind: String,
    /// Its name among its kind; empty when there is one only.
    pub name: String,
    /// When it started.
    pub since: String,
    /// How often it was restarted.
    pub restarts: u64,
    /// When the last frame passed, in milliseconds since the Unix epoch; null before the first.
    pub last_frame_ms: Option<u64>,
    /// What it says about itself.
    pub facts: BTreeMap<String, Value>,
    /// Its process, read when asked; absent without one, null when it is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<Option<Process>>,
    /// Whom it supervises, oldest first.
    pub children: Vec<Node>,
}

/// A process and all that lives below it.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Process {
    /// Its id.
    pub pid: i32,
    /// Its process group.
    pub pgid: i32,
    /// Memory of the process itself.
    pub rss_bytes: u64,
    /// CPU time of the process itself.
    pub cpu_ms: u64,
    /// All processes below the shim, this one among them and the shim not.
    pub subtree: Sum,
}

/// Figures of several processes together.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sum {
    /// How many they are.
    pub processes: usize,
    /// Their memory; what they share counts for each.
    pub rss_bytes: u64,
    /// Their CPU time.
    pub cpu_ms: u64,
}

/// The agents that can be started.
#[derive(Debug, Serialize)]
pub struct Agents {
    /// By name.
    pub agents: Vec<AgentEntry>,
}

/// One of them.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct AgentEntry {
    /// Its name.
    pub name: String,
    /// The program.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Whether it is the one inside the binary.
    pub builtin: bool,
    /// Whether it serves a host that names none.
    pub default: bool,
}

/// The live sessions.
#[derive(Debug, Serialize)]
pub struct Sessions {
    /// Oldest first.
    pub sessions: Vec<Session>,
}

/// One session.
#[derive(Debug, Serialize)]
pub struct Session {
    /// Its id.
    pub id: String,
    /// When it became live.
    pub since: String,
    /// When its last frame passed, in milliseconds since the Unix epoch; null before the first.
    pub last_frame_ms: Option<u64>,
    /// What it says about itself: `agent`, `cwd`, `stage`, `turn`, `waiting`, `open_requests`, `idle`, `host`,
    /// `peer_session`, `title`, as far as known.
    #[serde(flatten)]
    pub facts: BTreeMap<String, Value>,
}

/// One session with what lives below it.
#[derive(Debug, Serialize)]
pub struct Shown {
    /// The session.
    pub session: Session,
    /// Its part of the tree.
    pub tree: Node,
}

/// An order was carried out.
#[derive(Debug, Serialize)]
pub struct Ordered {}

impl Request {
    /// Reads a request; refuses an unknown method and params that are not its own.
    pub fn read(method: &str, params: Value) -> Result<Self, Refusal> {
        Ok(match method {
            "status" => none(params, Self::Status)?,
            "tree" => none(params, Self::Tree)?,
            "agents" => none(params, Self::Agents)?,
            "sessions.list" => none(params, Self::SessionsList)?,
            "sessions.show" => Self::SessionsShow(members(params)?),
            "sessions.cancel" => Self::SessionsCancel(members(params)?),
            "sessions.close" => Self::SessionsClose(members(params)?),
            "sessions.kill" => Self::SessionsKill(members(params)?),
            "shutdown" => none(params, Self::Shutdown)?,
            unknown => return Err(Refusal::unknown_method(unknown)),
        })
    }
}

fn none(params: Value, request: Request) -> Result<Request, Refusal> {
    members::<NoParams>(params).map(|NoParams {}| request)
}

fn members<P: DeserializeOwned>(params: Value) -> Result<P, Refusal> {
    let params = match params {
        Value::Null => Value::Object(serde_json::Map::new()),
        Value::Object(members) => Value::Object(members),
        _ => return Err(Refusal::params("params: expected an object".to_owned())),
    };
    serde_path_to_error::deserialize(params).map_err(|error| {
        // An error about a missing or unknown member names it itself and has no path.
        let path = error.path().to_string();
        let place = if path == "." { "params".to_owned() } else { format!("params.{path}") };
        Refusal::params(format!("{place}: {}", error.inner()))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_method_is_read() {
        for method in METHODS {
            let with_id = Request::read(method, json!({ "id": "s" }));
            let without = Request::read(method, Value::Null);
            assert!(with_id.is_ok() != without.is_ok(), "{method} takes an id or nothing");
        }
        assert_eq!(Request::read("nope", Value::Null).unwrap_err().code, -32601);
    }

    /// R257: wrong params name the member.
    #[test]
    fn wrong_params_name_the_member() {
        for (method, params, said) in [
            ("sessions.show", json!({ "id": 7 }), "params.id: invalid type: integer `7`, expected a string"),
            ("sessions.show", json!({}), "params: missing field `id`"),
            ("sessions.show", Value::Null, "params: missing field `id`"),
            ("sessions.show", json!({ "id": "a", "x": 1 }), "params.x: unknown field `x`, expected `id`"),
            ("sessions.show", json!(["a"]), "params: expected an object"),
            ("status", json!({ "x": 1 }), "params.x: unknown field `x`, there are no fields"),
        ] {
            let refusal = Request::read(method, params).unwrap_err();
            assert_eq!((refusal.code, refusal.message.as_str()), (-32602, said));
        }
    }

    /// R257: the reference page describes exactly the methods there are.
    #[test]
    fn the_reference_page_has_every_method() {
        let page = include_str!("../../docs/control.md");
        let headings = page.lines().filter_map(|line| line.strip_prefix("## `")?.strip_suffix('`'));
        assert_eq!(headings.collect::<Vec<_>>(), METHODS);
    }
}
