//! Inboxes of live sessions: what is sent to them runs by itself, once, whatever dies meanwhile (groups L and M).

mod closing;
mod crashes;
mod hand;
mod resume;
mod sending;

use serde_json::{Value, json};

use crate::{
    host::Host,
    peer::Peer,
    process::{PATIENCE, wait_until},
    sandbox::Sandbox,
    scene::Scene,
};

/// An agent that resumes, and short times.
fn scene() -> Scene {
    prepared(|_| {})
}

/// The same in a sandbox that is prepared further.
fn prepared(prepare: impl FnOnce(&mut Sandbox)) -> Scene {
    Scene::playing(json!({"sessionCapabilities": {"resume": {}}}), json!({}), |sandbox| {
        sandbox.set("limits", "cancel_grace_ms = 300");
        sandbox.set("limits", "warm_ms = 100");
        sandbox.set("agent.p", "stop_grace_ms = 300");
        prepare(sandbox);
    })
}

/// Sends a message of the user; returns its id.
fn send(sandbox: &Sandbox, session: &str, text: &str) -> String {
    send_from(sandbox, session, "user", text)
}

/// The same from anybody.
fn send_from(sandbox: &Sandbox, session: &str, source: &str, text: &str) -> String {
    let sent = sandbox.control("sessions.send", json!({"id": session, "source": source, "text": text}));
    sent["entry"].as_str().unwrap().to_owned()
}

/// Messages and their states, in queue order.
fn states(sandbox: &Sandbox, session: &str) -> Vec<(String, String)> {
    let listed = sandbox.control("inbox.list", json!({"id": session}));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let entries = listed["entries"].as_array().unwrap();
    entries.iter().map(|entry| (text(&entry["text"]), text(&entry["state"]))).collect()
}

fn wait_states(sandbox: &Sandbox, session: &str, wanted: &[(&str, &str)]) {
    wait_until(&format!("the messages are {wanted:?}"), PATIENCE, || {
        let now = states(sandbox, session);
        now.iter().map(|(text, state)| (&**text, &**state)).eq(wanted.iter().copied())
    });
}

/// How often a message was tried.
fn attempts(sandbox: &Sandbox, session: &str, entry: &str) -> u64 {
    let shown = sandbox.control("inbox.show", json!({"id": session, "entry": entry}));
    shown["attempt"].as_u64().unwrap()
}

/// What a session says about itself.
fn fact(sandbox: &Sandbox, session: &str, name: &str) -> Value {
    let listed = sandbox.control("sessions.list", json!({"prefix": session}));
    let found = listed["sessions"].as_array().unwrap().iter().find(|s| s["id"] == session).cloned();
    found.unwrap_or_default()[name].clone()
}

fn wait_fact(sandbox: &Sandbox, session: &str, name: &str, is: &str) {
    wait_until(&format!("{name} is {is}"), PATIENCE, || fact(sandbox, session, name) == is);
}

/// The texts of a prompt, block by block.
fn texts(prompt: &Value) -> Vec<String> {
    let blocks = prompt["params"]["prompt"].as_array().unwrap();
    blocks.iter().map(|block| block["text"].as_str().unwrap().to_owned()).collect()
}

/// A message of that source as the peer reads it.
fn from(source: &str, text: &str) -> String {
    format!("[message from {source}]\n\n{text}")
}

/// Takes the next prompt and ends it; returns its texts.
fn plays(peer: &mut Peer) -> Vec<String> {
    let prompt = peer.expect("session/prompt");
    peer.end_turn(&prompt);
    texts(&prompt)
}

/// How many prompts the peer has that nobody took.
fn unread_prompts(peer: &mut Peer) -> usize {
    peer.unread().iter().filter(|message| message["method"] == "session/prompt").count()
}

/// The notice of automatic resume in a message, if it is one.
fn notice(message: &Value) -> Option<&Value> {
    message["params"]["update"]["_meta"]["acpvisor"].get("pendingResume")
}

/// The next notice of automatic resume.
fn next_notice(host: &mut Host) -> Value {
    let message = host.take("a notice of automatic resume", PATIENCE, |m| notice(m).is_some());
    notice(&message).unwrap().clone()
}

/// The next notice must be of that phase and attempt.
fn expect_notice(host: &mut Host, phase: &str, attempt: u64) -> Value {
    let notice = next_notice(host);
    assert_eq!((&notice["phase"], &notice["attempt"]), (&json!(phase), &json!(attempt)), "{notice}");
    notice
}

/// User chunks among what the host has not taken: message ids and texts.
fn user_chunks(messages: &[Value]) -> Vec<(String, String)> {
    let updates = messages.iter().map(|message| &message["params"]["update"]);
    let chunks = updates.filter(|update| update["sessionUpdate"] == "user_message_chunk");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    chunks.map(|chunk| (text(&chunk["messageId"]), text(&chunk["content"]["text"]))).collect()
}

/// Lets the first attempt fail in a way that is tried again: the timer is armed then.
fn fails_cleanly(peer: &mut Peer) -> Vec<String> {
    let prompt = peer.expect("session/prompt");
    peer.error(&prompt, -32001, "rate limit exceeded");
    texts(&prompt)
}

/// A prompt of the host's that is played to its end. What was held back may run after it.
fn host_plays(host: &mut Host, peer: &mut Peer, session: &str) {
    let id = host.prompt(session, "of the host");
    assert_eq!(plays(peer).last().map(String::as_str), Some("of the host"));
    assert_eq!(host.stop_reason(&id), "end_turn");
}
