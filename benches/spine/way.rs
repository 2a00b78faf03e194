//! The ways from an editor to the agent, and what must run for each.

use std::{
    env, fs,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::{Outcome, agent, hop};

const ACPVISOR: &str = env!("CARGO_BIN_EXE_acpvisor");
/// For a socket to be there, and for a daemon to be gone.
const PATIENCE: Duration = Duration::from_secs(6);

/// One way.
pub enum Way {
    /// The agent's own pipes.
    Alone,
    /// Two hops that look at nothing.
    Bare(Served),
    /// A bridge and a daemon.
    Acpvisor(Served),
}

/// A process with a socket, and the directory of both.
pub struct Served {
    // first: it is ended before its directory goes
    process: Ended,
    dir: TempDir,
    /// From its start to its first connection.
    pub ready: Duration,
}

/// A process that does not outlive its owner.
struct Ended(Child);

impl Way {
    /// The bare relay.
    pub fn bare() -> Outcome<Self> {
        let dir = directory()?;
        let socket = dir.path().join("bare.sock");
        let mut command = Command::new(env::current_exe()?);
        command.arg(hop::FAR).arg(&socket);
        Served::start(command, dir, &socket).map(Self::Bare)
    }

    /// A daemon of its own, with this binary as its agent.
    pub fn acpvisor() -> Outcome<Self> {
        let dir = directory()?;
        let config = dir.path().join("config/acpvisor");
        fs::create_dir_all(&config)?;
        let (program, mode) = (env::current_exe()?, agent::MODE);
        let text =
            format!("default_agent = \"spine\"\n\n[agent.spine]\ncommand = {program:?}\nargs = [{mode:?}]\n");
        fs::write(config.join("config.toml"), text)?;
        let socket = dir.path().join("run/acpvisor/host.sock");
        fs::create_dir(dir.path().join("run"))?;
        Served::start(acpvisor_in(dir.path(), "daemon"), dir, &socket).map(Self::Acpvisor)
    }

    /// What an editor would start.
    pub fn command(&self) -> Outcome<Command> {
        Ok(match self {
            Self::Alone => {
                let mut command = Command::new(env::current_exe()?);
                command.arg(agent::MODE);
                command
            }
            Self::Bare(served) => {
                let mut command = Command::new(env::current_exe()?);
                command.arg(hop::NEAR).arg(served.dir.path().join("bare.sock"));
                command
            }
            Self::Acpvisor(served) => {
                let mut command = acpvisor_in(served.dir.path(), "acp");
                command.arg("--no-start");
                command
            }
        })
    }

    /// The process in the middle.
    pub fn served(&self) -> Option<&Served> {
        match self {
            Self::Alone => None,
            Self::Bare(served) | Self::Acpvisor(served) => Some(served),
        }
    }
}

impl Served {
    fn start(mut command: Command, dir: TempDir, socket: &Path) -> Outcome<Self> {
        let began = Instant::now();
        let stderr = fs::File::create(dir.path().join("stderr"))?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        let mut process = Ended(command.spawn()?);
        loop {
            if reachable(socket) {
                return Ok(Self { process, dir, ready: began.elapsed() });
            }
            let over = process.0.try_wait()?.is_some() || began.elapsed() > PATIENCE;
            if over {
                let said = fs::read_to_string(dir.path().join("stderr")).unwrap_or_default();
                return Err(format!("nothing listens at {}: {said}", socket.display()).into());
            }
            thread::sleep(Duration::from_micros(500));
        }
    }

    /// A line of its `/proc/PID/status`, in KiB.
    pub fn memory_kib(&self, name: &str) -> Outcome<u64> {
        let status = fs::read_to_string(PathBuf::from(format!("/proc/{}/status", self.process.0.id())))?;
        let line = status.lines().find_map(|line| line.strip_prefix(name)).ok_or("no such line")?;
        let number = line.trim_start_matches(':').trim_end_matches("kB").trim();
        Ok(number.parse()?)
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until && matches!(self.0.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(2));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The bare relay would start an agent for a mere look, so that its socket is only looked for.
fn reachable(socket: &Path) -> bool {
    let bare = socket.ends_with("bare.sock");
    if bare { socket.exists() } else { UnixStream::connect(socket).is_ok() }
}

fn directory() -> Outcome<TempDir> {
    Ok(tempfile::Builder::new().prefix("spine").tempdir()?)
}

fn acpvisor_in(dir: &Path, verb: &str) -> Command {
    let mut command = Command::new(ACPVISOR);
    command.arg(verb).env_clear().env("PATH", env::var_os("PATH").unwrap_or_default()).env("HOME", dir);
    for (name, below) in [("RUNTIME_DIR", "run"), ("CONFIG_HOME", "config"), ("STATE_HOME", "state")] {
        command.env(format!("XDG_{name}"), dir.join(below));
    }
    command
}
