//! What an editor starts: strict lines, quick ends, and a daemon when there is none (R252, R253).

use std::{
    collections::BTreeSet,
    fs,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    host::Host,
    line,
    process::{self, PATIENCE, alive, wait_until},
    sandbox::Sandbox,
};

/// A sandbox with the demo agent and without a daemon.
fn fresh() -> Sandbox {
    let mut sandbox = Sandbox::new();
    sandbox.demo_agent("d", &[]);
    sandbox.write_config();
    sandbox
}

/// Process id of the daemon that somebody else started.
fn daemon_of(sandbox: &Sandbox) -> u32 {
    let pid = sandbox.control("status", json!({}))["pid"].as_u64().unwrap();
    u32::try_from(pid).unwrap()
}

fn works(host: &mut Host, sandbox: &Sandbox, dir: &str) {
    let session = host.new_session(&sandbox.cwd(dir));
    let id = host.prompt(&session, "echo it works");
    assert_eq!(host.stop_reason(&id), "end_turn");
    assert_eq!(host.unread_text(), "it works");
}

/// R252: with the log at its highest level stdout holds the protocol alone, and stderr nothing.
#[test]
fn a_bridge_speaks_strictly_at_the_highest_log_level() {
    let mut sandbox = Sandbox::new();
    let mut puppets = sandbox.puppet_agent("p").willing();
    sandbox.set("", r#"log_level = "trace""#);
    sandbox.env("RUST_LOG", "trace");
    sandbox.start();
    let mut editor = Host::bridge(&sandbox, "p");
    editor.initialize(json!({}));
    let session = editor.new_session(&sandbox.cwd("work"));
    let mut peer = puppets.serving();
    for round in 0..100 {
        let text = format!("{round}\n\u{2028}\r\u{0} \u{1f600}");
        let id = editor.prompt(&session, &text);
        let prompt = peer.expect("session/prompt");
        assert_eq!(prompt["params"]["prompt"][0]["text"], json!(text));
        peer.update(&text);
        peer.raw(b"not a message\n");
        peer.end_turn(&prompt);
        assert_eq!(editor.stop_reason(&id), "end_turn");
        assert_eq!(editor.expect_text(), text);
    }
    editor.close_write();
    assert_eq!(editor.wait_exit(Duration::from_secs(1)).code(), Some(0));
    assert_eq!(editor.stderr(), "");
}

/// R252, R280: a daemon that dies in the middle of a line leaves no torn one, and one error for each open request.
#[test]
fn a_killed_daemon_leaves_no_torn_line_and_answers_for_all() {
    let mut sandbox = Sandbox::new();
    let mut puppets = sandbox.puppet_agent("p").willing();
    sandbox.start();
    let mut editor = Host::bridge(&sandbox, "p");
    editor.initialize(json!({}));
    let session = editor.new_session(&sandbox.cwd("work"));
    let mut peer = puppets.serving();
    let id = editor.prompt(&session, "go");
    peer.expect("session/prompt");
    peer.update("whole");
    assert_eq!(editor.expect_text(), "whole");
    process::signal(editor.pid(), Signal::STOP);
    peer.update(&"x".repeat(4 << 20));
    // The daemon has read the line and writes it until nothing more fits.
    peer.obey("stderr said");
    sandbox.wait_quiet(&session);
    sandbox.kill();
    process::signal(editor.pid(), Signal::CONT);
    let error = editor.error(&id);
    assert_eq!((&error["code"], &error["data"]["retryable"]), (&json!(-32603), &json!(true)));
    editor.expect_end(PATIENCE);
    assert_eq!(editor.unread(), Vec::<Value>::new(), "a line that was begun is not printed");
    assert_eq!(editor.wait_exit(Duration::from_secs(1)).code(), Some(1));
    wait_until("its agent is gone", PATIENCE, || !alive(peer.pid()));
}

/// R252: a bridge ends within a second of being told, whatever its agent does, and says nothing about it.
#[test]
fn a_bridge_ends_within_a_second_of_being_told() {
    let mut sandbox = fresh();
    sandbox.set("limits", "cancel_grace_ms = 300");
    sandbox.set("agent.d", "stop_grace_ms = 300");
    sandbox.start();
    for signal in [Some(Signal::TERM), Some(Signal::HUP), None] {
        let mut editor = Host::bridge(&sandbox, "d");
        editor.initialize(json!({}));
        let session = editor.new_session(&sandbox.cwd("work"));
        editor.prompt(&session, "hang");
        editor.expect_text();
        let told = Instant::now();
        match signal {
            Some(signal) => process::signal(editor.pid(), signal),
            None => editor.close_write(),
        }
        assert_eq!(editor.wait_exit(PATIENCE).code(), Some(0), "{signal:?}");
        assert!(told.elapsed() < Duration::from_millis(1_500), "{signal:?}: {:?}", told.elapsed());
        assert_eq!(editor.stderr(), "");
        wait_until("its session is gone", PATIENCE, || sandbox.sessions().is_empty());
    }
    sandbox.wait_empty();
}

/// R252, R256: an editor may start its bridge long before it says anything; the limit is for whoever says nothing.
#[test]
fn a_bridge_waits_for_its_editor() {
    let mut sandbox = fresh();
    sandbox.set("limits", "first_message_ms = 500");
    sandbox.start();
    let mut editor = Host::bridge(&sandbox, "d");
    wait_until("it is connected", PATIENCE, || sandbox.control("status", json!({}))["hosts"] == json!(1));
    let mut silent = Host::direct(&sandbox);
    silent.expect_refusal(-32600);
    silent.expect_end(PATIENCE);
    editor.initialize(json!({}));
    works(&mut editor, &sandbox, "work");
}

/// R253: of twenty bridges on a machine without a daemon each works, and one daemon serves them all.
#[test]
fn twenty_bridges_at_once_start_one_daemon() {
    let sandbox = fresh();
    let mut editors: Vec<Host> = (0..20).map(|_| Host::bridge(&sandbox, "d")).collect();
    let ids: Vec<Value> = editors.iter_mut().map(|editor| editor.request_initialize(json!({}))).collect();
    for (editor, id) in editors.iter_mut().zip(&ids) {
        let answer = editor.answer_within(id, 3 * PATIENCE);
        assert_eq!(answer["result"]["protocolVersion"], 1, "{answer}; {}", editor.stderr());
    }
    let daemon = daemon_of(&sandbox);
    sandbox.claim(daemon);
    assert_eq!(sandbox.control("status", json!({}))["hosts"], 20);
    for editor in &mut editors {
        // Where the bridge stands, as with an editor: the process that answered `initialize` serves the session.
        works(editor, &sandbox, "");
        assert_eq!(editor.stderr(), "");
    }
    let daemons = process::marked(&sandbox.path("")).into_iter().filter(|pid| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).any(|word| word == b"daemon")
    });
    assert_eq!(daemons.collect::<BTreeSet<_>>(), BTreeSet::from([daemon]));
    drop(editors);
    wait_until("all agents are gone", 2 * PATIENCE, || sandbox.survivors().is_empty());
    assert!(alive(daemon), "it stays for the next one");
}

/// R253, SIG-02: a daemon that was started on demand belongs to nobody who could take it along.
#[test]
fn a_daemon_that_was_started_on_demand_outlives_its_starter() {
    let sandbox = fresh();
    let mut editor = Host::bridge(&sandbox, "d");
    editor.initialize(json!({}));
    let daemon = daemon_of(&sandbox);
    sandbox.claim(daemon);
    let [parent, _, session, terminal] = kinship(&daemon.to_string());
    assert_ne!(parent, i64::from(editor.pid()), "no child of its starter");
    assert_ne!(session, kinship("self")[2], "a session of its own");
    assert_eq!(terminal, 0, "no terminal");
    assert_eq!(process::cwd(daemon).unwrap().to_str(), Some("/"));
    for descriptor in [0, 1] {
        let target = fs::read_link(format!("/proc/{daemon}/fd/{descriptor}")).unwrap();
        assert_eq!(target.to_str(), Some("/dev/null"));
    }
    process::signal(editor.pid(), Signal::KILL);
    editor.wait_exit(PATIENCE);
    wait_until("the host is gone", PATIENCE, || sandbox.control("status", json!({}))["hosts"] == json!(0));
    assert!(alive(daemon));
    works_over_a_new_bridge(&sandbox);
    let stopped = sandbox.output(&["stop"], "");
    assert!(stopped.status.success(), "{stopped:?}");
    wait_until("it has stopped", PATIENCE, || !alive(daemon));
}

/// Parent, process group, session and terminal of a process. The session is 0 where its leader lives outside our PID
/// namespace; `getsid` of rustix takes that for impossible.
fn kinship(process: &str) -> [i64; 4] {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields = stat.rsplit_once(") ").unwrap().1.split(' ').skip(1).take(4);
    fields.map(|field| field.parse().unwrap()).collect::<Vec<_>>().try_into().unwrap()
}

fn works_over_a_new_bridge(sandbox: &Sandbox) {
    let mut editor = Host::bridge(sandbox, "d");
    editor.initialize(json!({}));
    works(&mut editor, sandbox, "work");
}

/// R253: `--no-start` starts nothing and says what to do, to the editor as well.
#[test]
fn no_start_says_what_to_do() {
    let sandbox = fresh();
    let request = r#"{"jsonrpc":"2.0","id":"one","method":"initialize","params":{"protocolVersion":1}}"#;
    let output = sandbox.output(&["acp", "--no-start"], &format!("{request}\n"));
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("acpvisor daemon"), "{output:?}");
    let answer = line::parse(&output.stdout).unwrap();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("one"), &json!(-32603)));
    assert!(answer["error"]["message"].as_str().is_some_and(|text| text.contains("acpvisor daemon")));
    let output = sandbox.output(&["run", "--no-start", "hello"], "");
    assert_eq!(output.status.code(), Some(3));
    assert!(sandbox.survivors().is_empty() && !sandbox.host_socket().exists());
}

/// R253: a machine whose runtime directory is not there says so, and which setting decides.
#[test]
fn a_missing_runtime_directory_is_a_clear_error() {
    let mut sandbox = fresh();
    let missing = sandbox.path("not/there");
    sandbox.env("ACPVISOR_RUNTIME_DIR", missing.to_str().unwrap());
    let request = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#;
    for args in [&["acp"][..], &["run", "hello"]] {
        let output = sandbox.output(args, &format!("{request}\n"));
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(missing.to_str().unwrap()) && said.contains("ACPVISOR_RUNTIME_DIR"), "{said}");
    }
    assert!(sandbox.survivors().is_empty());
}

/// R252, R255: a bridge whose daemon is gone leaves the socket alone, and the next one starts a daemon there.
#[test]
fn a_bridge_finds_its_way_past_a_stale_socket() {
    let mut sandbox = fresh();
    sandbox.start();
    sandbox.kill();
    assert!(sandbox.host_socket().exists());
    works_over_a_new_bridge(&sandbox);
    sandbox.claim(daemon_of(&sandbox));
}

/// R252: a script that asks one thing and ends its stdin gets its answer, and junk gets its error.
#[test]
fn what_was_asked_before_the_end_of_stdin_is_answered() {
    let mut sandbox = fresh();
    sandbox.start();
    let request = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}"#;
    let output = sandbox.output(&["acp"], &format!("{request}\n"));
    let answer = line::parse(&output.stdout).unwrap();
    assert_eq!((&answer["id"], &answer["result"]["protocolVersion"]), (&json!(1), &json!(1)));
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{output:?}");
    let output = sandbox.output(&["acp"], "junk\n");
    let answer = line::parse(&output.stdout).unwrap();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(-32700)));
    sandbox.wait_empty();
}

/// R256: an editor that is turned away reads why in the answer to its first request.
#[test]
fn an_editor_that_is_turned_away_reads_why() {
    let mut sandbox = fresh();
    sandbox.set("limits", "hosts_max = 1");
    sandbox.start();
    let mut first = Host::direct(&sandbox);
    first.initialize(json!({}));
    let mut second = Host::bridge(&sandbox, "d");
    let id = second.request_initialize(json!({}));
    let answer = second.answer_within(&id, PATIENCE);
    let said = answer["error"]["message"].as_str().unwrap();
    assert!(said.contains("limits.hosts_max"), "{answer}");
    assert_eq!(second.wait_exit(PATIENCE).code(), Some(1));
    let told = second.stderr();
    assert!(told.contains("closed the connection") && told.contains("limits.hosts_max"), "{told}");
    let output = sandbox.output(&["run", "hello"], "");
    assert!(String::from_utf8_lossy(&output.stderr).contains("limits.hosts_max"), "{output:?}");
}
