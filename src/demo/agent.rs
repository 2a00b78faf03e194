//! The agent's side of ACP v1: reads lines, answers requests, hands a prompt to a thread of its own.
//!
//! The reading thread never waits for a turn, so that answers and cancels always reach one.

use std::{
    io::BufRead,
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    thread,
};

use serde_json::{Value, json};

use super::{
    client::Offered,
    connection::Connection,
    error::Refusal,
    flags::Flags,
    sessions::Sessions,
    turn::{self, Turn},
};

/// The agent and everything it knows.
pub(super) struct Agent {
    flags: Flags,
    connection: Arc<Connection>,
    sessions: Sessions,
    client: Option<Offered>,
    minted: u64,
}

/// When a request is answered.
enum Reply {
    Now(Value),
    /// By the turn it started, or never.
    Later,
}

impl Agent {
    /// An agent that nobody has spoken to yet.
    pub fn new(flags: Flags, connection: Connection) -> Self {
        Self {
            flags,
            connection: Arc::new(connection),
            sessions: Sessions::default(),
            client: None,
            minted: 0,
        }
    }

    /// Serves until stdin ends.
    pub fn serve(mut self, mut stdin: impl BufRead) {
        let mut line = Vec::new();
        while stdin.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
            if !line.trim_ascii().is_empty() {
                self.take(&line);
            }
            line.clear();
        }
    }

    fn take(&mut self, line: &[u8]) {
        let message = match serde_json::from_slice::<Value>(line) {
            Ok(message) => message,
            Err(error) => return self.connection.reply(Value::Null, Err(Refusal::parse(&error))),
        };
        let (id, method) = (message.get("id").cloned(), message["method"].as_str());
        let params = message.get("params").unwrap_or(&Value::Null);
        match (id, method) {
            (Some(id), Some(method)) => self.request(id, method, params),
            (None, Some(method)) => self.notification(method, params),
            (Some(id), None) => self.answered(&id, &message),
            (None, None) => {
                let refusal = Refusal::request("the message has no method and no id");
                self.connection.reply(Value::Null, Err(refusal));
            }
        }
    }

    fn answered(&self, id: &Value, message: &Value) {
        let answer = match message.get("error") {
            Some(error) => Err(error.clone()),
            None => Ok(message["result"].clone()),
        };
        self.connection.answered(id, answer);
    }

    fn notification(&self, method: &str, params: &Value) {
        match method {
            "session/cancel" => self.sessions.cancel(params["sessionId"].as_str().unwrap_or_default()),
            "$/cancel_request" => self.sessions.cancel_request(&params["requestId"]),
            _ => {}
        }
    }

    fn request(&mut self, id: Value, method: &str, params: &Value) {
        let answer = match self.perform(&id, method, params) {
            Ok(Reply::Now(result)) => Ok(result),
            Ok(Reply::Later) => return,
            Err(refusal) => Err(refusal),
        };
        self.connection.reply(id, answer);
    }

    fn perform(&mut self, id: &Value, method: &str, params: &Value) -> Result<Reply, Refusal> {
        if method == "initialize" {
            return Ok(self.initialize(params));
        }
        if self.client.is_none() {
            return Err(Refusal::request("initialize comes first"));
        }
        match method {
            "session/new" => self.new_session(params),
            "session/resume" => self.resume(params),
            "session/prompt" => self.prompt(id, params),
            "session/close" => {
                self.sessions.close(text(params, "sessionId")?)?;
                Ok(Reply::Now(json!({})))
            }
            "session/set_mode" => {
                let (session, mode) = (text(params, "sessionId")?, text(params, "modeId")?);
                self.sessions.set_mode(session, mode).map(Reply::Now)
            }
            "session/set_config_option" => {
                let (session, option) = (text(params, "sessionId")?, text(params, "configId")?);
                self.sessions.set_option(session, option, text(params, "value")?).map(Reply::Now)
            }
            _ => Err(Refusal::method(method)),
        }
    }

    fn initialize(&mut self, params: &Value) -> Reply {
        if self.flags.no_init {
            return Reply::Later;
        }
        thread::sleep(self.flags.init_delay);
        self.client = Some(Offered::of(&params["clientCapabilities"]));
        Reply::Now(json!({
            "protocolVersion": 1,
            "agentCapabilities": {
                "loadSession": false,
                "promptCapabilities": {"image": true, "audio": false, "embeddedContext": true},
                "sessionCapabilities": {"close": {}, "resume": {}},
            },
            "agentInfo": {
                "name": self.flags.name,
                "title": "acpvisor demo agent",
                "version": env!("CARGO_PKG_VERSION"),
            },
            "authMethods": [],
        }))
    }

    fn new_session(&mut self, params: &Value) -> Result<Reply, Refusal> {
        let cwd = cwd(params)?;
        self.minted += 1;
        let id = format!("demo-{}-{}", std::process::id(), self.minted);
        let mut answer = json!({"sessionId": id});
        merge(&mut answer, self.sessions.open(&id, cwd));
        Ok(Reply::Now(answer))
    }

    /// Any id that a process like this one could have minted is taken for an old session.
    fn resume(&mut self, params: &Value) -> Result<Reply, Refusal> {
        let (id, cwd) = (text(params, "sessionId")?, cwd(params)?);
        if !could_be_ours(id) {
            return Err(Refusal::session(id));
        }
        Ok(Reply::Now(self.sessions.open(id, cwd)))
    }

    fn prompt(&self, id: &Value, params: &Value) -> Result<Reply, Refusal> {
        let session = text(params, "sessionId")?;
        let blocks = params["prompt"].as_array().ok_or_else(|| Refusal::params("prompt is no array"))?;
        let last =
            blocks.iter().rev().find_map(|block| block["text"].as_str()).unwrap_or_default().to_owned();
        let (events, inbox) = mpsc::channel();
        let cwd = self.sessions.begin(session, id.clone(), events.clone())?;
        let client = self.client.unwrap_or_default();
        let turn = Turn::new(self.connection.clone(), session.to_owned(), cwd, client, (events, inbox));
        let (id, connection, sessions) = (id.clone(), self.connection.clone(), self.sessions.clone());
        thread::spawn(move || turn::run(turn, &last, id, &connection, &sessions));
        Ok(Reply::Later)
    }
}

fn text<'a>(params: &'a Value, key: &str) -> Result<&'a str, Refusal> {
    params[key].as_str().ok_or_else(|| Refusal::params(format!("{key} is missing or no string")))
}

fn cwd(params: &Value) -> Result<PathBuf, Refusal> {
    let cwd = Path::new(text(params, "cwd")?);
    if cwd.is_absolute() { Ok(cwd.to_owned()) } else { Err(Refusal::params("cwd is not absolute")) }
}

fn could_be_ours(id: &str) -> bool {
    let numbers = id.strip_prefix("demo-").and_then(|rest| rest.split_once('-'));
    numbers.is_some_and(|(pid, n)| pid.parse::<u32>().is_ok() && n.parse::<u64>().is_ok())
}

fn merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ids_of_our_own_making_are_resumed() {
        assert!(could_be_ours("demo-12-3"));
        for other in ["demo-12", "demo--1", "demo-x-1", "mock-12-3", ""] {
            assert!(!could_be_ours(other), "{other:?}");
        }
    }
}
