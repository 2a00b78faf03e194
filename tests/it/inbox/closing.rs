//! What the end of a session leaves in its inbox (R50 to R52).

use rustix::process::Signal;
use serde_json::json;

use super::*;

const MESSAGES: [&str; 3] = ["one", "two", "three"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Close,
    HostEof,
    Terminated,
    Killed,
}

const ENDS: [End; 4] = [End::Close, End::HostEof, End::Terminated, End::Killed];

/// Ends the session, and has a host without it.
fn end(scene: &mut Scene, session: &str, how: End) {
    match how {
        End::Close => {
            let id = scene.host.request("session/close", json!({"sessionId": session}));
            scene.host.result(&id);
        }
        End::HostEof => {
            scene.host.close_write();
            scene.host.expect_end(PATIENCE);
        }
        End::Terminated => scene.sandbox.restart(),
        End::Killed => {
            scene.sandbox.kill();
            scene.sandbox.start();
        }
    }
    wait_until("the session is not live", PATIENCE, || !scene.sandbox.sessions().contains(session));
    scene.host = scene.another();
}

/// Only a close empties the inbox; after any other end the messages run once, when the session is loaded.
fn check(how: End, hold: impl FnOnce(&mut Scene, &str, &mut Peer)) {
    let mut scene = scene();
    let (session, mut peer) = scene.session("work");
    scene.plays(&session, &mut peer);
    hold(&mut scene, &session, &mut peer);
    end(&mut scene, &session, how);
    let left = if how == End::Close { "discarded" } else { "queued" };
    let wanted = MESSAGES.map(|text| (text, left));
    wait_states(&scene.sandbox, &session, &wanted);
    let mut host = scene.another();
    assert_eq!(scene.shown(&mut host, &session, "work")[0], "user: go", "{how:?}");
    scene.host = host;
    let mut peer = scene.puppets.serving();
    let mut ends_as = wanted;
    if how != End::Close {
        assert_eq!(plays(&mut peer), MESSAGES.map(|text| from("user", text)), "{how:?}");
        ends_as = MESSAGES.map(|text| (text, "done"));
    }
    wait_states(&scene.sandbox, &session, &ends_as);
    for _ in 0..2 {
        host_plays(&mut scene.host, &mut peer, &session);
    }
    wait_fact(&scene.sandbox, &session, "recovery", "idle");
    assert_eq!(unread_prompts(&mut peer), 0, "{how:?}");
    assert_eq!(states(&scene.sandbox, &session), ends_as.map(|(t, s)| (t.to_owned(), s.to_owned())));
}

fn fill(scene: &Scene, session: &str, texts: &[&str]) {
    texts.iter().for_each(|text| drop(send(&scene.sandbox, session, text)));
}

/// R50 to R52, R198: idle, and what waits is held back by a cancel.
#[test]
fn an_idle_session_keeps_what_waits_unless_it_is_closed() {
    for how in ENDS {
        check(how, |scene, session, peer| {
            let (id, prompt) = scene.turn(session, peer);
            fill(scene, session, &MESSAGES);
            scene.host.cancel(session);
            peer.expect("session/cancel");
            peer.reply(&prompt, json!({"stopReason": "cancelled"}));
            assert_eq!(scene.host.stop_reason(&id), "cancelled");
            wait_fact(&scene.sandbox, session, "recovery", "held");
        });
    }
}

/// R50 to R52: in the middle of a turn of the host's.
#[test]
fn a_busy_session_keeps_what_waits_unless_it_is_closed() {
    for how in ENDS {
        check(how, |scene, session, peer| {
            scene.turn(session, peer);
            fill(scene, session, &MESSAGES);
        });
    }
}

/// R50 to R52, R198: after a clean failure, while the timer of the next attempt is armed.
#[test]
fn a_session_about_to_retry_keeps_what_waits_unless_it_is_closed() {
    for how in ENDS {
        check(how, |scene, session, peer| {
            fill(scene, session, &MESSAGES[..1]);
            fails_cleanly(peer);
            expect_notice(&mut scene.host, "retry_scheduled", 2);
            wait_fact(&scene.sandbox, session, "recovery", "backoff");
            fill(scene, session, &MESSAGES[1..]);
        });
    }
}

/// R50, R51, R187: messages that run when their session ends are as they would be without its end: queued when nothing
/// was seen of them, the operator's when something was; a close discards what is queued.
#[test]
fn messages_that_run_at_the_end_are_told_apart() {
    for how in [End::Close, End::HostEof, End::Terminated] {
        for spoke in [false, true] {
            let mut scene = scene();
            let (session, mut peer) = scene.session("work");
            send(&scene.sandbox, &session, "runs");
            peer.expect("session/prompt");
            if spoke {
                peer.update("half");
                assert_eq!(scene.host.expect_text(), "half");
            }
            end(&mut scene, &session, how);
            let wanted = match (spoke, how) {
                (true, _) => "indeterminate",
                (false, End::Close) => "discarded",
                (false, _) => "queued",
            };
            wait_states(&scene.sandbox, &session, &[("runs", wanted)]);
        }
    }
}

/// R50: what is closed twice, or was never there, is closed.
#[test]
fn closing_what_is_not_open_succeeds() {
    let mut scene = scene();
    let (session, _peer) = scene.session("work");
    for id in [&*session, &session, "nobody"] {
        let id = scene.host.request("session/close", json!({"sessionId": id}));
        scene.host.result(&id);
    }
    scene.sandbox.signal(Signal::TERM);
    assert!(scene.sandbox.wait_exit(PATIENCE).success());
}
