//! The bridge between an editor made of two pipes and a daemon made of a socket, and the binary in its place.

#![allow(clippy::unwrap_used)]

use std::{
    io::{BufRead, BufReader, PipeReader, PipeWriter, Read, Write, pipe},
    net::Shutdown,
    os::unix::{
        net::{UnixListener, UnixStream},
        process::ExitStatusExt,
    },
    process::{Child, Command, Output, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use acpvisor::{
    bridge::{End, join},
    limits::LINE_BYTES_MAX,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

const HELLO: &str = "{\"hello\":1}\n";
const PROMPT: &str = "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"session/prompt\",\"params\":{}}\n";
const UPDATE: &str = "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{}}\n";
const TURNED_AWAY: &str =
    "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32603,\"message\":\"too many\"}}\n";
const DEADLINE: Duration = Duration::from_secs(10);

/// Both far ends of a bridge at work.
struct Bridged {
    stdin: Option<PipeWriter>,
    stdout: BufReader<PipeReader>,
    daemon: UnixStream,
    end: Receiver<End>,
}

impl Bridged {
    fn new() -> Self {
        let (stdin, to_bridge) = pipe().unwrap();
        let (from_bridge, stdout) = pipe().unwrap();
        let (daemon, socket) = UnixStream::pair().unwrap();
        let (ended, end) = channel();
        thread::spawn(move || ended.send(join(stdin, stdout, socket, HELLO.as_bytes()).unwrap()).unwrap());
        let mut bridged = Self { stdin: Some(to_bridge), stdout: BufReader::new(from_bridge), daemon, end };
        assert_eq!(bridged.daemon_reads(HELLO.len()), HELLO);
        bridged
    }

    fn editor_writes(&mut self, text: &str) {
        self.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn editor_reads(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line
    }

    /// Everything that still comes, each line strictly JSON.
    fn editor_reads_to_end(mut self) -> Vec<Value> {
        drop(self.stdin.take());
        let mut text = String::new();
        self.stdout.read_to_string(&mut text).unwrap();
        assert!(text.is_empty() || text.ends_with('\n'), "torn: {text}");
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn daemon_reads(&mut self, bytes: usize) -> String {
        let mut text = vec![0; bytes];
        self.daemon.read_exact(&mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    fn daemon_writes(&mut self, text: &str) {
        self.daemon.write_all(text.as_bytes()).unwrap();
    }

    fn opened(&mut self, request: &str) {
        self.editor_writes(request);
        assert_eq!(self.daemon_reads(request.len()), request);
    }

    fn end(&self) -> End {
        self.end.recv_timeout(DEADLINE).unwrap()
    }

    /// The daemon's process is gone: both halves at once, whatever other handles there are.
    fn daemon_dies(&self) {
        self.daemon.shutdown(Shutdown::Both).unwrap();
    }
}

/// R252: bytes pass as they are, in both directions.
#[test]
fn bytes_pass_unchanged_both_ways() {
    let mut bridged = Bridged::new();
    let odd = "{ \"id\" : 1e400,\t\"method\":\"x\" , \"é\\u2028\":null}\r\n\n[]\nnot json\n";
    bridged.opened(odd);
    bridged.daemon_writes(odd);
    let mut back = vec![0; odd.len()];
    bridged.stdout.read_exact(&mut back).unwrap();
    assert_eq!(back, odd.as_bytes());
}

/// R252: whole lines only, however the daemon's writes were cut.
#[test]
fn a_line_in_pieces_comes_out_whole_and_long_ones_too() {
    let mut bridged = Bridged::new();
    let long = format!("\"{}\"\n", "x".repeat(3 << 20));
    for piece in [UPDATE, &UPDATE[..9], &UPDATE[9..], &UPDATE[..20]] {
        bridged.daemon_writes(piece);
    }
    assert_eq!((bridged.editor_reads(), bridged.editor_reads()), (UPDATE.to_owned(), UPDATE.to_owned()));
    bridged.daemon_writes(&UPDATE[20..]);
    assert_eq!(bridged.editor_reads(), UPDATE);
    let mut daemon = bridged.daemon.try_clone().unwrap();
    let sent = long.clone();
    let writer = thread::spawn(move || daemon.write_all(sent.as_bytes()).unwrap());
    assert_eq!(bridged.editor_reads(), long);
    writer.join().unwrap();
}

/// R252, R280: the daemon dies in the middle of a line of a turn: no torn line, one error answer.
#[test]
fn a_daemon_that_dies_in_a_line_leaves_one_error_per_open_request() {
    let mut bridged = Bridged::new();
    bridged.opened("{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"session/new\"}\n");
    bridged.opened(PROMPT);
    bridged.daemon_writes("{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":{}}\n");
    bridged.daemon_writes(UPDATE);
    bridged.daemon_writes("{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"stopReas");
    bridged.daemon_dies();
    assert_eq!(bridged.end(), End::DaemonGone);
    let lines = bridged.editor_reads_to_end();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[2]["id"], 7);
    assert_eq!(lines[2]["error"]["code"], -32603);
    assert_eq!(lines[2]["error"]["message"], "acpvisor daemon went away");
    assert_eq!(lines[2]["error"]["data"]["retryable"], true);
}

/// R252: a daemon that only stops reading is as good as gone, but what it wrote before still passes.
#[test]
fn a_daemon_that_takes_nothing_more_is_read_to_its_end() {
    let mut bridged = Bridged::new();
    bridged.daemon_writes(UPDATE);
    bridged.daemon.shutdown(Shutdown::Read).unwrap();
    bridged.editor_writes(PROMPT);
    assert_eq!(bridged.end(), End::DaemonGone);
    let lines = bridged.editor_reads_to_end();
    assert_eq!((lines.len(), &lines[1]["id"]), (2, &Value::from(7)));
}

/// R252: the end of stdin ends the bridge within a second, and the daemon sees it.
#[test]
fn the_end_of_stdin_ends_the_bridge_and_reaches_the_daemon() {
    let mut bridged = Bridged::new();
    drop(bridged.stdin.take());
    assert_eq!(bridged.end(), End::StdinClosed);
    assert_eq!(bridged.daemon.read(&mut [0; 8]).unwrap(), 0);
    assert!(bridged.editor_reads_to_end().is_empty());
}

/// R252: an answer that is on its way when stdin ends still passes.
#[test]
fn an_open_request_is_waited_for_a_moment_after_stdin_ends() {
    let mut bridged = Bridged::new();
    // the last line of a script often lacks its newline
    bridged.editor_writes(&PROMPT[..PROMPT.len() - 1]);
    drop(bridged.stdin.take());
    assert_eq!(bridged.daemon_reads(PROMPT.len() - 1), PROMPT[..PROMPT.len() - 1]);
    bridged.daemon_writes("{\"id\":7,\"result\":{}}\n");
    assert_eq!(bridged.end(), End::StdinClosed);
    assert_eq!(bridged.editor_reads_to_end().len(), 1);
}

/// R252: and not longer: the bridge answers for the daemon then.
#[test]
fn a_request_nobody_answers_does_not_hold_the_bridge() {
    let mut bridged = Bridged::new();
    bridged.opened(PROMPT);
    let closed = Instant::now();
    drop(bridged.stdin.take());
    assert_eq!(bridged.end(), End::StdinClosed);
    assert!(closed.elapsed() < Duration::from_secs(1));
    let lines = bridged.editor_reads_to_end();
    assert_eq!((lines.len(), &lines[0]["id"]), (1, &Value::from(7)));
    assert_eq!(lines[0]["error"]["message"], "stdin ended before the answer");
}

/// R252: what the daemon says under no id before it ends passes, also after stdin has ended.
#[test]
fn a_word_on_junk_passes_after_stdin_ends() {
    let mut bridged = Bridged::new();
    bridged.opened("junk\n");
    drop(bridged.stdin.take());
    assert_eq!(bridged.daemon.read(&mut [0; 8]).unwrap(), 0);
    bridged.daemon_writes(TURNED_AWAY);
    bridged.daemon_dies();
    assert_eq!(bridged.end(), End::StdinClosed);
    assert_eq!(bridged.editor_reads_to_end().len(), 1);
}

/// R255: a daemon that says why it closes the connection has not gone away, and open requests hear why.
#[test]
fn a_daemon_that_turns_the_editor_away_is_quoted() {
    let mut bridged = Bridged::new();
    bridged.opened(PROMPT);
    bridged.daemon_writes(TURNED_AWAY);
    bridged.daemon_dies();
    assert_eq!(bridged.end(), End::DaemonClosed("too many".to_owned()));
    let lines = bridged.editor_reads_to_end();
    assert_eq!((lines.len(), &lines[1]["id"]), (2, &Value::from(7)));
    assert_eq!(lines[1]["error"]["message"], "acpvisor daemon closed the connection: too many");
}

/// R252: neither a daemon that is stopped nor an editor that does not read keeps the bridge after stdin's end.
#[test]
fn full_buffers_do_not_hold_the_bridge() {
    let mut bridged = Bridged::new();
    let mut daemon = bridged.daemon.try_clone().unwrap();
    let flood = thread::spawn(move || while daemon.write_all(UPDATE.as_bytes()).is_ok() {});
    // without a newline the bridge gathers it, and passes it on when stdin ends: to a daemon that never reads
    bridged.editor_writes(&"x".repeat(900 << 10));
    let closed = Instant::now();
    drop(bridged.stdin.take());
    assert_eq!(bridged.end(), End::StdinClosed);
    assert!(closed.elapsed() < Duration::from_millis(1500));
    flood.join().unwrap();
}

/// R10: an editor that writes before it reads is served, however much waits for it.
#[test]
fn requests_pass_while_stdout_is_blocked() {
    let mut bridged = Bridged::new();
    let mut daemon = bridged.daemon.try_clone().unwrap();
    let flood = thread::spawn(move || while daemon.write_all(UPDATE.as_bytes()).is_ok() {});
    for _ in 0..1_000 {
        bridged.opened(PROMPT);
    }
    bridged.daemon_dies();
    flood.join().unwrap();
    assert_eq!(bridged.editor_reads(), UPDATE);
}

/// R252: an editor that is gone is no error.
#[test]
fn a_broken_stdout_ends_quietly() {
    let bridged = Bridged::new();
    let Bridged { stdin: _stdin, stdout, mut daemon, end } = bridged;
    drop(stdout);
    while daemon.write_all(UPDATE.as_bytes()).is_ok() {}
    assert_eq!(end.recv_timeout(DEADLINE).unwrap(), End::StdoutClosed);
}

/// R9: a line over the ceiling is not gathered; the daemon sees it pass, and the next line is a line again.
#[test]
fn an_overlong_line_of_the_editor_passes_in_pieces() {
    let mut bridged = Bridged::new();
    let long = LINE_BYTES_MAX + (4 << 20);
    let mut stdin = bridged.stdin.take().unwrap();
    let editor = thread::spawn(move || {
        for _ in 0..long >> 20 {
            stdin.write_all(&vec![b'x'; 1 << 20]).unwrap();
        }
        stdin.write_all(b"\n").unwrap();
        stdin.write_all(PROMPT.as_bytes()).unwrap();
        stdin
    });
    let mut left = long + 1;
    let mut piece = vec![0; 1 << 20];
    while left > 0 {
        let count = piece.len().min(left);
        left -= bridged.daemon.read(&mut piece[..count]).unwrap();
    }
    assert_eq!(bridged.daemon_reads(PROMPT.len()), PROMPT);
    drop(editor.join().unwrap());
}

/// R9: a daemon that never ends its line is no daemon.
#[test]
fn an_endless_line_of_the_daemon_ends_the_bridge() {
    let mut bridged = Bridged::new();
    bridged.opened(PROMPT);
    let mut daemon = bridged.daemon.try_clone().unwrap();
    let flood = thread::spawn(move || while daemon.write_all(&vec![b'x'; 1 << 20]).is_ok() {});
    assert_eq!(bridged.end.recv_timeout(DEADLINE * 3).unwrap(), End::DaemonGone);
    let lines = bridged.editor_reads_to_end();
    assert_eq!((lines.len(), &lines[0]["id"]), (1, &Value::from(7)));
    flood.join().unwrap();
}

/// The binary, on a machine of its own.
struct Machine {
    dir: TempDir,
}

impl Machine {
    fn new() -> Self {
        Self { dir: tempfile::Builder::new().prefix("acpv").tempdir().unwrap() }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_acpvisor"));
        command.args(args).env_clear().env("HOME", self.dir.path()).env("PATH", "/usr/bin:/bin");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn host_socket(&self) -> std::path::PathBuf {
        self.dir.path().join(".local/state/acpvisor/run/host.sock")
    }

    /// A bridge and the daemon's end of its connection, hello read.
    fn bridged(&self) -> (Child, BufReader<UnixStream>) {
        let socket = self.host_socket();
        std::fs::create_dir_all(socket.parent().unwrap()).unwrap();
        let listener = UnixListener::bind(socket).unwrap();
        let child = self.command(&["acp", "--agent", "demo"]).spawn().unwrap();
        let mut daemon = BufReader::new(listener.accept().unwrap().0);
        let mut hello = String::new();
        daemon.read_line(&mut hello).unwrap();
        let hello: Value = serde_json::from_str(&hello).unwrap();
        assert_eq!(hello["method"], "_acpvisor/hello");
        assert_eq!(hello["params"]["agent"], "demo");
        assert_eq!(hello["params"]["env"]["PATH"], "/usr/bin:/bin");
        assert_eq!(hello["params"]["env"]["HOME"], Value::Null);
        (child, daemon)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // most never had a daemon
        let _ = self.command(&["stop"]).output();
    }
}

const INITIALIZE: &[u8] =
    b"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":1}}\n";

/// Sends initialize, closes stdin after the answer, and gives the answer with everything else.
fn initialized(mut child: Child) -> (Value, Output) {
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(INITIALIZE).unwrap();
    let mut answer = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut answer).unwrap();
    drop(stdin);
    (serde_json::from_str(&answer).unwrap(), child.wait_with_output().unwrap())
}

/// R253: without a daemon and without leave to start one, both the user and the editor are told what to do.
#[test]
fn no_start_answers_the_editor_and_tells_the_user() {
    let machine = Machine::new();
    let (answer, output) = initialized(machine.command(&["acp", "--no-start"]).spawn().unwrap());
    assert_eq!(output.status.code(), Some(3));
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::from(0), &Value::from(-32603)));
    let said = String::from_utf8(output.stderr).unwrap();
    for text in [answer["error"]["message"].as_str().unwrap(), &said] {
        assert!(text.contains("start one with: acpvisor daemon"), "{text}");
    }
    assert_eq!(said.lines().count(), 1);
}

/// R253: a runtime directory that cannot be made is a clear error, at the editor too.
#[test]
fn a_daemon_that_cannot_start_is_quoted_to_the_editor() {
    let machine = Machine::new();
    let mut command = machine.command(&["acp"]);
    let (answer, output) = initialized(command.env("XDG_RUNTIME_DIR", "/proc/none").spawn().unwrap());
    assert_eq!(output.status.code(), Some(1));
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("/proc/none"), "{message}");
}

/// R252: ended by a signal while nothing is written: at once, and without a word.
#[test]
fn signals_end_the_bridge_quietly() {
    for (signal, code) in [(Signal::TERM, 0), (Signal::HUP, 0), (Signal::INT, 130)] {
        let machine = Machine::new();
        let (mut child, mut daemon) = machine.bridged();
        let _open = child.stdin.take();
        // what has passed once shows that all threads stand
        daemon.get_mut().write_all(UPDATE.as_bytes()).unwrap();
        let sent = Instant::now();
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(sent.elapsed() < Duration::from_secs(1));
        assert_eq!((output.status.code(), output.status.signal()), (Some(code), None), "{signal:?}");
        assert!(output.stderr.is_empty());
        assert!(output.stdout.is_empty() || output.stdout == UPDATE.as_bytes());
    }
}

/// R252: the daemon's end is told to the user, and only there.
#[test]
fn the_end_of_the_daemon_is_told() {
    let machine = Machine::new();
    let (mut child, daemon) = machine.bridged();
    let _open = child.stdin.take();
    drop(daemon);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(output.stderr, b"acpvisor: the daemon went away\n");
    assert!(output.stdout.is_empty());
}

/// R252, R280: kill -9 the daemon in a turn: no torn line, one error for the prompt, and the bridge ends.
#[test]
fn a_daemon_killed_in_a_turn_leaves_whole_lines_and_one_error() {
    let machine = Machine::new();
    let mut child = machine.command(&["acp", "--agent", "demo"]).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    let mut answer = |id: u64| -> Value {
        let mut lines = stdout.by_ref().map(|line| serde_json::from_str(&line).unwrap());
        lines.find(|line: &Value| line["id"] == id).unwrap()
    };
    stdin.write_all(INITIALIZE).unwrap();
    answer(0);
    let new = json!({ "jsonrpc": "2.0", "id": 1, "method": "session/new",
        "params": { "cwd": "/", "mcpServers": [] } });
    writeln!(stdin, "{new}").unwrap();
    let session = answer(1)["result"]["sessionId"].clone();
    let prompt = json!({ "jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": {
        "sessionId": session, "prompt": [{ "type": "text", "text": "flood 10000000" }] } });
    writeln!(stdin, "{prompt}").unwrap();
    assert!(stdout.next().unwrap().contains("session/update"), "the turn runs");
    let status = machine.command(&["status", "--json"]).output().unwrap();
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    let pid = status["pid"].as_i64().and_then(|pid| Pid::from_raw(pid.try_into().unwrap())).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    // each line is read as strictly as the first
    let rest: Vec<Value> = stdout.map(|line| serde_json::from_str(&line).unwrap()).collect();
    let answers: Vec<_> = rest.iter().filter(|line| line.get("id").is_some()).collect();
    assert_eq!(answers.len(), 1);
    assert_eq!((&answers[0]["id"], &answers[0]["error"]["code"]), (&Value::from(2), &Value::from(-32603)));
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(1));
}

/// R253: 20 bridges at once on a fresh machine: one daemon, 20 working hosts.
#[test]
fn twenty_bridges_at_once_share_one_daemon() {
    let machine = Machine::new();
    let bridges: Vec<_> = (0..20).map(|_| machine.command(&["acp"]).spawn().unwrap()).collect();
    let bridges: Vec<_> = bridges.into_iter().map(|child| thread::spawn(|| initialized(child))).collect();
    for bridge in bridges {
        let (answer, output) = bridge.join().unwrap();
        assert_eq!(answer["result"]["protocolVersion"], 1, "{answer}");
        assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
    }
    let stopped = machine.command(&["stop"]).output().unwrap();
    assert!(stopped.status.success(), "{stopped:?}");
}
