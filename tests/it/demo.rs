//! The demo agent on its own, driven over its stdio by a scripted client (R265).

use std::{
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    host::Host,
    line,
    process::{self, PATIENCE, alive, wait_until},
    sandbox::ACPVISOR,
};

const EVERYTHING: fn() -> Value =
    || json!({"fs": {"readTextFile": true, "writeTextFile": true}, "terminal": true});

fn agent(flags: &[&str]) -> Host {
    Host::spawn(Command::new(ACPVISOR).arg("demo-agent").args(flags).stderr(Stdio::null()))
}

/// An agent with one session in `/tmp`.
fn ready(flags: &[&str], capabilities: Value) -> (Host, String) {
    let mut client = agent(flags);
    client.initialize(capabilities);
    let session = client.new_session("/tmp");
    (client, session)
}

/// Prompts an agent of a client that offers nothing; returns all text, when the turn ended with `end_turn`.
fn says(prompt: &str) -> String {
    let (mut client, session) = ready(&[], json!({}));
    let id = client.prompt(&session, prompt);
    assert_eq!(client.stop_reason(&id), "end_turn");
    client.unread_text()
}

fn kinds(messages: &[Value]) -> Vec<&str> {
    messages.iter().filter_map(|m| m["params"]["update"]["sessionUpdate"].as_str()).collect()
}

fn statuses(messages: &[Value]) -> Vec<&str> {
    messages.iter().filter_map(|m| m["params"]["update"]["status"].as_str()).collect()
}

#[test]
fn initialize_advertises_what_is_there() {
    let answer = agent(&["--name", "somebody"]).initialize(json!({}));
    assert_eq!(answer["protocolVersion"], 1);
    assert_eq!(answer["agentInfo"]["name"], "somebody");
    let capabilities = &answer["agentCapabilities"];
    assert_eq!(capabilities["loadSession"], false);
    assert_eq!(capabilities["promptCapabilities"]["embeddedContext"], true);
    assert_eq!(capabilities["sessionCapabilities"], json!({"close": {}, "resume": {}}));
}

#[test]
fn what_is_no_request_of_this_agent_is_refused() {
    let mut client = agent(&[]);
    let early = client.request_session("/tmp");
    assert_eq!(client.error(&early)["code"], -32600);
    client.initialize(json!({}));
    let unknown = client.request("session/load", json!({"sessionId": "x", "cwd": "/tmp", "mcpServers": []}));
    assert_eq!(client.error(&unknown)["code"], -32601);
    let relative = client.request_session("tmp");
    assert_eq!(client.error(&relative)["code"], -32602);
    client.send_line("nonsense");
    assert_eq!(client.next()["error"]["code"], -32700);
}

#[test]
fn sessions_have_their_own_ids_and_settings() {
    let (mut client, first) = ready(&[], json!({}));
    let second = client.new_session("/");
    assert_ne!(first, second);
    let id = client.request("session/set_mode", json!({"sessionId": first, "modeId": "plan"}));
    assert_eq!(client.result(&id), json!({}));
    let option = json!({"sessionId": first, "configId": "model", "value": "demo-large"});
    let id = client.request("session/set_config_option", option);
    assert_eq!(client.result(&id)["configOptions"][0]["currentValue"], "demo-large");
    let id = client.request("session/set_mode", json!({"sessionId": first, "modeId": "yolo"}));
    assert_eq!(client.error(&id)["code"], -32602);
    let id = client.request("session/close", json!({"sessionId": first}));
    assert_eq!(client.result(&id), json!({}));
    let id = client.prompt(&first, "echo x");
    assert_eq!(client.error(&id)["code"], -32002);
}

#[test]
fn any_session_that_could_have_been_ours_is_resumed() {
    let (mut client, _) = ready(&[], json!({}));
    let resume = |id: &str| json!({"sessionId": id, "cwd": "/tmp", "mcpServers": []});
    let id = client.request("session/resume", resume("demo-77-3"));
    assert_eq!(client.result(&id)["modes"]["currentModeId"], "default");
    let prompt = client.prompt("demo-77-3", "echo back again");
    assert_eq!(client.stop_reason(&prompt), "end_turn");
    assert_eq!(client.unread_text(), "back again");
    let id = client.request("session/resume", resume("somebody-else"));
    assert_eq!(client.error(&id)["code"], -32002);
}

#[test]
fn a_plain_prompt_is_answered_without_asking_anybody() {
    let (mut client, session) = ready(&[], EVERYTHING());
    let id = client.prompt(&session, "hello there");
    assert_eq!(client.stop_reason(&id), "end_turn");
    let seen = client.unread();
    assert!(seen.iter().all(|m| m["method"] == "session/update"), "{seen:#?}");
    for kind in ["agent_thought_chunk", "plan", "tool_call", "tool_call_update", "agent_message_chunk"] {
        assert!(kinds(&seen).contains(&kind), "no {kind}");
    }
    assert_eq!(statuses(&seen), ["in_progress", "completed"]);
    let text: String = seen.iter().filter_map(line::text).collect();
    assert!(text.contains("\"hello there\""), "{text}");
}

#[test]
fn a_plain_prompt_reads_through_the_client() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("README.md"), "the file on disk").unwrap();
    let mut client = agent(&[]);
    client.initialize(EVERYTHING());
    let session = client.new_session(dir.path().to_str().unwrap());
    let id = client.prompt(&session, "hello");
    let read = client.expect("fs/read_text_file");
    assert_eq!(read["params"]["sessionId"], json!(session));
    client.reply(&read, json!({"content": "the file in the editor"}));
    assert_eq!(client.stop_reason(&id), "end_turn");
    assert!(client.unread_text().contains("the file in the editor"));
}

#[test]
fn a_command_runs_in_a_terminal_once_it_is_allowed() {
    let (mut client, session) = ready(&[], EVERYTHING());
    let id = client.prompt(&session, "run something");
    let ask = client.expect("session/request_permission");
    let kinds: Vec<&Value> =
        ask["params"]["options"].as_array().unwrap().iter().map(|o| &o["kind"]).collect();
    assert_eq!(kinds, ["allow_once", "allow_always", "reject_once"]);
    assert_eq!(ask["params"]["toolCall"]["rawInput"]["command"], "uname -a");
    client.choose(&ask, "allow-once");
    let create = client.expect("terminal/create");
    assert_eq!((&create["params"]["command"], &create["params"]["args"]), (&json!("uname"), &json!(["-a"])));
    client.reply(&create, json!({"terminalId": "t1"}));
    let wait = client.expect("terminal/wait_for_exit");
    assert!(shows_terminal(&client.unread()), "the terminal is shown while it runs");
    client.reply(&wait, json!({"exitCode": 0}));
    let output = client.expect("terminal/output");
    client.reply(&output, json!({"output": "Plan 9", "truncated": false}));
    let release = client.expect("terminal/release");
    assert_eq!(release["params"]["terminalId"], "t1");
    client.reply(&release, json!({}));
    assert_eq!(client.stop_reason(&id), "end_turn");
    assert!(client.unread_text().contains("Plan 9"));
}

fn shows_terminal(messages: &[Value]) -> bool {
    messages.iter().any(|m| m["params"]["update"]["content"][0]["terminalId"] == "t1")
}

#[test]
fn a_refused_tool_call_is_shown_as_failed_and_named() {
    let (mut client, session) = ready(&[], EVERYTHING());
    let id = client.prompt(&session, "please edit a file");
    let ask = client.expect("session/request_permission");
    client.choose(&ask, "reject-once");
    assert_eq!(client.stop_reason(&id), "end_turn");
    let seen = client.unread();
    assert_eq!(statuses(&seen).last(), Some(&"failed"));
    let text: String = seen.iter().filter_map(line::text).collect();
    assert!(text.contains("not allowed"), "{text}");
}

#[test]
fn an_allowed_edit_is_written_through_the_client() {
    let (mut client, session) = ready(&[], EVERYTHING());
    let id = client.prompt(&session, "write something");
    let ask = client.expect("session/request_permission");
    assert_eq!(ask["params"]["toolCall"]["content"][0]["type"], "diff");
    client.choose(&ask, "allow-always");
    let write = client.expect("fs/write_text_file");
    client.reply(&write, Value::Null);
    assert_eq!(client.stop_reason(&id), "end_turn");
    assert_eq!(statuses(&client.unread()).last(), Some(&"completed"));
}

#[test]
fn a_cancel_ends_the_turn_while_it_waits_for_permission() {
    let (mut client, session) = ready(&[], json!({}));
    let id = client.prompt(&session, "ask");
    let ask = client.expect("session/request_permission");
    client.cancel(&session);
    client.reply(&ask, json!({"outcome": {"outcome": "cancelled"}}));
    assert_eq!(client.stop_reason(&id), "cancelled");
    let id = client.prompt(&session, "slow 100");
    client.expect_text();
    client.notify("$/cancel_request", json!({"requestId": id}));
    assert_eq!(client.stop_reason(&id), "cancelled");
}

#[test]
fn a_cancel_kills_and_releases_the_terminal() {
    let (mut client, session) = ready(&[], EVERYTHING());
    let id = client.prompt(&session, "term sleep 100");
    let create = client.expect("terminal/create");
    assert_eq!(create["params"]["args"], json!(["-c", "sleep 100"]));
    client.reply(&create, json!({"terminalId": "t1"}));
    client.expect("terminal/wait_for_exit");
    client.cancel(&session);
    assert_eq!(client.stop_reason(&id), "cancelled");
    client.expect("terminal/kill");
    client.expect("terminal/release");
}

#[test]
fn a_second_prompt_during_a_turn_is_refused() {
    let (mut client, session) = ready(&[], json!({}));
    let first = client.prompt(&session, "slow 100");
    let second = client.prompt(&session, "echo x");
    assert_eq!(client.error(&second)["code"], -32600);
    client.cancel(&session);
    assert_eq!(client.stop_reason(&first), "cancelled");
}

#[test]
fn ask_says_what_the_client_chose() {
    for (option, said) in [("allow-once", "allowed: allow-once"), ("reject-once", "refused: reject-once")] {
        let (mut client, session) = ready(&[], json!({}));
        let id = client.prompt(&session, "ask");
        let ask = client.expect("session/request_permission");
        client.choose(&ask, option);
        assert_eq!(client.stop_reason(&id), "end_turn");
        assert_eq!(client.unread_text(), said);
    }
}

#[test]
fn files_and_terminals_can_be_asked_for_one_by_one() {
    let (mut client, session) = ready(&[], EVERYTHING());
    let id = client.prompt(&session, "read /w/a b");
    let read = client.expect("fs/read_text_file");
    assert_eq!(read["params"]["path"], "/w/a b");
    client.reply(&read, json!({"content": "inside"}));
    assert_eq!(client.stop_reason(&id), "end_turn");

    let id = client.prompt(&session, "write /w/a some text");
    let write = client.expect("fs/write_text_file");
    assert_eq!(
        (&write["params"]["path"], &write["params"]["content"]),
        (&json!("/w/a"), &json!("some text"))
    );
    client.refuse(&write, -32603, "disk full");
    assert_eq!(client.stop_reason(&id), "end_turn");

    let id = client.prompt(&session, "term exit 7");
    let create = client.expect("terminal/create");
    client.refuse(&create, -32603, "no terminals today");
    assert_eq!(client.stop_reason(&id), "end_turn");
    let text = client.unread_text();
    assert!(["inside", "disk full", "no terminals today"].iter().all(|t| text.contains(t)), "{text}");
}

#[test]
fn a_service_that_is_not_offered_is_not_called() {
    for prompt in ["read /etc/hostname", "write /tmp/x y", "term true"] {
        assert!(says(prompt).contains("does not offer"), "{prompt}");
    }
}

#[test]
fn echo_and_env_say_what_they_are_asked() {
    assert_eq!(says("Your role.\n\necho some words"), "some words");
    let env: Value = serde_json::from_str(&says("env")).unwrap();
    assert!(env["env"]["PATH"].is_string() && env["cwd"].is_string());
}

#[test]
fn crash_exits_in_the_middle_of_the_turn() {
    let (mut client, session) = ready(&[], json!({}));
    client.prompt(&session, "crash 42");
    client.expect_text();
    client.expect_end(PATIENCE);
    assert_eq!(client.wait_exit(PATIENCE).code(), Some(42));
}

#[test]
fn exit_after_answers_first() {
    let (mut client, session) = ready(&[], json!({}));
    let id = client.prompt(&session, "exit-after");
    assert_eq!(client.stop_reason(&id), "end_turn");
    assert_eq!(client.wait_exit(PATIENCE).code(), Some(0));
}

#[test]
fn hang_ignores_the_cancel_and_blocks_nothing_else() {
    let (mut client, session) = ready(&[], json!({}));
    let hung = client.prompt(&session, "hang");
    client.expect_text();
    client.cancel(&session);
    let other = client.new_session("/tmp");
    let id = client.prompt(&other, "echo still here");
    assert_eq!(client.stop_reason(&id), "end_turn");
    assert!(client.unread().iter().all(|m| m["id"] != hung));
}

#[test]
fn slow_takes_its_time_and_honours_the_cancel() {
    let started = Instant::now();
    assert_eq!(says("slow 3"), "0 1 2 ");
    assert!(started.elapsed() >= Duration::from_millis(300));
    let (mut client, session) = ready(&[], json!({}));
    let id = client.prompt(&session, "slow 1000");
    client.expect_text();
    client.cancel(&session);
    assert_eq!(client.stop_reason(&id), "cancelled");
}

#[test]
fn a_flood_is_numbered_and_complete() {
    let (mut client, session) = ready(&[], json!({}));
    let id = client.prompt(&session, "flood 20000 300");
    assert_eq!(client.stop_reason(&id), "end_turn");
    let seen = client.unread();
    assert_eq!(seen.len(), 20_000);
    for (n, message) in seen.iter().enumerate() {
        let text = line::text(message).unwrap();
        assert_eq!(text.len(), 300);
        assert_eq!(text.split(' ').next(), Some(n.to_string().as_str()));
    }
}

#[test]
fn big_is_one_update() {
    assert_eq!(says("big 3000000").len(), 3_000_000);
}

#[test]
fn late_updates_come_after_the_answer() {
    let (mut client, session) = ready(&[], json!({}));
    let id = client.prompt(&session, "late 3");
    assert_eq!(client.stop_reason(&id), "end_turn");
    assert!(client.unread().len() <= 3);
    let prompt = client.prompt(&session, "echo end");
    client.result(&prompt);
    let position =
        |what: &str| client.raw_lines().iter().position(|l| String::from_utf8_lossy(l).contains(what));
    assert!(position("stopReason") < position("late 0") && position("late 0") < position("late 2"));
}

#[test]
fn garbage_stands_between_two_good_chunks() {
    let (mut client, session) = ready(&[], json!({}));
    client.prompt(&session, "garbage");
    let lines: Vec<String> = (0..11).map(|_| client.next_line()).collect();
    assert!(lines[0].contains("\"before\"") && lines[9].contains("\"after\""), "{lines:#?}");
    assert_eq!(lines[1..4], ["garbage", "", "   "]);
    assert_eq!(lines[4..8], ["[]", "[1]", "{}", "3"]);
    assert!(lines[8].starts_with("{\"jsonrpc\"") && lines[10].contains("end_turn"));
}

#[test]
fn stderr_is_written_as_asked() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("stderr");
    let stderr = std::fs::File::create(&path).unwrap();
    let mut client = Host::spawn(Command::new(ACPVISOR).arg("demo-agent").stderr(stderr));
    client.initialize(json!({}));
    let session = client.new_session("/tmp");
    let id = client.prompt(&session, "stderr 100001");
    assert_eq!(client.stop_reason(&id), "end_turn");
    assert_eq!(std::fs::metadata(path).unwrap().len(), 100_001);
}

#[test]
fn close_stdout_lives_on_without_it() {
    let (mut client, session) = ready(&[], json!({}));
    client.prompt(&session, "close-stdout");
    client.expect_end(PATIENCE);
    assert!(alive(client.pid()));
    client.close_write();
    assert_eq!(client.wait_exit(PATIENCE).code(), Some(0));
}

#[test]
fn stop_stops_the_process_until_it_is_continued() {
    let (mut client, session) = ready(&[], json!({}));
    let id = client.prompt(&session, "stop");
    client.expect_text();
    let pid = client.pid();
    wait_until("the process is stopped", PATIENCE, || process::stopped(pid));
    process::signal(pid, Signal::CONT);
    assert_eq!(client.stop_reason(&id), "end_turn");
}

#[test]
fn fork_leaves_three_kinds_of_processes() {
    let (mut client, session) = ready(&[], json!({}));
    let id = client.prompt(&session, "fork");
    assert_eq!(client.stop_reason(&id), "end_turn");
    let pids: Value = serde_json::from_str(&client.unread_text()).unwrap();
    let pid = |name: &str| u32::try_from(pids[name].as_u64().unwrap()).unwrap();
    let below = process::descendants(client.pid());
    assert!(["child", "parent", "setsid"].iter().all(|name| below.contains(&pid(name))), "{below:?}");
    assert!(!below.contains(&pid("orphan")));
    let leads = |pid| Path::new("/proc").join(format!("{pid}/stat"));
    // A process is named before it leaves its parent's session.
    wait_until("both lead sessions", PATIENCE, || {
        ["setsid", "orphan"].iter().all(|name| own_session(&leads(pid(name)), pid(name)))
    });
    assert!(!own_session(&leads(pid("child")), pid("child")));
    client.close_write();
    client.wait_exit(PATIENCE);
    for name in ["child", "parent", "setsid", "orphan"] {
        assert!(alive(pid(name)), "{name} outlives the agent");
        process::signal(pid(name), Signal::KILL);
    }
}

fn own_session(stat: &Path, pid: u32) -> bool {
    let stat = std::fs::read_to_string(stat).unwrap();
    stat.rsplit_once(") ").unwrap().1.split(' ').nth(3) == Some(pid.to_string().as_str())
}

#[test]
fn the_end_of_stdin_ends_it_unless_it_ignores_that() {
    let mut client = agent(&[]);
    client.close_write();
    assert_eq!(client.wait_exit(PATIENCE).code(), Some(0));
    let (mut client, session) = ready(&["--ignore-eof"], json!({}));
    client.prompt(&session, "slow 2");
    client.close_write();
    while client.expect_text() != "1 " {}
    assert!(alive(client.pid()));
}

#[test]
fn sigterm_ends_it_unless_it_ignores_that() {
    let (mut client, _) = ready(&[], json!({}));
    process::signal(client.pid(), Signal::TERM);
    assert_eq!(client.wait_exit(PATIENCE).code(), None);
    let (mut client, session) = ready(&["--ignore-term"], json!({}));
    process::signal(client.pid(), Signal::TERM);
    let id = client.prompt(&session, "echo alive");
    assert_eq!(client.stop_reason(&id), "end_turn");
}

#[test]
fn initialize_can_be_late_or_never_answered() {
    let started = Instant::now();
    agent(&["--init-delay", "200"]).initialize(json!({}));
    assert!(started.elapsed() >= Duration::from_millis(200));
    let mut client = agent(&["--no-init"]);
    client.request_initialize(json!({}));
    let early = client.request_session("/tmp");
    assert_eq!(client.error(&early)["code"], -32600);
    assert!(client.unread().is_empty());
}

#[test]
fn its_words_are_listed_where_people_look() {
    let help = Command::new(ACPVISOR).args(["demo-agent", "--help"]).output().unwrap();
    assert_eq!((help.status.code(), help.stderr.len()), (Some(0), 0), "{help:?}");
    let help = String::from_utf8(help.stdout).unwrap();
    let manual = include_str!("../../README.md");
    let commands = help.lines().skip_while(|line| !line.starts_with("A prompt")).skip(1);
    let words: Vec<&str> = commands.filter_map(|line| line.strip_prefix("  ")?.split("  ").next()).collect();
    assert!(words.len() > 15 && words.contains(&"help"), "{help}");
    for word in words {
        assert!(manual.contains(&format!("| `{}` |", word.trim())), "README.md does not list `{word}`");
    }
}

#[test]
fn wrong_arguments_are_named() {
    let output = Command::new(ACPVISOR).args(["demo-agent", "--nmae", "x"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--nmae"));
}
