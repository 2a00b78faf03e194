//! Frames of a peer, and the events they come out as.

use serde_json::{Value, json, value::RawValue};

use super::*;
use crate::limits::TOOL_CALLS_MAX;

fn raw(value: &Value) -> Box<RawValue> {
    RawValue::from_string(value.to_string()).unwrap()
}

/// A mapper whose events come out as they would be printed.
struct Follower(Mapper);

impl Follower {
    fn new() -> Self {
        Self(Mapper::new("s1"))
    }

    fn update(&mut self, update: Value) -> Vec<Value> {
        self.params(json!({ "sessionId": "s1", "update": update }))
    }

    fn params(&mut self, params: Value) -> Vec<Value> {
        let params = raw(&params);
        let frame = raw(&json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }));
        let events = self.0.notification("session/update", Some(&params), &frame);
        events.iter().map(|event| serde_json::to_value(event).unwrap()).collect()
    }

    fn says(&mut self, id: Option<&str>, text: &str) -> Vec<Value> {
        let content = json!({ "type": "text", "text": text });
        self.update(json!({ "sessionUpdate": "agent_message_chunk", "messageId": id, "content": content }))
    }

    fn spent(&mut self, cost: Value) -> Vec<Value> {
        self.update(json!({ "sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": cost }))
    }

    fn ends(&mut self, answer: Value) -> Value {
        serde_json::to_value(self.0.answered(&raw(&answer))).unwrap()
    }
}

fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

fn call(id: &str, title: &str) -> Value {
    json!({ "sessionUpdate": "tool_call", "toolCallId": id, "title": title, "kind": "execute" })
}

fn call_update(id: &str, status: &str) -> Value {
    json!({ "sessionUpdate": "tool_call_update", "toolCallId": id, "status": status })
}

/// R29: the first event is synthesised from both handshake answers and invents no model.
#[test]
fn the_first_event_names_the_model_only_when_the_peer_did() {
    let initialize = raw(&json!({ "protocolVersion": 1 }));
    let cases = [
        (json!({ "sessionId": "s1" }), Value::Null, "unreported"),
        (
            json!({ "sessionId": "s1", "configOptions": [{ "category": "mode", "currentValue": "x" }] }),
            Value::Null,
            "unreported",
        ),
        (
            json!({ "sessionId": "s1", "configOptions": [3, { "category": "model", "currentValue": "m-9" }] }),
            Value::Null,
            "m-9",
        ),
        (
            json!({ "sessionId": "s1", "_meta": { "acpvisor": { "peerSessionId": "p" } } }),
            json!("p"),
            "unreported",
        ),
    ];
    for (new, peer, model) in cases {
        let event = serde_json::to_value(Mapper::new("s1").init(&initialize, &raw(&new))).unwrap();
        assert_eq!(event["type"], "init");
        assert_eq!(event["session_id"], "s1");
        assert_eq!(event["peer_session_id"], peer);
        assert_eq!(event["model"], model);
        assert_eq!(event["synthesised"], true);
        assert_eq!(event["raw"], json!({ "initialize": { "protocolVersion": 1 }, "session/new": new }));
    }
}

/// R93: text makes a text event; an empty one and an image are kept and nothing more.
#[test]
fn only_chunks_with_text_are_text() {
    let mut follower = Follower::new();
    assert_eq!(types(&follower.says(None, "hello")), ["text"]);
    assert_eq!(types(&follower.says(None, "")), ["transcript"]);
    let image = json!({ "type": "image", "data": "", "mimeType": "image/png", "text": "not a text" });
    let image = follower.update(json!({ "sessionUpdate": "agent_message_chunk", "content": image }));
    assert_eq!(types(&image), ["transcript"]);
    assert_eq!(follower.ends(json!({ "stopReason": "end_turn" }))["text"], "hello");
}

/// R94: a different message id starts a new message, none continues, and the last message is the result.
#[test]
fn the_result_is_the_last_message() {
    type Chunks<'a> = &'a [(Option<&'a str>, &'a str)];
    let cases: [(Chunks<'_>, &str); 5] = [
        (&[(Some("m1"), "A"), (Some("m1"), "B"), (Some("m2"), "C")], "C"),
        (&[(None, "A"), (None, "B")], "AB"),
        (&[(Some("m1"), "A"), (None, "B")], "AB"),
        (&[(Some("m1"), "A"), (None, "B"), (Some("m1"), "C")], "ABC"),
        (&[], ""),
    ];
    for (chunks, result) in cases {
        let mut follower = Follower::new();
        for (id, text) in chunks {
            follower.says(*id, text);
        }
        assert_eq!(follower.ends(json!({ "stopReason": "end_turn" }))["text"], result, "{chunks:?}");
    }
}

/// R94, R221: a new turn starts empty, also after one that never ended.
#[test]
fn a_new_turn_starts_empty() {
    let mut follower = Follower::new();
    follower.says(Some("m1"), "of the last turn");
    follower.0.begin_turn();
    follower.says(Some("m1"), "new");
    assert_eq!(follower.ends(json!({ "stopReason": "end_turn" }))["text"], "new");
    assert_eq!(follower.ends(json!({ "stopReason": "end_turn" }))["text"], "");
}

/// R95: a call becomes a tool use with its kind and a title of at most 200 whole characters.
#[test]
fn a_tool_call_is_a_tool_use_with_a_short_title() {
    let mut follower = Follower::new();
    let events = follower.update(call("c1", &"🦀".repeat(500)));
    assert_eq!(types(&events), ["tool_use"]);
    assert_eq!(events[0]["tool"], "execute");
    assert_eq!(events[0]["summary"], "🦀".repeat(200));
    let events =
        follower.update(json!({ "sessionUpdate": "tool_call", "toolCallId": "c2", "title": "t", "kind": 7 }));
    assert_eq!(events[0]["tool"], "other");
}

/// R95: kind, title and subject are remembered under the id; the subject is a command or a place, never a title.
#[test]
fn a_call_is_remembered_with_its_subject() {
    let mut follower = Follower::new();
    let subjects = [
        (json!({ "rawInput": { "command": "git push" }, "locations": [{ "path": "/x" }] }), Some("git push")),
        (json!({ "rawInput": { "command": ["git", "push"] } }), Some("git push")),
        (json!({ "locations": [{ "path": "/x" }] }), Some("/x")),
        (json!({}), None),
    ];
    for (more, subject) in subjects {
        let mut update = call("c", "a title");
        update.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        follower.update(update);
        let known = follower.0.call("c").unwrap();
        assert_eq!((&*known.kind, &*known.title, known.subject.as_deref()), ("execute", "a title", subject));
    }
}

/// R96: completed and failed are results, never denied; other statuses are kept and nothing more.
#[test]
fn only_the_end_of_a_call_is_a_tool_result() {
    let mut follower = Follower::new();
    follower.update(call("c1", "Run the tests"));
    assert_eq!(types(&follower.update(call_update("c1", "pending"))), ["transcript"]);
    assert_eq!(types(&follower.update(call_update("c1", "in_progress"))), ["transcript"]);
    let mut done = call_update("c1", "completed");
    done["content"] = json!([
        { "type": "diff", "path": "/x", "newText": "y" },
        { "type": "content", "content": { "type": "text", "text": "z".repeat(300) } },
    ]);
    let done = follower.update(done);
    assert_eq!(types(&done), ["tool_result"]);
    assert_eq!((&done[0]["tool"], &done[0]["denied"]), (&json!("execute"), &json!(false)));
    assert_eq!(done[0]["summary"], "z".repeat(200));

    follower.update(call("c2", "Old"));
    follower.update(
        json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c2", "title": "New", "kind": "read" }),
    );
    let failed = follower.update(call_update("c2", "failed"));
    assert_eq!((&failed[0]["summary"], &failed[0]["tool"]), (&json!("New"), &json!("read")));
    assert_eq!((&failed[0]["status"], &failed[0]["denied"]), (&json!("failed"), &json!(false)));
    let unknown = follower.update(call_update("never seen", "failed"));
    assert_eq!((&unknown[0]["summary"], &unknown[0]["tool"]), (&json!("failed"), &json!("other")));
}

/// R96, R104: a call that is over when it is announced gives both events, in order.
#[test]
fn a_call_that_is_born_finished_begins_and_ends() {
    let mut follower = Follower::new();
    let mut update = call("c", "t");
    update["status"] = json!("completed");
    assert_eq!(types(&follower.update(update)), ["tool_use", "tool_result"]);
    assert!(!follower.0.has_open_calls());
}

/// R97: a refusal is one denied event, also when the peer reports the failure as well.
#[test]
fn a_refusal_is_denied_exactly_once() {
    let mut follower = Follower::new();
    follower.update(call("c", "git push"));
    let frame = raw(&json!({}));
    let reason = format!("refused by pattern `git push*` {}", "x".repeat(300));
    let denied = serde_json::to_value(follower.0.refused("c", "execute", &reason, &frame)).unwrap();
    assert_eq!((&denied["type"], &denied["denied"]), (&json!("tool_result"), &json!(true)));
    assert!(denied["summary"].as_str().unwrap().starts_with("refused by pattern `git push*`"));
    assert_eq!(denied["summary"].as_str().unwrap().chars().count(), 200);
    assert!(!follower.0.has_open_calls(), "nobody waits for a refused call");
    assert_eq!(follower.update(call_update("c", "failed"))[0]["denied"], false);
}

/// R98: usage makes no event of its own; the last one stands in the result.
#[test]
fn the_last_usage_is_in_the_result() {
    let mut follower = Follower::new();
    for amount in [0.25, 0.5] {
        let events = follower.spent(json!({ "amount": amount, "currency": "USD" }));
        assert_eq!(types(&events), ["transcript"]);
    }
    let result = follower.ends(json!({ "stopReason": "end_turn" }));
    assert_eq!(result["cost_usd"], 0.5);
    assert_eq!(result["raw"]["usage"]["params"]["update"]["cost"]["amount"], 0.5);
    assert_eq!(follower.ends(json!({ "stopReason": "end_turn" }))["raw"]["usage"], Value::Null);
}

/// R99, R101: only `end_turn` is no error; the text is kept and the reason verbatim whatever happened.
#[test]
fn only_end_turn_is_success() {
    let report = r#"{"verdict":"pass"}"#;
    for reason in ["end_turn", "refusal", "max_tokens", "max_turn_requests", "cancelled", "mystery"] {
        let mut follower = Follower::new();
        follower.says(None, report);
        let result = follower.ends(json!({ "stopReason": reason }));
        assert_eq!(result["is_error"], reason != "end_turn", "{reason}");
        assert_eq!((&result["text"], &result["turns"]), (&json!(report), &json!(1)));
        assert_eq!(result["raw"]["stopReason"], reason);
        assert_eq!(result["raw"]["answer"], json!({ "stopReason": reason }));
    }
    for answer in [json!({}), json!(null), json!({ "stopReason": null }), json!([])] {
        let result = Follower::new().ends(answer.clone());
        assert_eq!(
            (&result["is_error"], &result["raw"]["stopReason"]),
            (&json!(true), &Value::Null),
            "{answer}"
        );
    }
}

/// R101: a message that was longer than is kept is no complete report.
#[test]
fn a_message_too_long_to_keep_is_an_error() {
    let mut follower = Follower::new();
    let piece = "x".repeat(crate::limits::MIB);
    for _ in 0..33 {
        follower.says(None, &piece);
    }
    assert_eq!(follower.ends(json!({ "stopReason": "end_turn" }))["is_error"], true);
}

/// R100: an error answer is a result too, with the error and the id of the request.
#[test]
fn an_error_answer_is_an_error_result() {
    let mut follower = Follower::new();
    follower.says(None, "half an answer");
    let error = json!({ "code": -32603, "message": "boom" });
    let result = serde_json::to_value(follower.0.failed(3, &raw(&error))).unwrap();
    assert_eq!(result["is_error"], true);
    assert_eq!(result["text"], format!("the prompt failed: {error}"));
    assert_eq!(result["raw"], json!({ "error": error, "id": 3 }));
}

/// R102: the cost of a turn is the difference of two known totals, else none.
#[test]
fn costs_are_differences_of_known_totals() {
    let mut follower = Follower::new();
    let usd = |amount: f64| json!({ "amount": amount, "currency": "USD" });
    let turns = [
        (usd(0.5), json!(0.5)),
        (usd(0.75), json!(0.25)),
        (Value::Null, Value::Null),
        (usd(1.5), Value::Null),
    ];
    for (reported, cost) in turns {
        follower.0.begin_turn();
        if !reported.is_null() {
            follower.spent(reported);
        }
        assert_eq!(follower.ends(json!({ "stopReason": "end_turn" }))["cost_usd"], cost);
    }
}

/// R102: no currency but USD, and no amount that is none, becomes a cost.
#[test]
fn unusable_costs_are_none() {
    let unusable = [
        json!({ "amount": 1.0, "currency": "EUR" }),
        json!({ "amount": -1.0, "currency": "USD" }),
        json!({ "amount": "NaN", "currency": "USD" }),
        json!({ "amount": 1.0 }),
        json!(1.0),
    ];
    for cost in unusable {
        let mut follower = Follower::new();
        follower.spent(cost.clone());
        assert_eq!(follower.ends(json!({ "stopReason": "end_turn" }))["cost_usd"], Value::Null, "{cost}");
    }
}

/// R103: whatever has no meaning of its own is kept, one event a frame, byte for byte.
#[test]
fn everything_else_is_kept() {
    let mut follower = Follower::new();
    for variant in
        ["plan", "agent_thought_chunk", "user_message_chunk", "available_commands_update", "of_tomorrow"]
    {
        let events =
            follower.update(json!({ "sessionUpdate": variant, "content": { "type": "text", "text": "t" } }));
        assert_eq!(types(&events), ["transcript"], "{variant}");
        assert_eq!(events[0]["raw"]["params"]["update"]["sessionUpdate"], variant);
    }
    for params in
        [json!({}), json!([]), json!({ "sessionId": "s1" }), json!({ "sessionId": "s1", "update": 3 })]
    {
        assert_eq!(types(&follower.params(params)), ["transcript"]);
    }
    let frame = r#"{"method":"_x/y","params":{"n":1e400,"deep":[[]]}}"#;
    let frame = RawValue::from_string(frame.to_owned()).unwrap();
    let events = follower.0.notification("_x/y", None, &frame);
    assert_eq!(
        serde_json::to_string(&events[0]).unwrap(),
        format!(r#"{{"type":"transcript","raw":{frame}}}"#)
    );
}

/// R93, R12: a member nobody needs cannot make a chunk unreadable.
#[test]
fn a_strange_member_does_not_hide_the_text() {
    let line = r#"{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text",
        "text":"hi","annotations":1e400},"messageId":5,"_meta":{"n":123456789012345678901234567890}}}"#;
    let params = RawValue::from_string(line.to_owned()).unwrap();
    let mut mapper = Mapper::new("s1");
    assert!(matches!(mapper.notification("session/update", Some(&params), &params)[0], Event::Text { .. }));
}

/// R105: another session's updates are kept but supply neither text nor calls.
#[test]
fn another_session_supplies_nothing() {
    let mut follower = Follower::new();
    let chunk =
        json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "foreign" } });
    for update in [chunk, call("c", "t")] {
        let events = follower.params(json!({ "sessionId": "another-session", "update": update }));
        assert_eq!(types(&events), ["transcript"]);
        assert_eq!(events[0]["label"], "otherSession");
    }
    assert!(!follower.0.has_open_calls());
    assert_eq!(follower.ends(json!({ "stopReason": "end_turn" }))["text"], "");
}

/// R106: the calls remembered are bounded in number, the oldest goes; ids that are no ids are rejected.
#[test]
fn tool_tracking_is_bounded() {
    let mut follower = Follower::new();
    for n in 0..TOOL_CALLS_MAX + 10 {
        follower.update(call(&format!("c{n}"), "t"));
    }
    assert!(follower.0.call("c9").is_none());
    assert!(follower.0.call("c10").is_some());
    for id in ["", &"x".repeat(257)] {
        for update in [call(id, "t"), call_update(id, "completed")] {
            let events = follower.update(update);
            assert_eq!(types(&events), ["transcript"]);
            assert_eq!(events[0]["label"], "toolCallId");
        }
    }
    assert_eq!(types(&follower.update(call(&"x".repeat(256), "t"))), ["tool_use"]);
}

/// R5, R6: answers to nothing and lines that are no JSON are kept under their labels.
#[test]
fn stray_answers_and_junk_are_labelled() {
    let follower = Follower::new();
    let frame = raw(&json!({ "id": 999, "result": { "stopReason": "end_turn" } }));
    let stray = serde_json::to_value(follower.0.unmatched(&frame)).unwrap();
    assert_eq!((&stray["type"], &stray["label"]), (&json!("transcript"), &json!("unmatchedResponse")));
    let junk = serde_json::to_value(follower.0.unparsed(b"garb\xFFage")).unwrap();
    assert_eq!((&junk["label"], &junk["raw"]), (&json!("unparsed"), &json!("garb\u{FFFD}age")));
}
