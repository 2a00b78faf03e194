//! What goes wrong in one place stays there and says why (groups L and Q).

use std::collections::BTreeSet;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    host::Host,
    line,
    process::{self, PATIENCE, wait_until},
    sandbox::Sandbox,
    scene::Scene,
};

/// A scene whose daemon panics when an actor of that kind takes a line with `FAULT` in it.
fn fragile(kind: &str) -> Scene {
    Scene::brisk(|sandbox| sandbox.env("ACPVISOR_FAULT", &format!("panic-{kind}-on=FAULT")))
}

fn message(error: &Value) -> &str {
    error["message"].as_str().unwrap_or_default()
}

/// R238: every refusal has its code.
#[test]
fn every_refusal_has_its_code() {
    let mut scene = Scene::with(json!({}), |sandbox| {
        sandbox.set("limits", "sessions_max = 2");
        sandbox.set("limits", "warm_ms = 100");
    });
    wait_until("the warm process is gone", PATIENCE, || scene.sandbox.sessions().is_empty());
    let cwd = scene.sandbox.cwd("work");
    let mut early = Host::direct(&scene.sandbox);
    let id = early.request_session(&cwd);
    assert_eq!(early.error(&id)["code"], -32600, "before initialize");

    let host = &mut scene.host;
    host.send_raw(b"{\"jsonrpc\":\"2.0\",\n");
    host.expect_refusal(-32700);
    host.send_raw(b"[]\n{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"x\"}\n");
    host.expect_refusal(-32600);
    host.expect_refusal(-32600);

    let (session, mut peer) = scene.session("work");
    let (running, prompt) = scene.turn(&session, &mut peer);
    let nobody = "01900000-0000-7000-8000-000000000000";
    let text = json!([{"type": "text", "text": "x"}]);
    let table = [
        ("session/list", json!({"cwd": "relative"}), -32602),
        ("session/load", json!({"sessionId": nobody, "cwd": cwd, "mcpServers": []}), -32002),
        ("session/load", json!({"sessionId": session, "cwd": "work", "mcpServers": []}), -32602),
        ("session/fork", json!({"sessionId": session}), -32602),
        ("session/set_mode", json!({"sessionId": session, "modeId": "turbo"}), -32602),
        ("session/new", json!({"cwd": "work", "mcpServers": []}), -32602),
        ("session/new", json!({"mcpServers": []}), -32602),
        ("session/resume", json!({"sessionId": "../x", "cwd": cwd, "mcpServers": []}), -32602),
        ("session/prompt", json!({"prompt": text}), -32602),
        ("session/prompt", json!({"sessionId": nobody, "prompt": text}), -32002),
        ("session/set_mode", json!({"sessionId": nobody, "modeId": "x"}), -32002),
        ("session/resume", json!({"sessionId": nobody, "cwd": cwd, "mcpServers": []}), -32002),
        ("session/from_the_future", json!({"sessionId": nobody}), -32002),
    ];
    for (method, params, code) in table {
        let id = scene.host.request(method, params.clone());
        let error = scene.host.error(&id);
        assert_eq!(error["code"], code, "{method} {params}: {error}");
        assert!(!message(&error).is_empty());
        if code == -32002 {
            assert_eq!(error["data"]["sessionId"], nobody, "{method}: {error}");
        }
    }

    let waiting = scene.host.prompt(&session, "behind");
    scene.host.notify("$/cancel_request", json!({"requestId": waiting}));
    assert_eq!(scene.host.error(&waiting)["code"], -32800);
    scene.host.send(&json!({"jsonrpc": "2.0", "id": running, "method": "session/prompt",
        "params": {"sessionId": session, "prompt": text}}));
    assert_eq!(scene.host.error(&running)["code"], -32600, "an id that is open");
    peer.error(&prompt, -31999, "my own");
    let own = scene.host.error(&running);
    assert_eq!((&own["code"], message(&own)), (&json!(-31999), "my own"));

    scene.session("second");
    let id = scene.host.request_session(&scene.sandbox.cwd("third"));
    let error = scene.host.error(&id);
    let facts =
        (&error["code"], &error["data"]["resource"], &error["data"]["limit"], &error["data"]["retryable"]);
    assert_eq!(facts, (&json!(-32603), &json!("resident_runtimes"), &json!(2), &json!(true)));
}

/// R238, R24: what an agent says when it refuses a session reaches the host as it was said.
#[test]
fn an_agents_own_refusal_passes_unchanged() {
    let mut sandbox = Sandbox::new();
    let mut puppets = sandbox.puppet_agent("p");
    sandbox.start();
    let mut host = Host::direct(&sandbox);
    let id = host.request_initialize(json!({}));
    let mut peer = puppets.next();
    let initialize = peer.expect("initialize");
    peer.reply(&initialize, json!({"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []}));
    host.result(&id);
    for (code, stays) in [(-32000, true), (-32603, false)] {
        let cwd = sandbox.cwd(&format!("work{code}"));
        let id = host.request_session(&cwd);
        let mut peer = puppets.next();
        let initialize = peer.expect("initialize");
        peer.reply(&initialize, json!({"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []}));
        let new = peer.expect("session/new");
        let error = json!({"code": code, "message": "in my own words", "data": {"my": ["own"]}});
        peer.send(&json!({"jsonrpc": "2.0", "id": new["id"], "error": error}));
        assert_eq!(host.error(&id), error);
        if stays {
            assert!(process::alive(peer.pid()), "it stays for the login");
        } else {
            peer.wait_gone();
        }
    }
}

/// R239, HANG-07: a panic in a session is its own: its requests are answered, its process goes, the log says
/// where, and everybody else goes on.
#[test]
fn a_panic_in_a_session_stays_there() {
    let mut scene = fragile("session");
    let (a, mut peer_a) = scene.session("a");
    let (b, mut peer_b) = scene.session("b");
    let (busy, prompt) = scene.turn(&b, &mut peer_b);
    let (pending, _) = scene.turn(&a, &mut peer_a);
    let struck = scene.host.prompt(&a, "FAULT");
    for id in [&pending, &struck] {
        let error = scene.host.error(id);
        assert_eq!(error["code"], -32603);
        assert!(message(&error).contains(&a), "{error}");
    }
    peer_a.wait_gone();
    let after = scene.host.prompt(&a, "anybody?");
    assert_eq!(scene.host.error(&after)["code"], -32002);
    peer_b.update("undisturbed");
    peer_b.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&busy), "end_turn");
    assert_eq!(scene.host.unread_text(), "undisturbed");
    wait_until("the panic is logged", PATIENCE, || scene.sandbox.logged("fault on demand") > 0);
    assert!(scene.sandbox.log().contains("fault.rs"), "the log names the place");
    let (c, mut peer_c) = scene.session("c");
    scene.plays(&c, &mut peer_c);
    wait_until("two sessions are left", PATIENCE, || {
        scene.sandbox.sessions() == BTreeSet::from([b.clone(), c.clone()])
    });
}

/// R239, HANG-08: of fifty requests that were on their way when their session fell, each is answered once.
#[test]
fn requests_on_their_way_to_a_session_that_falls_are_answered() {
    let mut scene = fragile("session");
    let (session, mut peer) = scene.session("work");
    let ids: Vec<Value> = (0..50)
        .map(|n| {
            let text = if n == 10 { "FAULT" } else { "x" };
            scene.host.request("session/from_the_future", json!({"sessionId": session, "text": text}))
        })
        .collect();
    for id in &ids {
        let error = scene.host.error(id);
        assert!([-32603, -32002].map(Value::from).contains(&error["code"]), "{error}");
    }
    peer.wait_gone();
    assert!(scene.host.unread().is_empty(), "and nothing else is said");
    scene.sandbox.wait_empty();
}

/// HANG-08: so it is when the agent dies: what it said before is delivered, and each request is answered.
#[test]
fn requests_on_their_way_to_an_agent_that_dies_are_answered() {
    let mut scene = fragile("nobody");
    let (session, mut peer) = scene.session("work");
    let ask = |host: &mut Host| host.request("session/from_the_future", json!({"sessionId": session}));
    let mut ids: Vec<Value> = (0..25).map(|_| ask(&mut scene.host)).collect();
    (0..25).for_each(|_| drop(peer.expect("session/from_the_future")));
    (0..5).for_each(|n| peer.update(&format!("{n} ")));
    peer.command("exit 7");
    ids.extend((0..25).map(|_| ask(&mut scene.host)));
    for id in &ids {
        let error = scene.host.error(id);
        assert_eq!(error["code"], -32603, "{error}");
    }
    assert_eq!(scene.host.unread_text(), "0 1 2 3 4 ");
}

/// R239: a panic in the actor of a peer fails the turn; the session starts another process for the next one.
#[test]
fn a_panic_over_a_peer_fails_its_turn_alone() {
    let mut scene = fragile("peer");
    let (a, mut peer_a) = scene.session("a");
    let (b, mut peer_b) = scene.session("b");
    let (pending, _) = scene.turn(&a, &mut peer_a);
    peer_a.update("FAULT");
    assert_eq!(scene.host.error(&pending)["code"], -32603);
    peer_a.wait_gone();
    scene.plays(&b, &mut peer_b);
    let id = scene.host.prompt(&a, "again");
    let mut fresh = scene.puppets.serving();
    let prompt = fresh.expect("session/prompt");
    fresh.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
}

/// R239: a panic over a host ends that connection and its sessions, nobody else's.
#[test]
fn a_panic_over_a_host_ends_that_connection_alone() {
    let mut scene = fragile("host");
    let (session, mut peer) = scene.session("mine");
    let mut other = Host::direct(&scene.sandbox);
    other.initialize(json!({}));
    other.new_session(&scene.sandbox.cwd("theirs"));
    let mut lost = scene.puppets.serving();
    other.notify("x", json!({"text": "FAULT"}));
    other.expect_end(PATIENCE);
    lost.wait_gone();
    scene.plays(&session, &mut peer);
    wait_until("its session is gone", PATIENCE, || scene.sandbox.sessions().len() == 1);
}

/// R241: what fails says what, on whom, and by which limit.
#[test]
fn failures_name_their_facts() {
    let mut sandbox = Sandbox::new();
    sandbox.demo_agent("d", &[]);
    sandbox.program("missing", "/nowhere/agent", &[]);
    sandbox.program("silent", "/bin/sh", &["-c", "sleep 60"]);
    sandbox.set("agent.silent", "handshake_s = 1");
    sandbox.program("flag", "/bin/sh", &["-c", "echo bad flag >&2; exit 2"]);
    sandbox.program("other", "/bin/sh", &["-c", "read line; echo \"$line\"; sleep 60"]);
    sandbox.set("limits", "sessions_max = 1");
    sandbox.set("limits", "warm_ms = 100");
    sandbox.start();
    let said = |agent: &str| {
        let mut host = Host::direct(&sandbox);
        let id = host.request("initialize", named(agent));
        let error = host.error(&id);
        assert_eq!(error["code"], if agent == "nobody" { -32602 } else { -32603 }, "{error}");
        message(&error).to_owned()
    };
    let table: [(&str, &[&str]); 5] = [
        ("nobody", &["nobody", "missing", "silent"]),
        ("missing", &["`missing`", "/nowhere/agent"]),
        ("silent", &["`silent`", "initialize", "1 s"]),
        ("flag", &["`flag`", "status 2", "bad flag"]),
        ("other", &["`other`", "sent our own initialize back"]),
    ];
    for (agent, facts) in table {
        let text = said(agent);
        assert!(facts.iter().all(|fact| text.contains(fact)), "{agent}: {text}");
    }
    let mut host = Host::direct(&sandbox);
    host.initialize(json!({}));
    wait_until("the warm process is gone", PATIENCE, || sandbox.sessions().is_empty());
    let session = host.new_session(&sandbox.cwd("work"));
    let id = host.request_session(&sandbox.cwd("more"));
    assert!(message(&host.error(&id)).contains("sessions_max"));
    for (order, facts) in [("crash 3", ["`d`", "status 3"]), ("close-stdout", ["`d`", "without answering"])] {
        let id = host.prompt(&session, order);
        let error = host.error(&id);
        assert!(facts.iter().all(|fact| message(&error).contains(fact)), "{order}: {error}");
        assert_eq!(error["data"]["failureType"], "runtime");
        assert_eq!(error["data"]["failure"]["retryable"], true);
    }
}

fn named(agent: &str) -> Value {
    json!({"protocolVersion": 1, "clientCapabilities": {}, "_meta": {"acpvisor": {"agent": agent}}})
}

/// R278: ten agents that go wrong in ten ways beside one that does not: each of their requests is answered, and
/// the healthy one plays on.
#[test]
fn ten_misbehaving_agents_disturb_nobody() {
    let mut sandbox = Sandbox::new();
    sandbox.demo_agent("bad", &["--ignore-term", "--ignore-eof"]);
    sandbox.demo_agent("good", &[]);
    sandbox.set("agent.bad", "stop_grace_ms = 400");
    sandbox.set("limits", "cancel_grace_ms = 400");
    sandbox.set("limits", "warm_ms = 100");
    sandbox.start();
    let mut bad = Host::direct(&sandbox);
    bad.initialize(json!({}));
    let mut good = Host::direct(&sandbox);
    let id = good.request("initialize", named("good"));
    good.result(&id);
    let healthy = good.new_session(&sandbox.cwd("healthy"));
    let orders = [
        "hang",
        "stop",
        "close-stdout",
        "crash 1",
        "fork",
        "garbage",
        "flood 20000 300",
        "big 5000000",
        "stderr 10000000",
        "late 100",
    ];
    let opened: Vec<Value> =
        (0..orders.len()).map(|n| bad.request_session(&sandbox.cwd(&format!("bad{n}")))).collect();
    let sessions: Vec<String> =
        opened.iter().map(|id| bad.result(id)["sessionId"].as_str().unwrap().to_owned()).collect();
    let prompts: Vec<Value> =
        sessions.iter().zip(orders).map(|(session, order)| bad.prompt(session, order)).collect();
    for n in 0..20 {
        let id = good.prompt(&healthy, &format!("echo {n}"));
        assert_eq!(good.stop_reason(&id), "end_turn");
        assert_eq!(good.unread_text(), n.to_string());
    }
    sessions.iter().for_each(|session| bad.cancel(session));
    for (order, id) in orders.iter().zip(&prompts) {
        let answer = bad.answer(id);
        let reason = answer["result"]["stopReason"].as_str().unwrap_or("failed");
        match *order {
            "hang" | "stop" => assert_eq!(reason, "cancelled", "{order}: {answer}"),
            "close-stdout" | "crash 1" => {
                assert!(["failed", "cancelled"].contains(&reason), "{order}: {answer}")
            }
            _ => assert!(["end_turn", "cancelled"].contains(&reason), "{order}: {answer}"),
        }
    }
    drop(bad);
    wait_until("only the healthy one is left", 2 * PATIENCE, || {
        sandbox.sessions() == BTreeSet::from([healthy.clone()]) && sandbox.descendants().len() == 2
    });
    let id = good.prompt(&healthy, "echo still here");
    assert_eq!(good.stop_reason(&id), "end_turn");
}

/// R35, R105: two agents that know their sessions by one id are not taken for each other, whoever their hosts are.
#[test]
fn equal_ids_of_two_agents_are_not_mixed_up() {
    let mut sandbox = Sandbox::new();
    let mut puppets = sandbox.puppet_agent("p");
    sandbox.start();
    let answer = json!({"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []});
    let mut ends = Vec::new();
    for name in ["a", "b"] {
        let mut host = Host::direct(&sandbox);
        let id = host.request_initialize(json!({}));
        if name == "a" {
            let mut warm = puppets.next();
            let initialize = warm.expect("initialize");
            warm.reply(&initialize, answer.clone());
        }
        host.result(&id);
        let cwd = sandbox.cwd(name);
        let new = host.request_session(&cwd);
        let mut peer = puppets.next();
        let initialize = peer.expect("initialize");
        peer.reply(&initialize, answer.clone());
        let asked = peer.expect("session/new");
        assert_eq!(asked["params"]["cwd"], json!(cwd));
        peer.reply(&asked, json!({"sessionId": "the same"}));
        let session = host.result(&new)["sessionId"].as_str().unwrap().to_owned();
        let prompt = host.prompt(&session, name);
        ends.push((host, peer, session, prompt, name));
    }
    for n in 0..100 {
        for (_, peer, _, _, name) in &mut ends {
            peer.update_as("the same", &format!("{name}{n} "));
        }
    }
    for (host, peer, session, id, name) in &mut ends {
        let prompt = peer.expect("session/prompt");
        assert_eq!(
            prompt["params"],
            json!({"sessionId": "the same", "prompt": [{"type": "text", "text": name}]})
        );
        peer.end_turn(&prompt);
        assert_eq!(host.stop_reason(id), "end_turn");
        let seen = host.unread();
        assert!(seen.iter().all(|update| update["params"]["sessionId"] == json!(session)));
        let text: String = seen.iter().filter_map(line::text).collect();
        assert_eq!(text, (0..100).map(|n| format!("{name}{n} ")).collect::<String>());
    }
}

/// R35: the end of one agent changes nothing for the open questions and turns of the other session.
#[test]
fn the_end_of_one_agent_leaves_the_questions_of_the_other_open() {
    let mut scene = Scene::open();
    let (a, mut peer_a) = scene.session("a");
    let (b, mut peer_b) = scene.session("b");
    let (id_a, _) = scene.turn(&a, &mut peer_a);
    let (id_b, prompt_b) = scene.turn(&b, &mut peer_b);
    peer_a.ask_permission("of-a", "true");
    let question = peer_b.ask_permission("of-b", "true");
    let of = |session: &str| {
        let session = json!(session);
        move |m: &Value| m["method"] == "session/request_permission" && m["params"]["sessionId"] == session
    };
    let asked_a = scene.host.take("the question of a", PATIENCE, of(&a));
    let asked_b = scene.host.take("the question of b", PATIENCE, of(&b));
    process::signal(peer_a.pid(), Signal::KILL);
    assert_eq!(scene.host.error(&id_a)["code"], -32603);
    let withdrawn = scene.host.expect("$/cancel_request");
    assert_eq!(withdrawn["params"]["requestId"], asked_a["id"]);
    scene.host.choose(&asked_b, "yes");
    assert_eq!(peer_b.answer(&question)["result"]["outcome"]["optionId"], "yes");
    peer_b.end_turn(&prompt_b);
    assert_eq!(scene.host.stop_reason(&id_b), "end_turn");
    scene.host.choose(&asked_a, "yes");
    scene.plays(&b, &mut peer_b);
}
