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

    /// Asks for a session with its history on another host, and does not wait.
    pub fn load(&self, host: &mut Host, session: &str, dir: &str) -> Value {
        let cwd = self.sandbox.cwd(dir);
        host.request("session/load", json!({"sessionId": session, "cwd": cwd, "mcpServers": []}))
    }

    /// Loads a session on another host: what it was shown before the answer, as a conversation.
    pub fn shown(&self, host: &mut Host, session: &str, dir: &str) -> Vec<String> {
        let id = self.load(host, session, dir);
        let mut shown = Vec::new();
        loop {
            let message = host.next();
            if message.get("method").is_none() && message["id"] == id {
                assert!(message.get("result").is_some(), "{message}");
                return shown;
            }
            shown.extend(said(session, &message));
        }
    }

    /// Kills the daemon without a word, starts it again and connects another host.
    pub fn die(&mut self, capabilities: Value) {
        self.sandbox.kill();
        self.sandbox.start();
        self.host = Host::direct(&self.sandbox);
        self.host.initialize(capabilities);
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

/// An update of that session in a few words: who says what, or the state of what.
pub fn said(session: &str, message: &Value) -> Option<String> {
    let update = &message["params"]["update"];
    if message["method"] != "session/update" {
        return None;
    }
    assert_eq!(message["params"]["sessionId"], json!(session), "{message}");
    let text = || update["content"]["text"].as_str().unwrap_or_default().to_owned();
    Some(match update["sessionUpdate"].as_str().unwrap() {
        "user_message_chunk" => format!("user: {}", text()),
        "agent_message_chunk" => format!("agent: {}", text()),
        "agent_thought_chunk" => format!("thought: {}", text()),
        kind @ ("tool_call" | "tool_call_update") => {
            format!("{kind}: {} {}", update["toolCallId"].as_str()?, update["status"].as_str().unwrap_or("-"))
        }
        "session_info_update" if update.get("title").is_none() => return None,
        "available_commands_update" => return None,
        kind => kind.to_owned(),
    })
}
