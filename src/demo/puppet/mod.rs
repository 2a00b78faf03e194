//! The puppet: an agent that a test speaks through, byte for byte, over a Unix socket.
//!
//! The socket gets one JSON line about this process, then what stdin says; what it says goes to stdout. A
//! byte 0x01, which no JSON holds, begins an [`order::Order`] or, the other way, a note; a line feed ends it.
//! Every order that leaves the puppet alive is followed by the note `done ORDER`.

mod intake;
mod order;

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process,
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::{Map, Value, json};
use thiserror::Error;

use self::{
    intake::{Gate, Intake},
    order::{MARK, Order},
};
use super::{brood, flags::Flags, flood, terminate};

/// Why nobody can speak through this process.
#[derive(Debug, Error)]
pub(super) enum PuppetError {
    #[error("reach its player at {path}: {source}")]
    Connect { path: PathBuf, source: io::Error },
    #[error("follow its player: {0}")]
    Follow(#[from] io::Error),
}

/// The way to the player: whole notes and pieces of stdin, never torn into each other.
#[derive(Clone)]
struct Player(Arc<Mutex<UnixStream>>);

impl Player {
    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write_all(bytes)
    }

    /// Sends a note. When the player is gone there is nobody to tell.
    fn note(&self, text: &str) {
        let _ = self.write(&[&[MARK], text.as_bytes(), b"\n"].concat());
    }
}

/// Plays until the player hangs up or says `exit`; returns the exit code.
pub(super) fn run(flags: &Flags, socket: &Path, stdin: File, stdout: File) -> Result<i32, PuppetError> {
    let connected = UnixStream::connect(socket);
    let stream = connected.map_err(|source| PuppetError::Connect { path: socket.to_owned(), source })?;
    let player = Player(Arc::new(Mutex::new(stream.try_clone()?)));
    player.write(format!("{}\n", hello()).as_bytes())?;
    if flags.ignore_term {
        let player = player.clone();
        terminate::tell(move || player.note("term"));
    }
    let gate = Intake::start(stdin, player.clone(), flags.ignore_eof)?;
    let mut puppet = Puppet { stdout: Some(stdout), player, gate };
    puppet.follow(BufReader::with_capacity(64 << 10, stream))?;
    Ok(0)
}

struct Puppet {
    stdout: Option<File>,
    player: Player,
    gate: Gate,
}

impl Puppet {
    fn follow(&mut self, mut from: impl BufRead) -> io::Result<()> {
        loop {
            let ready = from.fill_buf()?;
            let taken = match ready.iter().position(|b| *b == MARK) {
                None if ready.is_empty() => return Ok(()),
                None => ready.len(),
                Some(0) => {
                    self.read_order(&mut from)?;
                    continue;
                }
                Some(at) => at,
            };
            let bytes = ready[..taken].to_vec();
            from.consume(taken);
            self.say(|out| out.write_all(&bytes));
        }
    }

    fn read_order(&mut self, from: &mut impl BufRead) -> io::Result<()> {
        let mut line = Vec::new();
        from.read_until(b'\n', &mut line)?;
        let text = String::from_utf8_lossy(&line[1..]).trim_end().to_owned();
        match text.parse() {
            Ok(order) => self.obey(&order, &text)?,
            Err(()) => self.player.note(&format!("unknown {text}")),
        }
        Ok(())
    }

    /// Carries an order out. The intake says `done` itself, when it really stands as ordered.
    fn obey(&mut self, order: &Order, text: &str) -> io::Result<()> {
        match order {
            Order::Exit(code) => process::exit(*code),
            Order::Stderr(line) => writeln!(io::stderr(), "{line}")?,
            Order::CloseStdout => self.stdout = None,
            Order::CloseStdin | Order::StopReading | Order::ResumeReading => {
                return self.gate.set(order.clone());
            }
            Order::Sigstop => terminate::stop_here(),
            Order::SpawnSleep => self.spawn(|out| brood::child(out).map(|pid| pid.to_string()))?,
            Order::SpawnSetsid => {
                self.spawn(|out| brood::grandchild(out).map(|(a, b)| format!("{a} {b}")))?
            }
            Order::SpawnOrphan => self.spawn(|out| brood::orphan(out).map(|pid| pid.to_string()))?,
            Order::Flood { count, bytes, session } => {
                self.say(|out| flood::pour(out, session, *count, *bytes, || true));
            }
        }
        self.player.note(&format!("done {text}"));
        Ok(())
    }

    fn spawn(&self, spawn: impl FnOnce(&File) -> io::Result<String>) -> io::Result<()> {
        let out = self.stdout.as_ref().ok_or(io::ErrorKind::BrokenPipe)?;
        let pids = spawn(out)?;
        self.player.note(&format!("spawned {pids}"));
        Ok(())
    }

    /// Writes to stdout; when nobody reads it any more the player is told, once.
    fn say(&mut self, write: impl FnOnce(&mut File) -> io::Result<()>) {
        if self.stdout.as_mut().is_some_and(|out| write(out).is_err()) {
            self.stdout = None;
            self.player.note("broken");
        }
    }
}

fn hello() -> Value {
    let text = |value: std::ffi::OsString| value.to_string_lossy().into_owned();
    let env: Map<String, Value> = std::env::vars_os().map(|(k, v)| (text(k), text(v).into())).collect();
    let args: Vec<String> = std::env::args_os().map(text).collect();
    let parent = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    json!({
        "pid": process::id(),
        "ppid": parent,
        "pgid": rustix::process::getpgrp().as_raw_nonzero().get(),
        "cwd": std::env::current_dir().map(|cwd| text(cwd.into())).unwrap_or_default(),
        "args": args,
        "env": env,
    })
}
