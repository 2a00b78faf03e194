//! The environment of an agent, built from nothing (R230 to R232). Pure.
//!
//! Three layers, each wins over the one before: what is known to be harmless, what the operator lets pass, what the
//! operator sets. Nothing else crosses, and no credential does by accident (R231).

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
};

use crate::config::Agent;

/// Variables by name.
pub type Variables = BTreeMap<OsString, OsString>;

/// Crosses from the daemon: where things are, who and where the user is, the ways out of the network.
const ALLOWED: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TMPDIR",
    "TERM",
    "LANG",
    "TZ",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_CACHE_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_DIRS",
    "XDG_DATA_DIRS",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
];
const ALLOWED_PREFIXES: &[&str] = &["LC_", "OTEL_"];
/// Belong to the home of whoever runs the daemon, so they end where another home begins (R232).
const OF_THE_HOME: &[&str] = &["XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"];
/// The daemon's own line to its service manager: a child that spoke on it would speak for the daemon.
const NEVER: &[&str] = &["NOTIFY_SOCKET"];
const NEVER_PREFIXES: &[&str] = &["LISTEN_", "WATCHDOG_"];

/// Builds the whole environment of an agent. `bridge` is what the hello of its host carried.
pub fn environment(
    daemon: &Variables,
    bridge: Option<&Variables>,
    agent: &Agent,
) -> Vec<(OsString, OsString)> {
    let mut child: Variables = daemon.iter().filter(|(name, _)| is_allowed(name)).map(owned).collect();
    if agent.env.contains_key("HOME") {
        child.retain(|name, _| !is_in(name, OF_THE_HOME));
    }
    let from = |name: &OsStr| bridge.and_then(|bridge| bridge.get(name)).or_else(|| daemon.get(name));
    let passed = agent.env_pass.iter().map(OsStr::new).filter(|name| !is_forbidden(name));
    child.extend(passed.filter_map(|name| Some(owned((name, from(name)?)))));
    let path = agent.path.as_ref().map(OsString::from).or_else(|| from("PATH".as_ref()).cloned());
    child.extend(path.map(|path| ("PATH".into(), path)));
    child.extend(agent.env.iter().map(owned));
    child.into_iter().collect()
}

fn owned((name, value): (impl AsRef<OsStr>, impl AsRef<OsStr>)) -> (OsString, OsString) {
    (name.as_ref().to_owned(), value.as_ref().to_owned())
}

fn is_allowed(name: &OsStr) -> bool {
    is_in(name, ALLOWED) || starts_with(name, ALLOWED_PREFIXES)
}

fn is_forbidden(name: &OsStr) -> bool {
    is_in(name, NEVER) || starts_with(name, NEVER_PREFIXES)
}

fn is_in(name: &OsStr, names: &[&str]) -> bool {
    names.iter().any(|known| name == *known)
}

fn starts_with(name: &OsStr, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| name.as_encoded_bytes().starts_with(prefix.as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> Variables {
        pairs.iter().copied().map(owned).collect()
    }

    fn names(child: &[(OsString, OsString)]) -> Vec<&str> {
        child.iter().filter_map(|(name, _)| name.to_str()).collect()
    }

    fn value<'a>(child: &'a [(OsString, OsString)], name: &str) -> Option<&'a str> {
        child.iter().find(|(known, _)| known == name).and_then(|(_, value)| value.to_str())
    }

    fn agent(change: impl FnOnce(&mut Agent)) -> Agent {
        let mut agent = Agent::demo();
        change(&mut agent);
        agent
    }

    const SECRETS: &[&str] = &[
        "GH_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_PROFILE",
        "SSH_AUTH_SOCK",
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "DBUS_SESSION_BUS_ADDRESS",
        "XDG_SESSION_ID",
        "LD_PRELOAD",
        "LANGUAGE",
        "PATHS",
        "HOMEBREW_TOKEN",
        "NOTIFY_SOCKET",
        "LISTEN_FDS",
        "LISTEN_PID",
        "WATCHDOG_USEC",
    ];

    /// R230, R231: no secret of the daemon or the bridge crosses by itself.
    #[test]
    fn secrets_stay_behind() {
        let secrets: Variables = SECRETS.iter().map(|name| owned((name, "secret"))).collect();
        assert!(environment(&secrets, Some(&secrets), &Agent::demo()).is_empty());
    }

    /// R230: the harmless ones cross from the daemon, whatever bytes they hold, and not from the bridge.
    #[test]
    fn what_is_allowed_crosses_from_the_daemon_alone() {
        let mut daemon: Variables = ALLOWED.iter().map(|name| owned((name, "daemon"))).collect();
        daemon.extend(["LC_ALL", "LC_TIME", "OTEL_SERVICE_NAME"].map(|name| owned((name, "daemon"))));
        daemon.insert("LANG".into(), OsString::from_vec(vec![0xff]));
        let bridge: Variables = daemon.keys().map(|name| owned((name, "bridge"))).collect();
        let mut without_path = bridge.clone();
        without_path.remove(OsStr::new("PATH"));
        assert_eq!(environment(&daemon, Some(&without_path), &Agent::demo()), Vec::from_iter(daemon));
        assert_eq!(names(&environment(&Variables::new(), Some(&bridge), &Agent::demo())), ["PATH"]);
    }

    /// R230: a variable named in `env_pass` comes from the bridge, else from the daemon, else not at all.
    #[test]
    fn a_named_variable_comes_from_the_bridge_before_the_daemon() {
        let daemon = variables(&[("A", "daemon"), ("B", "daemon"), ("C", "daemon")]);
        let bridge = variables(&[("A", "bridge"), ("C", "bridge")]);
        let agent = agent(|agent| agent.env_pass = ["A", "B", "D"].map(str::to_owned).into());
        let child = environment(&daemon, Some(&bridge), &agent);
        assert_eq!(Variables::from_iter(child), variables(&[("A", "bridge"), ("B", "daemon")]));
        let child = environment(&daemon, None, &agent);
        assert_eq!(Variables::from_iter(child), variables(&[("A", "daemon"), ("B", "daemon")]));
    }

    /// R230: the line to the service manager does not cross even when it is named.
    #[test]
    fn the_line_to_the_service_manager_never_passes() {
        let names = ["NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_PID"];
        let daemon: Variables = names.iter().map(|name| owned((name, "1"))).collect();
        let agent = agent(|agent| agent.env_pass = names.map(str::to_owned).into());
        assert!(environment(&daemon, Some(&daemon), &agent).is_empty());
    }

    /// R230: PATH is the agent's own setting, else the bridge's, else the daemon's.
    #[test]
    fn the_path_is_the_agents_then_the_bridges_then_the_daemons() {
        let (daemon, bridge) = (variables(&[("PATH", "/daemon")]), variables(&[("PATH", "/bridge")]));
        let own = agent(|agent| agent.path = Some("/own".to_owned()));
        let path = |bridge: Option<&Variables>, agent: &Agent| {
            value(&environment(&daemon, bridge, agent), "PATH").map(str::to_owned).expect("set")
        };
        assert_eq!(path(Some(&bridge), &own), "/own");
        assert_eq!(path(Some(&bridge), &Agent::demo()), "/bridge");
        assert_eq!(path(Some(&Variables::new()), &Agent::demo()), "/daemon");
        assert_eq!(path(None, &Agent::demo()), "/daemon");
    }

    /// R232: what the operator sets crosses verbatim and wins over everything.
    #[test]
    fn what_the_operator_sets_wins() {
        let daemon = variables(&[("FOO", "daemon"), ("HOME", "/home/me"), ("PATH", "/daemon")]);
        let agent = agent(|agent| {
            agent.env_pass = vec!["FOO".to_owned()];
            agent.path = Some("/own".to_owned());
            agent.env = [("FOO", "a `b` $c"), ("HOME", "/x"), ("PATH", "/set")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into();
        });
        let child = environment(&daemon, Some(&daemon), &agent);
        let expected = [("FOO", "a `b` $c"), ("HOME", "/x"), ("PATH", "/set")];
        assert_eq!(Variables::from_iter(child), variables(&expected));
    }

    /// R232: an explicit HOME is the base for the rest, so the directories of the former home do not cross.
    #[test]
    fn another_home_leaves_the_directories_of_the_first_behind() {
        let daemon = variables(&[
            ("XDG_CONFIG_HOME", "/home/me/.config"),
            ("XDG_CACHE_HOME", "/home/me/.cache"),
            ("XDG_RUNTIME_DIR", "/run/user/1000"),
        ]);
        let agent = agent(|agent| {
            agent.env.insert("HOME".to_owned(), "/x".to_owned());
            agent.env.insert("XDG_CACHE_HOME".to_owned(), "/cache".to_owned());
        });
        let child = environment(&daemon, None, &agent);
        assert_eq!(names(&child), ["HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"]);
        assert_eq!(value(&child, "XDG_CACHE_HOME"), Some("/cache"));
    }
}
