//! Operators against a directory with a small house in it.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use ractor::{Actor, ActorProcessingErr, ActorRef};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
    sync::{Semaphore, mpsc},
    task::JoinHandle,
    time::timeout,
};

use super::{
    Arguments, Listener, Message,
    operator::{Connection, Operator},
    service::Service,
};
use crate::{
    config::{Config, Paths},
    directory::{Card, Directory, Listing},
    id::{Address, SessionId},
    socket::{Door, Refused, Visitor, admit},
    wire::letter::{Letter, Word},
};

const DEADLINE: Duration = Duration::from_secs(10);

async fn soon<T>(future: impl Future<Output = T>) -> T {
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

/// A root, berths and the session `s1` with a peer, as far as the directory can tell.
struct House {
    directory: Directory,
    words: mpsc::UnboundedReceiver<Word>,
    _listings: Vec<Listing>,
}

impl House {
    async fn build() -> Self {
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
        Self { directory, words, _listings: listings }
    }

    async fn word(&mut self) -> Word {
        soon(self.words.recv()).await.unwrap()
    }

    fn service(&self) -> Arc<Service> {
        let (directory, config) = (self.directory.clone(), Arc::default());
        Arc::new(Service { directory, config, paths: paths(), started: Instant::now() })
    }

    async fn operator(&self) -> Client {
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
struct Client(BufReader<UnixStream>);

impl Client {
    async fn connect(path: &std::path::Path) -> Self {
        Self(BufReader::new(UnixStream::connect(path).await.unwrap()))
    }

    async fn write(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    async fn read(&mut self) -> Option<Value> {
        let mut line = String::new();
        // A reset is an end too.
        let read = soon(self.0.read_line(&mut line)).await.unwrap_or(0);
        (read > 0).then(|| serde_json::from_str(&line).unwrap())
    }

    async fn call(&mut self, method: &str, params: Value) -> Value {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.write(&format!("{request}\n")).await;
        self.read().await.unwrap()
    }
}

/// R257, R238: requests are answered in their order, and what is none by its code.
#[tokio::test]
async fn requests_are_answered_in_their_order() {
    let house = House::build().await;
    let mut client = house.operator().await;
    let lines = [
        r#"{"jsonrpc":"2.0","id":"a","method":"tree"}"#,
        "\r",
        "not json",
        r#"{"jsonrpc":"2.0","method":"status"}"#,
        r#"[{"jsonrpc":"2.0","id":2,"method":"status"}]"#,
        r#"{"jsonrpc":"2.0","id":3,"method":"nope"}"#,
        r#"{"jsonrpc":"2.0","id":4,"method":"sessions.show","params":{"ID":"s1"}}"#,
        r#"{"jsonrpc":"2.0","id":null,"method":"status"}"#,
    ];
    client.write(&(lines.join("\n") + "\n")).await;
    let mut seen = Vec::new();
    for _ in 0..6 {
        let answer = client.read().await.unwrap();
        seen.push((answer["id"].clone(), answer["error"]["code"].as_i64()));
    }
    let codes = [None, Some(-32700), Some(-32600), Some(-32601), Some(-32602), None];
    let ids = [json!("a"), Value::Null, Value::Null, json!(3), json!(4), Value::Null];
    assert_eq!(seen, ids.into_iter().zip(codes).collect::<Vec<_>>());
}

/// R246: the figures are those of the cards.
#[tokio::test]
async fn status_tells_how_the_daemon_is() {
    let house = House::build().await;
    let status = house.operator().await.call("status", Value::Null).await["result"].clone();
    assert_eq!(
        (&status["pid"], &status["sessions"], &status["hosts"]),
        (&json!(std::process::id()), &json!(1), &json!(0))
    );
    assert_eq!(status["residency"], json!({ "resident": 1, "reserved": 0, "max": 32 }));
    assert_eq!(status["paths"]["control_socket"], "/r/control.sock");
    assert!(status["uptime_ms"].is_u64() && status["started"].as_str().unwrap().ends_with('Z'));
}

/// R257: the reference page describes every member of every result.
#[tokio::test]
async fn the_reference_page_has_every_member() {
    let house = House::build().await;
    let mut client = house.operator().await;
    let page = include_str!("../../docs/control.md");
    for (method, params) in [
        ("status", Value::Null),
        ("tree", Value::Null),
        ("agents", Value::Null),
        ("sessions.list", Value::Null),
        ("sessions.show", json!({ "id": "s1" })),
    ] {
        let result = client.call(method, params).await["result"].take();
        let section =
            page.split("\n## ").find(|section| section.starts_with(&format!("`{method}`"))).unwrap();
        let described = |key: &&str| section.contains(&format!("`{key}`"));
        let all = if method == "sessions.show" { top(&result) } else { keys(&result) };
        let missing: Vec<_> = all.iter().map(String::as_str).filter(|key| !described(key)).collect();
        assert!(missing.is_empty(), "{method}: {missing:?}");
    }
}

fn top(value: &Value) -> BTreeSet<String> {
    value.as_object().unwrap().keys().cloned().collect()
}

/// All names of members, but for what actors say about themselves.
fn keys(value: &Value) -> BTreeSet<String> {
    match value {
        Value::Array(items) => items.iter().flat_map(keys).collect(),
        Value::Object(members) => {
            let below = members.iter().filter(|(key, _)| *key != "facts").flat_map(|(_, value)| keys(value));
            below.chain(members.keys().cloned()).collect()
        }
        _ => BTreeSet::new(),
    }
}

#[tokio::test]
async fn a_cancel_reaches_its_session_and_no_other() {
    let mut house = House::build().await;
    let mut client = house.operator().await;
    assert_eq!(client.call("sessions.cancel", json!({ "id": "s1" })).await["result"], json!({}));
    assert!(matches!(house.word().await, Word::Cancel));
    for method in ["sessions.cancel", "sessions.close", "sessions.kill", "sessions.show"] {
        for id in ["s2", "../s1"] {
            let error = client.call(method, json!({ "id": id })).await["error"].take();
            assert_eq!(
                (&error["code"], &error["data"]["sessionId"]),
                (&json!(-32002), &json!(id)),
                "{method}"
            );
        }
    }
}

/// R257: an order is answered when it is carried out, and with the reason when it is not.
#[tokio::test]
async fn a_close_is_answered_when_the_session_is_gone() {
    let mut house = House::build().await;
    let mut client = house.operator().await;
    let request = |method: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"sessions.{method}","params":{{"id":"s1"}}}}"#) + "\n"
    };

    client.write(&request("close")).await;
    let Word::Close(session, done) = house.word().await else { panic!("no close") };
    assert_eq!(session.as_str(), "s1");
    done.send(Ok(())).unwrap();
    assert_eq!(client.read().await.unwrap()["result"], json!({}));

    client.write(&request("kill")).await;
    let Word::Kill(_, done) = house.word().await else { panic!("no kill") };
    done.send(Err("it would not die".to_owned())).unwrap();
    assert_eq!(
        client.read().await.unwrap()["error"],
        json!({ "code": -32603, "message": "it would not die" })
    );

    client.write(&request("close")).await;
    drop(house.word().await);
    assert_eq!(client.read().await.unwrap()["error"]["code"], -32603);
}

#[tokio::test]
async fn a_shutdown_is_answered_before_it_begins() {
    let mut house = House::build().await;
    let mut client = house.operator().await;
    assert_eq!(client.call("shutdown", Value::Null).await["result"], json!({}));
    let Word::Stop(done) = house.word().await else { panic!("no stop") };
    done.send(Ok(())).unwrap();
}

#[tokio::test]
async fn a_request_without_end_is_refused_and_the_connection_ends() {
    let house = House::build().await;
    let client = house.operator().await;
    let (mut read, mut write) = client.0.into_inner().into_split();
    let flood = tokio::spawn(async move {
        let block = vec![b'x'; 1 << 16];
        while write.write_all(&block).await.is_ok() {}
    });
    let mut line = String::new();
    soon(BufReader::new(&mut read).read_line(&mut line)).await.unwrap();
    assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["error"]["code"], -32600);
    soon(flood).await.unwrap();
}

/// A listener on a socket in a directory of its own.
struct Listening {
    dir: tempfile::TempDir,
    actor: ActorRef<Message>,
    task: JoinHandle<()>,
    house: House,
}

impl Listening {
    async fn start(door: Door) -> Self {
        let (dir, house) = (tempfile::tempdir().unwrap(), House::build().await);
        let socket = std::os::unix::net::UnixListener::bind(dir.path().join("control.sock")).unwrap();
        let arguments = Arguments {
            listener: socket,
            door,
            directory: house.directory.clone(),
            config: Arc::new(Config::default()),
            paths: paths(),
            started: Instant::now(),
        };
        let (actor, task) = Actor::spawn(None, Listener, arguments).await.unwrap();
        Self { dir, actor, task, house }
    }

    async fn client(&self) -> Client {
        Client::connect(&self.dir.path().join("control.sock")).await
    }

    fn count(&self, kind: &str) -> usize {
        self.house.directory.cards().iter().filter(|card| card.kind == kind).count()
    }
}

#[tokio::test]
async fn sixty_four_operators_are_served_and_one_more_is_told_why_not() {
    let listening = Listening::start(Arc::new(admit)).await;
    let mut clients = Vec::new();
    for _ in 0..64 {
        let mut client = listening.client().await;
        assert!(client.call("agents", Value::Null).await["result"].is_object());
        clients.push(client);
    }
    assert_eq!(listening.count("operator"), 64);
    let refusal = listening.client().await.read().await.unwrap();
    assert!(refusal["error"]["message"].as_str().unwrap().contains("64 operators"), "{refusal}");

    drop(clients.pop());
    let served = async {
        loop {
            let mut client = listening.client().await;
            let request = format!("{}\n", json!({ "jsonrpc": "2.0", "id": 1, "method": "agents" }));
            let _ = client.0.write_all(request.as_bytes()).await;
            if client.read().await.is_some_and(|answer| answer["result"].is_object()) {
                return;
            }
        }
    };
    soon(served).await;
    assert!(clients[0].call("agents", Value::Null).await["result"].is_object(), "nobody else noticed");
}

#[tokio::test]
async fn a_stopped_listener_leaves_nobody_behind() {
    let listening = Listening::start(Arc::new(admit)).await;
    let mut client = listening.client().await;
    client.call("agents", Value::Null).await;
    assert_eq!((listening.count("listener"), listening.count("operator")), (1, 1));
    listening.actor.stop(None);
    assert_eq!(client.read().await, None);
    soon(listening.task).await.unwrap();
    let gone = async {
        while listening
            .house
            .directory
            .cards()
            .iter()
            .any(|card| matches!(card.kind, "listener" | "operator"))
        {
            tokio::task::yield_now().await;
        }
    };
    soon(gone).await;
}

/// R255: who may not come in is not listened to.
#[tokio::test]
async fn who_is_refused_at_the_door_hears_why_and_nothing_else() {
    let listening = Listening::start(Arc::new(|_| Err(Refused::Nested { pid: 7 }))).await;
    let mut client = listening.client().await;
    let word = client.read().await.expect("a word on why");
    assert!(word["id"].is_null() && word["error"]["message"].as_str().unwrap().contains("pid 7"), "{word}");
    assert_eq!(client.read().await, None);
    assert_eq!(listening.count("operator"), 0);
}

#[tokio::test]
async fn a_listener_that_hears_nothing_more_fails() {
    let listening = Listening::start(Arc::new(admit)).await;
    listening.actor.cast(Message::Deaf).unwrap();
    soon(listening.task).await.unwrap();
    assert_eq!(listening.actor.get_status(), ractor::ActorStatus::Stopped);
}
