//! The shim as it really is: started by the library, standing over shells that do what agents do.
//!
//! Every process of a test carries a mark in its environment, so /proc says who is left, whatever group, session or
//! parent it has by then.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use acpvisor::process::{
    Exit, Process, Records, SpawnError, Spawned, Spec, Status, adopt_orphans, ancestry::lives_under,
    children, spawn,
};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

const SHIM: &str = env!("CARGO_BIN_EXE_acpvisor");
const DEADLINE: Duration = Duration::from_secs(15);
/// Set for the process that plays a daemon which is killed: its mark.
const DAEMON: &str = "ACPVISOR_TEST_DAEMON";

/// A launcher that ignores TERM and EOF, with a child in its group, one in its own session and a double fork.
const STUBBORN: &str = r#"
    trap '' TERM
    setsid sh -c 'trap "" TERM; sleep 600 & echo up; wait' &
    (setsid sh -c 'trap "" TERM; (sleep 600 &) ; echo up; sleep 600' &)
    sh -c 'trap "" TERM; while :; do sleep 600; done' &
    echo up
    while :; do sleep 600; done"#;
const STUBBORN_UPS: usize = 3;

/// Forks all the time, inside and outside its group.
const FORKING: &str = r#"
    trap '' TERM
    for i in 1 2 3; do setsid sh -c 'trap "" TERM; while :; do setsid sh -c "sleep 60 & exit 0"; sleep 0.001; done' & done
    echo up
    while :; do sleep 60 & (sleep 60 &) ; sleep 0.001; done"#;

struct World {
    directory: tempfile::TempDir,
    mark: String,
}

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("made");
        let mark = directory.path().to_string_lossy().into_owned();
        Self { directory, mark }
    }

    fn records(&self) -> PathBuf {
        self.directory.path().join("peers")
    }

    fn record_count(&self) -> usize {
        fs::read_dir(self.records()).expect("there").count()
    }

    fn spec(&self, program: &str, args: &[&str]) -> Spec {
        spec(&self.mark, program, args)
    }

    async fn sh(&self, script: &str) -> Spawned {
        spawn(self.spec("sh", &["-c", script])).await.expect("sh starts")
    }

    /// Whoever carries the mark and runs.
    fn alive(&self) -> Vec<i32> {
        let entries = fs::read_dir("/proc").expect("mounted").flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(|pid| self.marks(*pid)).collect()
    }

    fn marks(&self, pid: i32) -> bool {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let mark = format!("MARK={}", self.mark);
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    }

    fn assert_nothing_is_left(&self) {
        let left = self.alive();
        assert!(left.is_empty(), "left: {:?}", left.iter().map(|pid| command_line(*pid)).collect::<Vec<_>>());
        assert_eq!(self.record_count(), 0);
    }
}

fn spec(mark: &str, program: &str, args: &[&str]) -> Spec {
    let records = Records::new(Path::new(mark).join("peers")).expect("opened");
    let mut spec = Spec::new(program, mark, "session-1", records);
    spec.args = args.iter().map(OsString::from).collect();
    spec.env = vec![("PATH".into(), "/usr/bin:/bin".into()), ("MARK".into(), mark.into())];
    spec.shim = SHIM.into();
    spec
}

fn command_line(pid: i32) -> String {
    String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()).replace('\0', " ")
}

/// The value of a line of `/proc/PID/status`.
fn status_of(pid: i32, key: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find(|line| line.starts_with(key)).expect("the kernel tells it");
    line[key.len() + 1..].trim().to_owned()
}

async fn ups(spawned: &mut Spawned, count: usize) {
    let mut lines = BufReader::new(&mut spawned.stdout).lines();
    for _ in 0..count {
        let line = tokio::time::timeout(DEADLINE, lines.next_line()).await.expect("in time").expect("read");
        assert_eq!(line.as_deref(), Some("up"));
    }
}

async fn output(spawned: &mut Spawned) -> String {
    let mut text = String::new();
    let read = spawned.stdout.read_to_string(&mut text);
    tokio::time::timeout(DEADLINE, read).await.expect("in time").expect("read");
    text
}

async fn exit_of(spawned: &Spawned) -> Exit {
    tokio::time::timeout(DEADLINE, spawned.exit.clone().wait()).await.expect("in time")
}

async fn until(what: &str, state: impl Fn() -> bool) {
    let due = Instant::now() + DEADLINE;
    while !state() {
        assert!(Instant::now() < due, "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn send(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).expect("a number"), signal).expect("it is there");
}

const fn killed() -> Exit {
    Exit { status: Status::Signal(9), by_us: true, unproved: None }
}

/// R211, R230: the daemon's pipes reach the agent, the environment is exactly the one given, and no other
/// descriptor crosses.
#[tokio::test]
async fn an_agent_gets_its_pipes_and_its_environment_and_nothing_else() {
    let world = World::new();
    let leak = leak_a_descriptor();
    let mut spawned = world.sh("read x; echo got:$x; env; pwd; exit 7").await;
    let descriptors = fs::read_dir(format!("/proc/{}/fd", spawned.process.pid())).expect("it runs");
    let mut descriptors: Vec<_> = descriptors.flatten().map(|entry| entry.file_name()).collect();
    descriptors.sort();
    assert_eq!(descriptors, ["0", "1", "2"]);
    drop(leak);
    spawned.stdin.write_all(b"hello\n").await.expect("it reads");
    let text = output(&mut spawned).await;
    assert!(text.starts_with("got:hello\n"), "{text}");
    assert!(text.ends_with(&format!("\n{}\n", world.mark)), "{text}");
    let names: Vec<&str> = text.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    // the shell adds the last three
    assert!(
        names.iter().all(|name| ["PATH", "MARK", "PWD", "_", "SHLVL", "OLDPWD"].contains(name)),
        "{text}"
    );
    assert_eq!(exit_of(&spawned).await, Exit { status: Status::Code(7), by_us: false, unproved: None });
    world.assert_nothing_is_left();
}

/// What C code in the daemon may do: a descriptor without CLOEXEC.
fn leak_a_descriptor() -> fs::File {
    let file = fs::File::open("/dev/null").expect("there");
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).expect("set");
    file
}

/// R211: the agent leads its own group, with clean signals and no core files, and may still gain privileges.
#[tokio::test]
async fn an_agent_starts_clean_in_its_own_group() {
    let world = World::new();
    let mut spawned = world.sh("echo up; read x").await;
    ups(&mut spawned, 1).await;
    let pid = spawned.process.pid();
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    assert_eq!(stat.split(' ').nth(4), Some(&*pid.to_string()), "pgid is pid: {stat}");
    assert_eq!(status_of(pid, "PPid"), spawned.process.shim_pid().to_string());
    for mask in ["SigBlk", "SigIgn"] {
        let set = u64::from_str_radix(&status_of(pid, mask), 16).expect("a set of signals");
        // 32 and 33 belong to the C library, which lets nobody change them
        assert_eq!(set & !(0b11 << 31), 0, "{mask} {set:x}");
    }
    assert_eq!(status_of(pid, "NoNewPrivs"), "0");
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).expect("it runs");
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).expect("told");
    assert_eq!(core.split_whitespace().skip(4).take(2).collect::<Vec<_>>(), ["0", "0"]);
    assert_eq!(status_of(spawned.process.shim_pid(), "Name"), "acpvisor-shim");
    assert!(
        lives_under(pid, &children::pids()) && !lives_under(std::process::id() as i32, &children::pids())
    );
    spawned.process.kill();
    assert_eq!(exit_of(&spawned).await, killed());
}

/// R210: who is about to run is on disk before it runs, and no longer when it is gone.
#[tokio::test]
async fn the_record_is_there_before_the_program_runs() {
    let world = World::new();
    let mut spawned = world.sh("cat peers/*.json").await;
    let record: serde_json::Value = serde_json::from_str(&output(&mut spawned).await).expect("a record");
    assert_eq!(record["session"], "session-1");
    assert_eq!(record["shim"]["pid"], spawned.process.shim_pid());
    assert_eq!(record["agent"]["pid"], spawned.process.pid());
    exit_of(&spawned).await;
    world.assert_nothing_is_left();
}

/// R212, R279, PROC-02, PROC-11: whatever ignores TERM, left the group or was forked twice is gone after a kill.
#[tokio::test]
async fn a_kill_leaves_nothing_of_a_stubborn_tree() {
    let world = World::new();
    let mut spawned = world.sh(STUBBORN).await;
    ups(&mut spawned, STUBBORN_UPS).await;
    spawned.process.kill();
    spawned.process.kill();
    assert_eq!(exit_of(&spawned).await, killed());
    world.assert_nothing_is_left();
}

/// R211: so it is when the handle is dropped.
#[tokio::test]
async fn a_dropped_handle_leaves_nothing_of_a_stubborn_tree() {
    let world = World::new();
    let mut spawned = world.sh(STUBBORN).await;
    ups(&mut spawned, STUBBORN_UPS).await;
    let exit = spawned.exit.clone();
    drop(spawned);
    assert_eq!(tokio::time::timeout(DEADLINE, exit.wait()).await, Ok(killed()));
    world.assert_nothing_is_left();
}

/// R212, PROC-04: an agent that forks while it is killed leaves no member of any group.
#[tokio::test]
async fn an_agent_that_forks_while_it_is_killed_leaves_nothing() {
    for _ in 0..5 {
        let world = World::new();
        let mut spawned = world.sh(FORKING).await;
        ups(&mut spawned, 1).await;
        until("it forks", || world.alive().len() > 20).await;
        spawned.process.kill();
        assert_eq!(exit_of(&spawned).await, killed());
        world.assert_nothing_is_left();
    }
}

/// FINDINGS 2: TERM goes to the whole group; an agent that obeys says goodbye in its own way.
#[tokio::test]
async fn term_reaches_the_group_and_lets_the_agent_finish() {
    let world = World::new();
    let script = r#"trap 'wait; echo bye; exit 3' TERM
        sh -c 'trap "echo child; exit 0" TERM; echo up; while :; do sleep 0.02; done' &
        while :; do sleep 0.02; done"#;
    let mut spawned = world.sh(script).await;
    ups(&mut spawned, 1).await;
    spawned.process.term();
    spawned.process.term();
    assert_eq!(output(&mut spawned).await, "child\nbye\n");
    assert_eq!(exit_of(&spawned).await, Exit { status: Status::Code(3), by_us: true, unproved: None });
    world.assert_nothing_is_left();
}

/// R213, R279: what a leader leaves behind when it ends by itself goes too; the leader's own end is told first.
#[tokio::test]
async fn what_a_leader_leaves_behind_ends_after_it() {
    let world = World::new();
    let script = format!("({STUBBORN}) & (setsid sleep 600 &) ; read x; exit 5");
    let mut spawned = world.sh(&script).await;
    ups(&mut spawned, STUBBORN_UPS).await;
    spawned.stdin.write_all(b"\n").await.expect("it reads");
    let leader = tokio::time::timeout(DEADLINE, spawned.exit.leader_exited()).await;
    assert_eq!(leader, Ok(Status::Code(5)));
    assert_eq!(exit_of(&spawned).await, Exit { status: Status::Code(5), by_us: false, unproved: None });
    world.assert_nothing_is_left();
}

/// R213: leftovers are asked before they are killed.
#[tokio::test]
async fn leftovers_are_asked_first() {
    let world = World::new();
    let script =
        r#"setsid sh -c 'trap "echo asked; exit 0" TERM; echo up; while :; do sleep 0.01; done' & read x"#;
    let mut spawned = world.sh(script).await;
    ups(&mut spawned, 1).await;
    spawned.stdin.write_all(b"\n").await.expect("it reads");
    assert_eq!(output(&mut spawned).await, "asked\n");
    exit_of(&spawned).await;
    world.assert_nothing_is_left();
}

/// R211, R230: each way of not starting names its cause, and nothing is left of the attempt.
#[tokio::test]
async fn a_start_that_fails_names_its_cause() {
    let world = World::new();
    let script = world.directory.path().join("script");
    fs::write(&script, "#!/no/such/interpreter\n").expect("written");
    make_executable(&script);
    let plain = world.directory.path().join("plain");
    fs::write(&plain, "").expect("written");
    let lost = "/no/such/directory";
    let in_lost = Spec { cwd: lost.into(), ..world.spec("sh", &[]) };
    let unrecorded = {
        let spec = world.spec("sh", &["-c", "touch ran"]);
        fs::remove_dir(world.records()).expect("empty");
        spec
    };
    let error = spawn(unrecorded).await.expect_err("no record").to_string();
    assert!(error.contains("session-1"), "{error}");
    assert!(!world.directory.path().join("ran").exists());
    for (spec, words) in [
        (world.spec("no-such-agent", &[]), ["no-such-agent", "/usr/bin:/bin"]),
        (world.spec("./plain", &[]), ["./plain", "relative"]),
        (world.spec("/no/such/agent", &[]), ["/no/such/agent", "no such file"]),
        (world.spec(&plain.to_string_lossy(), &[]), ["plain", "ermission denied"]),
        (world.spec(&script.to_string_lossy(), &[]), ["script", "interpreter"]),
        (in_lost, [lost, "working directory"]),
        (Spec { shim: "/no/shim".into(), ..world.spec("sh", &[]) }, ["shim", "session-1"]),
        (Spec { shim: "/bin/true".into(), ..world.spec("sh", &[]) }, ["sh", "did not answer"]),
    ] {
        let error = spawn(spec).await.expect_err("it cannot start").to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
    until("nothing is left", || world.alive().is_empty()).await;
    world.assert_nothing_is_left();
}

fn make_executable(file: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).expect("set");
}

/// R211: a caller that gives up while the agent starts leaves nothing, at whatever instant it does.
#[tokio::test]
async fn a_start_that_is_given_up_leaves_nothing() {
    let world = World::new();
    for micros in (0..20).map(|step| step * 300) {
        let _ =
            tokio::time::timeout(Duration::from_micros(micros), spawn(world.spec("sleep", &["600"]))).await;
    }
    until("nothing is left", || world.alive().is_empty()).await;
    until("no record is left", || world.record_count() == 0).await;
}

/// R265: the binary itself can be the agent.
#[tokio::test]
async fn the_binary_itself_can_be_the_agent() {
    let world = World::new();
    let spawned = spawn(world.spec("/proc/self/exe", &["--version"])).await.expect("it starts");
    assert_eq!(exit_of(&spawned).await, Exit { status: Status::Code(0), by_us: false, unproved: None });
}

/// R235, R236: 100 MB of stderr neither block the agent nor grow the daemon.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_stderr_is_drained_and_flat() {
    let world = World::new();
    let before = resident_kib();
    let script = "head -c 104857600 /dev/zero | tr '\\0' x >&2; echo LAST >&2; echo up; read x";
    let mut spawned = world.sh(script).await;
    ups(&mut spawned, 1).await;
    drop(spawned.stdin);
    assert!(spawned.stderr.drained(DEADLINE).await);
    assert!(spawned.stderr.shown().ends_with("xLAST"));
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < 32 << 10, "grew by {grown} KiB");
}

fn resident_kib() -> u64 {
    let resident = status_of(std::process::id() as i32, "VmRSS");
    resident.trim_end_matches(" kB").parse().expect("a number")
}

/// R214: who left the tree and holds stderr holds nobody up.
#[tokio::test]
async fn stderr_held_open_does_not_hold_the_end() {
    let world = World::new();
    let spawned = world.sh("exec sleep 600").await;
    assert!(!spawned.stderr.drained(Duration::from_millis(10)).await);
    spawned.process.kill();
    assert_eq!(exit_of(&spawned).await, killed());
    assert!(spawned.stderr.drained(DEADLINE).await);
}

/// R279: a shim that an agent kills takes its agent along, and the daemon adopts and ends the rest.
#[tokio::test]
async fn the_daemon_ends_what_a_killed_shim_stood_over() {
    adopt_orphans().expect("Linux");
    let world = World::new();
    let mut spawned = world.sh(STUBBORN).await;
    ups(&mut spawned, STUBBORN_UPS).await;
    send(spawned.process.shim_pid(), Signal::KILL);
    let exit = exit_of(&spawned).await;
    assert_eq!(exit, Exit { status: Status::Unknown, by_us: false, unproved: None });
    world.assert_nothing_is_left();
    assert!(!Path::new(&format!("/proc/{}", spawned.process.shim_pid())).exists(), "the shim is reaped");
}

/// R279: a shim that an agent stopped is woken to do its duty.
#[tokio::test]
async fn a_stopped_shim_is_woken_to_kill() {
    let world = World::new();
    let mut spawned = world.sh(STUBBORN).await;
    ups(&mut spawned, STUBBORN_UPS).await;
    send(spawned.process.shim_pid(), Signal::STOP);
    spawned.process.kill();
    assert_eq!(exit_of(&spawned).await, killed());
    world.assert_nothing_is_left();
}

/// R210, R279: a daemon that is killed leaves nothing after 5 s.
#[tokio::test]
async fn a_killed_daemon_leaves_nothing() {
    let world = World::new();
    let mut command = tokio::process::Command::new(std::env::current_exe().expect("it runs"));
    command.args(["--exact", "a_daemon_to_be_killed", "--nocapture"]).env(DAEMON, &world.mark);
    let (mut daemon, _known) = children::start(command.stdout(Stdio::null())).expect("it starts");
    let sleepers = || world.alive().into_iter().filter(|pid| command_line(*pid).starts_with("sleep")).count();
    until("3 trees are up", || sleepers() >= 3 * 4).await;
    daemon.kill().await.expect("it can be killed");
    let killed = Instant::now();
    until("nothing is left", || world.alive().is_empty()).await;
    assert!(killed.elapsed() < Duration::from_secs(5), "{:?}", killed.elapsed());
    // PROC-12: the next start finds the records and nobody to signal
    let records = Records::new(world.records()).expect("opened");
    assert_eq!((world.record_count(), records.sweep()), (3, vec![]));
    world.assert_nothing_is_left();
}

/// PROC-12: a daemon that starts again at once ends what its shims have not ended yet.
#[tokio::test]
async fn the_next_start_ends_what_is_left() {
    let world = World::new();
    let mut spawned = world.sh(STUBBORN).await;
    ups(&mut spawned, STUBBORN_UPS).await;
    let (records, agent) = (Records::new(world.records()).expect("opened"), spawned.process.pid());
    let swept = tokio::task::spawn_blocking(move || records.sweep()).await.expect("swept");
    let ended = acpvisor::process::records::Reaped::Ended { session: "session-1".to_owned(), agent };
    assert_eq!(swept, [ended]);
    assert_eq!(exit_of(&spawned).await.status, Status::Signal(9));
    world.assert_nothing_is_left();
}

/// Not a test: what [`a_killed_daemon_leaves_nothing`] kills.
#[tokio::test]
async fn a_daemon_to_be_killed() {
    let Ok(mark) = std::env::var(DAEMON) else { return };
    let mut peers: Vec<Spawned> = Vec::new();
    for _ in 0..3 {
        peers.push(spawn(spec(&mark, "sh", &["-c", STUBBORN])).await.expect("sh starts"));
    }
    std::future::pending::<()>().await;
}

/// The handle can be shared, and the errors cross threads.
const _: () = {
    const fn is_sent<T: Send + Sync>() {}
    is_sent::<Process>();
    is_sent::<SpawnError>();
};
