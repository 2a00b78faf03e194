//! The scripted peer itself, played against a plain host without a daemon between them: what the other tests
//! stand on.

use std::{
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, Stdio},
};

use rustix::process::Signal;
use serde_json::json;
use tempfile::TempDir;

use crate::{
    host::Host,
    line,
    peer::{Peer, Puppets},
    process::{self, PATIENCE, alive, wait_until},
    sandbox::ACPVISOR,
};

fn start(socket: &Path, flags: &[&str]) -> Host {
    let mut command = Command::new(ACPVISOR);
    command.args(["demo-agent", "--puppet", socket.to_str().unwrap()]).args(flags);
    // A group of its own, as under the daemon: ours may be led from outside our PID namespace, and then has no number.
    Host::spawn(command.env("MARK", "here").stderr(Stdio::null()).process_group(0))
}

/// A host and the process it talks to.
fn pair(flags: &[&str]) -> (Host, Peer, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("p.sock");
    let mut puppets = Puppets::listen(&socket);
    let host = start(&socket, flags);
    (host, puppets.next(), dir)
}

#[test]
fn a_process_says_who_it_is() {
    let (host, peer, _dir) = pair(&[]);
    assert_eq!(peer.pid(), host.pid());
    assert_eq!(peer.hello.ppid, std::process::id());
    assert_eq!(peer.hello.env["MARK"], "here");
    assert_eq!(peer.hello.cwd, std::env::current_dir().unwrap().to_str().unwrap());
    assert!(peer.hello.args.contains(&"--puppet".to_owned()));
}

#[test]
fn both_ends_hear_each_other_byte_for_byte() {
    let (mut host, mut peer, _dir) = pair(&[]);
    let id = host.request_initialize(json!({}));
    let session = host.request_session("/tmp");
    let (initialize, new) = peer.handshake(json!({"loadSession": true}));
    assert_eq!(initialize["params"]["clientInfo"]["name"], "scripted-host");
    assert_eq!(new["params"]["cwd"], "/tmp");
    assert_eq!(host.result(&id)["agentCapabilities"]["loadSession"], true);
    assert_eq!(host.result(&session)["sessionId"], json!(peer.session()));
    let odd = r#"{"jsonrpc":"2.0","method":"x","params":{"n":1.10,"e":1e400,"s":"é\u0041"}}"#;
    host.send_line(odd);
    peer.expect("x");
    assert_eq!(peer.raw_lines().last().unwrap(), odd.as_bytes());
    peer.raw(&odd.as_bytes()[..10]);
    peer.raw(&odd.as_bytes()[10..]);
    peer.raw(b"\n");
    host.expect("x");
    assert_eq!(host.raw_lines().last().unwrap(), odd.as_bytes());
}

#[test]
fn requests_go_both_ways() {
    let (mut host, mut peer, _dir) = pair(&[]);
    let id = peer.request("fs/read_text_file", json!({"path": "/a"}));
    let asked = host.expect("fs/read_text_file");
    host.refuse(&asked, -32601, "no files");
    assert_eq!(peer.answer(&id)["error"]["code"], -32601);
    peer.notify("foo/bar", json!({}));
    host.expect("foo/bar");
    let id = host.request("foo", json!({}));
    let asked = peer.expect("foo");
    peer.error(&asked, -32603, "no");
    assert_eq!(host.error(&id)["code"], -32603);
}

#[test]
fn willing_processes_answer_the_handshake_themselves() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("p.sock");
    let mut puppets = Puppets::listen(&socket).willing();
    let mut idle = start(&socket, &[]);
    idle.initialize(json!({}));
    let mut busy = start(&socket, &[]);
    assert_eq!(busy.initialize(json!({}))["agentInfo"]["name"], "puppet");
    let session = busy.new_session("/tmp");
    let mut peer = puppets.serving();
    assert_eq!((peer.session(), peer.pid()), (session.clone(), busy.pid()));
    assert_eq!(puppets.untaken(), 1);
    let id = busy.prompt(&session, "hi");
    peer.update("hello");
    let prompt = peer.expect("session/prompt");
    peer.end_turn(&prompt);
    assert_eq!(busy.stop_reason(&id), "end_turn");
    assert_eq!(busy.expect_text(), "hello");
}

#[test]
fn it_exits_as_ordered_after_what_was_said() {
    let (mut host, mut peer, _dir) = pair(&[]);
    let half = b"{\"half";
    peer.raw(half);
    peer.command("exit 3");
    assert_eq!(host.next_line().as_bytes(), half);
    assert_eq!(host.wait_exit(PATIENCE).code(), Some(3));
    peer.wait_gone();
}

#[test]
fn the_end_of_stdin_is_told() {
    let (mut host, mut peer, _dir) = pair(&[]);
    host.close_write();
    peer.wait_eof();
    assert_eq!(host.wait_exit(PATIENCE).code(), Some(0));
    let (mut host, mut peer, _dir) = pair(&["--ignore-eof"]);
    host.close_write();
    peer.wait_eof();
    peer.obey("stderr still here");
    assert!(alive(peer.pid()));
}

#[test]
fn sigterm_is_told_when_it_is_ignored() {
    let (_host, mut peer, _dir) = pair(&["--ignore-term"]);
    process::signal(peer.pid(), Signal::TERM);
    peer.wait_note("term");
    assert!(alive(peer.pid()));
    let (mut host, peer, _dir) = pair(&[]);
    process::signal(peer.pid(), Signal::TERM);
    assert_eq!(host.wait_exit(PATIENCE).code(), None);
}

#[test]
fn its_ends_can_be_closed_one_by_one() {
    let (mut host, mut peer, _dir) = pair(&[]);
    peer.obey("close-stdin");
    wait_until("writing fails", PATIENCE, || host.try_send_raw(b"x\n").is_err());
    peer.update_as("s", "still talking");
    assert_eq!(host.expect_text(), "still talking");
    peer.obey("close-stdout");
    host.expect_end(PATIENCE);
    assert!(alive(peer.pid()));
}

#[test]
fn reading_can_be_stopped_and_resumed() {
    let (mut host, mut peer, _dir) = pair(&[]);
    peer.obey("stop-reading");
    host.notify("unheard", json!({}));
    peer.obey("stderr x");
    assert!(peer.unread().is_empty());
    peer.obey("resume-reading");
    peer.expect("unheard");
}

#[test]
fn it_can_be_stopped_by_its_own_signal() {
    let (mut host, mut peer, _dir) = pair(&[]);
    peer.command("sigstop");
    let pid = peer.pid();
    wait_until("the process is stopped", PATIENCE, || process::stopped(pid));
    process::signal(pid, Signal::CONT);
    peer.wait_note("done sigstop");
    host.notify("awake", json!({}));
    peer.expect("awake");
}

#[test]
fn its_children_are_named_and_outlive_it() {
    let (_host, mut peer, _dir) = pair(&[]);
    let mut pids = peer.spawn("spawn-sleep");
    pids.extend(peer.spawn("spawn-setsid"));
    pids.extend(peer.spawn("spawn-orphan"));
    assert_eq!(pids.len(), 4);
    peer.command("exit 0");
    peer.wait_gone();
    for pid in pids {
        assert!(alive(pid));
        process::signal(pid, Signal::KILL);
    }
}

#[test]
fn a_flood_does_not_pass_through_the_test() {
    let (mut host, mut peer, _dir) = pair(&[]);
    peer.obey("flood 5000 64 some session");
    for n in 0..5000 {
        let update = host.expect_update();
        assert_eq!(update["params"]["sessionId"], "some session");
        assert!(line::text(&update).unwrap().starts_with(&format!("{n} ")));
    }
}

#[test]
fn a_host_that_does_not_read_blocks_its_peer() {
    let (mut host, mut peer, _dir) = pair(&[]);
    host.stop_reading();
    peer.command("flood 20000 300 s");
    peer.command("stderr after the flood");
    // The pipe holds 64 KiB and the reader at most as much again, of six megabytes.
    assert!(!peer.heard("done flood"));
    host.resume_reading();
    peer.wait_note("done stderr");
    let last = (0..20_000).map(|_| host.expect_text()).last().unwrap();
    assert!(last.starts_with("19999 "));
}
