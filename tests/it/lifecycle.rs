//! The daemon's own life: what is left after it, what it takes along, and the bridge in front of it.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::{
    host::Host,
    process::{PATIENCE, wait_until},
    sandbox::Sandbox,
    scene::Scene,
};

/// A session whose process left three kinds of children behind.
fn with_a_brood() -> Scene {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    for order in ["spawn-sleep", "spawn-setsid", "spawn-orphan"] {
        peer.spawn(order);
    }
    scene.plays(&session, &mut peer);
    assert!(scene.sandbox.descendants().contains(&peer.pid()));
    assert!(scene.sandbox.survivors().len() >= 5);
    scene
}

/// R209, R210: a daemon that is told to stop leaves nothing running, in time.
#[test]
fn nothing_survives_a_stop() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut scene = with_a_brood();
        scene.sandbox.signal(signal);
        assert_eq!(scene.sandbox.wait_exit(Duration::from_millis(5_500)).code(), Some(0), "{signal:?}");
        wait_until("nothing is left", Duration::from_secs(1), || scene.sandbox.survivors().is_empty());
    }
}

/// R210: nor does one that is killed.
#[test]
fn nothing_survives_a_kill() {
    let mut scene = with_a_brood();
    scene.sandbox.kill();
    wait_until("nothing is left", Duration::from_secs(5), || scene.sandbox.survivors().is_empty());
}

/// R57: a daemon that is started again takes its sockets back.
#[test]
fn a_daemon_comes_back_where_it_was() {
    let mut sandbox = Sandbox::new();
    sandbox.demo_agent("d", &[]);
    sandbox.start();
    sandbox.kill();
    sandbox.start();
    sandbox.restart();
    assert_eq!(Host::direct(&sandbox).initialize(json!({}))["protocolVersion"], 1);
}

/// R230, R231: what the daemon knows does not reach an agent by inheritance.
#[test]
fn an_agent_sees_no_secret_of_the_daemon() {
    let mut scene = Scene::with(json!({}), |sandbox| {
        for name in
            ["GH_TOKEN", "AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"]
        {
            sandbox.env(name, "marker-of-a-secret");
        }
    });
    let (session, mut peer) = scene.session("work");
    assert!(
        !peer.hello.env.values().any(|value| value.contains("marker-of-a-secret")),
        "{:?}",
        peer.hello.env
    );
    assert!(peer.hello.env.contains_key("PATH") && peer.hello.env.contains_key("HOME"));
    scene.plays(&session, &mut peer);
    assert!(!scene.sandbox.log().contains("marker-of-a-secret"));
}

/// R252: an editor sees an ordinary agent that says nothing on stderr and ends when its stdin does.
#[test]
fn the_bridge_is_an_ordinary_agent() {
    let mut sandbox = Sandbox::new();
    sandbox.demo_agent("d", &["--name", "somebody"]);
    sandbox.start();
    let mut editor = Host::bridge(&sandbox, "d");
    assert_eq!(editor.initialize(json!({}))["agentInfo"]["name"], "somebody");
    let session = editor.new_session(&sandbox.cwd("work"));
    let id = editor.prompt(&session, "echo over the bridge");
    assert_eq!(editor.stop_reason(&id), "end_turn");
    assert_eq!(editor.unread_text(), "over the bridge");
    editor.close_write();
    assert_eq!(editor.wait_exit(Duration::from_secs(1)).code(), Some(0));
    assert_eq!(editor.stderr(), "");
    wait_until("its agent is ended", PATIENCE, || sandbox.survivors().is_empty());
}
