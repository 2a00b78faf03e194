//! What passes through: byte for byte but for the ids, and what does not pass at all (R12, R13).

use serde_json::{Value, json};

use crate::scene::Scene;

/// Nothing in here survives a parser that prints it again.
fn odd_members() -> String {
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    format!(
        r#""numbers":[9223372036854775808, 1e400,-0.0,1.10,1E+2],"text":"\u0041\/é\ud83d\ude00\u2028","deep":{deep}, "_meta" : {{"z":1,"a":null}}"#
    )
}

/// R12: a peer's line reaches the host as it was, but for the session id.
#[test]
fn what_a_peer_says_arrives_byte_for_byte() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let (id, prompt) = scene.turn(&session, &mut peer);
    let line = |session: &str| {
        let members = odd_members();
        format!(
            r#"{{ "method":"session/update","jsonrpc" :"2.0","params":{{"x":1,"sessionId":"{session}","update":{{"sessionUpdate":"x_future",{members}}}}},"extra":[ ]}}"#
        )
    };
    peer.raw(format!("{}\n", line(&peer.session())).as_bytes());
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
    let expected = line(&session);
    assert!(scene.host.raw_lines().iter().any(|l| l == expected.as_bytes()), "not as it was said");
}

/// R12: a host's line reaches the peer as it was, but for the two ids.
#[test]
fn what_a_host_says_arrives_byte_for_byte() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let line = |id: &str, session: &str| {
        let members = odd_members();
        format!(
            r#"{{"params":{{{members},"sessionId": "{session}"}}, "id" : {id},"method":"session/from_the_future","jsonrpc":"2.0"}}"#
        )
    };
    scene.host.send_line(&line("77", &session));
    let asked = peer.expect("session/from_the_future");
    let expected = line(&asked["id"].to_string(), &peer.session());
    assert_eq!(peer.raw_lines().last().unwrap(), expected.as_bytes());
    peer.reply(&asked, json!({}));
    assert_eq!(scene.host.result(&json!(77)), json!({}));

    let prompt = |id: &Value, session: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id": {id},"method":"session/prompt","params":{{"sessionId":"{session}","n":1.10,"prompt":[ {{"type":"text","text":"\u0041"}}],"_meta":{{"b":1,"a":2}}}}}}"#
        )
    };
    scene.host.send_line(&prompt(&json!("p1"), &session));
    let asked = peer.expect("session/prompt");
    let expected = prompt(&asked["id"], &peer.session());
    assert_eq!(peer.raw_lines().last().unwrap(), expected.as_bytes());
    peer.end_turn(&asked);
    assert_eq!(scene.host.stop_reason(&json!("p1")), "end_turn");
}

/// R12: answers pass as they were, too.
#[test]
fn answers_keep_their_bytes() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let id = scene.host.request("session/from_the_future", json!({"sessionId": session}));
    let asked = peer.expect("session/from_the_future");
    let answer =
        |id: &Value| format!(r#"{{"result":{{"n":1.10, "b":1,"a":"\u0041"}},"id":{id},"jsonrpc":"2.0"}}"#);
    peer.raw(format!("{}\n", answer(&asked["id"])).as_bytes());
    scene.host.result(&id);
    assert_eq!(scene.host.raw_lines().last().unwrap(), answer(&id).as_bytes());
}

/// R12: what the policy must read cannot say two things at once.
#[test]
fn a_question_with_two_commands_is_refused() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let (id, prompt) = scene.turn(&session, &mut peer);
    let line = format!(
        r#"{{"jsonrpc":"2.0","id":5,"method":"session/request_permission","params":{{"sessionId":"{}","toolCall":{{"toolCallId":"t","kind":"execute","rawInput":{{"command":"ls","command":"git push"}}}},"options":[{{"optionId":"yes","name":"Yes","kind":"allow_once"}}]}}}}"#,
        peer.session()
    );
    peer.raw(format!("{line}\n").as_bytes());
    assert_eq!(peer.answer(&json!(5))["error"]["code"], -32602);
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
    assert!(scene.host.unread().iter().all(|m| m["method"] != "session/request_permission"));
}

/// R13: one bad message takes nothing down.
#[test]
fn malformed_lines_of_a_host_are_answered_without_an_id() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    for (line, code) in [
        ("junk", -32700),
        (r#"{"jsonrpc":"2.0","method":"session/pro"#, -32700),
        ("[]", -32600),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"session/list"}]"#, -32600),
        ("{}", -32600),
        ("3", -32600),
    ] {
        // Bytes, so that the host expects no answer of its own to the batch.
        scene.host.send_raw(format!("{line}\n").as_bytes());
        scene.host.expect_refusal(code);
    }
    scene.plays(&session, &mut peer);
}

/// R13: what the daemon does not know goes to the session's peer, under the peer's own session id.
#[test]
fn unknown_requests_of_a_host_reach_the_peer() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let id = scene.host.request("session/from_the_future", json!({"sessionId": session, "x": 1}));
    let asked = peer.expect("session/from_the_future");
    assert_eq!(asked["params"], json!({"sessionId": peer.session(), "x": 1}));
    peer.reply(&asked, json!({"y": 2}));
    assert_eq!(scene.host.result(&id), json!({"y": 2}));

    let id = scene.host.request("session/from_the_future", json!({"sessionId": session}));
    let asked = peer.expect("session/from_the_future");
    peer.error(&asked, -32099, "not yet");
    assert_eq!(scene.host.error(&id), json!({"code": -32099, "message": "not yet"}));

    scene.host.notify("session/whisper", json!({"sessionId": session}));
    assert_eq!(peer.expect("session/whisper")["params"]["sessionId"], json!(peer.session()));
    scene.plays(&session, &mut peer);
}

/// R13: without a session it goes to the connection's process, and is refused where there is none.
#[test]
fn unknown_requests_without_a_session_go_to_the_process_there_is() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let id = scene.host.request("_future/thing", json!({"x": 1}));
    let asked = peer.expect("_future/thing");
    peer.reply(&asked, json!({}));
    assert_eq!(scene.host.result(&id), json!({}));
    scene.host.notify("future/thing", json!({}));
    let unknown = json!({"sessionId": "00000000-0000-0000-0000-000000000000"});
    let id = scene.host.request("session/from_the_future", unknown);
    assert!(scene.host.error(&id)["code"].is_i64());
    scene.plays(&session, &mut peer);
}

/// R83, R84, R85, R87, R248: whatever a turn says comes through in its order, kinds that nobody knows included.
#[test]
fn updates_of_every_kind_pass_unchanged() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let (id, prompt) = scene.turn(&session, &mut peer);
    let text = |kind: &str, n: usize| json!({"sessionUpdate": kind, "content": {"type": "text", "text": n.to_string()}});
    let mut updates = Vec::new();
    for n in 0..6 {
        updates.push(text(["agent_message_chunk", "agent_thought_chunk"][n % 2], n));
    }
    for done in 0..3 {
        let entry = |n| {
            json!({"content": format!("step {n}"), "priority": "medium",
            "status": if n < done { "completed" } else { "pending" }})
        };
        updates.push(json!({"sessionUpdate": "plan", "entries": (0..3).map(entry).collect::<Vec<_>>()}));
    }
    let kinds = [
        "read",
        "edit",
        "delete",
        "move",
        "search",
        "execute",
        "think",
        "fetch",
        "switch_mode",
        "other",
        "dance",
    ];
    for kind in kinds {
        updates.push(json!({"sessionUpdate": "tool_call", "toolCallId": kind, "title": kind, "kind": kind,
            "status": "in_progress"}));
    }
    for (n, kind) in kinds.iter().enumerate() {
        for status in ["in_progress", ["completed", "failed", "unheard_of"][n % 3]] {
            updates.push(json!({"sessionUpdate": "tool_call_update", "toolCallId": kind, "status": status,
                "content": [{"type": "content", "content": {"type": "text", "text": status}}]}));
        }
    }
    for update in &updates {
        peer.notify("session/update", json!({"sessionId": peer.session(), "update": update}));
    }
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
    let seen = scene.host.unread();
    let seen: Vec<&Value> = seen.iter().map(|message| &message["params"]["update"]).collect();
    assert_eq!(seen, updates.iter().collect::<Vec<_>>());
}

/// R90: the commands of an agent that names them too early come behind the answer that opens their session.
#[test]
fn commands_come_behind_the_answer_that_opens_their_session() {
    let mut scene = Scene::silent(|_| {});
    let answer = json!({"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []});
    let (_, _warm) = scene.initialise(&answer);
    let id = scene.host.request_session(&scene.sandbox.cwd("work"));
    let mut peer = scene.puppets.next();
    let initialize = peer.expect("initialize");
    peer.reply(&initialize, answer);
    let new = peer.expect("session/new");
    let commands = json!({"sessionUpdate": "available_commands_update", "availableCommands": []});
    peer.notify("session/update", json!({"sessionId": "early", "update": commands}));
    peer.reply(&new, json!({"sessionId": "early"}));
    let first = scene.host.next();
    assert_eq!(first["id"], id, "the answer comes first: {first}");
    let told = scene.host.expect_update();
    assert_eq!(told["params"], json!({"sessionId": first["result"]["sessionId"], "update": commands}));
    assert!(scene.host.unread().is_empty(), "and once");
}
