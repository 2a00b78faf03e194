//! Sessions: how one begins, that each has its own of everything, and what an id may be (group C).

use std::{collections::BTreeSet, os::unix::fs::symlink};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{process, scene::Scene};

/// R34: each session has an id of its own, and they sort by age.
#[test]
fn twenty_sessions_have_twenty_ids() {
    let mut scene = Scene::open();
    let cwd = scene.sandbox.cwd("work");
    let ids: Vec<String> = (0..20).map(|_| scene.host.new_session(&cwd)).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 20);
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "{ids:?}");
    let safe = |c: char| c.is_ascii_alphanumeric() || c == '-';
    assert!(ids.iter().all(|id| id.len() == 36 && id.chars().all(safe)), "{ids:?}");
}

/// R34: modes and options are the agent's.
#[test]
fn a_new_session_answers_with_modes_and_options() {
    let mut scene = Scene::open();
    let modes = json!({"currentModeId": "a", "availableModes": [{"id": "a", "name": "A"}]});
    let options = json!([{
        "id": "model", "name": "Model", "category": "model", "type": "select", "currentValue": "m",
        "options": [{"value": "m", "name": "M"}],
    }]);
    let initialize = json!({"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []});
    let puppets = scene.puppets.answer_with(initialize, json!({"modes": modes, "configOptions": options}));
    let id = scene.host.request_session(&scene.sandbox.cwd("work"));
    let answer = scene.host.result(&id);
    assert_eq!((&answer["modes"], &answer["configOptions"][0]), (&modes, &options[0]));
    assert_eq!(answer["configOptions"][1]["id"], "approval", "and the daemon's own (R175)");
    drop(puppets);
}

/// R176: the options of a session are those its own agent gave it, whatever another session's agent offers later.
#[test]
fn options_of_a_session_are_its_own() {
    let mut scene = Scene::open();
    let initialize = json!({"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []});
    let offer = |values: [&str; 2]| {
        let options: Vec<Value> = values.iter().map(|v| json!({"value": v, "name": v})).collect();
        json!([{"id": "model", "name": "Model", "type": "select", "currentValue": values[0], "options": options}])
    };
    scene.puppets =
        scene.puppets.answer_with(initialize.clone(), json!({"configOptions": offer(["a", "b"])}));
    let (old, mut peer) = scene.session("old");
    scene.puppets = scene.puppets.answer_with(initialize, json!({"configOptions": offer(["c", "d"])}));
    let (new, _peer) = scene.session("new");
    let set = |session: &str, value: &str| json!({"sessionId": session, "configId": "model", "value": value});
    let id = scene.host.request("session/set_config_option", set(&old, "b"));
    let asked = peer.expect("session/set_config_option");
    peer.reply(&asked, json!({}));
    let listed = scene.host.result(&id)["configOptions"][0].clone();
    assert_eq!(
        (&listed["currentValue"], &listed["options"]),
        (&json!("b"), &offer(["a", "b"])[0]["options"])
    );
    for (session, foreign) in [(&old, "d"), (&new, "a")] {
        let id = scene.host.request("session/set_config_option", set(session, foreign));
        assert_eq!(scene.host.error(&id)["code"], -32602);
    }
}

/// R34: a directory that is none is refused before anything is made.
#[test]
fn a_wrong_directory_leaves_nothing_behind() {
    let mut scene = Scene::open();
    let file = scene.sandbox.path("file");
    std::fs::write(&file, "x").unwrap();
    let missing = scene.sandbox.path("missing");
    let (files, started) = (scene.sandbox.files(), scene.puppets.untaken());
    for cwd in ["work", ".", "", missing.to_str().unwrap(), file.to_str().unwrap()] {
        let id = scene.host.request_session(cwd);
        assert_eq!(scene.host.error(&id)["code"], -32602, "{cwd:?}");
    }
    for params in [json!({"mcpServers": []}), json!({"cwd": 5, "mcpServers": []}), json!([]), Value::Null] {
        let id = scene.host.request("session/new", params);
        assert_eq!(scene.host.error(&id)["code"], -32602);
    }
    assert_eq!(scene.puppets.untaken(), started, "no process was started");
    assert!(scene.sandbox.files().keys().eq(files.keys()), "no file was made");
}

/// R34: any directory there is will do, and its name arrives as it was given.
#[test]
fn any_directory_arrives_unchanged() {
    let mut scene = Scene::open();
    let plain = scene.sandbox.dir("plain");
    symlink(&plain, scene.sandbox.path("link")).unwrap();
    for name in ["with some spaces", "ünï-漢字-😀", "link"] {
        let (session, mut peer) = scene.session(name);
        let path = scene.sandbox.path(name);
        assert_eq!(peer.expect("session/new")["params"]["cwd"], json!(path.to_str()));
        assert_eq!(process::cwd(peer.pid()), std::fs::canonicalize(&path).ok());
        scene.plays(&session, &mut peer);
    }
}

/// R35: two sessions of one host share nothing but the connection.
#[test]
fn sessions_do_not_hear_each_other() {
    let mut scene = Scene::with(json!({"fs": {"readTextFile": true}}), |_| {});
    let (a, mut peer_a) = scene.session("a");
    let (b, mut peer_b) = scene.session("b");
    assert_ne!(peer_a.pid(), peer_b.pid());
    let (id_a, _) = scene.turn(&a, &mut peer_a);
    let (id_b, prompt_b) = scene.turn(&b, &mut peer_b);
    for n in 0..50 {
        peer_a.update(&format!("a{n} "));
        peer_b.update(&format!("b{n} "));
    }
    for (session, mark, dir, peer) in [(&a, 'a', "a", &mut peer_a), (&b, 'b', "b", &mut peer_b)] {
        let of_it = |m: &Value| m["params"]["sessionId"] == json!(session);
        let texts: Vec<Value> =
            (0..50).map(|_| scene.host.take("an update", process::PATIENCE, of_it)).collect();
        for (n, update) in texts.iter().enumerate() {
            assert_eq!(crate::line::text(update), Some(format!("{mark}{n} ").as_str()));
        }
        let path = scene.sandbox.path(dir).join("file");
        let params = json!({"sessionId": peer.session(), "path": path.to_str()});
        let id = peer.request("fs/read_text_file", params);
        let read = scene.host.expect("fs/read_text_file");
        assert_eq!(read["params"], json!({"sessionId": session, "path": path.to_str()}));
        scene.host.reply(&read, json!({"content": mark.to_string()}));
        assert_eq!(peer.answer(&id)["result"]["content"], json!(mark.to_string()));
        assert_eq!(peer.hello.cwd, scene.sandbox.path(dir).to_str().unwrap());
    }
    process::signal(peer_a.pid(), Signal::KILL);
    assert_eq!(scene.host.error(&id_a)["code"], -32603);
    peer_b.update("untouched");
    peer_b.end_turn(&prompt_b);
    assert_eq!(scene.host.stop_reason(&id_b), "end_turn");
    assert!(scene.host.unread_text().ends_with("untouched"));
}

/// R36: opening another session changes nothing for the one that works, nor where the daemon stands.
#[test]
fn there_is_no_current_session() {
    let mut scene = Scene::with(json!({"fs": {"readTextFile": true}}), |_| {});
    let stood = process::cwd(scene.sandbox.pid());
    let (a, mut peer_a) = scene.session("a");
    let (id, prompt) = scene.turn(&a, &mut peer_a);
    let call =
        json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Read", "status": "in_progress"});
    peer_a.notify("session/update", json!({"sessionId": peer_a.session(), "update": call}));
    let (b, mut peer_b) = scene.session("b");
    let path = scene.sandbox.path("a/file");
    let read =
        peer_a.request("fs/read_text_file", json!({"sessionId": peer_a.session(), "path": path.to_str()}));
    let asked = scene.host.expect("fs/read_text_file");
    assert_eq!(asked["params"]["sessionId"], json!(a));
    scene.host.reply(&asked, json!({"content": "x"}));
    assert_eq!(peer_a.answer(&read)["result"]["content"], "x");
    peer_a.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
    scene.plays(&b, &mut peer_b);
    assert_eq!(process::cwd(scene.sandbox.pid()), stood);
}

/// R54: nothing is done for a session that is not there, and it is said so.
#[test]
fn requests_for_unknown_sessions_are_refused() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let started = scene.puppets.untaken();
    let nobody = "01900000-0000-7000-8000-000000000000";
    let requests = [
        ("session/prompt", json!({"sessionId": nobody, "prompt": [{"type": "text", "text": "x"}]})),
        ("session/set_mode", json!({"sessionId": nobody, "modeId": "plan"})),
        ("session/set_config_option", json!({"sessionId": nobody, "configId": "model", "value": "m"})),
    ];
    for (method, params) in requests {
        let id = scene.host.request(method, params);
        let error = scene.host.error(&id);
        assert_eq!(
            (&error["code"], &error["data"]["sessionId"]),
            (&json!(-32002), &json!(nobody)),
            "{method}"
        );
    }
    scene.host.cancel(nobody);
    scene.plays(&session, &mut peer);
    assert!(scene.host.unread().is_empty(), "a cancel is never answered");
    assert_eq!(scene.puppets.untaken(), started, "no process was started");
}

/// R56: an id that could leave its directory never reaches the disk.
#[test]
fn ids_that_are_no_file_names_are_refused() {
    let mut scene = Scene::open();
    let cwd = scene.sandbox.cwd("work");
    let decoys = ["x", "state/x", "state/acpvisor-x"];
    for decoy in decoys {
        std::fs::write(scene.sandbox.path(decoy), "untouched").unwrap();
    }
    let files = scene.sandbox.files();
    let long = "x".repeat(300);
    for id in ["../x", "../../x", "a/b", "/etc/passwd", ".", "..", ".hidden", "", "a\\b", "a\0b", "ü", &long]
    {
        let params = json!({"sessionId": id, "cwd": cwd, "mcpServers": []});
        let request = scene.host.request("session/resume", params);
        let code = &scene.host.error(&request)["code"];
        assert!([-32602, -32002].map(Value::from).contains(code), "{id:?}: {code}");
    }
    assert!(scene.sandbox.files().keys().eq(files.keys()), "no file was made");
    for decoy in decoys {
        assert_eq!(std::fs::read_to_string(scene.sandbox.path(decoy)).unwrap(), "untouched");
    }
}

/// R203: a second close waits for the end that the first one began.
#[test]
fn a_second_close_waits_for_the_first() {
    let mut scene = Scene::with(json!({}), |sandbox| sandbox.set("limits", "cancel_grace_ms = 300"));
    let (session, mut peer) = scene.session("work");
    let (turn, _) = scene.turn(&session, &mut peer);
    let closes = [0, 1].map(|_| scene.host.request("session/close", json!({ "sessionId": session })));
    assert_eq!(scene.host.stop_reason(&turn), "cancelled");
    assert_eq!(closes.map(|id| scene.host.result(&id)), [json!({}), json!({})]);
    peer.wait_gone();
    assert!(scene.host.unread().is_empty());
}
