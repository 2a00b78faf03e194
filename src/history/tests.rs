//! What holds for every history, whatever is in it.

use std::collections::HashMap;

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    Context, Mark, Replay, compact,
    sample::{Sample, call, call_update, params, session, text},
};
use crate::{
    limits::{
        REPLAY_CALLS_BYTES_MAX, REPLAY_JOINED_BYTES_MAX, REPLAY_TERMINAL_BYTES_MAX, REPLAY_TERMINALS_MAX,
    },
    store::{Kind, Stored},
    wire::Frame,
};

/// One thing that happens.
#[derive(Debug, Clone)]
enum Step {
    Chunk { kind: &'static str, id: Option<u8>, text: String, meta: bool },
    Announce(u8),
    Update { call: u8, status: Option<&'static str>, output: usize },
    Output(u8, usize),
    Other(&'static str),
    Prompt(String),
    End(&'static str),
    Died,
    Child(String),
}

fn step() -> impl Strategy<Value = Step> {
    let kind = prop::sample::select(vec!["agent_message_chunk", "agent_thought_chunk", "user_message_chunk"]);
    let words = prop_oneof![20 => "[a-zä🦀\\\\\"\\n]{0,12}".boxed(), 1 => Just("x\n".repeat(20_000)).boxed()];
    let size = || prop_oneof![9 => 0_usize..50, 1 => 0_usize..200_000];
    let status = prop::sample::select(vec![None, Some("in_progress"), Some("completed"), Some("failed")]);
    let others = ["plan", "usage_update", "current_mode_update", "available_commands_update", "of_tomorrow"];
    prop_oneof![
        12 => (kind, prop::option::of(0_u8..3), words.clone(), prop::bool::weighted(0.1))
            .prop_map(|(kind, id, text, meta)| Step::Chunk { kind, id, text, meta }),
        3 => (0_u8..4).prop_map(Step::Announce),
        6 => (0_u8..5, status, size())
            .prop_map(|(call, status, output)| Step::Update { call, status, output }),
        1 => (0_u8..3, size()).prop_map(|(terminal, size)| Step::Output(terminal, size)),
        2 => prop::sample::select(others.to_vec()).prop_map(Step::Other),
        1 => words.prop_map(Step::Prompt),
        1 => prop::sample::select(vec!["end_turn", "cancelled"]).prop_map(Step::End),
        1 => Just(Step::Died),
        1 => "[a-z]{1,4}".prop_map(Step::Child),
    ]
}

fn apply(sample: Sample, step: &Step) -> Sample {
    match step {
        Step::Chunk { kind, id, text, meta } => {
            let mut update = json!({ "sessionUpdate": kind, "content": { "type": "text", "text": text } });
            id.iter().for_each(|id| update["messageId"] = json!(id.to_string()));
            if *meta {
                update["_meta"] = json!({ "a": 1 });
            }
            sample.update(&update)
        }
        Step::Announce(id) => {
            let mut update = call(&id.to_string(), "title");
            update["content"] = json!([{ "type": "terminal", "terminalId": id.to_string() }]);
            sample.update(&update)
        }
        Step::Update { call, status, output } => {
            let content = [text(&"o\n".repeat(*output / 2)), json!({ "type": "terminal", "terminalId": "1" })];
            let members = json!({ "status": status, "content": content });
            sample.update(&call_update(&call.to_string(), &members))
        }
        Step::Output(terminal, size) => sample.output(&terminal.to_string(), &"t".repeat(*size)),
        Step::Other(kind) => sample.update(&json!({ "sessionUpdate": kind, "x": 1 })),
        Step::Prompt(text) => sample.prompt(text),
        Step::End(reason) => sample.ends(reason),
        Step::Died => sample.mark(&Mark::PeerGone { cause: "killed".into() }).opened("resume", "p"),
        Step::Child(text) => sample
            .update(&json!({ "sessionUpdate": "subagent_update", "sessionId": "kid" }))
            .update_of("kid", &json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } })),
    }
}

fn sample(steps: &[Step]) -> Sample {
    steps.iter().fold(Sample::new(), apply)
}

type Key = (String, String, String);

/// The texts of messages by session, speaker and id, in the order they first appear; messages without text are none.
fn messages<'u>(updates: impl Iterator<Item = &'u Value>) -> Vec<(Key, String)> {
    let (mut order, mut texts): (Vec<Key>, HashMap<Key, String>) = (Vec::new(), HashMap::new());
    for params in updates {
        let update = &params["update"];
        let said = update["content"]["text"].as_str().filter(|said| !said.is_empty());
        let (Some(kind), Some(said)) = (update["sessionUpdate"].as_str(), said) else { continue };
        let session = params["sessionId"].as_str().map(|id| if id == "p" { "s" } else { id });
        let key = (session.unwrap_or("").to_owned(), kind.to_owned(), update["messageId"].to_string());
        if !texts.contains_key(&key) {
            order.push(key.clone());
        }
        texts.entry(key).or_default().push_str(said);
    }
    order.into_iter().map(|key| (key.clone(), texts.remove(&key).unwrap_or_default())).collect()
}

/// What was stored of messages: the prompts, and all that the peer said.
fn stored(rows: &[Stored]) -> Vec<Value> {
    let lines = rows.iter().filter(|row| matches!(row.kind, Kind::Peer | Kind::Sent));
    let lines = lines.flat_map(|row| super::line::lines(&row.lines).collect::<Vec<_>>());
    let read = lines.filter_map(|line| serde_json::from_slice::<Value>(&line).ok());
    let mut all = Vec::new();
    for line in read {
        if line["method"] == "session/prompt" {
            let update =
                json!({ "sessionUpdate": "user_message_chunk", "content": line["params"]["prompt"][0] });
            all.push(json!({ "sessionId": "s", "update": update }));
        } else if line["method"] == "session/update" {
            all.push(line["params"].clone());
        }
    }
    all
}

fn lines_of(frames: &[Frame]) -> Vec<Bytes> {
    frames.iter().map(|frame| frame.line().clone()).collect()
}

/// The same rows with many lines in each.
fn grouped(rows: &[Stored], size: usize) -> Vec<Stored> {
    let mut out: Vec<(Stored, Vec<u8>, usize)> = Vec::new();
    for row in rows {
        match out.last_mut() {
            Some((last, lines, count)) if last.kind == row.kind && *count < size => {
                lines.extend_from_slice(&row.lines);
                *count += 1;
            }
            _ => out.push((row.clone(), row.lines.to_vec(), 1)),
        }
    }
    out.into_iter().map(|(row, lines, _)| Stored { lines: lines.into(), ..row }).collect()
}

const KEPT_BYTES_MAX: usize =
    REPLAY_CALLS_BYTES_MAX + REPLAY_TERMINALS_MAX * 2 * REPLAY_TERMINAL_BYTES_MAX + REPLAY_JOINED_BYTES_MAX;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// R37, R94: the text of every message is what was said, and messages keep their order.
    #[test]
    fn every_message_is_told_whole_and_in_order(steps in prop::collection::vec(step(), 0..60)) {
        // What the peer says in the user's name may be left out, because it may only repeat the prompt.
        let is_users = |step: &Step| matches!(step, Step::Chunk { kind: "user_message_chunk", .. });
        let steps: Vec<_> = steps.into_iter().filter(|step| !is_users(step)).collect();
        let sample = sample(&steps);
        let replayed: Vec<_> = sample.frames().iter().map(params).collect();
        prop_assert_eq!(messages(replayed.iter()), messages(stored(&sample.rows).iter()));
    }

    /// R281: what is kept while a history is read is bounded, and no line that comes out is larger than it may be.
    #[test]
    fn memory_and_lines_are_bounded(steps in prop::collection::vec(step(), 0..60)) {
        let (mut replay, mut out) = (Replay::new(session()), Vec::new());
        for row in &sample(&steps).rows {
            replay.take(row, &mut out);
            prop_assert!(replay.bytes() <= KEPT_BYTES_MAX);
        }
        replay.finish(&mut out);
        prop_assert!(out.iter().all(|frame| frame.line().len() < 1 << 20));
        prop_assert!(out.iter().all(|frame| params(frame)["sessionId"] == "s" || params(frame)["sessionId"] == "kid"));
    }

    /// R37: how lines were put into rows does not matter, and a history reads the same each time.
    #[test]
    fn rows_do_not_matter(steps in prop::collection::vec(step(), 0..60), size in 2_usize..9) {
        let sample = sample(&steps);
        let other = Sample::of(grouped(&sample.rows, size));
        prop_assert_eq!(lines_of(&sample.frames()), lines_of(&other.frames()));
    }

    /// R280: in the end no call is open, and none has ended twice in a row.
    #[test]
    fn every_call_ends(steps in prop::collection::vec(step(), 0..60)) {
        let mut open = HashMap::new();
        for update in sample(&steps).replayed() {
            let Some(id) = update["toolCallId"].as_str().map(str::to_owned) else { continue };
            if update["sessionUpdate"] == "tool_call" {
                open.insert(id, true);
            } else if update["status"] == "completed" || update["status"] == "failed" {
                open.insert(id, false);
            } else {
                open.entry(id).or_insert(update["status"].is_string());
            }
        }
        prop_assert!(open.values().all(|open| !open), "{:?}", open);
    }

    /// R289: compacted history replays as before, and tells an agent the same.
    #[test]
    fn compacted_history_is_the_same_history(steps in prop::collection::vec(step(), 0..60)) {
        let sample = sample(&steps);
        let shorter = Sample::of(compact(session(), &sample.rows));
        prop_assert_eq!(lines_of(&sample.frames()), lines_of(&shorter.frames()));
        let context = |sample: &Sample| {
            let mut context = Context::new(session(), 32 << 10);
            sample.rows.iter().for_each(|row| context.take(row));
            context.finish()
        };
        prop_assert_eq!(context(&sample), context(&shorter));
    }
}
