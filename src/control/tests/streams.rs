//! Streams: events to whoever subscribed, and transcripts in pieces (R258, R270).

use tokio::io::AsyncReadExt;

use super::{
    house::{chunk, lines},
    *,
};
use crate::{id::SessionId, limits::EVENTS_BEHIND_ROWS_MAX, store::Kind};

fn mark(mark: Value) -> Op {
    lines(Kind::Mark, &[mark])
}

fn turn(text: &str) -> Vec<Op> {
    vec![
        mark(json!({ "mark": "turn_started", "turn": 1, "source": "host" })),
        lines(Kind::Peer, &[chunk(text)]),
        mark(json!({ "mark": "turn_ended", "turn": 1, "stop_reason": "end_turn" })),
    ]
}

impl Client {
    async fn event(&mut self) -> Value {
        let line = self.read().await.expect("the stream goes on");
        assert_eq!(line["method"], "event", "{line}");
        line["params"].clone()
    }

    async fn kinds(&mut self, count: usize) -> Vec<String> {
        let mut kinds = Vec::new();
        for _ in 0..count {
            kinds.push(self.event().await["kind"].as_str().unwrap().to_owned());
        }
        kinds
    }
}

/// R258: what the store has, then what happens, each with a number of its own that ascends.
#[tokio::test]
async fn history_is_told_and_then_what_happens() {
    let house = House::build().await;
    house.save("s1", turn("first")).await;
    let mut client = house.operator().await;
    let subscribed = client.call("events.subscribe", json!({ "since": 0 })).await["result"].take();
    let mut events = Vec::new();
    for _ in 0..5 {
        events.push(client.event().await);
    }
    let kinds: Vec<_> = events.iter().map(|event| event["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["turn_started", "text", "result", "turn_ended", "current"]);
    let numbers: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
    assert_eq!(numbers[4], subscribed["newest"].as_u64().unwrap());
    assert_eq!((&events[1]["session"], &events[1]["event"]["text"]), (&json!("s1"), &json!("first")));
    assert!(events[1]["time"].as_str().unwrap().ends_with('Z'));
    house.write(&SessionId::parse("s1").unwrap(), turn("second")).await;
    assert_eq!(client.kinds(4).await, ["turn_started", "text", "result", "turn_ended"]);
    let mut again = house.operator().await;
    again.call("events.subscribe", json!({ "since": numbers[1] })).await;
    assert_eq!(again.event().await, events[2], "a number is the same whenever it is told");
}

/// R258: a subscriber hears the session and the kinds that it asked for, and two streams are told apart.
#[tokio::test]
async fn a_subscriber_hears_what_it_asked_for() {
    let house = House::build().await;
    house.save("s1", vec![]).await;
    house.save("s2", vec![]).await;
    let mut client = house.operator().await;
    client.call("events.subscribe", json!({ "session": "s2", "kinds": ["text"] })).await;
    for (id, text) in [("s1", "no"), ("s2", "yes")] {
        house.write(&SessionId::parse(id).unwrap(), turn(text)).await;
    }
    let event = client.event().await;
    assert_eq!(
        (&event["session"], &event["event"]["text"], &event["subscription"]),
        (&json!("s2"), &json!("yes"), &json!(1))
    );
    let second = client.call("events.subscribe", json!({ "kinds": ["session_closed"] })).await;
    assert_eq!(second["result"]["subscription"], 2);
    assert_eq!(client.call("events.unsubscribe", json!({ "subscription": 1 })).await["result"], json!({}));
    let closed = vec![mark(json!({ "mark": "closed", "reason": "Closed" }))];
    house.write(&SessionId::parse("s2").unwrap(), turn("unheard").into_iter().chain(closed).collect()).await;
    assert_eq!(client.event().await["subscription"], 2);
    let refused = client.call("events.unsubscribe", json!({ "subscription": 1 })).await;
    assert_eq!(refused["error"]["code"], -32602);
    for (params, code) in
        [(json!({ "kinds": ["of_tomorrow"] }), -32602), (json!({ "session": "nobody" }), -32002)]
    {
        assert_eq!(client.call("events.subscribe", params).await["error"]["code"], code);
    }
}

/// R258: streams on one connection are bounded, and one that ended makes room.
#[tokio::test]
async fn streams_of_one_connection_are_bounded() {
    let house = House::build().await;
    let mut client = house.operator().await;
    for _ in 0..8 {
        assert!(client.call("events.subscribe", Value::Null).await["result"].is_object());
    }
    let refused = client.call("events.subscribe", Value::Null).await["error"].take();
    assert!(refused["message"].as_str().unwrap().contains("8 streams"), "{refused}");
    client.call("events.unsubscribe", json!({ "subscription": 3 })).await;
    assert!(client.call("events.subscribe", Value::Null).await["result"].is_object());
}

/// R258: a subscriber that does not read holds up nobody; when it reads again it hears once how much it missed.
#[tokio::test]
async fn who_does_not_read_gets_one_gap() {
    let house = House::build().await;
    house.save("s1", vec![]).await;
    let mut client = house.operator().await;
    client.call("events.subscribe", json!({ "kinds": ["text"] })).await;
    let session = SessionId::parse("s1").unwrap();
    let long = "x".repeat(1 << 10);
    for _ in 0..32 {
        let rows = (0..EVENTS_BEHIND_ROWS_MAX / 4).map(|_| lines(Kind::Peer, &[chunk(&long)]));
        house.write(&session, rows.collect()).await;
    }
    let (mut texts, mut gaps) = (0_u64, Vec::new());
    while gaps.is_empty() {
        match client.event().await {
            event if event["kind"] == "gap" => gaps.push(event["event"]["dropped"].as_u64().unwrap()),
            event => {
                assert_eq!(event["kind"], "text");
                texts += 1;
            }
        }
    }
    assert_eq!(texts + gaps[0], 8 * EVENTS_BEHIND_ROWS_MAX, "what was not told is counted");
    house.write(&session, vec![lines(Kind::Peer, &[chunk("the newest")])]).await;
    assert_eq!(client.event().await["event"]["text"], "the newest");
}

/// R258: the end of the connection is the end of its streams.
#[tokio::test]
async fn streams_end_with_their_connection() {
    let listening = Listening::start(Arc::new(admit)).await;
    let mut client = listening.client().await;
    client.call("events.subscribe", Value::Null).await;
    assert_eq!(listening.count("operator"), 1);
    drop(client);
    let gone = async {
        while listening.count("operator") > 0 {
            tokio::task::yield_now().await;
        }
    };
    soon(gone).await;
}

/// R270: a transcript comes in pieces and then its answer, with whatever else was asked behind it.
#[tokio::test]
async fn a_transcript_comes_in_pieces() {
    let house = House::build().await;
    let long = "ä".repeat(200 << 10);
    house.save("s1", turn(&long)).await;
    let mut client = house.operator().await;
    for id in ["s1", "nobody"] {
        let params = json!({ "id": id, "format": "ndjson" });
        client
            .write(&format!(
                "{}\n",
                json!({ "jsonrpc": "2.0", "id": id, "method": "sessions.export", "params": params })
            ))
            .await;
    }
    let (mut text, mut pieces) = (String::new(), 0);
    let exported = loop {
        let line = client.read().await.unwrap();
        if line["method"] != "export.piece" {
            break line;
        }
        text.push_str(line["params"]["text"].as_str().unwrap());
        pieces += 1;
    };
    assert_eq!(exported["result"], json!({ "pieces": pieces, "bytes": text.len() }));
    assert!(pieces > 1 && text.contains(&long) && text.ends_with('\n'));
    assert_eq!(client.read().await.unwrap()["error"]["code"], -32002);
    let mut rest = Vec::new();
    client.0.get_mut().shutdown().await.unwrap();
    soon(client.0.read_to_end(&mut rest)).await.unwrap();
    assert!(rest.is_empty());
}
