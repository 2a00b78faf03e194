//! `acpvisor status`: how the daemon is.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::{
    Failure, Globals,
    ls::shown,
    operator::Operator,
    print,
    style::{self, Style, one_line},
    warn_of_other_config,
};

/// Arguments of `status`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Print one JSON value
    #[arg(long)]
    json: bool,
}

impl Args {
    pub fn run(self, globals: &Globals) -> Result<ExitCode, Failure> {
        let paths = globals.paths()?;
        let raw = Operator::connect(&paths)?.call("status", &json!({}))?;
        let status: Value = serde_json::from_str(raw.get()).unwrap_or_default();
        warn_of_other_config(&paths.config, &status);
        if self.json {
            print(&format!("{raw}\n"))?;
        } else {
            print(&told(&status, Style::of(&std::io::stdout())))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A headline, then whatever else the daemon says, a line each.
fn told(status: &Value, style: Style) -> String {
    let uptime = status["uptime_ms"].as_u64().map(|ms| format!(", up {}", style::span(ms)));
    let pid = status["pid"].as_u64().map(|pid| format!(", pid {pid}"));
    let headline = format!(
        "acpvisor {}{}{}",
        shown(&status["version"]),
        pid.unwrap_or_default(),
        uptime.unwrap_or_default()
    );
    let rest = status.as_object().into_iter().flatten();
    let rest: Vec<_> =
        rest.filter(|(name, _)| !matches!(name.as_str(), "version" | "pid" | "uptime_ms")).collect();
    let widest = rest.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text = style.bold(&headline) + "\n";
    for (name, value) in rest {
        let label = one_line(&name.replace('_', " "));
        match value.as_object().filter(|_| name == "paths") {
            // long each, and to be copied
            Some(paths) => {
                text.push_str(&format!("  {label}\n"));
                paths.iter().for_each(|path| text.push_str(&format!("    {}\n", pair(path))));
            }
            None => text.push_str(&format!("  {label:widest$}  {}\n", fact(value))),
        }
    }
    text
}

fn fact(value: &Value) -> String {
    match value {
        Value::Object(members) => members.iter().map(pair).collect::<Vec<_>>().join(", "),
        Value::Array(items) => items.iter().map(fact).collect::<Vec<_>>().join("; "),
        Value::Bool(false) => "no".to_owned(),
        Value::Null => "-".to_owned(),
        other => shown(other),
    }
}

fn pair((name, value): (&String, &Value)) -> String {
    format!("{} {}", one_line(name), fact(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R260: what the daemon says is shown, known to this version or not.
    #[test]
    fn everything_the_daemon_says_is_shown() {
        let status = json!({ "version": "0.1.0", "pid": 7, "uptime_ms": 61_000, "hosts": 2,
            "paths": { "config": "/c/config.toml", "logs_dir": "/s/logs" }, "residency": { "resident": 1, "reserved": 0, "max": 32 }, "of_tomorrow": null });
        let expected = "\
acpvisor 0.1.0, pid 7, up 1 min 1 s
  hosts        2
  paths
    config /c/config.toml
    logs_dir /s/logs
  residency    resident 1, reserved 0, max 32
  of tomorrow  -
";
        assert_eq!(told(&status, Style::default()), expected);
    }
}
