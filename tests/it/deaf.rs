//! Ends that ask and do not read, or begin and do not end: memory stays bounded, and nobody else waits for them.

use std::time::Duration;

use serde_json::json;

use crate::{host::Host, process::PATIENCE, scene::Scene};

/// R249, R278: an agent that asks on and on and reads none of the answers is ended, and its turn is told why.
#[test]
fn an_agent_that_asks_and_never_reads_is_ended() {
    let mut scene = Scene::brisk(|_| {});
    let (session, mut peer) = scene.session("work");
    let (id, _) = scene.turn(&session, &mut peer);
    peer.obey("stop-reading");
    let ask = |n: usize| {
        let params = json!({ "sessionId": "x", "path": "/x".repeat(40) });
        json!({ "jsonrpc": "2.0", "id": n, "method": "fs/read_text_file", "params": params }).to_string()
            + "\n"
    };
    // Not all of it is taken: the agent is ended while it still asks.
    let _ = peer.last_words((0..60_000).map(ask).collect::<String>().as_bytes());
    let error = scene.host.answer_within(&id, PATIENCE)["error"].clone();
    assert!(
        error["message"].as_str().is_some_and(|text| text.contains("reads none of the answers")),
        "{error}"
    );
    peer.wait_gone();
}

/// R249, R256: a host that asks on and on and reads nothing is not read from either, and loses its connection in the end.
#[test]
fn a_host_that_asks_and_never_reads_is_let_go() {
    let mut scene = Scene::brisk(|sandbox| sandbox.set("limits", "write_stall_ms = 500"));
    let (session, mut peer) = scene.session("work");
    let mut deaf = Host::direct(&scene.sandbox);
    deaf.initialize(json!({}));
    deaf.stop_reading();
    let ask = |n: usize| {
        let params = json!({ "sessionId": "nobody", "modeId": "x" });
        json!({ "jsonrpc": "2.0", "id": n, "method": "session/set_mode", "params": params }).to_string()
            + "\n"
    };
    let refused = (100..1_000_000).find(|n| deaf.try_send_raw(ask(*n).as_bytes()).is_err());
    assert!(refused.is_some(), "the connection still takes what is sent");
    scene.sandbox.wait_logged("host cannot be written to", 1);
    assert!(scene.sandbox.peak_rss() < 64 << 20, "{}", scene.sandbox.peak_rss());
    scene.plays(&session, &mut peer);
}

/// R256, R278: a large line that is begun and not ended is not waited for: its memory is needed by others.
#[test]
fn a_large_line_that_does_not_end_is_given_up() {
    let mut scene = Scene::brisk(|sandbox| sandbox.set("limits", "write_stall_ms = 500"));
    let (session, mut peer) = scene.session("work");
    let mut hosts: Vec<Host> = (0..3).map(|_| Host::direct(&scene.sandbox)).collect();
    for host in &mut hosts {
        host.initialize(json!({}));
        let _ = host.try_send_raw(&vec![b'x'; 3 << 20]);
    }
    for host in &mut hosts {
        host.expect_refusal(-32600);
        host.expect_end(Duration::from_secs(20));
    }
    let (id, prompt) = scene.turn(&session, &mut peer);
    peer.update(&"y".repeat(3 << 20));
    assert_eq!(scene.host.expect_text().len(), 3 << 20);
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
}
