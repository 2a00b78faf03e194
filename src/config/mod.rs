//! Every knob, once: what it is called, its default, its unit and its range (R266).
//!
//! [`Config`] is what the file says; [`Paths`] is where things lie. Unknown keys are errors (R266).

mod agent;
mod check;
mod finding;
mod knob;
mod limits;
pub mod load;
pub mod paths;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use agent::{Agent, Context, Home, OnHostLoss, Unattended};
pub use check::is_agent_name;
pub use finding::Finding;
pub use limits::Limits;
pub use load::ConfigError;
pub use paths::{Paths, PathsError};

/// Every key with its default, unit, range and meaning, as a file of comments.
pub const DEFAULT_TOML: &str = include_str!("../../config/default.toml");

/// Name of the agent that is built into the binary (R265).
pub const DEMO: &str = "demo";

/// The whole configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Agent that serves a host which names none. Default: `demo`.
    pub default_agent: String,
    /// Level of the log file: `error`, `warn`, `info`, `debug` or `trace`. Default: `info`.
    pub log_level: LogLevel,
    /// Whether an agent's own child processes may open sessions (R255). Default: false.
    pub nested: bool,
    /// Ceilings and deadlines.
    pub limits: Limits,
    /// What hosts may do.
    pub host: Host,
    /// The agents, by name.
    pub agent: BTreeMap<String, Agent>,
}

/// What hosts may do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Host {
    /// Whether `session/fork` is offered (R49). Default: true.
    pub fork: bool,
    /// Whether options of the agent may be set while a turn runs (R178). Default: false.
    pub options_during_turn: bool,
}

impl Default for Host {
    fn default() -> Self {
        Self { fork: true, options_during_turn: false }
    }
}

/// How much the log says (R269).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
            nested: false,
            limits: Limits::default(),
            host: Host::default(),
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

impl LogLevel {
    /// The same for the log.
    pub fn filter(self) -> tracing::level_filters::LevelFilter {
        use tracing::level_filters::LevelFilter;
        match self {
            Self::Error => LevelFilter::ERROR,
            Self::Warn => LevelFilter::WARN,
            Self::Info => LevelFilter::INFO,
            Self::Debug => LevelFilter::DEBUG,
            Self::Trace => LevelFilter::TRACE,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, path::Path};

    use serde_json::Value;

    use super::{
        knob::{AGENT, CONFIG, HOST, Knob, LIMITS, Takes},
        *,
    };

    /// What is left when every setting is uncommented: prose begins with `# `, a setting with `#`.
    fn uncommented() -> String {
        let line = |line: &'static str| {
            line.strip_prefix('#').filter(|l| !l.starts_with([' ', '#'])).unwrap_or(line)
        };
        DEFAULT_TOML.lines().map(line).collect::<Vec<_>>().join("\n")
    }

    fn keys(value: &Value) -> BTreeSet<&str> {
        value.as_object().unwrap().keys().map(String::as_str).collect()
    }

    fn names(knobs: &[Knob]) -> BTreeSet<&'static str> {
        knobs.iter().map(|knob| knob.key).collect()
    }

    #[test]
    fn the_default_file_as_it_lies_says_nothing() {
        assert_eq!(Config::parse(Path::new("default.toml"), DEFAULT_TOML).unwrap(), Config::default());
    }

    /// R266: what the default file shows are the defaults.
    #[test]
    fn the_default_file_uncommented_says_the_defaults() {
        let demo = BTreeMap::from([(DEMO.to_owned(), Agent::demo())]);
        let defaults = Config { agent: demo, ..Config::default() };
        assert_eq!(Config::parse(Path::new("default.toml"), &uncommented()).unwrap(), defaults);
    }

    /// R266: every setting stands in the default file, and the table of knobs is the structs' own.
    #[test]
    fn structs_knobs_and_the_default_file_have_the_same_keys() {
        let config =
            Config { agent: BTreeMap::from([(DEMO.to_owned(), Agent::demo())]), ..Config::default() };
        let structs = serde_json::to_value(&config).unwrap();
        let file: Value = toml::from_str(&uncommented()).unwrap();
        for all in [&structs, &file] {
            assert_eq!(keys(all), names(CONFIG));
            assert_eq!(keys(&all["limits"]), names(LIMITS));
            assert_eq!(keys(&all["host"]), names(HOST));
            assert_eq!(keys(&all["agent"][DEMO]), names(AGENT));
        }
    }

    /// R266: every setting says its range and unit where people look for it.
    #[test]
    fn the_default_file_tells_every_range() {
        for knob in CONFIG.iter().chain(LIMITS).chain(AGENT) {
            let Takes::Whole { min, max, unit } = knob.takes else { continue };
            let at = DEFAULT_TOML.find(&format!("#{} = ", knob.key)).expect(knob.key);
            let said = DEFAULT_TOML[..at].rsplit("\n\n").next().unwrap();
            assert!(said.contains(&format!("{min} to {max} {unit}")), "{}: {said}", knob.key);
        }
    }
}
