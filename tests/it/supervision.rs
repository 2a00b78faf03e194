//! How agents are started and ended, and that nothing of them is left (groups N, O and P).

use std::{
    fs,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    host::Host,
    peer::Peer,
    process::{self, PATIENCE, alive, stopped, wait_until},
    sandbox::Sandbox,
    scene::Scene,
};

/// What a stop of the daemon may take.
const STOP_MAX: Duration = Duration::from_millis(5_500);

/// A scene whose puppets ignore TERM and the end of their stdin.
fn defiant() -> Scene {
    Scene::brisk(|sandbox| sandbox.puppet_flags("p", &["--ignore-term", "--ignore-eof"]))
}

fn message(error: &Value) -> &str {
    error["message"].as_str().unwrap_or_default()
}

/// R203: a close, the end of the host and the end of the daemon at once are one end.
#[test]
fn a_session_is_ended_once_whoever_asks() {
    let mut scene = defiant();
    let (session, mut peer) = scene.session("work");
    scene.turn(&session, &mut peer);
    scene.host.request("session/close", json!({"sessionId": session}));
    scene.host.close_write();
    scene.sandbox.signal(Signal::TERM);
    assert_eq!(scene.sandbox.wait_exit(STOP_MAX).code(), Some(0));
    peer.wait_gone();
    for event in ["session ends", "peer ended"] {
        let of_it = |line: &&String| line.contains(event) && line.contains(&session);
        assert_eq!(scene.sandbox.entries().iter().filter(of_it).count(), 1, "{event}");
    }
}

/// R204: first the turn is cancelled, then its answer leaves, then the process goes, then the close is answered.
#[test]
fn a_close_cancels_first_and_ends_the_process_last() {
    let mut scene = Scene::brisk(|sandbox| sandbox.set("limits", "cancel_grace_ms = 10000"));
    let (session, mut peer) = scene.session("work");
    let (id, prompt) = scene.turn(&session, &mut peer);
    let close = scene.host.request("session/close", json!({"sessionId": session}));
    peer.expect("session/cancel");
    assert!(!peer.heard("eof"), "its stdin is open while the turn is");
    peer.update("late");
    peer.reply(&prompt, json!({"stopReason": "cancelled"}));
    peer.wait_eof();
    scene.host.result(&close);
    assert!(!alive(peer.pid()));
    assert_eq!(scene.host.stop_reason(&id), "cancelled");
    assert_eq!(scene.host.unread_text(), "");
    let at = |id: &Value| {
        let line = |line: &Vec<u8>| serde_json::from_slice::<Value>(line).is_ok_and(|m| m["id"] == *id);
        scene.host.raw_lines().iter().rposition(line)
    };
    assert!(at(&id) < at(&close));
}

/// R59, R205, R206: a session that does not come about leaves no slot, process or record, however it fails.
#[test]
fn a_session_that_fails_to_start_leaves_nothing() {
    let initialized = r#"read l; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}'; read l"#;
    let agents = [
        ("exits", "exit 1".to_owned()),
        ("silent", "sleep 60".to_owned()),
        (
            "wrong",
            r#"read l; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":99}}'; sleep 60"#.to_owned(),
        ),
        (
            "refuses",
            r#"read l; echo '{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}'; sleep 60"#
                .to_owned(),
        ),
        ("nameless", format!(r#"{initialized}; echo '{{"jsonrpc":"2.0","id":2,"result":{{}}}}'; sleep 60"#)),
        (
            "unwilling",
            format!(
                r#"{initialized}; echo '{{"jsonrpc":"2.0","id":2,"error":{{"code":-1,"message":"no"}}}}'; sleep 60"#
            ),
        ),
        ("leaves", format!("{initialized}; sleep 0.1; exit 0")),
    ];
    let mut sandbox = Sandbox::new();
    for (name, script) in &agents {
        sandbox.program(name, "/bin/sh", &["-c", script]);
        sandbox.set(&format!("agent.{name}"), "handshake_s = 1");
        sandbox.set(&format!("agent.{name}"), "stop_grace_ms = 300");
    }
    sandbox.demo_agent("good", &[]);
    sandbox.set("limits", "sessions_max = 2");
    sandbox.start();
    for (name, _) in &agents {
        let mut host = Host::direct(&sandbox);
        let meta = json!({"acpvisor": {"agent": name}});
        let id = host
            .request("initialize", json!({"protocolVersion": 1, "clientCapabilities": {}, "_meta": meta}));
        if host.answer(&id).get("result").is_some() {
            let id = host.request_session(&sandbox.cwd(name));
            host.error(&id);
        }
        drop(host);
        sandbox.wait_empty();
    }
    let mut host = Host::direct(&sandbox);
    let meta = json!({"acpvisor": {"agent": "good"}});
    let id =
        host.request("initialize", json!({"protocolVersion": 1, "clientCapabilities": {}, "_meta": meta}));
    host.result(&id);
    host.new_session(&sandbox.cwd("one"));
}

/// R207, R220: what is asked of a session behind its close fails.
#[test]
fn a_closed_session_takes_no_more_requests() {
    let mut scene = Scene::brisk(|_| {});
    let (session, mut peer) = scene.session("work");
    let close = scene.host.request("session/close", json!({"sessionId": session}));
    let behind = scene.host.prompt(&session, "behind");
    scene.host.result(&close);
    assert_eq!(scene.host.error(&behind)["code"], -32002);
    peer.wait_gone();
    let text = json!([{"type": "text", "text": "x"}]);
    let requests = [
        ("session/prompt", json!({"sessionId": session, "prompt": text})),
        ("session/set_mode", json!({"sessionId": session, "modeId": "x"})),
        ("session/set_config_option", json!({"sessionId": session, "configId": "x", "value": "y"})),
        ("session/from_the_future", json!({"sessionId": session})),
    ];
    for (method, params) in requests {
        let id = scene.host.request(method, params);
        assert_eq!(scene.host.error(&id)["code"], -32002, "{method}");
    }
    let again = scene.host.request("session/close", json!({"sessionId": session}));
    assert_eq!(scene.host.result(&again), json!({}));
}

/// R208: a host that leaves while its session is being set up is answered, and nothing is left.
#[test]
fn a_host_that_leaves_during_set_up_leaves_nothing() {
    let mut sandbox = Sandbox::new();
    let mut puppets = sandbox.puppet_agent("p");
    sandbox.set("agent.p", "stop_grace_ms = 400");
    sandbox.start();
    let mut host = Host::direct(&sandbox);
    let id = host.request_initialize(json!({}));
    let mut warm = puppets.next();
    let initialize = warm.expect("initialize");
    warm.reply(&initialize, json!({"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []}));
    host.result(&id);
    let new = host.request_session(&sandbox.cwd("work"));
    let mut peer = puppets.next();
    peer.expect("initialize");
    host.close_write();
    assert_eq!(host.error(&new)["code"], -32603);
    host.expect_end(Duration::from_secs(4));
    peer.wait_gone();
    sandbox.wait_empty();
    sandbox.signal(Signal::TERM);
    assert_eq!(sandbox.wait_exit(STOP_MAX).code(), Some(0));
}

/// R208, R256: a connection that its host ended is over as soon as its sessions are, and its place is free.
#[test]
fn a_connection_ends_with_its_sessions() {
    let mut scene = Scene::brisk(|_| {});
    let (session, mut peer) = scene.session("work");
    let (id, _) = scene.turn(&session, &mut peer);
    scene.host.close_write();
    assert_eq!(scene.host.stop_reason(&id), "cancelled");
    scene.host.expect_end(Duration::from_secs(4));
    wait_until("its place is free", PATIENCE, || {
        scene.sandbox.control("status", json!({}))["hosts"] == json!(0)
    });
}

/// R209: a stop ends twenty busy agents that ignore everything, in time, and tells every host.
#[test]
fn a_stop_ends_twenty_busy_agents_in_time() {
    let mut scene = defiant();
    let opened: Vec<Value> =
        (0..20).map(|n| scene.host.request_session(&scene.sandbox.cwd(&format!("work{n}")))).collect();
    let sessions: Vec<String> = opened
        .iter()
        .map(|id| {
            scene.host.answer_within(id, 3 * PATIENCE)["result"]["sessionId"].as_str().unwrap().to_owned()
        })
        .collect();
    let prompts: Vec<Value> = sessions.iter().map(|session| scene.host.prompt(session, "go")).collect();
    let mut peers: Vec<Peer> = (0..20).map(|_| scene.puppets.serving()).collect();
    peers.iter_mut().for_each(|peer| drop(peer.expect("session/prompt")));
    scene.sandbox.signal(Signal::TERM);
    assert_eq!(scene.sandbox.wait_exit(STOP_MAX).code(), Some(0));
    wait_until("nothing is left", Duration::from_secs(1), || scene.sandbox.survivors().is_empty());
    for id in &prompts {
        assert_eq!(scene.host.stop_reason(id), "cancelled");
    }
}

/// R210, PROC-12: what a killed daemon could not end is ended by the next one, which says so.
#[test]
fn the_next_start_ends_what_a_killed_daemon_left() {
    let mut scene = defiant();
    let peers: Vec<Peer> = ["a", "b", "c"].map(|dir| scene.session(dir).1).into();
    let shims: Vec<u32> = peers.iter().map(|peer| peer.hello.ppid).collect();
    for shim in &shims {
        process::signal(*shim, Signal::STOP);
        wait_until("the shim stands still", PATIENCE, || stopped(*shim));
    }
    scene.sandbox.kill();
    assert!(peers.iter().all(|peer| alive(peer.pid())), "nobody could end them");
    scene.sandbox.start();
    // Connections wait while it cleans up.
    scene.sandbox.control("status", json!({}));
    assert!(!peers.iter().any(|peer| alive(peer.pid())) && !shims.iter().any(|shim| alive(*shim)));
    wait_until("it says so", PATIENCE, || scene.sandbox.logged("left behind by a former daemon") >= 3);
    let mut host = Host::direct(&scene.sandbox);
    host.initialize(json!({}));
    host.new_session(&scene.sandbox.cwd("a"));
}

/// R211: an agent leads a group of its own, in the directory of its session; a missing one is named.
#[test]
fn an_agent_leads_its_own_group_in_its_directory() {
    let mut scene = Scene::brisk(|sandbox| sandbox.program("gone", "no-such-agent", &[]));
    let (_, peer) = scene.session("work");
    assert_eq!(peer.hello.pgid, peer.pid());
    assert_eq!(peer.hello.cwd, scene.sandbox.cwd("work"));
    assert_ne!(peer.hello.ppid, scene.sandbox.pid(), "its parent is the shim");
    let mut host = Host::direct(&scene.sandbox);
    let meta = json!({"acpvisor": {"agent": "gone"}});
    let id =
        host.request("initialize", json!({"protocolVersion": 1, "clientCapabilities": {}, "_meta": meta}));
    let error = host.error(&id);
    assert!(message(&error).contains("no-such-agent") && message(&error).contains("PATH"), "{error}");
}

/// R215, R250: an agent that hears the cancel and one that does not: both turns end, and a second order to end is
/// harmless.
#[test]
fn a_cancel_is_polite_first_and_certain_then() {
    let mut scene = defiant();
    let (polite, mut hears) = scene.session("polite");
    let (deaf, mut does_not) = scene.session("deaf");
    let (a, prompt) = scene.turn(&polite, &mut hears);
    let (b, _) = scene.turn(&deaf, &mut does_not);
    does_not.obey("stop-reading");
    scene.host.cancel(&polite);
    scene.host.cancel(&deaf);
    hears.expect("session/cancel");
    hears.reply(&prompt, json!({"stopReason": "cancelled"}));
    assert_eq!(scene.host.stop_reason(&a), "cancelled");
    assert_eq!(scene.host.stop_reason(&b), "cancelled");
    does_not.wait_gone();
    assert!(alive(hears.pid()));
    scene.plays(&polite, &mut hears);
    for session in [&polite, &deaf] {
        scene.sandbox.control("sessions.kill", json!({"id": session}));
        let again = scene.sandbox.try_control("sessions.kill", json!({"id": session}));
        assert_eq!(again.unwrap_err()["code"], -32002);
    }
    scene.sandbox.wait_empty();
}

/// R217, R219, R251: how an agent ended is told, behind everything it said before.
#[test]
fn what_an_agent_said_stays_and_its_end_is_told() {
    let mut scene = Scene::brisk(|_| {});
    for (n, (order, told)) in
        [("exit 0", "status 0"), ("exit 3", "status 3"), ("kill", "signal 9")].into_iter().enumerate()
    {
        let (session, mut peer) = scene.session(&format!("work{n}"));
        let (id, _) = scene.turn(&session, &mut peer);
        for text in ["one ", "two ", "three "] {
            peer.update(text);
        }
        peer.obey("stderr a last word");
        scene.host.take("the third piece", PATIENCE, |m| crate::line::text(m) == Some("three "));
        match order {
            "kill" => process::signal(peer.pid(), Signal::KILL),
            order => peer.command(order),
        }
        let error = scene.host.error(&id);
        assert_eq!((&error["code"], &error["data"]["failure"]["retryable"]), (&json!(-32603), &json!(true)));
        assert!(message(&error).contains(told) && message(&error).ends_with("a last word"), "{error}");
        assert_eq!(scene.host.unread_text(), "one two ");
    }
}

/// R216: an agent that had done its work when it was ended has completed it; one that was in the middle has not.
#[test]
fn an_end_that_was_ordered_is_classified_by_what_was_done() {
    let mut scene = Scene::brisk(|_| {});
    for (dir, done, outcome) in [("done", true, "Completed"), ("undone", false, "Aborted")] {
        let (session, mut peer) = scene.session(dir);
        if done {
            scene.plays(&session, &mut peer);
        }
        let close = scene.host.request("session/close", json!({"sessionId": session}));
        scene.host.result(&close);
        let told = |entry: &String| entry.contains(&session) && entry.contains("peer exit classified");
        wait_until("the exit is classified", PATIENCE, || scene.sandbox.entries().iter().any(told));
        let entry = scene.sandbox.entries().into_iter().find(told).unwrap();
        assert!(entry.contains(outcome), "{entry}");
    }
}

/// R218: an agent that cannot be read any more is ended as a whole, with that cause.
#[test]
fn a_read_that_fails_ends_the_session_with_its_cause() {
    let mut scene = Scene::brisk(|sandbox| sandbox.set("limits", "write_stall_ms = 500"));
    let (session, mut peer) = scene.session("work");
    let (id, _) = scene.turn(&session, &mut peer);
    let children = peer.spawn("spawn-setsid");
    // More than a window, and never a line.
    peer.raw("x".repeat(3 << 20).as_bytes());
    let error = scene.host.error(&id);
    assert!(message(&error).contains("could not be read"), "{error}");
    peer.wait_gone();
    wait_until("its children are gone", PATIENCE, || !children.iter().any(|pid| alive(*pid)));
}

/// R223: however long a turn is silent, nobody ends it.
#[test]
fn a_turn_may_be_silent_for_longer_than_any_limit() {
    let mut scene = Scene::brisk(|sandbox| {
        for limit in ["cancel_grace_ms", "write_stall_ms", "warm_ms"] {
            sandbox.set("limits", &format!("{limit} = 100"));
        }
        sandbox.set("agent.p", "handshake_s = 2");
        sandbox.set("agent.p", "stop_grace_ms = 100");
    });
    let (session, mut peer) = scene.session("work");
    let (id, prompt) = scene.turn(&session, &mut peer);
    for _ in 0..4 {
        scene.sandbox.wait_quiet(&session);
    }
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
}

/// R222: an agent that closes its stdout and lives on is ended after the grace, and its turn with it.
#[test]
fn an_agent_that_closes_its_stdout_is_ended() {
    let mut scene = defiant();
    let (session, mut peer) = scene.session("work");
    let (id, _) = scene.turn(&session, &mut peer);
    peer.update("last words");
    peer.obey("close-stdout");
    let started = Instant::now();
    assert_eq!(scene.host.error(&id)["code"], -32603);
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    peer.wait_gone();
    assert_eq!(scene.host.unread_text(), "last words");
}

/// R222, R227, HANG-02: an agent that leaves after its answer has answered; the next prompt starts another one.
#[test]
fn an_agent_that_exits_after_its_answer_is_replaced() {
    let mut sandbox = Sandbox::new();
    sandbox.demo_agent("d", &[]);
    sandbox.start();
    let mut host = Host::direct(&sandbox);
    host.initialize(json!({}));
    let session = host.new_session(&sandbox.cwd("work"));
    for order in ["exit-after", "echo again"] {
        let id = host.prompt(&session, order);
        assert_eq!(host.stop_reason(&id), "end_turn");
        if order == "exit-after" {
            wait_until("it is gone", PATIENCE, || sandbox.peer_card(&session).is_null());
        }
    }
    assert_eq!(host.unread_text(), "goodbyeagain");
    host.new_session(&sandbox.cwd("work"));
}

/// PROC-10: a host that vanishes takes its sessions along: never unlisted and alive.
#[test]
fn a_host_that_vanishes_takes_its_sessions_along() {
    let mut scene = defiant();
    let mut editor = Host::bridge(&scene.sandbox, "p");
    editor.initialize(json!({}));
    let session = editor.new_session(&scene.sandbox.cwd("work"));
    let peer = scene.puppets.serving();
    assert!(scene.sandbox.sessions().contains(&session));
    process::signal(editor.pid(), Signal::KILL);
    wait_until("the session is not listed", PATIENCE, || !scene.sandbox.sessions().contains(&session));
    assert!(!alive(peer.pid()), "unlisted and alive");
}

/// SES-07, R227: an agent that exits between turns is told of, and the next prompt starts it once.
#[test]
fn an_agent_that_exits_while_idle_is_started_once_more() {
    let mut scene = Scene::brisk(|_| {});
    let (session, mut peer) = scene.session("work");
    peer.command("exit 0");
    let told = scene
        .host
        .take("the news", PATIENCE, |m| m["params"]["update"]["sessionUpdate"] == "session_info_update");
    assert_eq!(told["params"]["update"]["_meta"]["acpvisor"]["peer"], "gone");
    assert!(scene.sandbox.sessions().contains(&session));
    let started = scene.puppets.untaken();
    let id = scene.host.prompt(&session, "go");
    let mut fresh = scene.puppets.serving();
    let prompt = fresh.expect("session/prompt");
    fresh.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
    assert_eq!(scene.puppets.untaken(), started, "it was started once");
}

/// R227, UPG-06: a program that never starts is held back, its last error is told, and it is not tried meanwhile.
#[test]
fn a_program_that_never_starts_is_held_back() {
    let mut sandbox = Sandbox::new();
    let mut puppets = sandbox.puppet_agent("p").willing();
    let tried = sandbox.path("tried");
    let script = format!(
        r#"[ "$PWD" = "$HOME" ] && exec "$0" demo-agent --puppet "$1"; echo x >>{}; echo no luck >&2; exit 1"#,
        tried.display()
    );
    sandbox.wrap("p", &script);
    sandbox.start();
    let mut host = Host::direct(&sandbox);
    host.initialize(json!({}));
    let cwd = sandbox.cwd("work");
    for n in 0..6 {
        let id = host.request_session(&cwd);
        let error = host.error(&id);
        let told = if n < 3 { "no luck" } else { "held back for" };
        assert!(message(&error).contains(told), "{n}: {error}");
        assert!(message(&error).contains("no luck"), "its last error is told as well: {error}");
        assert_eq!(error["data"]["retryAfterMs"].is_u64(), n >= 3, "{error}");
    }
    assert_eq!(fs::read_to_string(&tried).unwrap(), "x\n".repeat(3));
    assert_eq!(puppets.untaken(), 1, "elsewhere it is not held back");
    let elsewhere = host.request_session(&sandbox.cwd("elsewhere"));
    assert!(message(&host.error(&elsewhere)).contains("no luck"));
}

/// R227, UPG-07: so is one that starts well and dies in every turn.
#[test]
fn a_program_that_dies_in_every_turn_is_held_back() {
    let mut sandbox = Sandbox::new();
    sandbox.demo_agent("d", &[]);
    sandbox.start();
    let mut host = Host::direct(&sandbox);
    host.initialize(json!({}));
    let session = host.new_session(&sandbox.cwd("work"));
    for told in ["status 1", "status 1", "status 1", "held back for"] {
        let id = host.prompt(&session, "crash");
        let error = host.error(&id);
        assert!(message(&error).contains(told), "{error}");
    }
    wait_until("nothing is started", PATIENCE, || sandbox.peer_card(&session).is_null());
    assert!(sandbox.sessions().contains(&session), "the session itself lives on");
}
