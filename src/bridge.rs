//! `acpvisor acp`: joins an editor's stdin and stdout to the daemon's host socket (R252).
//!
//! Passes bytes on as they are, whole lines only; says nothing of its own but the hello, and the errors that
//! nobody else is left to say. Holds one unfinished line and one read in each direction.

use std::{
    env,
    fs::File,
    io::{self, IsTerminal, Read, Write},
    os::{fd::AsFd, unix::net::UnixStream},
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use thiserror::Error;

use crate::{
    config::{Config, Paths},
    hello::Hello,
    limits::{LINE_BYTES_MAX, READ_BYTES},
    start::{self, Socket, StartError},
};

mod answer;
mod ledger;
mod lines;
mod relay;
mod signals;

pub use relay::End;

/// How long an editor that cannot be served may take for its first request.
const REFUSAL_MAX: Duration = Duration::from_secs(10);

/// Why there is no bridge; the editor has been told, if it asked.
#[derive(Debug, Error)]
pub enum BridgeError {
    /// The directory has a name that a line of JSON cannot carry.
    #[error("speak for a directory whose name is not UTF-8; start in another one")]
    Unspeakable,
    /// A directory that was removed, perhaps.
    #[error("find the directory this was started in: {source}")]
    Directory {
        /// The operating system's reason.
        source: io::Error,
    },
    /// Descriptors, threads or signals.
    #[error("join stdin and stdout to the daemon: {source}")]
    Join {
        /// The operating system's reason.
        source: io::Error,
    },
    /// No connection.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// Serves the editor on stdin and stdout until either side ends, and gives the exit code.
///
/// Tells on stderr, and the editor in its first answer, when no daemon can be reached.
pub fn run(agent: Option<String>, start: bool, paths: &Paths, config: &Config) -> Result<i32, BridgeError> {
    let (stdin, stdout) = streams()?;
    match serve(agent.as_deref(), start, paths, config) {
        Ok(end) => Ok(exit_code(end)),
        Err(error) => {
            let start_failed = matches!(error, BridgeError::Start(_));
            if start_failed {
                // in one write: other bridges of the same editor may be saying the same
                let _ = io::stderr().write_all(format!("acpvisor: failed to {error}\n").as_bytes());
            }
            if !io::stdin().is_terminal() {
                refuse(stdin, stdout, &format!("acpvisor failed to {error}"));
            }
            match error {
                BridgeError::Start(StartError::NotRunning { .. }) => Ok(3),
                BridgeError::Start(_) => Ok(1),
                other => Err(other),
            }
        }
    }
}

/// Joins the streams to a connected socket, the hello first, until either side ends.
pub fn join<I, O>(stdin: I, stdout: O, socket: UnixStream, hello: &[u8]) -> Result<End, BridgeError>
where
    I: Read + AsFd + Send + 'static,
    O: Write + AsFd + Send + 'static,
{
    join_until(relay::Ends::new(), stdin, stdout, socket, hello)
}

fn serve(agent: Option<&str>, start: bool, paths: &Paths, config: &Config) -> Result<End, BridgeError> {
    let hello = hello(agent, config)?;
    let socket = start::connect(paths, Socket::Host, start)?;
    let failed = |source| BridgeError::Join { source };
    // not before: a daemon started meanwhile is waited for with signals as they are
    let signals = signals::Signals::block().map_err(failed)?;
    let ends = relay::Ends::new();
    ends.spawn("signals", move || End::Signal(signals.wait())).map_err(failed)?;
    let (stdin, stdout) = streams()?;
    join_until(ends, stdin, stdout, socket, &hello)
}

fn join_until<I, O>(
    ends: relay::Ends,
    stdin: I,
    stdout: O,
    mut socket: UnixStream,
    hello: &[u8],
) -> Result<End, BridgeError>
where
    I: Read + AsFd + Send + 'static,
    O: Write + AsFd + Send + 'static,
{
    // when this fails the daemon is gone already, which the relay finds and tells
    let _ = socket.write_all(hello);
    relay::relay(stdin, stdout, &socket, &ends).map_err(|source| BridgeError::Join { source })
}

fn hello(agent: Option<&str>, config: &Config) -> Result<Vec<u8>, BridgeError> {
    let cwd = env::current_dir().map_err(|source| BridgeError::Directory { source })?;
    let chosen = config.agent(agent.unwrap_or(&config.default_agent));
    let names = chosen.map(|agent| agent.env_pass).unwrap_or_default();
    let cwd = cwd.to_str().ok_or(BridgeError::Unspeakable)?;
    Ok(Hello::new(agent, cwd, &names, |name| env::var(name).ok()).line().into_bytes())
}

/// The bare descriptors: the standard library's own streams would copy everything once more.
fn streams() -> Result<(File, File), BridgeError> {
    let own = |stream: io::Result<_>| stream.map(File::from).map_err(|source| BridgeError::Join { source });
    Ok((own(io::stdin().as_fd().try_clone_to_owned())?, own(io::stdout().as_fd().try_clone_to_owned())?))
}

/// Answers the first request, since an editor may show nothing else than answers.
fn refuse(mut stdin: impl Read + AsFd, mut stdout: impl Write, message: &str) {
    let until = Instant::now() + REFUSAL_MAX;
    let mut lines = lines::Lines::new(READ_BYTES, LINE_BYTES_MAX);
    while readable(&stdin, until) && matches!(lines.fill(&mut stdin), Ok(lines::Filled::Some)) {
        if let Some(id) = lines.whole().split(|byte| *byte == b'\n').find_map(ledger::request_id) {
            let mut line = Vec::new();
            answer::error(&mut line, id, message);
            // an editor that is gone needs no answer
            let _ = stdout.write_all(&line);
            return;
        }
        lines.take_whole();
    }
}

fn readable(stdin: &impl AsFd, until: Instant) -> bool {
    let left = until.saturating_duration_since(Instant::now());
    let Ok(left) = Timespec::try_from(left) else { return false };
    matches!(poll(&mut [PollFd::new(stdin, PollFlags::IN)], Some(&left)), Ok(1..))
}

fn exit_code(end: End) -> i32 {
    match end {
        End::StdinClosed | End::StdoutClosed => 0,
        End::DaemonClosed(why) => {
            let _ = writeln!(io::stderr(), "acpvisor: the daemon closed the connection: {why}");
            1
        }
        End::DaemonGone | End::DaemonDeaf => {
            let _ = writeln!(io::stderr(), "acpvisor: the daemon went away");
            1
        }
        End::Signal(libc::SIGINT) => 130,
        End::Signal(_) => 0,
    }
}
