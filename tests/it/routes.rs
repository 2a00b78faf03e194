//! Whose a line is and where it goes: other sessions, children, questions, services of the host, and what nobody
//! knows yet (R105 to R107, R135, R142, R229, R275 to R277).

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    host::Host,
    line,
    peer::Peer,
    process::{self, PATIENCE, wait_until},
    scene::Scene,
};

/// A host that can do everything.
fn able() -> Value {
    json!({
        "fs": {"readTextFile": true, "writeTextFile": true},
        "terminal": true,
        "elicitation": {"form": {}},
        "subagents": {},
    })
}

/// Announces a child session of the peer's own.
fn announce(peer: &mut Peer, child: &str, capabilities: &Value) {
    let update =
        json!({"sessionUpdate": "subagent_update", "sessionId": child, "capabilities": capabilities});
    let params = json!({"sessionId": peer.session(), "update": update});
    peer.notify("session/update", params);
}

fn permission(session: &str, call: &str) -> Value {
    let options = json!([{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]);
    json!({"sessionId": session, "toolCall": {"toolCallId": call, "kind": "execute"}, "options": options})
}

fn elicitation(scope: Value) -> Value {
    let mut params = json!({"mode": "form", "message": "?", "requestedSchema": {"type": "object"}});
    params.as_object_mut().unwrap().extend(scope.as_object().unwrap().clone());
    params
}

/// Whether those bytes arrived as one line.
fn arrived(lines: &[Vec<u8>], line: &str) -> bool {
    lines.iter().any(|l| l == line.as_bytes())
}

/// R105: what is of another session reaches nobody, and supplies nothing.
#[test]
fn updates_of_another_session_stay_out() {
    let mut scene = Scene::with(able(), |_| {});
    let (session, mut peer) = scene.session("work");
    let (id, prompt) = scene.turn(&session, &mut peer);
    peer.update_as("another-session", "not mine");
    for method in ["session/request_permission", "fs/read_text_file", "terminal/create", "_vendor/ask"] {
        let mut params = permission("another-session", "t");
        params["path"] = json!("/a");
        let asked = peer.request(method, params);
        let error = peer.answer(&asked)["error"].clone();
        assert_eq!(
            (&error["code"], &error["data"]["sessionId"]),
            (&json!(-32002), &json!("another-session"))
        );
    }
    peer.notify("_vendor/note", json!({"sessionId": "another-session"}));
    peer.update("mine");
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
    let seen = scene.host.unread();
    assert_eq!(seen.len(), 1, "{seen:#?}");
    assert_eq!(line::text(&seen[0]), Some("mine"));
    scene.sandbox.wait_peer_count(&session, "foreign_updates", 2);
}

/// R105: what comes for a session that is being opened is bounded.
#[test]
fn too_many_early_updates_fail_the_start() {
    let mut scene = Scene::silent(|_| {});
    let (_, mut peer) =
        scene.initialise(&json!({"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []}));
    let id = scene.host.request_session(&scene.sandbox.cwd("home"));
    peer.expect("session/new");
    peer.command("flood 1100 16 early");
    let message = scene.host.error(&id)["message"].as_str().unwrap().to_owned();
    assert!(message.contains("more updates than are kept"), "{message}");
    peer.wait_gone();
}

/// R107, R109: everything of a session leaves in the order in which its peer said it.
#[test]
fn everything_leaves_in_the_order_of_the_peer() {
    let mut scene = Scene::with(able(), |_| {});
    let (session, mut peer) = scene.session("work");
    for round in 0..100 {
        let (turn, prompt) = scene.turn(&session, &mut peer);
        let other = scene.host.request("session/from_the_future", json!({"sessionId": session}));
        let asked = peer.expect("session/from_the_future");
        let ours = peer.session();
        let request = |n: u64, method: &str, params: Value| json!({"jsonrpc": "2.0", "id": 1_000 * (round + 1) + n, "method": method, "params": params});
        let written = [
            line::chunk(&ours, "a"),
            request(1, "session/request_permission", permission(&ours, "t")),
            line::chunk(&ours, "b"),
            request(2, "fs/read_text_file", json!({"sessionId": ours, "path": "/a"})),
            json!({"jsonrpc": "2.0", "id": asked["id"], "result": {}}),
            request(3, "foo/bar", json!({"sessionId": ours})),
            request(4, "_vendor/ask", json!({})),
            json!({"jsonrpc": "2.0", "method": "_vendor/note", "params": {}}),
            line::chunk(&ours, "c"),
        ];
        let text: String = written.iter().map(|m| format!("{m}\n")).collect();
        peer.raw(text.as_bytes());
        let seen: Vec<Value> = (0..8).map(|_| scene.host.next()).collect();
        let name = |m: &Value| {
            let answer = m["id"] == other && m.get("method").is_none();
            let named = if answer { "answer" } else { m["method"].as_str().unwrap() };
            line::text(m).unwrap_or(named).to_owned()
        };
        let names: Vec<String> = seen.iter().map(name).collect();
        assert_eq!(
            names,
            [
                "a",
                "session/request_permission",
                "b",
                "fs/read_text_file",
                "answer",
                "_vendor/ask",
                "_vendor/note",
                "c"
            ],
            "round {round}"
        );
        for request in seen.iter().filter(|m| m.get("method").is_some() && m.get("id").is_some()) {
            scene.host.reply(request, json!({}));
        }
        for n in 1..=4 {
            peer.answer(&json!(1_000 * (round + 1) + n));
        }
        peer.end_turn(&prompt);
        assert_eq!(scene.host.stop_reason(&turn), "end_turn");
    }
}

/// R135: a hundred questions, some of them open at once, are answered each with its own answer, once.
#[test]
fn every_question_gets_its_own_answer_once() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let (turn, prompt) = scene.turn(&session, &mut peer);
    for round in 0..10 {
        let ids: Vec<Value> = (0..10).map(|n| peer.ask_permission(&format!("{round}.{n}"), "ls")).collect();
        let mut asked: Vec<Value> =
            (0..10).map(|_| scene.host.expect("session/request_permission")).collect();
        asked.reverse();
        for question in &asked {
            let call = question["params"]["toolCall"]["toolCallId"].clone();
            let outcome = json!({"outcome": "selected", "optionId": "yes", "_meta": {"of": call}});
            scene.host.reply(question, json!({"outcome": outcome}));
        }
        for (n, id) in ids.iter().enumerate() {
            let outcome = peer.answer(id)["result"]["outcome"].clone();
            assert_eq!(outcome["_meta"]["of"], json!(format!("{round}.{n}")));
        }
        for question in &asked {
            scene.host.choose(question, "no");
        }
    }
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&turn), "end_turn");
    assert!(peer.unread().iter().all(|m| m.get("method").is_some()), "no question was answered twice");
}

/// R142: a permission request reaches the host as the peer wrote it, but for the ids.
#[test]
fn a_permission_request_keeps_its_bytes() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let question = |id: &str, session: &str| {
        format!(
            r#"{{ "method":"session/request_permission","params":{{"options":[ {{"kind":"allow_once","optionId":"a\u0062","name":"\u00fc"}},{{"optionId":"z","kind":"from_the_future","name":""}}],"sessionId":"{session}","toolCall":{{"toolCallId":"t","rawInput":{{"n":1.10,"b":1,"a":[null]}},"content":[{{"type":"diff","path":"/a","oldText":null,"newText":"x"}}]}},"_meta":{{"sessionId":"mine"}}}},"id": {id},"jsonrpc":"2.0"}}"#
        )
    };
    peer.raw(format!("{}\n", question("\"q\"", &peer.session())).as_bytes());
    let asked = scene.host.expect("session/request_permission");
    let expected = question(&asked["id"].to_string(), &session);
    assert!(arrived(scene.host.raw_lines(), &expected), "{asked}");
    let answer = |id: &str| {
        format!(
            r#"{{"result":{{"outcome":{{"optionId":"a\u0062","outcome":"selected"}},"_meta":{{"n":1.50}}}},"jsonrpc":"2.0" ,"id":{id}}}"#
        )
    };
    scene.host.send_line(&answer(&asked["id"].to_string()));
    peer.answer(&json!("q"));
    assert!(arrived(peer.raw_lines(), &answer("\"q\"")));
}

/// R32: an elicitation goes to a host that declared its mode; another mode is refused as such.
#[test]
fn elicitations_go_to_hosts_that_declared_them() {
    let mut scene = Scene::with(able(), |_| {});
    let (session, mut peer) = scene.session("work");
    let ask = peer.request("elicitation/create", elicitation(json!({"sessionId": peer.session()})));
    let asked = scene.host.expect("elicitation/create");
    assert_eq!(asked["params"], elicitation(json!({"sessionId": session})));
    scene.host.reply(&asked, json!({"action": "accept", "content": {"n": 1.5}}));
    assert_eq!(peer.answer(&ask)["result"], json!({"action": "accept", "content": {"n": 1.5}}));
    let url = json!({"sessionId": peer.session(), "mode": "url", "url": "http://a", "elicitationId": "e"});
    let ask = peer.request("elicitation/create", elicitation(url));
    assert_eq!(peer.answer(&ask)["error"]["code"], -32602);
    peer.notify("elicitation/complete", json!({"elicitationId": "e"}));
    assert_eq!(scene.host.expect("elicitation/complete")["params"], json!({"elicitationId": "e"}));
}

/// R12: an elicitation about a request names that request on each wire, also before there is a session.
#[test]
fn an_elicitation_names_its_request_on_each_wire() {
    let mut scene = Scene::silent(|_| {});
    let id = scene.host.request_initialize(able());
    let mut peer = scene.puppets.next();
    let initialize = peer.expect("initialize");
    let login = json!([{"id": "login", "name": "Log in"}]);
    peer.reply(&initialize, json!({"protocolVersion": 1, "agentCapabilities": {}, "authMethods": login}));
    scene.host.result(&id);
    let elicit = |scene: &mut Scene, peer: &mut Peer, asked: &Value, id: &Value| {
        let ask = peer.request("elicitation/create", elicitation(json!({"requestId": asked["id"]})));
        let seen = scene.host.expect("elicitation/create");
        assert_eq!(seen["params"], elicitation(json!({"requestId": id})));
        scene.host.reply(&seen, json!({"action": "decline"}));
        assert_eq!(peer.answer(&ask)["result"], json!({"action": "decline"}));
    };
    // Ids as an editor may write them, so that they cannot be taken for the peer's.
    let params = json!({"methodId": "login"});
    let id = json!("login please");
    scene.host.send(&json!({"jsonrpc": "2.0", "id": id, "method": "authenticate", "params": params}));
    let asked = peer.expect("authenticate");
    elicit(&mut scene, &mut peer, &asked, &id);
    peer.reply(&asked, json!({}));
    scene.host.result(&id);

    let (id, cwd) = (json!(-7), scene.sandbox.cwd("home"));
    let params = json!({"cwd": cwd, "mcpServers": []});
    scene.host.send(&json!({"jsonrpc": "2.0", "id": id, "method": "session/new", "params": params}));
    let asked = peer.expect("session/new");
    elicit(&mut scene, &mut peer, &asked, &id);
    peer.reply(&asked, json!({"sessionId": "s"}));
    let session = scene.host.result(&id)["sessionId"].as_str().unwrap().to_owned();

    let (id, prompt) = scene.turn(&session, &mut peer);
    elicit(&mut scene, &mut peer, &prompt, &id);
    for nobodys in [json!(999), json!("x"), asked["id"].clone()] {
        let ask = peer.request("elicitation/create", elicitation(json!({"requestId": nobodys})));
        assert_eq!(peer.answer(&ask)["error"]["code"], -32602, "{nobodys}");
    }
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
    assert!(scene.host.unread().is_empty());
}

/// R12: a `requestId` that is no id of the wire passes as it is.
#[test]
fn other_request_ids_pass() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let (turn, prompt) = scene.turn(&session, &mut peer);
    let params = json!({"requestId": prompt["id"], "serverId": "x"});
    let ask = peer.request("_mcp/message", params.clone());
    let asked = scene.host.expect("_mcp/message");
    assert_eq!(asked["params"], params);
    scene.host.reply(&asked, json!({}));
    peer.answer(&ask);
    peer.notify("_mcp/message", params.clone());
    assert_eq!(scene.host.expect("_mcp/message")["params"], params);
    let id = scene.host.request("_mcp/message", json!({"sessionId": session, "requestId": turn}));
    let asked = peer.expect("_mcp/message");
    assert_eq!(asked["params"], json!({"sessionId": peer.session(), "requestId": turn}));
    peer.reply(&asked, json!({}));
    scene.host.result(&id);
}

/// R163, R251: terminals that a dead peer left at the host are released for it, each once.
#[test]
fn terminals_of_a_dead_peer_are_released() {
    let mut scene = Scene::with(able(), |_| {});
    let (session, mut peer) = scene.session("work");
    let (turn, _prompt) = scene.turn(&session, &mut peer);
    let create = json!({"sessionId": peer.session(), "command": "make"});
    for name in ["t0", "t1", "t2"] {
        let ask = peer.request("terminal/create", create.clone());
        let asked = scene.host.expect("terminal/create");
        scene.host.reply(&asked, json!({"terminalId": name}));
        assert_eq!(peer.answer(&ask)["result"]["terminalId"], name);
    }
    let release = json!({"sessionId": peer.session(), "terminalId": "t1"});
    let ask = peer.request("terminal/release", release);
    let asked = scene.host.expect("terminal/release");
    scene.host.reply(&asked, Value::Null);
    peer.answer(&ask);
    peer.request("terminal/create", create);
    let unanswered = scene.host.expect("terminal/create");
    process::signal(peer.pid(), Signal::KILL);
    scene.host.error(&turn);
    for name in ["t0", "t2"] {
        let asked = scene.host.expect("terminal/release");
        assert_eq!(asked["params"], json!({"sessionId": session, "terminalId": name}));
        scene.host.reply(&asked, json!({}));
    }
    assert_eq!(scene.host.expect("$/cancel_request")["params"]["requestId"], unanswered["id"]);
    // A host may have made it all the same.
    scene.host.reply(&unanswered, json!({"terminalId": "t3"}));
    let asked = scene.host.expect("terminal/release");
    assert_eq!(asked["params"]["terminalId"], "t3");
    scene.host.reply(&asked, json!({}));
    assert!(scene.host.unread().iter().all(|m| m["method"] != "terminal/release"));
}

/// R163: nor does a session that is closed leave any.
#[test]
fn terminals_of_a_closed_session_are_released() {
    let mut scene = Scene::with(able(), |_| {});
    let (session, mut peer) = scene.session("work");
    let ask = peer.request("terminal/create", json!({"sessionId": peer.session(), "command": "make"}));
    let asked = scene.host.expect("terminal/create");
    scene.host.reply(&asked, json!({"terminalId": "t"}));
    peer.answer(&ask);
    let id = scene.host.request("session/close", json!({"sessionId": session}));
    let asked = scene.host.expect("terminal/release");
    assert_eq!(asked["params"], json!({"sessionId": session, "terminalId": "t"}));
    scene.host.reply(&asked, json!({}));
    scene.host.result(&id);
}

/// R229: only the peer's own id is replaced, where the protocol puts it; children and `_meta` pass.
#[test]
fn only_the_peers_own_id_is_replaced() {
    let mut scene = Scene::with(able(), |_| {});
    let (session, mut peer) = scene.session("work");
    let ours = peer.session();
    peer.update_as("child", "too early");
    announce(&mut peer, "child", &Value::Null);
    let announced = scene.host.expect_update();
    assert_eq!(announced["params"]["sessionId"], json!(session));
    assert_eq!(announced["params"]["update"]["sessionId"], "child");
    let update = |own: &str| {
        json!({
            "sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": own_free()},
            "senderSessionId": own, "recipientSessionId": "child", "_meta": {"sessionId": ours},
        })
    };
    let line = |own: &str| json!({"sessionId": "child", "update": update(own), "_meta": {"sessionId": ours}});
    peer.notify("session/update", line(&ours));
    assert_eq!(scene.host.expect_update()["params"], line(&session));
    let content =
        |own: &str| json!([{"type": "session", "sessionId": own}, {"type": "session", "sessionId": "child"}]);
    let call = |own: &str| {
        let update =
            json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": ours, "content": content(own)});
        json!({"sessionId": own, "update": update})
    };
    peer.notify("session/update", call(&ours));
    assert_eq!(scene.host.expect_update()["params"], call(&session));
    let id = scene.host.request("session/from_the_future", json!({"sessionId": session, "of": session}));
    let asked = peer.expect("session/from_the_future");
    assert_eq!(asked["params"], json!({"sessionId": ours, "of": session}));
    let error = |own: &str| json!({"code": -32002, "message": "?", "data": {"sessionId": own}});
    peer.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "error": error(&ours)}));
    assert_eq!(scene.host.error(&id), error(&session));
}

fn own_free() -> &'static str {
    "a child speaks"
}

/// R276: children take their parent's routes to the host, under their own ids.
#[test]
fn children_take_their_parents_routes() {
    let mut scene = Scene::with(able(), |_| {});
    let (session, mut peer) = scene.session("work");
    let (turn, prompt) = scene.turn(&session, &mut peer);
    for child in ["c1", "c2"] {
        announce(&mut peer, child, &json!({}));
    }
    for (method, params) in [
        ("session/request_permission", permission("c1", "t")),
        ("fs/read_text_file", json!({"sessionId": "c1", "path": "/a"})),
        ("terminal/create", json!({"sessionId": "c2", "command": "ls"})),
        ("elicitation/create", elicitation(json!({"sessionId": "c2"}))),
    ] {
        let ask = peer.request(method, params.clone());
        let asked = scene.host.expect(method);
        assert_eq!(asked["params"], params);
        scene.host.reply(&asked, json!({"of": method}));
        assert_eq!(peer.answer(&ask)["result"]["of"], method);
    }
    let ask = peer.request("session/request_permission", permission("c3", "t"));
    assert_eq!(peer.answer(&ask)["error"]["code"], -32002, "nobody announced it");
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&turn), "end_turn");
    peer.update_as("c1", "still at work");
    assert_eq!(scene.host.expect("session/update")["params"]["update"]["sessionUpdate"], "subagent_update");
    assert_eq!(scene.host.expect_text(), "still at work");
}

/// R276: the end of its parent's turn takes neither a child's question nor its tool calls with it.
#[test]
fn a_child_is_not_its_parents_turn() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    announce(&mut peer, "child", &json!({"cancel": {}}));
    for cancelled in [false, true] {
        let (turn, prompt) = scene.turn(&session, &mut peer);
        let call =
            json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "t", "status": "pending"});
        peer.notify("session/update", json!({"sessionId": "child", "update": call}));
        let ask = peer.request("session/request_permission", permission("child", "t"));
        let asked = scene.host.expect("session/request_permission");
        if cancelled {
            scene.host.cancel(&session);
            assert_eq!(peer.expect("session/cancel")["params"]["sessionId"], json!(peer.session()));
        }
        peer.reply(&prompt, json!({"stopReason": if cancelled { "cancelled" } else { "end_turn" }}));
        scene.host.result(&turn);
        scene.host.choose(&asked, "yes");
        assert_eq!(peer.answer(&ask)["result"]["outcome"]["optionId"], "yes");
        let seen = scene.host.unread();
        assert!(seen.iter().all(|m| m["method"] != "$/cancel_request"), "{seen:#?}");
        assert!(seen.iter().all(|m| m["params"]["update"]["status"] != "failed"), "{seen:#?}");
    }
}

/// R276: a cancel reaches a child only where the peer announced that it may, and takes its questions back.
#[test]
fn a_cancel_reaches_a_child_that_announced_it() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    announce(&mut peer, "deaf", &json!({}));
    announce(&mut peer, "tame", &json!({"cancel": {}}));
    announce(&mut peer, "tame", &json!({"cancel": {}}));
    for _ in 0..3 {
        scene.host.expect_update();
    }
    let (turn, prompt) = scene.turn(&session, &mut peer);
    let ask = peer.request("session/request_permission", permission("tame", "t"));
    let asked = scene.host.expect("session/request_permission");
    scene.host.cancel("deaf");
    scene.host.cancel("unknown");
    scene.host.cancel("tame");
    let answer = peer
        .take("the answer or the cancel", |m| m.get("method").is_none() || m["method"] == "session/cancel");
    assert_eq!((&answer["id"], &answer["result"]["outcome"]["outcome"]), (&ask, &json!("cancelled")));
    assert_eq!(peer.expect("session/cancel")["params"], json!({"sessionId": "tame"}));
    assert_eq!(scene.host.expect("$/cancel_request")["params"]["requestId"], asked["id"]);
    peer.update("the parent goes on");
    assert_eq!(scene.host.expect_text(), "the parent goes on");
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&turn), "end_turn");
    // Announced anew without it, it may no more.
    announce(&mut peer, "tame", &Value::Null);
    scene.host.expect_update();
    scene.host.cancel("tame");
    scene.plays(&session, &mut peer);
    assert!(peer.unread().iter().all(|m| m["method"] != "session/cancel"));
    for method in ["session/prompt", "session/set_mode", "session/close"] {
        let id = scene.host.request(method, json!({"sessionId": "tame", "prompt": [], "modeId": "x"}));
        let answer = scene.host.answer(&id);
        assert!(answer["error"]["code"] == -32002 || answer["result"] == json!({}), "{method}: {answer}");
    }
    assert!(peer.unread().iter().all(|m| m["params"]["sessionId"] != "tame"), "nothing but a cancel is its");
}

/// R276: the children of one process are nobody's after it.
#[test]
fn children_go_with_their_process() {
    let mut scene = Scene::playing(json!({"sessionCapabilities": {"resume": {}}}), json!({}), |_| {});
    let (session, mut peer) = scene.session("work");
    announce(&mut peer, "child", &json!({"cancel": {}}));
    scene.host.expect_update();
    process::signal(peer.pid(), Signal::KILL);
    scene.host.expect_update();
    let id = scene.host.prompt(&session, "again");
    let mut peer = scene.puppets.serving();
    let prompt = peer.expect("session/prompt");
    scene.host.cancel("child");
    peer.update_as("child", "who?");
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
    assert!(scene.host.unread().is_empty());
    assert!(peer.unread().iter().all(|m| m["method"] != "session/cancel"));
}

/// A host and a peer of tomorrow, and their session: capabilities that nobody knows yet arrive (R275).
fn tomorrow() -> (Scene, Peer, String) {
    let hologram = json!({"hologram": {"depth": 1.5}, "fs": {"readTextFile": true, "readSmell": true}});
    let mut scene = Scene::silent(|_| {});
    let id = scene.host.request_initialize(hologram.clone());
    let mut peer = scene.puppets.next();
    let initialize = peer.expect("initialize");
    assert_eq!(initialize["params"]["clientCapabilities"], hologram);
    let offer = json!({"telepathy": {}, "promptCapabilities": {"smell": true}});
    let answer = json!({"protocolVersion": 1, "agentCapabilities": offer, "authMethods": [], "later": [1]});
    peer.reply(&initialize, answer);
    let offered = scene.host.result(&id);
    assert_eq!(offered["agentCapabilities"]["telepathy"], json!({}));
    assert_eq!(offered["agentCapabilities"]["promptCapabilities"], json!({"smell": true}));
    assert_eq!(offered["later"], json!([1]));
    let id = scene.host.request_session(&scene.sandbox.cwd("home"));
    peer.take_session();
    let session = scene.host.result(&id)["sessionId"].as_str().unwrap().to_owned();
    (scene, peer, session)
}

/// R275: a peer of tomorrow and a host of tomorrow hear each other byte for byte.
#[test]
fn the_future_is_passed_on() {
    let (mut scene, mut peer, session) = tomorrow();
    let ours = peer.session();

    let prompt = |id: &str, session: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"session/prompt","params":{{"sessionId":"{session}","prompt":[{{"type":"smell","of":1.10}},{{"type":"text","text":"x","mood":null}}],"urgency":"high"}}}}"#
        )
    };
    scene.host.send_line(&prompt("\"tomorrow\"", &session));
    let asked = peer.expect("session/prompt");
    assert!(arrived(peer.raw_lines(), &prompt(&asked["id"].to_string(), &ours)));

    let updates = |session: &str| {
        [
            r#"{"sessionUpdate":"dream","vividness":1.10}"#,
            r#"{"sessionUpdate":"tool_call","toolCallId":"t","title":"?","kind":"levitate","status":"floating","content":[{"type":"hologram","n":1e2}]}"#,
            r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"evaporated"}"#,
            r#"{"sessionUpdate":"plan","entries":[{"content":"c","priority":"cosmic","status":"maybe"}]}"#,
            r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"smell","of":"\u00e9"},"messageId":5}"#,
        ]
        .map(|update| {
            format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"update":{update},"sessionId":"{session}"}},"later":0}}"#)
        })
    };
    for line in updates(&ours) {
        peer.raw(format!("{line}\n").as_bytes());
    }
    let question = |id: &str, session: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"session/request_permission","params":{{"sessionId":"{session}","toolCall":{{"toolCallId":"t","kind":"levitate"}},"options":[{{"optionId":"o","name":"n","kind":"allow_at_full_moon"}}],"mood":"?"}}}}"#
        )
    };
    peer.raw(format!("{}\n", question("\"q\"", &ours)).as_bytes());
    let seen = scene.host.expect("session/request_permission");
    assert!(arrived(scene.host.raw_lines(), &question(&seen["id"].to_string(), &session)));
    for line in updates(&session) {
        assert!(arrived(scene.host.raw_lines(), &line), "{line}");
    }
    let chosen = |id: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"outcome":{{"outcome":"selected","optionId":"o","until":1.50}},"later":[]}}}}"#
        )
    };
    scene.host.send_line(&chosen(&seen["id"].to_string()));
    peer.answer(&json!("q"));
    assert!(arrived(peer.raw_lines(), &chosen("\"q\"")));

    scene.host.notify("session/hum", json!({"sessionId": session, "tone": "a"}));
    assert_eq!(peer.expect("session/hum")["params"], json!({"sessionId": ours, "tone": "a"}));
    peer.notify("session/hum", json!({"sessionId": ours}));
    assert_eq!(scene.host.expect("session/hum")["params"], json!({"sessionId": session}));

    let ended = |id: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","result":{{"stopReason":"enlightened","usage":{{"joules":1.10}}}},"id":{id}}}"#
        )
    };
    peer.raw(format!("{}\n", ended(&asked["id"].to_string())).as_bytes());
    assert_eq!(scene.host.stop_reason(&json!("tomorrow")), "enlightened");
    assert!(arrived(scene.host.raw_lines(), &ended("\"tomorrow\"")));
    scene.plays(&session, &mut peer);
}

/// R277: hosts of every habit, one after the other on one connection.
#[test]
fn hosts_of_every_habit_are_served() {
    let mut scene = Scene::with(able(), |_| {});
    let (session, mut peer) = scene.session("work");
    // Ids of each type, alike as they may look, open at the same time; answered in another order.
    let ids = [json!(1_000), json!("1000"), Value::Null, json!(""), json!(-1), json!("null")];
    for (n, id) in ids.iter().enumerate() {
        let params = json!({"sessionId": session, "n": n});
        let request =
            json!({"jsonrpc": "2.0", "id": id, "method": "session/from_the_future", "params": params});
        scene.host.send(&request);
    }
    let asked: Vec<Value> = ids.iter().map(|_| peer.expect("session/from_the_future")).collect();
    for request in asked.iter().rev() {
        peer.reply(request, json!({"n": request["params"]["n"]}));
    }
    for (n, id) in ids.iter().enumerate() {
        assert_eq!(scene.host.result(id), json!({"n": n}), "{id}");
    }
    // A result that is null, params that are absent, null or a list.
    let id = scene.host.request("session/from_the_future", json!({"sessionId": session}));
    let asked = peer.expect("session/from_the_future");
    peer.reply(&asked, Value::Null);
    assert_eq!(scene.host.answer(&id)["result"], Value::Null);
    let write = peer.request("fs/write_text_file", json!({"sessionId": peer.session(), "path": "/a"}));
    let asked = scene.host.expect("fs/write_text_file");
    scene.host.reply(&asked, Value::Null);
    let answer = peer.answer(&write);
    assert_eq!((answer.get("result"), answer.get("error")), (Some(&Value::Null), None));
    for (n, params) in ["", r#","params":null"#, r#","params":[1]"#].iter().enumerate() {
        scene
            .host
            .send_line(&format!(r#"{{"jsonrpc":"2.0","id":{},"method":"_vendor/x"{params}}}"#, 2_000 + n));
        let asked = peer.expect("_vendor/x");
        peer.reply(&asked, json!({}));
        assert_eq!(scene.host.result(&json!(2_000 + n)), json!({}));
        scene
            .host
            .send_line(&format!(r#"{{"jsonrpc":"2.0","id":{},"method":"session/new"{params}}}"#, 3_000 + n));
        assert_eq!(scene.host.error(&json!(3_000 + n))["code"], -32602);
    }
    // The same id twice: the second is refused, the first goes on.
    let prompt = json!({"jsonrpc": "2.0", "id": "twice", "method": "session/prompt",
        "params": {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]}});
    scene.host.send(&prompt);
    let asked = peer.expect("session/prompt");
    scene.host.send(&prompt);
    assert_eq!(scene.host.error(&json!("twice"))["code"], -32600);
    // Answers to nothing, and one that comes twice.
    scene.host.send_line(r#"{"jsonrpc":"2.0","id":99999,"result":{}}"#);
    scene.host.send_line(r#"{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"?"}}"#);
    scene.host.send_line(r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"?"}}"#);
    let ask = peer.ask_permission("t", "ls");
    let question = scene.host.expect("session/request_permission");
    scene.host.choose(&question, "yes");
    scene.host.choose(&question, "no");
    assert_eq!(peer.answer(&ask)["result"]["outcome"]["optionId"], "yes");
    peer.end_turn(&asked);
    assert_eq!(scene.host.stop_reason(&json!("twice")), "end_turn");
    scene.plays(&session, &mut peer);
    assert!(scene.host.unread().is_empty());
}

/// R277: requests that are open when their connection ends take nothing down with them.
#[test]
fn a_connection_may_end_with_requests_open() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    for _ in 0..10 {
        let mut hasty = scene.another();
        hasty.request_session(&scene.sandbox.cwd("a"));
        hasty.request("authenticate", json!({"methodId": "x"}));
        hasty.prompt("01900000-0000-7000-8000-000000000000", "x");
    }
    let mut busy: Host = scene.another();
    let other = busy.new_session(&scene.sandbox.cwd("b"));
    let mut theirs = scene.puppets.serving();
    while theirs.hello.cwd != scene.sandbox.cwd("b") {
        theirs = scene.puppets.serving();
    }
    busy.prompt(&other, "go");
    busy.request("session/from_the_future", json!({"sessionId": other}));
    theirs.expect("session/from_the_future");
    drop(busy);
    theirs.wait_gone_within(PATIENCE);
    wait_until("only the first session is left", PATIENCE, || {
        scene.sandbox.control("status", json!({}))["residency"]["resident"] == 1
    });
    scene.plays(&session, &mut peer);
}
