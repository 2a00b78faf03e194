//! Lasting sessions with the habits of real agents (R31, R37, R248).

use serde_json::{Value, json};

use crate::{
    peer::Peer,
    process::PATIENCE,
    scene::{Scene, said},
};

fn says(peer: &mut Peer, session: &str, update: Value) {
    peer.notify("session/update", json!({"sessionId": session, "update": update}));
}

/// R31: some agents answer a load first and stream the history then; some say in words that a mode was set. Neither is
/// shown or stored; the commands that come with it are passed on.
#[test]
fn a_history_that_comes_after_the_answer_is_swallowed() {
    let agent = json!({"loadSession": true});
    let mut scene = Scene::playing(agent, json!({}), |_| {});
    let (session, mut peer) = scene.session("work");
    let (id, prompt) = scene.turn(&session, &mut peer);
    peer.update("once");
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
    let known = peer.session();
    let able = json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true}, "authMethods": []});
    for opens in ["session/resume", "session/load"] {
        scene.puppets.introduce(able.clone());
        scene.host.close_write();
        scene.host.expect_end(PATIENCE);
        let mut host = scene.another();
        let open = if opens == "session/load" { Scene::load } else { Scene::resume };
        let id = open(&scene, &mut host, &session, "work");
        let mut peer = scene.puppets.that_got("session/load");
        let load = peer.expect("session/load");
        let chunk = |text: &str| json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}});
        says(&mut peer, &known, chunk("before"));
        peer.reply(&load, json!({}));
        says(&mut peer, &known, chunk("after"));
        says(
            &mut peer,
            &known,
            json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "T", "status": "completed"}),
        );
        says(
            &mut peer,
            &known,
            json!({"sessionUpdate": "available_commands_update", "availableCommands": []}),
        );
        let mut seen = Vec::new();
        loop {
            let message = host.next();
            if message["id"] == id {
                break;
            }
            seen.push(message);
        }
        seen.extend(host.unread());
        let shown: Vec<String> = seen.iter().filter_map(|m| said(&session, m)).collect();
        let whole = ["user: go", "agent: once"];
        assert_eq!(shown, if opens == "session/load" { whole.as_slice() } else { &[] }, "{opens}");
        let commands = |m: &Value| m["params"]["update"]["sessionUpdate"] == "available_commands_update";
        assert!(seen.iter().any(commands), "{seen:?}");
        scene.host = host;
    }
}

/// R248, R37: a call that is refused is announced first and failed then, in the same read too; a load shows the same.
#[test]
fn a_refusal_comes_behind_its_call_and_is_shown_again() {
    let mut scene = Scene::playing(json!({}), json!({}), |_| {});
    let (session, mut peer) = scene.session("work");
    let id = scene.host.request("session/set_mode", json!({"sessionId": session, "modeId": "plan"}));
    scene.host.result(&id);
    let (id, prompt) = scene.turn(&session, &mut peer);
    let own = peer.session();
    let call = json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": own, "update": {
        "sessionUpdate": "tool_call", "toolCallId": "t", "title": "Write", "kind": "edit", "status": "pending"}}});
    let ask = json!({"jsonrpc": "2.0", "id": "p", "method": "session/request_permission", "params": {"sessionId": own,
        "toolCall": {"toolCallId": "t", "title": "Write", "kind": "edit"},
        "options": [{"optionId": "no", "name": "No", "kind": "reject_once"}]}});
    peer.raw(format!("{call}\n{ask}\n").as_bytes());
    peer.answer(&json!("p"));
    peer.end_turn(&prompt);
    let refused = |messages: &[Value]| -> Vec<String> {
        let calls = messages.iter().filter(|m| m["params"]["update"].get("toolCallId").is_some());
        calls
            .map(|m| {
                let update = &m["params"]["update"];
                let text = update["content"][0]["content"]["text"].as_str().unwrap_or_default();
                format!(
                    "{} {} {text}",
                    update["sessionUpdate"].as_str().unwrap(),
                    update["status"].as_str().unwrap()
                )
            })
            .collect()
    };
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
    let live = refused(&scene.host.unread());
    assert_eq!((live.len(), live[0].as_str()), (2, "tool_call pending "), "{live:?}");
    assert!(live[1].starts_with("tool_call_update failed refused: "), "{live:?}");
    let id = scene.host.request(
        "session/load",
        json!({"sessionId": session, "cwd": scene.sandbox.cwd("work"), "mcpServers": []}),
    );
    scene.host.result(&id);
    assert_eq!(refused(&scene.host.unread()), live);
}

/// R45: a list shows what the agent called the session last, after a kill too.
#[test]
fn a_list_shows_the_title_that_the_agent_gave() {
    let mut scene = Scene::playing(json!({"loadSession": true}), json!({}), |_| {});
    let (session, mut peer) = scene.session("work");
    let own = peer.session();
    let (id, prompt) = scene.turn(&session, &mut peer);
    for title in ["Keys", "Lost keys"] {
        says(&mut peer, &own, json!({"sessionUpdate": "session_info_update", "title": title}));
    }
    says(
        &mut peer,
        &own,
        json!({"sessionUpdate": "session_info_update", "updatedAt": "2026-01-01T00:00:00Z"}),
    );
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
    scene.die(json!({}));
    let id = scene.host.request("session/list", json!({}));
    assert_eq!(scene.host.result(&id)["sessions"][0]["title"], "Lost keys");
}
