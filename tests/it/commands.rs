//! What people type: a prompt without an editor, and a configuration that is wrong (R261, R266).

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    process::{Child, ChildStdout, ExitStatus, Output, Stdio},
};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    process::{self, PATIENCE, wait_until},
    sandbox::Sandbox,
};

/// A daemon with the demo agent and short times.
fn demo() -> Sandbox {
    let mut sandbox = Sandbox::new();
    sandbox.demo_agent("d", &[]);
    sandbox.set("agent.d", "stop_grace_ms = 300");
    sandbox.set("limits", "cancel_grace_ms = 300");
    sandbox.start();
    sandbox
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A run that is under way.
struct Run {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Run {
    fn start(sandbox: &Sandbox, args: &[&str]) -> Self {
        let mut command = sandbox.command(&[&["run"], args].concat());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        sandbox.claim(child.id());
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdout }
    }

    /// Waits until it printed something.
    fn printed(&mut self) {
        assert!(self.stdout.read(&mut [0]).unwrap() > 0, "it printed nothing");
    }

    fn signal(&self, signal: Signal) {
        process::signal(self.child.id(), signal);
    }

    fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        wait_until("the run ends", PATIENCE, || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.expect("waited for")
    }
}

/// R261: text comes as text, with a line for each tool call, and nothing on stderr.
#[test]
fn a_run_prints_what_the_agent_says() {
    let sandbox = demo();
    let output = sandbox.output(&["run", "--cwd", &sandbox.cwd("work"), "hello there"], "");
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
    let text = stdout(&output);
    assert!(
        text.contains("You said: \"hello there\"") && text.contains("Read") && text.ends_with('\n'),
        "{text}"
    );
    sandbox.wait_empty();
}

/// R261: the last message alone, or each event as one line of JSON that ends with the outcome.
#[test]
fn a_run_prints_in_three_formats() {
    let sandbox = demo();
    let output = sandbox.output(&["run", "--format", "result", "echo the result"], "");
    assert_eq!((output.status.code(), stdout(&output).trim_end()), (Some(0), "the result"));
    let output = sandbox.output(&["run", "--format", "events", "hello"], "");
    assert_eq!(output.status.code(), Some(0));
    let events: Vec<Value> =
        stdout(&output).lines().map(|line| serde_json::from_str(line).expect("one value a line")).collect();
    let kinds: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    assert_eq!((kinds.first(), kinds.last()), (Some(&"init"), Some(&"outcome")));
    for kind in ["text", "tool_use", "tool_result", "result"] {
        assert!(kinds.contains(&kind), "no {kind} in {kinds:?}");
    }
    assert_eq!(events.last().unwrap()["outcome"], "pass");
}

/// R261: a prompt may come from stdin, and a role from a file is put before it.
#[test]
fn a_prompt_comes_from_stdin_and_a_role_from_a_file() {
    let sandbox = demo();
    let output = sandbox.output(&["run", "--format", "result", "-"], "echo from stdin\n");
    assert_eq!((output.status.code(), stdout(&output).trim_end()), (Some(0), "from stdin"));
    let role = sandbox.path("role");
    fs::write(&role, "You are careful.\n").unwrap();
    let args = ["run", "--format", "result", "--role", role.to_str().unwrap(), "hello"];
    let output = sandbox.output(&args, "");
    assert!(stdout(&output).contains("You are careful"), "{output:?}");
    let output = sandbox.output(&["run", "-"], "  \n");
    assert_eq!(output.status.code(), Some(2));
}

/// R261, R288: a permission that nobody can be asked for is refused, shown, and decides the exit code.
#[test]
fn a_permission_in_a_pipe_is_refused() {
    let sandbox = demo();
    let output = sandbox.output(&["run", "ask"], "");
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    assert!(
        stdout(&output).contains("refused: reject-once") && stdout(&output).contains("denied"),
        "{output:?}"
    );
    assert!(stderr(&output).contains("permission"), "{output:?}");
    let output = sandbox.output(&["run", "--format", "events", "ask"], "");
    let last: Value = serde_json::from_str(stdout(&output).lines().last().unwrap()).unwrap();
    assert_eq!((&last["refused"], &last["exit_code"]), (&json!(1), &json!(5)));
}

/// R261, R288: what goes wrong has its exit code and says why.
#[test]
fn a_run_that_fails_says_why() {
    let mut sandbox = Sandbox::new();
    sandbox.demo_agent("d", &[]);
    sandbox.program("broken", "/bin/sh", &["-c", "echo no luck >&2; exit 1"]);
    sandbox.start();
    let table: [(&[&str], i32, &str); 5] = [
        (&["run", "crash 3"], 1, "status 3"),
        (&["run", "--agent", "broken", "hello"], 1, "no luck"),
        (&["run", "--agent", "nobody", "hello"], 1, "nobody"),
        (&["run", "--cwd", "/not/there", "hello"], 2, "/not/there"),
        (&["run", "--timeout", "1s", "slow 100"], 4, "--timeout"),
    ];
    for (args, code, told) in table {
        let output = sandbox.output(args, "");
        assert_eq!(output.status.code(), Some(code), "{args:?}: {output:?}");
        assert!(stderr(&output).contains(told), "{args:?}: {output:?}");
    }
    sandbox.wait_empty();
}

/// R261: Ctrl-C cancels the turn, also one that does not listen; it leaves no process.
#[test]
fn an_interrupt_cancels_the_turn() {
    let sandbox = demo();
    for order in ["slow 100", "hang"] {
        let mut run = Run::start(&sandbox, &[order]);
        run.printed();
        run.signal(Signal::INT);
        assert_eq!(run.wait().code(), Some(130), "{order}");
        sandbox.wait_empty();
    }
}

/// R261: a second Ctrl-C waits for nobody.
#[test]
fn a_second_interrupt_kills() {
    let mut sandbox = Sandbox::new();
    sandbox.demo_agent("d", &["--ignore-term", "--ignore-eof"]);
    sandbox.start();
    let mut run = Run::start(&sandbox, &["hang"]);
    run.printed();
    run.signal(Signal::INT);
    wait_until("the turn is being cancelled", PATIENCE, || {
        sandbox.control("sessions.list", json!({})).to_string().contains("\"turn\":\"cancelling\"")
    });
    run.signal(Signal::INT);
    assert_eq!(run.wait().code(), Some(130));
    sandbox.wait_empty();
}

/// R261: a run that is killed leaves no process, at whatever moment.
#[test]
fn a_killed_run_leaves_nothing_at_any_moment() {
    let sandbox = demo();
    let moments: [&dyn Fn(&mut Run); 5] = [
        &|_| {},
        &|_| {
            wait_until("it connects", PATIENCE, || sandbox.control("status", json!({}))["hosts"] == json!(1))
        },
        &|_| wait_until("an agent starts", PATIENCE, || !sandbox.descendants().is_empty()),
        &|_| wait_until("a session is there", PATIENCE, || !sandbox.sessions().is_empty()),
        &Run::printed,
    ];
    for moment in moments {
        let mut run = Run::start(&sandbox, &["slow 1000"]);
        moment(&mut run);
        run.signal(Signal::KILL);
        run.wait();
        wait_until("its host is gone", PATIENCE, || {
            sandbox.control("status", json!({}))["hosts"] == json!(0)
        });
        sandbox.wait_empty();
    }
}

/// R261, SIG-03: a run whose reader goes away ends quietly, and its turn with it.
#[test]
fn a_run_into_a_closed_pipe_ends_quietly() {
    let sandbox = demo();
    let mut command = sandbox.command(&["run", "flood 100000 300"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    sandbox.claim(child.id());
    let mut first = String::new();
    BufReader::with_capacity(64, child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(stderr(&output), "");
    sandbox.wait_empty();
}

/// R266, CFG-01: a wrong configuration stops every verb that needs it, with file, line, key and the nearest name.
#[test]
fn a_wrong_configuration_is_named() {
    let sandbox = Sandbox::new();
    sandbox.write_config();
    let file = sandbox.path("config/acpvisor/config.toml");
    let table: [(&str, &[&str]); 8] = [
        ("default_agnet = \"d\"", &[":1:", "default_agnet", "did you mean `default_agent`"]),
        ("\nsessions_max = 3", &[":2:", "sessions_max"]),
        ("[limits]\nsessions_max = \"3\"", &[":2:", "limits.sessions_max", "whole number"]),
        ("[limits]\nsessions_max = 0", &[":2:", "limits.sessions_max", "1 to 4096"]),
        ("nested = true\nnested = true", &[":2:", "nested"]),
        ("[agent.x]\ncommand = \"~/bin/agent\"", &[":2:", "agent.x.command"]),
        ("[agent.x]\nargs = []", &["agent.x", "command"]),
        ("log_level = \"loud\"", &[":1:", "log_level", "debug"]),
    ];
    for (text, told) in table {
        fs::write(&file, text).unwrap();
        for args in [&["daemon"][..], &["acp"], &["run", "hello"]] {
            let output = sandbox.output(args, "");
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(1), "{text}: {said}");
            assert!(said.contains(file.to_str().unwrap()), "{text}: {said}");
            assert!(told.iter().all(|fact| said.contains(fact)), "{text}: {said}");
        }
    }
    assert!(sandbox.survivors().is_empty());
}

/// R266: the daemon that runs has read its configuration: a file that is being edited fails nobody, and another file
/// than the daemon's is told.
#[test]
fn a_daemon_that_runs_needs_no_configuration_of_its_clients() {
    let sandbox = demo();
    let other = sandbox.path("other.toml");
    fs::write(&other, "").unwrap();
    let named = ["--config", other.to_str().unwrap()];
    let file = sandbox.path("config/acpvisor/config.toml");
    for args in [&["status"][..], &["run", "echo fine"]] {
        let output = sandbox.output(&[&named, args].concat(), "");
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!([&file, &other].iter().all(|file| said.contains(file.to_str().unwrap())), "{said}");
        assert_eq!(stderr(&sandbox.output(args, "")), "");
    }
    let output = sandbox.output(&["run", "--agent", "nobody", "hello"], "");
    assert!(stderr(&output).contains("acpvisor stop"), "{output:?}");
    fs::write(&file, "half = ").unwrap();
    let output = sandbox.output(&["run", "echo fine"], "");
    assert_eq!((output.status.code(), stdout(&output).trim_end()), (Some(0), "fine"), "{output:?}");
    assert!(stderr(&output).contains(file.to_str().unwrap()), "{output:?}");
    assert_eq!(stderr(&sandbox.output(&["acp"], "")), "");
}

/// R57: a daemon that owns the state and listens elsewhere is named at once, with its pid.
#[test]
fn a_daemon_that_listens_elsewhere_is_named() {
    let mut sandbox = demo();
    let elsewhere = sandbox.cwd("elsewhere");
    sandbox.env("ACPVISOR_RUNTIME_DIR", &elsewhere);
    let began = std::time::Instant::now();
    let output = sandbox.output(&["run", "hello"], "");
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let state = sandbox.path("state/acpvisor");
    for fact in [&sandbox.pid().to_string(), &elsewhere, state.to_str().unwrap()] {
        assert!(said.contains(fact), "{said}");
    }
    assert!(began.elapsed() < std::time::Duration::from_secs(4), "{:?}", began.elapsed());
}

/// CFG-01: an empty file and none at all are the defaults; a file that cannot be read is an error.
#[test]
fn no_configuration_is_the_defaults() {
    let sandbox = Sandbox::new();
    sandbox.write_config();
    let file = sandbox.path("config/acpvisor/config.toml");
    for text in ["", "\u{feff}\r\n# nothing\r\n"] {
        fs::write(&file, text).unwrap();
        let output = sandbox.output(&["run", "echo by default"], "");
        assert_eq!((output.status.code(), stdout(&output).trim_end()), (Some(0), "by default"), "{output:?}");
        assert!(sandbox.output(&["stop"], "").status.success());
    }
    fs::remove_file(&file).unwrap();
    let output = sandbox.output(&["run", "echo by default"], "");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(sandbox.output(&["stop"], "").status.success());
    fs::create_dir(&file).unwrap();
    let output = sandbox.output(&["daemon"], "");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains(file.to_str().unwrap()), "{output:?}");
}
