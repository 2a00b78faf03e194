//! Rows as events.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Kind, kind::Wanted, note::Note, number, teller::Teller, telling::Telling};
use crate::{
    id::SessionId,
    store::{self, Stored},
};

fn row(number: i64, kind: store::Kind, lines: &[Value]) -> Stored {
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let session = SessionId::parse("s1").unwrap();
    Stored { number, session, time_ms: 1_000, kind, lines: Bytes::from(lines) }
}

fn mark(mark: Value) -> (store::Kind, Value) {
    (store::Kind::Mark, mark)
}

fn peer(line: Value) -> (store::Kind, Value) {
    (store::Kind::Peer, line)
}

fn update(session: &str, update: Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": session, "update": update } })
}

fn chunk(text: &str) -> Value {
    update(
        "p",
        json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } }),
    )
}

/// Every event of these lines.
fn told(lines: &[(store::Kind, Value)]) -> Vec<Value> {
    let mut teller = Teller::new("p");
    let mut all = Vec::new();
    for (kind, line) in lines {
        let line = Bytes::from(line.to_string());
        teller.line(*kind, line, &mut |event| {
            let kind = serde_json::to_value(event.kind()).unwrap();
            let event = serde_json::to_value(&event).unwrap();
            assert_eq!(event["type"], kind, "its word is its type");
            all.push(event);
        });
    }
    all
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

/// R258: a turn from its prompt to its result, the result made of the agent's own answer.
#[test]
fn a_turn_is_told_from_its_prompt_to_its_result() {
    let prompt = json!([{ "type": "text", "text": "context" }, { "type": "text", "text": "do it" }, { "type": "image" }]);
    let prompt =
        json!({ "id": 0, "method": "session/prompt", "params": { "sessionId": "s1", "prompt": prompt } });
    let call = json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "title": "Read it", "kind": "read" });
    let done = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed" });
    let events = told(&[
        mark(json!({ "mark": "opened", "agent": "a", "how": "new", "peer_session": "p" })),
        mark(json!({ "mark": "turn_started", "turn": 4, "source": "host", "context_blocks": 1 })),
        (store::Kind::Sent, prompt),
        peer(update("p", call)),
        peer(update("p", done)),
        peer(chunk("fine")),
        peer(chunk("ly")),
        (store::Kind::Sent, json!({ "id": 9, "result": {} })),
        peer(json!({ "id": 3, "result": { "stopReason": "end_turn", "usage": 7 } })),
        mark(json!({ "mark": "turn_ended", "turn": 4, "stop_reason": "end_turn" })),
        mark(json!({ "mark": "closed", "reason": "Closed" })),
    ]);
    let all = [
        "session_opened",
        "turn_started",
        "prompt",
        "tool_use",
        "tool_result",
        "text",
        "text",
        "result",
        "turn_ended",
        "session_closed",
    ];
    assert_eq!(kinds(&events), all);
    assert_eq!((&events[2]["text"], &events[4]["status"]), (&json!("do it\n[image]"), &json!("completed")));
    assert_eq!((&events[7]["text"], &events[7]["raw"]["answer"]["usage"]), (&json!("finely"), &json!(7)));
}

/// R82, R92: a turn of the inbox is told by its prompt, and by what of it the host is shown.
#[test]
fn a_turn_of_the_inbox_is_told_by_its_prompt_and_its_input() {
    let block = json!({ "type": "text", "text": "[message from user]\n\ngo" });
    let prompt = json!({ "id": 0, "method": "session/prompt", "params": { "prompt": [block] } });
    let events = told(&[
        mark(json!({ "mark": "turn_started", "turn": 1, "source": "inbox" })),
        (store::Kind::Sent, prompt),
        mark(json!({ "mark": "input", "id": "e", "text": "go" })),
        mark(json!({ "mark": "turn_ended", "turn": 1, "error": { "code": -32603, "message": "no" } })),
    ]);
    assert_eq!(kinds(&events), ["turn_started", "prompt", "input", "result", "turn_ended"]);
    assert_eq!((&events[3]["is_error"], &events[4]["error"]["message"]), (&json!(true), &json!("no")));
}

/// R97, R291: a question is told when it is asked and when it is decided, and a denial as an event of the run too.
#[test]
fn questions_are_told_when_asked_and_when_decided() {
    let call = json!({ "toolCallId": "c", "title": "Publish", "kind": "execute", "rawInput": { "command": "git push" } });
    let ask = json!({ "id": 1, "method": "session/request_permission", "params": { "sessionId": "p", "toolCall": call } });
    let decision = |word: &str| {
        mark(
            json!({ "mark": "decision", "tool_call": "c", "kind": "execute", "decision": word, "by": "unattended", "reason": "nobody" }),
        )
    };
    let events = told(&[peer(ask), decision("deny"), decision("allow")]);
    assert_eq!(
        kinds(&events),
        ["permission_asked", "tool_result", "permission_decided", "permission_decided"]
    );
    assert_eq!((&events[0]["tool"], &events[0]["subject"]), (&json!("execute"), &json!("git push")));
    assert_eq!((&events[1]["denied"], &events[1]["summary"]), (&json!(true), &json!("unattended: nobody")));
}

/// R5, R6, R105: what means nothing is kept as it is; a mark of tomorrow is nobody's.
#[test]
fn what_means_nothing_is_kept() {
    let mut teller = Teller::new("p");
    let mut labels = Vec::new();
    let lines =
        [Bytes::from("garbage"), Bytes::from(update("other", json!({})).to_string()), Bytes::from("{}")];
    for line in lines {
        teller.line(store::Kind::Stray, line, &mut |event| {
            labels.push(serde_json::to_value(&event).unwrap()["label"].clone());
        });
    }
    assert_eq!(labels, [json!("unparsed"), json!("otherSession"), Value::Null]);
    assert!(told(&[mark(json!({ "mark": "of_tomorrow" })), (store::Kind::Mark, json!(7))]).is_empty());
}

/// R289: history that was made shorter stands under a name of its own.
#[test]
fn shortened_history_is_told_as_what_it_says() {
    let said = |who: &str, text: &str| {
        let content = json!({ "type": "text", "text": text });
        (store::Kind::Compact, update("s1", json!({ "sessionUpdate": who, "content": content })))
    };
    let events = told(&[
        said("user_message_chunk", "what is it?"),
        mark(json!({ "mark": "given", "text": "a message" })),
        said("agent_message_chunk", "in short"),
        peer(chunk("at length")),
    ]);
    assert_eq!(kinds(&events), ["prompt", "prompt", "text", "text"]);
    assert_eq!((&events[0]["text"], &events[1]["text"]), (&json!("what is it?"), &json!("a message")));
}

fn heard(telling: &mut Telling) -> Vec<Value> {
    let lines = telling.take();
    lines.split_inclusive(|b| *b == b'\n').map(|line| serde_json::from_slice(line).unwrap()).collect()
}

/// R258: two events of one line have two numbers, and whoever heard the first is told the second only.
#[test]
fn a_number_tells_events_of_one_line_apart() {
    let call =
        json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "title": "t", "status": "completed" });
    let rows = [row(7, store::Kind::Peer, &[chunk("a"), update("p", call)])];
    let tell = |since| {
        let mut telling = Telling::new(1, Wanted::of(None), since);
        rows.iter().for_each(|row| telling.row(row, || "p".to_owned()));
        heard(&mut telling)
    };
    let all = tell(0);
    let numbers: Vec<u64> = all.iter().map(|line| line["params"]["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [number::of(7, 0, 0), number::of(7, 1, 0), number::of(7, 1, 1)]);
    assert_eq!(tell(numbers[1]), all[2..]);
    assert_eq!(all[2]["params"]["time"], "1970-01-01T00:00:01.000Z");
}

/// R258: what is not wanted is not told, and numbers do not depend on it.
#[test]
fn a_filter_changes_no_number() {
    let rows = row(3, store::Kind::Peer, &[chunk("a"), json!({ "method": "x/y" }), chunk("b")]);
    let mut telling = Telling::new(1, Wanted::of(Some(&[Kind::Transcript])), 0);
    telling.row(&rows, || "p".to_owned());
    telling.stream(Note::Gap { dropped: 5 }, 9, 0);
    let lines = heard(&mut telling);
    let seen: Vec<_> =
        lines.iter().map(|line| (line["params"]["seq"].as_u64().unwrap(), &line["params"]["kind"])).collect();
    assert_eq!(seen, [(number::of(3, 1, 0), &json!("transcript")), (number::upto(9), &json!("gap"))]);
}

/// R258: the reference page says what every kind is.
#[test]
fn the_reference_page_has_every_kind() {
    let page = include_str!("../../../docs/control.md");
    let refused = serde_json::from_value::<Kind>(json!("?")).unwrap_err().to_string();
    let words: Vec<&str> = refused.split('`').skip(3).step_by(2).collect();
    assert_eq!(words.len(), Kind::Ended as usize + 1, "{refused}");
    let missing: Vec<_> = words.iter().filter(|word| !page.contains(&format!("| `{word}` |"))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
