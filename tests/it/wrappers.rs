//! Agents in wrappers and wrappers of wrappers: whatever they do, nothing of them is left (R212, R279).

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use crate::{
    peer::Peer,
    process::{PATIENCE, alive, wait_until},
    sandbox::Sandbox,
    scene::Scene,
};

/// What a stop of the daemon may take.
const STOP_MAX: Duration = Duration::from_millis(5_500);

/// A wrapper that ignores TERM like its agent, beside a process in a session of its own.
const STUBBORN: &str = r#"trap '' TERM
    setsid sh -c 'sleep 600; true' >/dev/null 2>&1 &
    "$0" demo-agent --puppet "$1" --ignore-term --ignore-eof
    while :; do sleep 600; done"#;
/// A wrapper that dies of TERM while its agent does not.
const MORTAL: &str = r#"setsid sh -c 'trap "" TERM; sleep 600; true' >/dev/null 2>&1 &
    "$0" demo-agent --puppet "$1" --ignore-term --ignore-eof
    exit 3"#;
/// Shim, wrapper, shell, sleeper and agent.
const WRAPPED: usize = 5;

/// A session in a wrapper, all of it running and nothing else.
fn wrapped(script: &str) -> (Scene, String, Peer) {
    let mut scene = Scene::brisk(|sandbox| sandbox.wrap("p", script));
    let (session, peer) = scene.session("work");
    wait_until("the wrapper is complete", PATIENCE, || {
        scene.sandbox.sessions().len() == 1 && scene.sandbox.survivors().len() == WRAPPED
    });
    (scene, session, peer)
}

fn wait_nothing_left(sandbox: &Sandbox, deadline: Duration) {
    wait_until("nothing is left", deadline, || sandbox.survivors().is_empty());
}

/// R279: nothing of a wrapped agent is left behind a close.
#[test]
fn a_close_leaves_nothing_of_a_wrapper() {
    for script in [STUBBORN, MORTAL] {
        let (mut scene, session, peer) = wrapped(script);
        let close = scene.host.request("session/close", json!({"sessionId": session}));
        scene.host.result(&close);
        assert!(!alive(peer.pid()) && scene.sandbox.survivors().is_empty());
        scene.sandbox.wait_empty();
    }
}

/// R279: nor behind the cancel of a turn that hangs.
#[test]
fn a_cancel_of_a_hung_turn_leaves_nothing_of_a_wrapper() {
    for script in [STUBBORN, MORTAL] {
        let (mut scene, session, mut peer) = wrapped(script);
        let (id, _) = scene.turn(&session, &mut peer);
        scene.host.cancel(&session);
        assert_eq!(scene.host.stop_reason(&id), "cancelled");
        wait_nothing_left(&scene.sandbox, PATIENCE);
        assert!(!alive(peer.pid()));
        assert!(scene.sandbox.sessions().contains(&session), "the session itself lives on");
    }
}

/// R209, R279, PROC-09: nor behind a stop of the daemon.
#[test]
fn a_stop_leaves_nothing_of_a_wrapper() {
    for script in [STUBBORN, MORTAL] {
        let (mut scene, _, _peer) = wrapped(script);
        scene.sandbox.signal(Signal::TERM);
        assert_eq!(scene.sandbox.wait_exit(STOP_MAX).code(), Some(0));
        wait_nothing_left(&scene.sandbox, Duration::from_secs(1));
    }
}

/// R210, R279: nor five seconds behind the kill of the daemon.
#[test]
fn a_kill_of_the_daemon_leaves_nothing_of_a_wrapper() {
    for script in [STUBBORN, MORTAL] {
        let (mut scene, _, _peer) = wrapped(script);
        scene.sandbox.kill();
        wait_nothing_left(&scene.sandbox, Duration::from_secs(5));
    }
}

/// PROC-02: twenty sessions one after the other leave no process of their chains and no memory.
#[test]
fn twenty_sessions_in_a_row_leave_nothing() {
    let chain = r#"sh -c 'sh -c "\"$0\" demo-agent --puppet \"$1\" --ignore-term --ignore-eof" "$0" "$1"; true' "$0" "$1"; true"#;
    let mut scene = Scene::brisk(|sandbox| {
        sandbox.wrap("p", chain);
        sandbox.set("agent.p", "stop_grace_ms = 100");
    });
    let mut settled = 0;
    for n in 0..20 {
        let (session, peer) = scene.session("work");
        let close = scene.host.request("session/close", json!({"sessionId": session}));
        scene.host.result(&close);
        assert!(!alive(peer.pid()));
        if n == 4 {
            settled = scene.sandbox.rss();
        }
    }
    let grown = scene.sandbox.rss().saturating_sub(settled);
    assert!(grown < 4 << 20, "grew by {grown} bytes");
    scene.sandbox.wait_empty();
}

/// R212, PROC-04: an agent whose children fork all the time is gone as a whole when it is killed.
#[test]
fn a_kill_ends_what_forks_all_the_time() {
    let script = r#"while :; do sleep 60 & sleep 0.01; done &
        (setsid sh -c 'while :; do sleep 60 & sleep 0.01; done' &)
        exec "$0" demo-agent --puppet "$1""#;
    let mut scene = Scene::brisk(|sandbox| sandbox.wrap("p", script));
    for round in 0..3 {
        let (session, _peer) = scene.session(&format!("work{round}"));
        wait_until("it forks", PATIENCE, || scene.sandbox.descendants().len() > 20);
        scene.sandbox.control("sessions.kill", json!({"id": session}));
        wait_until("it is not listed", PATIENCE, || scene.sandbox.peer_card(&session).is_null());
    }
    scene.sandbox.wait_empty();
}

/// R214: a descendant that holds the agent's stderr open does not hold up its end.
#[test]
fn an_inherited_stderr_does_not_hold_up_a_kill() {
    let mut scene = Scene::brisk(|_| {});
    let (session, mut peer) = scene.session("work");
    let pids = [peer.spawn("spawn-setsid"), peer.spawn("spawn-orphan")].concat();
    let started = Instant::now();
    scene.sandbox.control("sessions.kill", json!({"id": session}));
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    assert!(!pids.into_iter().any(alive) && !alive(peer.pid()));
}
