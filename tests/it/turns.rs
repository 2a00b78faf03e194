//! Turns: one at a time, how they end, and what becomes of them when an end of the wire fails (groups E, F and T).

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    host::Host,
    line,
    peer::Peer,
    process::{self, PATIENCE, alive, wait_until},
    scene::Scene,
};

fn quick(sandbox: &mut crate::sandbox::Sandbox) {
    sandbox.set("limits", "cancel_grace_ms = 300");
}

fn resuming(grace_ms: u64) -> Scene {
    Scene::playing(json!({"sessionCapabilities": {"resume": {}}}), json!({}), |sandbox| {
        sandbox.set("limits", &format!("cancel_grace_ms = {grace_ms}"));
    })
}

/// The oldest notice of the daemon about that.
fn notice(host: &mut Host, about: &str) -> Value {
    let of = |m: &Value| !m["params"]["update"]["_meta"]["acpvisor"][about].is_null();
    let notice = host.take(about, PATIENCE, of);
    assert_eq!(notice["params"]["update"]["sessionUpdate"], "session_info_update");
    notice["params"]["update"]["_meta"]["acpvisor"][about].clone()
}

fn tool(peer: &mut Peer, kind: &str, id: &str, status: &str) {
    let update = json!({"sessionUpdate": kind, "toolCallId": id, "title": id, "status": status});
    let session = peer.session();
    peer.notify("session/update", json!({"sessionId": session, "update": update}));
}

/// Tool calls that were shown failed among what nobody took.
fn failed(messages: &[Value]) -> Vec<&str> {
    let update = |m: &'_ Value| m["params"]["update"]["status"] == "failed";
    messages
        .iter()
        .filter(|m| update(m))
        .map(|m| m["params"]["update"]["toolCallId"].as_str().unwrap())
        .collect()
}

/// Nothing but the handshake is left of what a peer got.
fn hears_nothing(peer: &mut Peer) -> bool {
    peer.unread().iter().all(|m| m["method"] == "initialize" || m["method"] == "session/new")
}

/// Ends an idle peer, and waits until the host knows.
fn is_gone(host: &mut Host, peer: &mut Peer, signal: Signal) {
    process::signal(peer.pid(), signal);
    peer.wait_gone();
    notice(host, "peer");
}

/// R72: the second prompt waits for the first, is told its place, and runs then.
#[test]
fn a_second_prompt_waits_for_the_first() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let (first, prompt) = scene.turn(&session, &mut peer);
    let rest = ["two", "three"].map(|text| scene.host.prompt(&session, text));
    for position in 1..=2 {
        assert_eq!(notice(&mut scene.host, "queue")["position"], position);
    }
    assert!(peer.unread().iter().all(|m| m["method"] != "session/prompt"));
    peer.end_turn(&prompt);
    assert_eq!(scene.host.next()["id"], first);
    for (id, text) in rest.iter().zip(["two", "three"]) {
        let prompt = peer.expect("session/prompt");
        assert_eq!(prompt["params"]["prompt"][0]["text"], text);
        assert!(scene.host.unread().is_empty());
        peer.end_turn(&prompt);
        assert_eq!(scene.host.stop_reason(id), "end_turn");
    }
}

/// R72: twenty prompts wait, one more is refused; a cancel ends all of them.
#[test]
fn a_cancel_ends_every_prompt_that_waits() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let (first, prompt) = scene.turn(&session, &mut peer);
    let waiting: Vec<Value> = (0..20).map(|_| scene.host.prompt(&session, "later")).collect();
    let one_more = scene.host.prompt(&session, "too late");
    let error = scene.host.error(&one_more);
    assert_eq!(
        (&error["code"], &error["data"]["resource"], &error["data"]["retryable"]),
        (&json!(-32603), &json!("pending_count"), &json!(true))
    );
    scene.host.cancel(&session);
    for id in &waiting {
        assert_eq!(scene.host.stop_reason(id), "cancelled");
    }
    peer.expect("session/cancel");
    peer.reply(&prompt, json!({"stopReason": "cancelled"}));
    assert_eq!(scene.host.stop_reason(&first), "cancelled");
    assert!(peer.unread().iter().all(|m| m["method"] != "session/prompt"));
    scene.plays(&session, &mut peer);
}

/// R72: a prompt that waits can be taken back, and never runs.
#[test]
fn a_waiting_prompt_can_be_taken_back() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let (first, prompt) = scene.turn(&session, &mut peer);
    let [second, third] = ["two", "three"].map(|text| scene.host.prompt(&session, text));
    scene.host.notify("$/cancel_request", json!({"requestId": second}));
    assert_eq!(scene.host.error(&second)["code"], -32800);
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&first), "end_turn");
    let prompt = peer.expect("session/prompt");
    assert_eq!(prompt["params"]["prompt"][0]["text"], "three");
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&third), "end_turn");
    scene.host.notify("$/cancel_request", json!({"requestId": second}));
    scene.host.notify("$/cancel_request", json!({"requestId": 999}));
    scene.host.notify("$/cancel_request", json!({}));
    scene.plays(&session, &mut peer);
    assert!(hears_nothing(&mut peer));
}

/// R12, R72: `$/cancel_request` of what runs is the peer's to decide, under the peer's own id.
#[test]
fn cancelling_a_request_reaches_the_peer_under_its_id() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let (turn, prompt) = scene.turn(&session, &mut peer);
    let other = scene.host.request("session/from_the_future", json!({"sessionId": session}));
    let asked = peer.expect("session/from_the_future");
    for (id, request) in [(&other, &asked), (&turn, &prompt)] {
        scene.host.notify("$/cancel_request", json!({"requestId": id, "_meta": {"a": 1}}));
        let cancel = peer.expect("$/cancel_request");
        assert_eq!(cancel["params"], json!({"requestId": request["id"], "_meta": {"a": 1}}));
        peer.error(request, -32800, "as you wish");
        assert_eq!(scene.host.error(id), json!({"code": -32800, "message": "as you wish"}));
    }
    scene.plays(&session, &mut peer);
}

/// R73: no update of a turn comes after its answer, and none is missing.
#[test]
fn the_answer_comes_after_the_last_update() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    for round in 0..50 {
        let (id, prompt) = scene.turn(&session, &mut peer);
        let mut lines: String = (0..200)
            .map(|n| format!("{}\n", line::chunk(&peer.session(), &format!("{round}.{n}"))))
            .collect();
        let answer = json!({"jsonrpc": "2.0", "id": prompt["id"], "result": {"stopReason": "end_turn"}});
        lines.push_str(&format!("{answer}\n"));
        peer.raw(lines.as_bytes());
        for n in 0..200 {
            assert_eq!(line::text(&scene.host.next()), Some(format!("{round}.{n}").as_str()));
        }
        assert_eq!(scene.host.next()["id"], id);
    }
}

/// R74, R240, CAN-04: whatever a peer answers to a cancel, the turn is cancelled and the next one runs.
#[test]
fn a_cancelled_turn_is_cancelled_whatever_the_peer_says() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    for answer in [
        json!({"result": {"stopReason": "cancelled", "usage": {"x": 1}}}),
        json!({"result": {"stopReason": "end_turn"}}),
        json!({"result": {}}),
        json!({"result": null}),
        json!({"error": {"code": -32603, "message": "aborted"}}),
    ] {
        let (id, prompt) = scene.turn(&session, &mut peer);
        scene.host.cancel(&session);
        assert_eq!(peer.expect("session/cancel")["params"]["sessionId"], json!(peer.session()));
        peer.update("before I go");
        let mut line = json!({"jsonrpc": "2.0", "id": prompt["id"]});
        line.as_object_mut().unwrap().extend(answer.as_object().unwrap().clone());
        peer.send(&line);
        assert_eq!(line::text(&scene.host.next()), Some("before I go"), "{answer}");
        let ended = scene.host.next();
        assert_eq!((&ended["id"], &ended["result"]["stopReason"]), (&id, &json!("cancelled")), "{answer}");
        if answer["result"]["stopReason"] == "cancelled" {
            assert_eq!(ended["result"], answer["result"], "the peer's own word for it is kept");
        }
        scene.plays(&session, &mut peer);
    }
}

/// R74: a cancel with nothing to cancel does nothing, a second one does not come twice.
#[test]
fn cancels_that_mean_nothing_do_nothing() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    scene.host.cancel(&session);
    let (id, prompt) = scene.turn(&session, &mut peer);
    scene.host.notify("session/cancel", json!({}));
    scene.host.notify("session/cancel", json!({"sessionId": 5}));
    let behind = scene.host.request("session/from_the_future", json!({"sessionId": session}));
    let asked = peer.expect("session/from_the_future");
    assert!(hears_nothing(&mut peer), "no session is meant");
    peer.reply(&asked, json!({}));
    scene.host.result(&behind);
    scene.host.cancel(&session);
    scene.host.cancel(&session);
    peer.expect("session/cancel");
    peer.reply(&prompt, json!({"stopReason": "cancelled"}));
    assert_eq!(scene.host.stop_reason(&id), "cancelled");
    scene.host.cancel(&session);
    scene.plays(&session, &mut peer);
    assert!(peer.unread().iter().all(|m| m["method"] != "session/cancel"));
    assert!(scene.host.unread().is_empty());
}

/// R74: tool calls that a cancelled turn leaves open are shown failed, before its answer.
#[test]
fn open_tool_calls_of_a_cancelled_turn_are_shown_failed() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let (id, prompt) = scene.turn(&session, &mut peer);
    for (call, status) in [("done", "completed"), ("open", "in_progress"), ("waiting", "pending")] {
        tool(&mut peer, "tool_call", call, "pending");
        tool(&mut peer, "tool_call_update", call, status);
    }
    scene.host.cancel(&session);
    peer.expect("session/cancel");
    peer.reply(&prompt, json!({"stopReason": "cancelled"}));
    scene.host.take("the answer", PATIENCE, |m| m["id"] == id && m.get("method").is_none());
    let before = scene.host.unread();
    let mut shown = failed(&before);
    shown.sort_unstable();
    assert_eq!(shown, ["open", "waiting"]);
    assert!(before.iter().all(|m| m["params"]["sessionId"] == json!(session)));
    // A turn that ends by itself leaves its calls as the peer showed them.
    let (id, prompt) = scene.turn(&session, &mut peer);
    tool(&mut peer, "tool_call", "background", "in_progress");
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
    assert!(failed(&scene.host.unread()).is_empty());
}

/// R250: a peer that ignores a cancel is ended after the grace; its session lives on with another process.
#[test]
fn a_peer_that_ignores_a_cancel_is_ended() {
    let mut scene = resuming(300);
    let (session, mut peer) = scene.session("work");
    let (id, _prompt) = scene.turn(&session, &mut peer);
    tool(&mut peer, "tool_call", "t", "in_progress");
    let pids = peer.spawn("spawn-setsid");
    let known = peer.session();
    let asked = Instant::now();
    scene.host.cancel(&session);
    peer.expect("session/cancel");
    assert_eq!(scene.host.stop_reason(&id), "cancelled");
    assert!((300..3_000).contains(&asked.elapsed().as_millis()), "{:?}", asked.elapsed());
    assert_eq!(failed(&scene.host.unread()), ["t"]);
    peer.wait_gone();
    wait_until("its children are gone", PATIENCE, || pids.iter().all(|pid| !alive(*pid)));
    let id = scene.host.prompt(&session, "again");
    let mut peer = scene.puppets.serving();
    assert_eq!(peer.expect("session/resume")["params"]["sessionId"], json!(known));
    let prompt = peer.expect("session/prompt");
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
}

/// R250: a prompt that came behind the cancel is not lost with the process.
#[test]
fn a_prompt_behind_an_ignored_cancel_runs() {
    let mut scene = resuming(300);
    let (session, mut peer) = scene.session("work");
    let (first, _prompt) = scene.turn(&session, &mut peer);
    scene.host.cancel(&session);
    let second = scene.host.prompt(&session, "again");
    assert_eq!(scene.host.stop_reason(&first), "cancelled");
    let mut heir = scene.puppets.serving();
    let prompt = heir.expect("session/prompt");
    assert!(prompt["params"]["prompt"][0]["text"] == "again");
    heir.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&second), "end_turn");
    peer.wait_gone();
}

/// HANG-04: a peer that is stopped cannot keep its turn, nor disturb another session.
#[test]
fn a_stopped_peer_cannot_keep_its_turn() {
    let mut scene = resuming(300);
    let (other, mut healthy) = scene.session("other");
    let (session, mut peer) = scene.session("work");
    let (id, _prompt) = scene.turn(&session, &mut peer);
    peer.update("first");
    assert_eq!(scene.host.expect_text(), "first");
    process::signal(peer.pid(), Signal::STOP);
    wait_until("it is stopped", PATIENCE, || process::stopped(peer.pid()));
    scene.host.cancel(&session);
    scene.plays(&other, &mut healthy);
    assert_eq!(scene.host.stop_reason(&id), "cancelled");
    peer.wait_gone();
    scene.plays(&other, &mut healthy);
    let id = scene.host.prompt(&session, "again");
    let mut peer = scene.puppets.serving();
    peer.expect("session/resume");
    let prompt = peer.expect("session/prompt");
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
}

/// R74, R250, PERM-01: a cancel answers open questions once, before the peer hears of the cancel.
#[test]
fn a_cancel_takes_open_questions_back() {
    let mut scene = Scene::with(json!({"elicitation": {"form": {}}}), |_| {});
    let (session, mut peer) = scene.session("work");
    let (id, prompt) = scene.turn(&session, &mut peer);
    let ask = peer.ask_permission("t", "ls");
    let permission = scene.host.expect("session/request_permission");
    let params = json!({"sessionId": peer.session(), "mode": "form", "message": "?", "requestedSchema": {}});
    let elicit = peer.request("elicitation/create", params);
    let elicitation = scene.host.expect("elicitation/create");
    scene.host.cancel(&session);
    let seen = [(); 3].map(|()| {
        peer.take("what follows the cancel", |m| m["method"] != "initialize" && m["method"] != "session/new")
    });
    assert_eq!((&seen[0]["id"], &seen[0]["result"]), (&ask, &json!({"outcome": {"outcome": "cancelled"}})));
    assert_eq!((&seen[1]["id"], &seen[1]["result"]), (&elicit, &json!({"action": "cancel"})));
    assert_eq!(seen[2]["method"], "session/cancel");
    for question in [&permission, &elicitation] {
        assert_eq!(scene.host.expect("$/cancel_request")["params"]["requestId"], question["id"]);
    }
    scene.host.choose(&permission, "yes");
    scene.host.reply(&elicitation, json!({"action": "accept", "content": {}}));
    peer.reply(&prompt, json!({"stopReason": "cancelled"}));
    assert_eq!(scene.host.stop_reason(&id), "cancelled");
    scene.plays(&session, &mut peer);
    assert!(hears_nothing(&mut peer), "late answers have no effect");
}

/// R140: a turn that ends takes its open question with it.
#[test]
fn a_turn_that_ends_takes_its_question_with_it() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let (id, prompt) = scene.turn(&session, &mut peer);
    let ask = peer.ask_permission("t", "ls");
    let asked = scene.host.expect("session/request_permission");
    peer.end_turn(&prompt);
    assert_eq!(peer.answer(&ask)["result"]["outcome"]["outcome"], "cancelled");
    assert_eq!(scene.host.expect("$/cancel_request")["params"]["requestId"], asked["id"]);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
    scene.host.choose(&asked, "yes");
    scene.plays(&session, &mut peer);
    assert!(hears_nothing(&mut peer));
}

/// R250: a peer that takes its own question back reaches the host under the host's id.
#[test]
fn a_peer_can_take_its_question_back() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let (id, prompt) = scene.turn(&session, &mut peer);
    let ask = peer.ask_permission("t", "ls");
    let asked = scene.host.expect("session/request_permission");
    peer.notify("$/cancel_request", json!({"requestId": ask}));
    assert_eq!(scene.host.expect("$/cancel_request")["params"]["requestId"], asked["id"]);
    scene.host.refuse(&asked, -32800, "taken back");
    assert_eq!(peer.answer(&ask)["error"]["code"], -32800);
    peer.notify("$/cancel_request", json!({"requestId": ask}));
    peer.notify("$/cancel_request", json!({"requestId": "never asked"}));
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
    assert!(scene.host.unread().is_empty());
}

/// R76, R99, FWD-02: the peer's stop reason arrives as it is, unknown ones included, with everything beside it.
#[test]
fn stop_reasons_arrive_unchanged() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    for reason in ["end_turn", "refusal", "max_tokens", "max_turn_requests", "cancelled", "paused_for_review"]
    {
        let (id, prompt) = scene.turn(&session, &mut peer);
        peer.update("what there is of it");
        let result = json!({"stopReason": reason, "usage": {"x": 1}, "_meta": {"n": null}});
        peer.reply(&prompt, result.clone());
        assert_eq!(scene.host.expect_text(), "what there is of it");
        assert_eq!(scene.host.result(&id), result);
    }
    scene.plays(&session, &mut peer);
}

/// R76, R101: an answer without a stop reason is no end that anybody could take for a good one.
#[test]
fn an_answer_without_a_stop_reason_is_an_error() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    for answer in [json!({}), Value::Null, json!({"stopReason": null}), json!({"stopReason": 5}), json!("x")]
    {
        let (id, prompt) = scene.turn(&session, &mut peer);
        peer.update("{\"report\": \"complete\"}");
        peer.reply(&prompt, answer.clone());
        let error = scene.host.error(&id);
        assert_eq!(error["code"], -32603, "{answer}");
        assert!(error["message"].as_str().unwrap().contains("stop reason"), "{error}");
        assert_eq!(scene.host.expect_text(), "{\"report\": \"complete\"}");
    }
    scene.plays(&session, &mut peer);
}

/// R100, R75: the peer's own error is the turn's answer, data and all; the process goes on.
#[test]
fn a_peers_error_is_the_turns_answer() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let (id, prompt) = scene.turn(&session, &mut peer);
    tool(&mut peer, "tool_call", "t", "in_progress");
    let error =
        json!({"code": -32603, "message": "Internal error", "data": {"info": "unauthorized", "n": 1.5}});
    peer.send(&json!({"jsonrpc": "2.0", "id": prompt["id"], "error": error}));
    assert_eq!(scene.host.error(&id), error);
    assert_eq!(failed(&scene.host.unread()), ["t"]);
    scene.plays(&session, &mut peer);
}

/// R251, R241, R217: a peer that dies in its turn is an error that says how, behind everything it said.
#[test]
fn a_peer_that_dies_in_its_turn_is_an_error() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let (id, _prompt) = scene.turn(&session, &mut peer);
    let other = scene.host.request("session/from_the_future", json!({"sessionId": session}));
    peer.expect("session/from_the_future");
    tool(&mut peer, "tool_call", "t", "in_progress");
    let _ask = peer.ask_permission("t", "ls");
    let asked = scene.host.expect("session/request_permission");
    peer.obey("stderr out of luck");
    peer.update("last words");
    peer.command("exit 3");
    let error = scene.host.error(&id);
    assert_eq!(error["code"], -32603);
    assert_eq!(error["data"]["failureType"], "runtime");
    assert_eq!(error["data"]["failure"], json!({"code": "runtime", "retryable": true}));
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("`p`") && message.contains("status 3"), "{message}");
    assert!(message.contains("out of luck"), "{message}");
    scene.host.error(&other);
    assert_eq!(scene.host.expect("$/cancel_request")["params"]["requestId"], asked["id"]);
    notice(&mut scene.host, "peer");
    let before = scene.host.unread();
    assert_eq!(failed(&before), ["t"]);
    assert!(before.iter().any(|m| line::text(m) == Some("last words")));
    scene.host.choose(&asked, "yes");
    assert_eq!(scene.puppets.untaken(), 1, "only the warm one: nobody asked for another");
}

/// R251: the same by a signal; nothing is started before somebody asks.
#[test]
fn a_peer_that_is_killed_in_its_turn_is_an_error() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let (id, _prompt) = scene.turn(&session, &mut peer);
    process::signal(peer.pid(), Signal::KILL);
    let message = scene.host.error(&id)["message"].as_str().unwrap().to_owned();
    assert!(message.contains("signal 9"), "{message}");
    let id = scene.host.request("session/from_the_future", json!({"sessionId": session}));
    let message = scene.host.error(&id)["message"].as_str().unwrap().to_owned();
    assert!(message.contains("not running"), "{message}");
}

/// R227, R31: the next prompt starts a process, which resumes where the peer can.
#[test]
fn a_prompt_after_the_peers_death_resumes_the_session() {
    let mut scene = resuming(300);
    let (session, mut peer) = scene.session("work");
    scene.plays(&session, &mut peer);
    let known = peer.session();
    is_gone(&mut scene.host, &mut peer, Signal::KILL);
    let id = scene.host.prompt(&session, "again");
    let mut peer = scene.puppets.serving();
    let resume = peer.expect("session/resume");
    let cwd = scene.sandbox.cwd("work");
    assert_eq!(resume["params"], json!({"cwd": cwd, "mcpServers": [], "sessionId": known}));
    assert_eq!(peer.hello.cwd, cwd);
    let prompt = peer.expect("session/prompt");
    assert_eq!(prompt["params"]["sessionId"], json!(known));
    peer.update("back");
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
    let seen = scene.host.unread();
    assert_eq!(seen.len(), 1, "{seen:#?}");
    assert_eq!((&seen[0]["params"]["sessionId"], line::text(&seen[0])), (&json!(session), Some("back")));
}

/// R31: where the peer can only load, its replay is swallowed, and the prompt comes after it.
#[test]
fn a_prompt_after_the_peers_death_loads_the_session() {
    let mut scene = Scene::silent(|_| {});
    let able = json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true}, "authMethods": []});
    let (_, mut peer) = scene.initialise(&able);
    let id = scene.host.request_session(&scene.sandbox.cwd("home"));
    peer.take_session();
    let session = scene.host.result(&id)["sessionId"].as_str().unwrap().to_owned();
    let known = peer.session();
    is_gone(&mut scene.host, &mut peer, Signal::KILL);
    let id = scene.host.prompt(&session, "again");
    let mut peer = scene.puppets.next();
    let initialize = peer.expect("initialize");
    peer.reply(&initialize, able);
    let load = peer.expect("session/load");
    assert_eq!(load["params"]["sessionId"], json!(known));
    peer.update_as(&known, "history");
    assert!(peer.unread().is_empty(), "the prompt waits for the history");
    peer.reply(&load, Value::Null);
    let prompt = peer.expect("session/prompt");
    peer.update_as(&known, "news");
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
    assert_eq!(scene.host.unread_text(), "news");
}

/// R31, R227: where the peer can do neither, or does not know it any more, it starts blank and the host is told.
#[test]
fn a_lost_context_is_told() {
    for able in [json!({}), json!({"sessionCapabilities": {"resume": {}}, "loadSession": true})] {
        let mut scene = Scene::silent(|_| {});
        let answer = json!({"protocolVersion": 1, "agentCapabilities": able, "authMethods": []});
        let (_, mut peer) = scene.initialise(&answer);
        let id = scene.host.request_session(&scene.sandbox.cwd("home"));
        peer.take_session();
        let session = scene.host.result(&id)["sessionId"].as_str().unwrap().to_owned();
        is_gone(&mut scene.host, &mut peer, Signal::KILL);
        let id = scene.host.prompt(&session, "again");
        let mut peer = scene.puppets.next();
        let initialize = peer.expect("initialize");
        peer.reply(&initialize, answer);
        if able != json!({}) {
            for method in ["session/resume", "session/load"] {
                let asked = peer.expect(method);
                peer.error(&asked, -32002, "never heard of it");
            }
        }
        let new = peer.take_session();
        assert!(new["params"].get("sessionId").is_none(), "{new}");
        let prompt = peer.expect("session/prompt");
        assert_eq!(prompt["params"]["sessionId"], json!(peer.session()));
        assert_eq!(notice(&mut scene.host, "context"), "transcript");
        peer.update("blank");
        peer.end_turn(&prompt);
        assert_eq!(scene.host.stop_reason(&id), "end_turn");
        assert_eq!(scene.host.unread_text(), "blank");
    }
}

/// R227, R72: a prompt that waited behind one whose peer died starts the next process by itself.
#[test]
fn a_prompt_that_waited_survives_the_peers_death() {
    let mut scene = resuming(300);
    let (session, mut peer) = scene.session("work");
    let (first, _prompt) = scene.turn(&session, &mut peer);
    let second = scene.host.prompt(&session, "two");
    notice(&mut scene.host, "queue");
    process::signal(peer.pid(), Signal::KILL);
    scene.host.error(&first);
    let mut heir = scene.puppets.serving();
    let prompt = heir.expect("session/prompt");
    assert_eq!(prompt["params"]["prompt"][0]["text"], "two");
    heir.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&second), "end_turn");
}

/// R227: a restart that fails is the prompt's error; those that waited are answered too, and a later one works.
#[test]
fn a_restart_that_fails_is_the_prompts_error() {
    let mut scene = Scene::silent(|_| {});
    let answer = json!({"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []});
    let (_, mut peer) = scene.initialise(&answer);
    let id = scene.host.request_session(&scene.sandbox.cwd("home"));
    peer.take_session();
    let session = scene.host.result(&id)["sessionId"].as_str().unwrap().to_owned();
    is_gone(&mut scene.host, &mut peer, Signal::KILL);
    let ids = ["one", "two"].map(|text| scene.host.prompt(&session, text));
    let mut unlucky = scene.puppets.next();
    let initialize = unlucky.expect("initialize");
    let mode = scene.host.request("session/set_mode", json!({"sessionId": session, "modeId": "x"}));
    unlucky.reply(&initialize, answer.clone());
    let new = unlucky.expect("session/new");
    unlucky.error(&new, -32050, "not now");
    for id in [&ids[0], &mode] {
        assert_eq!(scene.host.error(id), json!({"code": -32050, "message": "not now"}));
    }
    let mut heir = scene.puppets.next();
    unlucky.wait_gone();
    heir.handshake(json!({}));
    let prompt = heir.expect("session/prompt");
    assert_eq!(prompt["params"]["prompt"][0]["text"], "two");
    heir.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&ids[1]), "end_turn");
    scene.plays(&session, &mut heir);
}

/// R227: a cancel reaches a prompt that still waits for its process.
#[test]
fn a_prompt_that_waits_for_its_process_can_be_cancelled() {
    let mut scene = Scene::silent(|_| {});
    let answer = json!({"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []});
    let (_, mut peer) = scene.initialise(&answer);
    let id = scene.host.request_session(&scene.sandbox.cwd("home"));
    peer.take_session();
    let session = scene.host.result(&id)["sessionId"].as_str().unwrap().to_owned();
    is_gone(&mut scene.host, &mut peer, Signal::KILL);
    let ids = ["one", "two"].map(|text| scene.host.prompt(&session, text));
    let mut peer = scene.puppets.next();
    scene.host.cancel(&session);
    for id in &ids {
        assert_eq!(scene.host.stop_reason(id), "cancelled");
    }
    let id = scene.host.prompt(&session, "taken back");
    scene.host.notify("$/cancel_request", json!({"requestId": id}));
    assert_eq!(scene.host.error(&id)["code"], -32800);
    let third = scene.host.prompt(&session, "three");
    peer.handshake(json!({}));
    let prompt = peer.expect("session/prompt");
    assert_eq!(prompt["params"]["prompt"][0]["text"], "three");
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&third), "end_turn");
}

/// R227: a process that dies again and again is held back, and the error says for how long.
#[test]
fn a_program_that_keeps_dying_is_held_back() {
    let mut scene = resuming(300);
    let (session, mut peer) = scene.session("work");
    for round in 0..3 {
        is_gone(&mut scene.host, &mut peer, Signal::KILL);
        if round < 2 {
            let id = scene.host.prompt(&session, "again");
            peer = scene.puppets.serving();
            let prompt = peer.expect("session/prompt");
            peer.end_turn(&prompt);
            scene.host.stop_reason(&id);
        }
    }
    let id = scene.host.prompt(&session, "once more");
    let new = scene.host.request_session(&scene.sandbox.cwd("work"));
    for id in [&id, &new] {
        let error = scene.host.error(id);
        let rest = error["data"]["retryAfterMs"].as_u64().unwrap();
        assert!((1..=60_000).contains(&rest), "{error}");
        assert_eq!(error["data"]["failure"]["retryable"], true);
        assert!(error["message"].as_str().unwrap().contains("held back for "), "{error}");
    }
    let (other, mut healthy) = scene.session("elsewhere");
    scene.plays(&other, &mut healthy);
    // The session itself is not lost: its holder still has it.
    let cwd = scene.sandbox.cwd("work");
    let id =
        scene.host.request("session/resume", json!({"sessionId": session, "cwd": cwd, "mcpServers": []}));
    scene.host.result(&id);
    let id = scene.host.prompt(&session, "still");
    assert!(scene.host.error(&id)["data"]["retryAfterMs"].is_u64());
}

/// ORD-01, ORD-06, ORD-07: what a peer says between turns passes, in order, and makes nothing busy.
#[test]
fn what_comes_between_turns_passes() {
    let mut scene = Scene::open();
    let initialize = json!({"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []});
    let modes = json!([{"id": "ask", "name": "Ask"}, {"id": "plan", "name": "Plan"}]);
    let session = json!({"modes": {"currentModeId": "ask", "availableModes": modes}});
    scene.puppets = scene.puppets.answer_with(initialize, session);
    let (session, mut peer) = scene.session("work");
    let ours = peer.session();
    let updates = [
        json!({"sessionUpdate": "available_commands_update", "availableCommands": [{"name": "x"}]}),
        json!({"sessionUpdate": "current_mode_update", "currentModeId": "plan"}),
        json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "woke up"}}),
        json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "t", "status": "in_progress"}),
    ];
    for update in &updates {
        peer.notify("session/update", json!({"sessionId": ours, "update": update}));
        assert_eq!(scene.host.next()["params"], json!({"sessionId": session, "update": update}));
    }
    let (id, prompt) = scene.turn(&session, &mut peer);
    peer.end_turn(&prompt);
    let late = json!({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed"});
    peer.notify("session/update", json!({"sessionId": ours, "update": late}));
    assert_eq!(scene.host.next()["id"], id);
    assert_eq!(scene.host.next()["params"]["update"], late);
    scene.plays(&session, &mut peer);
}

/// ORD-07: a question between turns is a question like any other.
#[test]
fn a_question_between_turns_is_asked() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let ask = peer.ask_permission("t", "ls");
    let asked = scene.host.expect("session/request_permission");
    scene.host.choose(&asked, "yes");
    assert_eq!(peer.answer(&ask)["result"]["outcome"]["optionId"], "yes");
    scene.plays(&session, &mut peer);
}

/// ID-03: answers that come late or in another order find their own requests.
#[test]
fn answers_out_of_order_find_their_requests() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let ids = ["a", "b", "c"]
        .map(|mode| scene.host.request("_test/mode", json!({"sessionId": session, "modeId": mode})));
    let asked = [(); 3].map(|()| peer.expect("_test/mode"));
    for at in [2, 0, 1] {
        let mode = &asked[at]["params"]["modeId"];
        peer.reply(&asked[at], json!({"was": mode}));
    }
    for (id, mode) in ids.iter().zip(["a", "b", "c"]) {
        assert_eq!(scene.host.result(id), json!({"was": mode}));
    }
    peer.reply(&asked[0], json!({"was": "too late"}));
    scene.sandbox.wait_peer_count(&session, "unmatched_responses", 1);
    scene.plays(&session, &mut peer);
    assert!(scene.host.unread().is_empty());
}

/// R280, R209: when the daemon stops, a running turn is cancelled and answered once, as are those behind it.
#[test]
fn a_stop_of_the_daemon_answers_every_prompt() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let (first, _prompt) = scene.turn(&session, &mut peer);
    let second = scene.host.prompt(&session, "two");
    notice(&mut scene.host, "queue");
    tool(&mut peer, "tool_call", "t", "in_progress");
    scene.host.expect_update();
    scene.sandbox.signal(Signal::TERM);
    peer.expect("session/cancel");
    for id in [&first, &second] {
        assert_eq!(scene.host.stop_reason(id), "cancelled");
    }
    assert_eq!(failed(&scene.host.unread()), ["t"]);
    assert_eq!(scene.sandbox.wait_exit(Duration::from_millis(5_500)).code(), Some(0));
    scene.host.expect_end(PATIENCE);
}

/// R280, R252: when the daemon dies, the bridge answers what is open, once.
#[test]
fn a_death_of_the_daemon_answers_every_prompt() {
    let mut scene = Scene::open();
    let mut editor = Host::bridge(&scene.sandbox, "p");
    editor.initialize(json!({}));
    let session = editor.new_session(&scene.sandbox.cwd("work"));
    let mut peer = scene.puppets.serving();
    let id = editor.prompt(&session, "go");
    peer.expect("session/prompt");
    peer.update("half");
    assert_eq!(editor.expect_text(), "half");
    scene.sandbox.kill();
    let error = editor.error(&id);
    assert!(error["message"].is_string() && error["code"].is_i64(), "{error}");
    peer.wait_gone();
}

/// R280, R112: when its host is lost, a turn is cancelled towards the peer, and nothing runs on unseen.
#[test]
fn a_lost_host_cancels_its_turn() {
    let mut scene = Scene::with(json!({"fs": {"readTextFile": true}}), quick);
    let (session, mut peer) = scene.session("work");
    let (_, prompt) = scene.turn(&session, &mut peer);
    let _waiting = scene.host.prompt(&session, "two");
    let ask = peer.ask_permission("t", "ls");
    scene.host.expect("session/request_permission");
    let read = peer.request("fs/read_text_file", json!({"sessionId": peer.session(), "path": "/a"}));
    scene.host.expect("fs/read_text_file");
    scene.host.close_write();
    assert_eq!(peer.answer(&ask)["result"]["outcome"]["outcome"], "cancelled");
    assert!(peer.answer(&read).get("error").is_some());
    peer.expect("session/cancel");
    let late = peer.ask_permission("u", "ls");
    assert_eq!(peer.answer(&late)["result"]["outcome"]["outcome"], "cancelled");
    peer.reply(&prompt, json!({"stopReason": "cancelled"}));
    peer.wait_gone();
    assert!(peer.unread().iter().all(|m| m["method"] != "session/prompt"), "what waited never runs");
}
