//! One agent: the program, what it may see, and how long it may take (R268 in its first form).

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Deserializer, Serialize};

/// How to start an agent and how patient to be with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agent {
    /// The program: an absolute path, or a name that is looked up in `path`. Nothing is expanded in it.
    pub command: PathBuf,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// Variables set verbatim; they win over everything else (R232).
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Names of variables that cross from the bridge's environment, else from the daemon's (R230).
    #[serde(default)]
    pub env_pass: Vec<String>,
    /// The PATH of the peer; without it, or when empty, the bridge's, else the daemon's (R230).
    #[serde(default, deserialize_with = "unless_empty")]
    pub path: Option<String>,
    /// Whose home the peer sees: `own`, or `scratch` for a private directory per session that goes with it (R230).
    #[serde(default)]
    pub home: Home,
    /// Deadline of each handshake request, in seconds, 1 to 600 (R22). Default: 30.
    #[serde(default = "default_handshake_s")]
    pub handshake_s: u64,
    /// From closing stdin to SIGKILL when a peer is ended, in milliseconds, 0 to 60000 (R222). Default: 5000.
    #[serde(default = "default_stop_grace_ms")]
    pub stop_grace_ms: u64,
    /// Whether a line that is no proper JSON-RPC fails the session (R6). Default: false.
    #[serde(default)]
    pub strict_wire: bool,
    /// What becomes of a session whose host is lost (R112). Default: `end`.
    #[serde(default)]
    pub on_host_loss: OnHostLoss,
    /// How a process that can neither resume nor load learns what was said (R31). Default: `transcript`.
    #[serde(default)]
    pub context: Context,
    /// What becomes of questions while no host is there (R141). Default: `wait`.
    #[serde(default)]
    pub unattended: Unattended,
}

/// What becomes of a session whose host is lost (R112).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnHostLoss {
    /// What runs is cancelled, and the session ends; it can be loaded again.
    #[default]
    End,
    /// What runs goes on into the store.
    Continue,
}

/// How a blank process learns what was said before it (R31).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Context {
    /// Its first prompt is preceded by the transcript.
    #[default]
    Transcript,
    /// It does not.
    None,
}

/// What becomes of questions that no host hears (R140, R141).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unattended {
    /// They wait for somebody, as long as `permission_wait_s`.
    #[default]
    Wait,
    /// They are refused at once.
    Refuse,
}

/// Whose home a peer sees (R230, R234).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Home {
    /// That of the operator.
    #[default]
    Own,
    /// A private one per session, removed with it.
    Scratch,
}

fn unless_empty<'de, D: Deserializer<'de>>(value: D) -> Result<Option<String>, D::Error> {
    Ok(Some(String::deserialize(value)?).filter(|text| !text.is_empty()))
}

fn default_handshake_s() -> u64 {
    30
}

fn default_stop_grace_ms() -> u64 {
    5_000
}

impl Agent {
    /// The agent inside this binary (R265).
    pub fn demo() -> Self {
        Self {
            command: "/proc/self/exe".into(),
            args: vec!["demo-agent".to_owned()],
            env: BTreeMap::new(),
            env_pass: Vec::new(),
            path: None,
            home: Home::Own,
            handshake_s: default_handshake_s(),
            stop_grace_ms: default_stop_grace_ms(),
            strict_wire: false,
            on_host_loss: OnHostLoss::default(),
            context: Context::default(),
            unattended: Unattended::default(),
        }
    }
}
