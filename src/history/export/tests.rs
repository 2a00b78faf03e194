//! What people and programs get of a transcript.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::*;
use crate::{
    history::{
        Mark,
        sample::{Sample, call, call_update, chunk, notification, session, text},
    },
    store::{Kind, Row, Settings, Stored},
};

fn row() -> Row {
    Row {
        id: session(),
        agent: "claude".to_owned(),
        cwd: PathBuf::from("/w"),
        params: "{}".to_owned(),
        peer_session: Vec::new(),
        title: Some("Mend the\nbuild".to_owned()),
        created_ms: 1_767_225_600_000,
        updated_ms: 0,
        parent: None,
        settings: Settings::default(),
    }
}

fn events(rows: &[Stored]) -> Vec<Value> {
    let (mut events, mut out) = (Events::new(&session()), Vec::new());
    rows.iter().for_each(|row| events.take(row, &mut out));
    events.finish(&mut out);
    let text = String::from_utf8(out).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn markdown(sample: &Sample) -> String {
    let (mut markdown, mut out) = (Markdown::new(&row()), Vec::new());
    sample.rows.iter().for_each(|row| markdown.take(row, &mut out));
    markdown.finish(&mut out);
    String::from_utf8(out).unwrap()
}

fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

/// R29, R93 to R104: the events of a run come in order, the first one is synthesised from what opened the session, and
/// frames name the session as the host knows it.
#[test]
fn a_transcript_gives_the_events_of_its_runs() {
    let initialize = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {} });
    let opened = json!({ "jsonrpc": "2.0", "id": 7, "method": "session/new", "params": { "cwd": "/w" } });
    let answer =
        json!({ "sessionId": "p", "configOptions": [{ "category": "model", "currentValue": "m-9" }] });
    let sample = Sample::default()
        .line(Kind::Sent, &initialize)
        .line(Kind::Peer, &json!({ "id": 0, "result": { "protocolVersion": 1 } }))
        .line(Kind::Sent, &opened)
        .update(&json!({ "sessionUpdate": "available_commands_update", "availableCommands": [] }))
        .line(Kind::Peer, &json!({ "id": 7, "result": answer }))
        .opened("new", "p")
        .prompt("go")
        .says("on it")
        .update(&call("c", "ls"))
        .update(&call_update("c", &json!({ "status": "completed", "content": [text("x")] })))
        .ends("end_turn");
    let events = events(&sample.rows);
    let want =
        ["init", "transcript", "transcript", "transcript", "text", "tool_use", "tool_result", "result"];
    assert_eq!(types(&events), want);
    assert_eq!((&events[0]["model"], &events[0]["peer_session_id"]), (&json!("m-9"), &json!("p")));
    assert_eq!(events[0]["raw"], json!({ "initialize": { "protocolVersion": 1 }, "session/new": answer }));
    assert_eq!(events[4]["raw"]["params"]["sessionId"], "s");
    assert_eq!((&events[7]["text"], &events[7]["stop_reason"]), (&json!("on it"), &json!("end_turn")));
}

/// R99, R100, R280: every prompt that the peer had has exactly one result, however its turn ended.
#[test]
fn every_prompt_has_one_result() {
    let late = json!({ "id": 2, "result": { "stopReason": "cancelled" } });
    let cancelled = Mark::TurnEnded { turn: 2, stop_reason: Some("cancelled".into()), error: None };
    let refused = json!({ "id": 3, "error": { "code": -32603, "message": "no" } });
    let sample = Sample::new()
        .prompt("died")
        .opened("resume", "p")
        .prompt("cancelled before the peer answers")
        .mark(&cancelled)
        .line(Kind::Peer, &late)
        .prompt("an error")
        .line(Kind::Peer, &refused)
        .fails(json!({ "message": "no" }))
        .prompt("the agent dies")
        .mark(&Mark::PeerGone { cause: "killed".into() })
        .fails(json!({ "code": -32603, "message": "the agent ended" }))
        .prompt("still open");
    let events = events(&sample.rows);
    assert_eq!(types(&events), ["init", "result", "result", "transcript", "result", "result"]);
    let texts: Vec<_> = [1, 4, 5].iter().map(|at| events[*at]["text"].as_str().unwrap()).collect();
    assert!(
        texts[0].contains("nobody knows") && texts[1].contains("no") && texts[2].contains("the agent ended")
    );
    assert_eq!(events[2]["stop_reason"], "cancelled");
}

/// R5, R6, R97, R105: what is stray is kept under its label, and a refusal is an event.
#[test]
fn strays_are_labelled_and_refusals_are_told() {
    let deny = Mark::Decision {
        tool_call: "c".into(),
        kind: "execute".into(),
        decision: "deny".into(),
        by: "policy".into(),
        reason: "pattern `git push*`".into(),
    };
    let stray = [
        "no json".to_owned(),
        notification("other", &chunk("agent_message_chunk", "x")).to_string(),
        json!({ "id": 99, "result": {} }).to_string(),
    ];
    let sample =
        Sample::new().prompt("go").row(Kind::Stray, &stray).update(&call("c", "git push")).mark(&deny);
    let events = events(&sample.rows);
    assert_eq!(types(&events), ["init", "transcript", "transcript", "transcript", "tool_use", "tool_result"]);
    let labels: Vec<_> = events[1..4].iter().map(|event| event["label"].as_str().unwrap()).collect();
    assert_eq!(labels, ["unparsed", "otherSession", "unmatchedResponse"]);
    assert_eq!(
        (&events[5]["denied"], &events[5]["summary"]),
        (&json!(true), &json!("policy: pattern `git push*`"))
    );
}

/// R289: the events of what was compacted are those of what is left.
#[test]
fn compacted_history_still_has_results() {
    let sample = Sample::new().prompt("go").says("a").says("b").ends("end_turn");
    let events = events(&crate::history::compact(session(), &sample.rows));
    assert_eq!(types(&events), ["init", "transcript", "text", "result"]);
    assert_eq!((&events[3]["text"], &events[3]["is_error"]), (&json!("ab"), &json!(false)));
}

/// The beginning of what the next test tells.
const HAPPENED: &str = "# Mend the build

- Session: `s`
- Agent: `claude`
- Directory: `/w`
- Begun: 2026-01-01T00:00:00.000Z

## Turn 1, 2026-01-01T00:00:02.000Z

### User

mend it
[image image/png]

> first
> second

### Agent

I will do so.

**Tool** (edit, completed): `` edit `a.rs` ``

```diff
--- /w/a.rs
…
 line 4
 line 5
 line 6
-line 7
+line seven
 line 8
 line 9
 line 10
…
```

````text
```
ok
````

**Tool** (execute, failed): `cargo test`

```text
beginxxx";

/// R270: the Markdown reads like what happened.
#[test]
fn markdown_reads_like_what_happened() {
    let old: String = (0..20).map(|n| format!("line {n}\n")).collect();
    let new = old.replace("line 7\n", "line seven\n");
    let diff = json!({ "type": "diff", "path": "/w/a.rs", "oldText": old, "newText": new });
    let long = format!("begin{}end", "x".repeat(3_000));
    let image = json!({ "type": "image", "mimeType": "image/png", "data": "AA" });
    let sample = Sample::new()
        .prompt_blocks("host", 0, &json!([{ "type": "text", "text": "mend it" }, image]))
        .update(&chunk("agent_thought_chunk", "first\nsec"))
        .update(&chunk("agent_thought_chunk", "ond"))
        .says("I will")
        .says(" do so.")
        .update(&call("c", "edit `a.rs`"))
        .update(&call_update(
            "c",
            &json!({ "kind": "edit", "status": "completed", "content": [diff, text("```\nok")] }),
        ))
        .update(&call("d", "cargo test"))
        .update(&call_update("d", &json!({ "status": "failed", "rawOutput": long })))
        .update(&json!({ "sessionUpdate": "plan", "entries": [
            { "content": "mend", "status": "completed" }, { "content": "test", "status": "pending" }] }))
        .update(&call("e", "deploy"))
        .ends("cancelled");
    let text = markdown(&sample);
    assert!(text.starts_with(HAPPENED), "{text}");
    let rest = "xxxend
```

**Tool** (execute, not finished): `deploy`

*Turn 1 ended: cancelled*

## Plan

- [x] mend
- [ ] test
";
    assert!(text.ends_with(rest), "{text}");
    let (_, output) = text.split_once("begin").unwrap();
    let (output, _) = output.split_once("end\n```").unwrap();
    assert_eq!(output.chars().count() + "beginend".len(), 2_000);
    assert!(output.contains("x\n… clipped …\nx"));
}

/// R38, R270: what the agent was given unseen is in it, and so is what cut a turn short.
#[test]
fn markdown_tells_what_nobody_saw() {
    let blocks = json!([{ "type": "text", "text": "[terminal/3] done" }]);
    let sample = Sample::new()
        .prompt_blocks("inbox", 0, &blocks)
        .mark(&Mark::Input { id: "e".into(), text: "done".into() })
        .says("ok")
        .mark(&Mark::PeerGone { cause: "killed".into() })
        .fails(json!({ "message": "the agent ended" }))
        .prompt("again")
        .opened("resume", "p")
        .prompt("and again")
        .ends("end_turn");
    let text = markdown(&sample);
    for part in [
        "\n### Inbox\n\n[terminal/3] done\n\n### Agent\n\nok\n\n*The agent's process ended: killed*\n\n*Turn 1 failed: the agent ended*\n",
        "\n### User\n\nagain\n\n*Another process took the session up (resume), 2026-01-01T00:00:10.000Z*\n",
        "\n*Turn 2 was interrupted: nobody knows how it ended*\n\n## Turn 3, ",
    ] {
        assert!(text.contains(part), "{part}\n\n{text}");
    }
    assert!(!text.contains("### User\n\ndone"));
}
