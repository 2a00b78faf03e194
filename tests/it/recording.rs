//! Recordings of real agents: one line a record, in the order of the wire. Pure but for reading the file.
//!
//! A message stays the text it was written in, so that number spelling, key order and escapes can be compared.

use std::{collections::HashMap, fs, path::Path};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// One file.
pub struct Recording {
    /// The agent processes in it, in the order of their starts.
    pub processes: Vec<Process>,
}

/// One run of an agent: one wire.
#[derive(Default)]
pub struct Process {
    cwd: String,
    epoch: f64,
    /// What passed on its wire.
    pub records: Vec<Record>,
}

/// One record of a wire.
pub enum Record {
    /// A message of the host.
    Host(Message),
    /// A line of the host that is no message.
    Junk(String),
    /// A message of the agent.
    Agent(Message),
    /// The agent says nothing more.
    Ended,
}

/// One message, as it was written.
#[derive(Clone, Debug)]
pub struct Message(pub String);

#[derive(Deserialize)]
struct Entry<'a> {
    t: f64,
    dir: String,
    #[serde(borrow)]
    msg: Option<&'a RawValue>,
    raw: Option<String>,
    ev: Option<String>,
    of: Option<String>,
    #[serde(default)]
    cwd: String,
    #[serde(default)]
    epoch: f64,
}

impl Recording {
    /// Reads a file; the directory that the agent worked in becomes `cwd` wherever it is named.
    pub fn read(path: &Path, cwd: &str) -> Self {
        let mut text = fs::read_to_string(path).unwrap();
        let recorded = text.lines().find_map(|line| Some(entry(line).cwd).filter(|cwd| !cwd.is_empty()));
        if let Some(recorded) = recorded {
            text = text.replace(&recorded, cwd);
        }
        let mut sorter = Sorter::default();
        text.lines().for_each(|line| sorter.take(entry(line)));
        Self { processes: sorter.processes }
    }

    /// All records of all processes.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.processes.iter().flat_map(|process| &process.records)
    }
}

impl Process {
    /// The directory it worked in.
    pub fn cwd(&self) -> &str {
        &self.cwd
    }

    /// The first request of that method.
    pub fn asked(&self, method: &str) -> Option<&Message> {
        self.records.iter().filter_map(Record::of_host).find(|m| m.method().as_deref() == Some(method))
    }

    /// The request of that id.
    pub fn request(&self, id: &str) -> Option<&Message> {
        let mut host = self.records.iter().filter_map(Record::of_host);
        host.find(|m| m.method().is_some() && m.id().as_deref() == Some(id))
    }

    /// The answer to it, if there was one.
    pub fn answer_to(&self, method: &str) -> Option<&Message> {
        self.answer(&self.asked(method)?.id()?)
    }

    /// The answer to the request of that id, if there was one.
    pub fn answer(&self, id: &str) -> Option<&Message> {
        self.records.iter().filter_map(Record::of_agent).find(|m| m.answers(id))
    }

    /// Whether the host prompts that session.
    pub fn prompts(&self, session: &str) -> bool {
        let mut host = self.records.iter().filter_map(Record::of_host);
        host.any(|m| {
            m.method().as_deref() == Some("session/prompt") && m.session().as_deref() == Some(session)
        })
    }

    /// What the agent said between the request of that id and its answer.
    pub fn said_until_answer(&self, id: &str) -> impl Iterator<Item = &Message> {
        let asks = |m: &Message| m.method().is_some() && m.id().as_deref() == Some(id);
        let from = self.records.iter().position(|record| record.of_host().is_some_and(asks));
        let later = self.records.iter().skip(from.unwrap_or(self.records.len()));
        later.filter_map(Record::of_agent).take_while(move |m| !m.answers(id))
    }
}

impl Record {
    /// The host's message, if it is one.
    pub fn of_host(&self) -> Option<&Message> {
        if let Self::Host(message) = self { Some(message) } else { None }
    }

    /// The agent's message, if it is one.
    pub fn of_agent(&self) -> Option<&Message> {
        if let Self::Agent(message) = self { Some(message) } else { None }
    }
}

fn entry(line: &str) -> Entry<'_> {
    serde_json::from_str(line).unwrap_or_else(|e| panic!("no record: {e}: {}", &line[..line.len().min(200)]))
}

/// Tells apart the processes of one file: their records are mixed, but each has a clock of its own.
#[derive(Default)]
struct Sorter {
    processes: Vec<Process>,
    live: Vec<usize>,
    now: f64,
}

impl Sorter {
    fn take(&mut self, entry: Entry<'_>) {
        if entry.ev.as_deref() == Some("exec") {
            self.live.push(self.processes.len());
            self.now = entry.epoch + entry.t;
            self.processes.push(Process { cwd: entry.cwd, epoch: entry.epoch, records: Vec::new() });
            return;
        }
        let Some(at) = self.whose(entry.t) else { return };
        self.now = self.processes[at].epoch + entry.t;
        let ends = matches!(entry.ev.as_deref(), Some("exit" | "death"));
        if ends {
            self.live.retain(|live| *live != at);
        }
        let records = &mut self.processes[at].records;
        if ends || (entry.ev.as_deref(), entry.of.as_deref()) == (Some("eof"), Some("a2c")) {
            records.push(Record::Ended);
        }
        let message = entry.msg.map(|raw| Message(raw.get().to_owned()));
        match (entry.dir.as_str(), message, entry.raw) {
            ("c2a", Some(message), _) => records.push(Record::Host(message)),
            ("c2a", None, Some(raw)) => records.push(Record::Junk(raw)),
            ("a2c", Some(message), _) => records.push(Record::Agent(message)),
            ("a2c", None, Some(raw)) => panic!("an agent said {raw:?}, which this player cannot play"),
            _ => {}
        }
    }

    /// The live process whose clock is nearest.
    fn whose(&self, t: f64) -> Option<usize> {
        let away = |at: &usize| (self.processes[*at].epoch + t - self.now).abs();
        self.live.iter().copied().min_by(|a, b| away(a).total_cmp(&away(b)))
    }
}

impl Message {
    /// The id as it is written.
    pub fn id(&self) -> Option<String> {
        self.member("id")
    }

    /// The method.
    pub fn method(&self) -> Option<String> {
        Members::of(&self.0)?.string("method")
    }

    /// A member at the top, as it is written.
    pub fn member(&self, name: &str) -> Option<String> {
        Some(Members::of(&self.0)?.get(name)?.to_owned())
    }

    /// All of it, as a reader of JSON has it; nothing of what is none.
    pub fn value(&self) -> serde_json::Value {
        serde_json::from_str(&self.0).unwrap_or_default()
    }

    /// A string in `params` or in `result`.
    pub fn inner(&self, member: &str, name: &str) -> Option<String> {
        Members::of(Members::of(&self.0)?.get(member)?)?.string(name)
    }

    /// The session that it names.
    pub fn session(&self) -> Option<String> {
        self.inner("params", "sessionId")
    }

    /// Whether it is the answer to the request of that id.
    pub fn answers(&self, id: &str) -> bool {
        self.method().is_none() && self.id().as_deref() == Some(id)
    }

    /// Whether it is an answer with a result.
    pub fn succeeds(&self) -> bool {
        self.member("result").is_some()
    }

    /// The same with another id, where one is given, and its session ids replaced.
    pub fn translated(&self, id: Option<&str>, sessions: &HashMap<String, String>) -> String {
        let Some(members) = Members::of(&self.0) else { return self.0.clone() };
        let named = ["params", "result"].iter().filter_map(|name| Members::of(members.get(name)?));
        let ours: Vec<(&str, String)> = named
            .filter_map(|inner| {
                let new = sessions.get(&inner.string("sessionId")?)?;
                Some((inner.get("sessionId")?, serde_json::to_string(new).ok()?))
            })
            .collect();
        let id = members.get("id").zip(id);
        let mut edits: Vec<(&str, &str)> = ours.iter().map(|(old, new)| (*old, new.as_str())).collect();
        edits.extend(id);
        spliced(&self.0, edits)
    }
}

/// The text with pieces of it replaced; every other byte stays.
fn spliced<'a>(text: &'a str, edits: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let start = |piece: &str| piece.as_ptr().addr() - text.as_ptr().addr();
    let mut edits: Vec<(&str, &str)> = edits.into_iter().collect();
    edits.sort_by_key(|(old, _)| start(old));
    let mut out = String::with_capacity(text.len() + 64);
    let mut done = 0;
    for (old, new) in edits {
        out.push_str(&text[done..start(old)]);
        out.push_str(new);
        done = start(old) + old.len();
    }
    out + &text[done..]
}

/// The members of an object in their order, as they are written.
pub struct Members<'a>(pub Vec<(String, &'a RawValue)>);

impl<'a> Members<'a> {
    /// Of a text that is an object.
    pub fn of(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// A member as it is written.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, raw)| raw.get())
    }

    /// A member that is a string.
    pub fn string(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.get(name)?).ok()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(members)
            }
        }
        from.deserialize_map(Each).map(Members)
    }
}

#[test]
fn a_message_is_translated_and_otherwise_left_alone() {
    let message = Message(r#"{"params":{"n": 1.50, "sessionId":"a", "x": ["a"]}, "id": 1}"#.to_owned());
    let sessions = HashMap::from([("a".to_owned(), "b".to_owned())]);
    assert_eq!(
        message.translated(Some("\"z\""), &sessions),
        r#"{"params":{"n": 1.50, "sessionId":"b", "x": ["a"]}, "id": "z"}"#
    );
    assert_eq!(message.translated(None, &HashMap::new()), message.0);
}

#[test]
fn mixed_processes_are_told_apart_by_their_clocks() {
    let mut sorter = Sorter::default();
    for line in [
        r#"{"t":0,"dir":"ev","ev":"exec","cwd":"/a","epoch":100.0}"#,
        r#"{"t":9.0,"dir":"c2a","msg":{"id":1}}"#,
        r#"{"t":0,"dir":"ev","ev":"exec","cwd":"/a","epoch":110.0}"#,
        r#"{"t":1.0,"dir":"a2c","msg":{"id":2}}"#,
        r#"{"t":12.0,"dir":"a2c","msg":{"id":3}}"#,
        r#"{"t":3.0,"dir":"ev","ev":"exit"}"#,
        r#"{"t":20.0,"dir":"ev","ev":"eof","of":"a2c"}"#,
    ] {
        sorter.take(entry(line));
    }
    let counts: Vec<usize> = sorter.processes.iter().map(|p| p.records.len()).collect();
    assert_eq!(counts, [3, 2]);
}
