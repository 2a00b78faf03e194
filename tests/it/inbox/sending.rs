//! When a message runs, and as what (R72, R82, R92, R182, R183, R190 to R192, INB-01, ORD-07).

use serde_json::json;

use super::*;

/// R82, R92, R183: a message for an idle session runs by itself, as one prompt that names its source; the host sees
/// what its user sent once, and never what others did.
#[test]
fn an_idle_session_runs_what_is_sent() {
    let mut scene = scene();
    let (session, mut peer) = scene.session("work");
    let entry = send(&scene.sandbox, &session, "of the user");
    assert_eq!(plays(&mut peer), [from("user", "of the user")]);
    wait_states(&scene.sandbox, &session, &[("of the user", "done")]);
    send_from(&scene.sandbox, &session, "terminal/1", "exit 0");
    let prompt = peer.expect("session/prompt");
    assert_eq!(texts(&prompt), [from("terminal/1", "exit 0")]);
    peer.update("seen");
    peer.end_turn(&prompt);
    assert_eq!(scene.host.expect_text(), "seen");
    wait_fact(&scene.sandbox, &session, "recovery", "idle");
    let messages = scene.host.unread();
    assert_eq!(user_chunks(&messages), [(entry, "of the user".to_owned())]);
    assert!(!messages.iter().any(|m| notice(m).is_some()), "nothing had to be tried again");
}

/// R82, R92: in the history stands what the user sent, as such and once, and no other message.
#[test]
fn the_history_holds_no_invented_words() {
    let mut scene = scene();
    let (session, mut peer) = scene.session("work");
    send(&scene.sandbox, &session, "of the user");
    plays(&mut peer);
    wait_states(&scene.sandbox, &session, &[("of the user", "done")]);
    send_from(&scene.sandbox, &session, "cron", "of the clock");
    let prompt = peer.expect("session/prompt");
    peer.update("seen");
    peer.end_turn(&prompt);
    wait_states(&scene.sandbox, &session, &[("of the user", "done"), ("of the clock", "done")]);
    scene.die(json!({}));
    let mut host = scene.another();
    assert_eq!(scene.shown(&mut host, &session, "work"), ["user: of the user", "agent: seen"]);
}

/// R183, R191, R192, INB-01: messages wait for the turn and for what the host has queued, and then run together, in
/// their order, in one turn.
#[test]
fn messages_wait_for_the_host_and_run_together() {
    let mut scene = scene();
    let (session, mut peer) = scene.session("work");
    let (first, prompt) = scene.turn(&session, &mut peer);
    let mut wanted = Vec::new();
    for n in 0..30 {
        let (source, text) = (format!("source/{n}"), n.to_string());
        send_from(&scene.sandbox, &session, &source, &text);
        wanted.push(from(&source, &text));
    }
    let second = scene.host.prompt(&session, "typed ahead");
    let queued = |m: &Value| m["params"]["update"]["_meta"]["acpvisor"]["queue"]["position"] == 1;
    scene.host.take("its place", PATIENCE, queued);
    assert_eq!(unread_prompts(&mut peer), 0, "one prompt at a time");
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&first), "end_turn");
    assert_eq!(plays(&mut peer), ["typed ahead"]);
    assert_eq!(scene.host.stop_reason(&second), "end_turn");
    assert_eq!(plays(&mut peer), wanted);
    let done = || states(&scene.sandbox, &session).iter().all(|(_, state)| state == "done");
    wait_until("every message is done", PATIENCE, done);
    wait_fact(&scene.sandbox, &session, "recovery", "idle");
    assert_eq!(unread_prompts(&mut peer), 0);
}

/// R191: what is sent while messages run is not lost: it runs in the turn after them, and those do not again.
#[test]
fn what_comes_meanwhile_runs_next() {
    let mut scene = scene();
    let (session, mut peer) = scene.session("work");
    send(&scene.sandbox, &session, "first");
    let prompt = peer.expect("session/prompt");
    for text in ["second", "third"] {
        send(&scene.sandbox, &session, text);
    }
    peer.end_turn(&prompt);
    assert_eq!(plays(&mut peer), [from("user", "second"), from("user", "third")]);
    wait_states(&scene.sandbox, &session, &[("first", "done"), ("second", "done"), ("third", "done")]);
    wait_fact(&scene.sandbox, &session, "recovery", "idle");
    assert_eq!(unread_prompts(&mut peer), 0);
}

/// R72, R192: a prompt of the host's that comes while messages are on their way goes before them, and both run once.
#[test]
fn a_prompt_overtakes_messages_that_are_not_sent() {
    let mut scene = prepared(|sandbox| sandbox.env("ACPVISOR_FAULT", "slow-commit=200"));
    let (session, mut peer) = scene.session("work");
    send(&scene.sandbox, &session, "a message");
    scene.sandbox.wait_logged("inbox runs", 1);
    let id = scene.host.prompt(&session, "typed");
    assert_eq!(plays(&mut peer), ["typed"]);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
    assert_eq!(plays(&mut peer), [from("user", "a message")]);
    wait_states(&scene.sandbox, &session, &[("a message", "done")]);
    wait_fact(&scene.sandbox, &session, "recovery", "idle");
    assert_eq!(unread_prompts(&mut peer), 0);
}

/// R182, R190: what lies in the inbox of a saved session runs after it was loaded: history, answer, and only then
/// anything new.
#[test]
fn messages_run_after_the_answer_to_a_load() {
    let mut scene = scene();
    let (session, mut peer) = scene.session("work");
    let (id, prompt) = scene.turn(&session, &mut peer);
    peer.update("history");
    peer.end_turn(&prompt);
    scene.host.stop_reason(&id);
    scene.die(json!({}));
    send(&scene.sandbox, &session, "waits");
    assert!(!scene.sandbox.sessions().contains(&session), "nobody asked to wake it");
    let mut host = scene.another();
    let id = scene.load(&mut host, &session, "work");
    let mut before = Vec::new();
    loop {
        let message = host.next();
        if message.get("method").is_none() && message["id"] == id {
            break;
        }
        before.push(message.to_string());
    }
    assert!(before.iter().any(|line| line.contains("history")), "{before:?}");
    assert!(!before.iter().any(|line| line.contains("waits") || line.contains("running")), "{before:?}");
    let mut peer = scene.puppets.that_got("session/prompt");
    assert_eq!(plays(&mut peer), [from("user", "waits")]);
    host.take("what the user sent", PATIENCE, |m| !user_chunks(std::slice::from_ref(m)).is_empty());
    wait_states(&scene.sandbox, &session, &[("waits", "done")]);
}

/// ORD-07: an agent that speaks up by itself leaves its session idle, and what is sent runs.
#[test]
fn an_agent_that_speaks_unasked_holds_nothing_up() {
    let mut scene = scene();
    let (session, mut peer) = scene.session("work");
    peer.update("woke up");
    assert_eq!(scene.host.expect_text(), "woke up");
    assert_eq!(fact(&scene.sandbox, &session, "idle"), json!(true));
    send(&scene.sandbox, &session, "hello");
    assert_eq!(plays(&mut peer), [from("user", "hello")]);
    wait_states(&scene.sandbox, &session, &[("hello", "done")]);
}
