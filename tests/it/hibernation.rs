//! Idle processes end and their sessions stay (R283).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    host::Host,
    peer::Peer,
    process::{PATIENCE, alive, wait_until},
    sandbox::Sandbox,
    scene::Scene,
};

/// A daemon in which so many processes may run; its agent can load.
fn crowded(peers_max: u32, prepare: impl FnOnce(&mut Sandbox)) -> Scene {
    let mut scene = Scene::playing(json!({"loadSession": true}), json!({}), |sandbox| {
        sandbox.set("limits", &format!("peers_max = {peers_max}"));
        sandbox.set("limits", "warm_ms = 100");
        prepare(sandbox);
    });
    scene.puppets.next().wait_gone();
    scene
}

/// A prompt that has to wait for a process: its id, the process and its request.
fn prompted(scene: &mut Scene, session: &str, text: &str) -> (Value, Peer, Value) {
    let id = scene.host.prompt(session, text);
    let mut peer = scene.puppets.that_got("session/prompt");
    let prompt = peer.expect("session/prompt");
    (id, peer, prompt)
}

fn processes(sandbox: &Sandbox) -> BTreeSet<String> {
    let cards = sandbox.control("tree", json!({})).to_string();
    cards.match_indices("\"kind\":\"peer\"").map(|(at, _)| at.to_string()).collect()
}

/// R283: with room for one process two held sessions are used in turn: each answers, there are never two processes,
/// and nothing is shown twice.
#[test]
fn two_sessions_share_one_process() {
    let mut scene = crowded(1, |_| {});
    let mut sessions = Vec::new();
    let mut last: Option<Peer> = None;
    for dir in ["a", "b"] {
        let (session, peer) = scene.session(dir);
        assert!(last.replace(peer).is_none_or(|peer| !alive(peer.pid())), "never two");
        sessions.push(session);
    }
    let mut last = last.unwrap();
    for round in 0..6 {
        let session = &sessions[round % 2].clone();
        let id = scene.host.prompt(session, "go");
        let mut peer = scene.puppets.that_got("session/prompt");
        assert!(!alive(last.pid()) && alive(peer.pid()), "never two");
        assert_eq!(processes(&scene.sandbox).len(), 1);
        let prompt = peer.expect("session/prompt");
        peer.update(&format!("{round}"));
        peer.end_turn(&prompt);
        assert_eq!(scene.host.stop_reason(&id), "end_turn");
        let text: Vec<Value> = scene.host.unread();
        let chunks = text.iter().filter(|m| m["params"]["update"]["sessionUpdate"] == "agent_message_chunk");
        let of: Vec<(&Value, &Value)> =
            chunks.map(|m| (&m["params"]["sessionId"], &m["params"]["update"]["content"]["text"])).collect();
        assert_eq!(of, [(&json!(session), &json!(format!("{round}")))]);
        let users = text.iter().filter(|m| m["params"]["update"]["sessionUpdate"] == "user_message_chunk");
        assert_eq!(users.count(), 0, "nothing is shown twice");
        last = peer;
    }
    // What was said in turns is all there.
    let mut host = scene.another();
    let shown = scene.shown(&mut host, &sessions[0], "a");
    let said: Vec<&str> = shown.iter().filter_map(|s| s.strip_prefix("agent: ")).collect();
    assert_eq!(said, ["0", "2", "4"]);
}

/// R283: what a sleeping process said while it loads is history: it is swallowed, and the new process has the context.
#[test]
fn a_woken_session_shows_nothing_of_what_its_process_replays() {
    let mut scene = crowded(1, |_| {});
    let (session, mut peer) = scene.session("a");
    scene.plays(&session, &mut peer);
    let known = peer.session();
    let (_other, _peer) = scene.session("b");
    let able = json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true}, "authMethods": []});
    scene.puppets.introduce(able);
    scene.host.unread();
    let id = scene.host.prompt(&session, "again");
    let mut peer = scene.puppets.that_got("session/load");
    let load = peer.expect("session/load");
    assert_eq!(load["params"]["sessionId"], json!(known));
    for text in ["old", "older"] {
        peer.update_as(&known, text);
    }
    peer.reply(&load, json!({}));
    let prompt = peer.expect("session/prompt");
    assert_eq!(prompt["params"]["prompt"].as_array().map(Vec::len), Some(1), "it knows what was said");
    peer.update_as(&known, "new");
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
    assert_eq!(scene.host.unread_text(), "new");
}

/// R283: a process with a turn, a waiting prompt, a question or a terminal makes no room: whoever needs it waits, and
/// what runs is not disturbed; when nothing is left of it, it goes.
#[test]
fn a_process_in_use_makes_no_room() {
    let mut scene = Scene::playing(json!({"loadSession": true}), json!({"terminal": true}), |sandbox| {
        sandbox.set("limits", "peers_max = 1");
        sandbox.set("limits", "warm_ms = 100");
    });
    scene.puppets.next().wait_gone();
    let mut other = Host::direct(&scene.sandbox);
    other.initialize(json!({"terminal": true}));
    let (session, mut peer) = scene.session("a");
    let (turn, prompt) = scene.turn(&session, &mut peer);
    let behind = scene.host.prompt(&session, "behind it");
    let ask = peer.ask_permission("t", "ls");
    let question = scene.host.expect("session/request_permission");
    let create = peer.request("terminal/create", json!({"sessionId": peer.session(), "command": "sleep"}));
    let asked = scene.host.expect("terminal/create");
    scene.host.reply(&asked, json!({"terminalId": "term"}));
    peer.answer(&create);
    let id = other.request_session(&scene.sandbox.cwd("b"));
    let can_sleep =
        |scene: &Scene| scene.sandbox.control("tree", json!({})).to_string().contains("\"can_sleep\":true");
    assert!(!can_sleep(&scene));
    scene.host.choose(&question, "yes");
    peer.answer(&ask);
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&turn), "end_turn");
    let prompt = peer.expect("session/prompt");
    assert!(!can_sleep(&scene));
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&behind), "end_turn");
    assert!(!can_sleep(&scene) && alive(peer.pid()), "its terminal keeps it");
    assert!(other.unread().is_empty());
    let release =
        peer.request("terminal/release", json!({"sessionId": peer.session(), "terminalId": "term"}));
    let asked = scene.host.expect("terminal/release");
    scene.host.reply(&asked, json!({}));
    let made = other.answer_within(&id, 2 * PATIENCE);
    assert!(made["result"]["sessionId"].is_string(), "{made}");
    peer.answer(&release);
    assert!(!alive(peer.pid()));
}

/// R283: when nobody can make room the start is refused, and may be tried again.
#[test]
fn a_start_without_room_is_refused() {
    let mut scene = crowded(1, |_| {});
    let (session, mut peer) = scene.session("a");
    let (turn, prompt) = scene.turn(&session, &mut peer);
    let id = scene.host.request_session(&scene.sandbox.cwd("b"));
    let error = scene.host.answer_within(&id, 3 * PATIENCE)["error"].clone();
    assert_eq!(
        (&error["data"]["resource"], &error["data"]["retryable"]),
        (&json!("processes"), &json!(true))
    );
    assert_eq!(scene.sandbox.sessions().len(), 1);
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&turn), "end_turn");
    let id = scene.host.request_session(&scene.sandbox.cwd("b"));
    scene.host.result(&id);
}

/// R283: an idle process ends by itself after its time; the host is told, and the next prompt starts another one.
#[test]
fn an_idle_process_sleeps_after_its_time() {
    let mut scene = crowded(8, |sandbox| sandbox.set("limits", "hibernate_after_s = 1"));
    let (session, mut peer) = scene.session("a");
    let (busy, mut works) = scene.session("b");
    let (turn, prompt) = scene.turn(&busy, &mut works);
    scene.plays(&session, &mut peer);
    peer.wait_gone();
    let asleep = |m: &Value| m["params"]["update"]["_meta"]["acpvisor"]["peer"] == "asleep";
    let told = scene.host.take("it is told", PATIENCE, asleep);
    assert_eq!(told["params"]["sessionId"], json!(session));
    assert!(alive(works.pid()), "a turn keeps its process");
    assert_eq!(scene.sandbox.sessions().len(), 2, "both stay resident");
    let (id, mut peer, prompt_again) = prompted(&mut scene, &session, "again");
    peer.end_turn(&prompt_again);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
    works.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&turn), "end_turn");
    works.wait_gone();
}

/// R283: an agent that can take nothing up again keeps its process.
#[test]
fn an_agent_that_cannot_load_is_not_put_to_sleep() {
    let mut scene = Scene::with(json!({}), |sandbox| sandbox.set("limits", "hibernate_after_s = 1"));
    let (session, mut peer) = scene.session("a");
    scene.plays(&session, &mut peer);
    let mut sleeper = crowded(8, |sandbox| sandbox.set("limits", "hibernate_after_s = 1"));
    let (_, mut other) = sleeper.session("a");
    other.wait_gone();
    scene.plays(&session, &mut peer);
}

/// R283, R284: a setting made while the process sleeps wakes nobody, and the next one is told before its prompt.
#[test]
fn what_is_set_in_sleep_is_told_on_waking() {
    let mut scene = crowded(8, |sandbox| sandbox.set("limits", "hibernate_after_s = 1"));
    let modes = json!({"currentModeId": "ask", "availableModes": [
        {"id": "ask", "name": "Ask"}, {"id": "plan", "name": "Plan"}]});
    let able = json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true}, "authMethods": []});
    scene.puppets = scene.puppets.answer_with(able, json!({"modes": modes}));
    let (session, mut peer) = scene.session("a");
    peer.wait_gone();
    wait_until("it is known", PATIENCE, || scene.sandbox.peer_card(&session).is_null());
    let id = scene.host.request("session/set_mode", json!({"sessionId": session, "modeId": "plan"}));
    scene.host.result(&id);
    assert_eq!(scene.puppets.untaken(), 0);
    let id = scene.host.prompt(&session, "go");
    let mut peer = scene.puppets.that_got("session/set_mode");
    let restored = peer.expect("session/set_mode");
    assert_eq!(restored["params"]["modeId"], "plan");
    peer.reply(&restored, json!({}));
    let prompt = peer.expect("session/prompt");
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
}
