//! Whoever takes slowly slows whoever says it and nobody else, and memory stays what it was (groups A and G).

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{
    host::Host,
    line,
    peer::Peer,
    process::{PATIENCE, wait_until},
    sandbox::Sandbox,
    scene::Scene,
};

const MIB: usize = 1 << 20;
/// What the daemon may hold, whatever is offered to it.
const FLAT: usize = 64 * MIB;

/// Reads texts until one does not come; they must be numbered from `from` on. Returns the next number.
fn numbered(host: &mut Host, from: usize, count: usize) -> usize {
    for n in from..from + count {
        let text = host.expect_text();
        assert_eq!(text.split(' ').next(), Some(n.to_string().as_str()));
    }
    from + count
}

/// A host that lets one session's peer fill everything there is between the two.
fn clogged(scene: &mut Scene, session: &str, peer: &mut Peer) -> Value {
    let (id, _) = scene.turn(session, peer);
    peer.flood(100_000, 4_096);
    scene.host.expect_text();
    scene.host.stop_reading();
    scene.sandbox.wait_quiet(session);
    assert!(!peer.heard("done flood"));
    id
}

/// R10: a peer that reads nothing fails its own prompt, in time and by name, and disturbs nobody.
#[test]
fn a_peer_that_does_not_read_fails_its_prompt_alone() {
    let mut scene = Scene::brisk(|sandbox| sandbox.set("limits", "write_stall_ms = 1000"));
    let (deaf, mut deaf_peer) = scene.session("deaf");
    let (other, mut other_peer) = scene.session("other");
    deaf_peer.obey("stop-reading");
    let started = Instant::now();
    let id = scene.host.prompt(&deaf, &"x".repeat(MIB));
    scene.plays(&other, &mut other_peer);
    let error = scene.host.error(&id);
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
    assert_eq!(error["code"], -32603);
    assert!(error["message"].as_str().is_some_and(|text| text.contains("write timeout")), "{error}");
    deaf_peer.wait_gone();
    scene.plays(&other, &mut other_peer);
}

/// R10: what a peer does not read is bounded: a request beyond that is refused, the session lives on.
#[test]
fn requests_beyond_the_queue_of_a_peer_are_refused_by_name() {
    let mut scene = Scene::brisk(|_| {});
    let (session, mut peer) = scene.session("work");
    peer.obey("stop-reading");
    let text = "x".repeat(100_000);
    let ask = |host: &mut Host| {
        host.request("session/from_the_future", json!({"sessionId": session, "text": text}))
    };
    let ids: Vec<Value> = (0..120).map(|_| ask(&mut scene.host)).collect();
    let refused = scene.host.answer(ids.last().unwrap());
    assert_eq!(
        (&refused["error"]["code"], &refused["error"]["data"]["resource"]),
        (&json!(-32603), &json!("pending_bytes"))
    );
    peer.obey("resume-reading");
    let mut answered = 0;
    for id in &ids[..60] {
        let asked = peer.expect("session/from_the_future");
        peer.reply(&asked, json!({}));
        answered += usize::from(scene.host.answer(id).get("result").is_some());
    }
    assert_eq!(answered, 60, "what was taken in is answered by the peer");
}

/// R10, R110: a flood of fifty mebibytes does not keep the answers of open questions from their peer.
#[test]
fn questions_are_answered_during_a_flood() {
    let mut scene = Scene::brisk(|_| {});
    let (session, mut peer) = scene.session("work");
    let (id, prompt) = scene.turn(&session, &mut peer);
    let questions: Vec<Value> = (0..16).map(|n| peer.ask_permission(&format!("call-{n}"), "true")).collect();
    peer.flood(800, 64 << 10);
    for _ in &questions {
        let asked = scene.host.expect("session/request_permission");
        scene.host.choose(&asked, "yes");
    }
    for question in &questions {
        assert_eq!(peer.answer(question)["result"]["outcome"]["optionId"], "yes");
    }
    numbered(&mut scene.host, 0, 800);
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
    assert!(scene.sandbox.peak_rss() < FLAT, "{} bytes", scene.sandbox.peak_rss());
}

/// R11: a peer that closes its stdin ends its session with that cause, after everything it said.
#[test]
fn a_closed_stdin_is_the_named_end_of_a_session() {
    let mut scene = Scene::brisk(|_| {});
    let (session, mut peer) = scene.session("work");
    let (id, _) = scene.turn(&session, &mut peer);
    peer.update("said before");
    peer.ask_permission("call", "true");
    peer.obey("close-stdin");
    let asked = scene.host.expect("session/request_permission");
    scene.host.choose(&asked, "yes");
    let error = scene.host.error(&id);
    assert!(error["message"].as_str().is_some_and(|text| text.contains("stdin")), "{error}");
    assert_eq!(scene.host.unread_text(), "said before");
    peer.wait_gone();
}

/// R104, R110, R249: of a gibibyte that is offered to a host which does not read, nothing is kept.
#[test]
fn a_host_that_does_not_read_blocks_its_peer_and_costs_nothing() {
    let mut scene = Scene::brisk(|_| {});
    let (session, mut peer) = scene.session("work");
    scene.plays(&session, &mut peer);
    let before = scene.sandbox.rss();
    let (id, _) = scene.turn(&session, &mut peer);
    peer.flood(16 << 10, 64 << 10);
    scene.host.expect_text();
    scene.host.stop_reading();
    scene.sandbox.wait_quiet(&session);
    assert!(!peer.heard("done flood"), "the peer is not blocked");
    let grown = scene.sandbox.peak_rss().saturating_sub(before);
    assert!(grown < 16 * MIB && scene.sandbox.peak_rss() < FLAT, "grew by {grown}");
    let close = scene.host.request("session/close", json!({"sessionId": session}));
    scene.host.resume_reading();
    assert_eq!(scene.host.stop_reason(&id), "cancelled");
    scene.host.result(&close);
    peer.wait_gone();
}

/// R73, R109, R110, R114: a host that reads by fits and starts gets everything, in order, before the answer.
#[test]
fn a_host_that_pauses_gets_everything_in_order() {
    const COUNT: usize = 2_000;
    let mut scene = Scene::brisk(|_| {});
    let (session, mut peer) = scene.session("work");
    let (id, prompt) = scene.turn(&session, &mut peer);
    peer.flood(COUNT as u64, 4_096);
    peer.end_turn(&prompt);
    let mut next = 0;
    for _ in 0..3 {
        scene.host.stop_reading();
        scene.sandbox.wait_quiet(&session);
        scene.host.resume_reading();
        next = numbered(&mut scene.host, next, 500);
    }
    numbered(&mut scene.host, next, COUNT - next);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
    let last = scene.host.raw_lines().last().unwrap();
    assert!(String::from_utf8_lossy(last).contains("end_turn"), "the answer is the last line");
}

/// R107: what a peer says leaves in its own order, whatever kind it is.
#[test]
fn lines_of_every_kind_keep_their_order() {
    let mut scene = Scene::with(json!({"fs": {"readTextFile": true}}), |_| {});
    let (session, mut peer) = scene.session("work");
    let ours = scene.host.request("session/from_the_future", json!({"sessionId": session}));
    let (id, prompt) = scene.turn(&session, &mut peer);
    let asked = peer.expect("session/from_the_future");
    for n in 0..50 {
        peer.update(&format!("mark-{}-", 4 * n));
        peer.request(
            "fs/read_text_file",
            json!({"sessionId": peer.session(), "path": format!("/mark-{}-", 4 * n + 1)}),
        );
        peer.notify(
            "session/vendor",
            json!({"sessionId": peer.session(), "x": format!("mark-{}-", 4 * n + 2)}),
        );
        peer.request(
            "_vendor/ask",
            json!({"sessionId": peer.session(), "x": format!("mark-{}-", 4 * n + 3)}),
        );
    }
    peer.reply(&asked, json!({"x": "mark-200-"}));
    peer.update("mark-201-");
    peer.end_turn(&prompt);
    scene.host.result(&ours);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
    let mark = |line: &Vec<u8>| {
        let text = String::from_utf8_lossy(line).into_owned();
        text.split_once("mark-")?.1.split('-').next()?.parse::<usize>().ok()
    };
    let order: Vec<usize> = scene.host.raw_lines().iter().filter_map(mark).collect();
    assert_eq!(order, Vec::from_iter(0..=201));
}

/// R111: an update larger than any queue arrives whole and the turn ends as if nothing were.
#[test]
fn an_update_of_twenty_mebibytes_arrives_whole() {
    let mut scene = Scene::brisk(|_| {});
    let (session, mut peer) = scene.session("work");
    let (id, prompt) = scene.turn(&session, &mut peer);
    peer.update("before");
    peer.update(&"x".repeat(20 * MIB));
    peer.update("after");
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
    let texts: Vec<String> = (0..3).map(|_| scene.host.expect_text()).collect();
    assert_eq!(texts.iter().map(String::len).collect::<Vec<_>>(), [6, 20 * MIB, 5]);
    assert!(scene.sandbox.peak_rss() < 128 * MIB, "{} bytes", scene.sandbox.peak_rss());
    scene.plays(&session, &mut peer);
}

/// SIZE-03, R31: a history with a line of seventeen mebibytes is no reason not to take a session up again.
#[test]
fn a_long_line_in_a_history_does_not_prevent_a_resume() {
    let mut sandbox = Sandbox::new();
    let mut puppets = sandbox.puppet_agent("p");
    sandbox.start();
    let mut first = Host::direct(&sandbox);
    let id = first.request_initialize(json!({}));
    let mut warm = puppets.next();
    let initialize = warm.expect("initialize");
    let capable =
        json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true}, "authMethods": []});
    warm.reply(&initialize, capable.clone());
    first.result(&id);
    let cwd = sandbox.cwd("work");
    let new = first.request_session(&cwd);
    let mut peer = puppets.next();
    let initialize = peer.expect("initialize");
    peer.reply(&initialize, capable.clone());
    peer.take_session();
    let session = first.result(&new)["sessionId"].as_str().unwrap().to_owned();
    drop(first);
    wait_until("the session has ended", PATIENCE, || sandbox.sessions().is_empty());

    let mut second = Host::direct(&sandbox);
    second.initialize(json!({}));
    let params = json!({"sessionId": session, "cwd": cwd, "mcpServers": []});
    let resume = second.request("session/resume", params);
    let mut peer = puppets.next();
    let initialize = peer.expect("initialize");
    peer.reply(&initialize, capable);
    let load = peer.expect("session/load");
    let known = load["params"]["sessionId"].as_str().unwrap().to_owned();
    peer.update_as(&known, &"x".repeat(17 * MIB));
    peer.reply(&load, Value::Null);
    assert!(second.result(&resume).is_object());
    assert!(second.raw_lines().iter().all(|line| line.len() < MIB), "history is not said twice");
}

/// R108, R112, R113, R115: what nobody can slow overflows at its bound, and costs that one session.
#[test]
fn an_overflow_ends_one_session_and_leaves_the_other() {
    let mut scene = Scene::brisk(|_| {});
    let (full, mut peer) = scene.session("full");
    let (other, mut other_peer) = scene.session("other");
    let running = clogged(&mut scene, &full, &mut peer);
    let mut ids = Vec::new();
    for _ in 0..6 {
        ids.extend((0..20).map(|_| scene.host.prompt(&full, "wait")));
        scene.host.cancel(&full);
    }
    scene.sandbox.wait_logged("\"kind\":\"overflow\"", 1);
    wait_until("one session is left", PATIENCE, || scene.sandbox.sessions().len() == 1);
    peer.wait_gone();
    scene.host.resume_reading();
    assert_eq!(scene.host.stop_reason(&running), "cancelled");
    for id in &ids {
        scene.host.answer(id);
    }
    scene.plays(&other, &mut other_peer);
    assert_eq!(scene.sandbox.sessions().into_iter().collect::<Vec<_>>(), [other]);
    scene.sandbox.wait_logged("\"kind\":\"overflow\"", 1);
}

/// R108, R112, R113, R118: a host that takes nothing loses its connection and its sessions, once and without a
/// word of what was said.
#[test]
fn a_host_that_takes_nothing_loses_its_sessions_once() {
    let mut scene = Scene::brisk(|sandbox| sandbox.set("limits", "write_stall_ms = 1000"));
    let (a, mut peer_a) = scene.session("a");
    let (b, mut peer_b) = scene.session("b");
    let (_, _) = scene.turn(&b, &mut peer_b);
    scene.host.prompt(&a, "PAYLOAD-of-the-host");
    peer_a.update("PAYLOAD-of-the-peer");
    peer_a.raw(b"PAYLOAD that is no message\n");
    peer_a.expect("session/prompt");
    peer_a.flood(100_000, 4_096);
    let flood = |m: &Value| line::text(m).is_some_and(|text| text.starts_with("0 "));
    scene.host.take("the flood", PATIENCE, flood);
    scene.host.stop_reading();
    peer_a.expect("session/cancel");
    peer_b.expect("session/cancel");
    scene.sandbox.wait_empty();
    scene.sandbox.wait_logged("host cannot be written to", 1);
    scene.sandbox.wait_logged("host is gone", 1);
    for session in [&a, &b] {
        let of_it = |line: &&String| line.contains(session.as_str()) && line.contains("session ends");
        assert_eq!(scene.sandbox.entries().iter().filter(of_it).count(), 1);
    }
    assert_eq!(scene.sandbox.logged("PAYLOAD"), 0);
    let mut next = Host::direct(&scene.sandbox);
    next.initialize(json!({}));
    next.new_session(&scene.sandbox.cwd("c"));
}

/// R115: while one session floods a host that reads, the turns of another go on.
#[test]
fn a_flood_does_not_starve_another_session() {
    let mut scene = Scene::brisk(|_| {});
    scene.host = Host::paced(&scene.sandbox);
    scene.host.initialize(json!({}));
    let (loud, mut loud_peer) = scene.session("loud");
    let (quiet, mut quiet_peer) = scene.session("quiet");
    let (id, _) = scene.turn(&loud, &mut loud_peer);
    loud_peer.flood(1 << 20, 1_024);
    scene.host.expect_text();
    for _ in 0..5 {
        let (id, prompt) = scene.turn(&quiet, &mut quiet_peer);
        quiet_peer.end_turn(&prompt);
        let answer = scene.host.answer_within(&id, Duration::from_secs(5));
        assert_eq!(answer["result"]["stopReason"], "end_turn");
    }
    assert!(!loud_peer.heard("done flood"), "the flood was over too soon to tell");
    let close = scene.host.request("session/close", json!({"sessionId": loud}));
    assert_eq!(scene.host.stop_reason(&id), "cancelled");
    scene.host.result(&close);
}

/// R107, R116: a close is answered behind all that was said of the session, also to a host that reads late.
#[test]
fn a_close_is_answered_behind_what_waits_for_a_slow_host() {
    let mut scene = Scene::brisk(|_| {});
    let (session, mut peer) = scene.session("work");
    let (id, prompt) = scene.turn(&session, &mut peer);
    scene.host.stop_reading();
    for _ in 0..100 {
        peer.update(&"x".repeat(8 << 10));
    }
    scene.sandbox.wait_quiet(&session);
    let close = scene.host.request("session/close", json!({"sessionId": session}));
    peer.expect("session/cancel");
    peer.end_turn(&prompt);
    peer.wait_gone();
    wait_until("the session is gone", PATIENCE, || !scene.sandbox.sessions().contains(&session));
    scene.host.resume_reading();
    assert_eq!(scene.host.stop_reason(&id), "cancelled");
    scene.host.result(&close);
    let answers = |line: &[u8], id: &Value| {
        let message: Value = serde_json::from_slice(line).unwrap();
        message.get("method").is_none() && message["id"] == *id
    };
    let lines = scene.host.raw_lines();
    let closed = lines.iter().position(|line| answers(line, &close)).unwrap();
    let ended = lines.iter().position(|line| answers(line, &id)).unwrap();
    let last = lines.iter().rposition(|line| line::shown(line).contains(&session)).unwrap();
    assert!(closed > ended && closed > last, "closed {closed}, ended {ended}, last update {last}");
}

/// R111: a line larger than the queue does not take the place of what the daemon itself has to say.
#[test]
fn a_notice_fits_behind_a_large_line() {
    let mut scene = Scene::brisk(|_| {});
    let (session, mut peer) = scene.session("work");
    let (first, prompt) = scene.turn(&session, &mut peer);
    scene.host.stop_reading();
    // The first line is what the reader was waiting for when it was stopped.
    peer.update("short");
    peer.update(&"x".repeat(10 << 20));
    scene.sandbox.wait_quiet(&session);
    let second = scene.host.prompt(&session, "and then");
    wait_until("the second prompt waits", PATIENCE, || {
        scene.sandbox.control("sessions.show", json!({ "id": session }))["session"]["waiting"] == 1
    });
    peer.end_turn(&prompt);
    scene.host.resume_reading();
    assert_eq!(scene.host.stop_reason(&first), "end_turn");
    let prompt = peer.expect("session/prompt");
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&second), "end_turn");
}

/// R116, R117, R204: nothing of a session comes behind the answer to its close.
#[test]
fn nothing_comes_behind_the_answer_to_a_close() {
    let mut scene = Scene::brisk(|_| {});
    let (session, mut peer) = scene.session("work");
    let (other, mut other_peer) = scene.session("other");
    let (id, _) = scene.turn(&session, &mut peer);
    peer.flood(1 << 20, 256);
    scene.host.expect_text();
    let close = scene.host.request("session/close", json!({"sessionId": session}));
    assert_eq!(scene.host.stop_reason(&id), "cancelled");
    scene.host.result(&close);
    let settled = scene.host.raw_lines().len();
    peer.wait_gone();
    // Longer than every timer of the session could take: its cancel and its stop.
    for _ in 0..3 {
        scene.plays(&other, &mut other_peer);
        scene.sandbox.wait_quiet(&other);
    }
    let late = &scene.host.raw_lines()[settled..];
    let late: Vec<_> =
        late.iter().map(|line| line::shown(line)).filter(|line| line.contains(&session)).collect();
    assert_eq!(late, Vec::<String>::new());
}

/// R110, R250: the grace of a cancel does not run while a slow host keeps its agent from answering.
#[test]
fn a_cancel_waits_for_a_slow_host() {
    let mut scene = Scene::brisk(|sandbox| sandbox.set("limits", "cancel_grace_ms = 1000"));
    let (session, mut peer) = scene.session("work");
    let (id, prompt) = scene.turn(&session, &mut peer);
    peer.flood(8_000, 4_096);
    let next = numbered(&mut scene.host, 0, 1);
    scene.host.stop_reading();
    peer.reply(&prompt, json!({"stopReason": "cancelled"}));
    scene.sandbox.wait_quiet(&session);
    scene.host.cancel(&session);
    peer.expect("session/cancel");
    // Longer than the grace, of which nothing has passed then.
    for _ in 0..4 {
        scene.sandbox.wait_quiet(&session);
    }
    scene.host.resume_reading();
    assert_eq!(scene.host.stop_reason(&id), "cancelled");
    numbered(&mut scene.host, next, 8_000 - next);
    scene.plays(&session, &mut peer);
}

/// R250, R278: an operator's kill does not wait for a host that does not read.
#[test]
fn a_kill_does_not_wait_for_a_slow_host() {
    let mut scene = Scene::brisk(|_| {});
    let (session, mut peer) = scene.session("work");
    let id = clogged(&mut scene, &session, &mut peer);
    let started = Instant::now();
    scene.sandbox.control("sessions.kill", json!({"id": session}));
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
    peer.wait_gone();
    scene.sandbox.wait_empty();
    scene.host.resume_reading();
    assert_eq!(scene.host.stop_reason(&id), "cancelled");
}

/// R209: nor does the end of the daemon.
#[test]
fn a_stop_does_not_wait_for_a_slow_host() {
    let mut scene = Scene::brisk(|_| {});
    let (session, mut peer) = scene.session("work");
    clogged(&mut scene, &session, &mut peer);
    scene.sandbox.signal(rustix::process::Signal::TERM);
    assert_eq!(scene.sandbox.wait_exit(Duration::from_millis(5_500)).code(), Some(0));
    peer.wait_gone();
}

/// RES-04: thousands of tiny updates a second arrive one by one, in order.
#[test]
fn thirty_thousand_tiny_updates_arrive_in_order() {
    let mut scene = Scene::brisk(|_| {});
    let (session, mut peer) = scene.session("work");
    let (id, prompt) = scene.turn(&session, &mut peer);
    peer.flood(30_000, 8);
    peer.end_turn(&prompt);
    numbered(&mut scene.host, 0, 30_000);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
}

/// SIZE-04: limits are for what is queued, not for what has passed: a turn may say more than any of them.
#[test]
fn a_turn_may_say_more_than_any_queue_holds() {
    let mut scene = Scene::brisk(|_| {});
    let (session, mut peer) = scene.session("work");
    let (id, prompt) = scene.turn(&session, &mut peer);
    for round in 0..10 {
        peer.flood(64, 128 << 10);
        numbered(&mut scene.host, 0, 64);
        assert!(scene.sandbox.peak_rss() < FLAT, "{} bytes in round {round}", scene.sandbox.peak_rss());
    }
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
}
