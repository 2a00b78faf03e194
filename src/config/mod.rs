//! Every knob, once: what it is called, its default, its unit and its range (R266).
//!
//! [`Config`] is what the file says; [`Paths`] is where things lie. Unknown keys are errors (R266).

mod agent;
mod limits;
pub mod load;
pub mod paths;

use std::collections::BTreeMap;

use serde::Deserialize;

pub use agent::Agent;
pub use limits::Limits;
pub use paths::Paths;

/// Name of the agent that is built into the binary (R265).
pub const DEMO: &str = "demo";

/// The whole configuration.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Agent that serves a host which names none. Default: `demo`.
    pub default_agent: String,
    /// Level of the log file: `error`, `warn`, `info`, `debug` or `trace`. Default: `info`.
    pub log_level: LogLevel,
    /// Ceilings and deadlines.
    pub limits: Limits,
    /// The agents, by name.
    pub agent: BTreeMap<String, Agent>,
}

/// How much the log says (R269).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names are the field's own")]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            default_agent: DEMO.to_owned(),
            log_level: LogLevel::Info,
            limits: Limits::default(),
            agent: BTreeMap::new(),
        }
    }
}

impl Config {
    /// The agent of that name; `demo` is always there.
    pub fn agent(&self, name: &str) -> Option<Agent> {
        self.agent.get(name).cloned().or_else(|| (name == DEMO).then(Agent::demo))
    }
}
