//! A sandbox, its puppets and a host that has initialised: where most tests begin.

use serde_json::{Value, json};

use crate::{
    host::Host,
    peer::{Peer, Puppets},
    sandbox::Sandbox,
};

/// A daemon with one agent `p` of willing puppets, and one host.
pub struct Scene {
    /// The host. Dropped before the daemon ends.
    pub host: Host,
    /// The agent's processes.
    pub puppets: Puppets,
    /// The daemon.
    pub sandbox: Sandbox,
}

impl Scene {
    /// With the defaults, and a host that offers nothing.
    pub fn open() -> Self {
        Self::with(json!({}), |_| {})
    }

    /// With a host that offers those capabilities and a sandbox prepared by `prepare`.
    pub fn with(capabilities: Value, prepare: impl FnOnce(&mut Sandbox)) -> Self {
        Self::playing(json!({"loadSession": false}), capabilities, prepare)
    }

    /// The same with an agent that has those capabilities.
    pub fn playing(agent: Value, capabilities: Value, prepare: impl FnOnce(&mut Sandbox)) -> Self {
        let mut sandbox = Sandbox::new();
        let initialize = json!({
            "protocolVersion": 1,
            "agentCapabilities": agent,
            "agentInfo": {"name": "puppet", "version": "1"},
            "authMethods": [],
        });
        let puppets = sandbox.puppet_agent("p").answer_with(initialize, json!({}));
        prepare(&mut sandbox);
        sandbox.start();
        let mut host = Host::direct(&sandbox);
        host.initialize(capabilities);
        Self { host, puppets, sandbox }
    }

    /// With puppets that answer nothing by themselves, and a host that has said nothing yet.
    pub fn silent(prepare: impl FnOnce(&mut Sandbox)) -> Self {
        let mut sandbox = Sandbox::new();
        let puppets = sandbox.puppet_agent("p");
        prepare(&mut sandbox);
        sandbox.start();
        let host = Host::direct(&sandbox);
        Self { host, puppets, sandbox }
    }

    /// Initialises, with this answer of the agent's; returns what the host was answered, and the process.
    pub fn initialise(&mut self, answer: &Value) -> (Value, Peer) {
        let id = self.host.request_initialize(json!({}));
        let mut peer = self.puppets.next();
        let initialize = peer.expect("initialize");
        peer.reply(&initialize, answer.clone());
        (self.host.result(&id), peer)
    }

    /// Another host, initialised.
    pub fn another(&self) -> Host {
        let mut host = Host::direct(&self.sandbox);
        host.initialize(json!({}));
        host
    }

    /// Takes a session up on another host, and does not wait.
    pub fn resume(&self, host: &mut Host, session: &str, dir: &str) -> Value {
        let cwd = self.sandbox.cwd(dir);
        host.request("session/resume", json!({"sessionId": session, "cwd": cwd, "mcpServers": []}))
    }

    /// With short times for everything that is waited for: cancels, stops and unused processes.
    pub fn brisk(prepare: impl FnOnce(&mut Sandbox)) -> Self {
        Self::with(json!({}), |sandbox| {
            sandbox.set("limits", "cancel_grace_ms = 300");
            sandbox.set("limits", "warm_ms = 100");
            sandbox.set("agent.p", "stop_grace_ms = 400");
            prepare(sandbox);
        })
    }

    /// A new session in a directory of that name: its id, and its process.
    pub fn session(&mut self, dir: &str) -> (String, Peer) {
        let session = self.host.new_session(&self.sandbox.cwd(dir));
        (session, self.puppets.serving())
    }

    /// Starts a turn; returns the host's request id and the peer's request.
    pub fn turn(&mut self, session: &str, peer: &mut Peer) -> (Value, Value) {
        let id = self.host.prompt(session, "go");
        (id, peer.expect("session/prompt"))
    }

    /// Starts a turn, ends it and expects both to work: the session lives.
    pub fn plays(&mut self, session: &str, peer: &mut Peer) {
        let (id, prompt) = self.turn(session, peer);
        peer.end_turn(&prompt);
        assert_eq!(self.host.stop_reason(&id), "end_turn");
    }
}
