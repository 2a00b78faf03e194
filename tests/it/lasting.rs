//! Sessions that outlive their host, their process and the daemon: load, list, fork, delete, detached turns
//! (groups C and Z).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    line,
    peer::Peer,
    process::{PATIENCE, wait_until},
    sandbox::Sandbox,
    scene::Scene,
};

fn resumes() -> Value {
    json!({"sessionCapabilities": {"resume": {}}})
}

fn loads() -> Value {
    json!({"loadSession": true})
}

/// A session with one turn behind it: a thought, two pieces of an answer, a tool call.
fn told(scene: &mut Scene, dir: &str) -> (String, Peer) {
    let (session, mut peer) = scene.session(dir);
    let id = scene.host.prompt(&session, "tell me");
    let prompt = peer.expect("session/prompt");
    let own = peer.session();
    let mut say = |update: Value| peer.notify("session/update", json!({"sessionId": own, "update": update}));
    say(json!({"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "hm"}}));
    say(
        json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Look", "kind": "read", "status": "pending"}),
    );
    say(json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "in_progress"}));
    say(json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed"}));
    peer.update("one ");
    peer.update("two");
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
    assert_eq!(scene.host.unread_text(), "one two");
    (session, peer)
}

const TOLD: [&str; 5] = [
    "user: tell me",
    "thought: hm",
    "tool_call: t pending",
    "tool_call_update: t completed",
    "agent: one two",
];

/// R37, REP-01: everything visible comes before the answer, joined and in order; then the session goes on.
#[test]
fn a_load_shows_the_history_before_its_answer() {
    for agent in [resumes(), loads(), json!({})] {
        let mut scene = Scene::playing(agent, json!({}), |_| {});
        let (session, peer) = told(&mut scene, "work");
        scene.host.close_write();
        scene.host.expect_end(PATIENCE);
        drop(peer);
        let mut other = scene.another();
        assert_eq!(scene.shown(&mut other, &session, "work"), TOLD);
        scene.host = other;
        let mut peer = scene.puppets.serving();
        scene.plays(&session, &mut peer);
        assert_eq!(scene.host.unread_text(), "", "nothing is shown twice");
    }
}

/// R37, R175: options and mode are shown as they stand: with the daemon's own, and nothing of modes that are not seen.
#[test]
fn a_history_shows_the_daemons_option_too() {
    let mut scene = Scene::playing(loads(), json!({}), |_| {});
    let (session, mut peer) = scene.session("work");
    let own = peer.session();
    let mut say = |update: Value| peer.notify("session/update", json!({"sessionId": own, "update": update}));
    let options = json!([{"id": "x", "name": "X", "type": "select", "currentValue": "a", "options": []}]);
    say(json!({"sessionUpdate": "config_option_update", "configOptions": options}));
    say(json!({"sessionUpdate": "current_mode_update", "currentModeId": "code"}));
    let ids = |message: &Value| {
        let list = message["params"]["update"]["configOptions"].as_array().cloned().unwrap_or_default();
        list.iter().map(|option| option["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&scene.host.expect("session/update")), ["x", "approval"]);
    let cwd = scene.sandbox.cwd("work");
    let load =
        scene.host.request("session/load", json!({"sessionId": session, "cwd": cwd, "mcpServers": []}));
    let shown = scene.host.expect("session/update");
    assert_eq!(ids(&shown), ["x", "approval"], "{shown}");
    let answer = scene.host.result(&load);
    assert_eq!(answer["modes"]["currentModeId"], "default");
    assert_eq!(scene.host.unread(), Vec::<Value>::new());
}

/// R175, R227: models of the older kind are shown with modes and options, though a later process is silent about them.
#[test]
fn models_are_shown_when_a_process_was_replaced() {
    let mut scene = Scene::playing(loads(), json!({}), |_| {});
    let initialize =
        json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true}, "authMethods": []});
    scene.puppets.introduce(initialize);
    let cwd = scene.sandbox.cwd("work");
    let id = scene.host.request_session(&cwd);
    let mut peer = scene.puppets.that_got("session/new");
    let new = peer.expect("session/new");
    let models = json!({"currentModelId": "m", "availableModels": [{"modelId": "m", "name": "M"}]});
    peer.reply(&new, json!({"sessionId": "s", "models": models}));
    let answer = scene.host.result(&id);
    assert_eq!(answer["models"], models);
    let session = answer["sessionId"].as_str().unwrap().to_owned();
    let (prompt, _) = scene.turn(&session, &mut peer);
    peer.command("exit 1");
    scene.host.error(&prompt);
    let prompt = scene.host.prompt(&session, "go");
    let mut peer = scene.puppets.that_got("session/load");
    let load = peer.expect("session/load");
    peer.reply(&load, json!({}));
    let got = peer.expect("session/prompt");
    peer.end_turn(&got);
    scene.host.stop_reason(&prompt);
    let load =
        scene.host.request("session/load", json!({"sessionId": session, "cwd": cwd, "mcpServers": []}));
    assert_eq!(scene.host.result(&load)["models"], models);
}

/// R37, R105: what a new session begins with is part of its history, though it came before the answer that opened it.
#[test]
fn what_comes_with_a_new_session_is_on_record() {
    let mut scene = Scene::playing(loads(), json!({}), |_| {});
    let initialize =
        json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true}, "authMethods": []});
    scene.puppets.introduce(initialize);
    let cwd = scene.sandbox.cwd("work");
    let id = scene.host.request_session(&cwd);
    let mut peer = scene.puppets.that_got("session/new");
    let new = peer.expect("session/new");
    peer.update_as("s", "welcome");
    peer.reply(&new, json!({"sessionId": "s"}));
    let session = scene.host.result(&id)["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(scene.host.expect_text(), "welcome");
    let load =
        scene.host.request("session/load", json!({"sessionId": session, "cwd": cwd, "mcpServers": []}));
    assert_eq!(scene.host.expect_text(), "welcome");
    scene.host.result(&load);
}

/// R37, R273: what was acknowledged is there after the daemon was killed, and what was replayed is not stored again.
#[test]
fn a_killed_daemon_loses_nothing_that_was_said() {
    let mut scene = Scene::playing(loads(), json!({}), |_| {});
    let (session, _peer) = told(&mut scene, "work");
    for _ in 0..2 {
        scene.die(json!({}));
        let mut host = scene.another();
        assert_eq!(scene.shown(&mut host, &session, "work"), TOLD);
    }
}

/// R31: an agent that can neither resume nor load is told what was said, once, and the host hears that it was.
#[test]
fn a_blank_process_is_given_the_transcript() {
    let mut scene = Scene::playing(json!({}), json!({}), |_| {});
    let (session, _peer) = told(&mut scene, "work");
    scene.die(json!({}));
    let mut host = scene.another();
    let id = scene.load(&mut host, &session, "work");
    host.result(&id);
    let notice = |m: &Value| m["params"]["update"]["_meta"]["acpvisor"]["context"] == "transcript";
    host.take("the notice", PATIENCE, notice);
    scene.host = host;
    let mut peer = scene.puppets.serving();
    let (id, prompt) = scene.turn(&session, &mut peer);
    let blocks = prompt["params"]["prompt"].as_array().unwrap().clone();
    assert_eq!((blocks.len(), &blocks[1]["text"]), (2, &json!("go")));
    let context = blocks[0]["text"].as_str().unwrap();
    assert!(
        context.contains("tell me") && context.contains("one two") && context.contains("Look"),
        "{context}"
    );
    peer.end_turn(&prompt);
    scene.host.stop_reason(&id);
    let (id, prompt) = scene.turn(&session, &mut peer);
    assert_eq!(prompt["params"]["prompt"].as_array().map(Vec::len), Some(1), "once");
    peer.end_turn(&prompt);
    scene.host.stop_reason(&id);
    // The context is nobody's word: it is not shown.
    let mut other = scene.another();
    let shown = scene.shown(&mut other, &session, "work");
    assert_eq!(shown.iter().filter(|said| said.starts_with("user")).count(), 3, "{shown:?}");
}

/// R31, SES-02: a session that the agent does not know any more falls through to the next way.
#[test]
fn what_the_agent_forgot_falls_through() {
    let agent = json!({"loadSession": true, "sessionCapabilities": {"resume": {}}});
    let mut scene = Scene::playing(agent.clone(), json!({}), |_| {});
    let (session, _peer) = told(&mut scene, "work");
    let initialize = json!({"protocolVersion": 1, "agentCapabilities": agent, "authMethods": []});
    scene.puppets.introduce(initialize);
    scene.host.close_write();
    scene.host.expect_end(PATIENCE);
    let mut host = scene.another();
    let id = scene.load(&mut host, &session, "work");
    let mut peer = scene.puppets.that_got("session/resume");
    let resume = peer.expect("session/resume");
    peer.error(&resume, -32002, "no such session");
    let load = peer.expect("session/load");
    peer.error(&load, -32002, "no such session");
    peer.take_session();
    host.result(&id);
    host.take("the notice", PATIENCE, |m| {
        m["params"]["update"]["_meta"]["acpvisor"]["context"] == "transcript"
    });
}

/// CAN-01, R41: the host that holds a session loads it in the middle of a turn: the turn is not disturbed.
#[test]
fn a_load_in_mid_turn_disturbs_nothing() {
    let mut scene = Scene::playing(loads(), json!({}), |_| {});
    let (session, mut peer) = scene.session("work");
    let (prompt_id, prompt) = scene.turn(&session, &mut peer);
    peer.update("half ");
    assert_eq!(scene.host.expect_text(), "half ");
    let cwd = scene.sandbox.cwd("work");
    let load =
        scene.host.request("session/load", json!({"sessionId": session, "cwd": cwd, "mcpServers": []}));
    scene.host.result(&load);
    assert_eq!(scene.host.unread_text(), "half ");
    peer.update("whole");
    scene.host.cancel(&session);
    peer.expect("session/cancel");
    peer.reply(&prompt, json!({"stopReason": "cancelled"}));
    assert_eq!(scene.host.stop_reason(&prompt_id), "cancelled");
    assert!(scene.host.unread_text().ends_with("whole"));
}

fn detached(dir: &str) -> (Scene, String, Peer, Value) {
    let mut scene =
        Scene::playing(loads(), json!({}), |sandbox| sandbox.set("agent.p", "on_host_loss = 'continue'"));
    let (session, mut peer) = scene.session(dir);
    let (_, prompt) = scene.turn(&session, &mut peer);
    peer.update("before ");
    assert_eq!(scene.host.expect_text(), "before ");
    scene.host.close_write();
    scene.host.expect_end(PATIENCE);
    (scene, session, peer, prompt)
}

/// R41, R112: a turn goes on without its host, and the next one sees every update once.
#[test]
fn a_detached_turn_is_taken_up_where_it_is() {
    let (mut scene, session, mut peer, prompt) = detached("work");
    peer.update("without ");
    let mut host = scene.another();
    let shown = scene.shown(&mut host, &session, "work");
    assert_eq!(shown[0], "user: go");
    peer.update("after");
    let rest = host.take("the last piece", PATIENCE, |m| line::text(m).is_some_and(|t| t.ends_with("after")));
    let mut text: String = shown.iter().filter_map(|said| said.strip_prefix("agent: ")).collect();
    text += &host.unread_text();
    text += line::text(&rest).unwrap();
    assert_eq!(text, "before without after");
    peer.end_turn(&prompt);
    scene.host = host;
    scene.plays(&session, &mut peer);
    assert_eq!(peer.session(), peer.session());
}

/// R41, R140, PERM-05: a question that nobody heard is asked of the host that comes, after the answer to its load.
#[test]
fn a_question_waits_for_the_next_host() {
    let (mut scene, session, mut peer, prompt) = detached("work");
    let asked = peer.ask_permission("t", "ls");
    wait_until("it waits", PATIENCE, || {
        scene.sandbox.control("sessions.list", json!({}))["sessions"][0]["open_requests"] == json!(1)
    });
    let mut host = scene.another();
    scene.shown(&mut host, &session, "work");
    let question = host.expect("session/request_permission");
    let option = question["params"]["options"][0]["optionId"].as_str().unwrap().to_owned();
    host.choose(&question, &option);
    assert_eq!(peer.answer(&asked)["result"]["outcome"]["optionId"], json!(option));
    peer.end_turn(&prompt);
    scene.host = host;
    scene.plays(&session, &mut peer);
}

/// R140, PERM-05: a question that nobody hears in time is refused, and the turn goes on.
#[test]
fn an_unheard_question_is_refused_in_time() {
    for line in ["unattended = 'refuse'", "unattended = 'wait'"] {
        let mut scene = Scene::playing(loads(), json!({}), |sandbox| {
            sandbox.set("limits", "permission_wait_s = 1");
            sandbox.set("agent.p", "on_host_loss = 'continue'");
            sandbox.set("agent.p", line);
        });
        let (session, mut peer) = scene.session("work");
        let (_, prompt) = scene.turn(&session, &mut peer);
        scene.host.close_write();
        scene.host.expect_end(PATIENCE);
        let asked = peer.ask_permission("t", "ls");
        let outcome = peer.answer(&asked)["result"]["outcome"].clone();
        assert_eq!(outcome["optionId"], "no", "{outcome}");
        peer.end_turn(&prompt);
    }
}

/// R45: pages of fifty, newest first, no session twice or missing while one is added; filters; made-up cursors.
#[test]
fn sessions_are_listed_page_by_page() {
    let mut scene =
        Scene::playing(loads(), json!({}), |sandbox| sandbox.set("agent.p", "stop_grace_ms = 50"));
    let mut made = BTreeSet::new();
    for _ in 0..120 {
        let (session, _peer) = scene.session("work");
        let id = scene.host.request("session/close", json!({"sessionId": session}));
        scene.host.result(&id);
        made.insert(session);
    }
    let mut seen = Vec::new();
    let mut params = json!({"cwd": null});
    loop {
        let id = scene.host.request("session/list", params);
        let page = scene.host.result(&id);
        let sessions = page["sessions"].as_array().unwrap().clone();
        seen.extend(sessions.iter().map(|s| s["sessionId"].as_str().unwrap().to_owned()));
        if seen.len() == 50 {
            assert_eq!(sessions[0]["_meta"]["acpvisor"], json!({"agent": "p", "state": "saved"}));
            scene.session("elsewhere");
        }
        match page.get("nextCursor") {
            Some(cursor) => params = json!({"cursor": cursor}),
            None => break,
        }
    }
    assert_eq!(seen.len(), 120);
    assert_eq!(seen.iter().cloned().collect::<BTreeSet<_>>(), made);
    let id = scene.host.request("session/list", json!({"cwd": scene.sandbox.cwd("elsewhere")}));
    let live = scene.host.result(&id)["sessions"].clone();
    assert_eq!(
        (live.as_array().map(Vec::len), &live[0]["_meta"]["acpvisor"]["state"]),
        (Some(1), &json!("live"))
    );
    for wrong in
        [json!({"cwd": "work"}), json!({"cursor": "made up"}), json!({"cursor": 5}), json!({"cwd": 5})]
    {
        let id = scene.host.request("session/list", wrong);
        assert_eq!(scene.host.error(&id)["code"], -32602);
    }
}

/// R46 to R48, REP-03: a fork begins with its parent's history and then goes its own way.
#[test]
fn a_fork_is_a_session_of_its_own() {
    let mut scene = Scene::playing(loads(), json!({}), |_| {});
    let (parent, mut peer) = told(&mut scene, "work");
    let cwd = scene.sandbox.cwd("work");
    let id = scene.host.request("session/fork", json!({"sessionId": parent, "cwd": cwd, "mcpServers": []}));
    let answer = scene.host.result(&id);
    let child = answer["sessionId"].as_str().unwrap().to_owned();
    assert_ne!(child, parent);
    assert_eq!(scene.host.unread_text(), "", "a fork shows nothing");
    let mut other = scene.puppets.serving();
    assert_ne!(other.pid(), peer.pid());
    let (id, prompt) = scene.turn(&child, &mut other);
    let context = prompt["params"]["prompt"][0]["text"].as_str().unwrap().to_owned();
    assert!(context.contains("one two"), "{context}");
    other.update("of the child");
    other.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
    scene.plays(&parent, &mut peer);
    let mut host = scene.another();
    let shown = scene.shown(&mut host, &child, "work");
    assert_eq!(shown[..TOLD.len()], TOLD);
    assert_eq!(shown.last().map(String::as_str), Some("agent: of the child"));
    let shown = scene.shown(&mut host, &parent, "work");
    assert!(!shown.iter().any(|said| said.contains("of the child")), "{shown:?}");
}

/// R46: an agent that forks by itself keeps the child's memory: the copy is closed where it was made and taken up in a
/// process of its own.
#[test]
fn a_peers_own_fork_is_taken_up_elsewhere() {
    let agent = json!({"sessionCapabilities": {"resume": {}, "fork": {}, "close": {}}});
    let mut scene = Scene::playing(agent, json!({}), |_| {});
    let (parent, mut peer) = told(&mut scene, "work");
    let cwd = scene.sandbox.cwd("work");
    let id = scene.host.request("session/fork", json!({"sessionId": parent, "cwd": cwd, "mcpServers": []}));
    let fork = peer.expect("session/fork");
    assert_eq!(fork["params"]["sessionId"], json!(peer.session()));
    peer.update_as("copy", "replayed");
    peer.reply(&fork, json!({"sessionId": "copy"}));
    let closed = peer.take("the copy's close", |m| m["method"] == "session/close");
    assert_eq!(closed["params"]["sessionId"], "copy");
    let answer = scene.host.result(&id);
    let child = answer["sessionId"].as_str().unwrap().to_owned();
    let mut other = scene.puppets.serving();
    assert_eq!(other.expect("session/resume")["params"]["sessionId"], "copy");
    let (id, prompt) = scene.turn(&child, &mut other);
    assert_eq!(prompt["params"]["prompt"].as_array().map(Vec::len), Some(1), "no transcript is needed");
    other.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
    assert_eq!(scene.host.unread_text(), "", "what the copy replayed is nobody's");
    scene.plays(&parent, &mut peer);
}

/// R47, R49: what cannot be forked is refused and stays as it is; a fork that is switched off is not there.
#[test]
fn forks_are_refused_where_they_make_no_sense() {
    let mut scene = Scene::playing(loads(), json!({}), |_| {});
    let (session, mut peer) = scene.session("work");
    let (cwd, other) = (scene.sandbox.cwd("work"), scene.sandbox.cwd("other"));
    for (params, code) in [
        (json!({"sessionId": session, "cwd": "work", "mcpServers": []}), -32602),
        (json!({"sessionId": session, "cwd": other, "mcpServers": []}), -32002),
        (json!({"sessionId": "nobody", "cwd": cwd, "mcpServers": []}), -32002),
        (json!({"cwd": cwd, "mcpServers": []}), -32602),
    ] {
        let id = scene.host.request("session/fork", params);
        assert_eq!(scene.host.error(&id)["code"], code);
    }
    scene.plays(&session, &mut peer);
    let mut scene = Scene::playing(loads(), json!({}), |sandbox| sandbox.set("host", "fork = false"));
    let id = scene.host.request_initialize(json!({}));
    let offered = scene.host.result(&id)["agentCapabilities"]["sessionCapabilities"].clone();
    assert!(offered.get("fork").is_none() && offered.get("list").is_some(), "{offered}");
    let id = scene.host.request("session/fork", json!({"sessionId": "x", "cwd": cwd, "mcpServers": []}));
    assert_eq!(scene.host.error(&id)["code"], -32601);
}

/// R285: a deleted session is gone everywhere, and deleting what is not there succeeds.
#[test]
fn a_deleted_session_is_gone_for_good() {
    let mut scene = Scene::playing(loads(), json!({}), |_| {});
    let (session, mut peer) = told(&mut scene, "work");
    let mut stranger = scene.another();
    let id = stranger.request("session/delete", json!({"sessionId": session}));
    assert_eq!(stranger.error(&id)["code"], -32002, "another host holds it");
    for _ in 0..2 {
        let id = scene.host.request("session/delete", json!({"sessionId": session}));
        scene.host.result(&id);
    }
    peer.wait_gone();
    let id = scene.load(&mut stranger, &session, "work");
    assert_eq!(stranger.error(&id)["code"], -32002);
    let id = stranger.request("session/list", json!({}));
    assert_eq!(stranger.result(&id)["sessions"], json!([]));
}

/// R39, MH-01: ten loads at once, on two hosts: one process at a time, and the last one's session works.
#[test]
fn ten_loads_at_once_leave_one_owner() {
    let mut scene = Scene::playing(loads(), json!({}), |_| {});
    let (session, _peer) = told(&mut scene, "work");
    let (mut one, mut two) = (scene.another(), scene.another());
    let loads: Vec<(bool, Value)> = (0..10)
        .map(|n| {
            let host = if n % 2 == 0 { &mut one } else { &mut two };
            (n % 2 == 0, scene.load(host, &session, "work"))
        })
        .collect();
    for (of_one, id) in &loads {
        let host = if *of_one { &mut one } else { &mut two };
        host.answer(id);
    }
    wait_until("one process is left", PATIENCE, || {
        let tree = scene.sandbox.control("tree", json!({})).to_string();
        tree.matches(&format!("\"kind\":\"peer\",\"name\":\"{session}.")).count() == 1
    });
    let id = scene.load(&mut two, &session, "work");
    two.result(&id);
    let _ = two.unread();
    let id = two.prompt(&session, "still there");
    let mut peer = scene.puppets.that_got("session/prompt");
    let prompt = peer.expect("session/prompt");
    peer.end_turn(&prompt);
    assert_eq!(two.stop_reason(&id), "end_turn");
}

/// R43, R56, SES-01: what is not there is not loaded, and disturbs nobody.
#[test]
fn an_unknown_session_is_not_loaded() {
    let mut scene = Scene::playing(loads(), json!({}), |_| {});
    let (session, mut peer) = scene.session("work");
    let files = scene.sandbox.files();
    let cwd = scene.sandbox.cwd("work");
    for (id, code) in [("nobody", -32002), ("../x", -32602), ("a/b", -32602), (&*"x".repeat(300), -32602)] {
        let id = scene.host.request("session/load", json!({"sessionId": id, "cwd": cwd, "mcpServers": []}));
        assert_eq!(scene.host.error(&id)["code"], code);
    }
    assert!(scene.sandbox.files().keys().eq(files.keys()));
    scene.plays(&session, &mut peer);
}

/// CWD-01, R37: a directory that is gone cannot be worked in.
#[test]
fn a_session_whose_directory_is_gone_is_not_loaded() {
    let mut scene = Scene::playing(loads(), json!({}), |_| {});
    let (session, _peer) = told(&mut scene, "work");
    scene.die(json!({}));
    std::fs::remove_dir_all(scene.sandbox.path("work")).unwrap();
    let cwd = scene.sandbox.path("work");
    let id = scene.host.request("session/load", json!({"sessionId": session, "cwd": cwd, "mcpServers": []}));
    assert_eq!(scene.host.error(&id)["code"], -32602);
}

/// R289: a session whose agent repeats all earlier output each time is made shorter, and shows the same.
#[test]
fn a_session_that_repeats_itself_stays_small() {
    let limit = "session_bytes_max = 1048576";
    let mut scene = Scene::playing(loads(), json!({}), |sandbox| sandbox.set("limits", limit));
    let (session, mut peer) = scene.session("work");
    let own = peer.session();
    for turn in 0..12 {
        let (id, prompt) = scene.turn(&session, &mut peer);
        let call = format!("t{turn}");
        let update = |kind: &str, status: &str, output: &str| {
            json!({"sessionId": own, "update": {"sessionUpdate": kind, "toolCallId": call, "title": "Build",
                "status": status, "rawOutput": output}})
        };
        peer.notify("session/update", update("tool_call", "in_progress", ""));
        for n in 1..=10 {
            peer.notify(
                "session/update",
                update("tool_call_update", "in_progress", &"line\n".repeat(1_600 * n)),
            );
        }
        peer.notify("session/update", update("tool_call_update", "completed", &"line\n".repeat(16_000)));
        peer.end_turn(&prompt);
        assert_eq!(scene.host.stop_reason(&id), "end_turn");
    }
    let size = || scene.sandbox.control("sessions.show", json!({"id": session}))["bytes"].as_u64().unwrap();
    wait_until("it is shorter", PATIENCE, || size() < 3 << 20);
    scene.host.close_write();
    let mut host = scene.another();
    let shown = scene.shown(&mut host, &session, "work");
    for turn in 0..12 {
        assert!(shown.contains(&format!("tool_call_update: t{turn} completed")), "{shown:?}");
    }
}

/// R280, UPG-01: after a death of the daemon each prompt is known as answered, unknown or not started.
#[test]
fn every_prompt_is_known_after_a_death() {
    let mut scene = Scene::playing(loads(), json!({}), |_| {});
    let (session, mut peer) = told(&mut scene, "work");
    let (_, _prompt) = scene.turn(&session, &mut peer);
    let waits = scene.host.prompt(&session, "later");
    let queued = |m: &Value| m["params"]["update"]["_meta"]["acpvisor"]["queue"]["position"] == 1;
    scene.host.take("its place", PATIENCE, queued);
    let _ = waits;
    wait_until("it is on record", PATIENCE, || states(&scene.sandbox, &session).len() == 3);
    scene.die(json!({}));
    assert_eq!(states(&scene.sandbox, &session), ["answered", "unknown", "not_started"]);
}

fn states(sandbox: &Sandbox, session: &str) -> Vec<String> {
    let shown = sandbox.try_control("sessions.show", json!({"id": session})).unwrap_or_default();
    let prompts = shown["prompts"].as_array().cloned().unwrap_or_default();
    prompts.iter().map(|p| p["state"].as_str().unwrap_or_default().to_owned()).collect()
}
