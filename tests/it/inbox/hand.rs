//! Inboxes by hand while their sessions live (R295).

use serde_json::json;

use super::*;

/// A session that holds what waits, by a cancel, and the ids of two messages in it.
fn held(scene: &mut Scene) -> (String, Peer, [String; 2]) {
    let (session, mut peer) = scene.session("work");
    let (id, prompt) = scene.turn(&session, &mut peer);
    let entries = ["one", "two"].map(|text| send(&scene.sandbox, &session, text));
    scene.host.cancel(&session);
    peer.expect("session/cancel");
    peer.reply(&prompt, json!({"stopReason": "cancelled"}));
    assert_eq!(scene.host.stop_reason(&id), "cancelled");
    wait_fact(&scene.sandbox, &session, "recovery", "held");
    (session, peer, entries)
}

/// R295, R198: by the hand of somebody what was held back runs: as it was edited, and without what was removed.
#[test]
fn a_changed_inbox_runs_as_it_was_changed() {
    let mut scene = scene();
    let (session, mut peer, [one, two]) = held(&mut scene);
    let id = scene.host.prompt(&session, "typed");
    let prompt = peer.expect("session/prompt");
    peer.update("so it is");
    scene.sandbox.control("inbox.remove", json!({"id": session, "entry": one}));
    scene.sandbox.control("inbox.edit", json!({"id": session, "entry": two, "text": "edited"}));
    peer.end_turn(&prompt);
    scene.host.stop_reason(&id);
    assert_eq!(plays(&mut peer), [from("user", "edited")]);
    wait_states(&scene.sandbox, &session, &[("edited", "done")]);
    let error = scene.sandbox.try_control("inbox.edit", json!({"id": session, "entry": two, "text": "late"}));
    assert!(error.unwrap_err()["message"].as_str().unwrap().contains("it is done"));
}

/// R295: the same while the messages wait for their process: what was read of them before does not count.
#[test]
fn a_message_is_edited_while_its_process_starts() {
    let mut scene = prepared(|sandbox| {
        let gate = sandbox.path("gate");
        let script = format!(
            "while [ -e {} ]; do sleep 0.02; done; exec \"$0\" demo-agent --puppet \"$1\"",
            gate.display()
        );
        sandbox.wrap("p", &script);
    });
    let (session, mut peer) = scene.session("work");
    std::fs::write(scene.sandbox.path("gate"), "").unwrap();
    peer.command("exit 0");
    let gone = |m: &Value| m["params"]["update"]["_meta"]["acpvisor"]["peer"] == "gone";
    scene.host.take("the end of the process", PATIENCE, gone);
    let entry = send(&scene.sandbox, &session, "as sent");
    scene.sandbox.wait_logged("inbox runs", 1);
    scene.sandbox.control("inbox.edit", json!({"id": session, "entry": entry, "text": "as edited"}));
    std::fs::remove_file(scene.sandbox.path("gate")).unwrap();
    let mut peer = scene.puppets.serving();
    assert_eq!(plays(&mut peer), [from("user", "as edited")]);
    wait_states(&scene.sandbox, &session, &[("as edited", "done")]);
    let shown = user_chunks(&scene.host.unread());
    assert_eq!(shown, [(entry, "as edited".to_owned())]);
}
