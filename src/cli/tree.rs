//! `acpvisor tree`: every actor and process, as the daemon supervises them (R259).

use std::process::ExitCode;

use serde_json::{Map, Value};

use super::{
    Failure, Globals,
    ls::shown,
    operator,
    style::{self, Style},
    table::Table,
};

/// Arguments of `tree`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Print one JSON value
    #[arg(long)]
    json: bool,
}

impl Args {
    pub fn run(self, globals: &Globals) -> Result<ExitCode, Failure> {
        operator::show(globals, "tree", self.json, drawn)
    }
}

pub(super) fn drawn(tree: &Value, now_ms: u64, style: Style) -> String {
    let mut drawing = Drawing { table: Table::new(&COLUMNS), now_ms };
    for root in tree["roots"].as_array().into_iter().flatten() {
        drawing.node(root, "", "");
    }
    drawing.table.render(style)
}

const COLUMNS: [&str; 9] =
    ["ACTOR", "SINCE", "RESTARTS", "PID", "PROCESSES", "RSS", "CPU", "LAST FRAME", "FACTS"];

struct Drawing {
    table: Table,
    now_ms: u64,
}

impl Drawing {
    /// `lead` stands before the node itself, `below` before everything under it.
    fn node(&mut self, node: &Value, lead: &str, below: &str) {
        let number = |value: &Value| value.as_u64().filter(|n| *n > 0);
        let count = |value: &Value| number(value).map(|n| n.to_string()).unwrap_or_default();
        let ago = |then: Option<u64>| then.map(|then| style::since(then, self.now_ms)).unwrap_or_default();
        let (process, below_it) = (&node["process"], &node["process"]["subtree"]);
        self.table.row(vec![
            format!("{lead}{}", name(node)),
            ago(node["since"].as_str().and_then(style::moment)),
            count(&node["restarts"]),
            count(&process["pid"]),
            count(&below_it["processes"]),
            number(&below_it["rss_bytes"]).map(style::size).unwrap_or_default(),
            number(&below_it["cpu_ms"]).map(style::span).unwrap_or_default(),
            ago(number(&node["last_frame_ms"])),
            node["facts"].as_object().map(facts).unwrap_or_default(),
        ]);
        let children = node["children"].as_array().map(Vec::as_slice).unwrap_or_default();
        for (index, child) in children.iter().enumerate() {
            let (branch, trunk) =
                if index + 1 < children.len() { ("├─ ", "│  ") } else { ("└─ ", "   ") };
            self.node(child, &format!("{below}{branch}"), &format!("{below}{trunk}"));
        }
    }
}

fn name(node: &Value) -> String {
    let (kind, name) = (shown(&node["kind"]), shown(&node["name"]));
    if name.is_empty() { kind } else { format!("{kind}/{name}") }
}

fn facts(facts: &Map<String, Value>) -> String {
    let known = facts.iter().map(|(key, value)| (style::one_line(key), shown(value)));
    let pairs = known.filter(|(_, value)| !value.is_empty()).map(|(key, value)| format!("{key}={value}"));
    pairs.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// R259: the tree is drawn as it is, with what is known of every actor.
    #[test]
    fn the_tree_is_drawn_with_its_branches() {
        let process = json!({ "pid": 7, "pgid": 7, "rss_bytes": 1, "cpu_ms": 1,
            "subtree": { "processes": 3, "rss_bytes": 4096, "cpu_ms": 2_000 } });
        let peer = json!({ "kind": "peer", "name": "s1.1", "process": process, "last_frame_ms": 9_000,
            "facts": { "agent": "demo", "idle": false } });
        let session = json!({ "kind": "session", "name": "s1", "restarts": 2, "children": [peer] });
        let root = json!({ "kind": "root", "since": "1970-01-01T00:00:01.000Z", "children": [
            { "kind": "berths", "children": [session] },
            { "kind": "listener", "name": "host" },
        ]});
        let tree = json!({ "roots": [root] });
        let expected = "\
ACTOR               SINCE  RESTARTS  PID  PROCESSES  RSS    CPU  LAST FRAME  FACTS
root                9 s
├─ berths
│  └─ session/s1           2
│     └─ peer/s1.1                   7    3          4 KiB  2 s  1 s         agent=demo
└─ listener/host
";
        assert_eq!(drawn(&tree, 10_000, Style::default()), expected);
    }
}
