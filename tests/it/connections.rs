//! The two sockets: whose they are, who may come in, and how many (R57, R254 to R256, R259).

use std::{
    collections::BTreeMap,
    fs,
    io::{BufReader, Write},
    os::unix::{
        fs::{MetadataExt, PermissionsExt, symlink},
        net::{UnixListener, UnixStream},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    host::Host,
    line,
    process::{self, PATIENCE, wait_until},
    sandbox::{ACPVISOR, Sandbox},
    scene::Scene,
};

fn demo() -> Sandbox {
    let mut sandbox = Sandbox::new();
    sandbox.demo_agent("d", &[]);
    sandbox
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn works(sandbox: &Sandbox) {
    let mut host = Host::direct(sandbox);
    host.initialize(json!({}));
    let session = host.new_session(&sandbox.cwd("work"));
    let id = host.prompt(&session, "echo works");
    assert_eq!(host.stop_reason(&id), "end_turn");
}

/// A connection that may end at any moment.
struct Silent(UnixStream);

impl Silent {
    fn connect(sandbox: &Sandbox) -> Self {
        let stream = UnixStream::connect(sandbox.host_socket()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(stream)
    }

    /// What the daemon says before it hangs up.
    fn last_word(&self) -> Value {
        let line = line::read(&mut BufReader::new(&self.0));
        line::parse(&line).unwrap_or_else(|why| panic!("{why}: {}", line::shown(&line)))
    }
}

/// R254: whoever connects directly may name its agent; a name that is not known is refused with those that are.
#[test]
fn a_direct_host_chooses_its_agent() {
    let mut sandbox = Sandbox::new();
    sandbox.demo_agent("first", &["--name", "one"]);
    sandbox.demo_agent("second", &["--name", "two"]);
    sandbox.start();
    let initialize = |agent: Option<&str>| {
        let mut host = Host::direct(&sandbox);
        let meta = agent.map_or(json!({}), |agent| json!({"acpvisor": {"agent": agent}}));
        let id = host
            .request("initialize", json!({"protocolVersion": 1, "clientCapabilities": {}, "_meta": meta}));
        host.answer(&id)
    };
    for (agent, name) in
        [(None, "one"), (Some("second"), "two"), (Some("first"), "one"), (Some("demo"), "acpvisor-demo")]
    {
        let answer = initialize(agent);
        if agent != Some("demo") {
            assert_eq!(answer["result"]["agentInfo"]["name"], name, "{agent:?}");
        }
        let served = agent.unwrap_or("first");
        assert_eq!(answer["result"]["_meta"]["acpvisor"]["agent"], served);
    }
    let error = initialize(Some("third"))["error"].clone();
    assert_eq!(error["code"], -32602);
    let text = error["message"].as_str().unwrap();
    assert!(["third", "first", "second", "demo"].iter().all(|name| text.contains(name)), "{text}");
}

/// R255, SOCK-05: directories and sockets are their owner's from their first instant, whatever the umask says.
#[test]
fn sockets_are_private_from_their_first_instant() {
    let mut sandbox = demo();
    let command = sandbox.command(&["daemon"]);
    let mut open = Command::new("/bin/sh");
    open.args(["-c", r#"umask 000; exec "$0" daemon"#, ACPVISOR]).env_clear();
    open.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .current_dir(sandbox.path(""));
    let socket = sandbox.host_socket();
    let watched = socket.clone();
    let first = std::thread::spawn(move || {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if let Ok(found) = fs::symlink_metadata(&watched) {
                return Some(found.permissions().mode() & 0o7777);
            }
        }
        None
    });
    sandbox.start_by(open);
    assert_eq!(first.join().unwrap(), Some(0o600));
    // It answers once everything is made.
    sandbox.control("status", json!({}));
    assert_eq!(mode(&sandbox.control_socket()), 0o600);
    for dir in ["run/acpvisor", "state/acpvisor", "state/acpvisor/logs", "state/acpvisor/peers"] {
        assert_eq!(mode(&sandbox.path(dir)), 0o700, "{dir}");
    }
    let logs = fs::read_dir(sandbox.path("state/acpvisor/logs")).unwrap().flatten();
    assert!(logs.map(|log| mode(&log.path())).all(|mode| mode == 0o600));
}

/// R255: from inside an agent nobody opens sessions, unless the operator wants that.
#[test]
fn an_agent_cannot_reach_its_own_daemon() {
    for (nested, code) in [(false, "1"), (true, "0")] {
        let mut sandbox = Sandbox::new();
        let puppets = sandbox.puppet_agent("p").willing();
        let said = sandbox.path("said");
        let script = format!(
            r#""$0" status >>{0} 2>&1; echo "status $?" >>{0}
               "$0" stop >>{0} 2>&1; echo "stop $?" >>{0}
               (setsid "$0" run --no-start --agent demo 'echo nested' >>{0} 2>&1; echo "run $?" >>{0})
               exec "$0" demo-agent --puppet "$1""#,
            said.display()
        );
        let script = if nested { script.replace(r#""$0" stop"#, "true") } else { script };
        sandbox.wrap("p", &script);
        sandbox.set("", &format!("nested = {nested}"));
        sandbox.start();
        let mut host = Host::direct(&sandbox);
        host.initialize(json!({}));
        let text = fs::read_to_string(&said).unwrap();
        assert!(
            text.contains(&format!("status {code}\n")) && text.contains(&format!("run {code}\n")),
            "{text}"
        );
        assert_eq!(text.contains("nested\n"), nested, "{text}");
        if !nested {
            sandbox.wait_logged("connection refused", 2);
            assert!(sandbox.log().contains("nested = true"), "the log says what allows it");
            assert_eq!(text.matches("nested = true").count(), 3, "each verb says it: {text}");
        }
        drop(puppets);
    }
}

/// R255, SOCK-04: a path of a socket is as long as the kernel takes; a longer one names limit and setting.
#[test]
fn a_socket_path_that_is_too_long_is_named() {
    let mut sandbox = demo();
    sandbox.write_config();
    let base = sandbox.path("");
    let with_length = |length: usize| {
        let name = length - base.as_os_str().len() - "/control.sock".len();
        base.join("é".repeat(name / 2) + if name % 2 == 1 { "x" } else { "" })
    };
    let fits = with_length(107);
    sandbox.env("ACPVISOR_RUNTIME_DIR", fits.to_str().unwrap());
    let output = sandbox.output(&["run", "echo it fits"], "");
    assert!(output.status.success(), "{output:?}");
    let stopped = sandbox.output(&["stop"], "");
    assert!(stopped.status.success(), "{stopped:?}");
    for length in [108, 120, 200] {
        let long = with_length(length);
        sandbox.env("ACPVISOR_RUNTIME_DIR", long.to_str().unwrap());
        for args in [&["daemon"][..], &["run", "hello"]] {
            let output = sandbox.output(args, "");
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{said}");
            assert!(said.contains("107") && said.contains("ACPVISOR_RUNTIME_DIR"), "{length}: {said}");
        }
        assert!(!long.exists(), "nothing was made");
    }
}

/// R255, SOCK-01: a directory that others can enter is refused, and what is no socket of ours is left alone.
#[test]
fn what_is_not_ours_is_refused_and_left_alone() {
    let sandbox = demo();
    sandbox.write_config();
    let run = sandbox.dir("run/acpvisor");
    let said = || {
        let output = sandbox.output(&["daemon"], "");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    fs::set_permissions(&run, fs::Permissions::from_mode(0o777)).unwrap();
    let text = said();
    assert!(text.contains(run.to_str().unwrap()) && text.contains("700"), "{text}");
    assert_eq!(mode(&run), 0o777, "it is not ours to change");
    fs::set_permissions(&run, fs::Permissions::from_mode(0o700)).unwrap();

    let socket = sandbox.host_socket();
    let elsewhere = sandbox.path("elsewhere");
    fs::write(&elsewhere, "precious").unwrap();
    let put: [(&str, &dyn Fn()); 3] = [
        ("file", &|| fs::write(&socket, "precious").unwrap()),
        ("directory", &|| fs::create_dir(&socket).unwrap()),
        ("link", &|| symlink(&elsewhere, &socket).unwrap()),
    ];
    for (what, put) in put {
        put();
        let before = fs::symlink_metadata(&socket).unwrap().ino();
        let text = said();
        assert!(text.contains(socket.to_str().unwrap()) && text.contains(what), "{what}: {text}");
        assert_eq!(fs::symlink_metadata(&socket).unwrap().ino(), before, "{what}");
        let _ = fs::remove_file(&socket).or_else(|_| fs::remove_dir(&socket));
    }
    assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "precious");
    let other = UnixListener::bind(&socket).unwrap();
    let text = said();
    assert!(text.contains(socket.to_str().unwrap()) && text.contains("listens"), "{text}");
    assert!(UnixStream::connect(&socket).is_ok(), "its owner still listens");
    drop(other);
}

/// R255, SOCK-05: another user is refused by the kernel's word, also where a mode would let him in.
#[test]
fn another_user_is_refused() {
    const NOBODY: u32 = 65_534;
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can become another user");
        return;
    }
    let mut sandbox = demo();
    sandbox.start();
    let open = |path: PathBuf, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    for dir in ["", "run", "run/acpvisor"] {
        open(sandbox.path(dir), 0o711);
    }
    open(sandbox.control_socket(), 0o666);
    open(sandbox.host_socket(), 0o666);
    for args in [&["status"][..], &["run", "--no-start", "hello"]] {
        let mut command = sandbox.command(args);
        command.uid(NOBODY).gid(NOBODY);
        command.env("HOME", "/").env_remove("XDG_CONFIG_HOME").current_dir("/");
        match command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).output() {
            Ok(output) => assert_eq!(output.status.code(), Some(1), "{output:?}"),
            Err(why) => {
                eprintln!("skipped: another user cannot run {ACPVISOR}: {why}");
                return;
            }
        }
    }
    sandbox.wait_logged("connection refused", 2);
    assert_eq!(sandbox.logged(&format!("uid {NOBODY}")), 2);
    works(&sandbox);
}

/// R256: of five hundred connections that say nothing each is told why it is not served, and others do not notice.
#[test]
fn five_hundred_silent_connections_disturb_nobody() {
    let mut scene = Scene::with(json!({}), |sandbox| {
        sandbox.set("limits", "hosts_max = 64");
        sandbox.set("limits", "first_message_ms = 1500");
    });
    let (session, mut peer) = scene.session("work");
    let mut silent: Vec<Silent> = (0..500).map(|_| Silent::connect(&scene.sandbox)).collect();
    scene.plays(&session, &mut peer);
    let words: Vec<Value> = silent.drain(..).map(|silent| silent.last_word()).collect();
    let told = |limit: &str| {
        words
            .iter()
            .filter(|word| word["error"]["message"].as_str().is_some_and(|text| text.contains(limit)))
            .count()
    };
    let (late, many) = (told("limits.first_message_ms"), told("limits.hosts_max"));
    assert_eq!(late + many, 500);
    assert!(many >= 500 - 63 && late >= 1, "{late} had a place, {many} had none");
    scene.plays(&session, &mut peer);
    wait_until("the places are free", PATIENCE, || {
        scene.sandbox.control("status", json!({}))["hosts"] == json!(1)
    });
    let mut next = Host::direct(&scene.sandbox);
    next.initialize(json!({}));
}

/// R256: who sends his first message byte by byte has no more time than others.
#[test]
fn a_first_message_may_not_take_for_ever() {
    let mut sandbox = demo();
    sandbox.set("limits", "first_message_ms = 1500");
    sandbox.start();
    let slow = Silent::connect(&sandbox);
    let mut writer = slow.0.try_clone().unwrap();
    let started = Instant::now();
    let drip = std::thread::spawn(move || {
        for byte in std::iter::repeat_n(b' ', 10_000) {
            if writer.write_all(&[byte]).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let word = slow.last_word();
    assert!(
        word["error"]["message"].as_str().is_some_and(|text| text.contains("first_message_ms")),
        "{word}"
    );
    assert!(started.elapsed() < Duration::from_secs(6));
    drop(slow);
    drip.join().unwrap();
    works(&sandbox);
}

/// R256: of ten thousand requests as many are open as may be; each is answered once; another host does not notice.
#[test]
fn ten_thousand_requests_are_bounded() {
    let mut scene = Scene::open();
    let (session, mut peer) = scene.session("work");
    let mut other = Host::direct(&scene.sandbox);
    other.initialize(json!({}));
    let theirs = other.new_session(&scene.sandbox.cwd("other"));
    let mut other_peer = scene.puppets.serving();
    let ask = |host: &mut Host| host.request("session/from_the_future", json!({"sessionId": session}));
    let ids: Vec<Value> = (0..10_000).map(|_| ask(&mut scene.host)).collect();
    let id = other.prompt(&theirs, "go");
    let prompt = other_peer.expect("session/prompt");
    other_peer.end_turn(&prompt);
    assert_eq!(other.stop_reason(&id), "end_turn");
    for id in &ids[256..] {
        let error = scene.host.error(id);
        assert!(
            error["message"].as_str().is_some_and(|text| text.contains("limits.host_requests_max")),
            "{error}"
        );
    }
    for id in &ids[..256] {
        let asked = peer.expect("session/from_the_future");
        peer.reply(&asked, json!({}));
        scene.host.result(id);
    }
    scene.plays(&session, &mut peer);
}

/// R57: a second daemon is told whose place it is and changes nothing.
#[test]
fn a_second_daemon_is_refused_with_the_pid_of_the_first() {
    let mut sandbox = demo();
    sandbox.start();
    let inode = fs::metadata(sandbox.host_socket()).unwrap().ino();
    let refused = || {
        let second = sandbox.output(&["daemon"], "");
        assert_eq!(second.status.code(), Some(100));
        let said = String::from_utf8_lossy(&second.stderr);
        assert!(said.contains(&sandbox.pid().to_string()), "{said}");
    };
    refused();
    // SOCK-03: a slow answer is no proof of death.
    process::signal(sandbox.pid(), Signal::STOP);
    refused();
    process::signal(sandbox.pid(), Signal::CONT);
    assert_eq!(fs::metadata(sandbox.host_socket()).unwrap().ino(), inode);
    works(&sandbox);
}

/// R57, SOCK-02: of twenty daemons that start at once one runs, with a stale socket in the way or without.
#[test]
fn of_twenty_daemons_at_once_one_runs() {
    let sandbox = demo();
    sandbox.write_config();
    for _ in 0..2 {
        let start =
            || sandbox.command(&["daemon"]).stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut daemons: Vec<Child> = (0..20).map(|_| start()).collect();
        let codes = |daemons: &mut Vec<Child>| -> BTreeMap<Option<i32>, usize> {
            let mut codes = BTreeMap::new();
            for daemon in daemons {
                *codes.entry(daemon.try_wait().unwrap().and_then(|status| status.code())).or_default() += 1;
            }
            codes
        };
        wait_until("nineteen are refused", 2 * PATIENCE, || {
            codes(&mut daemons) == BTreeMap::from([(None, 1), (Some(100), 19)])
        });
        wait_until("one listens", PATIENCE, || UnixStream::connect(sandbox.control_socket()).is_ok());
        let pid = sandbox.control("status", json!({}))["pid"].clone();
        let winner = daemons.iter_mut().find(|daemon| json!(daemon.id()) == pid).expect("one of them");
        winner.kill().unwrap();
        winner.wait().unwrap();
    }
}

/// SIG-03: hosts that ask for much and hang up at once, and agents that close their stdin, harm nobody.
#[test]
fn broken_pipes_harm_nobody() {
    let mut scene = Scene::with(json!({}), |sandbox| {
        sandbox.demo_agent("d", &[]);
        sandbox.set("agent.d", "stop_grace_ms = 200");
        sandbox.set("limits", "cancel_grace_ms = 200");
        sandbox.set("limits", "hosts_max = 200");
    });
    for n in 0..100 {
        let mut stream = UnixStream::connect(scene.sandbox.host_socket()).unwrap();
        let junk = b"{}\n".repeat(200 * (n % 3));
        let _ = stream.write_all(&junk);
    }
    for _ in 0..5 {
        let mut host = Host::direct(&scene.sandbox);
        let meta = json!({"acpvisor": {"agent": "d"}});
        let id = host
            .request("initialize", json!({"protocolVersion": 1, "clientCapabilities": {}, "_meta": meta}));
        host.result(&id);
        let session = host.new_session(&scene.sandbox.cwd("work"));
        host.prompt(&session, "flood 100000 1000");
        host.expect_text();
    }
    let (session, mut peer) = scene.session("deaf");
    peer.obey("close-stdin");
    let id = scene.host.prompt(&session, "into the void");
    assert_eq!(scene.host.error(&id)["code"], -32603);
    let (session, mut peer) = scene.session("fine");
    scene.plays(&session, &mut peer);
    wait_until("the hosts are gone", PATIENCE, || {
        scene.sandbox.control("status", json!({}))["hosts"] == json!(1)
    });
}

/// R259: the tree shows the processes that there are, with what the kernel says of them.
#[test]
fn the_tree_matches_the_processes() {
    let mut scene = Scene::open();
    let mut peers: Vec<_> = (0..5).map(|n| scene.session(&format!("work{n}"))).collect();
    peers[0].1.spawn("spawn-setsid");
    for (session, peer) in &peers {
        let card = scene.sandbox.peer_card(session);
        let process = &card["process"];
        assert_eq!(process["pid"], json!(peer.pid()));
        assert_eq!(process["pgid"], json!(peer.hello.pgid));
        assert_eq!(card["facts"]["shim"], json!(peer.hello.ppid));
        let rss = usize::try_from(process["rss_bytes"].as_u64().unwrap()).unwrap();
        let real = process::rss(peer.pid());
        assert!(rss.abs_diff(real) < 4 << 20, "{rss} and {real}");
        let below = process::descendants(peer.hello.ppid).len();
        assert_eq!(process["subtree"]["processes"], json!(below));
        assert!(card["last_frame_ms"].as_u64().is_some());
    }
    let tree = scene.sandbox.control("tree", json!({}));
    let text = tree.to_string();
    for kind in
        ["root", "store", "residency", "berths", "berth", "session", "peer", "listener", "host", "operator"]
    {
        assert!(text.contains(&format!("\"kind\":\"{kind}\"")), "no {kind}");
    }
    assert_eq!(text.matches("\"kind\":\"session\"").count(), 6, "five and the warm one");
    let shown = scene.sandbox.output(&["tree"], "");
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(peers.iter().all(|(session, peer)| {
        shown.contains(session.as_str()) && shown.contains(&peer.pid().to_string())
    }));
}
