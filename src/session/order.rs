//! What somebody wants of a session, and what is known of one that was there before.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    path::PathBuf,
};

use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::{
    config::Agent,
    id::{Address, SessionId},
    store,
    wire::{Envelope, Frame, RpcError, patch::Object},
};

/// A session that is wanted.
#[derive(Debug)]
pub struct Order {
    /// Its id.
    pub id: SessionId,
    /// Whose it is; [`Address::Nobody`] of one that runs without a host.
    pub host: Address,
    /// The agent's name in the configuration.
    pub name: String,
    /// The agent's configuration, as it was when the session was wanted (R267).
    pub agent: Agent,
    /// Where its process works.
    pub cwd: PathBuf,
    /// The bridge's environment, as far as the hello carried it.
    pub bridge_env: Option<BTreeMap<String, String>>,
    /// What the host declared.
    pub capabilities: Object,
    /// The last `authenticate` that succeeded on the connection (R18).
    pub authenticated: Option<Frame>,
    /// The host's process that holds no session: its slot is the last one to be had (R14, R60).
    pub warm: Option<SessionId>,
    /// Why the program is not started just now; a session that lives can be had all the same (R227).
    pub held_back: Option<RpcError>,
    /// A session that is to be taken up again.
    pub resume: Option<Saved>,
    /// The requests that it is wanted for.
    pub first: Vec<Envelope>,
    /// Told, or dropped, when the request that opens the session is answered.
    pub opened: Option<oneshot::Sender<()>>,
    /// Stands for program, arguments, environment and client capabilities (R14).
    pub learnt_key: u64,
}

/// A session as the store has it.
#[derive(Debug, Clone)]
pub struct Saved {
    /// The session.
    pub row: store::Row,
    /// Prompts it had so far.
    pub prompts: u64,
}

impl Order {
    /// The params of the request that it is wanted for, as the host wrote them.
    pub fn params(&self) -> String {
        let params = self.first.iter().find_map(|e| e.frame.member("params"));
        params.map_or("{}", RawValue::get).to_owned()
    }

    /// Stands for agent and directory (R227).
    pub fn program(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.name, &self.cwd).hash(&mut hasher);
        hasher.finish()
    }
}
