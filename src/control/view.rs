//! What the cards show, as results of methods. Pure: cards and figures come in as arguments.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    path::Path,
    sync::{Arc, atomic::Ordering},
    time::SystemTime,
};

use serde_json::Value;

use super::methods::{AgentEntry, Agents, Entry, Node, Places, Prompt, Residency, Session, Tree};
use crate::{
    config::{Config, DEMO, Paths},
    directory::Card,
    event::cut,
    process::figures::{Process, Processes},
    store::{self, PromptRow, Row, Tally},
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

/// Cards of the live sessions, oldest first.
pub fn live(cards: &Cards) -> Vec<Arc<Card>> {
    cards.iter().filter(|card| card.kind == "session").cloned().collect()
}

/// What the store has of a session.
#[derive(Debug, Clone)]
pub struct Remembered {
    /// The session.
    pub row: Row,
    /// What its inbox holds.
    pub tally: Tally,
    /// What became of its last prompt.
    pub last_prompt: Option<PromptRow>,
}

/// One session, by what it says about itself while it lives and by what is remembered of it.
pub fn session(id: &str, card: Option<&Card>, remembered: Option<&Remembered>) -> Session {
    let row = remembered.map(|remembered| &remembered.row);
    let mut known: BTreeMap<String, Value> = row.map(row_facts).unwrap_or_default();
    known.extend(card.map(facts).unwrap_or_default());
    Session {
        id: id.to_owned(),
        state: if card.is_some() { "live" } else { "saved" },
        since: card.map(|card| time(card.since)),
        last_frame_ms: card.and_then(last_frame),
        created: row.map(|row| moment(row.created_ms)),
        updated: row.map(|row| moment(row.updated_ms)),
        inbox: remembered.map(|remembered| remembered.tally),
        last_prompt: remembered.and_then(|remembered| remembered.last_prompt.as_ref()).map(prompt),
        facts: known,
    }
}

fn row_facts(row: &Row) -> BTreeMap<String, Value> {
    let mut facts = BTreeMap::from([
        ("agent".to_owned(), row.agent.as_str().into()),
        ("cwd".to_owned(), row.cwd.to_string_lossy().into()),
    ]);
    let peer_session = serde_json::from_slice::<String>(&row.peer_session).ok();
    for (name, fact) in [("title", row.title.clone()), ("peer_session", peer_session)] {
        facts.extend(fact.map(|fact| (name.to_owned(), fact.into())));
    }
    facts
}

/// What became of a prompt.
pub fn prompt(row: &PromptRow) -> Prompt {
    Prompt {
        number: row.number,
        state: row.state.word(),
        source: row.source.clone(),
        outcome: row.outcome.clone(),
        taken: moment(row.taken_ms),
        ended: row.ended_ms.map(moment),
    }
}

/// A message in an inbox.
pub fn entry(entry: &store::Entry) -> Entry {
    Entry {
        entry: entry.id.clone(),
        state: entry.state.word(),
        source: entry.source.clone(),
        queued: moment(entry.queued_ms),
        attempt: entry.attempt,
        text: entry.text.clone(),
    }
}

/// The same with the beginning of what it says.
pub fn entry_in_short(stored: &store::Entry) -> Entry {
    Entry { text: cut(&stored.text), ..entry(stored) }
}

/// The part of the tree where a session lives: in its berth if that can be seen.
pub fn branch(cards: &Cards, id: &str, processes: &Processes) -> Option<Node> {
    let named = |kind: &str| cards.iter().find(|card| card.kind == kind && card.name == id);
    let top = named("berth").or_else(|| named("session"))?;
    Some(Forest::of(cards, processes).node(top))
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

/// The same of a time in milliseconds since the Unix epoch.
pub fn moment(ms: i64) -> String {
    let Ok(at) = jiff::Timestamp::from_millisecond(ms) else { return String::new() };
    format!("{at:.3}")
}

#[cfg(test)]
mod tests {
    use serde_json::{json, to_value};

    use super::*;
    use crate::{config::Agent, id::SessionId};

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
        let card = live(&house()).pop().unwrap();
        let shown = to_value(session("s1", Some(&card), None)).unwrap();
        assert_eq!(
            (&shown["id"], &shown["state"], &shown["stage"]),
            (&json!("s1"), &json!("live"), &json!("ready"))
        );
        assert_eq!((&shown["updated"], &shown["inbox"]), (&Value::Null, &Value::Null));
        let tree = to_value(branch(&house(), "s1", &Processes::default()).unwrap()).unwrap();
        assert_eq!((&tree["kind"], &tree["children"][0]["kind"]), (&json!("berth"), &json!("session")));
        assert!(branch(&house(), "s2", &Processes::default()).is_none());
    }

    /// R45, R280: a saved session is told by its row, and what a live one says of itself counts more.
    #[test]
    fn what_is_remembered_stands_beside_what_is_said() {
        let row = Row {
            id: SessionId::parse("s1").unwrap(),
            agent: "then".into(),
            cwd: "/w".into(),
            params: "{}".into(),
            peer_session: br#""p""#.to_vec(),
            title: Some("Mend it".into()),
            created_ms: 0,
            updated_ms: 1_000,
            parent: None,
            settings: store::Settings::default(),
        };
        let cut_off = PromptRow {
            number: 3,
            state: store::PromptState::Unknown,
            source: "host".into(),
            outcome: None,
            taken_ms: 0,
            ended_ms: None,
        };
        let tally = Tally { queued: 2, ..Tally::default() };
        let remembered = Remembered { row, tally, last_prompt: Some(cut_off) };
        let saved = to_value(session("s1", None, Some(&remembered))).unwrap();
        assert_eq!(saved["peer_session"], "p");
        assert_eq!(
            (&saved["state"], &saved["agent"], &saved["since"]),
            (&json!("saved"), &json!("then"), &Value::Null)
        );
        assert_eq!(
            (&saved["title"], &saved["updated"]),
            (&json!("Mend it"), &json!("1970-01-01T00:00:01.000Z"))
        );
        assert_eq!(
            (&saved["last_prompt"]["state"], &saved["inbox"]["queued"]),
            (&json!("unknown"), &json!(2))
        );
        let card = live(&house()).pop().unwrap();
        let alive = to_value(session("s1", Some(&card), Some(&remembered))).unwrap();
        assert_eq!(
            (&alive["state"], &alive["agent"], &alive["title"]),
            (&json!("live"), &json!("demo"), &json!("Mend it"))
        );
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
