//! Request ids: each wire has its own, answers find their way, and stragglers change nothing (R3 to R5).

use serde_json::{Value, json};

use crate::{line, scene::Scene};

/// R3: an id comes back with its value and its type.
#[test]
fn ids_of_a_peer_come_back_as_they_were() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let (id, prompt) = scene.turn(&session, &mut peer);
    for (asked, spelt) in
        [(json!(100), "100"), (json!("abc"), "\"abc\""), (json!(0), "0"), (json!("0"), "\"0\"")]
    {
        peer.ask_permission_as(&asked, &format!("tool-{spelt}"), "ls");
        let question = scene.host.expect("session/request_permission");
        scene.host.choose(&question, "yes");
        assert_eq!(peer.answer(&asked)["result"]["outcome"]["optionId"], "yes");
        let line = String::from_utf8_lossy(peer.raw_lines().last().unwrap()).replace(' ', "");
        assert!(
            line.contains(&format!("\"id\":{spelt},")) || line.contains(&format!("\"id\":{spelt}}}")),
            "{line}"
        );
    }
    peer.request_as(&Value::Null, "foo/bar", json!({}));
    assert_eq!(peer.answer(&Value::Null)["error"]["code"], -32601);
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
}

/// R4: our own requests are numbered from 1, upwards, and never twice.
#[test]
fn requests_to_a_peer_are_numbered_from_one() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    for _ in 0..3 {
        scene.plays(&session, &mut peer);
    }
    let messages = peer.raw_lines().iter().filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let requests = messages.filter(|m| m["method"].is_string() && m.get("id").is_some());
    let ids: Vec<u64> = requests.map(|m| m["id"].as_u64().expect("an unsigned number")).collect();
    assert_eq!(ids.first(), Some(&1));
    assert!(ids.len() >= 5 && ids.windows(2).all(|pair| pair[0] < pair[1]), "{ids:?}");
}

/// R5: an answer to nothing is counted; the turn waits for its own.
#[test]
fn an_answer_to_nothing_ends_no_turn() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let (id, prompt) = scene.turn(&session, &mut peer);
    peer.reply(&json!({"id": 999}), json!({"stopReason": "end_turn"}));
    peer.update("still at it");
    assert_eq!(scene.host.expect_text(), "still at it");
    scene.sandbox.wait_peer_count(&session, "unmatched_responses", 1);
    assert!(scene.host.unread().is_empty());
    peer.reply(&prompt, json!({"stopReason": "max_tokens"}));
    assert_eq!(scene.host.stop_reason(&id), "max_tokens");
}

/// ID-04: 0 is an id, on both wires.
#[test]
fn zero_is_an_id() {
    let mut scene = Scene::with(json!({"fs": {"readTextFile": true}}), |_| {});
    let first: Value = serde_json::from_slice(&scene.host.raw_lines()[0]).unwrap();
    assert_eq!(first["id"], 0, "the answer to the host's own first request");
    let (session, mut peer) = scene.session("work");
    let (id, prompt) = scene.turn(&session, &mut peer);
    let path = scene.sandbox.path("work/a");
    let params = json!({"sessionId": peer.session(), "path": path.to_str()});
    peer.request_as(&json!(0), "fs/read_text_file", params);
    let read = scene.host.expect("fs/read_text_file");
    scene.host.reply(&read, json!({"content": "inside"}));
    assert_eq!(peer.answer(&json!(0))["result"]["content"], "inside");
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
}

/// ID-05: the late answer of a cancelled turn does not end the next one, even under the same id.
#[test]
fn a_stale_answer_does_not_end_the_next_turn() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let prompt = json!({
        "jsonrpc": "2.0", "id": "five", "method": "session/prompt",
        "params": {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]},
    });
    scene.host.send(&prompt);
    let first = peer.expect("session/prompt");
    scene.host.cancel(&session);
    peer.expect("session/cancel");
    peer.reply(&first, json!({"stopReason": "cancelled"}));
    assert_eq!(scene.host.stop_reason(&json!("five")), "cancelled");
    scene.host.send(&prompt);
    let second = peer.expect("session/prompt");
    assert_ne!(first["id"], second["id"]);
    peer.reply(&first, json!({"stopReason": "end_turn"}));
    scene.sandbox.wait_peer_count(&session, "unmatched_responses", 1);
    peer.reply(&second, json!({"stopReason": "refusal"}));
    assert_eq!(scene.host.stop_reason(&json!("five")), "refusal");
}

/// ID-06: large and negative ids come back exactly; what is no id is refused without one.
#[test]
fn odd_ids_of_a_host_are_echoed_or_refused() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    for id in ["9007199254740993", "-1", "9223372036854775807", "\"\"", "\"1\""] {
        scene.host.send_line(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"session/list","params":{{"cwd":"x"}}}}"#
        ));
        let id: Value = serde_json::from_str(id).unwrap();
        assert_eq!(scene.host.error(&id)["code"], -32602);
    }
    for id in ["true", "[1]", "{}"] {
        scene.host.send_line(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"session/list","params":{{"cwd":"x"}}}}"#
        ));
        scene.host.expect_refusal(-32600);
    }
    scene.host.send_line(r#"{"jsonrpc":"2.0","id":null,"method":"session/list"}"#);
    assert_eq!(scene.host.next()["id"], Value::Null);
    scene.plays(&session, &mut peer);
}

/// ID-06: an agent's error without an id belongs to nobody; what is pending stays pending.
#[test]
fn an_error_without_an_id_settles_nothing() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let (id, prompt) = scene.turn(&session, &mut peer);
    peer.error(&json!({"id": null}), -32700, "Parse error");
    peer.update("going on");
    assert_eq!(scene.host.expect_text(), "going on");
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
}

/// ORD-04: answers and updates written at once arrive in the order of the wire, every time.
#[test]
fn one_write_keeps_its_order() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    for round in 0..1000 {
        let ids = ["first", "second"]
            .map(|_| scene.host.request("session/from_the_future", json!({"sessionId": session})));
        let asked = [(); 2].map(|()| peer.expect("session/from_the_future"));
        let answer = |n: usize| json!({"jsonrpc": "2.0", "id": asked[n]["id"], "result": {"n": n}});
        let chunk = |text: &str| line::chunk(&peer.session(), text);
        let written = format!("{}\n{}\n{}\n{}\n", answer(0), chunk("a"), chunk("b"), answer(1));
        peer.raw(written.as_bytes());
        let seen: Vec<Value> = (0..4).map(|_| scene.host.next()).collect();
        let order = (&seen[0]["id"], line::text(&seen[1]), line::text(&seen[2]), &seen[3]["id"]);
        assert_eq!(order, (&ids[0], Some("a"), Some("b"), &ids[1]), "round {round}");
    }
}

/// R75: an error that is none by JSON-RPC's rules becomes one, so that no host waits for an answer it had to drop.
#[test]
fn an_error_that_is_none_becomes_one() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    for error in ["null", "\"no\"", "7"] {
        let (id, prompt) = scene.turn(&session, &mut peer);
        peer.raw(format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"error\":{error}}}\n", prompt["id"]).as_bytes());
        assert_eq!(scene.host.error(&id)["code"], -32603, "{error}");
    }
}
