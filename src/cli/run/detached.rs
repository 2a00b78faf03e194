//! A run that nobody waits for: a session of its own, with the prompt in its inbox (R261).
//!
//! The session is taken from our connection before the prompt is given to it, so that nothing is ever asked of us.

use std::{os::unix::net::UnixStream, process::ExitCode};

use serde_json::json;

use super::{
    super::{
        Failure,
        operator::{Operator, OperatorError, value},
        print,
    },
    order,
};
use crate::config::Paths;

/// Opens a session over that connection, gives it the prompt, and prints its id.
pub(super) fn start(stream: UnixStream, paths: &Paths, cwd: &str, prompt: &str) -> Result<ExitCode, Failure> {
    let mut host = Operator::over(stream);
    let id = open(&mut host, cwd)?;
    if let Err(error) = hand_over(paths, &id, prompt) {
        order(paths, "sessions.close", &id);
        return Err(error.into());
    }
    print(&format!("{id}\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// The socket of the hosts speaks the same JSON-RPC as that of the operators.
fn open(host: &mut Operator, cwd: &str) -> Result<String, OperatorError> {
    let client = json!({ "name": "acpvisor-run", "version": env!("CARGO_PKG_VERSION") });
    let params = json!({ "protocolVersion": 1, "clientCapabilities": {}, "clientInfo": client });
    host.call("initialize", &params)?;
    let new = host.call("session/new", &json!({ "cwd": cwd, "mcpServers": [] }))?;
    Ok(value(&new)["sessionId"].as_str().unwrap_or_default().to_owned())
}

fn hand_over(paths: &Paths, id: &str, prompt: &str) -> Result<(), OperatorError> {
    let mut daemon = Operator::connect(paths)?;
    daemon.call("sessions.detach", &json!({ "id": id }))?;
    daemon.call("sessions.send", &json!({ "id": id, "text": prompt, "source": "user" }))?;
    Ok(())
}
