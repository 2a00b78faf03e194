//! The driver: an editor that counts lines and looks into as few as it can.

use std::{
    fs::File,
    io::{Read, Write},
    os::fd::OwnedFd,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use memchr::memmem;
use serde::Deserialize;

use crate::Outcome;

/// As much as a read may bring.
const READ_BYTES: usize = 256 << 10;
/// The answer to a prompt is shorter than this, and the last line of its turn.
const TAIL_BYTES: usize = 512;
/// For a process whose stdin is closed to end.
const END_MAX: Duration = Duration::from_secs(3);

/// One connection with one session.
pub struct Host {
    child: Child,
    stdin: Option<File>,
    stdout: File,
    buffer: Vec<u8>,
    filled: usize,
    next_id: u64,
    session: String,
    /// From the start of the process to its first session.
    pub cold: Duration,
}

/// Updates to ask for.
#[derive(Debug, Clone, Copy)]
pub struct Flood {
    /// How the agent makes them: its word for it.
    pub made: &'static str,
    /// How many.
    pub count: usize,
    /// Bytes of text in each.
    pub bytes: usize,
}

/// What the driver reads of an answer.
#[derive(Deserialize)]
struct Answer {
    id: Option<u64>,
    method: Option<String>,
    result: Option<Created>,
    error: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Created {
    #[serde(rename = "sessionId")]
    session_id: Option<String>,
}

impl Host {
    /// Starts the process, initializes it and makes a session.
    pub fn open(mut command: Command) -> Outcome<Self> {
        let began = Instant::now();
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdin = child.stdin.take().map(OwnedFd::from).map(File::from);
        let stdout = File::from(OwnedFd::from(child.stdout.take().ok_or("no stdout")?));
        let mut host = Self {
            child,
            stdin,
            stdout,
            buffer: vec![0; READ_BYTES],
            filled: 0,
            next_id: 0,
            session: String::new(),
            cold: Duration::ZERO,
        };
        host.call("initialize", r#"{"protocolVersion":1,"clientCapabilities":{}}"#)?;
        let created = host.call("session/new", r#"{"cwd":"/tmp","mcpServers":[]}"#)?;
        host.session = created.and_then(|created| created.session_id).ok_or("no session")?;
        host.cold = began.elapsed();
        Ok(host)
    }

    /// One request of the session, there and back.
    pub fn round_trip(&mut self, method: &str) -> Outcome<Duration> {
        let params = format!(
            r#"{{"sessionId":"{}","modeId":"m","prompt":[{{"type":"text","text":"ping"}}]}}"#,
            self.session
        );
        let began = Instant::now();
        self.call(method, &params)?;
        Ok(began.elapsed())
    }

    /// Asks for a flood and leaves it to be read.
    pub fn ask(&mut self, flood: Flood) -> Outcome<()> {
        let Flood { made, count, bytes } = flood;
        let params = format!(
            r#"{{"sessionId":"{}","prompt":[{{"type":"text","text":"{made} {count} {bytes}"}}]}}"#,
            self.session
        );
        self.send("session/prompt", &params)
    }

    /// Reads to the end of the turn, which must bring so many lines before its answer.
    pub fn read_flood(&mut self, count: usize) -> Outcome<()> {
        let mut lines = 0;
        loop {
            self.fill()?;
            let new = &self.buffer[..self.filled];
            lines += memchr::memchr_iter(b'\n', new).count();
            let tail = &new[new.len().saturating_sub(TAIL_BYTES)..];
            if tail.ends_with(b"\n") && memmem::find(tail, b"\"stopReason\"").is_some() {
                self.filled = 0;
                return match count.checked_sub(lines - 1) {
                    Some(lost @ 1..) => Err(format!("{lost} of {count} updates were lost").into()),
                    _ => Ok(()),
                };
            }
            // an answer may be torn between two reads: its start stays in sight, and is not counted again
            let kept = self.filled - memchr::memrchr(b'\n', new).map_or(0, |newline| newline + 1);
            let kept = if kept > TAIL_BYTES { 0 } else { kept };
            self.buffer.copy_within(self.filled - kept..self.filled, 0);
            self.filled = kept;
        }
    }

    /// A whole flood; an update that is missing is an error.
    pub fn flood(&mut self, flood: Flood) -> Outcome<Duration> {
        let began = Instant::now();
        self.ask(flood)?;
        self.read_flood(flood.count)?;
        Ok(began.elapsed())
    }

    fn call(&mut self, method: &str, params: &str) -> Outcome<Option<Created>> {
        self.send(method, params)?;
        loop {
            while let Some(newline) = memchr::memchr(b'\n', &self.buffer[..self.filled]) {
                let answer: Answer = serde_json::from_slice(&self.buffer[..newline])?;
                self.buffer.copy_within(newline + 1..self.filled, 0);
                self.filled -= newline + 1;
                if answer.id != Some(self.next_id) || answer.method.is_some() {
                    continue;
                }
                return match answer.error {
                    Some(error) => Err(format!("{method} was answered {error}").into()),
                    None => Ok(answer.result),
                };
            }
            self.fill()?;
        }
    }

    fn send(&mut self, method: &str, params: &str) -> Outcome<()> {
        self.next_id += 1;
        let id = self.next_id;
        let line =
            format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}\n");
        Ok(self.stdin.as_mut().ok_or("closed")?.write_all(line.as_bytes())?)
    }

    fn fill(&mut self) -> Outcome<()> {
        match self.stdout.read(&mut self.buffer[self.filled..])? {
            0 => Err("the far end went away".into()),
            count => {
                self.filled += count;
                Ok(())
            }
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let until = Instant::now() + END_MAX;
        while Instant::now() < until && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(1));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
