//! The hello: the first line of a bridge or of `run`, before any ACP (R252).
//!
//! Owns its shape for both ends of the socket. It carries the agent wanted, the directory and the variables that
//! `env_pass` names; never any other variable, and never a value that is not text. Reads no environment itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::wire::method::HELLO;

/// What whoever connects says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Hello {
    /// The agent wanted; without one the daemon's default agent.
    #[serde(default)]
    pub agent: Option<String>,
    /// Absolute directory it was started in.
    pub cwd: String,
    /// PATH and the variables that `env_pass` names, as far as they are set here (R230).
    #[serde(default)]
    pub env: BTreeMap<String, String>,
}

impl Hello {
    /// A hello with `PATH` and the variables in `pass`, as far as `lookup` finds them.
    pub fn new(
        agent: Option<&str>,
        cwd: &str,
        pass: &[String],
        lookup: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let names = std::iter::once("PATH").chain(pass.iter().map(String::as_str));
        let env = names.filter_map(|name| Some((name.to_owned(), lookup(name)?))).collect();
        Self { agent: agent.map(str::to_owned), cwd: cwd.to_owned(), env }
    }

    /// The line that goes over the socket, newline included.
    pub fn line(&self) -> String {
        #[derive(Serialize)]
        struct Notification<'a> {
            jsonrpc: &'static str,
            method: &'static str,
            params: &'a Hello,
        }
        let whole = Notification { jsonrpc: "2.0", method: HELLO, params: self };
        let mut line = serde_json::to_string(&whole).expect("a map of strings is always JSON");
        line.push('\n');
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(name: &str) -> Option<String> {
        matches!(name, "PATH" | "API_KEY" | "GH_TOKEN").then(|| format!("value of {name}"))
    }

    /// R252, R230: only PATH and what `env_pass` names crosses, and only when it is set.
    #[test]
    fn nothing_but_path_and_the_named_variables_crosses() {
        let hello = Hello::new(None, "/w", &["API_KEY".to_owned(), "UNSET".to_owned()], lookup);
        assert_eq!(hello.env.keys().collect::<Vec<_>>(), ["API_KEY", "PATH"]);
    }

    /// R252: the hello is one line, and the other end reads from it what was said.
    #[test]
    fn the_line_is_one_notification_and_reads_back() {
        let hello = Hello::new(Some("demo"), "/a\nb", &[], lookup);
        let line = hello.line();
        assert_eq!(line.find('\n'), Some(line.len() - 1));
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["method"], HELLO);
        assert_eq!(serde_json::from_value::<Hello>(value["params"].clone()).unwrap(), hello);
    }
}
