//! Starts against a pretended daemon: this test binary itself, in a process of its own.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::{fs::PermissionsExt, net::UnixListener},
    process,
};

use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

use super::*;

/// Where a pretended daemon finds its directory, and that it is one.
const PRETEND: &str = "ACPVISOR_TEST_PRETEND";

/// A fresh machine with a program that is started in the daemon's place.
struct Machine {
    dir: TempDir,
    paths: Paths,
}

impl Machine {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths {
            config: dir.path().join("none.toml"),
            runtime_dir: dir.path().to_owned(),
            state_dir: dir.path().to_owned(),
        };
        Self { dir, paths }
    }

    fn program(&self, script: &str) -> PathBuf {
        let path = self.dir.path().join("program");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        path
    }

    /// A program that runs [`pretended_daemon`] of this very binary.
    fn daemon(&self) -> PathBuf {
        let own = env::current_exe().unwrap();
        let (dir, own) = (self.dir.path().display(), own.display());
        self.program(&format!(
            "{PRETEND}={dir} exec {own} --ignored --exact start::tests::pretended_daemon --nocapture"
        ))
    }

    fn connect(&self, program: &Path) -> Result<UnixStream, StartError> {
        start_and_connect(program, &self.paths, &Socket::Host.path(&self.paths))
    }
}

/// Says what it is, one line per connection, until a connection says `end`.
#[test]
#[ignore = "no test: the process that others start as their daemon"]
fn pretended_daemon() {
    let Some(dir) = env::var_os(PRETEND).map(PathBuf::from) else { return };
    let lock = File::create(dir.join("lock")).unwrap();
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        process::exit(OWNED_ELSEWHERE);
    }
    let listener = UnixListener::bind(dir.join("host.sock")).unwrap();
    for stream in listener.incoming() {
        thread::spawn(|| greet(stream.unwrap()));
    }
}

fn greet(mut stream: UnixStream) {
    let (pid, parent) = (process::id(), rustix::process::getppid().unwrap().as_raw_nonzero());
    let session = own_session();
    let terminal = File::open("/dev/tty").is_ok();
    let cwd = env::current_dir().unwrap();
    writeln!(stream, "{pid} {parent} {session} {terminal} {}", cwd.display()).unwrap();
    if BufReader::new(stream).lines().any(|line| line.unwrap() == "end") {
        process::exit(0);
    }
}

/// The number of our session, as the kernel prints it: 0 when its leader lives outside our PID namespace, which
/// `getsid` of rustix takes for impossible.
fn own_session() -> String {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    stat.rsplit_once(") ").unwrap().1.split(' ').nth(3).unwrap().to_owned()
}

fn greeting(stream: &UnixStream) -> String {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line
}

/// R253: 20 bridges at once on a fresh machine: one daemon, 20 working hosts.
#[test]
fn twenty_starts_at_once_give_one_daemon_and_twenty_connections() {
    let machine = Machine::new();
    let program = machine.daemon();
    let streams: Vec<_> = thread::scope(|scope| {
        let starts: Vec<_> = (0..20).map(|_| scope.spawn(|| machine.connect(&program))).collect();
        starts.into_iter().map(|start| start.join().unwrap().unwrap()).collect()
    });
    let mut pids: Vec<_> =
        streams.iter().map(|stream| greeting(stream).split_once(' ').unwrap().0.to_owned()).collect();
    pids.dedup();
    assert_eq!(pids.len(), 1);
    (&streams[0]).write_all(b"end\n").unwrap();
}

/// R253, SIG-02: what ends the starter, its terminal, its group or its tree does not reach the daemon.
#[test]
fn a_started_daemon_is_cut_loose_from_its_starter() {
    let machine = Machine::new();
    let mut stream = machine.connect(&machine.daemon()).unwrap();
    let line = greeting(&stream);
    stream.write_all(b"end\n").unwrap();
    let words: Vec<_> = line.split_whitespace().collect();
    assert_ne!(words[1], process::id().to_string(), "not our child");
    assert_ne!(words[2], own_session(), "not our session");
    assert_eq!(words[3..], ["false", "/"], "no terminal, and no directory kept in use");
}

/// R253: the words of a start that failed reach the user.
#[test]
fn a_daemon_that_ends_at_once_is_quoted() {
    let machine = Machine::new();
    let program = machine.program("echo 'create /run/x: read-only file system' >&2; exit 2");
    let error = machine.connect(&program).unwrap_err();
    assert!(matches!(error, StartError::Ended { status, .. } if status.code() == Some(2)), "{error}");
    assert!(error.to_string().contains("create /run/x: read-only file system"), "{error}");
}

#[test]
fn a_program_that_is_not_there_is_an_error_at_once() {
    let machine = Machine::new();
    let error = machine.connect(&machine.dir.path().join("nothing")).unwrap_err();
    assert!(matches!(error, StartError::Spawn { .. }), "{error}");
}

/// R253: `--no-start` says what to do.
#[test]
fn without_a_daemon_and_without_leave_to_start_the_command_is_named() {
    let machine = Machine::new();
    let error = connect(&machine.paths, Socket::Control, false).unwrap_err();
    assert!(matches!(error, StartError::NotRunning { .. }), "{error}");
    assert!(error.to_string().contains("start one with: acpvisor daemon"), "{error}");
}

/// R57, SOCK-03: a daemon that does not accept is busy, not dead.
#[test]
fn a_full_backlog_is_a_busy_daemon() {
    let machine = Machine::new();
    let path = Socket::Host.path(&machine.paths);
    let address = SocketAddrUnix::new(&path).unwrap();
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    rustix::net::bind(&socket, &address).unwrap();
    rustix::net::listen(&socket, 0).unwrap();
    let first = attempt(&path, PAUSE.1).unwrap();
    assert!(first.is_some());
    let error = attempt(&path, PAUSE.1).unwrap_err();
    assert!(matches!(error, StartError::Busy { .. }), "{error}");
}

/// R255: a path of more than 107 bytes is an error that names the limit and the setting.
#[test]
fn a_path_that_is_too_long_names_limit_and_setting() {
    let machine = Machine::new();
    let paths = Paths { runtime_dir: machine.dir.path().join("x".repeat(100)), ..machine.paths.clone() };
    let error = connect(&paths, Socket::Host, true).unwrap_err();
    assert!(matches!(error, StartError::PathTooLong { .. }), "{error}");
    assert!(error.to_string().contains("107") && error.to_string().contains("XDG_RUNTIME_DIR"), "{error}");
}
