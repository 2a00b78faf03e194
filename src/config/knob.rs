//! The keys of the configuration file and what each may hold.
//!
//! One table a level, named as the structs beside it; a test keeps the two and `config/default.toml` equal. Pure.

use std::fmt;

use crate::limits;

/// One key of the file.
#[derive(Debug, Clone, Copy)]
pub struct Knob {
    /// Its name in its table.
    pub key: &'static str,
    /// What it may hold.
    pub takes: Takes,
}

/// What a key may hold.
#[derive(Debug, Clone, Copy)]
pub enum Takes {
    /// Any text without a NUL.
    Text,
    /// The name of an agent.
    Agent,
    /// A program: a name to look up, or an absolute path.
    Program,
    /// `true` or `false`.
    Switch,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A whole number in a range, with its unit.
    Whole {
        /// The least.
        min: u64,
        /// The most.
        max: u64,
        /// What is counted.
        unit: &'static str,
    },
    /// A list of texts.
    Texts,
    /// A list of names of environment variables.
    VariableNames,
    /// A table from names of environment variables to texts.
    Variables,
    /// A table of these keys.
    Table(&'static [Knob]),
    /// A table of agents, each a table of these keys.
    Agents(&'static [Knob]),
}

const fn knob(key: &'static str, takes: Takes) -> Knob {
    Knob { key, takes }
}

const fn whole(key: &'static str, min: u64, max: u64, unit: &'static str) -> Knob {
    knob(key, Takes::Whole { min, max, unit })
}

/// The levels of the log, as the file spells them.
pub const LOG_LEVELS: &[&str] = &["error", "warn", "info", "debug", "trace"];

/// The homes of an agent, as the file spells them.
pub const HOMES: &[&str] = &["own", "scratch"];

/// What becomes of a turn whose host is lost, as the file spells it.
pub const HOST_LOSSES: &[&str] = &["end", "continue"];

/// How a blank process gets its context, as the file spells it.
pub const CONTEXTS: &[&str] = &["transcript", "none"];

/// What becomes of questions that nobody hears, as the file spells it.
pub const UNATTENDED: &[&str] = &["wait", "refuse"];

/// The keys outside any table.
pub const CONFIG: &[Knob] = &[
    knob("default_agent", Takes::Agent),
    knob("log_level", Takes::Word(LOG_LEVELS)),
    knob("nested", Takes::Switch),
    knob("limits", Takes::Table(LIMITS)),
    knob("host", Takes::Table(HOST)),
    knob("agent", Takes::Agents(AGENT)),
];

/// The keys of `[limits]`.
pub const LIMITS: &[Knob] = &[
    whole("sessions_max", 1, 4_096, "sessions"),
    whole("hosts_max", 1, 4_096, "connections"),
    whole("host_requests_max", 1, 65_536, "requests"),
    whole("first_message_ms", 100, 600_000, "milliseconds"),
    whole("line_bytes_max", 65_536, limits::LINE_BYTES_MAX as u64, "bytes"),
    whole("write_stall_ms", 100, 600_000, "milliseconds"),
    whole("cancel_grace_ms", 100, 600_000, "milliseconds"),
    whole("warm_ms", 100, 600_000, "milliseconds"),
    whole("detached_idle_ms", 30_000, 3_600_000, "milliseconds"),
    whole("permission_wait_s", 1, 86_400, "seconds"),
    whole("hibernate_after_s", 1, 604_800, "seconds"),
    whole("peers_max", 1, 4_096, "processes"),
    whole("peers_memory_max", 1, 1 << 24, "mebibytes"),
    whole("session_bytes_max", 1 << 20, 1 << 40, "bytes"),
];

/// The keys of `[host]`.
pub const HOST: &[Knob] = &[knob("fork", Takes::Switch), knob("options_during_turn", Takes::Switch)];

/// The keys of `[agent.NAME]`.
pub const AGENT: &[Knob] = &[
    knob("command", Takes::Program),
    knob("args", Takes::Texts),
    knob("env", Takes::Variables),
    knob("env_pass", Takes::VariableNames),
    knob("path", Takes::Text),
    knob("home", Takes::Word(HOMES)),
    whole("handshake_s", 1, 600, "seconds"),
    whole("stop_grace_ms", 0, 60_000, "milliseconds"),
    knob("strict_wire", Takes::Switch),
    knob("on_host_loss", Takes::Word(HOST_LOSSES)),
    knob("context", Takes::Word(CONTEXTS)),
    knob("unattended", Takes::Word(UNATTENDED)),
];

/// The keys of `[agent.NAME]` that have no default.
pub const AGENT_REQUIRED: &[&str] = &["command"];

impl fmt::Display for Takes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text => f.write_str("a text"),
            Self::Agent => f.write_str("the name of an agent"),
            Self::Program => f.write_str("the name of a program or an absolute path"),
            Self::Switch => f.write_str("true or false"),
            Self::Word(words) => write!(f, "one of {}", quoted(words.iter().copied())),
            Self::Whole { min, max, unit } => write!(f, "a whole number from {min} to {max} ({unit})"),
            Self::Texts => f.write_str("a list of texts"),
            Self::VariableNames => f.write_str("a list of names of environment variables"),
            Self::Variables => f.write_str("a table of environment variables"),
            Self::Table(_) => f.write_str("a table"),
            Self::Agents(_) => f.write_str("tables named [agent.NAME]"),
        }
    }
}

/// The words in backquotes, separated by commas.
pub fn quoted<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}
