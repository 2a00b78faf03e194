//! The bridge between an editor made of two pipes and a daemon made of a socket pair.

use std::{
    io::{BufRead, BufReader, PipeReader, PipeWriter, Read, Write, pipe},
    net::Shutdown,
    os::unix::net::UnixStream,
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use acpvisor::{
    bridge::{End, join},
    limits::LINE_BYTES_MAX,
};
use serde_json::Value;

const HELLO: &str = "{\"hello\":1}\n";
const PROMPT: &str = "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"session/prompt\",\"params\":{}}\n";
const UPDATE: &str = "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{}}\n";
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

/// R252: and not longer: nothing is answered to an editor that has left.
#[test]
fn a_request_nobody_answers_does_not_hold_the_bridge() {
    let mut bridged = Bridged::new();
    bridged.opened(PROMPT);
    let closed = Instant::now();
    drop(bridged.stdin.take());
    assert_eq!(bridged.end(), End::StdinClosed);
    assert!(closed.elapsed() < Duration::from_secs(1));
    assert!(bridged.editor_reads_to_end().is_empty());
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
