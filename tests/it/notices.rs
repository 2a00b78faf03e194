//! What the daemon itself says of a session: to its host under `_meta`, to an operator on the card.

use serde_json::{Value, json};

use crate::{
    process::{PATIENCE, wait_until},
    scene::Scene,
};

fn is_idle(scene: &Scene, session: &str) -> bool {
    scene.sandbox.control("sessions.show", json!({ "id": session }))["session"]["idle"] == true
}

/// R69: a session is idle when no turn runs, no prompt waits, no question is open and no terminal lives.
#[test]
fn a_session_is_idle_when_nothing_is_left_to_do() {
    let mut scene = Scene::with(json!({ "terminal": true }), |_| {});
    let (session, mut peer) = scene.session("work");
    wait_until("it is idle", PATIENCE, || is_idle(&scene, &session));
    let (id, prompt) = scene.turn(&session, &mut peer);
    wait_until("a turn runs", PATIENCE, || !is_idle(&scene, &session));
    peer.end_turn(&prompt);
    scene.host.stop_reason(&id);
    wait_until("the turn is over", PATIENCE, || is_idle(&scene, &session));
    let made = peer.request("terminal/create", json!({ "sessionId": peer.session(), "command": "x" }));
    let asked = scene.host.expect("terminal/create");
    wait_until("a question is open", PATIENCE, || !is_idle(&scene, &session));
    scene.host.reply(&asked, json!({ "terminalId": "t1" }));
    peer.answer(&made);
    assert!(!is_idle(&scene, &session), "the terminal lives");
    let released =
        peer.request("terminal/release", json!({ "sessionId": peer.session(), "terminalId": "t1" }));
    let asked = scene.host.expect("terminal/release");
    scene.host.reply(&asked, json!({}));
    peer.answer(&released);
    wait_until("all is done", PATIENCE, || is_idle(&scene, &session));
}

/// R86: state of the daemon goes out as a session_info_update with a time and all else under one key of `_meta`.
#[test]
fn what_the_daemon_says_stands_under_its_own_key() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let (first, prompt) = scene.turn(&session, &mut peer);
    let second = scene.host.prompt(&session, "next");
    let notice = scene.host.expect_update()["params"]["update"].take();
    let members: Vec<&String> = notice.as_object().unwrap().keys().collect();
    assert_eq!(members, ["sessionUpdate", "updatedAt", "_meta"]);
    assert!(notice["updatedAt"].as_str().is_some_and(|time| time.ends_with('Z')), "{notice}");
    assert_eq!(notice["_meta"], json!({ "acpvisor": { "queue": { "position": 1 } } }));
    peer.end_turn(&prompt);
    scene.host.stop_reason(&first);
    let prompt = peer.expect("session/prompt");
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&second), "end_turn");
    assert_eq!(scene.host.unread(), Vec::<Value>::new());
}
