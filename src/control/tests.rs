//! Operators against a directory with a small house in it.

mod house;
mod inboxes;
mod streams;

use std::{collections::BTreeSet, sync::Arc};

use ractor::{Actor, ActorRef};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    task::JoinHandle,
};

use super::{Listener, Message};
use crate::{
    socket::{Door, Refused, admit},
    store::{Op, PromptState},
    wire::letter::Word,
};
use house::{Client, House, soon};

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
    house.save("saved", vec![Op::Prompt(1, PromptState::Waiting, "host"), house::message("e")]).await;
    let mut client = house.operator().await;
    let page = include_str!("../../docs/control.md");
    for (method, params) in [
        ("status", Value::Null),
        ("tree", Value::Null),
        ("agents", Value::Null),
        ("sessions.list", json!({ "saved": true })),
        ("sessions.show", json!({ "id": "s1" })),
        ("sessions.send", json!({ "id": "saved", "text": "t" })),
        ("inbox.list", json!({ "id": "saved" })),
        ("inbox.show", json!({ "id": "saved", "entry": "e" })),
        ("events.subscribe", Value::Null),
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
    let verbs = ["cancel", "close", "kill", "detach", "show"];
    for method in verbs.map(|verb| format!("sessions.{verb}")) {
        for id in ["s2", "../s1"] {
            let error = client.call(&method, json!({ "id": id })).await["error"].take();
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
        let (actor, task) = Actor::spawn(None, Listener, house.arguments(socket, door)).await.unwrap();
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
