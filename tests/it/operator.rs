//! What an operator types: how the daemon is, what it does, and orders to it.

use std::process::Output;

use serde_json::json;

use crate::{process, sandbox::Sandbox, scene::Scene};

fn typed(sandbox: &Sandbox, args: &[&str]) -> Output {
    sandbox.command(args).output().unwrap()
}

/// What a verb prints that does its work.
fn shown(sandbox: &Sandbox, args: &[&str]) -> String {
    let output = typed(sandbox, args);
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The line that holds this text.
fn line<'t>(text: &'t str, part: &str) -> &'t str {
    text.lines().find(|line| line.contains(part)).unwrap_or_else(|| panic!("no {part} in:\n{text}"))
}

/// R259, R260: a session, the tree above it and the process below it are shown to people.
#[test]
fn verbs_show_what_is_there() {
    let mut scene = Scene::open();
    let (session, peer) = scene.session("work");
    let listed = shown(&scene.sandbox, &["ls"]);
    let row: Vec<&str> = line(&listed, &session).split_whitespace().collect();
    assert_eq!(row[..4], [session.as_str(), "p", "live", "idle"]);
    assert!(row.ends_with(&["s", &scene.sandbox.cwd("work")]), "{listed}");
    let tree = shown(&scene.sandbox, &["tree"]);
    for actor in ["root", "├─ store", "└─ listener/control", &format!("session/{session}")] {
        line(&tree, actor);
    }
    let process = line(&tree, &format!("peer/{session}.1"));
    assert!(process.contains(&format!(" {} ", peer.pid())) && process.contains("iB "), "{process}");
    let status = shown(&scene.sandbox, &["status"]);
    assert!(status.contains(&scene.sandbox.pid().to_string()) && !line(&status, "sessions").ends_with(" 0"));
}

/// R260: a session may be named by the beginning of its id; closing ends its process.
#[test]
fn orders_reach_the_session_they_name() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let (id, prompt) = scene.turn(&session, &mut peer);
    assert_eq!(
        shown(&scene.sandbox, &["cancel", &session[..session.len() - 4]]),
        format!("cancelled {session}\n")
    );
    peer.expect("session/cancel");
    peer.reply(&prompt, json!({"stopReason": "cancelled"}));
    assert_eq!(scene.host.stop_reason(&id), "cancelled");
    for short in ["", &session[..3]] {
        for verb in ["cancel", "close"] {
            let refused = typed(&scene.sandbox, &[verb, short]);
            assert_eq!((refused.status.code(), refused.stdout.is_empty()), (Some(2), true), "{refused:?}");
        }
    }
    assert_eq!(shown(&scene.sandbox, &["close", &session]), format!("closed {session}\n"));
    assert!(line(&shown(&scene.sandbox, &["ls"]), &session).contains(" saved "));
    assert!(!process::alive(peer.pid()));
    let unknown = typed(&scene.sandbox, &["close", "nobody"]);
    assert_eq!((unknown.status.code(), unknown.stdout.is_empty()), (Some(1), true));
}

/// R260: without a daemon a verb says how to start one.
#[test]
fn verbs_without_a_daemon_say_so() {
    let sandbox = Sandbox::new();
    for args in [&["status"][..], &["tree"], &["ls"], &["cancel", "x"], &["close", "x"], &["stop"]] {
        let output = typed(&sandbox, args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(3), true), "{args:?}: {said}");
        assert!(said.contains("acpvisor daemon"), "{said}");
    }
}
