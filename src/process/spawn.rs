//! Starts an agent under a shim and hands out its pipes, the handle that ends it and the news of its end.
//!
//! Owns nothing afterwards: the watch does. Never uses `pre_exec`, which would copy the page tables of
//! the daemon. The invariant: whatever has been started ends when its [`Process`] is dropped (R211).

use std::{
    ffi::{OsStr, OsString},
    io,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
};

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use tokio::{
    net::unix::pipe::{Receiver, Sender},
    process::{Child, Command},
    sync::oneshot,
};

use super::{
    ExitWatch, Records, Tail,
    children::{self, Known},
    control::Control,
    locate::locate,
    shim,
    watch::{Subject, Watch},
};

/// What the kernel may hold of an agent's output, so that one burst is one read.
const STDOUT_PIPE_BYTES: usize = 256 << 10;

/// What to start.
#[derive(Debug, Clone)]
pub struct Spec {
    /// A path, or a name to be searched in the PATH of `env`.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Its working directory.
    pub cwd: PathBuf,
    /// Its whole environment; nothing is added.
    pub env: Vec<(OsString, OsString)>,
    /// The session it works for, for its record and for errors.
    pub session: String,
    /// Where its record goes.
    pub records: Records,
    /// The program that calls [`shim::main`] first: `/proc/self/exe`, which outlives a replaced binary.
    pub shim: PathBuf,
}

impl Spec {
    /// No arguments, an empty environment, and this very binary as the shim.
    pub fn new(
        program: impl Into<PathBuf>,
        cwd: impl Into<PathBuf>,
        session: &str,
        records: Records,
    ) -> Self {
        let (program, cwd, session) = (program.into(), cwd.into(), session.to_owned());
        let (args, env, shim) = (Vec::new(), Vec::new(), "/proc/self/exe".into());
        Self { program, args, cwd, env, session, records, shim }
    }
}

/// Why nothing was started. Nothing is left of the attempt.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say it")]
pub enum SpawnError {
    #[error("find `{}` in PATH `{path}`; set `path` of the agent, or `command` to a full path", program.display())]
    NotFound { program: PathBuf, path: String },
    #[error("start `{}`: the path is relative; set `command` to a full path or a bare name", program.display())]
    Relative { program: PathBuf },
    #[error("start `{}`: no such file", program.display())]
    Missing { program: PathBuf, source: io::Error },
    #[error("start `{}`: {source}", program.display())]
    Run { program: PathBuf, source: io::Error },
    #[error("start `{}`: the interpreter that its first line names is missing", program.display())]
    Interpreter { program: PathBuf, source: io::Error },
    #[error("go to the working directory `{}`: {source}", cwd.display())]
    Cwd { cwd: PathBuf, source: io::Error },
    #[error("write the record of the agent of session {session}: {source}; see to the state directory")]
    Record { session: String, source: io::Error },
    #[error("start the shim of session {session}: {source}")]
    Shim { session: String, source: io::Error },
    #[error("start `{}`: its shim was killed or did not answer in time", program.display())]
    Mute { program: PathBuf },
}

impl SpawnError {
    /// The program did not run; says which file is missing.
    pub(super) fn run(program: &Path, source: io::Error) -> Self {
        let program = program.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound if program.exists() => Self::Interpreter { program, source },
            io::ErrorKind::NotFound => Self::Missing { program, source },
            _ => Self::Run { program, source },
        }
    }
}

/// An agent whose program runs.
#[derive(Debug)]
pub struct Spawned {
    /// Drop it to say goodbye.
    pub stdin: Sender,
    /// The agent's lines.
    pub stdout: Receiver,
    /// The end of what it says on stderr.
    pub stderr: Tail,
    /// Ends it, at the latest when dropped.
    pub process: Process,
    /// Tells how it ended.
    pub exit: ExitWatch,
}

/// The handle of an agent and of everything it starts. Nothing here waits.
#[derive(Debug)]
pub struct Process {
    agent: i32,
    shim: i32,
    tether: Tether,
}

impl Process {
    /// Number of the agent, which is also that of its group.
    pub fn pid(&self) -> i32 {
        self.agent
    }

    /// Number of its shim.
    pub fn shim_pid(&self) -> i32 {
        self.shim
    }

    /// SIGTERM to the agent's group. Further calls do nothing.
    pub fn term(&self) {
        self.tether.0.term();
    }

    /// Ends the whole subtree now. Further calls do nothing.
    pub fn kill(&self) {
        self.tether.0.kill();
    }
}

/// Kills when dropped, so that a start that is given up leaves nothing either.
struct Tether(Arc<Control>);

impl Drop for Tether {
    fn drop(&mut self) {
        self.0.kill();
    }
}

impl std::fmt::Debug for Tether {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tether")
    }
}

/// Starts an agent. Its program runs when this returns; if the caller gives up before, nothing is left.
pub async fn spawn(spec: Spec) -> Result<Spawned, SpawnError> {
    let session = spec.session.clone();
    let launched = tokio::task::spawn_blocking(move || launch(spec)).await;
    let launched =
        launched.unwrap_or_else(|error| Err(SpawnError::Shim { session, source: error.into() }))?;
    let Launched { ours, control, child, shim, subject } = launched;
    let program = subject.program.clone();
    let (started, start) = oneshot::channel();
    let tether = Tether(control.clone());
    let exit = Watch::start(subject, control, child, shim, started);
    let agent = match start.await.unwrap_or(Err(SpawnError::Mute { program })) {
        Ok(agent) => agent,
        Err(error) => {
            exit.wait().await;
            return Err(error);
        }
    };
    let Ends { stdin, stdout, stderr } = ours;
    Ok(Spawned { stdin, stdout, stderr: Tail::of(stderr), process: Process { agent, shim, tether }, exit })
}

/// The daemon's ends of the pipes.
struct Ends {
    stdin: Sender,
    stdout: Receiver,
    stderr: Receiver,
}

/// A shim that has its orders to begin. Dropped, it takes the shim with it, whose control ends.
struct Launched {
    ours: Ends,
    control: Arc<Control>,
    child: (Child, Known),
    shim: i32,
    subject: Subject,
}

/// Everything about a start that may block: looking for the program, and the system calls.
fn launch(spec: Spec) -> Result<Launched, SpawnError> {
    let program = locate(&spec.program, path_of(&spec.env))?;
    let failed = |source| SpawnError::Shim { session: spec.session.clone(), source };
    let (ours, theirs) = pipes().map_err(failed)?;
    let (control, end) = Control::pair().map_err(failed)?;
    let child = children::start(&mut command(&spec, &program, end)).map_err(failed)?;
    let shim = child.0.id().map_or(0, u32::cast_signed);
    match control.begin(theirs.each_ref().map(OwnedFd::as_fd)) {
        // a shim that is dead already is found so by its watch
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(failed(error)),
        _ => {}
    }
    let Spec { cwd, session, records, .. } = spec;
    Ok(Launched { ours, control, child, shim, subject: Subject { session, program, cwd, records } })
}

fn path_of(env: &[(OsString, OsString)]) -> &OsStr {
    env.iter().rfind(|(name, _)| name == "PATH").map_or(OsStr::new(""), |(_, path)| path)
}

/// The shim in its own group, with the agent's environment and with control as its stdin. Silent otherwise.
fn command(spec: &Spec, program: &Path, control: OwnedFd) -> Command {
    let mut command = Command::new(&spec.shim);
    command.arg0("acpvisor-shim").arg(shim::WORD).arg(&spec.cwd).arg(program).args(&spec.args);
    command.env_clear().envs(spec.env.iter().map(|(name, value)| (name, value)));
    command.process_group(0).stdin(Stdio::from(control)).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// The three pipes: our ends, and the agent's in the order of its descriptors.
fn pipes() -> io::Result<(Ends, [OwnedFd; 3])> {
    let pipe = || pipe_with(PipeFlags::CLOEXEC);
    let ((their_stdin, stdin), (stdout, their_stdout), (stderr, their_stderr)) = (pipe()?, pipe()?, pipe()?);
    // a user may be over the soft limit of pipe pages, which leaves a smaller pipe
    let _ = fcntl_setpipe_size(&stdout, STDOUT_PIPE_BYTES);
    let stdin = Sender::from_owned_fd(stdin)?;
    let (stdout, stderr) = (Receiver::from_owned_fd(stdout)?, Receiver::from_owned_fd(stderr)?);
    Ok((Ends { stdin, stdout, stderr }, [their_stdin, their_stdout, their_stderr]))
}
