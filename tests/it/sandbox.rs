//! One daemon in a directory of its own: home, configuration, state and sockets lie in it, and so everything
//! that the daemon starts carries its path in the environment and can be found and ended.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    fs::{self, DirBuilder, File},
    io::{BufReader, Write},
    os::unix::{fs::DirBuilderExt, net::UnixStream},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    time::{Duration, Instant},
};

use rusqlite::Connection;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    line,
    peer::Puppets,
    process::{self, PATIENCE, wait_until},
};

/// The binary under test.
pub const ACPVISOR: &str = env!("CARGO_BIN_EXE_acpvisor");

/// A daemon and everything it may touch. Dropping it ends all of that.
pub struct Sandbox {
    dir: TempDir,
    config: BTreeMap<String, Vec<String>>,
    env: Vec<(String, String)>,
    daemon: Option<Child>,
    ours: RefCell<BTreeSet<u32>>,
}

impl Sandbox {
    /// Directories, and a configuration that logs everything; no daemon yet.
    pub fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("acpv").tempdir().unwrap();
        let mut sandbox =
            Self { dir, config: BTreeMap::new(), env: Vec::new(), daemon: None, ours: RefCell::default() };
        for name in ["run", "home", "config", "state", "data", "cache", "tmp"] {
            sandbox.dir(name);
        }
        sandbox.set("", r#"log_level = "debug""#);
        sandbox
    }

    /// Sets a key of a table of the configuration, given as a line; `""` is the top level. The last line for
    /// a key counts.
    pub fn set(&mut self, table: &str, line: &str) {
        let key = |line: &str| line.split('=').next().map(|key| key.trim().to_owned());
        let lines = self.config.entry(table.to_owned()).or_default();
        lines.retain(|old| key(old) != key(line));
        lines.push(line.to_owned());
    }

    /// Gives the daemon, and what it starts, a variable.
    pub fn env(&mut self, name: &str, value: &str) {
        self.env.push((name.to_owned(), value.to_owned()));
    }

    /// Adds an agent whose processes are puppets of the test. The first agent added is the default one.
    pub fn puppet_agent(&mut self, name: &str) -> Puppets {
        let socket = self.path(&format!("{name}.sock"));
        self.agent(name, &["demo-agent", "--puppet", socket.to_str().unwrap()]);
        Puppets::listen(&socket)
    }

    /// Adds an agent that is the demo agent with those flags. The first agent added is the default one.
    pub fn demo_agent(&mut self, name: &str, flags: &[&str]) {
        self.agent(name, &[&["demo-agent"], flags].concat());
    }

    /// Starts the puppets of that agent with these flags.
    pub fn puppet_flags(&mut self, name: &str, flags: &[&str]) {
        let socket = self.path(&format!("{name}.sock"));
        let args = [&["demo-agent", "--puppet", socket.to_str().unwrap()], flags].concat();
        self.set(&format!("agent.{name}"), &format!("args = {args:?}"));
    }

    /// Starts the puppets of that agent by a shell script, which finds the program at `$0` and the socket at
    /// `$1`.
    pub fn wrap(&mut self, name: &str, script: &str) {
        let socket = self.path(&format!("{name}.sock"));
        self.program(name, "/bin/sh", &["-c", script, ACPVISOR, socket.to_str().unwrap()]);
    }

    /// Adds an agent that is any program. The first agent added is the default one.
    pub fn program(&mut self, name: &str, command: &str, args: &[&str]) {
        self.agent(name, args);
        self.set(&format!("agent.{name}"), &format!("command = {command:?}"));
    }

    fn agent(&mut self, name: &str, args: &[&str]) {
        if !self.config.keys().any(|table| table.starts_with("agent.")) {
            self.set("", &format!("default_agent = {name:?}"));
        }
        let table = format!("agent.{name}");
        self.set(&table, &format!("command = {ACPVISOR:?}"));
        self.set(&table, &format!("args = {args:?}"));
    }

    /// Writes the configuration, starts the daemon and waits until both sockets answer.
    pub fn start(&mut self) {
        let command = self.command(&["daemon"]);
        self.start_by(command);
    }

    /// The same by any command that becomes the daemon.
    pub fn start_by(&mut self, mut command: Command) {
        assert!(self.daemon.is_none(), "the daemon runs already");
        self.write_config();
        let stderr = File::options().append(true).create(true).open(self.path("daemon.err")).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        self.daemon = Some(command.spawn().unwrap());
        let (host, control) = (self.host_socket(), self.control_socket());
        let end = Instant::now() + PATIENCE;
        while UnixStream::connect(&control).is_err() || !host.exists() {
            let ended = self.daemon.as_mut().and_then(|d| d.try_wait().unwrap());
            assert!(ended.is_none(), "the daemon ended with {ended:?}:\n{}", self.log());
            assert!(
                Instant::now() < end,
                "the daemon does not listen at {}:\n{}",
                control.display(),
                self.log()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Writes the configuration file as it stands.
    pub fn write_config(&self) {
        let mut text = String::new();
        for (table, lines) in &self.config {
            let head = if table.is_empty() { String::new() } else { format!("[{table}]\n") };
            text.push_str(&format!("{head}{}\n\n", lines.join("\n")));
        }
        let path = self.dir("config/acpvisor").join("config.toml");
        fs::write(path, text).unwrap();
    }

    /// The binary with those arguments, in the environment of this sandbox and nothing else.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(ACPVISOR);
        command.args(args).env_clear().current_dir(self.dir.path());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.path("home")).env("TMPDIR", self.path("tmp"));
        let places = [
            ("RUNTIME_DIR", "run"),
            ("CONFIG_HOME", "config"),
            ("STATE_HOME", "state"),
            ("DATA_HOME", "data"),
            ("CACHE_HOME", "cache"),
        ];
        for (name, place) in places {
            command.env(format!("XDG_{name}"), self.path(place));
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// A path inside the sandbox.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A directory inside the sandbox, made if need be, for its owner only.
    pub fn dir(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        DirBuilder::new().recursive(true).mode(0o700).create(&path).unwrap();
        path
    }

    /// The same as text.
    pub fn cwd(&self, name: &str) -> String {
        self.dir(name).to_str().unwrap().to_owned()
    }

    /// The daemon's database, to be looked into or changed by hand.
    pub fn database(&self) -> Connection {
        let database = Connection::open(self.path("state/acpvisor/sessions.db")).unwrap();
        database.busy_timeout(PATIENCE).unwrap();
        database
    }

    /// Where hosts connect.
    pub fn host_socket(&self) -> PathBuf {
        self.path("run/acpvisor/host.sock")
    }

    /// Where operators connect.
    pub fn control_socket(&self) -> PathBuf {
        self.path("run/acpvisor/control.sock")
    }

    /// Process id of the daemon.
    pub fn pid(&self) -> u32 {
        self.daemon.as_ref().expect("no daemon was started").id()
    }

    /// Resident memory of the daemon in bytes.
    pub fn rss(&self) -> usize {
        process::rss(self.pid())
    }

    /// The most resident memory the daemon ever had, in bytes.
    pub fn peak_rss(&self) -> usize {
        process::peak_rss(self.pid())
    }

    /// Everything that runs below the daemon.
    pub fn descendants(&self) -> BTreeSet<u32> {
        process::descendants(self.pid())
    }

    /// Everything that was started in this sandbox and runs, but the daemon and what the test itself started.
    pub fn survivors(&self) -> BTreeSet<u32> {
        let mut all = process::marked(self.dir.path());
        all.retain(|pid| !self.ours.borrow().contains(pid));
        if let Some(daemon) = &self.daemon {
            all.remove(&daemon.id());
        }
        all
    }

    /// Takes a process out of [`Self::survivors`]: the test itself started it.
    pub fn claim(&self, pid: u32) {
        self.ours.borrow_mut().insert(pid);
    }

    /// Kills the daemon without a word and reaps it.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.wait_exit(PATIENCE);
    }

    /// Sends a signal to the daemon.
    pub fn signal(&self, signal: Signal) {
        process::signal(self.pid(), signal);
    }

    /// Waits for the daemon's end.
    pub fn wait_exit(&mut self, deadline: Duration) -> ExitStatus {
        let mut daemon = self.daemon.take().expect("no daemon was started");
        let mut status = None;
        wait_until("the daemon exits", deadline, || {
            status = daemon.try_wait().unwrap();
            status.is_some()
        });
        status.expect("waited for")
    }

    /// Stops the daemon as a service manager does, and starts it again.
    pub fn restart(&mut self) {
        self.signal(Signal::TERM);
        self.wait_exit(PATIENCE);
        self.start();
    }

    /// Everything the daemon logged, and its stderr.
    pub fn log(&self) -> String {
        let logs = fs::read_dir(self.path("state/acpvisor/logs")).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = logs.map(|entry| entry.path()).collect();
        files.sort();
        files.push(self.path("daemon.err"));
        files
            .iter()
            .filter_map(|path| fs::read(path).ok())
            .map(|b| String::from_utf8_lossy(&b).into_owned())
            .collect()
    }

    /// Asks the daemon something as an operator.
    pub fn try_control(&self, method: &str, params: Value) -> Result<Value, Value> {
        let mut stream = UnixStream::connect(self.control_socket()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        stream.write_all(format!("{request}\n").as_bytes()).unwrap();
        let answer = line::read(&mut BufReader::new(stream));
        let answer = line::parse(&answer)
            .unwrap_or_else(|e| panic!("no answer to {method}: {e}: {}", line::shown(&answer)));
        if answer.get("error").is_some() {
            Err(answer["error"].clone())
        } else {
            Ok(answer["result"].clone())
        }
    }

    /// The same, when an error is a failure.
    pub fn control(&self, method: &str, params: Value) -> Value {
        self.try_control(method, params).unwrap_or_else(|error| panic!("{method} answered {error}"))
    }

    /// The lines of the log file. What the daemon says on stderr repeats them.
    pub fn entries(&self) -> Vec<String> {
        let log = self.log();
        log.lines().filter(|line| line.starts_with("{\"timestamp\"")).map(str::to_owned).collect()
    }

    /// How many lines of the log hold that text.
    pub fn logged(&self, text: &str) -> usize {
        self.entries().iter().filter(|entry| entry.contains(text)).count()
    }

    /// Waits until so many lines of the log hold that text: it is written behind what is logged.
    pub fn wait_logged(&self, text: &str, count: usize) {
        wait_until(&format!("{text:?} is logged"), PATIENCE, || self.logged(text) >= count);
        assert_eq!(self.logged(text), count, "{text:?}");
    }

    /// Ids of the sessions that are there.
    pub fn sessions(&self) -> BTreeSet<String> {
        let listed = self.control("sessions.list", json!({}));
        let ids = listed["sessions"].as_array().into_iter().flatten().map(|s| s["id"].as_str());
        ids.map(|id| id.unwrap().to_owned()).collect()
    }

    /// Waits until no session holds a slot, nothing runs that an agent started, and no record of one is left.
    pub fn wait_empty(&self) {
        wait_until("nothing is left", PATIENCE, || {
            let residency = self.control("status", json!({}))["residency"].clone();
            let records = fs::read_dir(self.path("state/acpvisor/peers")).unwrap().count();
            (&residency["resident"], &residency["reserved"], records) == (&json!(0), &json!(0), 0)
                && self.survivors().is_empty()
        });
        assert!(self.sessions().is_empty());
    }

    /// Waits until nothing has been read from the peer of that session for a while: it is silent, or blocked.
    pub fn wait_quiet(&self, session: &str) {
        let mut last = (Value::Null, Instant::now());
        wait_until("the peer is quiet", 3 * PATIENCE, || {
            let now = self.peer_card(session)["last_frame_ms"].clone();
            if now != last.0 {
                last = (now, Instant::now());
            }
            last.1.elapsed() > Duration::from_millis(400)
        });
    }

    /// What the tree shows of the peer of that session; null when there is none.
    pub fn peer_card(&self, session: &str) -> Value {
        let tree = self.control("tree", json!({}));
        let mut found = Value::Null;
        each_object(&tree, &mut |card| {
            if card["kind"] == "peer" && card["name"].as_str().is_some_and(|name| name.starts_with(session)) {
                found = card.clone();
            }
        });
        found
    }

    /// Runs the binary to its end and gives what it said. It must end in time.
    pub fn output(&self, args: &[&str], stdin: &str) -> Output {
        self.finish(self.command(args), stdin)
    }

    /// The same with any command.
    pub fn finish(&self, mut command: Command, stdin: &str) -> Output {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let pid = child.id();
        self.claim(pid);
        // Whoever does not want its stdin may be gone already.
        let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
        let (sender, output) = std::sync::mpsc::channel();
        std::thread::spawn(move || sender.send(child.wait_with_output().unwrap()));
        output.recv_timeout(3 * PATIENCE).unwrap_or_else(|_| {
            process::signal(pid, Signal::KILL);
            panic!("{command:?} does not end");
        })
    }

    /// A counter that the peer of that session publishes; 0 while it was never raised.
    pub fn peer_count(&self, session: &str, fact: &str) -> u64 {
        let tree = self.control("tree", json!({}));
        let mut found = 0;
        each_object(&tree, &mut |card| {
            let of = |key: &str| card[key].as_str().is_some_and(|text| text.contains(session));
            if card["kind"] == "peer" && (of("name") || of("parent") || of("path")) {
                found = found.max(card["facts"][fact].as_u64().or(card[fact].as_u64()).unwrap_or(0));
            }
        });
        found
    }

    /// Waits until that counter stands at exactly `count`.
    pub fn wait_peer_count(&self, session: &str, fact: &str, count: u64) {
        wait_until(&format!("{fact} is {count}"), PATIENCE, || self.peer_count(session, fact) == count);
    }

    /// Every file in the sandbox but logs and sockets, with its length.
    pub fn files(&self) -> BTreeMap<PathBuf, u64> {
        let mut found = BTreeMap::new();
        collect(self.dir.path(), &mut found);
        found.retain(|path, _| !path.to_string_lossy().contains("/logs/") && !path.ends_with("daemon.err"));
        found
    }
}

fn each_object(value: &Value, see: &mut impl FnMut(&Value)) {
    match value {
        Value::Object(members) => {
            see(value);
            members.values().for_each(|member| each_object(member, see));
        }
        Value::Array(items) => items.iter().for_each(|item| each_object(item, see)),
        _ => {}
    }
}

fn collect(dir: &Path, into: &mut BTreeMap<PathBuf, u64>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.metadata() {
            Ok(meta) if meta.is_dir() => collect(&entry.path(), into),
            Ok(meta) if meta.is_file() => drop(into.insert(entry.path(), meta.len())),
            _ => {}
        }
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        let end = Instant::now() + Duration::from_secs(5);
        while Instant::now() < end {
            let left = process::marked(self.dir.path());
            if left.is_empty() {
                break;
            }
            left.into_iter().for_each(|pid| process::signal(pid, Signal::KILL));
            std::thread::sleep(Duration::from_millis(5));
        }
        if std::thread::panicking() {
            let log = self.log();
            let tail: Vec<&str> = log.lines().rev().take(60).collect();
            eprintln!("the end of the daemon's log:");
            tail.iter().rev().for_each(|line| eprintln!("  {line}"));
        }
    }
}
