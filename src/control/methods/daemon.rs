//! Results about the daemon as a whole. Pure.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::process::figures::Process;

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

/// An order was carried out.
#[derive(Debug, Serialize)]
pub struct Ordered {}
