//! `acpvisor run`: one prompt without an editor, over the same socket as every editor (R30, R261).
//!
//! Owns the arguments and the signals: the first asks the agent to stop, the second does not ask.

mod aside;
mod budget;
mod consent;
mod conversation;
mod detached;
mod drive;
mod outcome;
pub(super) mod screen;
mod terminal;
#[cfg(test)]
mod tests;

use std::{
    env, fs,
    io::{self, IsTerminal, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{self, ExitCode},
    sync::{Arc, OnceLock},
    time::Duration,
};

use serde_json::json;
use tokio::{
    runtime::Runtime,
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc::{self, Receiver, Sender},
};

use super::{
    Failure, Globals,
    operator::{Operator, value},
    send::MESSAGE_BYTES_MAX,
    style::Style,
    text, warn_of_other_config,
};
use crate::{
    config::{Config, Paths},
    hello::Hello,
    limits::LINE_BYTES_MAX,
    start::{self, Socket},
};
use budget::Budget;
use conversation::{Conversation, Task};
use screen::{Format, Screen};

/// Longest prompt, role included: its line must stay under the ceiling when every byte is escaped.
const PROMPT_BYTES_MAX: usize = LINE_BYTES_MAX / 8;

/// Why a run did not get as far as an outcome.
#[derive(Debug, thiserror::Error)]
pub(super) enum RunError {
    /// The daemon, or the agent behind it, refused the session.
    #[error(transparent)]
    SetUp(#[from] conversation::SetUpError),
    /// The daemon went away.
    #[error("run the prompt: the daemon closed the connection before the turn ended")]
    Lost,
    /// The daemon broke its own ceiling.
    #[error("read from the daemon: it sent a line of {length} bytes")]
    Overlong {
        /// Its length.
        length: usize,
    },
    /// A full disk, perhaps.
    #[error("write to stdout: {0}")]
    Stdout(#[source] io::Error),
    /// Signals, sockets, the runtime.
    #[error("set up the run: {0}")]
    Io(#[from] io::Error),
}

/// Arguments of `run`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Agent to run; without it the default agent
    #[arg(long, value_name = "NAME", conflicts_with = "resume")]
    agent: Option<String>,
    /// Directory the agent works in; without it the current one
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    cwd: Option<PathBuf>,
    /// Go on with this session, with its own agent and in its own directory; it is taken from whoever has it. The
    /// first four characters of its id or more are enough while they are unique
    #[arg(long, value_name = "ID", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    resume: Option<String>,
    /// Print the session's id and return at once; the turn goes on without anybody. See: acpvisor attach
    #[arg(long, conflicts_with_all = ["resume", "timeout", "max_turns", "stall", "format"])]
    detach: bool,
    /// File whose text is put before the prompt
    #[arg(long, value_name = "FILE")]
    role: Option<PathBuf>,
    /// End the run after this time (30, 90s, 10m, 1h; 0 for never)
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = time)]
    timeout: Duration,
    /// End the run when more assistant messages come, counted by the ids that the agent gives them
    #[arg(long, value_name = "N")]
    max_turns: Option<usize>,
    /// End the run after this silence, unless a tool call or a question is open (0 for never)
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = time)]
    stall: Duration,
    /// What is printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Do not start a daemon when none is running
    #[arg(long)]
    no_start: bool,
    /// The prompt; `-` reads it from stdin
    #[arg(value_name = "PROMPT|-")]
    prompt: String,
}

impl Args {
    pub fn run(self, globals: &Globals) -> Result<ExitCode, Failure> {
        let (config, paths, unread) = globals.load_for_client()?;
        if let Some(error) = unread {
            super::failure::warn(format_args!("failed to {error}; going on with the daemon that runs"));
        }
        let prompt = self.whole_prompt()?;
        let place = self.place(&paths)?;
        let mut stream = start::connect(&paths, Socket::Host, !self.no_start)?;
        if globals.config.is_some() {
            let status = Operator::connect(&paths).and_then(|mut daemon| daemon.call("status", &json!({})));
            // a daemon that does not say is not worth failing for
            let status = status.ok().and_then(|status| serde_json::from_str(status.get()).ok());
            warn_of_other_config(&paths.config, &status.unwrap_or_default());
        }
        let hello = hello(place.agent.as_deref(), &place.cwd, &config);
        // of a connection that is closed already the reason may be there to read
        let _ = stream.write_all(hello.line().as_bytes());
        if self.detach {
            return detached::start(stream, &paths, &place.cwd, &prompt);
        }
        let task = self.task(&place, prompt);
        let leaves = place.session.filter(|_| place.lives);
        Ok(ExitCode::from(converse(stream, task, self.format, paths, leaves)?))
    }

    fn task(&self, place: &Place, prompt: String) -> Task {
        let attended = io::stdin().is_terminal() && io::stderr().is_terminal();
        let some = |time: Duration| (!time.is_zero()).then_some(time);
        let budget = Budget { stall: some(self.stall), wall: some(self.timeout), turns_max: self.max_turns };
        Task { cwd: place.cwd.clone(), resume: place.session.clone(), prompt, attended, budget }
    }

    /// Where it runs: as it was wanted, or where the session is that it goes on with.
    fn place(&self, paths: &Paths) -> Result<Place, Failure> {
        let Some(prefix) = &self.resume else {
            let cwd = directory(self.cwd.as_deref())?;
            return Ok(Place { agent: self.agent.clone(), cwd, session: None, lives: false });
        };
        let mut daemon = Operator::over(start::connect(paths, Socket::Control, !self.no_start)?);
        let id = daemon.resolve(prefix)?;
        let shown = value(&daemon.call("sessions.show", &json!({ "id": id }))?);
        let session = &shown["session"];
        Ok(Place {
            agent: session["agent"].as_str().map(str::to_owned),
            cwd: directory(session["cwd"].as_str().map(Path::new))?,
            session: Some(id),
            lives: session["state"] == "live",
        })
    }

    /// Role, blank line, prompt (R228).
    fn whole_prompt(&self) -> Result<String, Failure> {
        let most = if self.detach { MESSAGE_BYTES_MAX } else { PROMPT_BYTES_MAX };
        let prompt = text::typed(self.prompt.clone(), "prompt", most)?;
        let whole = match &self.role {
            None => prompt,
            Some(file) => {
                let unreadable = |error| Failure::Usage(format!("read the role {}: {error}", file.display()));
                let role = fs::File::open(file).map_err(unreadable)?;
                let role = text::read(&file.display().to_string(), role, "role", PROMPT_BYTES_MAX)?;
                format!("{}\n\n{prompt}", role.trim_end())
            }
        };
        if whole.len() > most {
            return Err(Failure::Usage(format!("run a prompt of {} bytes: at most {most}", whole.len())));
        }
        Ok(whole)
    }
}

/// Where a run takes place.
struct Place {
    agent: Option<String>,
    cwd: String,
    /// The session that it goes on with.
    session: Option<String>,
    /// That session is live, and is to stay so.
    lives: bool,
}

/// Runs until there is an outcome. The session `leaves` then stays live without us.
fn converse(
    stream: UnixStream,
    task: Task,
    format: Format,
    paths: Paths,
    leaves: Option<String>,
) -> Result<u8, RunError> {
    // one worker beside the main thread: signals are seen while a write to stdout waits for its reader
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let session = Arc::new(OnceLock::new());
    let interrupts = watch_signals(&runtime, paths.clone(), Arc::clone(&session))?;
    let stdout = io::stdout();
    let mut screen =
        Screen::new(format, stdout.lock(), io::stderr(), Style::of(&stdout), stdout.is_terminal());
    let began = |id: &str| drop(session.set(id.to_owned()));
    let outcome = runtime.block_on(async {
        stream.set_nonblocking(true)?;
        let mut stream = tokio::net::UnixStream::from_std(stream)?;
        let outcome =
            drive::drive(&mut stream, Conversation::new(task), &mut screen, interrupts, began).await;
        // while our connection stands: its end would end the session
        leaves.iter().for_each(|id| order(&paths, "sessions.detach", id));
        outcome
    });
    match &outcome {
        Ok(outcome) => screen.finish(outcome),
        Err(_) => screen.break_off(),
    }
    runtime.shutdown_background();
    Ok(outcome?.exit_code())
}

/// The first signal is handed on; the second kills the session, whatever the run is busy with.
fn watch_signals(
    runtime: &Runtime,
    paths: Paths,
    session: Arc<OnceLock<String>>,
) -> io::Result<Receiver<()>> {
    let _inside = runtime.enter();
    let signals =
        [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal).into_iter();
    let signals = signals.collect::<io::Result<Vec<Signal>>>()?;
    let (first, interrupts) = mpsc::channel(1);
    let (sender, mut all) = mpsc::channel(1);
    for signal in signals {
        runtime.spawn(forward(signal, sender.clone()));
    }
    runtime.spawn(async move {
        all.recv().await;
        // a run that is over needs no end
        let _ = first.send(()).await;
        all.recv().await;
        kill(&paths, session.get());
        process::exit(130);
    });
    Ok(interrupts)
}

async fn forward(mut signal: Signal, to: Sender<()>) {
    while signal.recv().await.is_some() && to.send(()).await.is_ok() {}
}

/// Without a session the end of our connection is enough.
fn kill(paths: &Paths, session: Option<&String>) {
    session.into_iter().for_each(|id| order(paths, "sessions.kill", id));
}

/// Gives an order whose failure changes nothing of what came before.
fn order(paths: &Paths, method: &str, id: &str) {
    let done = Operator::connect(paths).and_then(|mut daemon| daemon.call(method, &json!({ "id": id })));
    if let Err(error) = done {
        super::failure::warn(format_args!("failed to {error}, for session {id}"));
    }
}

fn hello(agent: Option<&str>, cwd: &str, config: &Config) -> Hello {
    // of an agent that is not known here the daemon may know more
    let chosen = config.agent(agent.unwrap_or(&config.default_agent));
    let pass = chosen.map(|agent| agent.env_pass).unwrap_or_default();
    Hello::new(agent, cwd, &pass, |name| env::var(name).ok())
}

/// The directory, absolute and there.
fn directory(wanted: Option<&Path>) -> Result<String, Failure> {
    let wanted = wanted.unwrap_or(Path::new("."));
    let unusable = |why: &str| Failure::Usage(format!("work in {}: {why}", wanted.display()));
    let absolute = wanted.canonicalize().map_err(|error| unusable(&error.to_string()))?;
    if !absolute.is_dir() {
        return Err(unusable("it is not a directory"));
    }
    absolute.into_os_string().into_string().map_err(|_| unusable("its name is not UTF-8"))
}

/// A number of seconds, or a number with `s`, `m` or `h`.
fn time(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let seconds = match unit {
        "" | "s" => 1,
        "m" | "min" => 60,
        "h" => 3_600,
        _ => return Err(format!("`{unit}` is no unit of time: use s, m or h")),
    };
    let number: u64 = number.parse().map_err(|_| "a time is a number such as 90s or 10m".to_owned())?;
    number.checked_mul(seconds).map(Duration::from_secs).ok_or_else(|| "that is too long".to_owned())
}
