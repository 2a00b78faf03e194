//! A small house for operators to come to.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use ractor::{Actor, ActorProcessingErr, ActorRef};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
    sync::{Semaphore, mpsc, oneshot},
    time::timeout,
};

use super::super::{
    Arguments,
    operator::{Connection, Operator},
    service::Service,
};
use crate::{
    berth,
    config::{Config, Paths},
    directory::{Card, Directory, Listing},
    id::{Address, SessionId},
    socket::{Door, Visitor},
    store::{self, Ack, Entry, EntryState, Kind, Op, Reader, Row, Settings, Store, Write},
    wire::{
        credit::Credit,
        letter::{Letter, Word},
    },
};

const DEADLINE: Duration = Duration::from_secs(10);

pub async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(DEADLINE, future).await.expect("nothing happened for ten seconds")
}

/// Takes the letters of one address and hands them to the test.
struct Ear;

impl Actor for Ear {
    type Msg = Letter;
    type State = mpsc::UnboundedSender<Word>;
    type Arguments = Self::State;

    async fn pre_start(
        &self,
        _: ActorRef<Letter>,
        words: Self::State,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(words)
    }

    async fn handle(
        &self,
        _: ActorRef<Letter>,
        letter: Letter,
        words: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        if let Letter::Word { word, .. } = letter {
            let _ = words.send(word);
        }
        Ok(())
    }
}

/// Takes what is asked of the berths, but for words.
struct Quay;

impl Actor for Quay {
    type Msg = berth::Msg;
    type State = mpsc::UnboundedSender<berth::Msg>;
    type Arguments = Self::State;

    async fn pre_start(
        &self,
        _: ActorRef<berth::Msg>,
        asked: Self::State,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(asked)
    }

    async fn handle(
        &self,
        _: ActorRef<berth::Msg>,
        msg: berth::Msg,
        asked: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let _ = asked.send(msg);
        Ok(())
    }
}

/// A root, berths and the session `s1` with a peer, as far as the directory can tell; a store of its own, where
/// nothing lies yet.
pub struct House {
    pub directory: Directory,
    pub config: Config,
    pub words: mpsc::UnboundedReceiver<Word>,
    pub asked: mpsc::UnboundedReceiver<berth::Msg>,
    pub store: ActorRef<store::Msg>,
    pub reader: Reader,
    berths: ActorRef<berth::Msg>,
    _listings: Vec<Listing>,
    _dir: tempfile::TempDir,
}

impl House {
    pub async fn build() -> Self {
        let directory = Directory::default();
        let (sender, words) = mpsc::unbounded_channel();
        let mut listings = Vec::new();
        let session = SessionId::parse("s1").unwrap();
        for (address, kind, name, parent) in [
            (Address::Root, "root", "", ""),
            (Address::Berths, "berths", "", "root"),
            (Address::Session(session), "session", "s1", "berths"),
        ] {
            let (ear, _) = Actor::spawn(None, Ear, sender.clone()).await.unwrap();
            listings.push(directory.enter(address, ear.get_derived(), Card::new(kind, name, parent)));
        }
        let peer = Card::new("peer", "s1/1", "session/s1");
        peer.set("pid", std::process::id());
        listings.push(directory.list(peer));
        let residency = Card::new("residency", "", "root");
        for (key, figure) in [("resident", 1), ("reserved", 0), ("max", 32)] {
            residency.set(key, figure);
        }
        listings.push(directory.list(residency));
        let dir = tempfile::tempdir().unwrap();
        let opened = store::open(dir.path()).unwrap();
        let reader = opened.reader.clone();
        let (store, _) = Actor::spawn(None, Store, (directory.clone(), opened)).await.unwrap();
        let (sender, asked) = mpsc::unbounded_channel();
        let (berths, _) = Actor::spawn(None, Quay, sender).await.unwrap();
        let config = Config::default();
        Self { directory, config, words, asked, store, reader, berths, _listings: listings, _dir: dir }
    }

    /// Puts a session into the store, with what was done in it, and waits until it lies there.
    pub async fn save(&self, id: &str, more: Vec<Op>) {
        let session = SessionId::parse(id).unwrap();
        let row = Row {
            id: session.clone(),
            agent: "demo".into(),
            cwd: "/w".into(),
            params: "{}".into(),
            peer_session: br#""p""#.to_vec(),
            title: None,
            created_ms: 0,
            updated_ms: 0,
            parent: None,
            settings: Settings::default(),
        };
        self.write(&session, vec![Op::Create(Box::new(row))]).await;
        self.write(&session, more).await;
    }

    /// Writes something, and waits until it lies there.
    pub async fn write(&self, session: &SessionId, ops: Vec<Op>) {
        let (told, outcome) = oneshot::channel();
        let ack = Ack::new(move |outcome| drop(told.send(outcome)));
        let (session, ops) = (session.clone(), ops.into());
        let write = Write { session, ops, sync: false, credit: Credit::none(), ack: Some(ack) };
        self.store.cast(store::Msg::Write(write)).unwrap();
        soon(outcome).await.unwrap().unwrap();
    }

    pub async fn word(&mut self) -> Word {
        soon(self.words.recv()).await.unwrap()
    }

    pub fn service(&self) -> Arc<Service> {
        Arc::new(Service {
            directory: self.directory.clone(),
            config: Arc::new(self.config.clone()),
            paths: paths(),
            started: Instant::now(),
            store: self.store.clone(),
            reader: self.reader.clone(),
            berths: self.berths.clone(),
        })
    }

    /// What a listener on that socket is started with.
    pub fn arguments(&self, listener: std::os::unix::net::UnixListener, door: Door) -> Arguments {
        Arguments {
            listener,
            door,
            directory: self.directory.clone(),
            config: Arc::new(self.config.clone()),
            paths: paths(),
            started: Instant::now(),
            store: self.store.clone(),
            reader: self.reader.clone(),
            berths: self.berths.clone(),
        }
    }

    pub async fn operator(&self) -> Client {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let place = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let (number, visitor) = (1, Visitor { pid: 1 });
        let connection = Connection { number, stream: theirs, visitor, place, service: self.service() };
        Actor::spawn(None, Operator, connection).await.unwrap();
        Client(BufReader::new(ours))
    }
}

fn paths() -> Paths {
    Paths { config: "/c/config.toml".into(), runtime_dir: "/r".into(), state_dir: "/s".into() }
}

/// The operator's end of a connection.
pub struct Client(pub BufReader<UnixStream>);

impl Client {
    pub async fn connect(path: &std::path::Path) -> Self {
        Self(BufReader::new(UnixStream::connect(path).await.unwrap()))
    }

    pub async fn write(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    pub async fn read(&mut self) -> Option<Value> {
        let mut line = String::new();
        // A reset is an end too.
        let read = soon(self.0.read_line(&mut line)).await.unwrap_or(0);
        (read > 0).then(|| serde_json::from_str(&line).unwrap())
    }

    pub async fn call(&mut self, method: &str, params: Value) -> Value {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.write(&format!("{request}\n")).await;
        self.read().await.unwrap()
    }
}

/// A message for an inbox.
pub fn message(id: &str) -> Op {
    Op::Enqueue(Entry {
        id: id.to_owned(),
        source: "user".to_owned(),
        text: format!("do {id}"),
        queued_ms: 0,
        state: EntryState::Queued,
        attempt: 0,
    })
}

/// Lines of a conversation.
pub fn lines(kind: Kind, lines: &[Value]) -> Op {
    Op::Frames(kind, lines.iter().map(|line| line.to_string().into()).collect())
}

/// A piece of what the agent says.
pub fn chunk(text: &str) -> Value {
    let update =
        json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } });
    json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": "p", "update": update } })
}
