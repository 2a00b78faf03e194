//! Once, whatever dies and when (R182, R184, R187, R280, INB-03, UPG-01).

use rustix::process::Signal;
use serde_json::json;

use super::*;
use crate::process;

/// The daemon kills itself when it comes to that point.
fn dies_at(point: &str) -> Scene {
    prepared(|sandbox| sandbox.env("ACPVISOR_FAULT", &format!("die-at={point}")))
}

/// Waits for that, and starts a daemon without faults.
fn reborn(scene: &mut Scene) {
    scene.sandbox.wait_exit(PATIENCE);
    scene.sandbox.env("ACPVISOR_FAULT", "none");
    scene.sandbox.start();
    scene.host = scene.another();
}

/// Loads the session: what the host was shown, and the process.
fn loaded(scene: &mut Scene, session: &str) -> (Vec<String>, Peer) {
    let mut host = scene.another();
    let shown = scene.shown(&mut host, session, "work");
    scene.host = host;
    (shown, scene.puppets.serving())
}

/// Nothing but that prompt of the host's runs after a load.
fn runs_nothing(scene: &mut Scene, session: &str, peer: &mut Peer) {
    for _ in 0..2 {
        host_plays(&mut scene.host, peer, session);
    }
    wait_fact(&scene.sandbox, session, "recovery", "idle");
    assert_eq!(unread_prompts(peer), 0);
}

fn stored(scene: &Scene, session: &str, text: &str) {
    wait_until(&format!("{text:?} is stored"), PATIENCE, || {
        let exported = scene.sandbox.output(&["export", session, "--json"], "").stdout;
        memchr::memmem::find(&exported, text.as_bytes()).is_some()
    });
}

/// R182, R188, INB-03: a daemon that dies before it accepts a message, or before it says so: who sends it again under
/// its id has it run once.
#[test]
fn a_message_is_taken_once_whenever_the_daemon_dies() {
    for (point, known) in [("message-taken", false), ("message-stored", true)] {
        let mut scene = dies_at(point);
        let (session, _peer) = scene.session("work");
        let send = ["send", &session, "once", "--id", "mine", "--json"];
        assert!(!scene.sandbox.output(&send, "").status.success(), "{point}");
        reborn(&mut scene);
        let sent: Value = serde_json::from_slice(&scene.sandbox.output(&send, "").stdout).unwrap();
        assert_eq!(sent["duplicate"], json!(known), "{point}");
        let (_, mut peer) = loaded(&mut scene, &session);
        assert_eq!(plays(&mut peer), [from("user", "once")]);
        wait_states(&scene.sandbox, &session, &[("once", "done")]);
        runs_nothing(&mut scene, &session, &mut peer);
    }
}

/// R92, R184, INB-03: a message whose turn was on record, and whose prompt the peer had not, runs after the next load,
/// and the host sees it once.
#[test]
fn a_turn_that_never_reached_the_peer_runs_once() {
    let mut scene = dies_at("turn-stored");
    let (session, mut peer) = scene.session("work");
    scene.sandbox.output(&["send", &session, "once"], "");
    reborn(&mut scene);
    assert_eq!(unread_prompts(&mut peer), 0);
    assert_eq!(states(&scene.sandbox, &session), [("once".to_owned(), "queued".to_owned())]);
    runs_again(&mut scene, &session);
}

/// R184, INB-03: the same when the peer had the prompt and nothing of it was seen.
#[test]
fn a_turn_of_which_nothing_was_seen_runs_again() {
    let mut scene = scene();
    let (session, mut peer) = scene.session("work");
    send(&scene.sandbox, &session, "once");
    peer.expect("session/prompt");
    scene.die(json!({}));
    peer.wait_gone();
    assert_eq!(states(&scene.sandbox, &session), [("once".to_owned(), "queued".to_owned())]);
    runs_again(&mut scene, &session);
}

fn runs_again(scene: &mut Scene, session: &str) {
    let (shown, mut peer) = loaded(scene, session);
    assert_eq!(shown, ["user: once"]);
    assert_eq!(plays(&mut peer), [from("user", "once")]);
    wait_states(&scene.sandbox, session, &[("once", "done")]);
    assert!(user_chunks(&scene.host.unread()).is_empty(), "it was shown already");
    runs_nothing(scene, session, &mut peer);
}

/// R184, R187, R280, INB-03, UPG-01: a message of whose turn something was seen is nobody's but the operator's: it is
/// shown, it does not run by itself, it holds nothing up, and it runs when somebody says so.
#[test]
fn a_turn_of_which_something_was_seen_is_left_to_the_operator() {
    for point in ["first update", "turn-ending"] {
        let mut scene = dies_at(point);
        let (session, mut peer) = scene.session("work");
        let entry = send(&scene.sandbox, &session, "perhaps");
        let prompt = peer.expect("session/prompt");
        peer.update("half");
        stored(&scene, &session, "half");
        if point == "turn-ending" {
            peer.end_turn(&prompt);
        } else {
            scene.sandbox.signal(Signal::KILL);
        }
        reborn(&mut scene);
        assert_eq!(states(&scene.sandbox, &session), [("perhaps".to_owned(), "indeterminate".to_owned())]);
        let last = fact(&scene.sandbox, &session, "last_prompt");
        assert!(last.is_null() || last["state"] == "unknown", "{last}");
        let (shown, mut peer) = loaded(&mut scene, &session);
        assert_eq!(shown, ["user: perhaps", "agent: half"]);
        runs_nothing(&mut scene, &session, &mut peer);
        send(&scene.sandbox, &session, "another");
        assert_eq!(plays(&mut peer), [from("user", "another")]);
        wait_states(&scene.sandbox, &session, &[("perhaps", "indeterminate"), ("another", "done")]);
        scene.sandbox.control("inbox.again", json!({"id": session, "entry": entry}));
        assert_eq!(plays(&mut peer), [from("user", "perhaps")]);
        wait_states(&scene.sandbox, &session, &[("another", "done"), ("perhaps", "done")]);
        runs_nothing(&mut scene, &session, &mut peer);
    }
}

/// R187, INB-03: a message whose turn's end is on record is done, whoever heard of it.
#[test]
fn a_turn_whose_end_was_stored_does_not_run_again() {
    let mut scene = scene();
    let (session, mut peer) = scene.session("work");
    send(&scene.sandbox, &session, "once");
    plays(&mut peer);
    wait_states(&scene.sandbox, &session, &[("once", "done")]);
    scene.die(json!({}));
    assert_eq!(states(&scene.sandbox, &session), [("once".to_owned(), "done".to_owned())]);
    let (_, mut peer) = loaded(&mut scene, &session);
    runs_nothing(&mut scene, &session, &mut peer);
}

/// R184, R193, R251: a peer that is killed before it said anything is replaced and asked again, and the host sees the
/// message once; killed in the middle of an answer it is not.
#[test]
fn a_killed_peer_is_asked_again_only_when_it_said_nothing() {
    let mut scene = scene();
    let (session, mut peer) = scene.session("work");
    let entry = send(&scene.sandbox, &session, "first");
    peer.expect("session/prompt");
    process::signal(peer.pid(), Signal::KILL);
    let failure = expect_notice(&mut scene.host, "retry_scheduled", 2)["failure"].clone();
    assert_eq!(failure, json!({"code": "runtime", "retryable": true}));
    let mut peer = scene.puppets.serving();
    assert_eq!(plays(&mut peer), [from("user", "first")]);
    expect_notice(&mut scene.host, "recovered", 2);
    assert_eq!(attempts(&scene.sandbox, &session, &entry), 2);
    send(&scene.sandbox, &session, "second");
    peer.expect("session/prompt");
    peer.update("half");
    assert_eq!(scene.host.expect_text(), "half");
    process::signal(peer.pid(), Signal::KILL);
    let failed = expect_notice(&mut scene.host, "failed", 1);
    assert!(failed.get("failure").is_none(), "{failed}");
    wait_states(&scene.sandbox, &session, &[("first", "done"), ("second", "indeterminate")]);
    let id = scene.host.prompt(&session, "of the host");
    let mut peer = scene.puppets.serving();
    assert_eq!(plays(&mut peer), ["of the host"]);
    scene.host.stop_reason(&id);
    runs_nothing(&mut scene, &session, &mut peer);
    let shown: Vec<_> = user_chunks(&scene.host.unread()).into_iter().map(|(_, text)| text).collect();
    assert_eq!(shown, ["first", "second"]);
}
