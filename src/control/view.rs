//! What the cards show, as results of methods. Pure: cards and figures come in as arguments.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    path::Path,
    sync::{Arc, atomic::Ordering},
    time::SystemTime,
};

use serde_json::Value;

use super::{
    figures::Processes,
    methods::{AgentEntry, Agents, Node, Places, Process, Residency, Session, Sessions, Shown, Tree},
};
use crate::{
    config::{Config, DEMO, Paths},
    directory::Card,
};

/// Kinds of actors that own a process, by the facts `pid` and `shim`.
const WITH_PROCESS: [&str; 2] = ["peer", "terminal"];

type Cards = [Arc<Card>];

/// How many cards are of that kind.
pub fn count(cards: &Cards, kind: &str) -> usize {
    cards.iter().filter(|card| card.kind == kind).count()
}

/// How full the daemon is, once somebody counts.
pub fn residency(cards: &Cards) -> Option<Residency> {
    let card = cards.iter().find(|card| card.kind == "residency")?;
    let figure = |key: &str| card.get(key)?.as_u64();
    Some(Residency { resident: figure("resident")?, reserved: figure("reserved")?, max: figure("max")? })
}

/// Where things lie.
pub fn places(paths: &Paths) -> Places {
    let text = |path: &Path| path.display().to_string();
    Places {
        config: text(&paths.config),
        runtime_dir: text(&paths.runtime_dir),
        state_dir: text(&paths.state_dir),
        host_socket: text(&paths.host_socket()),
        control_socket: text(&paths.control_socket()),
        logs_dir: text(&paths.logs_dir()),
    }
}

/// The agents that can be started; the built-in one is always there.
pub fn agents(config: &Config) -> Agents {
    let mut names: Vec<&str> = config.agent.keys().map(String::as_str).collect();
    if !names.contains(&DEMO) {
        names.push(DEMO);
    }
    let entry = |name: &str| {
        let agent = config.agent(name)?;
        Some(AgentEntry {
            name: name.to_owned(),
            command: agent.command.display().to_string(),
            args: agent.args,
            builtin: name == DEMO && !config.agent.contains_key(DEMO),
            default: name == config.default_agent,
        })
    };
    Agents { agents: names.into_iter().filter_map(entry).collect() }
}

/// The live sessions.
pub fn sessions(cards: &Cards) -> Sessions {
    let sessions = cards.iter().filter(|card| card.kind == "session").map(|card| session(card));
    Sessions { sessions: sessions.collect() }
}

fn session(card: &Card) -> Session {
    Session {
        id: card.name.clone(),
        since: time(card.since),
        last_frame_ms: last_frame(card),
        facts: facts(card),
    }
}

/// One session, in its berth if that can be seen.
pub fn shown(cards: &Cards, id: &str, processes: &Processes) -> Option<Shown> {
    let named = |kind: &str| cards.iter().find(|card| card.kind == kind && card.name == id);
    let card = named("session")?;
    let top = named("berth").unwrap_or(card);
    let tree = Forest::of(cards, processes).node(top);
    Some(Shown { session: session(card), tree })
}

/// The supervision tree (R259).
pub fn tree(cards: &Cards, processes: &Processes) -> Tree {
    let known: HashSet<String> = cards.iter().map(|card| card.path()).collect();
    let mut forest = Forest::of(cards, processes);
    let roots = cards.iter().filter(|card| !known.contains(&card.parent));
    Tree { roots: roots.map(|card| forest.node(card)).collect() }
}

/// Cards by their parents. A family is taken out when it is shown, so that none is shown twice.
struct Forest<'a> {
    families: HashMap<&'a str, Vec<&'a Arc<Card>>>,
    processes: &'a Processes,
}

impl<'a> Forest<'a> {
    fn of(cards: &'a Cards, processes: &'a Processes) -> Self {
        let mut families: HashMap<&str, Vec<&Arc<Card>>> = HashMap::new();
        for card in cards {
            families.entry(&card.parent).or_default().push(card);
        }
        Self { families, processes }
    }

    fn node(&mut self, card: &Card) -> Node {
        let family = self.families.remove(card.path().as_str()).unwrap_or_default();
        Node {
            kind: card.kind.to_owned(),
            name: card.name.clone(),
            since: time(card.since),
            restarts: card.restarts.load(Ordering::Relaxed),
            last_frame_ms: last_frame(card),
            facts: facts(card),
            process: self.process(card),
            children: family.into_iter().map(|child| self.node(child)).collect(),
        }
    }

    fn process(&self, card: &Card) -> Option<Option<Process>> {
        let number = |key: &str| card.get(key)?.as_i64()?.try_into().ok();
        let pid = number("pid").filter(|_| WITH_PROCESS.contains(&card.kind))?;
        Some(self.processes.figures(pid, number("shim")))
    }
}

fn facts(card: &Card) -> BTreeMap<String, Value> {
    card.facts().into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn last_frame(card: &Card) -> Option<u64> {
    Some(card.last_frame_ms.load(Ordering::Relaxed)).filter(|at| *at > 0)
}

/// A time as RFC 3339, to the millisecond.
pub fn time(at: SystemTime) -> String {
    let Ok(at) = jiff::Timestamp::try_from(at) else { return String::new() };
    format!("{at:.3}")
}

#[cfg(test)]
mod tests {
    use serde_json::{json, to_value};

    use super::*;
    use crate::config::Agent;

    fn card(kind: &'static str, name: &str, parent: &str, facts: &[(&'static str, Value)]) -> Arc<Card> {
        let card = Card::new(kind, name, parent);
        for (key, value) in facts {
            card.set(key, value.clone());
        }
        card
    }

    fn house() -> Vec<Arc<Card>> {
        let me = std::process::id();
        vec![
            card("root", "", "", &[]),
            card(
                "residency",
                "",
                "root",
                &[("resident", 1.into()), ("reserved", 0.into()), ("max", 32.into())],
            ),
            card("berths", "", "root", &[]),
            card("berth", "s1", "berths", &[]),
            card("session", "s1", "berth/s1", &[("agent", "demo".into()), ("stage", "ready".into())]),
            card("peer", "s1/1", "session/s1", &[("pid", me.into())]),
            card("peer", "s1/2", "session/s1", &[("pid", i32::MAX.into())]),
            card("host", "1", "listener/host", &[("pid", me.into())]),
        ]
    }

    /// R259: everybody stands below its parent, a peer with its process, an orphan at the top.
    #[test]
    fn the_tree_is_nested_as_it_is_supervised() {
        let tree = to_value(tree(&house(), &Processes::read())).unwrap();
        let paths: Vec<_> =
            tree["roots"].as_array().unwrap().iter().map(|node| node["kind"].clone()).collect();
        assert_eq!(paths, ["root", "host"]);
        let session = &tree["roots"][0]["children"][1]["children"][0]["children"][0];
        assert_eq!((&session["kind"], &session["name"]), (&json!("session"), &json!("s1")));
        assert_eq!(session["facts"]["agent"], "demo");
        assert!(session["children"][0]["process"]["rss_bytes"].as_u64().unwrap() > 0);
        assert_eq!(
            session["children"][1].get("process"),
            Some(&Value::Null),
            "a process that is gone is told of"
        );
        assert_eq!(tree["roots"][1].get("process"), None, "a host's process is not ours");
    }

    #[test]
    fn a_session_is_shown_in_its_berth_with_its_facts_beside_its_id() {
        let shown = to_value(shown(&house(), "s1", &Processes::default()).unwrap()).unwrap();
        assert_eq!((&shown["session"]["id"], &shown["session"]["stage"]), (&json!("s1"), &json!("ready")));
        assert_eq!(
            (&shown["tree"]["kind"], &shown["tree"]["children"][0]["kind"]),
            (&json!("berth"), &json!("session"))
        );
        assert!(super::shown(&house(), "s2", &Processes::default()).is_none());
        assert_eq!(sessions(&house()).sessions.len(), 1);
    }

    #[test]
    fn figures_are_counted_from_the_cards() {
        let residency = residency(&house()).unwrap();
        assert_eq!((residency.resident, residency.reserved, residency.max), (1, 0, 32));
        assert_eq!((count(&house(), "host"), count(&house(), "peer")), (1, 2));
        assert!(super::residency(&[]).is_none());
    }

    #[test]
    fn the_built_in_agent_is_always_there() {
        let mut config = Config::default();
        let entry = &agents(&config).agents[0];
        assert!(entry.name == "demo" && entry.builtin && entry.default);
        config.agent.insert("demo".into(), Agent { command: "/my/demo".into(), ..Agent::demo() });
        config.agent.insert("a".into(), Agent { command: "a".into(), ..Agent::demo() });
        let all = agents(&config).agents;
        assert_eq!(
            all.iter().map(|entry| (entry.name.as_str(), entry.builtin)).collect::<Vec<_>>(),
            [("a", false), ("demo", false)]
        );
    }

    #[test]
    fn a_time_is_told_in_utc() {
        assert_eq!(time(SystemTime::UNIX_EPOCH), "1970-01-01T00:00:00.000Z");
    }
}
