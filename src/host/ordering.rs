//! From a request of a host to an order for a session: which agent, which directory, what it depends on (R14, R34).

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde_json::value::RawValue;

use super::{
    actor::{Msg, State, Warm},
    stage::Stage,
};
use crate::{
    berth::{self, Answer},
    config::Agent,
    id::{Address, SessionId, Token},
    session::{Ending, Order, Reason, likeness},
    wire::{Call, Envelope, Frame, RpcError, credit::Credit, patch::Object},
};

/// What a host wants a session for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// To learn what the agent is.
    Initialize,
    /// A new one.
    New,
    /// One that it knows.
    Take,
    /// One that begins as another one stands.
    Fork,
    /// A process to ask something of.
    Process,
}

/// A wish that was looked at.
pub struct Ordered {
    token: Token,
    wish: Wish,
    result: Result<Order, RpcError>,
    /// The session that a fork begins with.
    source: Option<SessionId>,
}

impl State {
    /// Looks at a wish in a task, because that asks the file system.
    pub(super) fn order(&mut self, token: Token, wish: Wish, frame: Frame) {
        let (name, agent) = match self.wanted_agent() {
            Ok(agent) => agent,
            Err(error) => return self.refuse(token, &error),
        };
        let draft = Draft {
            wish,
            host: Address::Host(self.number),
            name,
            agent,
            hello_cwd: self.hello.as_ref().map(|h| PathBuf::from(&h.cwd)),
            bridge_env: self.hello.as_ref().map(|h| h.env.clone()),
            capabilities: self.capabilities.clone(),
            authenticated: self.authenticated.clone(),
        };
        let me = self.me.clone();
        tokio::spawn(async move {
            let source = named(&frame);
            let envelope = Envelope::new(Call::Request(token), frame);
            let result = draft.order(envelope).await;
            let _ = me.cast(Msg::Ordered(Box::new(Ordered { token, wish, result, source })));
        });
    }

    /// The agent of this connection: named in `initialize`, else in the hello, else the default (R254).
    fn wanted_agent(&self) -> Result<(String, Agent), RpcError> {
        let hello = self.hello.as_ref().and_then(|h| h.agent.clone());
        let name = self.agent.clone().or(hello).unwrap_or_else(|| self.config.default_agent.clone());
        match self.config.agent(&name) {
            Some(agent) => Ok((name, agent)),
            None => {
                let known: Vec<&str> = self.config.agent.keys().map(String::as_str).collect();
                let known = [&["demo"], known.as_slice()].concat().join(" ");
                Err(RpcError::invalid_params(format!(
                    "agent `{name}` is not configured; known are: {known}; the configuration is read when the \
                     daemon starts: after a change, acpvisor stop"
                )))
            }
        }
    }

    pub(super) fn ordered(&mut self, ordered: Ordered) {
        match ordered.result {
            // Nobody would end a session that is made for a host which has left.
            Ok(_) if self.stage == Stage::Closing => {
                self.refuse(ordered.token, &RpcError::internal("the connection is closing"));
            }
            Ok(order) => self.place(ordered.token, ordered.wish, order, ordered.source),
            Err(error) => self.refuse(ordered.token, &error),
        }
        self.publish();
    }

    fn place(&mut self, token: Token, wish: Wish, order: Order, source: Option<SessionId>) {
        let (id, cwd) = (order.id.clone(), order.cwd.clone());
        if let Some(asked) = self.pending.inbound_mut(token) {
            asked.to = Some(id.clone());
            asked.cwd = Some(cwd.clone());
        }
        let warm = self.warm.as_ref().map(|warm| warm.id.clone());
        let order = Box::new(Order { warm, ..order });
        let msg = match wish {
            Wish::Initialize | Wish::Process => {
                self.keep_warm(Warm { id, cwd });
                if wish == Wish::Initialize { berth::Msg::Initialize(order) } else { berth::Msg::Open(order) }
            }
            Wish::New => {
                let Some(order) = self.use_warm(token, order) else { return };
                self.sessions.insert(id);
                berth::Msg::Open(order)
            }
            Wish::Take => {
                self.sessions.insert(id);
                berth::Msg::Take(order)
            }
            Wish::Fork => {
                self.sessions.insert(id.clone());
                // A fork was looked at with its source, or not at all.
                berth::Msg::Fork(order, source.unwrap_or(id))
            }
        };
        if self.berths.cast(msg).is_err() {
            self.refuse(token, &RpcError::internal("the daemon is stopping"));
        }
    }

    /// Keeps a process for the first session. The one before it is of no use any more.
    pub(super) fn keep_warm(&mut self, warm: Warm) {
        if let Some(before) = self.warm.replace(warm) {
            let ending = Ending::at_once(Reason::Unused);
            let answer = Answer::Unheard(Address::Host(self.number));
            let _ = self.berths.cast(berth::Msg::End(before.id, ending, answer));
        }
    }

    /// The warm process serves the first session of its directory, or any once the connection logged in on it
    /// (R14). Gives the order back when there is none.
    fn use_warm(&mut self, token: Token, mut order: Box<Order>) -> Option<Box<Order>> {
        let fits = |w: &mut Warm| w.cwd == order.cwd || order.authenticated.is_some();
        let Some(warm) = self.warm.take_if(fits) else { return Some(order) };
        let frame = order.first.pop()?.frame;
        let envelope = Envelope::new(Call::Request(token), frame.clone());
        if !self.hand_on(&Address::Session(warm.id.clone()), envelope, Credit::none()) {
            order.first.push(Envelope::new(Call::Request(token), frame));
            return Some(order);
        }
        if let Some(asked) = self.pending.inbound_mut(token) {
            asked.to = Some(warm.id.clone());
        }
        self.sessions.insert(warm.id);
        None
    }
}

/// What an order is made of.
struct Draft {
    wish: Wish,
    host: Address,
    name: String,
    agent: Agent,
    hello_cwd: Option<PathBuf>,
    bridge_env: Option<BTreeMap<String, String>>,
    capabilities: Object,
    authenticated: Option<Frame>,
}

impl Draft {
    async fn order(self, first: Envelope) -> Result<Order, RpcError> {
        let params = Object::of(first.frame.member("params").map_or("{}", RawValue::get));
        let id = match self.wish {
            Wish::Take => known_id(&params)?,
            Wish::Fork => known_id(&params).map(|_| SessionId::fresh())?,
            _ => SessionId::fresh(),
        };
        let cwd = match self.wish {
            Wish::New | Wish::Take | Wish::Fork => directory(&params).await?,
            Wish::Initialize | Wish::Process => self.somewhere(),
        };
        Ok(Order {
            id,
            host: self.host,
            learnt_key: likeness(&self.agent, self.bridge_env.as_ref(), &self.capabilities).await,
            name: self.name,
            agent: self.agent,
            cwd,
            bridge_env: self.bridge_env,
            capabilities: self.capabilities,
            authenticated: self.authenticated,
            held_back: None,
            warm: None,
            resume: None,
            first: vec![first],
            opened: None,
        })
    }

    /// Where a process works that has no session yet: in the cwd of the hello (R14), else at home.
    fn somewhere(&self) -> PathBuf {
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let there = |p: &PathBuf| p.is_absolute() && p.is_dir();
        self.hello_cwd.clone().filter(there).or(home.filter(there)).unwrap_or_else(|| PathBuf::from("/"))
    }
}

/// The session that a request names.
fn named(frame: &Frame) -> Option<SessionId> {
    SessionId::parse(&frame.session()?)
}

/// The id of a session that is to be taken up: one that could never be ours is not looked for (R56).
fn known_id(params: &Object) -> Result<SessionId, RpcError> {
    let text: Option<String> = params.get("sessionId").and_then(|id| serde_json::from_str(id.get()).ok());
    let text = text.ok_or_else(|| RpcError::invalid_params("sessionId is missing or no string"))?;
    SessionId::parse(&text)
        .ok_or_else(|| RpcError::invalid_params(format!("sessionId {text:?} is no session id")))
}

/// The directory of a session: absolute, there, and a directory (R34).
async fn directory(params: &Object) -> Result<PathBuf, RpcError> {
    let text: Option<String> = params.get("cwd").and_then(|cwd| serde_json::from_str(cwd.get()).ok());
    let text = text.ok_or_else(|| RpcError::invalid_params("cwd is missing or no string"))?;
    let cwd = Path::new(&text);
    if !cwd.is_absolute() {
        return Err(RpcError::invalid_params(format!("cwd {text:?} is not absolute")));
    }
    match tokio::fs::metadata(cwd).await {
        Ok(there) if there.is_dir() => Ok(cwd.to_owned()),
        Ok(_) => Err(RpcError::invalid_params(format!("cwd {text:?} is no directory"))),
        Err(error) => Err(RpcError::invalid_params(format!("cwd {text:?}: {error}"))),
    }
}
