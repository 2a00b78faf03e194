//! The stream of events that an operator subscribes to (R258).

use std::{
    io::{BufReader, Write},
    os::unix::net::UnixStream,
    process::Stdio,
};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    line,
    process::{self, PATIENCE, wait_until},
    sandbox::Sandbox,
    scene::Scene,
};

/// A connection that subscribed.
struct Ear {
    stream: BufReader<UnixStream>,
    newest: u64,
}

impl Ear {
    fn subscribe(sandbox: &Sandbox, params: Value) -> Self {
        let mut stream = UnixStream::connect(sandbox.control_socket()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "events.subscribe", "params": params});
        stream.write_all(format!("{request}\n").as_bytes()).unwrap();
        let mut ear = Self { stream: BufReader::new(stream), newest: 0 };
        ear.newest = ear.line()["result"]["newest"].as_u64().unwrap();
        ear
    }

    fn line(&mut self) -> Value {
        line::parse(&line::read(&mut self.stream)).expect("a line in time")
    }

    fn event(&mut self) -> Value {
        let line = self.line();
        assert_eq!(line["method"], "event", "{line}");
        line["params"].clone()
    }

    /// Everything up to the first event of that kind.
    fn until(&mut self, kind: &str) -> Vec<Value> {
        let mut events = vec![self.event()];
        while events.last().unwrap()["kind"] != kind {
            events.push(self.event());
        }
        events
    }
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["kind"].as_str().unwrap()).collect()
}

fn ascend(events: &[Value]) -> bool {
    events.windows(2).all(|pair| pair[0]["seq"].as_u64() < pair[1]["seq"].as_u64())
}

/// R258: a session and its turns are told as they happen, with what was asked, and the end of a process.
#[test]
fn a_session_is_told_as_it_happens() {
    let mut scene = Scene::playing(json!({"loadSession": true}), json!({}), |_| {});
    let mut ear = Ear::subscribe(&scene.sandbox, json!({}));
    let (session, mut peer) = scene.session("work");
    let (id, prompt) = scene.turn(&session, &mut peer);
    peer.update("so it is");
    let asked = peer.ask_permission("t", "ls");
    let question = scene.host.expect("session/request_permission");
    scene.host.choose(&question, "yes");
    peer.answer(&asked);
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
    let mut events = ear.until("turn_ended");
    process::signal(peer.pid(), Signal::KILL);
    events.extend(ear.until("peer_gone"));
    scene.host.close_write();
    events.extend(ear.until("session_closed"));
    assert!(ascend(&events) && events.iter().all(|event| event["session"] == json!(session)), "{events:#?}");
    let seen = kinds(&events);
    let mut at = 0;
    for kind in
        ["session_opened", "turn_started", "prompt", "text", "permission_asked", "result", "turn_ended"]
    {
        at += seen[at..]
            .iter()
            .position(|seen| *seen == kind)
            .unwrap_or_else(|| panic!("no {kind} in {seen:?}"));
    }
    let text = events.iter().find(|event| event["kind"] == "text").unwrap();
    assert_eq!(text["event"]["text"], "so it is");
}

/// R258: the numbers of a former daemon's events are still theirs, and lead back to where a reader was.
#[test]
fn history_is_told_across_a_restart() {
    let mut scene = Scene::playing(json!({"loadSession": true}), json!({}), |_| {});
    let (session, mut peer) = scene.session("work");
    scene.plays(&session, &mut peer);
    let before = Ear::subscribe(&scene.sandbox, json!({"since": 0})).until("current");
    scene.die(json!({}));
    let mut ear = Ear::subscribe(&scene.sandbox, json!({"since": 0, "session": session}));
    let after = ear.until("current");
    assert_eq!(kinds(&before[..before.len() - 1]), kinds(&after[..before.len() - 1]));
    assert!(after.last().unwrap()["seq"].as_u64().unwrap() == ear.newest && ascend(&after));
    let middle = after[1]["seq"].clone();
    let rest = Ear::subscribe(&scene.sandbox, json!({"since": middle, "session": session})).until("current");
    assert_eq!(rest[..rest.len() - 1], after[2..after.len() - 1]);
}

/// R258: a subscriber that stops reading slows no session, and hears of one gap when it reads again.
#[test]
fn a_subscriber_that_stops_reading_slows_nobody() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let mut ear = Ear::subscribe(&scene.sandbox, json!({}));
    let (id, prompt) = scene.turn(&session, &mut peer);
    peer.flood(60_000, 400);
    peer.wait_note("done flood");
    peer.end_turn(&prompt);
    assert_eq!(scene.host.answer_within(&id, 6 * PATIENCE)["result"]["stopReason"], "end_turn");
    ear.stream.get_ref().set_read_timeout(Some(3 * PATIENCE)).unwrap();
    let events = ear.until("gap");
    assert!(ascend(&events) && events.last().unwrap()["event"]["dropped"].as_u64().unwrap() > 0);
    let (id, prompt) = scene.turn(&session, &mut peer);
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&id), "end_turn");
    let rest = ear.until("turn_ended");
    assert!(!kinds(&rest).contains(&"gap"), "{:?}", kinds(&rest));
}

/// R258, R260: people and programs read the same stream; a filter leaves out the rest; a reader that goes ends it.
#[test]
fn the_verb_prints_what_happens() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let args =
        ["events", "--since", "0", "--session", &session, "--kind", "turn_started", "--kind", "turn_ended"];
    for json in [false, true] {
        scene.plays(&session, &mut peer);
        let mut command = scene.sandbox.command(&args);
        command
            .args(json.then_some("--json"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        scene.sandbox.claim(child.id());
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut lines = vec![String::from_utf8(line::read(&mut out)).unwrap()];
        while !lines.last().unwrap().contains("current") {
            lines.push(String::from_utf8(line::read(&mut out)).unwrap());
        }
        for (line, kind) in lines[..lines.len() - 1].iter().zip(["turn_started", "turn_ended"].iter().cycle())
        {
            let told = if json { format!("\"kind\":\"{kind}\"") } else { (*kind).to_owned() };
            assert!(line.contains(&told), "{lines:?}");
        }
        drop(out);
        scene.plays(&session, &mut peer);
        wait_until("it ends with its reader", PATIENCE, || child.try_wait().unwrap().is_some());
    }
    let unknown = scene.sandbox.output(&["events", "--kind", "of_tomorrow"], "");
    let said = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(unknown.status.code() == Some(1) && said.contains("params.kinds"), "{said}");
}
