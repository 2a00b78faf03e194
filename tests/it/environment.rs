//! What an agent is given and what is kept of its stderr: variables by name alone, and a short tail (group P).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{host::Host, sandbox::Sandbox, scene::Scene};

fn message(error: &Value) -> &str {
    error["message"].as_str().unwrap_or_default()
}

/// R230: the environment of an agent holds what is on the list, what the operator names, and nothing else.
#[test]
fn the_environment_is_built_from_nothing() {
    let mut scene = Scene::with(json!({}), |sandbox| {
        for name in ["GH_TOKEN", "AWS_PROFILE", "SSH_AUTH_SOCK", "LD_PRELOAD_X", "FOO", "NOTIFY_SOCKET"] {
            sandbox.env(name, "stays");
        }
        for name in ["LANG", "LC_ALL", "TZ", "TERM", "OTEL_SERVICE_NAME", "https_proxy", "SSL_CERT_FILE"] {
            sandbox.env(name, "crosses");
        }
        sandbox.set("agent.p", r#"env = { OURS = "a `b` $c" }"#);
    });
    let (_, peer) = scene.session("work");
    let expected = [
        "PATH",
        "HOME",
        "TMPDIR",
        "XDG_RUNTIME_DIR",
        "XDG_CONFIG_HOME",
        "XDG_STATE_HOME",
        "XDG_DATA_HOME",
        "XDG_CACHE_HOME",
        "LANG",
        "LC_ALL",
        "TZ",
        "TERM",
        "OTEL_SERVICE_NAME",
        "https_proxy",
        "SSL_CERT_FILE",
        "OURS",
    ];
    assert_eq!(peer.hello.env.keys().map(String::as_str).collect::<BTreeSet<_>>(), BTreeSet::from(expected));
    assert_eq!(peer.hello.env["OURS"], "a `b` $c");
}

/// R232: what the operator sets wins, a home of its own leaves the directories of the other home behind.
#[test]
fn what_the_operator_sets_wins() {
    let mut scene = Scene::with(json!({}), |sandbox| {
        sandbox.env("FOO", "from the daemon");
        sandbox.set("agent.p", r#"env = { FOO = "a b", HOME = "/x" }"#);
        sandbox.set("agent.p", r#"env_pass = ["FOO"]"#);
        sandbox.set("agent.p", r#"path = "/usr/bin:/bin""#);
    });
    let (_, peer) = scene.session("work");
    let of = |name: &str| peer.hello.env.get(name).map(String::as_str);
    assert_eq!((of("FOO"), of("HOME"), of("PATH")), (Some("a b"), Some("/x"), Some("/usr/bin:/bin")));
    assert_eq!(of("XDG_CONFIG_HOME"), None);
}

/// R230, R233: a variable that is named comes from whoever connects, else from the daemon; no value is logged.
#[test]
fn a_named_variable_crosses_and_its_value_is_not_logged() {
    let mut scene = Scene::with(json!({}), |sandbox| {
        sandbox.set("", r#"log_level = "trace""#);
        sandbox.env("API_KEY", "MARKER-of-the-daemon");
        sandbox.set("agent.p", r#"env_pass = ["API_KEY", "UNSET"]"#);
        sandbox.set("agent.p", r#"env = { OTHER = "MARKER-of-the-operator" }"#);
    });
    let (session, mut peer) = scene.session("work");
    assert_eq!(peer.hello.env["API_KEY"], "MARKER-of-the-daemon");
    assert!(!peer.hello.env.contains_key("UNSET"));
    scene.plays(&session, &mut peer);
    scene.sandbox.env("API_KEY", "MARKER-of-the-editor");
    let mut editor = Host::bridge(&scene.sandbox, "p");
    editor.initialize(json!({}));
    editor.new_session(&scene.sandbox.cwd("other"));
    assert_eq!(scene.puppets.serving().hello.env["API_KEY"], "MARKER-of-the-editor");
    assert_eq!(scene.sandbox.logged("MARKER"), 0);
}

/// R235: however much an agent says on stderr, it is not held up and nothing grows.
#[test]
fn a_flood_on_stderr_holds_nobody_up() {
    let script = r#"head -c 100000000 /dev/zero >&2; exec "$0" demo-agent --puppet "$1""#;
    let mut scene = Scene::with(json!({}), |sandbox| sandbox.wrap("p", script));
    let before = scene.sandbox.rss();
    let (session, mut peer) = scene.session("work");
    scene.plays(&session, &mut peer);
    let grown = scene.sandbox.peak_rss().saturating_sub(before);
    assert!(grown < 8 << 20, "grew by {grown} bytes");
}

/// R23, R236, R237: a failure shows the last 500 characters of stderr, never a part of one, whenever it comes.
#[test]
fn failures_show_the_last_500_characters_of_stderr() {
    let mut sandbox = Sandbox::new();
    sandbox.program(
        "wide",
        "/bin/sh",
        &["-c", "printf 'é%.0s' $(seq 10000) >&2; printf '\\n \\n' >&2; exit 3"],
    );
    sandbox.program(
        "long",
        "/bin/sh",
        &["-c", "head -c 1000000 /dev/zero | tr '\\0' x >&2; echo LAST >&2; exit 3"],
    );
    sandbox.start();
    for (agent, sign, tail) in [("wide", 'é', "é"), ("long", 'x', "xLAST")] {
        let mut host = Host::direct(&sandbox);
        let meta = json!({"acpvisor": {"agent": agent}});
        let id = host
            .request("initialize", json!({"protocolVersion": 1, "clientCapabilities": {}, "_meta": meta}));
        let error = host.error(&id);
        let shown = message(&error).split_once("stderr ends: ").expect("it is shown").1;
        assert!(shown.ends_with(tail) && shown.contains(sign), "{error}");
        assert_eq!(shown.chars().count(), 500, "{error}");
    }
}
