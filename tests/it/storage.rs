//! What is on the disk: after a kill, by another hand, without space, on a slow disk, and when nothing happens (group Z;
//! LOG, UPG and PROC cases).

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rusqlite::Connection;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    host::Host,
    line,
    peer::Peer,
    process::{PATIENCE, wait_until},
    sandbox::Sandbox,
    scene::Scene,
};

fn loading(prepare: impl FnOnce(&mut Sandbox)) -> Scene {
    Scene::playing(json!({"loadSession": true}), json!({}), |sandbox| {
        sandbox.set("limits", "warm_ms = 100");
        prepare(sandbox);
    })
}

fn file(sandbox: &Sandbox) -> PathBuf {
    sandbox.path("state/acpvisor/sessions.db")
}

fn says(host: &mut Host, session: &str, peer: &mut Peer, text: &str) {
    let id = host.prompt(session, "go");
    let prompt = peer.expect("session/prompt");
    peer.update(text);
    peer.end_turn(&prompt);
    assert_eq!(host.stop_reason(&id), "end_turn");
}

fn sound(sandbox: &Sandbox) {
    let check: String =
        sandbox.database().pragma_query_value(None, "integrity_check", |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
}

/// A daemon that does not start: its exit code and what it said.
fn refused(sandbox: &Sandbox) -> (Option<i32>, String) {
    let output = sandbox.output(&["daemon"], "");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// R273, R37: killed twenty times at random moments while sessions come and turns run: every session, prompt and mode
/// that was acknowledged is there, in order and once, and the file is sound.
#[test]
fn what_was_acknowledged_survives_every_kill() {
    let mut sandbox = Sandbox::new();
    sandbox.demo_agent("d", &[]);
    sandbox.set("limits", "warm_ms = 100");
    sandbox.start();
    let mut seed = 0x5eed_u64;
    let mut random = move |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    // What the host was told: of each session its mode and its answered prompts.
    let mut told: BTreeMap<String, (String, Vec<String>)> = BTreeMap::new();
    let mut sent = 0;
    for round in 0..20 {
        let mut host = Host::direct(&sandbox);
        host.initialize(json!({}));
        let cwd = sandbox.cwd("work");
        let mut mine: Vec<String> = told.keys().rev().take(1).cloned().collect();
        for id in &mine {
            let load = host.request("session/load", json!({"sessionId": id, "cwd": cwd, "mcpServers": []}));
            host.result(&load);
        }
        for _ in 0..2 {
            let session = host.new_session(&cwd);
            told.insert(session.clone(), ("default".to_owned(), Vec::new()));
            mine.push(session);
        }
        // Many things are under way when the kill comes: only what was answered by then counts.
        let mut open: Vec<(Value, String, &str, String)> = Vec::new();
        for n in 0..8 {
            let session = mine[usize::try_from(random(mine.len() as u64)).unwrap()].clone();
            if n % 3 == 0 {
                let mode = ["yolo", "plan", "auto-edit", "default"][usize::try_from(random(4)).unwrap()];
                let params = json!({"sessionId": session, "configId": "approval", "value": mode});
                let id = host.request("session/set_config_option", params);
                open.push((id, session, "mode", mode.to_owned()));
            } else {
                sent += 1;
                let text = format!("prompt-{sent}-");
                open.push((host.prompt(&session, &text), session, "prompt", text));
            }
        }
        let before_the_kill = random(open.len() as u64);
        let mut answered = 0;
        let answer = |message: &Value,
                      open: &[(Value, String, &str, String)],
                      told: &mut BTreeMap<_, (String, Vec<_>)>| {
            let found = open.iter().find(|o| message.get("method").is_none() && message["id"] == o.0);
            let Some((_, session, what, value)) = found.filter(|_| message.get("result").is_some()) else {
                return;
            };
            let (mode, prompts) = told.get_mut(session).unwrap();
            if *what == "mode" { mode.clone_from(value) } else { prompts.push(value.clone()) }
        };
        while answered < before_the_kill {
            let message = host.next();
            answered += u64::from(message.get("method").is_none());
            answer(&message, &open, &mut told);
        }
        sandbox.kill();
        host.expect_end(PATIENCE);
        host.unread().iter().for_each(|message| answer(message, &open, &mut told));
        sound(&sandbox);
        sandbox.start();
        // It listens before it has looked at the file; when it answers it has.
        sandbox.control("status", json!({}));
        check(&sandbox, &mut told, &open, round);
    }
}

/// What was acknowledged is there once; what was under way is there once or not at all.
fn check(
    sandbox: &Sandbox,
    told: &mut BTreeMap<String, (String, Vec<String>)>,
    open: &[(Value, String, &str, String)],
    round: usize,
) {
    let database = sandbox.database();
    for (session, (mode, prompts)) in told {
        let (pk, settings): (i64, String) = database
            .query_row("SELECT pk, settings FROM session WHERE id = ?1", [session], |r| {
                Ok((r.get(0)?, r.get(1)?))
            })
            .unwrap_or_else(|e| panic!("round {round}: {session} is not there: {e}"));
        let settings: Value = serde_json::from_str(&settings).unwrap();
        let stored = settings["approval"].as_str().unwrap().replace("autoEdit", "auto-edit");
        let under_way =
            open.iter().any(|(_, of, what, value)| of == session && *what == "mode" && *value == stored);
        assert!(stored == *mode || under_way, "round {round}: {session} is {stored}, was told {mode}");
        *mode = stored;
        let sql = "SELECT lines FROM frame WHERE session = ?1 AND kind = 1 ORDER BY id";
        let mut statement = database.prepare(sql).unwrap();
        let rows = statement.query_map([pk], |row| row.get::<_, Vec<u8>>(0)).unwrap();
        let text: String = rows.map(|row| String::from_utf8(row.unwrap()).unwrap()).collect();
        let mut last = 0;
        for prompt in &*prompts {
            let found: Vec<usize> = text.match_indices(prompt.as_str()).map(|(at, _)| at).collect();
            assert_eq!(found.len(), 1, "round {round}: {prompt} in {session}");
            assert!(found[0] >= last, "round {round}: {prompt} out of order");
            last = found[0];
        }
        let running = "SELECT count(*) FROM prompt WHERE session = ?1 AND state IN ('running', 'waiting')";
        assert_eq!(database.query_row(running, [pk], |row| row.get::<_, i64>(0)).unwrap(), 0);
        let answered = "SELECT count(*) FROM prompt WHERE session = ?1 AND state = 'answered'";
        let answered: i64 = database.query_row(answered, [pk], |row| row.get(0)).unwrap();
        assert!(usize::try_from(answered).unwrap() >= prompts.len(), "round {round}: {session}");
    }
}

/// R273, LOG-04: a file that cannot be used stops the start: its name, what is wrong and what to do are said, and it
/// stays as it was, byte for byte.
#[test]
fn a_file_that_cannot_be_used_stops_the_start_and_stays_as_it_is() {
    let newer = |path: &Path| {
        let database = Connection::open(path).unwrap();
        database.pragma_update(None, "user_version", 900).unwrap();
    };
    let strangers = |path: &Path| {
        fs::remove_file(path).unwrap();
        Connection::open(path)
            .unwrap()
            .execute_batch("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)")
            .unwrap();
    };
    let damaged = |path: &Path| {
        let mut bytes = fs::read(path).unwrap();
        bytes[..100].fill(b'x');
        fs::write(path, bytes).unwrap();
    };
    let text = |path: &Path| fs::write(path, "not a database at all\n".repeat(100)).unwrap();
    type Spoil = dyn Fn(&Path);
    let spoilers: [(&str, &Spoil, &str); 4] = [
        ("newer", &newer, "version 900"),
        ("stranger's", &strangers, "another program"),
        ("damaged", &damaged, "left as it is"),
        ("text", &text, "left as it is"),
    ];
    for (what, spoil, tells) in spoilers {
        let mut scene = loading(|_| {});
        let (session, mut peer) = scene.session("work");
        says(&mut scene.host, &session, &mut peer, "something");
        scene.sandbox.signal(Signal::TERM);
        scene.sandbox.wait_exit(PATIENCE);
        let path = file(&scene.sandbox);
        let log = fs::metadata(path.with_extension("db-wal")).map_or(0, |log| log.len());
        assert_eq!(log, 0, "a stop moves the log into the file");
        spoil(&path);
        let before = fs::read(&path).unwrap();
        let (code, said) = refused(&scene.sandbox);
        assert!(code.is_some_and(|code| code != 0), "{what}: {code:?}");
        assert!(said.contains(path.to_str().unwrap()) && said.contains(tells), "{what}: {said}");
        assert!(fs::read(&path).unwrap() == before, "{what}: it was changed");
        assert!(
            !scene.sandbox.host_socket().exists()
                || std::os::unix::net::UnixStream::connect(scene.sandbox.host_socket()).is_err()
        );
    }
}

/// R185, R56: rows that were changed by hand: who asks for that session hears which row is wrong; the others are not
/// disturbed, and nothing is mended by itself.
#[test]
fn a_row_that_was_changed_by_hand_hurts_its_session_only() {
    for (sql, wrong) in [
        ("UPDATE session SET settings = 'nonsense' WHERE id = ?1", "unreadable settings"),
        ("UPDATE session SET parent = '../x' WHERE id = ?1", "an impossible parent"),
        (
            "UPDATE frame SET lines = x'7b' WHERE session = (SELECT pk FROM session WHERE id = ?1)",
            "does not end with a line",
        ),
        (
            "UPDATE frame SET kind = 99 WHERE session = (SELECT pk FROM session WHERE id = ?1)",
            "unknown kind 99",
        ),
    ] {
        let mut scene = loading(|_| {});
        let (other, mut others) = scene.session("other");
        let (session, mut peer) = scene.session("work");
        says(&mut scene.host, &session, &mut peer, "something");
        let id = scene.host.request("session/close", json!({"sessionId": session}));
        scene.host.result(&id);
        assert!(scene.sandbox.database().execute(sql, [&session]).unwrap() > 0);
        let mut host = scene.another();
        for _ in 0..2 {
            let id = scene.load(&mut host, &session, "work");
            let error = host.error(&id);
            let said = error["message"].as_str().unwrap();
            assert!(error["code"] == -32603 && said.contains(&session) && said.contains(wrong), "{error}");
        }
        says(&mut scene.host, &other, &mut others, "undisturbed");
        sound(&scene.sandbox);
    }
}

/// R45, R56: made-up cursors and ids that would leave a directory are refused as such; no file is touched.
#[test]
fn made_up_cursors_and_ids_are_refused() {
    let mut scene = loading(|_| {});
    let (session, mut peer) = scene.session("work");
    let cwd = scene.sandbox.cwd("work");
    // Who is alive is written down in one place, and changes with the processes.
    let files = |scene: &Scene| {
        let all = scene.sandbox.files().into_keys();
        all.filter(|path| !path.to_string_lossy().contains("/peers/")).collect::<Vec<PathBuf>>()
    };
    let before = files(&scene);
    for cursor in [
        "",
        "1",
        "1.",
        ".1",
        "1.2.3",
        "x.y",
        "999999999999999999999.1",
        "1.99999999999999999999",
        "-1.-1\n",
        "1 .2",
    ] {
        let id = scene.host.request("session/list", json!({"cursor": cursor}));
        let answer = scene.host.answer(&id);
        assert_eq!(answer["error"]["code"], -32602, "{cursor:?}: {answer}");
    }
    for wrong in ["../x", "..", ".", "a/../../b", "/etc/passwd", "a\0b", "", "..\\x", "%2e%2e/x"] {
        for method in ["session/load", "session/resume", "session/fork", "session/delete", "session/close"] {
            let params = json!({"sessionId": wrong, "cwd": cwd, "mcpServers": []});
            let id = scene.host.request(method, params);
            let answer = scene.host.answer(&id);
            let code = answer["error"]["code"].as_i64();
            let fits = matches!(code, Some(-32602 | -32002))
                || (code.is_none() && !method.contains("oa") && method != "session/fork");
            assert!(fits, "{method} {wrong:?}: {answer}");
        }
    }
    assert_eq!(files(&scene), before);
    scene.plays(&session, &mut peer);
}

/// R274: while there is no space a new session, a mode and a prompt are errors that say so, what streams waits, the
/// daemon and its other sessions go on; with space everything works again and what streamed is there once.
#[test]
fn a_full_disk_is_told_and_passes() {
    let mut full = PathBuf::new();
    let mut scene = loading(|sandbox| {
        full = sandbox.path("full");
        sandbox.env("ACPVISOR_FAULT", &format!("full-while={}", full.display()));
    });
    let (session, mut peer) = scene.session("work");
    let (other, mut others) = scene.session("other");
    let (turn, prompt) = scene.turn(&session, &mut peer);
    peer.update("before ");
    assert_eq!(scene.host.expect_text(), "before ");
    wait_until("it is on record", PATIENCE, || stored(&scene.sandbox, &session).contains("before "));
    fs::write(&full, "").unwrap();
    peer.update("within ");
    assert_eq!(scene.host.expect_text(), "within ");
    let full_error = |error: &Value| {
        let said = error["message"].as_str().unwrap();
        assert!(
            error["code"] == -32603 && said.contains("no space") && said.contains("sessions.db"),
            "{error}"
        );
        assert_eq!(error["data"]["failure"]["retryable"], true);
    };
    let id = scene.host.prompt(&other, "now");
    full_error(&scene.host.error(&id));
    assert!(
        !others.unread().iter().any(|m| m["method"] == "session/prompt"),
        "what is not on record does not run"
    );
    let id = scene.host.request_session(&scene.sandbox.cwd("third"));
    full_error(&scene.host.error(&id));
    fs::remove_file(&full).unwrap();
    says(&mut scene.host, &other, &mut others, "again");
    peer.update("after");
    peer.end_turn(&prompt);
    assert_eq!(scene.host.stop_reason(&turn), "end_turn");
    wait_until("what waited is on record", PATIENCE, || stored(&scene.sandbox, &session).contains("within "));
    let text = stored(&scene.sandbox, &session);
    assert_eq!(text.matches("within ").count(), 1);
    let order = ["before ", "within ", "after"].map(|piece| text.find(piece));
    assert!(order.is_sorted(), "{order:?}");
    let mut host = scene.another();
    assert_eq!(scene.shown(&mut host, &session, "work"), ["user: go", "agent: before within after"]);
    sound(&scene.sandbox);
}

/// The lines of the peer that are stored of that session.
fn stored(sandbox: &Sandbox, session: &str) -> String {
    let database = sandbox.database();
    let sql = "SELECT f.lines FROM frame f JOIN session s ON s.pk = f.session WHERE s.id = ?1 AND f.kind = 0 ORDER BY f.id";
    let mut statement = database.prepare(sql).unwrap();
    let rows = statement.query_map([session], |row| row.get::<_, Vec<u8>>(0)).unwrap();
    rows.map(|row| String::from_utf8_lossy(&row.unwrap()).into_owned()).collect()
}

/// R274: a store that is slower than the stream holds the peer by credit: memory stays bounded, another session goes
/// on, nothing is lost.
#[test]
fn a_slow_disk_slows_the_peer_and_nobody_else() {
    let mut scene = loading(|sandbox| sandbox.env("ACPVISOR_FAULT", "slow-commit=150"));
    let (session, mut peer) = scene.session("work");
    let (other, mut others) = scene.session("other");
    let before = scene.sandbox.rss();
    let (turn, prompt) = scene.turn(&session, &mut peer);
    let (count, bytes) = (3_000, 8_000);
    peer.flood(count, bytes);
    wait_until("it streams", PATIENCE, || scene.host.unread().iter().any(|m| line::text(m).is_some()));
    says(&mut scene.host, &other, &mut others, "meanwhile");
    peer.wait_note("done flood");
    peer.end_turn(&prompt);
    let answer = scene.host.answer_within(&turn, 3 * PATIENCE);
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    let grown = scene.sandbox.peak_rss().saturating_sub(before);
    assert!(grown < 16 << 20, "24 MB were streamed and {grown} bytes kept");
    let text = stored(&scene.sandbox, &session);
    assert_eq!(text.lines().filter(|line| line.contains("agent_message_chunk")).count() as u64, count);
}

/// LOG-06: sessions in which nothing happens write nothing.
#[test]
fn idle_sessions_write_nothing() {
    let mut scene = loading(|_| {});
    for n in 0..10 {
        let (session, mut peer) = scene.session(&format!("d{n}"));
        says(&mut scene.host, &session, &mut peer, "x");
    }
    // Everything that was acknowledged is synced and settled within a second or so.
    let state = || {
        let of = |path: PathBuf| fs::metadata(path).map(|m| (m.size(), m.mtime(), m.mtime_nsec())).ok();
        let beside = |end: &str| of(scene.sandbox.path(&format!("state/acpvisor/sessions.db{end}")));
        let logs: u64 = scene.sandbox.entries().len() as u64;
        (beside(""), beside("-wal"), written(scene.sandbox.pid()), logs)
    };
    let mut last = (state(), Instant::now());
    wait_until("it is quiet", 3 * PATIENCE, || {
        let now = state();
        if now != last.0 {
            last = (now, Instant::now());
        }
        last.1.elapsed() > Duration::from_secs(3)
    });
}

/// Bytes that the process wrote, to anywhere.
fn written(pid: u32) -> u64 {
    let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
    let line = io.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    line.unwrap().parse().unwrap()
}

/// LOG-03: whatever is left of the log after a crash, torn, cut short or gone, the daemon starts, what was there before
/// is there, and what is said then too; the second restart is clean.
#[test]
fn a_torn_log_costs_its_tail_only() {
    type Tear = fn(&mut Vec<u8>);
    let tears: [(&str, Tear); 4] = [
        ("cut", |bytes| bytes.truncate(bytes.len() - 1_000)),
        ("zeros", |bytes| bytes.extend(std::iter::repeat_n(0, 5_000))),
        ("noise", |bytes| {
            let from = bytes.len() - 700;
            bytes[from..].fill(0xe2);
        }),
        ("gone", Vec::clear),
    ];
    for (what, tear) in tears {
        let mut scene = loading(|_| {});
        let (session, mut peer) = scene.session("work");
        says(&mut scene.host, &session, &mut peer, "first");
        // A stop moves the log into the file.
        scene.sandbox.restart();
        scene.host = scene.another();
        let id = scene.host.request(
            "session/load",
            json!({"sessionId": session, "cwd": scene.sandbox.cwd("work"), "mcpServers": []}),
        );
        scene.host.result(&id);
        scene.host.unread();
        let mut peer = scene.puppets.serving();
        says(&mut scene.host, &session, &mut peer, "second");
        scene.sandbox.kill();
        let wal = scene.sandbox.path("state/acpvisor/sessions.db-wal");
        let mut bytes = fs::read(&wal).unwrap();
        tear(&mut bytes);
        fs::write(&wal, bytes).unwrap();
        let _ = fs::remove_file(scene.sandbox.path("state/acpvisor/sessions.db-shm"));
        scene.sandbox.start();
        sound(&scene.sandbox);
        let mut host = scene.another();
        let shown = scene.shown(&mut host, &session, "work");
        assert_eq!(shown[..2], ["user: go", "agent: first"], "{what}");
        let mut peer = scene.puppets.serving();
        says(&mut host, &session, &mut peer, "third");
        scene.sandbox.restart();
        let mut host = scene.another();
        let again = scene.shown(&mut host, &session, "work");
        assert_eq!(again[..shown.len()], shown, "{what}");
        assert_eq!(again[shown.len()..], ["user: go", "agent: third"], "{what}");
    }
}

/// UPG-01, R280: a stop in mid-turn answers the prompt, the log names the session, and afterwards the turn is known as
/// interrupted.
#[test]
fn a_stop_in_mid_turn_leaves_a_trace() {
    let mut scene = loading(|_| {});
    let (session, mut peer) = scene.session("work");
    let (turn, prompt) = scene.turn(&session, &mut peer);
    peer.update("half");
    scene.host.expect_text();
    scene.sandbox.signal(Signal::TERM);
    peer.expect("session/cancel");
    peer.reply(&prompt, json!({"stopReason": "cancelled"}));
    assert_eq!(scene.host.stop_reason(&turn), "cancelled");
    assert_eq!(scene.sandbox.wait_exit(PATIENCE).code(), Some(0));
    let log = scene.sandbox.log();
    let ended = log.lines().find(|line| line.contains("session ends") && line.contains(&session));
    assert!(ended.is_some_and(|line| line.contains("Stopping")), "{ended:?}");
    scene.sandbox.start();
    let shown = scene.sandbox.control("sessions.show", json!({"id": session}));
    let prompts = shown["prompts"].as_array().unwrap();
    assert_eq!(
        (prompts.len(), &prompts[0]["state"], &prompts[0]["outcome"]),
        (1, &json!("answered"), &json!("cancelled"))
    );
    let mut host = scene.another();
    assert_eq!(scene.shown(&mut host, &session, "work"), ["user: go", "agent: half"]);
}

/// R274: a disk that fails ends the daemon with its reason and an exit code of its own; nothing that was acknowledged is
/// lost, and with a sound disk it starts again.
#[test]
fn a_disk_that_fails_ends_the_daemon() {
    let mut scene = loading(|_| {});
    let (session, mut peer) = scene.session("work");
    says(&mut scene.host, &session, &mut peer, "something");
    scene.sandbox.signal(Signal::TERM);
    scene.sandbox.wait_exit(PATIENCE);
    let mut command = scene.sandbox.command(&["daemon"]);
    command.env("ACPVISOR_FAULT", "fail-commit=1");
    scene.sandbox.start_by(command);
    scene.host = scene.another();
    let id = scene.host.request_session(&scene.sandbox.cwd("work"));
    assert_eq!(scene.sandbox.wait_exit(PATIENCE).code(), Some(111));
    scene.host.expect_end(PATIENCE);
    let heard = scene.host.unread();
    assert!(!heard.iter().any(|m| m["id"] == id && m.get("result").is_some()), "{heard:?}");
    let log = scene.sandbox.log();
    assert!(log.contains("store failed") && log.contains("fault on demand"), "{log}");
    scene.sandbox.start();
    let mut host = scene.another();
    assert_eq!(scene.shown(&mut host, &session, "work"), ["user: go", "agent: something"]);
    wait_until("nothing of before is left", PATIENCE, || {
        scene.sandbox.survivors().is_subset(&scene.sandbox.descendants())
    });
}

/// R148: a question that is open when the daemon is killed is closed: it is shown as failed, nobody is asked again, and
/// nothing runs by itself.
#[test]
fn a_question_does_not_survive_the_process_that_asked() {
    let mut scene = loading(|_| {});
    let (session, mut peer) = scene.session("work");
    let (_, _prompt) = scene.turn(&session, &mut peer);
    let call = json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "ls", "kind": "execute", "status": "pending"});
    peer.notify("session/update", json!({"sessionId": peer.session(), "update": call}));
    peer.ask_permission("t", "ls");
    scene.host.expect("session/request_permission");
    wait_until("it is on record", PATIENCE, || {
        stored(&scene.sandbox, &session).contains("request_permission")
    });
    scene.die(json!({}));
    let mut host = scene.another();
    let shown = scene.shown(&mut host, &session, "work");
    assert_eq!(shown[0], "user: go");
    assert!(shown[1].starts_with("tool_call: t"), "{shown:?}");
    assert_eq!(shown.last().map(String::as_str), Some("tool_call_update: t failed"));
    let mut peer = scene.puppets.serving();
    // A turn later nobody was asked anything, and the agent was not made to repeat it.
    says(&mut host, &session, &mut peer, "on");
    assert!(!host.unread().iter().any(|m| m["method"] == "session/request_permission"));
    let open = scene.sandbox.control("sessions.list", json!({}))["sessions"][0]["open_requests"].clone();
    assert_eq!(open, json!(0));
}

/// PROC-12: a record of a former daemon whose number belongs to somebody else by now costs nobody anything.
#[test]
fn a_recycled_pid_is_not_signalled() {
    let mut scene = loading(|_| {});
    let (_session, _peer) = scene.session("work");
    let records = scene.sandbox.path("state/acpvisor/peers");
    let mut record = Value::Null;
    wait_until("it is on record", PATIENCE, || {
        let entries = fs::read_dir(&records).unwrap().flatten().map(|entry| entry.path());
        let text =
            entries.filter(|p| p.extension().is_some_and(|e| e == "json")).find_map(|p| fs::read(p).ok());
        record = text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        record.is_object()
    });
    scene.sandbox.kill();
    let mut bystander = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    record["shim"]["pid"] = bystander.id().into();
    record["agent"]["pid"] = bystander.id().into();
    let file = records.join(format!("{}-1.json", bystander.id()));
    fs::write(&file, record.to_string()).unwrap();
    scene.sandbox.start();
    scene.sandbox.control("status", json!({}));
    assert!(bystander.try_wait().unwrap().is_none(), "it lives");
    assert!(!file.exists(), "the record is gone");
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

/// R274: a turn that ends while there is no space is an error to its host, and costs neither the session nor what was
/// said: the next turn runs, and a load shows both.
#[test]
fn a_turn_may_end_without_space() {
    let mut full = PathBuf::new();
    let mut scene = loading(|sandbox| {
        full = sandbox.path("full");
        sandbox.env("ACPVISOR_FAULT", &format!("full-while={}", full.display()));
    });
    let (session, mut peer) = scene.session("work");
    let (turn, prompt) = scene.turn(&session, &mut peer);
    fs::write(&full, "").unwrap();
    peer.update("unheard of ");
    peer.end_turn(&prompt);
    let error = scene.host.error(&turn);
    assert!(error["message"].as_str().is_some_and(|m| m.contains("no space")), "{error}");
    fs::remove_file(&full).unwrap();
    says(&mut scene.host, &session, &mut peer, "next");
    wait_until("what waited is on record", PATIENCE, || {
        stored(&scene.sandbox, &session).contains("unheard of ")
    });
    let mut host = scene.another();
    let shown = scene.shown(&mut host, &session, "work");
    assert_eq!(shown, ["user: go", "agent: unheard of ", "user: go", "agent: next"]);
    scene.sandbox.restart();
    let shown = scene.sandbox.control("sessions.show", json!({"id": session}));
    let states: Vec<&Value> = shown["prompts"].as_array().unwrap().iter().map(|p| &p["state"]).collect();
    assert_eq!(states, ["answered", "answered"]);
}

/// R274, R110: while there is no space a stream waits in its agent: memory stays bounded, a cancel reaches the agent,
/// and with space all of it arrives, once.
#[test]
fn a_stream_waits_for_space() {
    let mut full = PathBuf::new();
    let mut scene = loading(|sandbox| {
        full = sandbox.path("full");
        sandbox.env("ACPVISOR_FAULT", &format!("full-while={}", full.display()));
    });
    let (session, mut peer) = scene.session("work");
    let (other, mut others) = scene.session("other");
    let (turn, prompt) = scene.turn(&session, &mut peer);
    let before = scene.sandbox.rss();
    fs::write(&full, "").unwrap();
    let count = 2_000;
    peer.flood(count, 8_000);
    scene.sandbox.wait_quiet(&session);
    assert!(!peer.heard("done flood"), "it is held");
    let grown = scene.sandbox.rss().saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes are kept");
    scene.host.cancel(&other);
    scene.host.cancel(&session);
    peer.expect("session/cancel");
    fs::remove_file(&full).unwrap();
    peer.wait_note("done flood");
    peer.reply(&prompt, json!({"stopReason": "cancelled"}));
    assert_eq!(scene.host.stop_reason(&turn), "cancelled");
    says(&mut scene.host, &other, &mut others, "works");
    let texts = scene
        .host
        .unread()
        .iter()
        .filter(|m| m["params"]["sessionId"] == json!(session))
        .filter_map(line::text)
        .count();
    assert_eq!(texts as u64, count);
    assert_eq!(stored(&scene.sandbox, &session).matches("agent_message_chunk").count() as u64, count);
}
