//! Lines: what is one, what is none, and what becomes of the rest (group A of the requirements).

use serde_json::{Value, json};

use crate::{host::Host, line, peer::Peer, sandbox::Sandbox, scene::Scene};

const MIB: usize = 1 << 20;
/// Memory that may come and go for reasons other than the line under test.
const SLACK: usize = 12 * MIB;

/// A daemon that takes lines up to one mebibyte.
fn short_lines() -> Scene {
    Scene::with(json!({}), |sandbox| sandbox.set("limits", "line_bytes_max = 1048576"))
}

fn chunk_line(peer: &Peer, text: &str) -> String {
    format!("{}\n", line::chunk(&peer.session(), text))
}

/// R1: text of every kind passes, at the highest log level, and both ends read strictly all the while.
#[test]
fn every_line_is_one_message_whatever_the_text() {
    let mut scene = Scene::with(json!({}), |sandbox| sandbox.set("", r#"log_level = "trace""#));
    let (session, mut peer) = scene.session("work");
    for round in 0..200 {
        let text = format!("{round}\nline\r\n\ttab \u{2028}\u{2029}\u{0}\u{7f} end");
        let id = scene.host.prompt(&session, &text);
        let prompt = peer.expect("session/prompt");
        assert_eq!(prompt["params"]["prompt"][0]["text"], json!(text));
        peer.update(&text);
        peer.end_turn(&prompt);
        assert_eq!(scene.host.stop_reason(&id), "end_turn");
        assert_eq!(scene.host.expect_text(), text);
    }
}

/// R2: each shape is taken for what it is, and none of them hurts the session.
#[test]
fn the_shape_of_a_line_decides_what_it_is() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let unrecognised = [
        "[]",
        "3",
        "null",
        r#""text""#,
        "{}",
        r#"{"id":1}"#,
        r#"{"jsonrpc":"2.0","id":"abc","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":-1,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1.5,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#,
        r#"{"jsonrpc":"2.0","id":999,"method":5}"#,
    ];
    let unmatched = [
        r#"{"jsonrpc":"2.0","id":999,"result":null}"#,
        r#"{"jsonrpc":"2.0","id":998,"error":{"code":1,"message":"x"}}"#,
        r#"{"id":997,"result":1}"#,
        r#"{"jsonrpc":"2.0","id":996,"result":1,"error":{"code":1,"message":"x"}}"#,
    ];
    for line in unrecognised.iter().chain(&unmatched) {
        peer.raw(format!("{line}\n").as_bytes());
    }
    scene.sandbox.wait_peer_count(&session, "unrecognised", unrecognised.len() as u64);
    scene.sandbox.wait_peer_count(&session, "unmatched_responses", unmatched.len() as u64);
    peer.raw(b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"foo/bar\"}\n");
    assert_eq!(peer.answer(&json!(7))["error"]["code"], -32601);
    scene.plays(&session, &mut peer);
}

/// R2: a result that is null is a result.
#[test]
fn a_null_result_is_an_answer() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let id = scene.host.request("session/from_the_future", json!({"sessionId": session}));
    let asked = peer.expect("session/from_the_future");
    peer.reply(&asked, Value::Null);
    assert_eq!(scene.host.answer(&id).get("result"), Some(&Value::Null));
}

/// R6: junk between two good lines is kept, counted and hurts nobody.
#[test]
fn junk_between_good_lines_is_no_crash() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let (id, prompt) = scene.turn(&session, &mut peer);
    peer.update("before");
    peer.raw(b"garbage\n{\"jsonrpc\":\"2.0\",\"method\":\"session/upda\n[1]\n");
    peer.update("after");
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
    assert_eq!(scene.host.unread_text(), "beforeafter");
    scene.sandbox.wait_peer_count(&session, "unparsed", 2);
    scene.sandbox.wait_peer_count(&session, "unrecognised", 1);
    assert_eq!(scene.sandbox.peer_count(&session, "unmatched_responses"), 0);
}

/// R6: with `strict_wire` the same junk fails the session, with a reason and without a result.
#[test]
fn junk_fails_a_session_that_wants_a_strict_wire() {
    let lines: [&[u8]; 5] = [
        b"garbage\n",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"foo/bar\",\"method\":\"foo/bar\"}\n",
        b"{\"jsonrpc\":\"1.0\",\"method\":\"foo/bar\"}\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":1,\"error\":{\"code\":1,\"message\":\"x\"}}\n",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"foo/\xe9\"}\n",
    ];
    let mut scene = Scene::with(json!({}), |sandbox| sandbox.set("agent.p", "strict_wire = true"));
    // A directory each: a program that keeps failing in one is held back there (R227).
    for (n, line) in lines.into_iter().enumerate() {
        let (session, mut peer) = scene.session(&format!("work{n}"));
        let (id, prompt) = scene.turn(&session, &mut peer);
        peer.raw(line);
        // what follows counts for nothing, read with the junk or later
        let answer = json!({"jsonrpc": "2.0", "id": prompt["id"], "result": {"stopReason": "end_turn"}});
        let _ = peer.last_words(format!("{answer}\n").as_bytes());
        let error = scene.host.error(&id);
        assert_eq!(error["code"], -32603, "{}", line::shown(line));
        assert!(!error["message"].as_str().unwrap_or_default().is_empty());
        peer.wait_gone();
    }
}

/// R7: blank lines are nothing at all.
#[test]
fn blank_lines_are_ignored() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let (id, prompt) = scene.turn(&session, &mut peer);
    for blank in ["\n", "   \n", "\t\r\n", "\r\n", " \t \n"].iter().cycle().take(50) {
        peer.raw(blank.as_bytes());
    }
    peer.update("text");
    peer.raw(b"\n");
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
    assert_eq!(scene.host.unread_text(), "text");
    for fact in ["unparsed", "unrecognised", "unmatched_responses"] {
        assert_eq!(scene.sandbox.peer_count(&session, fact), 0, "{fact}");
    }
}

/// R8: half a message at the end is told as what it is, and what came before it stays.
#[test]
fn half_a_line_at_the_end_loses_nothing_before_it() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let (id, _) = scene.turn(&session, &mut peer);
    peer.update("whole");
    peer.raw(b"{\"jsonrpc\":\"2.0\",\"method\":\"session/upd");
    peer.command("exit 3");
    let error = scene.host.error(&id);
    assert!(error["message"].as_str().is_some_and(|text| text.contains('3')), "no exit status in {error}");
    assert_eq!(scene.host.unread_text(), "whole");
}

/// R8, FRAME-02: a last message without its line feed counts.
#[test]
fn a_final_message_without_a_line_feed_is_delivered() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let (id, prompt) = scene.turn(&session, &mut peer);
    let answer = json!({"jsonrpc": "2.0", "id": prompt["id"], "result": {"stopReason": "end_turn"}});
    peer.raw(answer.to_string().as_bytes());
    peer.command("exit 0");
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
}

/// R9: a line of any length costs no more than the longest one allowed, and the next one is read as if
/// nothing were.
#[test]
fn an_endless_line_of_a_peer_is_bounded_in_memory() {
    let mut scene = short_lines();
    let (session, mut peer) = scene.session("work");
    scene.plays(&session, &mut peer);
    let before = scene.sandbox.rss();
    let (id, prompt) = scene.turn(&session, &mut peer);
    peer.raw(chunk_line(&peer, &"x".repeat(64 * MIB)).as_bytes());
    peer.update("the next line");
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
    assert_eq!(scene.host.unread_text(), "the next line");
    let grown = scene.sandbox.peak_rss().saturating_sub(before);
    assert!(grown < 2 * MIB + SLACK, "grew by {grown} bytes");
}

/// R9: no turn hangs on an answer that was too long to read.
#[test]
fn an_answer_that_is_too_long_fails_its_request() {
    let mut scene = short_lines();
    let (session, mut peer) = scene.session("work");
    let (id, prompt) = scene.turn(&session, &mut peer);
    peer.reply(&prompt, json!({"stopReason": "end_turn", "_meta": {"pad": "x".repeat(2 * MIB)}}));
    assert_eq!(scene.host.error(&id)["code"], -32603);
    scene.plays(&session, &mut peer);
}

/// R9: a request that is too long is answered, on both sides, and the connection lives on.
#[test]
fn a_request_that_is_too_long_is_refused_by_name() {
    let mut scene = short_lines();
    let (session, mut peer) = scene.session("work");
    let id = peer.ask_permission("t1", &"x".repeat(2 * MIB));
    assert_eq!(peer.answer(&id)["error"]["code"], -32600);
    let id = scene.host.prompt(&session, &"x".repeat(2 * MIB));
    assert_eq!(scene.host.error(&id)["code"], -32600);
    scene.plays(&session, &mut peer);
}

/// R9: the end may come in the middle of a line that is too long.
#[test]
fn an_endless_line_may_end_with_its_peer() {
    let mut scene = short_lines();
    let (session, mut peer) = scene.session("work");
    let (id, _) = scene.turn(&session, &mut peer);
    peer.raw(&vec![b'x'; 4 * MIB]);
    peer.command("exit 0");
    assert_eq!(scene.host.error(&id)["code"], -32603);
    let (session, mut peer) = scene.session("work");
    scene.plays(&session, &mut peer);
}

/// R9: a carriage return and a byte order mark are no part of a message.
#[test]
fn carriage_returns_and_byte_order_marks_are_stripped() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let (id, prompt) = scene.turn(&session, &mut peer);
    peer.raw(chunk_line(&peer, "with CR ").replace('\n', "\r\n").as_bytes());
    peer.raw(format!("\u{feff}{}", chunk_line(&peer, "with BOM")).as_bytes());
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
    assert_eq!(scene.host.unread_text(), "with CR with BOM");
    let note =
        json!({"jsonrpc": "2.0", "method": "session/from_the_future", "params": {"sessionId": session}});
    scene.host.send_raw(format!("\u{feff}{note}\r\n").as_bytes());
    peer.expect("session/from_the_future");
}

/// FRAME-01: what an agent prints before its first message is no message, and no reason to answer it.
#[test]
fn log_lines_before_the_handshake_are_not_answered() {
    let mut sandbox = Sandbox::new();
    let mut puppets = sandbox.puppet_agent("p");
    sandbox.start();
    let mut host = Host::direct(&sandbox);
    let id = host.request_initialize(json!({}));
    let mut peer = puppets.next();
    let initialize = peer.expect("initialize");
    peer.raw(b"Running migration 1/3...\n\x1b[2K\x1b[1G\n\n");
    peer.reply(&initialize, json!({"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []}));
    assert_eq!(host.result(&id)["protocolVersion"], 1);
    assert_eq!(peer.unread(), Vec::<Value>::new());
    assert_eq!(host.unread(), Vec::<Value>::new());
}

/// FRAME-05, R12: a line separator inside a string ends no line, and no reader behind us can think so.
#[test]
fn a_line_separator_in_a_text_ends_no_line() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let (id, prompt) = scene.turn(&session, &mut peer);
    peer.raw(chunk_line(&peer, "a\u{2028}b\u{2029}c").as_bytes());
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
    assert_eq!(scene.host.expect_text(), "a\u{2028}b\u{2029}c");
    assert!(scene.host.unread().is_empty());
}

/// FRAME-06: a character in pieces is put together again.
#[test]
fn a_character_split_over_reads_stays_whole() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let (id, prompt) = scene.turn(&session, &mut peer);
    for byte in chunk_line(&peer, "漢字😀").as_bytes() {
        peer.raw(&[*byte]);
        // Waits until the byte is out: each is a write of its own.
        peer.obey("stderr .");
    }
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
    assert_eq!(scene.host.unread_text(), "漢字😀");
}

/// FRAME-07, R9: bytes that are no UTF-8 cost at most their own line.
#[test]
fn bytes_that_are_no_text_are_not_fatal() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let (id, prompt) = scene.turn(&session, &mut peer);
    let latin = chunk_line(&peer, "caf?").into_bytes();
    peer.raw(&latin.into_iter().map(|b| if b == b'?' { 0xe9 } else { b }).collect::<Vec<u8>>());
    peer.update("good");
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
    let text = scene.host.unread_text();
    assert!(["good", "caf\u{fffd}good"].contains(&text.as_str()), "{text:?}");
}

/// SIZE-02, R9: a host that never ends its line costs little, and nobody else notices.
#[test]
fn an_endless_line_of_a_host_is_bounded_in_memory() {
    let mut scene = short_lines();
    let (session, mut peer) = scene.session("work");
    scene.plays(&session, &mut peer);
    let before = scene.sandbox.rss();
    let mut endless = Host::direct(&scene.sandbox);
    endless.initialize(json!({}));
    endless.await_answer(&json!("long"));
    endless.send_raw(br#"{"jsonrpc":"2.0","id":"long","method":"session/list","params":{"cwd":""#);
    for _ in 0..64 {
        endless.send_raw(&vec![b'x'; MIB]);
        scene.plays(&session, &mut peer);
    }
    let grown = scene.sandbox.peak_rss().saturating_sub(before);
    assert!(grown < 2 * MIB + SLACK, "grew by {grown} bytes");
    endless.send_raw(b"\"}}\n");
    assert_eq!(endless.error(&json!("long"))["code"], -32600);
}
