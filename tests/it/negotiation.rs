//! What host, daemon and agent agree on before there is a session, and what becomes of an agent that does not
//! (group B).

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{
    host::Host,
    peer::Peer,
    process::{self, PATIENCE, alive, wait_until},
    sandbox::Sandbox,
    scene::Scene,
};

/// An agent that offers nothing.
fn plain() -> Value {
    json!({"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []})
}

/// An agent that wants a login.
fn locked() -> Value {
    let methods = json!([{"id": "login", "name": "Log in"}]);
    json!({"protocolVersion": 1, "agentCapabilities": {}, "authMethods": methods})
}

fn answer_initialize(peer: &mut Peer, answer: &Value) -> Value {
    let initialize = peer.expect("initialize");
    peer.reply(&initialize, answer.clone());
    initialize
}

/// Answers `session/new` as an agent that nobody logged in to.
fn want_login(peer: &mut Peer) {
    let new = peer.expect("session/new");
    let error = json!({"code": -32000, "message": "log in first", "data": {"how": "login"}});
    peer.send(&json!({"jsonrpc": "2.0", "id": new["id"], "error": error}));
}

/// Logs in, as a host.
fn authenticate(host: &mut Host, peer: &mut Peer) {
    let id = host.request("authenticate", json!({"methodId": "login"}));
    let asked = peer.expect("authenticate");
    peer.reply(&asked, json!({"welcome": true}));
    assert_eq!(host.result(&id), json!({"welcome": true}));
}

/// Initialises with an agent of that name.
fn initialize_with(host: &mut Host, agent: &str) -> Value {
    host.request("initialize", json!({"protocolVersion": 1, "_meta": {"acpvisor": {"agent": agent}}}))
}

/// An agent that is any program.
fn program(sandbox: &mut Sandbox, name: &str, command: &str, args: &[&str]) {
    sandbox.set("", &format!("default_agent = {name:?}"));
    sandbox.set(&format!("agent.{name}"), &format!("command = {command:?}"));
    sandbox.set(&format!("agent.{name}"), &format!("args = {args:?}"));
}

fn reserved(sandbox: &Sandbox) -> Value {
    let residency = sandbox.control("status", json!({}))["residency"].clone();
    json!([residency["resident"], residency["reserved"]])
}

/// R14: the host hears what the agent said, but for what the daemon adds and withholds.
#[test]
fn a_host_is_offered_what_its_agent_offers() {
    let mut scene = Scene::silent(|_| {});
    let prompt = json!({"image": true, "embeddedContext": false, "smell": {}});
    let answer = json!({
        "protocolVersion": 1,
        "agentInfo": {"name": "somebody", "title": "Some Body", "version": "9"},
        "agentCapabilities": {
            "loadSession": false,
            "promptCapabilities": prompt,
            "mcpCapabilities": {"http": true, "sse": false},
            "sessionCapabilities": {"resume": {}, "list": {}, "fork": {}},
            "fromTheFuture": [1.50],
        },
        "authMethods": [{"id": "login", "name": "Log in", "description": "?"}],
        "fromTheFuture": true,
        "_meta": {"theirs": 1},
    });
    let (offer, _peer) = scene.initialise(&answer);
    for member in ["protocolVersion", "agentInfo", "authMethods", "fromTheFuture"] {
        assert_eq!(offer[member], answer[member], "{member}");
    }
    let capabilities = &offer["agentCapabilities"];
    for member in ["promptCapabilities", "mcpCapabilities", "fromTheFuture"] {
        assert_eq!(capabilities[member], answer["agentCapabilities"][member], "{member}");
    }
    assert_eq!(capabilities["sessionCapabilities"]["close"], json!({}));
    assert_eq!(capabilities["sessionCapabilities"]["resume"], json!({}));
    assert_eq!(offer["_meta"]["theirs"], 1);
    assert_eq!(offer["_meta"]["acpvisor"]["agent"], "p");
}

/// R14: the daemon names itself only where nobody else has a name.
#[test]
fn an_agent_without_a_name_is_called_acpvisor() {
    let mut scene = Scene::silent(|_| {});
    let (offer, _peer) = scene.initialise(&plain());
    assert_eq!(offer["agentInfo"]["name"], "acpvisor");
    assert!(offer["_meta"]["acpvisor"]["version"].is_string());
}

/// R14: what is offered works, what is not offered is refused by its name.
#[test]
fn what_is_not_offered_is_refused() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let cwd = scene.sandbox.cwd("work");
    for method in ["session/list", "session/load", "session/resume", "session/fork"] {
        let id = scene.host.request(method, json!({"sessionId": session, "cwd": cwd, "mcpServers": []}));
        assert!(scene.host.result(&id).is_object(), "{method}");
    }
    // Nobody serves what nobody offers: the agent says so itself.
    let id = scene.host.request("session/from_the_future", json!({"sessionId": session}));
    let asked = peer.expect("session/from_the_future");
    peer.error(&asked, -32601, "what is that");
    assert_eq!(scene.host.error(&id)["code"], -32601);
    scene.plays(&session, &mut peer);
    let id = scene.host.request("session/delete", json!({"sessionId": "nobody"}));
    assert_eq!(scene.host.result(&id), json!({}));
    let id = scene.host.request("session/close", json!({"sessionId": session}));
    assert_eq!(scene.host.result(&id), json!({}));
}

/// R14: what one host was answered is remembered for the next.
#[test]
fn a_second_host_is_answered_from_memory() {
    let mut scene = Scene::silent(|_| {});
    let (first, _peer) = scene.initialise(&locked());
    let mut second = Host::direct(&scene.sandbox);
    assert_eq!(second.initialize(json!({})), first);
    assert_eq!(scene.puppets.untaken(), 0, "no second process was started");
}

/// R14: what was learnt depends on what the host can.
#[test]
fn a_host_with_other_capabilities_is_not_answered_from_memory() {
    let mut scene = Scene::silent(|_| {});
    let (_, _peer) = scene.initialise(&plain());
    let mut second = Host::direct(&scene.sandbox);
    let id = second.request_initialize(json!({"terminal": true}));
    let mut peer = scene.puppets.next();
    answer_initialize(&mut peer, &locked());
    assert_eq!(second.result(&id)["authMethods"][0]["id"], "login");
}

/// R14: however many hosts initialise at once, there are never more processes than slots.
#[test]
fn initialising_hosts_share_the_slots() {
    let mut scene = Scene::silent(|sandbox| sandbox.set("limits", "sessions_max = 3"));
    let mut hosts: Vec<Host> = (0..20).map(|_| Host::direct(&scene.sandbox)).collect();
    let ids: Vec<Value> = hosts.iter_mut().map(|host| host.request_initialize(json!({}))).collect();
    let mut peers: Vec<Peer> = (0..3).map(|_| scene.puppets.next()).collect();
    wait_until("17 are refused", PATIENCE, || {
        let status = scene.sandbox.control("tree", json!({})).to_string();
        status.matches("\"open_requests\":0").count() >= 17
    });
    assert_eq!(scene.puppets.untaken(), 0);
    for peer in &mut peers {
        answer_initialize(peer, &plain());
    }
    let answers: Vec<Value> = hosts.iter_mut().zip(&ids).map(|(host, id)| host.answer(id)).collect();
    let refused: Vec<&Value> = answers.iter().filter_map(|a| a.get("error")).collect();
    assert_eq!(refused.len(), 17);
    assert!(refused.iter().all(|e| e["data"]["resource"] == "resident_runtimes"), "{refused:?}");
    // Now it is known what the agent is: those who were refused need no process to hear it.
    for (host, answer) in hosts.iter_mut().zip(&answers).filter(|(_, a)| a.get("error").is_some()) {
        assert!(answer.get("result").is_none());
        host.initialize(json!({}));
    }
    assert_eq!(scene.puppets.untaken(), 0);
}

/// R14: the process that was started to learn serves the first session of its directory.
#[test]
fn the_warm_process_serves_the_first_session_of_its_directory() {
    let mut scene = Scene::silent(|_| {});
    let (_, mut warm) = scene.initialise(&plain());
    let home = scene.sandbox.cwd("home");
    let id = scene.host.request_session(&home);
    let new = warm.take_session();
    assert_eq!((&new["params"]["cwd"], warm.hello.cwd.as_str()), (&json!(home), home.as_str()));
    let session = scene.host.result(&id)["sessionId"].as_str().unwrap().to_owned();
    scene.plays(&session, &mut warm);
    assert_eq!(scene.puppets.untaken(), 0);
}

/// R14: a warm process that nobody uses is ended.
#[test]
fn a_warm_process_that_nobody_uses_is_ended() {
    let mut scene = Scene::silent(|sandbox| sandbox.set("limits", "warm_ms = 100"));
    let (_, mut warm) = scene.initialise(&plain());
    warm.wait_gone();
    wait_until("its slot is free", PATIENCE, || reserved(&scene.sandbox) == json!([0, 0]));
    let id = scene.host.request_session(&scene.sandbox.cwd("home"));
    let mut peer = scene.puppets.next();
    peer.handshake(json!({}));
    scene.host.result(&id);
}

/// R14: one that is being used when its time is up is ended when it has nothing to do any more.
#[test]
fn a_warm_process_that_is_asked_something_stays_for_it() {
    let mut scene = Scene::silent(|sandbox| sandbox.set("limits", "warm_ms = 300"));
    let (_, mut warm) = scene.initialise(&locked());
    let asked = Instant::now();
    let id = scene.host.request("authenticate", json!({"methodId": "login"}));
    let authenticate = warm.expect("authenticate");
    wait_until("its time is up", PATIENCE, || asked.elapsed() > Duration::from_millis(600));
    warm.reply(&authenticate, json!({}));
    scene.host.result(&id);
    warm.wait_gone();
}

/// R14: a process that a later one replaced does not outlive its host.
#[test]
fn no_warm_process_is_forgotten() {
    let mut scene = Scene::silent(|_| {});
    let (_, mut warm) = scene.initialise(&locked());
    let id = scene.host.request_session(&scene.sandbox.cwd("work"));
    let mut other = scene.puppets.next();
    answer_initialize(&mut other, &locked());
    want_login(&mut other);
    assert_eq!(scene.host.error(&id)["code"], -32000);
    scene.host.close_write();
    other.wait_gone();
    warm.wait_gone();
}

/// R15: the daemon has one version, whatever is asked for.
#[test]
fn every_requested_version_is_answered_with_one() {
    let scene = Scene::open();
    for version in [1, 2, 99, 65_535] {
        let mut host = Host::direct(&scene.sandbox);
        let id = host.request("initialize", json!({"protocolVersion": version, "clientCapabilities": {}}));
        assert_eq!(host.result(&id)["protocolVersion"], json!(1), "{version}");
    }
}

/// R16, R17: a host is asked only for what it declared, whatever another one declared.
#[test]
fn only_declared_services_are_asked_for() {
    let mut scene = Scene::with(json!({"fs": null, "terminal": false}), |_| {});
    let (session, mut peer) = scene.session("a");
    let mut able = Host::direct(&scene.sandbox);
    able.initialize(json!({"fs": {"readTextFile": true, "writeTextFile": true}, "terminal": true}));
    let other = able.new_session(&scene.sandbox.cwd("b"));
    let mut served = scene.puppets.serving();
    let calls = [
        ("fs/read_text_file", json!({"path": "/a"})),
        ("fs/write_text_file", json!({"path": "/a", "content": ""})),
        ("terminal/create", json!({"command": "ls"})),
        ("terminal/output", json!({"terminalId": "t"})),
        ("terminal/wait_for_exit", json!({"terminalId": "t"})),
        ("terminal/kill", json!({"terminalId": "t"})),
        ("terminal/release", json!({"terminalId": "t"})),
    ];
    for (method, mut params) in calls {
        params["sessionId"] = json!(peer.session());
        let id = peer.request(method, params.clone());
        let error = peer.answer(&id)["error"].clone();
        assert_eq!(error["code"], -32601, "{method}");
        assert!(error["message"].as_str().unwrap().contains(method), "{error}");
        params["sessionId"] = json!(served.session());
        let id = served.request(method, params);
        let asked = able.expect(method);
        assert_eq!(asked["params"]["sessionId"], json!(other));
        able.reply(&asked, json!({"n": method}));
        assert_eq!(served.answer(&id)["result"]["n"], method);
    }
    scene.plays(&session, &mut peer);
    assert!(scene.host.unread().is_empty());
}

/// R18: the agent's own refusal reaches the host; after the login the same process serves the session.
#[test]
fn a_login_is_the_agents_own_affair() {
    let mut scene = Scene::silent(|_| {});
    let (_, mut peer) = scene.initialise(&locked());
    let home = scene.sandbox.cwd("home");
    let id = scene.host.request_session(&home);
    want_login(&mut peer);
    let error = json!({"code": -32000, "message": "log in first", "data": {"how": "login"}});
    assert_eq!(scene.host.error(&id), error);
    authenticate(&mut scene.host, &mut peer);
    let id = scene.host.request_session(&home);
    peer.take_session();
    let session = scene.host.result(&id)["sessionId"].as_str().unwrap().to_owned();
    scene.plays(&session, &mut peer);
    assert_eq!(scene.puppets.untaken(), 0, "it is the same process");
}

/// R18, R14: once the connection has logged in on it, the warm process serves the first session of any directory.
#[test]
fn a_process_with_a_login_serves_any_directory() {
    let mut scene = Scene::silent(|_| {});
    let (_, mut peer) = scene.initialise(&locked());
    authenticate(&mut scene.host, &mut peer);
    let work = scene.sandbox.cwd("work");
    let id = scene.host.request_session(&work);
    assert_eq!(peer.take_session()["params"]["cwd"], json!(work));
    let session = scene.host.result(&id)["sessionId"].clone();
    let sessions = scene.sandbox.control("sessions.list", json!({}));
    let card = sessions["sessions"].as_array().unwrap().iter().find(|s| s["id"] == session).unwrap();
    assert_eq!(card["cwd"], json!(work));
}

/// R18: a login is repeated once for another process of the same connection, without the host.
#[test]
fn a_login_is_repeated_for_a_second_process() {
    let mut scene = Scene::silent(|_| {});
    let (_, mut first) = scene.initialise(&locked());
    authenticate(&mut scene.host, &mut first);
    let id = scene.host.request_session(&scene.sandbox.cwd("home"));
    first.take_session();
    scene.host.result(&id);

    let id = scene.host.request_session(&scene.sandbox.cwd("work"));
    let mut second = scene.puppets.next();
    answer_initialize(&mut second, &locked());
    want_login(&mut second);
    let repeated = second.expect("authenticate");
    assert_eq!(repeated["params"], json!({"methodId": "login"}));
    second.reply(&repeated, json!({}));
    second.take_session();
    let session = scene.host.result(&id)["sessionId"].as_str().unwrap().to_owned();
    scene.plays(&session, &mut second);
    assert!(scene.host.unread().is_empty(), "the host heard nothing of it");
}

/// R18: a repeated login that fails leaves the host with the refusal that caused it.
#[test]
fn a_repeated_login_that_fails_is_the_hosts_affair() {
    let mut scene = Scene::silent(|_| {});
    let (_, mut first) = scene.initialise(&locked());
    authenticate(&mut scene.host, &mut first);
    let id = scene.host.request_session(&scene.sandbox.cwd("home"));
    first.take_session();
    scene.host.result(&id);
    let work = scene.sandbox.cwd("work");
    let id = scene.host.request_session(&work);
    let mut second = scene.puppets.next();
    answer_initialize(&mut second, &locked());
    want_login(&mut second);
    let repeated = second.expect("authenticate");
    second.error(&repeated, -32603, "the token is old");
    assert_eq!(scene.host.error(&id)["message"], "log in first");
    authenticate(&mut scene.host, &mut second);
    let id = scene.host.request_session(&work);
    second.take_session();
    scene.host.result(&id);
}

/// R18, AUTH-01: an agent that reads its credentials only when it starts is started once more.
#[test]
fn an_agent_that_reads_logins_only_at_start_is_restarted_once() {
    let mut scene = Scene::silent(|_| {});
    let (_, mut first) = scene.initialise(&locked());
    authenticate(&mut scene.host, &mut first);
    let id = scene.host.request_session(&scene.sandbox.cwd("home"));
    want_login(&mut first);
    let mut second = scene.puppets.next();
    first.wait_gone();
    answer_initialize(&mut second, &plain());
    second.take_session();
    let session = scene.host.result(&id)["sessionId"].as_str().unwrap().to_owned();
    scene.plays(&session, &mut second);
    assert_eq!(scene.puppets.untaken(), 0);
    wait_until("one process is left", PATIENCE, || {
        scene.sandbox.control("tree", json!({})).to_string().matches("\"kind\":\"peer\"").count() == 1
    });
}

/// AUTH-01: the daemon does not go round in circles with an agent that is never content.
#[test]
fn an_agent_that_no_login_contents_is_not_restarted_for_ever() {
    let mut scene = Scene::silent(|_| {});
    let (_, mut first) = scene.initialise(&locked());
    authenticate(&mut scene.host, &mut first);
    let id = scene.host.request_session(&scene.sandbox.cwd("home"));
    want_login(&mut first);
    let mut second = scene.puppets.next();
    answer_initialize(&mut second, &locked());
    want_login(&mut second);
    let repeated = second.expect("authenticate");
    second.reply(&repeated, json!({}));
    want_login(&mut second);
    assert_eq!(scene.host.error(&id)["code"], -32000);
    assert_eq!(scene.puppets.untaken(), 0, "no third process");
    assert!(alive(second.pid()), "it stays for the next login");
    authenticate(&mut scene.host, &mut second);
    let id = scene.host.request_session(&scene.sandbox.cwd("home"));
    second.take_session();
    scene.host.result(&id);
    scene.host.close_write();
    second.wait_gone();
    first.wait_gone();
}

/// AUTH-04: -32000 in the middle of a turn is the turn's answer, and nothing runs twice.
#[test]
fn a_login_error_in_a_turn_runs_nothing_again() {
    let mut scene = Scene::silent(|_| {});
    let (_, mut peer) = scene.initialise(&locked());
    authenticate(&mut scene.host, &mut peer);
    let id = scene.host.request_session(&scene.sandbox.cwd("home"));
    peer.take_session();
    let session = scene.host.result(&id)["sessionId"].as_str().unwrap().to_owned();
    let (id, prompt) = scene.turn(&session, &mut peer);
    peer.update("half of it");
    peer.error(&prompt, -32000, "overloaded");
    assert_eq!(scene.host.error(&id), json!({"code": -32000, "message": "overloaded"}));
    scene.plays(&session, &mut peer);
    assert!(peer.unread().iter().all(|m| m["method"] != "authenticate"));
}

/// R18: errors of authenticate and answers of logout come back as they were.
#[test]
fn authenticate_and_logout_are_forwarded() {
    let mut scene = Scene::silent(|_| {});
    let (_, mut peer) = scene.initialise(&locked());
    let id = scene.host.request("authenticate", json!({"methodId": "nonsense", "_meta": {"x": 1}}));
    let asked = peer.expect("authenticate");
    assert_eq!(asked["params"], json!({"methodId": "nonsense", "_meta": {"x": 1}}));
    peer.error(&asked, -32602, "no such method");
    assert_eq!(scene.host.error(&id), json!({"code": -32602, "message": "no such method"}));
    let id = scene.host.request("logout", json!({}));
    let asked = peer.expect("logout");
    peer.reply(&asked, json!({"bye": 1}));
    assert_eq!(scene.host.result(&id), json!({"bye": 1}));
}

/// R18: a login by terminal is offered only to a host that declared it.
#[test]
fn a_login_by_terminal_is_offered_to_those_who_can() {
    let methods = json!([
        {"id": "a", "name": "A"},
        {"id": "t", "name": "T", "type": "terminal", "args": ["login"]},
    ]);
    let answer = json!({"protocolVersion": 1, "agentCapabilities": {}, "authMethods": methods});
    for (capabilities, offered) in
        [(json!({}), json!(["a"])), (json!({"auth": {"terminal": true}}), json!(["a", "t"]))]
    {
        let mut scene = Scene::silent(|_| {});
        let id = scene.host.request_initialize(capabilities);
        answer_initialize(&mut scene.puppets.next(), &answer);
        let offer = scene.host.result(&id);
        let ids: Vec<&Value> = offer["authMethods"].as_array().unwrap().iter().map(|m| &m["id"]).collect();
        assert_eq!(json!(ids), offered);
    }
}

/// R19: nothing but initialize goes before it, and nothing comes of it.
#[test]
fn requests_before_initialize_are_refused() {
    let mut scene = Scene::silent(|_| {});
    let work = scene.sandbox.cwd("work");
    for (method, params) in [
        ("session/new", json!({"cwd": work, "mcpServers": []})),
        ("session/prompt", json!({"sessionId": "x", "prompt": []})),
        ("session/resume", json!({"sessionId": "x", "cwd": work, "mcpServers": []})),
        ("authenticate", json!({"methodId": "login"})),
        ("_vendor/thing", json!({})),
    ] {
        let id = scene.host.request(method, params);
        let error = scene.host.error(&id);
        assert!(error["message"].as_str().unwrap().contains("initialize"), "{method}: {error}");
    }
    assert_eq!(reserved(&scene.sandbox), json!([0, 0]));
    assert_eq!(scene.puppets.untaken(), 0);
    scene.initialise(&plain());
}

/// R20: a peer is told the one version, who the daemon is, and what the host can.
#[test]
fn a_peer_is_told_what_its_host_can() {
    for capabilities in [
        json!({}),
        json!({"fs": {"readTextFile": true, "writeTextFile": false}, "terminal": true}),
        json!({"elicitation": {"form": {}}, "plan": {}, "subagents": {}, "session": {"configOptions": {}}}),
    ] {
        let mut scene = Scene::silent(|_| {});
        let id = scene.host.request_initialize(capabilities.clone());
        let mut peer = scene.puppets.next();
        let params = answer_initialize(&mut peer, &plain())["params"].clone();
        assert_eq!(params["protocolVersion"], json!(1));
        assert_eq!(params["clientInfo"]["name"], "acpvisor");
        assert!(params["clientInfo"]["title"].is_string() && params["clientInfo"]["version"].is_string());
        assert_eq!(params["clientCapabilities"], capabilities);
        scene.host.result(&id);
    }
}

/// R21: an agent of another version is refused by that version, and ended before it is asked anything.
#[test]
fn an_agent_of_another_version_is_refused() {
    let mut sandbox = Sandbox::new();
    let versions = [json!(0), json!(2), json!("1"), json!(1.0), Value::Null];
    let mut agents: Vec<_> = (0..versions.len()).map(|n| sandbox.puppet_agent(&format!("v{n}"))).collect();
    sandbox.start();
    for (n, (version, puppets)) in versions.iter().zip(&mut agents).enumerate() {
        let mut host = Host::direct(&sandbox);
        let id = initialize_with(&mut host, &format!("v{n}"));
        let mut peer = puppets.next();
        let mut answer = json!({"agentCapabilities": {}});
        if !version.is_null() {
            answer["protocolVersion"] = version.clone();
        }
        answer_initialize(&mut peer, &answer);
        let error = host.error(&id);
        let message = error["message"].as_str().unwrap();
        let theirs = if version.is_null() { "0".to_owned() } else { version.to_string() };
        assert!(message.contains(&format!("version {theirs}")) && message.contains("speaks 1"), "{message}");
        assert!(!alive(peer.pid()), "it is ended before the host hears of it");
        assert!(peer.unread().is_empty(), "no session was asked for");
    }
}

/// R22, HANG-03: an agent that never answers is ended in time; request, seconds and stderr are in the error.
#[test]
fn an_agent_that_never_answers_is_given_up() {
    let mut scene = Scene::silent(|sandbox| sandbox.set("agent.p", "handshake_s = 1"));
    let asked = Instant::now();
    let id = scene.host.request_initialize(json!({}));
    let mut peer = scene.puppets.next();
    let pids = peer.spawn("spawn-setsid");
    peer.obey("stderr thinking about it");
    let error = scene.host.error(&id);
    assert!((1..4).contains(&asked.elapsed().as_secs()), "{:?}", asked.elapsed());
    let message = error["message"].as_str().unwrap();
    for fact in ["`p`", "initialize", "request 1", "1 s", "thinking about it"] {
        assert!(message.contains(fact), "{fact}: {message}");
    }
    assert!(!alive(peer.pid()) && pids.iter().all(|pid| !alive(*pid)), "the tree is ended first");
}

/// R22: the same for session/new; other sessions are not delayed.
#[test]
fn a_session_that_never_opens_is_given_up() {
    let mut scene = Scene::silent(|sandbox| sandbox.set("agent.p", "handshake_s = 1"));
    let (_, mut other) = scene.initialise(&plain());
    let id = scene.host.request_session(&scene.sandbox.cwd("home"));
    other.take_session();
    let session = scene.host.result(&id)["sessionId"].as_str().unwrap().to_owned();
    let id = scene.host.request_session(&scene.sandbox.cwd("work"));
    let mut peer = scene.puppets.next();
    answer_initialize(&mut peer, &plain());
    let new = peer.expect("session/new");
    scene.plays(&session, &mut other);
    let message = scene.host.error(&id)["message"].as_str().unwrap().to_owned();
    for fact in ["session/new", &format!("request {}", new["id"]), "1 s"] {
        assert!(message.contains(fact), "{fact}: {message}");
    }
    assert!(!alive(peer.pid()));
    scene.plays(&session, &mut other);
}

/// R22: the deadline is each request's own, and a turn has none.
#[test]
fn the_deadline_is_each_requests_own() {
    let mut scene = Scene::silent(|sandbox| sandbox.set("agent.p", "handshake_s = 2"));
    let pause = || {
        let begun = Instant::now();
        wait_until("it took its time", PATIENCE, || begun.elapsed() > Duration::from_millis(1_100));
    };
    let id = scene.host.request_initialize(json!({}));
    let mut peer = scene.puppets.next();
    pause();
    answer_initialize(&mut peer, &plain());
    scene.host.result(&id);
    let id = scene.host.request_session(&scene.sandbox.cwd("home"));
    pause();
    peer.take_session();
    let session = scene.host.result(&id)["sessionId"].as_str().unwrap().to_owned();
    let (id, prompt) = scene.turn(&session, &mut peer);
    pause();
    pause();
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
}

/// R23: an agent that ends before it answers is named with what was asked and what it said.
#[test]
fn an_agent_that_ends_at_once_is_quoted() {
    let mut sandbox = Sandbox::new();
    program(&mut sandbox, "sh", "/bin/sh", &["-c", "echo bad flag >&2; exit 2"]);
    sandbox.start();
    let mut host = Host::direct(&sandbox);
    let id = host.request_initialize(json!({}));
    let message = host.error(&id)["message"].as_str().unwrap().to_owned();
    for fact in ["`sh`", "status 2", "initialize", "request 1", "bad flag"] {
        assert!(message.contains(fact), "{fact}: {message}");
    }
}

/// R23: so is one that closes its stdout and stays.
#[test]
fn an_agent_that_closes_its_stdout_is_ended() {
    let mut scene = Scene::silent(|sandbox| sandbox.set("agent.p", "stop_grace_ms = 100"));
    let id = scene.host.request_initialize(json!({}));
    let mut peer = scene.puppets.next();
    peer.obey("stderr I say no more");
    peer.command("close-stdout");
    let message = scene.host.error(&id)["message"].as_str().unwrap().to_owned();
    assert!(message.contains("request 1") && message.contains("I say no more"), "{message}");
    assert!(!alive(peer.pid()));
}

/// R24: an agent's own refusal reaches the host; after it the process is gone, but for a login.
#[test]
fn a_refused_session_is_the_agents_own_error() {
    let mut scene = Scene::silent(|_| {});
    let (_, mut peer) = scene.initialise(&plain());
    let home = scene.sandbox.cwd("home");
    let id = scene.host.request_session(&home);
    want_login(&mut peer);
    assert_eq!(scene.host.error(&id)["code"], -32000);
    assert!(alive(peer.pid()));
    let id = scene.host.request_session(&home);
    let new = peer.expect("session/new");
    let error = json!({"code": -32055, "message": "not today", "data": {"tomorrow": true}});
    peer.send(&json!({"jsonrpc": "2.0", "id": new["id"], "error": error}));
    assert_eq!(scene.host.error(&id), error);
    assert!(!alive(peer.pid()), "it is ended before the host hears of it");
}

/// R24: the same for initialize.
#[test]
fn a_refused_initialize_is_the_agents_own_error() {
    let mut scene = Scene::silent(|_| {});
    let id = scene.host.request_initialize(json!({}));
    let mut peer = scene.puppets.next();
    let initialize = peer.expect("initialize");
    let error = json!({"code": -32055, "message": "not today", "data": [1, 2]});
    peer.send(&json!({"jsonrpc": "2.0", "id": initialize["id"], "error": error}));
    assert_eq!(scene.host.error(&id), error);
    peer.wait_gone();
    scene.initialise(&plain());
}

/// PROC-07: failing sessions leave no process behind, however often a host tries.
#[test]
fn failing_sessions_leak_no_process() {
    let mut scene = Scene::silent(|sandbox| sandbox.set("limits", "sessions_max = 2"));
    let (_, _warm) = scene.initialise(&plain());
    let work = scene.sandbox.cwd("work");
    for _ in 0..30 {
        let id = scene.host.request_session(&work);
        let mut peer = scene.puppets.next();
        answer_initialize(&mut peer, &plain());
        let new = peer.expect("session/new");
        peer.error(&new, -32050, "no");
        assert_eq!(scene.host.error(&id), json!({"code": -32050, "message": "no"}));
        assert!(!alive(peer.pid()));
    }
}

/// R25: a peer gets directory and servers as the host wrote them.
#[test]
fn a_peer_gets_directory_and_servers_unchanged() {
    let mut scene = Scene::silent(|_| {});
    let (_, mut peer) = scene.initialise(&plain());
    let params = json!({
        "cwd": scene.sandbox.cwd("home"),
        "mcpServers": [
            {"name": "a", "command": "/bin/a", "args": ["-x"], "env": [{"name": "K", "value": "V"}]},
            {"type": "http", "name": "b", "url": "http://b", "headers": [{"name": "H", "value": "v"}]},
            {"type": "sse", "name": "c", "url": "http://c", "headers": []},
        ],
        "additionalDirectories": ["/usr", "/tmp"],
        "_meta": {"n": 1.50},
        "fromTheFuture": null,
    });
    let id = scene.host.request("session/new", params.clone());
    assert_eq!(peer.take_session()["params"], params);
    scene.host.result(&id);
}

/// R25: without an id there is no session.
#[test]
fn an_answer_without_a_session_id_fails_the_start() {
    let mut scene = Scene::silent(|_| {});
    let (_, _warm) = scene.initialise(&plain());
    for (dir, answer) in [
        ("a", json!({})),
        ("b", json!({"sessionId": ""})),
        ("c", json!({"sessionId": 5})),
        ("d", json!({"sessionId": " "})),
        ("e", Value::Null),
    ] {
        let id = scene.host.request_session(&scene.sandbox.cwd(dir));
        let mut peer = scene.puppets.next();
        answer_initialize(&mut peer, &plain());
        let new = peer.expect("session/new");
        peer.reply(&new, answer.clone());
        let message = scene.host.error(&id)["message"].as_str().unwrap().to_owned();
        assert!(message.contains("no session id"), "{answer}: {message}");
        assert!(!alive(peer.pid()));
    }
}

/// R26: a program that is no agent fails at its start, each for its own reason.
#[test]
fn a_program_that_is_no_agent_fails_at_its_start() {
    let programs = [
        ("/bin/cat", vec!["our own initialize"]),
        ("/bin/true", vec!["status 0", "initialize"]),
        ("/nonexistent", vec!["/nonexistent", "could not be started"]),
    ];
    for (command, facts) in programs {
        let mut sandbox = Sandbox::new();
        program(&mut sandbox, "x", command, &[]);
        sandbox.start();
        let mut host = Host::direct(&sandbox);
        let begun = Instant::now();
        let id = host.request_initialize(json!({}));
        let message = host.error(&id)["message"].as_str().unwrap().to_owned();
        assert!(begun.elapsed() < Duration::from_secs(5));
        for fact in facts {
            assert!(message.contains(fact), "{command}: {fact}: {message}");
        }
        wait_until("nothing is left of it", PATIENCE, || sandbox.survivors().is_empty());
    }
}

/// R27: what a peer says before it has a session waits for it; what it asks is refused.
#[test]
fn what_a_peer_says_too_early_waits() {
    let mut scene = Scene::silent(|_| {});
    let id = scene.host.request_initialize(json!({"fs": {"readTextFile": true}}));
    let mut peer = scene.puppets.next();
    let initialize = peer.expect("initialize");
    let name = format!("puppet-{}", peer.pid());
    peer.update_as(&name, "before initialize ");
    let read = peer.request("fs/read_text_file", json!({"sessionId": name, "path": "/etc/hostname"}));
    assert!(peer.answer(&read)["error"]["message"].as_str().unwrap().contains("no session"));
    peer.reply(&initialize, plain());
    scene.host.result(&id);
    peer.update_as(&name, "before session/new ");
    let id = scene.host.request_session(&scene.sandbox.cwd("home"));
    let new = peer.expect("session/new");
    peer.update_as(&name, "before its answer");
    peer.reply(&new, json!({"sessionId": name}));
    let session = scene.host.result(&id)["sessionId"].clone();
    for text in ["before initialize ", "before session/new ", "before its answer"] {
        let update = scene.host.next();
        assert_eq!((&update["params"]["sessionId"], crate::line::text(&update)), (&session, Some(text)));
    }
}

/// R28: nothing depends on the name of an agent.
#[test]
fn no_agent_is_treated_by_its_name() {
    let infos = [
        Value::Null,
        json!({"name": "claude-code", "version": "1"}),
        json!({"name": "gemini-cli", "version": "2"}),
        json!({"name": "codex", "version": "3"}),
    ];
    let stream = |info: &Value| {
        let mut scene = Scene::silent(|_| {});
        let mut answer = plain();
        if !info.is_null() {
            answer["agentInfo"] = info.clone();
        }
        let (_, mut peer) = scene.initialise(&answer);
        let id = scene.host.request_session(&scene.sandbox.cwd("home"));
        peer.take_session();
        let session = scene.host.result(&id)["sessionId"].as_str().unwrap().to_owned();
        let (id, prompt) = scene.turn(&session, &mut peer);
        peer.update("text");
        let ask = peer.ask_permission("t", "ls");
        let asked = scene.host.expect("session/request_permission");
        scene.host.choose(&asked, "no");
        peer.answer(&ask);
        peer.error(&prompt, -32603, "over");
        let all = [asked, scene.host.answer(&id), json!(scene.host.unread())];
        json!(all).to_string().replace(&session, "ours")
    };
    let streams: Vec<String> = infos.iter().map(stream).collect();
    assert!(streams.windows(2).all(|pair| pair[0] == pair[1]), "{streams:#?}");
}

/// R32, FWD-04: calls of services that nobody offered are refused by name, the turn goes on.
#[test]
fn calls_that_were_not_offered_are_refused_by_name() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let (id, prompt) = scene.turn(&session, &mut peer);
    let ours = peer.session();
    for (method, params) in [
        ("fs/read_text_file", json!({"sessionId": ours, "path": "/a"})),
        ("terminal/create", json!({"sessionId": ours, "command": "ls"})),
        ("elicitation/create", json!({"sessionId": ours, "mode": "form", "message": "?"})),
        ("foo/bar", json!({})),
        ("session/new", json!({"cwd": "/", "mcpServers": []})),
    ] {
        let asked = peer.request(method, params);
        let error = peer.answer(&asked)["error"].clone();
        assert_eq!(error["code"], -32601, "{method}");
        assert!(error["message"].as_str().unwrap().contains(method), "{error}");
    }
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
    assert!(scene.host.unread().is_empty());
}

/// R32, FWD-04: extensions are the host's: a request is answered by it, a notification reaches it.
#[test]
fn extensions_are_relayed_to_the_host() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let ask = peer.request("_vendor/ask", json!({"n": 1}));
    let asked = scene.host.expect("_vendor/ask");
    assert_eq!(asked["params"], json!({"n": 1}));
    scene.host.reply(&asked, json!({"m": 2}));
    assert_eq!(peer.answer(&ask)["result"], json!({"m": 2}));
    let ask = peer.request("_vendor/ask", json!({"sessionId": peer.session()}));
    let asked = scene.host.expect("_vendor/ask");
    assert_eq!(asked["params"]["sessionId"], json!(session));
    scene.host.refuse(&asked, -32601, "what?");
    assert_eq!(peer.answer(&ask)["error"], json!({"code": -32601, "message": "what?"}));
    peer.notify("_vendor/serversChanged", json!({"n": 1}));
    assert_eq!(scene.host.expect("_vendor/serversChanged")["params"], json!({"n": 1}));
    scene.plays(&session, &mut peer);
}

/// FWD-04: an extension that a lost host leaves open does not block its agent.
#[test]
fn an_open_extension_ends_with_its_host() {
    let mut scene = Scene::with(json!({}), |sandbox| sandbox.set("agent.p", "stop_grace_ms = 3000"));
    let (_, mut peer) = scene.session("work");
    let ask = peer.request("_vendor/ask", json!({"sessionId": peer.session()}));
    scene.host.expect("_vendor/ask");
    scene.host.close_write();
    assert!(peer.answer(&ask).get("error").is_some());
    peer.wait_gone();
}

/// R33: what is unknown passes, and fails nothing.
#[test]
fn unknown_shapes_pass() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let (id, prompt) = scene.turn(&session, &mut peer);
    let ours = peer.session();
    let updates = [
        json!({"sessionUpdate": "x_future", "blob": {"a": [1, null, 1.5]}}),
        json!({"sessionUpdate": 7}),
        json!("no object"),
    ];
    for update in &updates {
        let params = json!({"sessionId": ours, "update": update, "_meta": {"k": "v"}, "more": 1});
        peer.notify("session/update", params);
        let seen = scene.host.expect_update();
        let expected = json!({"sessionId": session, "update": update, "_meta": {"k": "v"}, "more": 1});
        assert_eq!(seen["params"], expected);
    }
    peer.notify("foo/bar", json!({"sessionId": ours}));
    assert_eq!(scene.host.expect("foo/bar")["params"], json!({"sessionId": session}));
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
    assert!(process::alive(peer.pid()));
}
