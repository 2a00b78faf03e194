//! What an operator does with sessions that last: looks at them, sends them messages, follows, exports and removes them
//! (groups M, P and Y).

use std::{
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    process::{Child, Output, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
};

use serde_json::{Value, json};

use crate::{
    peer::Peer,
    process::{PATIENCE, wait_until},
    sandbox::Sandbox,
    scene::Scene,
};

/// What a verb prints that does its work.
fn done(sandbox: &Sandbox, args: &[&str]) -> String {
    let output = sandbox.output(args, "");
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn value(sandbox: &Sandbox, args: &[&str]) -> Value {
    serde_json::from_str(&done(sandbox, args)).unwrap()
}

fn refused(sandbox: &Sandbox, args: &[&str], code: i32, why: &str) {
    let output: Output = sandbox.output(args, "");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(code), true), "{args:?}: {said}");
    assert!(said.contains(why), "{args:?}: {said}");
}

/// A scene with an agent that resumes.
fn scene() -> Scene {
    Scene::playing(json!({"sessionCapabilities": {"resume": {}}}), json!({}), |sandbox| {
        sandbox.set("agent.p", "stop_grace_ms = 300");
    })
}

/// A session with one turn behind it that nobody has any more.
fn saved(scene: &mut Scene) -> String {
    let (session, mut peer) = scene.session("work");
    scene.plays(&session, &mut peer);
    scene.host.close_write();
    scene.host.expect_end(PATIENCE);
    wait_until("the session is not live", PATIENCE, || scene.sandbox.sessions().is_empty());
    scene.host = scene.another();
    session
}

/// Messages of a session and their states, in order.
fn states(sandbox: &Sandbox, session: &str) -> Vec<(String, String)> {
    let listed = value(sandbox, &["inbox", session, "--json"]);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let entries = listed["entries"].as_array().unwrap();
    entries.iter().map(|entry| (text(&entry["text"]), text(&entry["state"]))).collect()
}

fn wait_states(sandbox: &Sandbox, session: &str, state: &str) {
    wait_until(&format!("every message is {state}"), PATIENCE, || {
        states(sandbox, session).iter().all(|(_, is)| is == state)
    });
}

/// The text of the next prompt, which is then answered.
fn plays(peer: &mut Peer) -> String {
    let prompt = peer.expect("session/prompt");
    peer.end_turn(&prompt);
    let blocks = prompt["params"]["prompt"].as_array().unwrap();
    blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
}

/// R45, R260, R280: a session that is only saved is listed and shown, by the beginning of its id.
#[test]
fn saved_sessions_are_listed_and_shown() {
    let mut scene = scene();
    let old = saved(&mut scene);
    let (new, _peer) = scene.session("elsewhere");
    let listed = done(&scene.sandbox, &["ls"]);
    let row = |id: &str| listed.lines().find(|line| line.contains(id)).unwrap().to_owned();
    assert!(row(&old).contains(" saved ") && row(&new).contains(" live "), "{listed}");
    let all = value(&scene.sandbox, &["ls", "--all", "--json"]);
    let states: Vec<_> =
        all["sessions"].as_array().unwrap().iter().map(|s| (&s["id"], &s["state"])).collect();
    assert_eq!(states, [(&json!(new), &json!("live")), (&json!(old), &json!("saved"))]);
    let shown = value(&scene.sandbox, &["show", &old[..old.len() - 1], "--json"]);
    assert_eq!((&shown["session"]["id"], &shown["tree"]), (&json!(old), &Value::Null));
    assert_eq!(
        (&shown["prompts"][0]["state"], &shown["prompts"][0]["outcome"]),
        (&json!("answered"), &json!("end_turn"))
    );
    assert!(shown["bytes"].as_u64().unwrap() > 0 && shown["session"]["cwd"] == scene.sandbox.cwd("work"));
    let people = done(&scene.sandbox, &["show", &new]);
    assert!(people.contains(&format!("session {new}, live")) && people.contains("peer/"), "{people}");
    refused(&scene.sandbox, &["show", "nobody"], 1, "no id starts with that");
}

/// R182, R183, R187: a message runs by itself when its session is idle, behind what runs, and is done with its turn.
#[test]
fn a_message_runs_behind_what_runs() {
    let mut scene = scene();
    let (session, mut peer) = scene.session("work");
    let (id, prompt) = scene.turn(&session, &mut peer);
    let sent = value(&scene.sandbox, &["send", &session, "and then this", "--json"]);
    assert_eq!((&sent["live"], &sent["duplicate"]), (&json!(true), &json!(false)));
    assert_eq!(states(&scene.sandbox, &session), [("and then this".to_owned(), "queued".to_owned())]);
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
    assert!(plays(&mut peer).contains("and then this"));
    wait_states(&scene.sandbox, &session, "done");
}

/// R182, R184, R295: for a saved session a message lies there, also when the daemon dies; it runs as it was edited when
/// the session is woken, and what was removed never runs.
#[test]
fn messages_for_a_saved_session_wait_until_it_is_woken() {
    let mut scene = scene();
    let session = saved(&mut scene);
    for (text, id) in [("first", "id-1"), ("second", "id-2"), ("third", "id-3"), ("again", "id-1")] {
        let told = done(&scene.sandbox, &["send", &session, text, "--id", id, "--from", "test"]);
        assert!(
            told.contains(id) && told.contains("--wake") && (text == "again") == told.contains("known"),
            "{told}"
        );
    }
    done(&scene.sandbox, &["inbox", &session, "edit", "id-1", "first, edited"]);
    assert_eq!(done(&scene.sandbox, &["inbox", &session, "rm", "id-2"]), "removed id-2\n");
    scene.die(json!({}));
    assert!(!scene.sandbox.sessions().contains(&session), "nobody was woken");
    let queued = |text: &str| (text.to_owned(), "queued".to_owned());
    assert_eq!(states(&scene.sandbox, &session), [queued("first, edited"), queued("third")]);
    let told = scene.sandbox.output(&["send", &session, "-", "--wake"], "fourth\n");
    assert!(told.status.success(), "{told:?}");
    let mut peer = scene.puppets.serving();
    let mut heard = plays(&mut peer);
    while !heard.contains("fourth") {
        heard += &plays(&mut peer);
    }
    for (text, times) in [("first, edited", 1), ("second", 0), ("third", 1)] {
        assert_eq!(heard.matches(text).count(), times, "{heard}");
    }
    wait_states(&scene.sandbox, &session, "done");
    let shown = done(&scene.sandbox, &["inbox", &session, "show", "id-1"]);
    assert!(shown.contains("first, edited") && shown.contains("done"), "{shown}");
}

/// R188: a message that is sent five times is executed once, and once more when somebody wants that.
#[test]
fn a_message_runs_once_and_again_by_hand() {
    let mut scene = scene();
    let (session, mut peer) = scene.session("work");
    for _ in 0..5 {
        done(&scene.sandbox, &["send", &session, "only once", "--id", "mine"]);
    }
    assert_eq!(plays(&mut peer).matches("only once").count(), 1);
    wait_states(&scene.sandbox, &session, "done");
    done(&scene.sandbox, &["send", &session, "only once", "--id", "mine"]);
    assert!(!peer.unread().iter().any(|message| message["method"] == "session/prompt"));
    assert_eq!(done(&scene.sandbox, &["inbox", &session, "again", "mine"]), "queued again mine\n");
    assert!(plays(&mut peer).contains("only once"));
    wait_states(&scene.sandbox, &session, "done");
}

/// R189: an inbox that is full says which limit it met; what nobody could run is refused before it is stored.
#[test]
fn what_cannot_be_taken_is_refused() {
    let mut scene = scene();
    let session = saved(&mut scene);
    for n in 0..20 {
        done(&scene.sandbox, &["send", &session, &n.to_string()]);
    }
    refused(&scene.sandbox, &["send", &session, "one more"], 1, "20 messages of the user");
    done(&scene.sandbox, &["send", &session, "one more", "--from", "terminal/1"]);
    refused(&scene.sandbox, &["send", &session, " "], 2, "empty message");
    refused(&scene.sandbox, &["send", "nobody", "x"], 1, "no id starts with that");
    refused(&scene.sandbox, &["inbox", &session, "rm", "nobody"], 1, "no id starts with that");
    assert_eq!(states(&scene.sandbox, &session).len(), 21);
}

/// R285: what is removed is gone from list and store, and can be removed again; a load does not find it.
#[test]
fn a_removed_session_is_gone() {
    let mut scene = scene();
    let old = saved(&mut scene);
    let (new, peer) = scene.session("work");
    for id in [&old, &new] {
        refused(&scene.sandbox, &["rm", id], 1, "say --yes");
        assert_eq!(done(&scene.sandbox, &["rm", "--yes", id]), format!("removed {id}\n"));
        refused(&scene.sandbox, &["rm", "--yes", id], 1, "no id starts with that");
    }
    assert!(!crate::process::alive(peer.pid()));
    assert_eq!(done(&scene.sandbox, &["ls", "--all"]), "no sessions\n");
    let mut host = scene.another();
    let load = scene.load(&mut host, &old, "work");
    assert_eq!(host.error(&load)["code"], -32002);
    refused(&scene.sandbox, &["rm", "nobody"], 1, "no id starts with that");
}

/// R270: a transcript in three forms, to stdout and to a file of its own.
#[test]
fn a_transcript_is_exported_in_three_forms() {
    let mut scene = scene();
    let (session, mut peer) = scene.session("work");
    let (id, prompt) = scene.turn(&session, &mut peer);
    peer.update("so it is");
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
    let lines =
        |text: &str| -> Vec<Value> { text.lines().map(|line| serde_json::from_str(line).unwrap()).collect() };
    let frames = lines(&done(&scene.sandbox, &["export", &session, "--json"]));
    let has =
        |kind: &str, text: &str| frames.iter().any(|f| f["kind"] == kind && f.to_string().contains(text));
    assert!(has("sent", "\"go\"") && has("peer", "so it is") && has("mark", "turn_ended"), "{frames:#?}");
    let events = lines(&done(&scene.sandbox, &["export", &session, "--format", "events"]));
    assert!(events.iter().any(|event| event["type"] == "text" && event["text"] == "so it is"), "{events:#?}");
    let file = scene.sandbox.path("transcript.md");
    assert_eq!(done(&scene.sandbox, &["export", &session, "-o", file.to_str().unwrap()]), "");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("so it is") && text.contains(&session), "{text}");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    refused(&scene.sandbox, &["export", &session, "-o", "/nowhere/at/all"], 1, "/nowhere/at/all");
}

/// A daemon with the demo agent.
fn demo() -> Sandbox {
    let mut sandbox = Sandbox::new();
    sandbox.demo_agent("d", &[]);
    sandbox.set("agent.d", "stop_grace_ms = 300");
    sandbox.start();
    sandbox
}

/// A verb that goes on, and what it prints.
struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    fn start(sandbox: &Sandbox, args: &[&str]) -> Self {
        let mut command = sandbox.command(args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        sandbox.claim(child.id());
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines }
    }

    /// Reads lines until one holds this text; returns everything read.
    fn until(&mut self, text: &str) -> String {
        let mut read = String::new();
        while !read.contains(text) {
            let line =
                self.lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no {text:?} in:\n{read}"));
            read.extend([&line, "\n"]);
        }
        read
    }

    /// The rest, when it has ended by itself.
    fn rest(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => rest.extend([&line, "\n"]),
                Err(RecvTimeoutError::Disconnected) => return (self.child.wait().unwrap().code(), rest),
                Err(RecvTimeoutError::Timeout) => panic!("it does not end; it printed:\n{rest}"),
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// R260, R261: a detached run goes on without anybody; whoever attaches sees it from its beginning, and its end.
#[test]
fn a_detached_run_is_followed_until_its_session_ends() {
    let sandbox = demo();
    let session =
        done(&sandbox, &["run", "--detach", "--cwd", &sandbox.cwd("work"), "echo in the background"]);
    let session = session.trim_end();
    let mut people = Running::start(&sandbox, &["attach", session]);
    let seen = people.until("\nin the background\n");
    assert!(seen.contains("> echo in the background"), "{seen}");
    let mut program = Running::start(&sandbox, &["attach", session, "--json"]);
    program.until("\"kind\":\"turn_ended\"");
    let listed = sandbox.control("sessions.list", json!({}));
    assert_eq!(
        (&listed["sessions"][0]["id"], &listed["sessions"][0]["host"]),
        (&json!(session), &Value::Null)
    );
    done(&sandbox, &["send", session, "echo and once more"]);
    people.until("and once more\n");
    done(&sandbox, &["close", session]);
    let (code, rest) = people.rest();
    assert!(code == Some(0) && rest.contains("[session] closed"), "{rest}");
    let (code, rest) = program.rest();
    assert!(code == Some(0) && rest.lines().last().unwrap().contains("session_closed"), "{rest}");
    // Of a session that is only saved the history is all there is.
    let history = done(&sandbox, &["attach", session]);
    assert!(history.contains("in the background") && history.contains("and once more"), "{history}");
    sandbox.wait_empty();
}

/// R41, R52: a session that is taken from its host goes on; the host hears once that it has it no more, and the next one
/// finds the same process and the same turn.
#[test]
fn a_session_is_taken_from_its_host() {
    let mut scene = scene();
    let (session, mut peer) = scene.session("work");
    let (id, prompt) = scene.turn(&session, &mut peer);
    assert_eq!(scene.sandbox.control("sessions.detach", json!({"id": session})), json!({}));
    let error = scene.host.error(&id);
    assert!(error["message"].as_str().unwrap().contains("operator"), "{error}");
    let stranger = scene.host.prompt(&session, "still mine?");
    assert_eq!(scene.host.error(&stranger)["code"], -32002);
    peer.update("unheard");
    let mut other = scene.another();
    let shown = scene.shown(&mut other, &session, "work");
    assert!(shown.contains(&"user: go".to_owned()), "{shown:?}");
    peer.end_turn(&prompt);
    scene.host = other;
    scene.plays(&session, &mut peer);
    let again = scene.sandbox.try_control("sessions.detach", json!({"id": "nobody"}));
    assert_eq!(again.unwrap_err()["code"], -32002);
}

/// R53, R261: a run goes on with a session in its own directory, shows the new turn alone, and leaves it as it was.
#[test]
fn a_run_goes_on_with_a_session() {
    let sandbox = demo();
    let session = done(&sandbox, &["run", "--detach", "--cwd", &sandbox.cwd("work"), "echo the first"]);
    let session = session.trim_end();
    let inbox = || states(&sandbox, session);
    wait_until("the first turn ends", PATIENCE, || inbox().iter().all(|(_, state)| state == "done"));
    let resumed = ["run", "--resume", &session[..session.len() - 1], "echo the second"];
    assert_eq!(done(&sandbox, &resumed), "the second\n");
    let live = sandbox.sessions();
    assert!(live.contains(session), "a session that lived before lives on");
    done(&sandbox, &["close", session]);
    done(&sandbox, &["send", session, "echo what waited"]);
    let both = done(&sandbox, &["run", "--resume", session, "echo the third"]);
    assert!(both.ends_with("the third\n"), "{both}");
    wait_until("it is saved again", PATIENCE, || sandbox.sessions().is_empty());
    let shown = value(&sandbox, &["show", session, "--json"]);
    assert!(
        shown["session"]["cwd"] == sandbox.cwd("work") && shown["session"]["inbox"]["discarded"] == 0,
        "{shown}"
    );
    refused(&sandbox, &["run", "--resume", "nobody", "echo x"], 1, "no id starts with that");
    sandbox.wait_empty();
}

/// R260: without a daemon these verbs say how to start one.
#[test]
fn verbs_without_a_daemon_say_so() {
    let sandbox = Sandbox::new();
    for args in [
        &["show", "x"][..],
        &["attach", "x"],
        &["send", "x", "y"],
        &["inbox", "x"],
        &["rm", "x"],
        &["export", "x"],
        &["events"],
        &["run", "--no-start", "--resume", "x", "y"],
    ] {
        refused(&sandbox, args, 3, "acpvisor daemon");
    }
}
