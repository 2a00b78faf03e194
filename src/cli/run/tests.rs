//! Runs against a daemon that speaks canned lines over a socket.

use std::{
    io::{BufRead, BufReader, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    thread,
    time::Duration,
};

use serde_json::{Value, json};
use tokio::sync::mpsc::{self, Sender};

use super::{outcome::Outcome, *};

const S: Duration = Duration::from_secs(1);

/// The daemon's end of the socket. Whatever it waits for comes within ten seconds, or the test fails.
struct Daemon {
    stream: BufReader<UnixStream>,
    interrupts: Sender<()>,
}

impl Daemon {
    fn hears(&mut self) -> Value {
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("a line in time");
        serde_json::from_str(&line).expect("one JSON value a line")
    }

    fn hears_method(&mut self, method: &str) -> Value {
        let line = self.hears();
        assert_eq!(line["method"], method, "{line}");
        line
    }

    fn says(&mut self, line: &Value) {
        self.stream.get_mut().write_all(format!("{line}\n").as_bytes()).expect("somebody reads");
    }

    fn answers(&mut self, request: &Value, result: &Value) {
        self.says(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }));
    }

    /// Everything up to the prompt, which it returns.
    fn opens(&mut self) -> Value {
        let initialize = self.hears_method("initialize");
        assert_eq!(initialize["params"]["clientCapabilities"], json!({}), "neither files nor terminals");
        self.answers(&initialize, &json!({ "protocolVersion": 1 }));
        let new = self.hears_method("session/new");
        assert_eq!(new["params"]["mcpServers"], json!([]));
        self.answers(&new, &json!({ "sessionId": "s1" }));
        self.hears_method("session/prompt")
    }

    fn updates(&mut self, update: &Value) {
        let params = json!({ "sessionId": "s1", "update": update });
        self.says(&json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }));
    }

    fn says_text(&mut self, kind: &str, text: &str) {
        self.updates(&json!({ "sessionUpdate": kind, "content": { "type": "text", "text": text } }));
    }

    fn ends(&mut self, prompt: &Value, reason: &str) {
        self.answers(prompt, &json!({ "stopReason": reason }));
        self.closes();
    }

    fn closes(&mut self) {
        let close = self.hears_method("session/close");
        assert_eq!(close["params"]["sessionId"], "s1");
        self.answers(&close, &json!({}));
    }

    fn asks(&mut self) {
        let options = json!([
            { "optionId": "yes", "name": "Allow", "kind": "allow_once" },
            { "optionId": "no", "name": "Reject", "kind": "reject_once" },
        ]);
        let call = json!({ "toolCallId": "c1", "title": "Publish", "kind": "execute",
            "rawInput": { "command": "git push" } });
        self.says(&json!({ "jsonrpc": "2.0", "id": "q-1", "method": "session/request_permission",
            "params": { "sessionId": "s1", "toolCall": call, "options": options } }));
    }
}

struct Ran {
    out: String,
    err: String,
    outcome: Result<Outcome, RunError>,
}

impl Ran {
    fn code(&self) -> u8 {
        self.outcome.as_ref().expect("an outcome").exit_code()
    }

    fn events(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).expect("one JSON value a line")).collect()
    }
}

fn task() -> Task {
    Task {
        cwd: "/w".to_owned(),
        resume: None,
        prompt: "say \"hi\"\n☃".to_owned(),
        attended: false,
        budget: Budget::default(),
    }
}

fn run_into(format: Format, out: &mut impl Write, script: impl FnOnce(&mut Daemon) + Send + 'static) -> Ran {
    run_task(task(), format, out, script)
}

fn run_task(
    task: Task,
    format: Format,
    out: &mut impl Write,
    script: impl FnOnce(&mut Daemon) + Send + 'static,
) -> Ran {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (interrupts, interrupted) = mpsc::channel(1);
    theirs.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let daemon = thread::spawn(move || {
        let mut daemon = Daemon { stream: BufReader::new(theirs), interrupts };
        script(&mut daemon);
        let _ = daemon.stream.get_ref().shutdown(Shutdown::Write);
        daemon
    });
    let mut err = Vec::new();
    let mut screen = Screen::new(format, out, &mut err, Style::default(), false);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let outcome = runtime.block_on(async {
        ours.set_nonblocking(true).unwrap();
        let mut stream = tokio::net::UnixStream::from_std(ours).unwrap();
        drive::drive(&mut stream, Conversation::new(task), &mut screen, interrupted, |_| {}).await
    });
    match &outcome {
        Ok(outcome) => screen.finish(outcome),
        Err(_) => screen.break_off(),
    }
    daemon.join().expect("the daemon got what it waited for");
    Ran { out: String::new(), err: String::from_utf8(err).unwrap(), outcome }
}

fn run(format: Format, script: impl FnOnce(&mut Daemon) + Send + 'static) -> Ran {
    let mut out = Vec::new();
    let ran = run_into(format, &mut out, script);
    Ran { out: String::from_utf8(out).unwrap(), ..ran }
}

fn a_good_turn(daemon: &mut Daemon) {
    let prompt = daemon.opens();
    daemon.says_text("agent_thought_chunk", "hm, ");
    daemon.says_text("agent_thought_chunk", "yes");
    daemon.updates(&json!({ "sessionUpdate": "plan", "entries": [
        { "content": "look", "priority": "high", "status": "completed" },
        { "content": "act", "priority": "high", "status": "pending" },
    ]}));
    for _ in 0..2 {
        daemon.updates(&json!({ "sessionUpdate": "plan", "entries": [
            { "content": "look", "priority": "high", "status": "completed" },
            { "content": "act", "priority": "high", "status": "in_progress" },
        ]}));
    }
    daemon.updates(
        &json!({ "sessionUpdate": "tool_call", "toolCallId": "c1", "title": "Read\nit", "kind": "read" }),
    );
    daemon
        .updates(&json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed" }));
    daemon.says_text("agent_message_chunk", "Hello, ");
    daemon.says_text("agent_message_chunk", "world");
    daemon.ends(&prompt, "end_turn");
}

/// R30: the daemon gets initialize, session/new and one prompt of one text block, in this order, text intact.
#[test]
fn a_run_is_new_plus_prompt() {
    let ran = run(Format::Text, |daemon| {
        let prompt = daemon.opens();
        let block = json!([{ "type": "text", "text": "say \"hi\"\n☃" }]);
        assert_eq!(prompt["params"], json!({ "sessionId": "s1", "prompt": block }));
        daemon.says_text("agent_message_chunk", "hi");
        daemon.ends(&prompt, "end_turn");
    });
    assert_eq!((ran.code(), &*ran.out, &*ran.err), (0, "hi\n", ""));
}

/// R53, R261: a session that is gone on with is resumed where it is, and left as it was: not closed.
#[test]
fn a_resumed_run_leaves_its_session() {
    let mut out = Vec::new();
    let task = Task { resume: Some("s1".to_owned()), ..task() };
    let ran = run_task(task, Format::Text, &mut out, |daemon| {
        let initialize = daemon.hears_method("initialize");
        daemon.answers(&initialize, &json!({ "protocolVersion": 1 }));
        let resume = daemon.hears_method("session/resume");
        assert_eq!(resume["params"], json!({ "sessionId": "s1", "cwd": "/w", "mcpServers": [] }));
        daemon.says_text("agent_message_chunk", "of another turn");
        daemon.answers(&resume, &json!({}));
        let prompt = daemon.hears_method("session/prompt");
        daemon.says_text("agent_message_chunk", "new");
        daemon.answers(&prompt, &json!({ "stopReason": "end_turn" }));
        let mut rest = String::new();
        assert_eq!(daemon.stream.read_line(&mut rest).unwrap(), 0, "{rest}");
    });
    assert_eq!((ran.code(), std::str::from_utf8(&out).unwrap()), (0, "new\n"));
}

/// R261: text streams as it comes, with lines for tools, and everything else is marked.
#[test]
fn text_shows_the_run_to_people() {
    let ran = run(Format::Text, a_good_turn);
    let expected = "\
[thought] hm, yes
[plan]
  [x] look
  [ ] act
[plan]
  [>] act
[read] Read it
[read] completed: Read it
Hello, world
";
    assert_eq!((ran.code(), &*ran.out, &*ran.err), (0, expected, ""));
}

/// R261: `result` is the last message only.
#[test]
fn result_shows_the_last_message_only() {
    let ran = run(Format::Result, a_good_turn);
    assert_eq!((ran.code(), &*ran.out, &*ran.err), (0, "Hello, world\n", ""));
}

/// R261, R29, R99, R103: `events` is the event stream: init first, one result, nothing of the session left out.
#[test]
fn events_show_every_frame() {
    let ran = run(Format::Events, a_good_turn);
    let events = ran.events();
    let types: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let kept = ["transcript"; 5];
    let rest = ["tool_use", "tool_result", "text", "text", "result", "outcome"];
    assert_eq!(types, [&["init"][..], &kept, &rest].concat());
    assert_eq!((&events[0]["session_id"], &events[0]["peer_session_id"]), (&json!("s1"), &Value::Null));
    assert_eq!(events[0]["raw"]["initialize"], json!({ "protocolVersion": 1 }));
    assert_eq!((&events[10]["text"], &events[10]["is_error"]), (&json!("Hello, world"), &json!(false)));
    assert_eq!((&events[11]["outcome"], &events[11]["exit_code"]), (&json!("pass"), &json!(0)));
}

/// R288, R97: what nobody can be asked is refused, said, counted, and never exit code 0.
#[test]
fn an_unattended_permission_is_refused() {
    for format in [Format::Text, Format::Events] {
        let ran = run(format, |daemon| {
            let prompt = daemon.opens();
            daemon.asks();
            let answer = daemon.hears();
            let outcome = json!({ "outcome": { "outcome": "selected", "optionId": "no" } });
            assert_eq!(answer, json!({ "jsonrpc": "2.0", "id": "q-1", "result": outcome }));
            daemon.says_text("agent_message_chunk", "then not");
            daemon.ends(&prompt, "end_turn");
        });
        assert_eq!(ran.code(), 5);
        assert_eq!(ran.err.matches("execute: git push").count(), 1, "{}", ran.err);
        assert!(ran.err.contains("1 permission was refused"), "{}", ran.err);
        let denied = if format == Format::Text { "[execute] denied: " } else { r#""denied":true"# };
        assert_eq!(ran.out.matches(denied).count(), 1, "{}", ran.out);
    }
}

/// R226, R288: an end other than `end_turn`, and no text, are no success.
#[test]
fn only_a_natural_end_with_text_is_success() {
    for (reason, text) in [("max_tokens", "half"), ("refusal", "no"), ("cancelled", "x"), ("end_turn", " ")] {
        let ran = run(Format::Text, move |daemon| {
            let prompt = daemon.opens();
            daemon.says_text("agent_message_chunk", text);
            daemon.ends(&prompt, reason);
        });
        assert_eq!(ran.code(), 4, "{reason}");
        assert!(!ran.err.is_empty(), "{reason}");
    }
}

/// R100, R260: an error answer is a failure, named on stderr.
#[test]
fn an_error_answer_is_a_failure() {
    let ran = run(Format::Text, |daemon| {
        let prompt = daemon.opens();
        let error = json!({ "code": -32603, "message": "the agent died" });
        daemon.says(&json!({ "jsonrpc": "2.0", "id": prompt["id"], "error": error }));
        daemon.closes();
    });
    assert_eq!((ran.code(), &*ran.out), (1, ""));
    assert_eq!(ran.err, "acpvisor: the prompt failed: the agent died (-32603)\n");
}

/// R261, R250: the first Ctrl-C cancels the turn, and the run waits for its end.
#[test]
fn an_interrupt_cancels_the_turn() {
    let ran = run(Format::Text, |daemon| {
        let prompt = daemon.opens();
        daemon.says_text("agent_message_chunk", "begun");
        daemon.interrupts.blocking_send(()).unwrap();
        let cancel = daemon.hears_method("session/cancel");
        assert_eq!((&cancel["params"]["sessionId"], cancel.get("id")), (&json!("s1"), None));
        daemon.asks();
        assert_eq!(
            daemon.hears()["result"]["outcome"]["outcome"],
            "cancelled",
            "nothing is refused any more"
        );
        daemon.says_text("agent_message_chunk", ", late");
        daemon.ends(&prompt, "cancelled");
    });
    assert_eq!((ran.code(), &*ran.out), (130, "begun, late\n"));
    assert!(ran.err.starts_with("acpvisor: cancelling; Ctrl-C again kills\n"), "{}", ran.err);
}

/// R219: what came before the daemon went away is shown, and the run has failed.
#[test]
fn a_daemon_that_goes_away_is_a_failure() {
    let ran = run(Format::Text, |daemon| {
        daemon.opens();
        daemon.says_text("agent_message_chunk", "half an answ");
    });
    assert_eq!(ran.out, "half an answ\n");
    assert!(matches!(ran.outcome, Err(RunError::Lost)));
}

/// R260: a refused set-up says what was refused and why.
#[test]
fn a_refused_session_is_a_failure() {
    let ran = run(Format::Text, |daemon| {
        let initialize = daemon.hears_method("initialize");
        daemon.answers(&initialize, &json!({}));
        let new = daemon.hears_method("session/new");
        let error = json!({ "code": -32000, "message": "authentication required" });
        daemon.says(&json!({ "jsonrpc": "2.0", "id": new["id"], "error": error }));
    });
    let said = ran.outcome.unwrap_err().to_string();
    assert!(
        said.starts_with("open a session: session/new was refused: authentication required (-32000); log in")
    );
}

/// R16, R105: requests that were not offered, and questions of other sessions, are answered with errors.
#[test]
fn what_was_not_offered_is_answered_with_an_error() {
    let ran = run(Format::Text, |daemon| {
        let prompt = daemon.opens();
        for (id, method, code) in [
            (json!(0), "fs/read_text_file", -32601),
            (json!("a"), "terminal/create", -32601),
            (json!(null), "_x/y", -32601),
            (json!(1), "session/request_permission", -32002),
        ] {
            let params = json!({ "sessionId": "another", "options": [] });
            daemon.says(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
            let answer = daemon.hears();
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&id, &json!(code)), "{method}");
        }
        daemon.says_text("agent_message_chunk", "fine");
        daemon.ends(&prompt, "end_turn");
    });
    assert_eq!(ran.code(), 0);
}

/// R5, R6: junk and answers to nothing change nothing.
#[test]
fn junk_changes_nothing() {
    let ran = run(Format::Events, |daemon| {
        let prompt = daemon.opens();
        daemon.stream.get_mut().write_all(b"garbage\n[1]\n\n").unwrap();
        daemon.says(&json!({ "id": 999, "result": { "stopReason": "end_turn" } }));
        daemon.says_text("agent_message_chunk", "fine");
        daemon.ends(&prompt, "end_turn");
    });
    let labels: Vec<Value> = ran.events()[1..4].iter().map(|event| event["label"].clone()).collect();
    assert_eq!(labels, [json!("unparsed"), Value::Null, json!("unmatchedResponse")]);
    assert_eq!(ran.code(), 0);
}

/// R260: nobody reads any more: the turn is cancelled, the session closed, and nothing is said.
#[test]
fn a_closed_pipe_ends_the_run_quietly() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let ran = run_into(Format::Text, &mut Closed, |daemon| {
        let prompt = daemon.opens();
        daemon.says_text("agent_message_chunk", "anybody?");
        daemon.hears_method("session/cancel");
        daemon.ends(&prompt, "cancelled");
    });
    assert_eq!((ran.code(), &*ran.err), (4, ""));
}

/// R228: role, blank line, task; nothing is dropped silently.
#[test]
fn the_role_stands_before_the_prompt() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "You are terse.\n\n").unwrap();
    let mut args = Args {
        agent: None,
        cwd: None,
        resume: None,
        detach: false,
        role: Some(file.path().to_owned()),
        timeout: S,
        max_turns: None,
        stall: S,
        format: Format::Text,
        no_start: false,
        prompt: "Do it.".to_owned(),
    };
    assert_eq!(args.whole_prompt().unwrap(), "You are terse.\n\nDo it.");
    args.role = Some("/nonexistent/role".into());
    assert_eq!(args.whole_prompt().unwrap_err().code(), 2);
    args.role = None;
    args.prompt = " \n".to_owned();
    assert_eq!(args.whole_prompt().unwrap_err().code(), 2);
}

#[test]
fn times_are_read_with_their_units() {
    let times = [("0", 0), ("90", 90), ("90s", 90), ("10m", 600), ("1h", 3_600)];
    for (text, seconds) in times {
        assert_eq!(time(text), Ok(Duration::from_secs(seconds)));
    }
    for text in ["", "s", "1d", "-1", "1.5h", "99999999999999999999h", "18446744073709551615h"] {
        assert!(time(text).is_err(), "{text}");
    }
}
