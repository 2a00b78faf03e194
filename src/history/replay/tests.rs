//! What a host sees of a history.

use serde_json::{Value, json};

use super::*;
use crate::{
    history::sample::{Sample, call, call_update, chunk, notification, params, session, text},
    limits::{REPLAY_CALLS_BYTES_MAX, TOOL_CALLS_MAX},
};

fn user(text: &str) -> Value {
    chunk("user_message_chunk", text)
}

fn agent(text: &str) -> Value {
    chunk("agent_message_chunk", text)
}

/// The texts of all chunks, with who says them.
fn said(updates: &[Value]) -> Vec<(&str, &str)> {
    updates
        .iter()
        .filter_map(|u| Some((u["sessionUpdate"].as_str()?, u["content"]["text"].as_str()?)))
        .collect()
}

/// R37: the visible history comes in order: what the user wrote, what the agent said and thought, its tool calls, and
/// last what counts only in the end; commands, notices, marks and strays do not come.
#[test]
fn the_visible_history_is_replayed_in_order() {
    let plan = |content: &str| json!({ "sessionUpdate": "plan", "entries": [{ "content": content }] });
    let commands = json!({ "sessionUpdate": "available_commands_update", "availableCommands": [] });
    let notice = json!({ "sessionUpdate": "notice", "severity": "info", "title": "t" });
    let usage = |used: u64| json!({ "sessionUpdate": "usage_update", "used": used, "size": 9 });
    let unknown = json!({ "sessionUpdate": "of_tomorrow", "x": [1] });
    let sample = Sample::new()
        .update(&commands)
        .prompt("do it")
        .update(&chunk("agent_thought_chunk", "hm"))
        .says("I ")
        .update(&usage(1))
        .says("will")
        .update(&plan("first"))
        .update(&call("c", "ls"))
        .update(&call_update("c", &json!({ "status": "in_progress", "content": [text("a")] })))
        .update(&notice)
        .update(&unknown)
        .update(&call_update("c", &json!({ "status": "completed", "content": [text("ab")] })))
        .update(&json!({ "sessionUpdate": "current_mode_update", "currentModeId": "code" }))
        .says("done")
        .update(&plan("last"))
        .update(&usage(2))
        .update(&json!({ "sessionUpdate": "session_info_update", "title": "T", "updatedAt": "1" }))
        .update(&json!({ "sessionUpdate": "session_info_update", "updatedAt": "2" }))
        .update(&json!({ "sessionUpdate": "config_option_update", "configOptions": [] }))
        .row(store::Kind::Stray, &[notification("p", &agent("stray")).to_string(), "no json".to_owned()])
        .ends("end_turn");
    let want = [
        user("do it"),
        chunk("agent_thought_chunk", "hm"),
        agent("I will"),
        call("c", "ls"),
        unknown,
        call_update("c", &json!({ "status": "completed", "content": [text("ab")] })),
        agent("done"),
        plan("last"),
        json!({ "sessionUpdate": "current_mode_update", "currentModeId": "code" }),
        json!({ "sessionUpdate": "config_option_update", "configOptions": [] }),
        json!({ "sessionUpdate": "session_info_update", "title": "T", "updatedAt": "2" }),
        usage(2),
    ];
    assert_eq!(sample.replayed(), want);
    assert_eq!(sample.replayed(), sample.replayed());
    assert!(sample.frames().iter().all(|frame| params(frame)["sessionId"] == "s"));
}

/// R37: of what the user sent every block is shown as it was written; context that the daemon put before it is not.
#[test]
fn every_block_of_the_user_is_shown_and_no_context() {
    let image = json!({ "mimeType": "image/png", "data": "AAAA", "type": "image", "_meta": { "n": 1 } });
    let link = json!({ "type": "resource_link", "uri": "file:///x", "name": "x" });
    let blocks = json!([{ "type": "text", "text": "context" }, { "type": "text", "text": "a" }, image, link]);
    let show = |block: &Value| json!({ "sessionUpdate": "user_message_chunk", "content": block });
    let updates = Sample::new().prompt_blocks("host", 1, &blocks).ends("end_turn").replayed();
    assert_eq!(updates, [user("a"), show(&image), show(&link)]);
}

/// R37, R38, R92: a turn of the inbox shows only the inputs that are the user's, under their ids.
#[test]
fn hidden_inputs_never_appear() {
    let blocks = json!([{ "type": "text", "text": "hidden" }, { "type": "text", "text": "from me: shown" }]);
    let sample = Sample::new()
        .prompt_blocks("inbox", 0, &blocks)
        .mark(&Mark::Input { id: "e1".into(), text: "shown \"so\"".into() })
        .update(&user("hidden"))
        .update(&user("hidden from me: shown"))
        .says("ok")
        .ends("end_turn");
    let mut input = user("shown \"so\"");
    input["messageId"] = json!("e1");
    assert_eq!(sample.replayed(), [input, agent("ok")]);
}

/// R37: agents that say the user's words again do not make them appear twice; what they add in the user's name does.
#[test]
fn what_the_agent_echoes_is_shown_once() {
    let echo = json!({ "sessionUpdate": "user_message_chunk", "messageId": "m",
        "content": { "text": "hällo", "type": "text" } });
    let image = json!({ "type": "image", "data": "AA", "mimeType": "image/png" });
    let again = json!({ "mimeType": "image/png", "data": "AA", "type": "image", "uri": null });
    let sample = Sample::new()
        .prompt_blocks("host", 0, &json!([{ "type": "text", "text": "hällo" }, image]))
        .update(&echo)
        .update(&json!({ "sessionUpdate": "user_message_chunk", "content": again }))
        .update(&echo)
        .update(&user("interrupted by user"))
        .ends("end_turn");
    let updates = sample.replayed();
    assert_eq!(
        said(&updates),
        [
            ("user_message_chunk", "hällo"),
            ("user_message_chunk", "hällo"),
            ("user_message_chunk", "interrupted by user")
        ]
    );
    assert_eq!(updates.len(), 4);
}

/// R37, R94: a message id that changes, another kind, an image, and members beyond the plain ones end a joined chunk.
#[test]
fn messages_are_joined_and_never_mixed() {
    let with_id = |id: &str, text: &str| {
        let mut chunk = agent(text);
        chunk["messageId"] = json!(id);
        chunk
    };
    let mut annotated = agent("x");
    annotated["content"]["annotations"] = json!({ "priority": 1.0 });
    let image = json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "image", "data": "" } });
    let sample = Sample::new()
        .prompt("go")
        .update(&with_id("1", "a"))
        .update(&with_id("1", "b"))
        .update(&with_id("2", "c"))
        .says("d")
        .says("e")
        .update(&annotated)
        .says("f")
        .update(&image)
        .says("g")
        .ends("end_turn")
        .says("h");
    let want = [
        user("go"),
        with_id("1", "ab"),
        with_id("2", "c"),
        agent("de"),
        annotated,
        agent("f"),
        image,
        agent("g"),
        agent("h"),
    ];
    assert_eq!(sample.replayed(), want);
}

/// R37: an id that is announced again in a later turn is another call.
#[test]
fn the_same_id_in_a_later_turn_is_another_call() {
    let done = call_update("c", &json!({ "status": "completed" }));
    let turn = |sample: Sample| sample.prompt("go").update(&call("c", "t")).update(&done).ends("end_turn");
    let updates = turn(turn(Sample::new())).replayed();
    let one = [user("go"), call("c", "t"), done.clone()];
    assert_eq!(updates, [one.clone(), one].concat());
}

/// R280: a call that nobody ended is shown as failed when its turn ends, when its process ends, when the history ends,
/// and when another turn begins after a death of the daemon; in the order they were announced.
#[test]
fn open_calls_end_with_their_turn() {
    let begin = || Sample::new().prompt("go").update(&call("b", "t")).update(&call("a", "t"));
    let begin = || begin().update(&call_update("a", &json!({ "status": "in_progress", "rawInput": 1 })));
    let error = json!({ "code": -32603 });
    let ends = [
        begin(),
        begin().ends("cancelled"),
        begin().fails(error),
        begin().mark(&Mark::PeerGone { cause: "killed".into() }),
        begin().opened("resume", "p"),
        begin().prompt("again"),
    ];
    for sample in ends {
        let updates = sample.replayed();
        let want = [
            call_update("b", &json!({ "status": "failed" })),
            call_update("a", &json!({ "status": "failed", "rawInput": 1 })),
        ];
        assert_eq!(updates[3..5], want, "{updates:#?}");
    }
}

/// R37: what comes for a call after its end passes, and does not open it again.
#[test]
fn late_updates_pass() {
    let late = call_update("c", &json!({ "content": [text("late")] }));
    let done = call_update("c", &json!({ "status": "completed" }));
    let sample = Sample::new()
        .prompt("go")
        .update(&call("c", "t"))
        .update(&done)
        .update(&late)
        .update(&call("d", "t"))
        .ends("cancelled")
        .update(&call_update("d", &json!({ "status": "completed" })));
    let want = [
        user("go"),
        call("c", "t"),
        done,
        late,
        call("d", "t"),
        call_update("d", &json!({ "status": "failed" })),
        call_update("d", &json!({ "status": "completed" })),
    ];
    assert_eq!(sample.replayed(), want);
}

/// R37: a call that was never announced is shown from the permission that was asked for it, or from its first update.
#[test]
fn calls_that_nobody_announced_are_shown() {
    let asks = |call: &Value| {
        json!({ "id": 1, "method": "session/request_permission", "params":
            { "sessionId": "p", "toolCall": call, "options": [] } })
    };
    let asked = asks(&json!({ "toolCallId": "a", "kind": "edit", "status": "pending", "title": "Write x" }));
    let done = call_update("a", &json!({ "status": "completed", "title": "Wrote x" }));
    let sample = Sample::new()
        .prompt("go")
        .line(store::Kind::Peer, &asked)
        .update(&done)
        .line(store::Kind::Peer, &asks(&json!({ "toolCallId": "b" })))
        .update(&call("b", "announced after all"))
        .line(store::Kind::Peer, &asks(&json!({ "toolCallId": "b", "title": "no news" })))
        .update(&call_update("u", &json!({ "status": "in_progress", "title": "first seen so" })))
        .update(&call_update("u", &json!({ "status": "in_progress", "rawOutput": 1 })))
        .ends("end_turn");
    let want = [
        user("go"),
        json!({ "sessionUpdate": "tool_call", "toolCallId": "a", "kind": "edit", "status": "pending", "title": "Write x" }),
        done,
        json!({ "sessionUpdate": "tool_call", "toolCallId": "b", "title": "" }),
        call_update("u", &json!({ "status": "in_progress", "title": "first seen so" })),
        call_update("b", &json!({ "title": "announced after all", "kind": "execute", "status": "failed" })),
        call_update("u", &json!({ "status": "failed", "rawOutput": 1 })),
    ];
    assert_eq!(sample.replayed(), want);
}

/// R37: a terminal that is gone is replayed as what it said last, also when it stood in the announcement.
#[test]
fn a_terminal_is_replayed_as_its_text() {
    let terminal = |id: &str| json!({ "type": "terminal", "terminalId": id });
    let mut announced = call("a", "make");
    announced["content"] = json!([terminal("t1")]);
    let mut without = announced.clone();
    without["content"] = json!([]);
    let sample = Sample::new()
        .prompt("go")
        .update(&announced)
        .output("t1", "one\n")
        .output("t1", "one\ntwo \"ö\"\n")
        .update(&call_update("a", &json!({ "status": "completed" })))
        .update(&call("b", "lost"))
        .update(&call_update("b", &json!({ "content": [terminal("t9"), text("x")] })))
        .ends("cancelled");
    let lost = [text("[the output of this terminal was not kept]"), text("x")];
    let want = [
        user("go"),
        without,
        call_update("a", &json!({ "content": [text("one\ntwo \"ö\"\n")], "status": "completed" })),
        call("b", "lost"),
        call_update("b", &json!({ "content": lost, "status": "failed" })),
    ];
    assert_eq!(sample.replayed(), want);
}

/// R281: the output of a call that has ended is replayed by head and tail, its diff whole, its messages whole.
#[test]
fn large_output_is_shortened_and_messages_are_not() {
    let long = format!("head{}tail", "0123456789\n".repeat(300_000));
    let diff = json!({ "type": "diff", "path": "/x", "newText": "y".repeat(500_000) });
    let done =
        json!({ "status": "completed", "content": [text(&long), diff], "rawOutput": { "stdout": long } });
    let mut born = call("b", "born finished");
    born["status"] = json!("completed");
    born["rawOutput"] = json!(long);
    let sample = Sample::new()
        .prompt(&long)
        .update(&call("c", "t"))
        .update(&call_update("c", &done))
        .update(&born)
        .says(&long)
        .ends("end_turn");
    let frames = sample.frames();
    assert!(frames.iter().all(|frame| frame.line().len() <= 1 << 20));
    let updates = sample.replayed();
    let done = updates.iter().find(|u| u["sessionUpdate"] == "tool_call_update").unwrap();
    let outputs = [&done["content"][0]["content"]["text"], &done["rawOutput"]["stdout"]];
    let born = updates.iter().find(|u| u["title"] == "born finished").unwrap();
    for output in outputs.into_iter().chain([&born["rawOutput"]]) {
        let output = output.as_str().unwrap();
        assert!(output.starts_with("head0123") && output.ends_with("789\ntail") && output.len() < 66_000);
        assert!(output.contains(" bytes are left out here …]"), "{}", &output[..200]);
    }
    assert_eq!(done["content"][1], diff);
    for speaker in ["user_message_chunk", "agent_message_chunk"] {
        let texts = said(&updates);
        let whole: String = texts.iter().filter(|(who, _)| *who == speaker).map(|(_, text)| *text).collect();
        assert_eq!(whole, long, "{speaker}");
    }
}

/// R37, R276: what a child says passes under its own id; what names neither the session nor a child does not.
#[test]
fn children_keep_their_ids() {
    let announce = json!({ "sessionUpdate": "subagent_update", "sessionId": "kid", "title": "k" });
    let reference = json!({ "type": "session", "sessionId": "p" });
    let sample = Sample::new()
        .prompt("go")
        .update_of("kid", &agent("too early"))
        .update(&announce)
        .update_of("kid", &agent("k1"))
        .update_of("kid", &agent("k2"))
        .says("parent")
        .update_of("kid", &call("c", "childs"))
        .update(&call("c", "ours"))
        .update(&call_update("c", &json!({ "content": [reference], "status": "completed" })))
        .update_of("kid", &json!({ "sessionUpdate": "plan", "entries": [] }))
        .update_of("other", &agent("nobody's"))
        .ends("end_turn")
        .update_of("kid", &call_update("c", &json!({ "status": "completed" })));
    let frames = sample.frames();
    let seen: Vec<_> = frames.iter().map(params).collect();
    let show = |session: &str, update: Value| json!({ "sessionId": session, "update": update });
    let ended = json!({ "content": [{ "type": "session", "sessionId": "s" }], "status": "completed" });
    let want = [
        show("s", user("go")),
        show("s", announce),
        show("kid", agent("k1k2")),
        show("s", agent("parent")),
        show("kid", call("c", "childs")),
        show("s", call("c", "ours")),
        show("s", call_update("c", &ended)),
        show("kid", json!({ "sessionUpdate": "plan", "entries": [] })),
        show("kid", call_update("c", &json!({ "status": "completed" }))),
    ];
    assert_eq!(seen, want);
    assert_eq!(frames[2].sessions().len(), 0, "a child's id is not to be spliced");
    assert_eq!(frames[3].sessions().len(), 1);
}

/// R31, R229: another process may call the session otherwise, and say something before it is known how.
#[test]
fn the_peers_name_for_the_session_may_change() {
    let sample = Sample::default()
        .update_of("early", &agent("before it is named"))
        .opened("new", "early")
        .prompt("one")
        .ends("end_turn")
        .mark(&Mark::PeerGone { cause: "killed".into() })
        .update_of("p", &agent("banner"))
        .opened("transcript", "p")
        .prompt("two")
        .says("new")
        .update_of("early", &agent("of nobody"))
        .ends("end_turn");
    let want = [agent("before it is named"), user("one"), agent("banner"), user("two"), agent("new")];
    assert_eq!(sample.replayed(), want);
}

/// R37: mode and options are as the host set them last, once the peer has acknowledged it.
#[test]
fn what_the_host_set_counts_when_it_is_acknowledged() {
    let set = |id: u64, method: &str, params: Value| json!({ "id": id, "method": method, "params": params });
    let sample = Sample::new()
        .update(&json!({ "sessionUpdate": "current_mode_update", "currentModeId": "ask" }))
        .line(store::Kind::Sent, &set(8, "session/set_mode", json!({ "sessionId": "p", "modeId": "code" })))
        .line(store::Kind::Peer, &json!({ "id": 8, "result": {} }))
        .line(store::Kind::Sent, &set(9, "session/set_mode", json!({ "sessionId": "p", "modeId": "no" })))
        .line(store::Kind::Peer, &json!({ "id": 9, "error": { "code": -32602, "message": "no" } }))
        .line(
            store::Kind::Sent,
            &set(10, "session/set_config_option", json!({ "sessionId": "p", "configId": "m" })),
        )
        .line(store::Kind::Peer, &json!({ "id": 10, "result": { "configOptions": [{ "id": "m" }] } }));
    let want = [
        json!({ "sessionUpdate": "current_mode_update", "currentModeId": "code" }),
        json!({ "sessionUpdate": "config_option_update", "configOptions": [{ "id": "m" }] }),
    ];
    assert_eq!(sample.replayed(), want);
}

/// R106, R281: however many calls are open, and however large they are, what is kept of them is bounded, and the last
/// state of each is shown.
#[test]
fn open_calls_are_bounded() {
    let (mut replay, mut out) = (Replay::new(session()), Vec::new());
    let mut sample = Sample::new().prompt("go");
    for n in 0..TOOL_CALLS_MAX + 50 {
        let id = n.to_string();
        let large = json!({ "status": "in_progress", "rawInput": "x".repeat(30_000) });
        sample = sample.update(&call(&id, "t")).update(&call_update(&id, &large));
    }
    for row in &sample.rows {
        replay.take(row, &mut out);
        assert!(replay.bytes() <= REPLAY_CALLS_BYTES_MAX);
    }
    replay.finish(&mut out);
    let failed = out.iter().map(|frame| params(frame)["update"].clone()).filter(|u| u["status"] == "failed");
    let failed: Vec<_> =
        failed.map(|u| u["toolCallId"].as_str().unwrap().parse::<usize>().unwrap()).collect();
    assert_eq!(failed, (0..TOOL_CALLS_MAX + 50).collect::<Vec<_>>());
}

/// R106: an id that is none is not followed, and what it comes with is shown.
#[test]
fn calls_without_a_proper_id_pass() {
    let nameless = [
        call("", "t"),
        call(&"x".repeat(257), "t"),
        json!({ "sessionUpdate": "tool_call", "toolCallId": 3 }),
    ];
    let sample = nameless.iter().fold(Sample::new(), |sample, update| sample.update(update));
    assert_eq!(sample.replayed(), nameless);
}

/// R289, R46: what compaction wrote stands as it is, under the session's own id also in a fork, and what counts only
/// in the end comes in the end.
#[test]
fn compacted_history_stands_as_it_is() {
    let usage = |used: u64| json!({ "sessionUpdate": "usage_update", "used": used, "size": 9 });
    let kid = json!({ "sessionUpdate": "subagent_update", "sessionId": "kid" });
    let lines = [
        notification("parent", &agent("a")),
        notification("parent", &agent("b")),
        notification("parent", &kid),
        notification("kid", &agent("c")),
        notification("parent", &usage(1)),
        json!({ "mark": "compacted" }),
    ];
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    let sample = Sample::new().row(store::Kind::Compact, &lines).says("d").update(&usage(2));
    let seen: Vec<_> = sample.frames().iter().map(params).collect();
    let show = |session: &str, update: Value| json!({ "sessionId": session, "update": update });
    let want = [
        show("s", agent("a")),
        show("s", agent("b")),
        show("s", kid),
        show("kid", agent("c")),
        show("s", agent("d")),
        show("s", usage(2)),
    ];
    assert_eq!(seen, want);
}
