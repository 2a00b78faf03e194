//! How many sessions live at once, who owns one, and that nothing is left of one that ended (groups C and D).

use std::{collections::BTreeSet, process::Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    host::Host,
    peer::Peer,
    process::{self, PATIENCE, alive, wait_until},
    sandbox::Sandbox,
    scene::Scene,
};

fn residency(sandbox: &Sandbox) -> (u64, u64) {
    let status = sandbox.control("status", json!({}));
    let figure = |key: &str| status["residency"][key].as_u64().unwrap();
    (figure("resident"), figure("reserved"))
}

fn wait_residency(sandbox: &Sandbox, resident: u64, reserved: u64) {
    wait_until(&format!("{resident} are resident and {reserved} reserved"), PATIENCE, || {
        residency(sandbox) == (resident, reserved)
    });
}

/// A daemon of so many slots, all of them free, and an initialised host.
fn slots(max: u64) -> Scene {
    resuming(json!({}), max)
}

/// The same with an agent of those session capabilities.
fn resuming(session: Value, max: u64) -> Scene {
    let scene = Scene::playing(json!({"sessionCapabilities": session}), json!({}), |sandbox| {
        sandbox.set("limits", &format!("sessions_max = {max}"));
        sandbox.set("limits", "warm_ms = 100");
    });
    wait_residency(&scene.sandbox, 0, 0);
    let mut scene = scene;
    scene.puppets.next().wait_gone();
    scene
}

fn capacity(limit: u64) -> Value {
    json!({"resource": "resident_runtimes", "limit": limit, "retryable": true})
}

fn refuse_capacity(scene: &mut Scene, limit: u64) {
    let id = scene.host.request_session(&scene.sandbox.cwd("refused"));
    assert_eq!(scene.host.error(&id)["data"], capacity(limit));
}

fn close(host: &mut Host, session: &str) {
    let id = host.request("session/close", json!({"sessionId": session}));
    assert_eq!(host.result(&id), json!({}));
}

/// Plays a turn between that host and that process.
fn plays(host: &mut Host, session: &str, peer: &mut Peer) {
    let id = host.prompt(session, "go");
    let prompt = peer.expect("session/prompt");
    peer.end_turn(&prompt);
    assert_eq!(host.stop_reason(&id), "end_turn");
}

/// Nothing of that session is this host's.
fn is_refused(host: &mut Host, session: &str) {
    let id = host.prompt(session, "go");
    let error = host.error(&id);
    assert_eq!((&error["code"], &error["data"]["sessionId"]), (&json!(-32002), &json!(session)));
}

/// R59: whatever a start fails with, neither slot nor process is left of it.
#[test]
fn a_start_that_fails_leaks_nothing() {
    let mut scene = Scene::silent(|sandbox| {
        sandbox.set("limits", "sessions_max = 2");
        sandbox.set("limits", "warm_ms = 100");
    });
    let plain = json!({"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []});
    let (_, mut warm) = scene.initialise(&plain);
    warm.wait_gone();
    for n in 0..50 {
        let id = scene.host.request_session(&scene.sandbox.cwd(&format!("d{n}")));
        let mut peer = scene.puppets.next();
        let initialize = peer.expect("initialize");
        match n % 5 {
            0 => peer.error(&initialize, -32001, "no"),
            1 => peer.reply(&initialize, json!({"protocolVersion": 3})),
            2 => peer.command("exit 1"),
            _ => {
                peer.reply(&initialize, plain.clone());
                let new = peer.expect("session/new");
                if n % 5 == 3 { peer.error(&new, -32001, "no") } else { peer.reply(&new, json!({})) }
            }
        }
        scene.host.error(&id);
        assert!(!alive(peer.pid()), "round {n}");
        wait_residency(&scene.sandbox, 0, 0);
    }
    for dir in ["a", "b"] {
        let id = scene.host.request_session(&scene.sandbox.cwd(dir));
        scene.puppets.next().handshake(json!({}));
        scene.host.result(&id);
    }
    refuse_capacity(&mut scene, 2);
    assert_eq!(residency(&scene.sandbox), (2, 0));
}

/// R60: a burst of new sessions starts no more processes than there are slots.
#[test]
fn a_burst_of_sessions_stays_within_the_limit() {
    let mut scene = Scene::silent(|sandbox| {
        sandbox.set("limits", "sessions_max = 3");
        sandbox.set("limits", "warm_ms = 100");
    });
    let plain = json!({"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []});
    let (_, mut warm) = scene.initialise(&plain);
    warm.wait_gone();
    wait_residency(&scene.sandbox, 0, 0);
    let cwd = scene.sandbox.cwd("work");
    let ids: Vec<Value> = (0..20).map(|_| scene.host.request_session(&cwd)).collect();
    let mut peers: Vec<Peer> = (0..3).map(|_| scene.puppets.next()).collect();
    assert_eq!(residency(&scene.sandbox), (0, 3));
    let refused: Vec<Value> = (0..17)
        .map(|_| scene.host.take("a refusal", PATIENCE, |m| m["error"]["data"] == capacity(3)))
        .collect();
    assert_eq!(scene.puppets.untaken(), 0);
    for peer in &mut peers {
        peer.handshake(json!({}));
    }
    for id in ids.iter().filter(|id| refused.iter().all(|r| r["id"] != **id)) {
        scene.host.result(id);
    }
    wait_residency(&scene.sandbox, 3, 0);
    assert_eq!(scene.puppets.untaken(), 0);
}

/// R14, R60: a process that waits for a session which never came gives its slot to the one that did.
#[test]
fn a_warm_process_gives_way() {
    let mut scene = Scene::with(json!({}), |sandbox| sandbox.set("limits", "sessions_max = 1"));
    let mut warm = scene.puppets.next();
    assert_eq!(residency(&scene.sandbox), (0, 1));
    let (session, mut peer) = scene.session("work");
    assert!(!alive(warm.pid()), "never two processes");
    scene.plays(&session, &mut peer);
    assert_eq!(residency(&scene.sandbox), (1, 0));
    warm.wait_gone();
}

/// R14: one that is asked something does not.
#[test]
fn a_warm_process_in_use_does_not_give_way() {
    let mut scene = Scene::with(json!({}), |sandbox| sandbox.set("limits", "sessions_max = 1"));
    let mut warm = scene.puppets.next();
    let id = scene.host.request("authenticate", json!({"methodId": "x"}));
    let asked = warm.expect("authenticate");
    refuse_capacity(&mut scene, 1);
    warm.reply(&asked, json!({}));
    scene.host.result(&id);
    let session = scene.host.new_session(&scene.sandbox.cwd("work"));
    scene.plays(&session, &mut warm);
}

/// R61: the limit is a whole number from 1 to 4096, and nothing else starts.
#[test]
fn a_limit_out_of_its_range_stops_the_start() {
    for value in ["0", "4097", "1.5", "\"x\"", "-1"] {
        let mut sandbox = Sandbox::new();
        sandbox.demo_agent("d", &[]);
        sandbox.set("limits", &format!("sessions_max = {value}"));
        sandbox.write_config();
        let mut command = sandbox.command(&["daemon"]);
        let output = command.stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("sessions_max"), "{value}: {said}");
    }
}

/// R61, R62: with one slot the second session is refused; the first one, idle as it is, is kept.
#[test]
fn a_session_that_a_host_holds_is_not_evicted() {
    let mut scene = slots(1);
    let (session, mut peer) = scene.session("work");
    scene.plays(&session, &mut peer);
    for _ in 0..3 {
        refuse_capacity(&mut scene, 1);
    }
    scene.plays(&session, &mut peer);
    assert_eq!(scene.puppets.untaken(), 0);
}

/// R63: the refusal says what is full, in words and in facts, and nothing is made for it.
#[test]
fn the_capacity_error_is_exact() {
    let mut scene = slots(1);
    let (_session, _peer) = scene.session("work");
    let cwd = scene.sandbox.cwd("other");
    let (files, processes) = (scene.sandbox.files(), scene.sandbox.descendants());
    let mut texts = BTreeSet::new();
    for _ in 0..2 {
        let id = scene.host.request_session(&cwd);
        let error = scene.host.error(&id);
        assert_eq!((&error["code"], &error["data"]), (&json!(-32603), &capacity(1)));
        texts.insert(error["message"].as_str().unwrap().to_owned());
    }
    assert_eq!(texts.len(), 1);
    assert!(texts.iter().all(|text| text.contains("sessions_max")), "{texts:?}");
    assert!(scene.sandbox.files().keys().eq(files.keys()));
    assert_eq!(scene.sandbox.descendants(), processes);
}

/// R64, RES-05: a closed session's slot is free at once, however often, and nothing adds up.
#[test]
fn closing_frees_the_slot_at_once() {
    let mut scene = slots(1);
    let descriptors =
        |scene: &Scene| std::fs::read_dir(format!("/proc/{}/fd", scene.sandbox.pid())).unwrap().count();
    let mut before = (0, 0);
    for round in 0..100 {
        let (session, peer) = scene.session("work");
        if round % 10 == 0 {
            refuse_capacity(&mut scene, 1);
        }
        close(&mut scene.host, &session);
        assert!(!alive(peer.pid()), "its process is gone before the answer");
        if round == 10 {
            before = (descriptors(&scene), scene.sandbox.rss());
        }
    }
    let (open, rss) = (descriptors(&scene), scene.sandbox.rss());
    assert!(open <= before.0 + 2, "{} descriptors became {open}", before.0);
    assert!(rss < before.1 + (8 << 20), "{} bytes became {rss}", before.1);
    wait_residency(&scene.sandbox, 0, 0);
    wait_until("nothing runs", PATIENCE, || scene.sandbox.descendants().is_empty());
}

/// R50: closing what is not there, or not there any more, succeeds.
#[test]
fn closing_twice_succeeds() {
    let mut scene = slots(2);
    let (session, _peer) = scene.session("work");
    close(&mut scene.host, &session);
    close(&mut scene.host, &session);
    close(&mut scene.host, "01900000-0000-7000-8000-000000000000");
    is_refused(&mut scene.host, &session);
    assert!(scene.host.unread().is_empty());
}

/// R50, R204, R207: a close cancels the turn, answers it, and nothing of the session comes after the close.
#[test]
fn closing_settles_the_turn_first() {
    let mut scene = slots(2);
    let (session, mut peer) = scene.session("work");
    let (turn, prompt) = scene.turn(&session, &mut peer);
    peer.update("half");
    scene.host.expect_text();
    let id = scene.host.request("session/close", json!({"sessionId": session}));
    peer.expect("session/cancel");
    peer.update("late");
    peer.reply(&prompt, json!({"stopReason": "cancelled"}));
    let answers = [scene.host.next(), scene.host.next()];
    assert_eq!(answers[0], json!({"jsonrpc": "2.0", "id": turn, "result": {"stopReason": "cancelled"}}));
    assert_eq!(answers[1]["id"], id);
    assert!(!alive(peer.pid()));
    assert!(scene.host.unread().is_empty());
}

/// R51, R53: a session outlives its host; another one takes it up, and hears nothing before the answer.
#[test]
fn a_session_outlives_its_host() {
    let mut scene = resuming(json!({"resume": {}}), 4);
    let (session, mut peer) = scene.session("work");
    scene.plays(&session, &mut peer);
    let known = peer.session();
    let mut second = scene.another();
    scene.host.close_write();
    peer.wait_gone();
    let id = scene.resume(&mut second, &session, "work");
    let mut peer = scene.puppets.serving();
    assert_eq!(peer.expect("session/resume")["params"]["sessionId"], json!(known));
    assert_eq!(second.next()["id"], id);
    plays(&mut second, &session, &mut peer);
}

/// R53, R31: an agent that can only load is asked to load, and its replay is shown to nobody.
#[test]
fn a_replay_is_swallowed_on_resume() {
    let mut scene = Scene::silent(|_| {});
    let able = json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true}, "authMethods": []});
    let (offer, mut peer) = scene.initialise(&able);
    assert_eq!(offer["agentCapabilities"]["sessionCapabilities"]["resume"], json!({}));
    let id = scene.host.request_session(&scene.sandbox.cwd("home"));
    peer.take_session();
    let session = scene.host.result(&id)["sessionId"].as_str().unwrap().to_owned();
    let known = peer.session();
    for answer in [Value::Null, json!({}), json!({"configOptions": []}), json!({"sessionId": known})] {
        let mut second = scene.another();
        scene.host.close_write();
        peer.wait_gone();
        let id = scene.resume(&mut second, &session, "home");
        peer = scene.puppets.next();
        let initialize = peer.expect("initialize");
        peer.reply(&initialize, able.clone());
        let load = peer.expect("session/load");
        assert_eq!(load["params"]["sessionId"], json!(known));
        for n in 0..3 {
            peer.update_as(&known, &format!("history {n}"));
        }
        peer.reply(&load, answer.clone());
        let first = second.next();
        assert_eq!(first["id"], id, "{answer}: {first}");
        assert!(first["result"].is_object(), "{answer}: {first}");
        peer.update_as(&known, "news");
        assert_eq!(second.expect_text(), "news");
        plays(&mut second, &session, &mut peer);
        scene.host = second;
    }
}

/// R66, R41: another host that takes a session up ends what runs there first; the first host is told.
#[test]
fn a_session_that_is_taken_over_is_settled_first() {
    let mut scene = resuming(json!({"resume": {}}), 4);
    let (session, mut peer) = scene.session("work");
    let (turn, prompt) = scene.turn(&session, &mut peer);
    let other = scene.host.request("session/from_the_future", json!({"sessionId": session}));
    let ask = peer.ask_permission("t", "ls");
    let asked = scene.host.expect("session/request_permission");
    let mut second = scene.another();
    let id = scene.resume(&mut second, &session, "work");
    assert_eq!(peer.answer(&ask)["result"]["outcome"]["outcome"], "cancelled");
    peer.expect("session/cancel");
    assert!(second.unread().is_empty());
    peer.reply(&prompt, json!({"stopReason": "end_turn"}));
    let mut heir = scene.puppets.serving();
    assert!(!alive(peer.pid()), "one process at a time");
    second.result(&id);
    assert_eq!(scene.host.expect("$/cancel_request")["params"]["requestId"], asked["id"]);
    assert_eq!(scene.host.stop_reason(&turn), "cancelled");
    scene.host.error(&other);
    let told = scene.host.expect_update();
    assert_eq!(told["params"]["update"]["sessionUpdate"], "session_info_update");
    assert!(told["params"]["update"]["_meta"]["acpvisor"]["detached"].is_object(), "{told}");
    is_refused(&mut scene.host, &session);
    plays(&mut second, &session, &mut heir);
    scene.host.choose(&asked, "yes");
    plays(&mut second, &session, &mut heir);
    assert!(heir.unread().iter().all(|m| m.get("method").is_some()), "nobody asked it anything");
}

/// MH-03: a late answer to a question of a session that was closed does not reach the one that has its id next.
#[test]
fn an_answer_from_before_reaches_no_successor() {
    let mut scene = resuming(json!({"resume": {}}), 4);
    let (session, mut peer) = scene.session("work");
    let (turn, prompt) = scene.turn(&session, &mut peer);
    let asked: Vec<Value> = (0..5)
        .map(|n| {
            peer.ask_permission(&format!("t{n}"), "ls");
            scene.host.expect("session/request_permission")
        })
        .collect();
    peer.end_turn(&prompt);
    scene.host.stop_reason(&turn);
    close(&mut scene.host, &session);
    let cwd = scene.sandbox.cwd("work");
    let resume = json!({"sessionId": session, "cwd": cwd, "mcpServers": []});
    let id = scene.host.request("session/resume", resume);
    scene.host.result(&id);
    let mut peer = scene.puppets.serving();
    let (turn, prompt) = scene.turn(&session, &mut peer);
    let others: Vec<(Value, Value)> = (0..5)
        .map(|_| {
            let id = scene.host.request("session/from_the_future", json!({"sessionId": session}));
            (id, peer.expect("session/from_the_future"))
        })
        .collect();
    for question in &asked {
        scene.host.choose(question, "yes");
    }
    // What comes behind them on the same wire was read after them.
    scene.host.notify("session/hum", json!({"sessionId": session}));
    peer.expect("session/hum");
    for (n, (id, request)) in others.iter().enumerate() {
        peer.reply(request, json!({"n": n}));
        assert_eq!(scene.host.result(id), json!({"n": n}));
    }
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&turn), "end_turn");
}

/// R41, R51: a host that leaves while another one takes its session up does not take it away again.
#[test]
fn a_leaving_host_ends_nothing_that_another_has_taken_up() {
    let mut scene = resuming(json!({"resume": {}}), 4);
    let (session, _peer) = scene.session("work");
    for round in 0..20 {
        let mut second = scene.another();
        let id = scene.resume(&mut second, &session, "work");
        if round % 2 == 0 {
            scene.host.close_write();
        } else {
            scene.host.request("session/close", json!({"sessionId": session}));
        }
        second.result(&id);
        let mut heir = scene.puppets.serving();
        scene.host.close_write();
        scene.host.expect_end(PATIENCE);
        plays(&mut second, &session, &mut heir);
        scene.host = second;
    }
}

/// R39: however many hosts want a session at once, they get it one after the other.
#[test]
fn takeovers_come_one_after_the_other() {
    let mut scene = resuming(json!({"resume": {}}), 4);
    let (session, peer) = scene.session("work");
    let mut hosts: Vec<Host> = (0..5).map(|_| scene.another()).collect();
    let asked: Vec<[Value; 2]> =
        hosts.iter_mut().map(|host| [(); 2].map(|()| scene.resume(host, &session, "work"))).collect();
    let mut seen = vec![peer.pid()];
    let mut last = peer;
    for (host, ids) in hosts.iter_mut().zip(&asked) {
        for id in ids {
            host.answer(id);
        }
    }
    while !alive(last.pid()) {
        last = scene.puppets.serving();
        seen.push(last.pid());
    }
    assert_eq!(scene.puppets.untaken(), 0);
    assert_eq!(seen.iter().filter(|pid| alive(**pid)).count(), 1, "{seen:?}");
    let prompts: Vec<Value> = hosts.iter_mut().map(|host| host.prompt(&session, "go")).collect();
    let prompt = last.expect("session/prompt");
    last.end_turn(&prompt);
    let answers: Vec<Value> = hosts.iter_mut().zip(&prompts).map(|(host, id)| host.answer(id)).collect();
    let ended = answers.iter().filter(|a| a["result"]["stopReason"] == "end_turn").count();
    let refused = answers.iter().filter(|a| a["error"]["code"] == -32002).count();
    assert_eq!((ended, refused), (1, 4), "{answers:?}");
}

/// R40: a session that takes long to end keeps no other one waiting.
#[test]
fn sessions_do_not_wait_for_each_other() {
    let mut scene = Scene::playing(json!({"sessionCapabilities": {"resume": {}}}), json!({}), |sandbox| {
        sandbox.set("agent.p", "stop_grace_ms = 30000");
    });
    let (slow, stuck) = scene.session("a");
    let (other, _peer) = scene.session("b");
    let mut second = scene.another();
    process::signal(stuck.pid(), Signal::STOP);
    wait_until("it stands still", PATIENCE, || process::stopped(stuck.pid()));
    let closing = scene.host.request("session/close", json!({"sessionId": slow}));
    let id = scene.resume(&mut second, &other, "b");
    second.result(&id);
    let mut peer = scene.puppets.serving();
    plays(&mut second, &other, &mut peer);
    assert!(alive(stuck.pid()), "the other one is still on its way out");
    process::signal(stuck.pid(), Signal::KILL);
    assert_eq!(scene.host.result(&closing), json!({}));
    assert!(!alive(stuck.pid()));
}

/// R42: a resume that fails leaves nothing, not even a host that cannot leave, and can be repeated.
#[test]
fn a_failed_resume_can_be_repeated() {
    let mut scene = Scene::silent(|sandbox| sandbox.set("limits", "sessions_max = 1"));
    let able = json!({
        "protocolVersion": 1, "agentCapabilities": {"sessionCapabilities": {"resume": {}}}, "authMethods": [],
    });
    let (_, mut peer) = scene.initialise(&able);
    let id = scene.host.request_session(&scene.sandbox.cwd("home"));
    peer.take_session();
    let session = scene.host.result(&id)["sessionId"].as_str().unwrap().to_owned();
    close(&mut scene.host, &session);
    let mut host = scene.another();
    for step in ["initialize", "session/resume"] {
        let id = scene.resume(&mut host, &session, "home");
        let mut peer = scene.puppets.next();
        let initialize = peer.expect("initialize");
        if step == "initialize" {
            peer.error(&initialize, -32050, "not now");
        } else {
            peer.reply(&initialize, able.clone());
            let resume = peer.expect("session/resume");
            peer.error(&resume, -32050, "not now");
        }
        assert_eq!(host.error(&id), json!({"code": -32050, "message": "not now"}));
        assert!(!alive(peer.pid()));
        wait_residency(&scene.sandbox, 0, 0);
        let mut leaving = std::mem::replace(&mut host, scene.another());
        leaving.close_write();
        leaving.expect_end(PATIENCE / 4);
        is_refused(&mut host, &session);
    }
    let id = scene.resume(&mut host, &session, "home");
    let mut peer = scene.puppets.next();
    let initialize = peer.expect("initialize");
    peer.reply(&initialize, able.clone());
    let resume = peer.expect("session/resume");
    peer.reply(&resume, json!({}));
    host.result(&id);
    plays(&mut host, &session, &mut peer);
}

/// R42: a host whose resume failed can leave like any other.
#[test]
fn a_host_leaves_at_once_after_a_failed_resume() {
    let mut scene = Scene::playing(json!({"sessionCapabilities": {"resume": {}}}), json!({}), |_| {});
    let (session, mut peer) = scene.session("work");
    close(&mut scene.host, &session);
    peer.wait_gone();
    let mut host = scene.another();
    let id = host.request("session/resume", json!({"sessionId": session, "cwd": "/nonexistent"}));
    assert_eq!(host.error(&id)["code"], -32602);
    let unknown = "01900000-0000-7000-8000-000000000000";
    let id = scene.resume(&mut host, unknown, "work");
    assert_eq!(host.error(&id)["code"], -32002);
    host.close_write();
    host.expect_end(PATIENCE / 4);
}

/// R43: an id that is unknown, or not of that directory, costs no session that lives.
#[test]
fn an_unknown_session_disturbs_nobody() {
    let mut scene = resuming(json!({"resume": {}}), 4);
    let (session, mut peer) = scene.session("work");
    let (turn, prompt) = scene.turn(&session, &mut peer);
    let (files, mut second) = (scene.sandbox.files(), scene.another());
    scene.sandbox.cwd("elsewhere");
    for (id, dir) in [
        ("01900000-0000-7000-8000-000000000000", "work"),
        ("nonsense", "work"),
        (session.as_str(), "elsewhere"),
    ] {
        let asked = scene.resume(&mut second, id, dir);
        let error = second.error(&asked);
        assert_eq!((&error["code"], &error["data"]["sessionId"]), (&json!(-32002), &json!(id)));
    }
    assert!(scene.sandbox.files().keys().eq(files.keys()));
    assert_eq!(scene.puppets.untaken(), 0);
    assert_eq!(residency(&scene.sandbox), (1, 0));
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&turn), "end_turn");
}

/// R43: the session of another agent is not this agent's to resume.
#[test]
fn an_agent_resumes_only_its_own_sessions() {
    let mut scene = Scene::playing(json!({"sessionCapabilities": {"resume": {}}}), json!({}), |sandbox| {
        sandbox.demo_agent("d", &[]);
    });
    let (session, mut peer) = scene.session("work");
    let mut second = Host::direct(&scene.sandbox);
    let meta = json!({"acpvisor": {"agent": "d"}});
    let id = second.request("initialize", json!({"protocolVersion": 1, "_meta": meta}));
    second.result(&id);
    let id = scene.resume(&mut second, &session, "work");
    let message = second.error(&id)["message"].as_str().unwrap().to_owned();
    assert!(message.contains("agent `p`"), "{message}");
    scene.plays(&session, &mut peer);
}

/// R53: a host that holds a session and asks for it again is answered, and its turn goes on.
#[test]
fn resuming_what_one_holds_disturbs_nothing() {
    let mut scene = resuming(json!({"resume": {}}), 4);
    let (session, mut peer) = scene.session("work");
    let (turn, prompt) = scene.turn(&session, &mut peer);
    let cwd = scene.sandbox.cwd("work");
    let params = json!({"sessionId": session, "cwd": cwd, "mcpServers": []});
    let id = scene.host.request("session/resume", params);
    scene.host.result(&id);
    peer.update("going on");
    assert_eq!(scene.host.expect_text(), "going on");
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&turn), "end_turn");
    assert_eq!(scene.puppets.untaken(), 0);
}

/// R53, R72: what a host sends behind a resume waits for it.
#[test]
fn what_follows_a_resume_waits_for_it() {
    let mut scene = Scene::silent(|_| {});
    let able = json!({
        "protocolVersion": 1, "agentCapabilities": {"sessionCapabilities": {"resume": {}}}, "authMethods": [],
    });
    let (_, mut peer) = scene.initialise(&able);
    let id = scene.host.request_session(&scene.sandbox.cwd("home"));
    peer.take_session();
    let session = scene.host.result(&id)["sessionId"].as_str().unwrap().to_owned();
    let known = peer.session();
    close(&mut scene.host, &session);
    let mut host = scene.another();
    let resuming = scene.resume(&mut host, &session, "home");
    let mut peer = scene.puppets.next();
    let initialize = peer.expect("initialize");
    peer.reply(&initialize, able);
    let resume = peer.expect("session/resume");
    let mode = host.request("session/set_mode", json!({"sessionId": session, "modeId": "plan"}));
    let turn = host.prompt(&session, "go");
    let modes = json!([{"id": "ask", "name": "Ask"}, {"id": "plan", "name": "Plan"}]);
    peer.reply(&resume, json!({"modes": {"currentModeId": "ask", "availableModes": modes}}));
    host.result(&resuming);
    for (method, id, answer) in
        [("session/set_mode", mode, json!({})), ("session/prompt", turn, json!({"stopReason": "end_turn"}))]
    {
        let asked = peer.expect(method);
        assert_eq!(asked["params"]["sessionId"], json!(known));
        peer.reply(&asked, answer.clone());
        assert_eq!(host.result(&id), answer);
    }
}

/// R68: a session that is resident can be taken over although all slots are taken.
#[test]
fn a_takeover_needs_no_second_slot() {
    let mut scene = resuming(json!({"resume": {}}), 1);
    let (session, peer) = scene.session("work");
    let mut second = scene.another();
    let id = scene.resume(&mut second, &session, "work");
    second.result(&id);
    assert!(!alive(peer.pid()));
    let mut heir = scene.puppets.serving();
    plays(&mut second, &session, &mut heir);
    wait_residency(&scene.sandbox, 1, 0);
}

/// R68: a takeover that races with a new session: one of them gets the slot, and nothing breaks.
#[test]
fn a_takeover_may_lose_its_slot_to_a_new_session() {
    let mut scene = resuming(json!({"resume": {}}), 1);
    let (session, _peer) = scene.session("work");
    let mut third = scene.another();
    for round in 0..10 {
        let mut second = scene.another();
        let resume = scene.resume(&mut second, &session, "work");
        let new = third.request_session(&scene.sandbox.cwd("other"));
        let (resumed, made) = (second.answer(&resume), third.answer(&new));
        let errors: Vec<&Value> = [&resumed, &made].into_iter().filter_map(|a| a.get("error")).collect();
        assert_eq!(errors.len(), 1, "round {round}: {resumed} {made}");
        assert_eq!(errors[0]["data"], capacity(1), "round {round}");
        let mut peer = scene.puppets.serving();
        if let Some(other) = made["result"]["sessionId"].as_str() {
            plays(&mut third, other, &mut peer);
            close(&mut third, other);
            let resume = scene.resume(&mut second, &session, "work");
            second.result(&resume);
            peer = scene.puppets.serving();
        }
        plays(&mut second, &session, &mut peer);
        scene.host = second;
    }
}

/// R65, MH-01: two hosts that want one session at the same instant: one holds it, one process serves it.
#[test]
fn two_hosts_that_want_one_session_do_not_share_it() {
    let mut scene = resuming(json!({"resume": {}}), 4);
    let (session, mut peer) = scene.session("work");
    close(&mut scene.host, &session);
    peer.wait_gone();
    for round in 0..10 {
        let mut hosts = [scene.another(), scene.another()];
        let ids = hosts.each_mut().map(|host| scene.resume(host, &session, "work"));
        for (host, id) in hosts.iter_mut().zip(&ids) {
            host.result(id);
        }
        let first = scene.puppets.serving();
        let mut last = scene.puppets.serving();
        assert!(!alive(first.pid()) && alive(last.pid()), "round {round}");
        let prompts = hosts.each_mut().map(|host| host.prompt(&session, "go"));
        let prompt = last.expect("session/prompt");
        last.update("once");
        last.end_turn(&prompt);
        let answers: Vec<Value> = hosts.iter_mut().zip(&prompts).map(|(host, id)| host.answer(id)).collect();
        let ended = answers.iter().filter(|a| a["result"]["stopReason"] == "end_turn").count();
        let refused = answers.iter().filter(|a| a["error"]["code"] == -32002).count();
        assert_eq!((ended, refused), (1, 1), "round {round}: {answers:?}");
        let texts: String = hosts.iter_mut().map(Host::unread_text).collect();
        assert_eq!(texts, "once");
        drop(hosts);
        last.wait_gone();
        wait_residency(&scene.sandbox, 0, 0);
    }
}

/// MH-03: knowing the id of a session is not holding it.
#[test]
fn a_session_is_its_holders_only() {
    let mut scene = resuming(json!({"resume": {}}), 4);
    let (session, mut peer) = scene.session("work");
    let (turn, prompt) = scene.turn(&session, &mut peer);
    let ask = peer.ask_permission("t", "ls");
    let asked = scene.host.expect("session/request_permission");
    let mut stranger = scene.another();
    for (method, params) in [
        ("session/prompt", json!({"sessionId": session, "prompt": [{"type": "text", "text": "x"}]})),
        ("session/set_mode", json!({"sessionId": session, "modeId": "yolo"})),
        ("session/set_config_option", json!({"sessionId": session, "configId": "a", "value": "b"})),
        ("session/close", json!({"sessionId": session})),
        ("session/from_the_future", json!({"sessionId": session})),
    ] {
        let id = stranger.request(method, params);
        let error = stranger.error(&id);
        assert_eq!(
            (&error["code"], &error["data"]["sessionId"]),
            (&json!(-32002), &json!(session)),
            "{method}"
        );
    }
    stranger.cancel(&session);
    stranger.choose(&asked, "yes");
    // One more request behind them: what came before it was looked at.
    is_refused(&mut stranger, &session);
    scene.host.choose(&asked, "no");
    assert_eq!(peer.answer(&ask)["result"]["outcome"]["optionId"], "no");
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&turn), "end_turn");
    let foreign = |m: &Value| m["method"] == "session/cancel" || m["method"] == "session/set_mode";
    assert!(!peer.unread().iter().any(foreign));
}

/// R203: a close, the end of the connection and a stop at once end a session once.
#[test]
fn ends_that_meet_are_one_end() {
    let mut scene = slots(2);
    let (session, mut peer) = scene.session("work");
    let (_, _prompt) = scene.turn(&session, &mut peer);
    scene.host.request("session/close", json!({"sessionId": session}));
    scene.host.close_write();
    scene.sandbox.signal(Signal::TERM);
    assert_eq!(scene.sandbox.wait_exit(PATIENCE).code(), Some(0));
    let log = scene.sandbox.log();
    // Once in the file and once on stderr.
    assert_eq!(log.matches("session ends").count(), 2 * 2, "the warm one and this one: {log}");
    assert!(peer.unread().iter().filter(|m| m["method"] == "session/cancel").count() <= 1);
}
