//! Nothing is bricked by size: long histories and large pieces load again, in bounded memory (R281, REP cases).

use serde_json::{Value, json};

use crate::{
    host::Host,
    line,
    peer::Peer,
    process::{PATIENCE, wait_until},
    sandbox::Sandbox,
    scene::Scene,
};

const MIB: usize = 1 << 20;

fn loading(prepare: impl FnOnce(&mut Sandbox)) -> Scene {
    Scene::playing(json!({"loadSession": true}), json!({}), |sandbox| {
        sandbox.set("limits", "warm_ms = 100");
        prepare(sandbox);
    })
}

/// A turn in which the peer says these lines; the host reads along.
fn tells(scene: &mut Scene, session: &str, peer: &mut Peer, updates: &[Value]) {
    let (id, prompt) = scene.turn(session, peer);
    for update in updates {
        peer.notify("session/update", json!({"sessionId": peer.session(), "update": update}));
    }
    peer.end_turn(&prompt);
    let answer = scene.host.answer_within(&id, 6 * PATIENCE);
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    scene.host.unread();
}

/// Loads a session on a host that was not there before: everything it was shown.
fn loaded(scene: &Scene, session: &str) -> Vec<Value> {
    let mut host = scene.another();
    let id = scene.load(&mut host, session, "work");
    let answer = host.answer_within(&id, 6 * PATIENCE);
    assert!(answer.get("result").is_some(), "{answer}");
    host.unread()
}

/// R281, R37: a message of 30 MB and a tool output of 20 MB load again in bounded memory, the message whole, the output
/// by its head and tail.
#[test]
fn large_pieces_load_again_in_bounded_memory() {
    let mut scene = loading(|_| {});
    let (session, mut peer) = scene.session("work");
    let message: String = (0..30 * MIB / 16).map(|n| format!("{n:015} ")).collect();
    let output: String = (0..20 * MIB / 16).map(|n| format!("{n:015}\n")).collect();
    let content = json!([{"type": "content", "content": {"type": "text", "text": output}}]);
    tells(
        &mut scene,
        &session,
        &mut peer,
        &[
            json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": message}}),
            json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Run", "status": "pending"}),
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed", "content": content}),
        ],
    );
    scene.sandbox.restart();
    scene.host = scene.another();
    for _ in 0..2 {
        let shown = loaded(&scene, &session);
        let text: String = shown.iter().filter_map(line::text).collect();
        assert!(text == message, "{} bytes of {}", text.len(), message.len());
        let tool = shown.iter().map(|m| &m["params"]["update"]).filter(|u| u["toolCallId"] == "t");
        let last = tool.clone().next_back().unwrap().to_string();
        assert!(last.len() < MIB && tool.count() == 2);
        assert!(last.contains("completed") && last.contains(&output[..150].replace('\n', "\\n")), "its head");
        assert!(last.contains(&output[output.len() - 160..].replace('\n', "\\n")), "its tail");
    }
    let peak = scene.sandbox.peak_rss();
    assert!(peak < 160 * MIB, "loading it took {peak} bytes");
}

/// REP-04, REP-01, R281: thirty thousand updates of twelve hundred turns are all shown, in order, before the answer.
#[test]
fn a_long_history_is_shown_whole_and_in_order() {
    let mut scene = loading(|_| {});
    let (session, mut peer) = scene.session("work");
    for turn in 0..1_200 {
        let id = scene.host.prompt(&session, &format!("turn {turn}"));
        let prompt = peer.expect("session/prompt");
        let own = peer.session();
        let mut said = String::new();
        for n in 0..12 {
            let call = json!({"sessionUpdate": "tool_call", "toolCallId": format!("{turn}.{n}"), "title": "x",
                "status": "completed"});
            let call = json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": own, "update": call}});
            said += &format!("{call}\n{}\n", line::chunk(&own, &format!("{turn}.{n} ")));
        }
        peer.raw(said.as_bytes());
        peer.end_turn(&prompt);
        assert_eq!(scene.host.stop_reason(&id), "end_turn");
        scene.host.unread();
    }
    let mut host = scene.another();
    let id = scene.load(&mut host, &session, "work");
    let mut expected = (0..1_200).flat_map(|turn| {
        let pieces = (0..12).flat_map(move |n| [format!("call {turn}.{n}"), format!("text {turn}.{n} ")]);
        std::iter::once(format!("user turn {turn}")).chain(pieces)
    });
    loop {
        let message = host.next();
        if message["id"] == id {
            assert!(message.get("result").is_some(), "{message}");
            break;
        }
        let update = &message["params"]["update"];
        let shown = match update["sessionUpdate"].as_str().unwrap() {
            "user_message_chunk" => format!("user {}", update["content"]["text"].as_str().unwrap()),
            "agent_message_chunk" => format!("text {}", update["content"]["text"].as_str().unwrap()),
            "tool_call" => format!("call {}", update["toolCallId"].as_str().unwrap()),
            "session_info_update" => continue,
            other => panic!("{other}: {message}"),
        };
        assert_eq!(Some(shown), expected.next());
    }
    assert_eq!(expected.next(), None, "nothing is left out");
}

/// R44, R110, R281: a host that does not read what it is shown holds it up in bounded memory, disturbs nobody, and gets
/// everything when it reads.
#[test]
fn a_replay_waits_for_a_slow_host() {
    let mut scene = loading(|_| {});
    let (session, mut peer) = scene.session("work");
    let (other, mut others) = scene.session("other");
    let (turn, prompt) = scene.turn(&session, &mut peer);
    let calls = 600;
    let own = peer.session();
    for n in 0..calls {
        let call = json!({"sessionUpdate": "tool_call", "toolCallId": format!("{n}"), "title": "x".repeat(60_000),
            "status": "completed"});
        peer.notify("session/update", json!({"sessionId": own, "update": call}));
        if n % 50 == 0 {
            scene.host.unread();
        }
    }
    peer.end_turn(&prompt);
    assert_eq!(scene.host.answer_within(&turn, 6 * PATIENCE)["result"]["stopReason"], "end_turn");
    scene.host.unread();
    let id = scene.host.request("session/close", json!({"sessionId": session}));
    scene.host.result(&id);
    let before = scene.sandbox.rss();
    let mut host = Host::paced(&scene.sandbox);
    host.initialize(json!({}));
    host.stop_reading();
    let id = scene.load(&mut host, &session, "work");
    // It is under way when its new process is there; others are served meanwhile.
    scene.puppets.serving();
    for _ in 0..3 {
        scene.plays(&other, &mut others);
    }
    let grown = scene.sandbox.rss().saturating_sub(before);
    assert!(grown < 24 * MIB, "{grown} bytes are kept of 36 MB that nobody reads");
    host.resume_reading();
    let mut shown = 0;
    loop {
        let message = host.next();
        if message["id"] == id && message.get("method").is_none() {
            break;
        }
        shown += usize::from(message["params"]["update"]["sessionUpdate"] == "tool_call");
    }
    assert_eq!(shown, calls);
}

/// REP-06: a long load of one session disturbs no turn of another, on the same host; the agent's replay may take longer
/// than any deadline as long as it says something; when it fails the other session works.
#[test]
fn a_long_load_disturbs_no_turn() {
    let mut scene = loading(|sandbox| sandbox.set("agent.p", "handshake_s = 2"));
    let (big, mut peer) = scene.session("work");
    scene.plays(&big, &mut peer);
    let known = peer.session();
    let id = scene.host.request("session/close", json!({"sessionId": big}));
    scene.host.result(&id);
    let (session, mut others) = scene.session("other");
    let (turn, prompt) = scene.turn(&session, &mut others);
    let able = json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true}, "authMethods": []});
    scene.puppets.introduce(able);
    let params = json!({"sessionId": big, "cwd": scene.sandbox.cwd("work"), "mcpServers": []});
    for fails in [false, true] {
        let id = scene.host.request("session/load", params.clone());
        let mut peer = scene.puppets.that_got("session/load");
        let load = peer.expect("session/load");
        let begun = std::time::Instant::now();
        let mut n = 0;
        wait_until("it replayed for longer than the handshake may take", PATIENCE, || {
            peer.update_as(&known, &format!("old {n} "));
            others.update("new ");
            assert_eq!(scene.host.expect_text(), "new ");
            n += 1;
            begun.elapsed().as_secs() >= 3
        });
        if fails {
            peer.error(&load, -32050, "no")
        } else {
            peer.reply(&load, json!({}))
        }
        let answer = scene.host.answer(&id);
        assert_eq!(answer.get("error").is_some(), fails, "{answer}");
        if !fails {
            let id = scene.host.request("session/close", json!({"sessionId": big}));
            scene.host.result(&id);
        }
    }
    // An agent that says nothing at all is given up, and is gone with the answer.
    let id = scene.host.request("session/load", params);
    let mut peer = scene.puppets.that_got("session/load");
    let error = scene.host.error(&id);
    assert!(error["message"].as_str().is_some_and(|m| m.contains("within 2 s")), "{error}");
    peer.wait_gone();
    others.update("last");
    assert_eq!(scene.host.expect_text(), "last");
    others.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&turn), "end_turn");
}
