//! What is tried again, how often, and what stops it (R190 to R202, INB-02, INB-05, UPG-06).

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;

use super::*;

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_millis()).unwrap()
}

/// R92, R193, R195, R200: a clean failure is tried again after its delay, together with what came meanwhile; the host
/// hears that it will be and that it worked, and sees each message once.
#[test]
fn a_clean_failure_is_tried_again_and_recovers() {
    let mut scene = scene();
    let (session, mut peer) = scene.session("work");
    let before = now_ms();
    let old = send(&scene.sandbox, &session, "old");
    assert_eq!(fails_cleanly(&mut peer), [from("user", "old")]);
    let retry = next_notice(&mut scene.host);
    let delay = retry["delayMs"].as_u64().unwrap();
    let next = retry["nextRetryAt"].as_u64().unwrap();
    assert!((800..=1_200).contains(&delay) && (before + delay..=now_ms() + delay).contains(&next), "{retry}");
    let wanted = json!({
        "phase": "retry_scheduled", "kind": "pending_input", "attempt": 2, "maxAttempts": 4,
        "delayMs": delay, "nextRetryAt": next, "failure": {"code": "rate_limit", "retryable": true},
    });
    assert_eq!(retry, wanted);
    let new = send(&scene.sandbox, &session, "new");
    send_from(&scene.sandbox, &session, "cron", "hidden");
    wait_states(&scene.sandbox, &session, &[("old", "queued"), ("new", "queued"), ("hidden", "queued")]);
    assert_eq!(plays(&mut peer), [from("user", "old"), from("user", "new"), from("cron", "hidden")]);
    assert!(now_ms() >= next, "before its time");
    let recovered = next_notice(&mut scene.host);
    let wanted = json!({"phase": "recovered", "kind": "pending_input", "attempt": 2, "maxAttempts": 4});
    assert_eq!(recovered, wanted);
    wait_states(&scene.sandbox, &session, &[("old", "done"), ("new", "done"), ("hidden", "done")]);
    let messages = scene.host.unread();
    assert_eq!(user_chunks(&messages), [(old.clone(), "old".to_owned()), (new, "new".to_owned())]);
    assert!(!messages.iter().any(|m| notice(m).is_some()));
    assert_eq!(attempts(&scene.sandbox, &session, &old), 2);
}

/// R194, R195, R198, R200: four attempts and no fifth; what was not run stays, and runs when something new is sent, by
/// attempts of its own.
#[test]
fn four_attempts_and_no_more() {
    let mut scene = scene();
    let (session, mut peer) = scene.session("work");
    let entry = send(&scene.sandbox, &session, "never");
    for attempt in 2..=4 {
        fails_cleanly(&mut peer);
        expect_notice(&mut scene.host, "retry_scheduled", attempt);
    }
    fails_cleanly(&mut peer);
    let last = next_notice(&mut scene.host);
    let wanted = json!({
        "phase": "exhausted", "kind": "pending_input", "attempt": 4, "maxAttempts": 4,
        "failure": {"code": "rate_limit", "retryable": true},
    });
    assert_eq!(last, wanted);
    wait_states(&scene.sandbox, &session, &[("never", "queued")]);
    wait_fact(&scene.sandbox, &session, "recovery", "idle");
    assert_eq!(attempts(&scene.sandbox, &session, &entry), 4);
    assert_eq!(unread_prompts(&mut peer), 0);
    send_from(&scene.sandbox, &session, "cron", "more");
    fails_cleanly(&mut peer);
    expect_notice(&mut scene.host, "retry_scheduled", 2);
    assert_eq!(plays(&mut peer), [from("user", "never"), from("cron", "more")]);
    expect_notice(&mut scene.host, "recovered", 2);
}

/// R193, R200, R202: what may have had effects, or cannot work a little later, is not tried again; a failure is named
/// only when nothing was seen.
#[test]
fn what_left_traces_is_not_tried_again() {
    let mut scene = scene();
    let (session, mut peer) = scene.session("work");
    let text = |kind: &str| json!({"sessionUpdate": kind, "content": {"type": "text", "text": "so"}});
    let call =
        |status: &str| json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": status});
    let traces = [
        text("agent_message_chunk"),
        text("agent_thought_chunk"),
        json!({"sessionUpdate": "plan", "entries": []}),
        json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Run", "status": "pending"}),
        call("in_progress"),
        call("completed"),
        json!({"sessionUpdate": "of_tomorrow"}),
    ];
    for (n, trace) in traces.iter().enumerate() {
        send(&scene.sandbox, &session, &n.to_string());
        let prompt = peer.expect("session/prompt");
        assert_eq!(texts(&prompt), [from("user", &n.to_string())]);
        peer.notify("session/update", json!({"sessionId": peer.session(), "update": trace}));
        peer.error(&prompt, -32001, "rate limit exceeded");
        let wanted = json!({"phase": "failed", "kind": "pending_input", "attempt": 1, "maxAttempts": 4});
        assert_eq!(next_notice(&mut scene.host), wanted, "{trace}");
        wait_last(&scene.sandbox, &session, "indeterminate");
    }
    send(&scene.sandbox, &session, "login");
    let prompt = peer.expect("session/prompt");
    peer.error(&prompt, -32000, "Authentication required");
    let failed = expect_notice(&mut scene.host, "failed", 1);
    assert_eq!(failed["failure"], json!({"code": "authentication", "retryable": false}));
    wait_last(&scene.sandbox, &session, "queued");
    wait_fact(&scene.sandbox, &session, "recovery", "idle");
    assert_eq!(unread_prompts(&mut peer), 0);
}

fn wait_last(sandbox: &Sandbox, session: &str, state: &str) {
    let last = || states(sandbox, session).pop().unwrap().1;
    wait_until(&format!("the last message is {state}"), PATIENCE, || last() == state);
}

/// R193: a question that the agent asked is a trace as well: its turn is not repeated.
#[test]
fn a_question_is_a_trace() {
    let mut scene = scene();
    let (session, mut peer) = scene.session("work");
    send(&scene.sandbox, &session, "asks");
    let prompt = peer.expect("session/prompt");
    let asked = peer.ask_permission("t", "rm");
    let question = scene.host.expect("session/request_permission");
    scene.host.choose(&question, "no");
    peer.answer(&asked);
    peer.error(&prompt, -32001, "rate limit exceeded");
    expect_notice(&mut scene.host, "failed", 1);
    wait_states(&scene.sandbox, &session, &[("asks", "indeterminate")]);
}

/// INB-05: an answer without a stop reason says nothing of its message: it is nobody's but the operator's.
#[test]
fn an_answer_without_a_reason_is_not_done() {
    let mut scene = scene();
    let (session, mut peer) = scene.session("work");
    send(&scene.sandbox, &session, "perhaps");
    let prompt = peer.expect("session/prompt");
    peer.reply(&prompt, json!({}));
    expect_notice(&mut scene.host, "failed", 1);
    wait_states(&scene.sandbox, &session, &[("perhaps", "indeterminate")]);
    host_plays(&mut scene.host, &mut peer, &session);
    wait_fact(&scene.sandbox, &session, "recovery", "idle");
    assert_eq!(unread_prompts(&mut peer), 0);
}

/// INB-02, R197: an agent that is busy with work of its own is asked again later; what it said meanwhile was about that
/// work.
#[test]
fn a_busy_agent_is_asked_again() {
    let mut scene = scene();
    let (session, mut peer) = scene.session("work");
    send(&scene.sandbox, &session, "waits");
    let prompt = peer.expect("session/prompt");
    peer.update("my own work");
    peer.error(&prompt, -32600, "already in progress");
    expect_notice(&mut scene.host, "retry_scheduled", 2);
    wait_states(&scene.sandbox, &session, &[("waits", "queued")]);
    assert_eq!(plays(&mut peer), [from("user", "waits")]);
    expect_notice(&mut scene.host, "recovered", 2);
    wait_states(&scene.sandbox, &session, &[("waits", "done")]);
}

/// Nothing of the old attempts comes any more, even when the time of the next one is over.
fn stays_held(scene: &mut Scene, session: &str, peer: &mut Peer, until_ms: u64) {
    wait_fact(&scene.sandbox, session, "recovery", "held");
    wait_until("the time of the next attempt is over", PATIENCE, || now_ms() > until_ms);
    assert_eq!(fact(&scene.sandbox, session, "recovery"), "held");
    assert_eq!(unread_prompts(peer), 0);
    assert!(!scene.host.unread().iter().any(|m| notice(m).is_some()));
    assert_eq!(states(&scene.sandbox, session), [("held".to_owned(), "queued".to_owned())]);
}

/// R198: a cancel while a message is queued behind a turn holds it back, until a prompt of the host's has ended.
#[test]
fn a_cancel_holds_what_is_queued() {
    let mut scene = scene();
    let (session, mut peer) = scene.session("work");
    let (id, prompt) = scene.turn(&session, &mut peer);
    send(&scene.sandbox, &session, "held");
    scene.host.cancel(&session);
    peer.expect("session/cancel");
    peer.reply(&prompt, json!({"stopReason": "cancelled"}));
    assert_eq!(scene.host.stop_reason(&id), "cancelled");
    stays_held(&mut scene, &session, &mut peer, 0);
    let (id, prompt) = scene.turn(&session, &mut peer);
    assert_eq!(texts(&prompt), ["go"]);
    peer.update("so it is");
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
    assert_eq!(plays(&mut peer), [from("user", "held")]);
    wait_states(&scene.sandbox, &session, &[("held", "done")]);
}

/// R198: the same when the message has its turn and the agent has not heard of it: it never does.
#[test]
fn a_cancel_holds_what_is_on_its_way() {
    let mut scene = prepared(|sandbox| sandbox.env("ACPVISOR_FAULT", "slow-commit=200"));
    let (session, mut peer) = scene.session("work");
    send(&scene.sandbox, &session, "held");
    scene.sandbox.wait_logged("inbox runs", 1);
    scene.host.cancel(&session);
    wait_fact(&scene.sandbox, &session, "recovery", "held");
    wait_states(&scene.sandbox, &session, &[("held", "queued")]);
    stays_held(&mut scene, &session, &mut peer, 0);
    send_from(&scene.sandbox, &session, "cron", "now");
    assert_eq!(plays(&mut peer), [from("user", "held"), from("cron", "now")]);
    wait_states(&scene.sandbox, &session, &[("held", "done"), ("now", "done")]);
}

/// R198: a cancel while the timer of the next attempt is armed disarms it, until something is sent; what is tried then
/// is tried for the first time.
#[test]
fn a_cancel_disarms_the_next_attempt() {
    let mut scene = scene();
    let (session, mut peer) = scene.session("work");
    send(&scene.sandbox, &session, "held");
    fails_cleanly(&mut peer);
    let next = expect_notice(&mut scene.host, "retry_scheduled", 2)["nextRetryAt"].as_u64().unwrap();
    wait_fact(&scene.sandbox, &session, "recovery", "backoff");
    scene.host.cancel(&session);
    stays_held(&mut scene, &session, &mut peer, next);
    send_from(&scene.sandbox, &session, "cron", "now");
    assert_eq!(plays(&mut peer), [from("user", "held"), from("cron", "now")]);
    wait_states(&scene.sandbox, &session, &[("held", "done"), ("now", "done")]);
    wait_fact(&scene.sandbox, &session, "recovery", "idle");
    assert!(!scene.host.unread().iter().any(|m| notice(m).is_some()));
}

/// R198, R187: a cancel in the middle of an attempt of which nothing was seen ends it and leaves the message, until the
/// session is loaded again.
#[test]
fn a_cancel_ends_the_attempt() {
    let mut scene = scene();
    let (session, mut peer) = scene.session("work");
    send(&scene.sandbox, &session, "held");
    let prompt = peer.expect("session/prompt");
    scene.host.cancel(&session);
    peer.expect("session/cancel");
    peer.reply(&prompt, json!({"stopReason": "cancelled"}));
    stays_held(&mut scene, &session, &mut peer, 0);
    let cwd = scene.sandbox.cwd("work");
    let params = json!({"sessionId": session, "cwd": cwd, "mcpServers": []});
    let load = scene.host.request("session/load", params);
    scene.host.result(&load);
    assert_eq!(plays(&mut peer), [from("user", "held")]);
    wait_states(&scene.sandbox, &session, &[("held", "done")]);
}

/// R192, R198: a prompt of the host's takes the place of an attempt that waits for its time; after it the messages run
/// at once, for the first time.
#[test]
fn a_prompt_supersedes_the_next_attempt() {
    let mut scene = scene();
    let (session, mut peer) = scene.session("work");
    send(&scene.sandbox, &session, "waits");
    fails_cleanly(&mut peer);
    let next = expect_notice(&mut scene.host, "retry_scheduled", 2)["nextRetryAt"].as_u64().unwrap();
    let id = scene.host.prompt(&session, "typed");
    let prompt = peer.expect("session/prompt");
    assert_eq!(texts(&prompt), ["typed"]);
    wait_until("the time of the next attempt is over", PATIENCE, || now_ms() > next);
    assert_eq!(unread_prompts(&mut peer), 0);
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
    assert_eq!(plays(&mut peer), [from("user", "waits")]);
    wait_states(&scene.sandbox, &session, &[("waits", "done")]);
    wait_fact(&scene.sandbox, &session, "recovery", "idle");
    assert!(!scene.host.unread().iter().any(|m| notice(m).is_some()));
}

/// An agent whose processes end at once while there is a file of that name.
fn breakable() -> Scene {
    prepared(|sandbox| {
        let broken = sandbox.path("broken");
        let script = format!("[ -e {} ] && exit 1; exec \"$0\" demo-agent --puppet \"$1\"", broken.display());
        sandbox.wrap("p", &script);
    })
}

fn breaks(scene: &mut Scene, peer: &mut Peer) {
    std::fs::write(scene.sandbox.path("broken"), "").unwrap();
    peer.command("exit 0");
    let gone = |m: &Value| m["params"]["update"]["_meta"]["acpvisor"]["peer"] == "gone";
    scene.host.take("the end of the process", PATIENCE, gone);
}

/// R92, R200, UPG-06: an agent that cannot be started is tried again, and no attempt at the message is counted or
/// shown before it has a process.
#[test]
fn an_agent_that_cannot_start_is_tried_again() {
    let mut scene = breakable();
    let (session, mut peer) = scene.session("work");
    scene.plays(&session, &mut peer);
    breaks(&mut scene, &mut peer);
    let entry = send(&scene.sandbox, &session, "once");
    assert_eq!(expect_notice(&mut scene.host, "retry_scheduled", 2)["kind"], "preflight");
    let retry = expect_notice(&mut scene.host, "retry_scheduled", 3);
    assert!((1_600..=2_400).contains(&retry["delayMs"].as_u64().unwrap()), "{retry}");
    assert_eq!(attempts(&scene.sandbox, &session, &entry), 0);
    std::fs::remove_file(scene.sandbox.path("broken")).unwrap();
    let mut peer = scene.puppets.serving();
    assert_eq!(plays(&mut peer), [from("user", "once")]);
    expect_notice(&mut scene.host, "recovered", 3);
    wait_states(&scene.sandbox, &session, &[("once", "done")]);
    assert_eq!(user_chunks(&scene.host.unread()), [(entry, "once".to_owned())]);
}

/// UPG-06, R194: an agent that never starts is given up after its attempts, and is not started without pause; a prompt
/// of the host's fails at once, and the messages stay.
#[test]
fn an_agent_that_never_starts_is_given_up() {
    let mut scene = breakable();
    let (session, mut peer) = scene.session("work");
    scene.plays(&session, &mut peer);
    breaks(&mut scene, &mut peer);
    for text in MESSAGES {
        send(&scene.sandbox, &session, text);
    }
    expect_notice(&mut scene.host, "retry_scheduled", 2);
    let id = scene.host.prompt(&session, "at once");
    scene.host.error(&id);
    for attempt in 2..=4 {
        expect_notice(&mut scene.host, "retry_scheduled", attempt);
    }
    let last = expect_notice(&mut scene.host, "exhausted", 4);
    assert_eq!((&last["kind"], &last["failure"]["code"]), (&json!("preflight"), &json!("runtime")));
    wait_states(&scene.sandbox, &session, &MESSAGES.map(|text| (text, "queued")));
    wait_fact(&scene.sandbox, &session, "recovery", "idle");
    assert!(scene.sandbox.logged("peer started") <= 10, "it was started without pause");
}

const MESSAGES: [&str; 3] = ["one", "two", "three"];
