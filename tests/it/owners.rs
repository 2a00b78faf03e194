//! Whose a session is while hosts come, go and want it at once (groups C and D; MH, SES and CAN cases).

use serde_json::{Value, json};

use crate::{
    host::Host,
    line,
    peer::Peer,
    process::{PATIENCE, alive, wait_until},
    sandbox::Sandbox,
    scene::{Scene, said},
};

fn loading() -> Scene {
    Scene::playing(json!({"loadSession": true}), json!({}), |sandbox| sandbox.set("limits", "warm_ms = 100"))
}

fn close(host: &mut Host, session: &str) {
    let id = host.request("session/close", json!({"sessionId": session}));
    host.result(&id);
}

/// A turn in which the peer says that.
fn says(host: &mut Host, session: &str, peer: &mut Peer, text: &str) {
    let id = host.prompt(session, "go");
    let prompt = peer.expect("session/prompt");
    peer.update(text);
    peer.end_turn(&prompt);
    assert_eq!(host.stop_reason(&id), "end_turn");
}

/// What came before the answer to a load, as a conversation; the answer; the rest stays unread.
fn before(host: &mut Host, session: &str, id: &Value) -> (Vec<String>, Value) {
    let mut shown = Vec::new();
    loop {
        let message = host.next();
        if message.get("method").is_none() && message["id"] == *id {
            return (shown, message);
        }
        shown.extend(said(session, &message));
    }
}

fn residency(scene: &Scene) -> Value {
    let status = scene.sandbox.control("status", json!({}));
    json!([status["residency"]["resident"], status["residency"]["reserved"]])
}

/// MH-01, R39, R66: two hosts load a session at the same instant, thirty times over, the process has to be started
/// first: each sees the history once, one process is left, one host holds it, and a live update comes once.
#[test]
fn two_loads_at_once_share_nothing() {
    let mut scene = loading();
    let (session, mut peer) = scene.session("work");
    says(&mut scene.host, &session, &mut peer, "history");
    close(&mut scene.host, &session);
    let (mut one, mut two) = (scene.another(), scene.another());
    for round in 0..30 {
        let (first, second) =
            (scene.load(&mut one, &session, "work"), scene.load(&mut two, &session, "work"));
        let shown = [before(&mut one, &session, &first), before(&mut two, &session, &second)];
        for (shown, answer) in &shown {
            assert!(answer.get("result").is_some(), "round {round}: {answer}");
            let (user, agent) = shown.split_first().unwrap();
            let text: String = agent.iter().filter_map(|said| said.strip_prefix("agent: ")).collect();
            assert_eq!((user.as_str(), text), ("user: go", format!("history{}", "live".repeat(round))));
        }
        let peers = [scene.puppets.serving(), scene.puppets.serving()];
        let mut alive: Vec<Peer> = peers.into_iter().filter(|peer| alive(peer.pid())).collect();
        assert_eq!(alive.len(), 1, "round {round}");
        let mut peer = alive.remove(0);
        peer.expect("session/load");
        assert!(!peer.unread().iter().any(|m| m["method"] == "session/load"), "once");
        peer.update("live");
        let mut hosts = [&mut one, &mut two];
        // The last load's host holds it; the other one is told that it does not.
        let detached = |m: &Value| m["params"]["update"]["_meta"]["acpvisor"]["detached"].is_object();
        let mut texts = String::new();
        wait_until("it is heard", PATIENCE, || {
            hosts.iter_mut().for_each(|host| texts += &host.unread_text());
            !texts.is_empty()
        });
        assert_eq!(texts, "live", "round {round}");
        let ids: Vec<Value> =
            hosts.iter_mut().map(|h| h.request("session/close", json!({"sessionId": session}))).collect();
        let mut closed = 0;
        for (host, id) in hosts.into_iter().zip(&ids) {
            let answer = host.answer(id);
            closed += usize::from(answer.get("result").is_some());
            assert!(host.unread().iter().all(|m| line::text(m).is_none() || detached(m)));
        }
        assert!(closed >= 1, "round {round}");
        wait_until("it is gone", PATIENCE, || residency(&scene) == json!([0, 0]));
    }
}

/// MH-03, SES-01: one rule for every request about a session that one does not hold, live or not: -32002 and its id;
/// notifications and answers are ignored. Load and resume are how to get it; delete is refused while another holds it.
#[test]
fn a_session_is_only_for_who_holds_it() {
    let mut scene = loading();
    let (session, mut peer) = scene.session("work");
    let (turn, prompt) = scene.turn(&session, &mut peer);
    let ask = peer.ask_permission("t", "ls");
    let question = scene.host.expect("session/request_permission");
    let mut stranger = scene.another();
    let unknown = "01900000-0000-7000-8000-000000000000";
    let refused = |stranger: &mut Host, id: &str, methods: &[(&str, Value)]| {
        for (method, params) in methods {
            let mut params = params.clone();
            params["sessionId"] = id.into();
            let asked = stranger.request(method, params);
            let error = stranger.error(&asked);
            assert_eq!(
                (&error["code"], &error["data"]["sessionId"]),
                (&json!(-32002), &json!(id)),
                "{method}"
            );
        }
        stranger.cancel(id);
    };
    let text = json!([{"type": "text", "text": "x"}]);
    let all = [
        ("session/prompt", json!({"prompt": text})),
        ("session/set_mode", json!({"modeId": "yolo"})),
        ("session/set_model", json!({"modelId": "m"})),
        ("session/set_config_option", json!({"configId": "approval", "value": "yolo"})),
        ("session/from_the_future", json!({})),
    ];
    refused(&mut stranger, &session, &all);
    refused(&mut stranger, unknown, &all);
    let held = [("session/close", json!({})), ("session/delete", json!({}))];
    refused(&mut stranger, &session, &held);
    stranger.choose(&question, "yes");
    refused(&mut stranger, &session, &all[..1]);
    scene.host.choose(&question, "no");
    assert_eq!(peer.answer(&ask)["result"]["outcome"]["optionId"], "no");
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&turn), "end_turn");
    assert!(
        !peer.unread().iter().any(|m| m["method"] == "session/cancel"),
        "a stranger's cancel is nobody's"
    );
    assert!(stranger.unread().is_empty());
}

/// R66, R41, CAN-01: a second host loads in mid-turn: the first one's prompt resolves as cancelled before the new
/// owner answers, what it releases late unpins nothing, and a cancel of the new owner's own turn works.
#[test]
fn a_load_from_elsewhere_cancels_the_turn_first() {
    let mut scene = loading();
    let (session, mut peer) = scene.session("work");
    let (turn, prompt) = scene.turn(&session, &mut peer);
    peer.update("half");
    scene.host.expect_text();
    let mut second = scene.another();
    let id = scene.load(&mut second, &session, "work");
    peer.expect("session/cancel");
    peer.update(" and a bit");
    peer.reply(&prompt, json!({"stopReason": "cancelled"}));
    let (shown, answer) = before(&mut second, &session, &id);
    assert!(answer.get("result").is_some(), "{answer}");
    assert_eq!(shown, ["user: go", "agent: half and a bit"]);
    assert_eq!(scene.host.stop_reason(&turn), "cancelled");
    assert!(!alive(peer.pid()));
    // The first host lets go of what it no longer has.
    scene.host.close_write();
    scene.host.expect_end(PATIENCE);
    scene.host = second;
    let mut peer = scene.puppets.serving();
    let (turn, prompt) = scene.turn(&session, &mut peer);
    scene.host.cancel(&session);
    peer.expect("session/cancel");
    peer.reply(&prompt, json!({"stopReason": "cancelled"}));
    assert_eq!(scene.host.stop_reason(&turn), "cancelled");
    assert_eq!(residency(&scene), json!([1, 0]));
}

/// R39, R40: a load that comes while the session is being closed waits until the old process is gone; another session
/// does not.
#[test]
fn a_load_waits_for_the_close_before_it() {
    let mut scene = loading();
    let (session, mut peer) = scene.session("work");
    let (other, _others) = scene.session("other");
    let (turn, prompt) = scene.turn(&session, &mut peer);
    let closing = scene.host.request("session/close", json!({"sessionId": session}));
    peer.expect("session/cancel");
    let mut second = scene.another();
    let load = scene.load(&mut second, &session, "work");
    let mut third = scene.another();
    let free = scene.load(&mut third, &other, "other");
    third.result(&free);
    assert!(alive(peer.pid()) && second.unread().is_empty());
    let mut heir = scene.puppets.serving();
    assert_ne!(heir.pid(), peer.pid());
    peer.reply(&prompt, json!({"stopReason": "cancelled"}));
    second.result(&load);
    scene.host.result(&closing);
    assert_eq!(scene.host.stop_reason(&turn), "cancelled");
    assert!(!alive(peer.pid()));
    scene.host = third;
    scene.plays(&other, &mut heir);
    heir = scene.puppets.serving();
    scene.host = second;
    scene.plays(&session, &mut heir);
}

/// R40: eight sessions are loaded at once while the first one's agent takes its time.
#[test]
fn different_sessions_load_at_once() {
    let mut scene = loading();
    let mut made = Vec::new();
    for n in 0..8 {
        let dir = format!("d{n}");
        let (session, mut peer) = scene.session(&dir);
        says(&mut scene.host, &session, &mut peer, &dir);
        close(&mut scene.host, &session);
        made.push((session, dir));
    }
    let able = json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true}, "authMethods": []});
    scene.puppets.introduce(able);
    let mut host = scene.another();
    let loads: Vec<Value> = made.iter().map(|(id, dir)| scene.load(&mut host, id, dir)).collect();
    let mut peers: Vec<(Peer, Value)> = Vec::new();
    for _ in &made {
        let mut peer = scene.puppets.that_got("session/load");
        let load = peer.expect("session/load");
        peers.push((peer, load));
    }
    // All of them are open at once; they are answered from the last to the first.
    for ((peer, load), (id, dir)) in peers.iter_mut().rev().zip(made.iter().rev()) {
        assert!(load["params"]["cwd"].as_str().is_some_and(|cwd| cwd.len() > dir.len()), "{id}");
        peer.reply(load, json!({}));
    }
    for id in &loads {
        host.result(id);
    }
    for (id, dir) in &made {
        let own: String = host.unread_of(id);
        assert_eq!(&own, dir);
    }
}

/// R42, R44: a load whose replay fails leaves nothing and can be repeated; the row that was changed by hand is named,
/// and another session is not disturbed.
#[test]
fn a_load_whose_replay_fails_can_be_repeated() {
    let mut scene = loading();
    let (session, mut peer) = scene.session("work");
    says(&mut scene.host, &session, &mut peer, "history");
    close(&mut scene.host, &session);
    let (other, mut others) = scene.session("other");
    let database = scene.sandbox.database();
    let last =
        "SELECT max(f.id) FROM frame f JOIN session s ON s.pk = f.session WHERE s.id = ?1 AND f.kind = 0";
    let row: i64 = database.query_row(last, [&session], |row| row.get(0)).unwrap();
    let spoil =
        |kind: i64| database.execute("UPDATE frame SET kind = ?1 WHERE id = ?2", (kind, row)).unwrap();
    let mut host = scene.another();
    spoil(77);
    for _ in 0..2 {
        let id = scene.load(&mut host, &session, "work");
        let error = host.error(&id);
        let said = error["message"].as_str().unwrap();
        assert!(said.contains(&session) && said.contains("unknown kind 77"), "{error}");
        wait_until("nothing is left", PATIENCE, || residency(&scene) == json!([1, 0]));
        let _ = host.unread();
    }
    spoil(0);
    assert_eq!(scene.shown(&mut host, &session, "work"), ["user: go", "agent: history"]);
    scene.plays(&other, &mut others);
}

/// R68: at full capacity a resident session is loaded by another host.
#[test]
fn a_resident_session_is_loaded_at_full_capacity() {
    let mut scene = Scene::playing(json!({"loadSession": true}), json!({}), |sandbox| {
        sandbox.set("limits", "sessions_max = 1");
    });
    let (session, mut peer) = scene.session("work");
    says(&mut scene.host, &session, &mut peer, "history");
    for _ in 0..5 {
        let mut host = scene.another();
        assert_eq!(scene.shown(&mut host, &session, "work"), ["user: go", "agent: history"]);
        let id = host.request_session(&scene.sandbox.cwd("work"));
        assert_eq!(host.error(&id)["data"]["resource"], "resident_runtimes");
        assert_eq!(residency(&scene), json!([1, 0]));
        scene.host = host;
    }
}

/// SES-04: whatever an agent answers to a load, it is a success for that session, and the host's answer has no id.
#[test]
fn any_result_of_a_load_is_a_success() {
    let mut scene = loading();
    let (session, mut peer) = scene.session("work");
    says(&mut scene.host, &session, &mut peer, "history");
    let known = peer.session();
    close(&mut scene.host, &session);
    let able = json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true}, "authMethods": []});
    scene.puppets.introduce(able);
    for answer in [Value::Null, json!({}), json!({"configOptions": []}), json!({"sessionId": known})] {
        let mut host = scene.another();
        let id = scene.load(&mut host, &session, "work");
        let mut peer = scene.puppets.that_got("session/load");
        let load = peer.expect("session/load");
        assert_eq!(load["params"]["sessionId"], json!(known));
        peer.reply(&load, answer.clone());
        let (shown, got) = before(&mut host, &session, &id);
        assert_eq!(shown, ["user: go", "agent: history"], "{answer}");
        assert!(got["result"].is_object() && got["result"].get("sessionId").is_none(), "{answer}: {got}");
        let turn = host.prompt(&session, "on");
        let prompt = peer.expect("session/prompt");
        assert_eq!(prompt["params"]["sessionId"], json!(known));
        peer.end_turn(&prompt);
        host.stop_reason(&turn);
        close(&mut host, &session);
        // The turn that was added here is no part of what the next round expects.
        let database = scene.sandbox.database();
        let last = "DELETE FROM frame WHERE id >= (SELECT max(id) FROM frame WHERE kind = 1 AND lines LIKE '%prompt%')";
        assert!(database.execute(last, []).unwrap() > 0);
    }
}

/// SES-06: sessions that are closed while they are being taken up are closed, now and after a restart.
#[test]
fn a_close_overtakes_no_load_and_is_not_undone() {
    let mut scene = loading();
    let mut made = Vec::new();
    for n in 0..5 {
        let dir = format!("d{n}");
        let (session, mut peer) = scene.session(&dir);
        says(&mut scene.host, &session, &mut peer, "x");
        made.push((session, dir));
    }
    scene.die(json!({}));
    let mut host = scene.another();
    let loads: Vec<Value> = made.iter().map(|(id, dir)| scene.load(&mut host, id, dir)).collect();
    let closes: Vec<Value> =
        made.iter().map(|(id, _)| host.request("session/close", json!({"sessionId": id}))).collect();
    for id in loads.iter().chain(&closes) {
        host.answer(id);
    }
    host.close_write();
    scene.host.close_write();
    scene.sandbox.wait_empty();
    scene.sandbox.restart();
    scene.sandbox.wait_empty();
}

/// SES-07: an agent that ends right after it opened a session: the operator sees so at once, and a prompt makes one
/// attempt more, which runs or fails with the agent's reason.
#[test]
fn a_process_that_ends_at_once_is_tried_once_more() {
    let mut scene = loading();
    let (session, mut peer) = scene.session("work");
    peer.command("exit 0");
    wait_until("it is seen", PATIENCE, || scene.sandbox.peer_card(&session).is_null());
    assert!(scene.sandbox.log().contains("exit classified"));
    let started = scene.sandbox.logged("peer started");
    let id = scene.host.prompt(&session, "go");
    let mut peer = scene.puppets.serving();
    let prompt = peer.expect("session/prompt");
    assert_eq!(scene.sandbox.logged("peer started"), started + 1);
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
    peer.command("exit 3");
    wait_until("it is seen", PATIENCE, || scene.sandbox.peer_card(&session).is_null());
    let initialize =
        json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true}, "authMethods": []});
    scene.puppets.introduce(initialize);
    let id = scene.host.prompt(&session, "go");
    let mut peer = scene.puppets.that_got("session/load");
    peer.command("exit 4");
    let error = scene.host.error(&id);
    assert!(error["message"].as_str().is_some_and(|m| m.contains("status 4")), "{error}");
}

/// R55: what a host gives as MCP servers reaches the process unchanged, with new, load, resume and fork; nothing of it
/// is looked into.
#[test]
fn mcp_servers_reach_the_process_as_they_are() {
    let agent = json!({
        "loadSession": true, "mcpCapabilities": {"http": true, "sse": true},
    });
    let mut scene = Scene::playing(agent, json!({}), |_| {});
    let servers = |name: &str| {
        json!([
            {"name": name, "command": "/bin/mcp", "args": ["--x", "a b"], "env": [{"name": "K", "value": "v"}]},
            {"type": "http", "name": "h", "url": "https://h/", "headers": [{"name": "A", "value": "b"}]},
            {"type": "sse", "name": "s", "url": "https://s/", "headers": [], "_meta": {"x": 1.0}},
        ])
    };
    let cwd = scene.sandbox.cwd("work");
    let id = scene.host.request("session/new", json!({"cwd": cwd, "mcpServers": servers("new")}));
    let session = scene.host.result(&id)["sessionId"].as_str().unwrap().to_owned();
    let mut peer = scene.puppets.serving();
    assert_eq!(peer.expect("session/new")["params"]["mcpServers"], servers("new"));
    says(&mut scene.host, &session, &mut peer, "x");
    for (method, reaches) in [
        ("session/load", "session/load"),
        ("session/resume", "session/load"),
        ("session/fork", "session/new"),
    ] {
        let mut host = scene.another();
        let params = json!({"sessionId": session, "cwd": cwd, "mcpServers": servers(method)});
        let id = host.request(method, params);
        host.result(&id);
        let mut peer = scene.puppets.serving();
        assert_eq!(peer.expect(reaches)["params"]["mcpServers"], servers(method), "{method}");
        scene.host = host;
    }
}

/// R37, REP-01, R44: a host that leaves in the middle of what it is shown starts nothing; the session can be loaded.
#[test]
fn a_host_that_stops_reading_its_history_stops_it() {
    let mut scene = loading();
    let (session, mut peer) = scene.session("work");
    let id = scene.host.prompt(&session, "go");
    let prompt = peer.expect("session/prompt");
    for n in 0..40 {
        let call = json!({"sessionUpdate": "tool_call", "toolCallId": format!("t{n}"), "title": "x".repeat(100_000), "status": "completed"});
        peer.notify("session/update", json!({"sessionId": peer.session(), "update": call}));
    }
    peer.end_turn(&prompt);
    scene.host.answer_within(&id, 3 * PATIENCE);
    close(&mut scene.host, &session);
    let mut host = Host::paced(&scene.sandbox);
    host.initialize(json!({}));
    scene.load(&mut host, &session, "work");
    host.expect_update();
    host.stop_reading();
    drop(host);
    scene.sandbox.wait_empty();
    let mut peer = scene.puppets.serving();
    assert!(!peer.unread().iter().any(|m| m["method"] == "session/prompt"));
    let mut host = scene.another();
    let shown = scene.shown(&mut host, &session, "work");
    assert_eq!(shown.len(), 41, "{:?}", &shown[..4]);
}

/// R285: a session that is deleted in mid-turn answers its prompt, ends its process and is gone.
#[test]
fn deleting_a_session_settles_its_turn() {
    let mut scene = loading();
    let (session, mut peer) = scene.session("work");
    let (turn, _prompt) = scene.turn(&session, &mut peer);
    let behind = scene.host.prompt(&session, "behind");
    let id = scene.host.request("session/delete", json!({"sessionId": session}));
    scene.host.result(&id);
    for prompt in [&turn, &behind] {
        assert_eq!(scene.host.stop_reason(prompt), "cancelled");
    }
    assert!(!alive(peer.pid()));
    let late = scene.host.unread();
    assert!(late.iter().all(|m| line::text(m).is_none()), "{late:?}");
    for table in ["session", "frame", "prompt", "inbox"] {
        let count: i64 = scene
            .sandbox
            .database()
            .query_row(&format!("SELECT count(*) FROM {table}"), [], |r| r.get(0))
            .unwrap();
        assert_eq!(count, 0, "{table}");
    }
}

/// R39, R42, R65, R66, MH-01: three hosts do what they like with three sessions, 240 times over: each request is
/// answered once, nobody waits for ever, and in the end one load of each works and nothing is left behind.
#[test]
fn hosts_may_do_what_they_like() {
    let mut sandbox = Sandbox::new();
    sandbox.demo_agent("d", &[]);
    sandbox.set("limits", "warm_ms = 100");
    sandbox.set("limits", "sessions_max = 4");
    sandbox.set("limits", "cancel_grace_ms = 500");
    sandbox.start();
    let cwd = sandbox.cwd("work");
    let mut hosts: Vec<Host> = (0..3).map(|_| Host::direct(&sandbox)).collect();
    hosts.iter_mut().for_each(|host| drop(host.initialize(json!({}))));
    let sessions: Vec<String> = (0..3).map(|n| hosts[n].new_session(&cwd)).collect();
    let mut seed = 0xACE_u64;
    let mut random = move |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(seed >> 33).unwrap() % below
    };
    let mut open: Vec<(usize, Value, &str)> = Vec::new();
    for step in 0..240 {
        let (host, session) = (random(3), sessions[random(3)].as_str());
        let mine = json!({"sessionId": session, "cwd": cwd, "mcpServers": []});
        let (method, params) = match random(9) {
            0 | 1 => ("session/load", mine),
            2 => ("session/resume", mine),
            3 => ("session/close", json!({"sessionId": session})),
            4 | 5 => {
                ("session/prompt", json!({"sessionId": session, "prompt": [{"type": "text", "text": "go"}]}))
            }
            6 => (
                "session/set_config_option",
                json!({"sessionId": session, "configId": "approval", "value": "yolo"}),
            ),
            7 => ("session/fork", mine),
            _ => {
                hosts[host].cancel(session);
                continue;
            }
        };
        open.push((host, hosts[host].request(method, params), method));
        // Some steps wait for what is under way, most do not.
        if step % 8 == 7 {
            settle(&mut hosts, &mut open, &sessions);
        }
    }
    settle(&mut hosts, &mut open, &sessions);
    let mut host = Host::direct(&sandbox);
    host.initialize(json!({}));
    drop(hosts);
    wait_until("the hosts are gone", PATIENCE, || {
        sandbox.control("status", json!({}))["residency"]["resident"] == json!(0)
    });
    for session in &sessions {
        let id = host.request("session/load", json!({"sessionId": session, "cwd": cwd, "mcpServers": []}));
        host.result(&id);
    }
    drop(host);
    sandbox.wait_empty();
}

/// Everything that is under way is answered. Forks are closed, so that there is room for others.
fn settle(hosts: &mut [Host], open: &mut Vec<(usize, Value, &str)>, sessions: &[String]) {
    for (host, id, method) in open.drain(..) {
        let mut answers = Vec::new();
        wait_until(&format!("{method} {id} of host {host} is answered"), 3 * PATIENCE, || {
            for host in hosts.iter_mut() {
                for question in host.sift(|m| m["method"] == "session/request_permission") {
                    host.refuse(&question, -32603, "no");
                }
            }
            answers = hosts[host].sift(|m| m.get("method").is_none() && m["id"] == id);
            !answers.is_empty()
        });
        let made = answers[0]["result"]["sessionId"].as_str().filter(|_| method == "session/fork");
        if let Some(made) = made.filter(|made| !sessions.iter().any(|s| s == made)) {
            close(&mut hosts[host], made);
        }
    }
}
