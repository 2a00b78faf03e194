//! Modes and options: stored, told, answered; in force in every process that comes after (groups R170 to R181, R141,
//! R284).

use std::fs;

use serde_json::{Value, json};

use crate::{
    host::Host,
    peer::{Peer, Puppets},
    process::{PATIENCE, wait_until},
    sandbox::Sandbox,
    scene::Scene,
};

/// What an agent with modes, a model of the older kind and options of two types says when it opens a session.
fn rich() -> Value {
    json!({
        "modes": {"currentModeId": "ask", "availableModes": [
            {"id": "ask", "name": "Ask"}, {"id": "plan", "name": "Plan"}, {"id": "code", "name": "Code"}]},
        "models": {"currentModelId": "m1", "availableModels": [
            {"modelId": "m1", "name": "One"}, {"modelId": "m2", "name": "Two"}]},
        "configOptions": [
            {"id": "effort", "name": "Effort", "type": "select", "currentValue": "low",
             "options": [{"value": "low", "name": "Low"}, {"value": "high", "name": "High"}]},
            {"id": "fast", "name": "Fast", "type": "boolean", "currentValue": false}],
    })
}

/// A daemon whose agent opens sessions with that, and a host.
fn offering(session: Value, prepare: impl FnOnce(&mut Sandbox)) -> Scene {
    let mut sandbox = Sandbox::new();
    let puppets = introduce(sandbox.puppet_agent("p"), session);
    prepare(&mut sandbox);
    sandbox.start();
    let mut host = Host::direct(&sandbox);
    host.initialize(json!({}));
    Scene { host, puppets, sandbox }
}

fn introduce(puppets: Puppets, session: Value) -> Puppets {
    let agent = json!({"loadSession": true, "sessionCapabilities": {"resume": {}}});
    let initialize = json!({"protocolVersion": 1, "agentCapabilities": agent, "authMethods": []});
    puppets.answer_with(initialize, session)
}

fn set_mode(host: &mut Host, session: &str, mode: &str) -> Value {
    host.request("session/set_mode", json!({"sessionId": session, "modeId": mode}))
}

fn set_option(host: &mut Host, session: &str, option: &str, value: Value) -> Value {
    let mut params = json!({"sessionId": session, "configId": option, "value": value});
    if value.is_boolean() {
        params["type"] = "boolean".into();
    }
    host.request("session/set_config_option", params)
}

/// The current value of an option in an answer or an update.
fn value(of: &Value, option: &str) -> Value {
    let options = of["configOptions"].as_array().unwrap_or_else(|| panic!("no options in {of}"));
    let found = options.iter().find(|o| o["id"] == option);
    found.unwrap_or_else(|| panic!("no {option} in {of}"))["currentValue"].clone()
}

fn kind(message: &Value) -> &str {
    message["params"]["update"]["sessionUpdate"].as_str().unwrap_or_default()
}

/// What the store says of the settings of the only session.
fn stored(sandbox: &Sandbox) -> Value {
    let text: String =
        sandbox.database().query_row("SELECT settings FROM session", [], |row| row.get(0)).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// A turn in which the peer asks for a call of that kind: `?` when the host was asked, else what the peer heard; and
/// the cards that the host saw fail.
fn asked(scene: &mut Scene, session: &str, peer: &mut Peer, kind: &Value) -> (char, usize) {
    let (id, prompt) = scene.turn(session, peer);
    let options = json!([
        {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
        {"optionId": "no", "name": "No", "kind": "reject_once"},
    ]);
    let call = json!({"toolCallId": "t", "title": "Do", "status": "pending", "kind": kind});
    let params = json!({"sessionId": peer.session(), "toolCall": call, "options": options});
    let request = peer.request("session/request_permission", params);
    // An update behind the request: what the request makes the host hear is there when the update is.
    peer.update("behind it");
    scene.host.expect_text();
    let heard = scene.host.unread();
    let question = heard.iter().find(|m| m["method"] == "session/request_permission");
    if let Some(question) = question {
        scene.host.choose(question, "yes");
    }
    let outcome = peer.answer(&request)["result"]["outcome"]["optionId"].clone();
    let failed = |m: &&Value| m["params"]["update"]["status"] == "failed";
    let failed = heard.iter().filter(failed).count();
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
    match (question, outcome.as_str()) {
        (Some(_), Some("yes")) => ('?', failed),
        (None, Some("yes")) => ('+', failed),
        (None, Some("no")) => ('-', failed),
        other => panic!("{other:?}"),
    }
}

/// R141, R248, R175: the table of the approval modes, set either way, and after another process took the session up; a
/// refusal is a failed card and no question.
#[test]
fn approval_modes_decide_what_the_host_is_asked() {
    let mut scene = offering(json!({}), |_| {});
    let (session, mut peer) = scene.session("work");
    for (n, (mode, want)) in [("default", "????"), ("auto-edit", "++??"), ("yolo", "++++"), ("plan", "+---")]
        .into_iter()
        .enumerate()
    {
        let id = if n % 2 == 0 {
            set_mode(&mut scene.host, &session, mode)
        } else {
            set_option(&mut scene.host, &session, "approval", json!(mode))
        };
        scene.host.result(&id);
        for _ in 0..2 {
            let mut got = String::new();
            for kind in [json!("read"), json!("edit"), json!("execute"), json!("of_tomorrow")] {
                let (decision, failed) = asked(&mut scene, &session, &mut peer, &kind);
                got.push(decision);
                assert_eq!(failed, usize::from(decision == '-'), "{mode} {kind}");
            }
            assert_eq!(got, want, "{mode}");
            let mut host = scene.another();
            let id = scene.load(&mut host, &session, "work");
            let answer = host.result(&id);
            assert_eq!(
                (&answer["modes"]["currentModeId"], value(&answer, "approval")),
                (&json!(mode), json!(mode))
            );
            host.unread();
            scene.host = host;
            peer = scene.puppets.serving();
        }
    }
}

/// R170, R171, R177, R181: a mode that the host heard of is there after a kill at once, though nothing was prompted
/// yet; the notification comes before the answer, and the store spells it its own way.
#[test]
fn a_mode_that_was_told_survives_a_kill() {
    let mut scene = offering(json!({}), |_| {});
    let (session, _peer) = scene.session("work");
    let modes = ["yolo", "auto-edit", "plan"];
    for (mode, word) in modes.into_iter().zip(["yolo", "autoEdit", "plan"]) {
        set_mode(&mut scene.host, &session, mode);
        let first = scene.host.next();
        assert_eq!(
            (kind(&first), &first["params"]["update"]["currentModeId"]),
            ("current_mode_update", &json!(mode))
        );
        scene.die(json!({}));
        let mut host = scene.another();
        let id = scene.load(&mut host, &session, "work");
        let answer = host.result(&id);
        assert_eq!(
            (&answer["modes"]["currentModeId"], value(&answer, "approval")),
            (&json!(mode), json!(mode))
        );
        assert_eq!(stored(&scene.sandbox)["approval"], word);
        // The same again is a success, and nothing is told.
        host.unread();
        let id = set_mode(&mut host, &session, mode);
        assert_eq!(host.next()["id"], id);
        scene.host = host;
    }
}

/// R171: a stored word that nobody knows is the default, and the log says so.
#[test]
fn an_unknown_stored_mode_is_the_default() {
    let mut scene = offering(json!({}), |_| {});
    let (session, _peer) = scene.session("work");
    scene.sandbox.kill();
    let turbo = r#"UPDATE session SET settings = '{"approval":"turbo"}'"#;
    scene.sandbox.database().execute(turbo, []).unwrap();
    scene.sandbox.start();
    let mut host = scene.another();
    let id = scene.load(&mut host, &session, "work");
    assert_eq!(host.result(&id)["modes"]["currentModeId"], "default");
    assert!(scene.sandbox.log().contains("approval mode not known"));
}

/// R177, R181, R284: an acknowledged mode, model or option of the peer is there after a kill at once: the new process
/// is told it first, and the answer to the load shows it.
#[test]
fn an_acknowledged_option_survives_a_kill() {
    let set = [
        ("session/set_mode", json!({"modeId": "code"})),
        ("session/set_model", json!({"modelId": "m2"})),
        ("session/set_config_option", json!({"configId": "effort", "value": "high"})),
        ("session/set_config_option", json!({"configId": "fast", "type": "boolean", "value": true})),
    ];
    let mut scene = offering(rich(), |_| {});
    let (session, mut peer) = scene.session("work");
    for (n, (method, params)) in set.iter().enumerate() {
        let mut params = params.clone();
        params["sessionId"] = session.as_str().into();
        let id = scene.host.request(method, params);
        let request = peer.expect(method);
        peer.reply(&request, json!({}));
        let answer = scene.host.result(&id);
        if n >= 2 {
            assert_eq!(
                answer["configOptions"].as_array().map(Vec::len),
                Some(3),
                "the complete list: {answer}"
            );
        }
        scene.die(json!({}));
        let mut host = scene.another();
        let id = scene.load(&mut host, &session, "work");
        peer = scene.puppets.serving();
        for (method, params) in &set[..=n] {
            let request = peer
                .take("a setting", |m| m["method"].as_str().is_some_and(|m| m.starts_with("session/set")));
            assert_eq!(request["method"], *method);
            let told =
                params.as_object().unwrap().iter().all(|(key, value)| request["params"][key] == *value);
            assert!(told, "{params} became {request}");
            assert_eq!(request["params"]["sessionId"], json!(peer.session()));
            peer.reply(&request, json!({}));
        }
        let answer = host.result(&id);
        let now = json!([
            answer["modes"]["currentModeId"],
            answer["models"]["currentModelId"],
            value(&answer, "effort"),
            value(&answer, "fast"),
        ]);
        let want = [
            ("ask", "m1", "low", false),
            ("code", "m1", "low", false),
            ("code", "m2", "low", false),
            ("code", "m2", "high", false),
            ("code", "m2", "high", true),
        ][n + 1];
        assert_eq!(now, json!([want.0, want.1, want.2, want.3]));
        scene.host = host;
    }
}

/// R172, R180: what is unknown is refused, and neither the peer nor anybody else hears of it.
#[test]
fn what_is_unknown_changes_nothing() {
    for session_answer in [rich(), json!({})] {
        let mut scene = offering(session_answer, |_| {});
        let (session, mut peer) = scene.session("work");
        let before = stored(&scene.sandbox);
        let mut refused = vec![set_mode(&mut scene.host, &session, "turbo")];
        for (option, value) in [
            ("foo", json!("x")),
            ("", json!("x")),
            ("effort", json!("nope")),
            ("effort", json!(true)),
            ("fast", json!("yes")),
            ("approval", json!("turbo")),
            ("approval", json!(true)),
            ("approval", json!(null)),
        ] {
            refused.push(set_option(&mut scene.host, &session, option, value));
        }
        refused.push(scene.host.request("session/set_mode", json!({"sessionId": session, "modeId": 7})));
        refused.push(scene.host.request("session/set_mode", json!({"sessionId": session})));
        for id in &refused {
            assert_eq!(scene.host.error(id)["code"], -32602);
        }
        assert!(scene.host.unread().is_empty());
        assert!(
            !peer.unread().iter().any(|m| m["method"].as_str().is_some_and(|m| m.starts_with("session/set")))
        );
        assert_eq!(stored(&scene.sandbox), before);
        scene.plays(&session, &mut peer);
    }
}

/// A scene whose store finds no space while the file is there that it comes with.
fn scarce(session: Value) -> (Scene, std::path::PathBuf) {
    let mut full = std::path::PathBuf::new();
    let scene = offering(session, |sandbox| {
        full = sandbox.path("full");
        sandbox.env("ACPVISOR_FAULT", &format!("full-while={}", full.display()));
    });
    (scene, full)
}

/// R173, R274: a mode that cannot be stored is an error, nobody is told of it, and the old one judges the next call.
#[test]
fn a_mode_that_cannot_be_stored_is_not_in_force() {
    let (mut scene, full) = scarce(json!({}));
    let (session, mut peer) = scene.session("work");
    fs::write(&full, "").unwrap();
    for id in [
        set_mode(&mut scene.host, &session, "yolo"),
        set_option(&mut scene.host, &session, "approval", json!("yolo")),
    ] {
        let error = scene.host.next();
        assert_eq!((&error["id"], &error["error"]["code"]), (&id, &json!(-32603)), "{error}");
        assert_eq!(error["error"]["data"]["failure"]["retryable"], true);
    }
    assert!(scene.host.unread().is_empty());
    fs::remove_file(&full).unwrap();
    assert_eq!(asked(&mut scene, &session, &mut peer, &json!("execute")).0, '?');
    let id = set_mode(&mut scene.host, &session, "yolo");
    scene.host.result(&id);
    assert_eq!(asked(&mut scene, &session, &mut peer, &json!("execute")).0, '+');
}

/// R179: what the peer took and the store did not is taken back at the peer before its next prompt.
#[test]
fn an_option_that_cannot_be_stored_is_taken_back() {
    let (mut scene, full) = scarce(rich());
    let (session, mut peer) = scene.session("work");
    fs::write(&full, "").unwrap();
    for (method, params, key, before) in [
        ("session/set_mode", json!({"modeId": "code"}), "modeId", "ask"),
        ("session/set_model", json!({"modelId": "m2"}), "modelId", "m1"),
        ("session/set_config_option", json!({"configId": "effort", "value": "high"}), "value", "low"),
    ] {
        let mut params = params;
        params["sessionId"] = session.as_str().into();
        let id = scene.host.request(method, params);
        let request = peer.expect(method);
        peer.reply(&request, json!({}));
        let undo = peer.expect(method);
        assert_eq!(undo["params"][key], before);
        peer.reply(&undo, json!({}));
        assert_eq!(scene.host.error(&id)["code"], -32603);
    }
    assert!(scene.host.unread().is_empty());
    fs::remove_file(&full).unwrap();
    scene.plays(&session, &mut peer);
    assert_eq!(
        stored(&scene.sandbox),
        json!({"approval": "default", "mode": null, "model": null, "options": []})
    );
}

/// R174: the mode that the agent chose by itself is stored before the host hears of it, and comes back.
#[test]
fn a_mode_of_the_agents_own_choice_comes_back() {
    let mut scene = offering(rich(), |_| {});
    let (session, mut peer) = scene.session("work");
    let update = json!({"sessionUpdate": "current_mode_update", "currentModeId": "code"});
    peer.notify("session/update", json!({"sessionId": peer.session(), "update": update}));
    let told = scene.host.take("the mode", PATIENCE, |m| kind(m) == "current_mode_update");
    assert_eq!(told["params"]["update"]["currentModeId"], "code");
    assert_eq!(stored(&scene.sandbox)["mode"], "code");
    scene.die(json!({}));
    let mut host = scene.another();
    let id = scene.load(&mut host, &session, "work");
    let mut peer = scene.puppets.serving();
    let restored = peer.expect("session/set_mode");
    assert_eq!(restored["params"]["modeId"], "code");
    peer.reply(&restored, json!({}));
    assert_eq!(host.result(&id)["modes"]["currentModeId"], "code");
}

/// R174: the same while a change of the host's is on its way to a slow disk: each is told when it is stored, and in the
/// order of the wire.
#[test]
fn changes_of_both_sides_are_told_when_they_are_stored() {
    let mut scene = offering(rich(), |sandbox| sandbox.env("ACPVISOR_FAULT", "slow-commit=200"));
    let (session, mut peer) = scene.session("work");
    let ours = set_option(&mut scene.host, &session, "effort", json!("high"));
    let request = peer.expect("session/set_config_option");
    peer.reply(&request, json!({}));
    let update = json!({"sessionUpdate": "current_mode_update", "currentModeId": "code"});
    peer.notify("session/update", json!({"sessionId": peer.session(), "update": update}));
    peer.update("after it");
    scene.host.take("the mode", PATIENCE, |m| kind(m) == "current_mode_update");
    assert_eq!(stored(&scene.sandbox)["mode"], "code", "stored before it is told");
    assert_eq!(scene.host.next()["id"], ours);
    assert_eq!(scene.host.expect_text(), "after it");
}

/// R178: the peer's options rest while a turn runs, unless the operator wants otherwise; modes and approval do not.
#[test]
fn options_rest_while_a_turn_runs() {
    for relayed in [false, true] {
        let mut scene =
            offering(rich(), |sandbox| sandbox.set("host", &format!("options_during_turn = {relayed}")));
        let (session, mut peer) = scene.session("work");
        let (turn, prompt) = scene.turn(&session, &mut peer);
        for value in ["high", "low"].repeat(3) {
            let id = set_option(&mut scene.host, &session, "effort", json!(value));
            if relayed {
                let request = peer.expect("session/set_config_option");
                peer.reply(&request, json!({}));
                scene.host.result(&id);
            } else if value == "high" {
                assert_eq!(scene.host.error(&id)["data"]["retryable"], true);
            } else {
                scene.host.result(&id);
            }
        }
        let id = set_mode(&mut scene.host, &session, "code");
        let request = peer.expect("session/set_mode");
        peer.reply(&request, json!({}));
        scene.host.result(&id);
        let id = set_option(&mut scene.host, &session, "approval", json!("plan"));
        assert_eq!(value(&scene.host.result(&id), "approval"), "plan");
        peer.end_turn(&prompt);
        assert_eq!(scene.host.stop_reason(&turn), "end_turn");
        for value in ["high", "low"].repeat(2) {
            let id = set_option(&mut scene.host, &session, "effort", json!(value));
            let request = peer.expect("session/set_config_option");
            peer.reply(&request, json!({}));
            scene.host.result(&id);
        }
    }
}

/// OPT-04: a mode is set in mid-turn, at once, while a question is open; the question stays open until it is answered
/// or the turn ends.
#[test]
fn a_mode_changes_while_a_question_is_open() {
    let mut scene = offering(rich(), |_| {});
    let (session, mut peer) = scene.session("work");
    for answered in [true, false] {
        let (turn, prompt) = scene.turn(&session, &mut peer);
        let ask = peer.ask_permission("t", "sh");
        let question = scene.host.expect("session/request_permission");
        let mode = if answered { "code" } else { "plan" };
        let id = set_mode(&mut scene.host, &session, mode);
        let request = peer.expect("session/set_mode");
        peer.reply(&request, json!({}));
        scene.host.result(&id);
        if answered {
            scene.host.choose(&question, "yes");
            assert_eq!(peer.answer(&ask)["result"]["outcome"]["optionId"], "yes");
        }
        peer.end_turn(&prompt);
        if !answered {
            assert_eq!(peer.answer(&ask)["result"]["outcome"]["outcome"], "cancelled");
            assert_eq!(scene.host.expect("$/cancel_request")["params"]["requestId"], question["id"]);
        }
        assert_eq!(scene.host.stop_reason(&turn), "end_turn");
    }
}

/// OPT-03: modes that an agent names only when it loads reach the host, and can be set; an agent that names none is
/// asked all the same.
#[test]
fn modes_of_a_load_can_be_set() {
    let mut scene = offering(json!({}), |_| {});
    let (session, _peer) = scene.session("work");
    let modes = rich()["modes"].clone();
    scene.puppets = introduce(scene.puppets, json!({"modes": modes}));
    let mut host = scene.another();
    let id = scene.load(&mut host, &session, "work");
    let answer = host.result(&id);
    assert_eq!((&answer["modes"], value(&answer, "approval")), (&modes, json!("default")));
    let mut peer = scene.puppets.serving();
    let id = set_mode(&mut host, &session, "plan");
    let request = peer.expect("session/set_mode");
    assert_eq!(request["params"], json!({"sessionId": peer.session(), "modeId": "plan"}));
    peer.reply(&request, json!({}));
    assert_eq!(host.result(&id), json!({}));
}

/// R48, R175: new, load, resume and fork answer alike: the peer's modes and options unchanged, and the daemon's own.
#[test]
fn all_that_open_a_session_answer_alike() {
    for offered in [rich(), json!({})] {
        let mut scene = offering(offered.clone(), |_| {});
        let id = scene.host.request_session(&scene.sandbox.cwd("work"));
        let mut made = scene.host.result(&id);
        let session = made["sessionId"].as_str().unwrap().to_owned();
        made.as_object_mut().unwrap().remove("sessionId");
        for (key, value) in offered.as_object().unwrap().iter().filter(|(key, _)| *key != "configOptions") {
            assert_eq!(made[key], *value, "unchanged");
        }
        let list = made["configOptions"].as_array().unwrap();
        let peers = offered["configOptions"].as_array().cloned().unwrap_or_default();
        assert_eq!(list[..peers.len()], peers);
        let own = list.last().unwrap();
        let ids: Vec<&Value> = own["options"].as_array().unwrap().iter().map(|o| &o["value"]).collect();
        assert_eq!(
            (&own["id"], ids),
            (
                &json!("approval"),
                ["default", "auto-edit", "yolo", "plan"]
                    .iter()
                    .map(|s| json!(s))
                    .collect::<Vec<_>>()
                    .iter()
                    .collect()
            )
        );
        let cwd = scene.sandbox.cwd("work");
        let params = json!({"sessionId": session, "cwd": cwd, "mcpServers": []});
        for method in ["session/load", "session/resume", "session/fork"] {
            let mut host = scene.another();
            let id = host.request(method, params.clone());
            let mut answer = host.result(&id);
            let named = answer.as_object_mut().unwrap().remove("sessionId").is_some();
            assert_eq!((named, &answer), (method == "session/fork", &made), "{method}");
            scene.host = host;
        }
    }
}

/// R48: what was set in the parent is set in the fork.
#[test]
fn a_fork_inherits_what_was_set() {
    let mut scene = offering(json!({}), |_| {});
    let (session, _peer) = scene.session("work");
    let id = set_mode(&mut scene.host, &session, "plan");
    scene.host.result(&id);
    let params = json!({"sessionId": session, "cwd": scene.sandbox.cwd("work"), "mcpServers": []});
    let id = scene.host.request("session/fork", params);
    assert_eq!(scene.host.result(&id)["modes"]["currentModeId"], "plan");
}

/// R284: after the death of a process the next one is told what was set before it gets the prompt, and the host hears
/// of what it does not take before the prompt runs.
#[test]
fn settings_come_back_before_the_next_prompt() {
    let mut scene = offering(rich(), |_| {});
    let (session, mut peer) = scene.session("work");
    let mode = set_mode(&mut scene.host, &session, "plan");
    let effort = set_option(&mut scene.host, &session, "effort", json!("high"));
    for (method, id) in [("session/set_mode", mode), ("session/set_config_option", effort)] {
        let request = peer.expect(method);
        peer.reply(&request, json!({}));
        scene.host.result(&id);
    }
    peer.command("exit 1");
    wait_until("the daemon knows", PATIENCE, || scene.sandbox.peer_card(&session).is_null());
    let id = scene.host.prompt(&session, "go");
    let mut peer = scene.puppets.serving();
    let mut seen = Vec::new();
    for refused in [false, true] {
        let request =
            peer.take("a setting", |m| m["method"].as_str().is_some_and(|m| m.starts_with("session/set")));
        seen.push(request["method"].clone());
        assert!(!peer.unread().iter().any(|m| m["method"] == "session/prompt"), "the settings come first");
        if refused { peer.error(&request, -32050, "no") } else { peer.reply(&request, json!({})) }
    }
    assert_eq!(seen, ["session/set_mode", "session/set_config_option"]);
    let prompt = peer.expect("session/prompt");
    let lost = |m: &Value| {
        m["params"]["update"]["_meta"]["acpvisor"]["settingLost"]["setting"]["option"] == "effort"
    };
    scene.host.take("it is told", PATIENCE, lost);
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
}

/// R107, R248: a refusal comes behind the call that it refuses, even when the agent said both in one breath.
#[test]
fn a_refused_call_is_shown_before_its_refusal() {
    let mut scene = offering(json!({}), |_| {});
    let (session, mut peer) = scene.session("work");
    let id = set_mode(&mut scene.host, &session, "plan");
    scene.host.result(&id);
    let (id, prompt) = scene.turn(&session, &mut peer);
    scene.host.unread();
    let own = peer.session();
    let call = json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Do", "status": "pending"});
    let announced =
        json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": own, "update": call}});
    let options = json!([{"optionId": "no", "name": "No", "kind": "reject_once"}]);
    let params = json!({"sessionId": own, "toolCall": {"toolCallId": "t"}, "options": options});
    let asks = json!({"jsonrpc": "2.0", "id": 5, "method": "session/request_permission", "params": params});
    peer.raw(format!("{announced}\n{asks}\n").as_bytes());
    peer.answer(&json!(5));
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
    let statuses: Vec<Value> =
        scene.host.unread().iter().map(|m| m["params"]["update"]["status"].clone()).collect();
    assert_eq!(statuses, ["pending", "failed"]);
}

/// R284: an agent that does not answer what it is told holds nobody up: the host hears that it is lost.
#[test]
fn a_setting_that_is_not_answered_is_lost() {
    let mut scene = offering(rich(), |sandbox| sandbox.set("agent.p", "handshake_s = 1"));
    let (session, mut peer) = scene.session("work");
    let id = set_mode(&mut scene.host, &session, "plan");
    let request = peer.expect("session/set_mode");
    peer.reply(&request, json!({}));
    scene.host.result(&id);
    let mut host = scene.another();
    let id = scene.load(&mut host, &session, "work");
    let mut peer = scene.puppets.that_got("session/set_mode");
    let answer = host.result(&id);
    assert_eq!(answer["modes"]["currentModeId"], "ask", "what is so, not what was wanted");
    let lost =
        |m: &Value| m["params"]["update"]["_meta"]["acpvisor"]["settingLost"]["setting"]["mode"] == "plan";
    host.take("it is told", PATIENCE, lost);
    let request = peer.expect("session/set_mode");
    peer.reply(&request, json!({}));
    scene.host = host;
    scene.plays(&session, &mut peer);
    assert_eq!(stored(&scene.sandbox)["mode"], "plan", "it is wanted still");
}

/// R177: what the agent refuses is its own answer, unchanged, and nothing is stored; a dead agent's host hears too.
#[test]
fn what_the_agent_refuses_is_not_stored() {
    let mut scene = offering(rich(), |_| {});
    let (session, mut peer) = scene.session("work");
    let before = stored(&scene.sandbox);
    let id = set_option(&mut scene.host, &session, "effort", json!("high"));
    let request = peer.expect("session/set_config_option");
    peer.error(&request, -32077, "not today");
    assert_eq!(scene.host.error(&id), json!({"code": -32077, "message": "not today"}));
    let id = set_option(&mut scene.host, &session, "effort", json!("high"));
    peer.expect("session/set_config_option");
    peer.command("exit 1");
    scene.host.error(&id);
    assert_eq!(stored(&scene.sandbox), before);
    let mut host = scene.another();
    let id = scene.load(&mut host, &session, "work");
    assert_eq!(value(&host.result(&id), "effort"), "low");
}

/// R47: a fork takes neither the open question nor the waiting prompt nor the running turn along; the parent keeps them.
#[test]
fn a_fork_takes_nothing_along_that_is_open() {
    let mut scene = offering(json!({}), |_| {});
    let (session, mut peer) = scene.session("work");
    let (turn, prompt) = scene.turn(&session, &mut peer);
    let behind = scene.host.prompt(&session, "behind");
    let ask = peer.ask_permission("t", "ls");
    let question = scene.host.expect("session/request_permission");
    let mut other = scene.another();
    let params = json!({"sessionId": session, "cwd": scene.sandbox.cwd("work"), "mcpServers": []});
    let id = other.request("session/fork", params);
    let child = other.result(&id)["sessionId"].as_str().unwrap().to_owned();
    let listed = scene.sandbox.control("sessions.list", json!({}));
    let of =
        |id: &str| listed["sessions"].as_array().unwrap().iter().find(|s| s["id"] == id).unwrap().clone();
    assert_eq!((&of(&child)["open_requests"], &of(&session)["open_requests"]), (&json!(0), &json!(1)));
    let mut heir = scene.puppets.serving();
    assert!(!heir.unread().iter().any(|m| m["method"] == "session/prompt"));
    assert!(!other.unread().iter().any(|m| m["method"] == "session/request_permission"));
    scene.host.choose(&question, "yes");
    peer.answer(&ask);
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&turn), "end_turn");
    let prompt = peer.expect("session/prompt");
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&behind), "end_turn");
}
