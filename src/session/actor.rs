//! The mailbox of a session.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, DerivedActorRef, SpawnErr, SupervisionEvent};
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::{
    children::Children,
    ending::Ending,
    health::Health,
    ledger::{Ledger, Side},
    route::Services,
    setup::Setup,
    tools::Tools,
    turn::{Prompt, Turn},
};
use crate::{
    config::{Agent, Limits},
    directory::{Card, Directory, Listing},
    id::{Address, Generation, SessionId, Token},
    ingress::{FreeTime, Held},
    mailbox::carries,
    peer,
    process::{Records, Scratch},
    residency::Slot,
    store,
    tomb::Tomb,
    wire::{Call, Envelope, Frame, Letter, RpcError, author, credit::Credit, credit::Large, patch::Object},
};

/// What all sessions of a daemon share.
pub struct Shared {
    /// Finds the other end.
    pub directory: Directory,
    /// Ceilings.
    pub limits: Limits,
    /// Where processes are recorded.
    pub records: Records,
    /// Homes of sessions whose agent wants a scratch one.
    pub homes: PathBuf,
    /// For lines of peers that are larger than a window.
    pub large: Large,
    /// Remembers sessions.
    pub store: ActorRef<store::Msg>,
}

/// A session that is wanted.
pub struct Order {
    /// Its id.
    pub id: SessionId,
    /// Whose it is.
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
    pub resume: Option<store::Row>,
    /// The requests that it is wanted for.
    pub first: Vec<Envelope>,
    /// Told, or dropped, when the request that opens the session is answered.
    pub opened: Option<oneshot::Sender<()>>,
    /// Stands for program, arguments, environment and client capabilities (R14).
    pub learnt_key: u64,
}

impl Order {
    /// Stands for agent and directory (R227).
    pub fn program(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.name, &self.cwd).hash(&mut hasher);
        hasher.finish()
    }
}

/// What a session tells the berths.
#[derive(Debug)]
pub enum Report {
    /// An agent said what it is.
    Learnt(u64, Object),
    /// A program failed, and how.
    Failed(u64, String),
    /// Whether a program may be started again, of an agent of that name; else why not.
    MayStart(u64, String, oneshot::Sender<Result<(), RpcError>>),
}

/// What it takes.
#[derive(Debug)]
pub enum Msg {
    /// From the host.
    Post(Letter),
    /// From one of its processes.
    Peer(Generation, peer::Event),
    /// Whether the process may be started, else why not.
    Start(Result<(), RpcError>),
    /// The turn of that number had its time to be cancelled.
    CancelDue(u64),
    /// Our own `authenticate`, under this token, should be answered by now.
    LoginDue(Token),
    /// A warm process had its time to be used: the how-manieth such time it was.
    WarmDue(u64),
    /// It is to end.
    End(Ending),
}

/// What it is started with.
pub struct Arguments {
    /// What is wanted.
    pub order: Order,
    /// What all share.
    pub shared: Arc<Shared>,
    /// Its place among the resident.
    pub slot: Slot,
    /// Wakes who waits for its end.
    pub tomb: Tomb,
    /// To the berths.
    pub reports: DerivedActorRef<Report>,
}

/// How far it has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// A process is being started.
    Starting,
    /// A process is there and holds no session.
    Warm,
    /// The process was asked for the session.
    Opening,
    /// Prompts run. Without a process the next one starts one.
    Live,
    /// On its way out.
    Ending,
}

/// The process behind it.
pub(super) struct Link {
    pub actor: ActorRef<peer::Msg>,
    pub held: Held,
    /// Its answer to `initialize`.
    pub answer: Option<Object>,
    /// `authenticate` succeeded on it.
    pub authenticated: bool,
}

/// What the card says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Published {
    stage: Option<Stage>,
    turn: &'static str,
    waiting: usize,
    open: usize,
    bound: bool,
    idle: bool,
}

/// What it owns.
pub struct State {
    pub(super) me: ActorRef<Msg>,
    pub(super) order: Order,
    pub(super) shared: Arc<Shared>,
    pub(super) reports: DerivedActorRef<Report>,
    pub(super) services: Services,
    pub(super) stage: Stage,
    pub(super) generation: Generation,
    pub(super) peer: Option<Link>,
    /// Processes that were told to go and are not proved gone.
    pub(super) leaving: Vec<Generation>,
    /// A new process waits for that.
    pub(super) start_waits: bool,
    pub(super) ledger: Ledger,
    pub(super) turn: Turn,
    pub(super) tools: Tools,
    /// The home of its own, when its agent wants one (R234).
    pub(super) scratch: Option<Arc<Scratch>>,
    pub(super) health: Health,
    /// Counts the times given to a warm process, so that an old timer is known for one.
    pub(super) warm_times: u64,
    /// Prompts that the present process answered.
    pub(super) answered: u64,
    /// The peer is sick: it is replaced when its turn is over.
    pub(super) recycle: bool,
    pub(super) children: Children,
    /// The request that opens the session, while it is open.
    pub(super) setup: Option<Setup>,
    /// Requests that wait for the process.
    pub(super) early: Vec<Envelope>,
    /// Runs since the turn was cancelled.
    pub(super) cancelled: Option<FreeTime>,
    /// A prompt that waits for a new process.
    pub(super) unsent: Option<Prompt>,
    /// The params that opened the session: what a new process is told.
    pub(super) params: Option<Box<RawValue>>,
    /// The peer's id of the session, as written (R229).
    pub(super) peer_session: Option<Vec<u8>>,
    /// The result of the request that opened it, for a host that asks again.
    pub(super) opened: Option<Object>,
    /// The `authenticate` that is out, and under which token of ours.
    pub(super) login: Option<(Token, Frame)>,
    /// Terminals of the host that the peer has not released, as written.
    pub(super) terminals: Vec<Box<str>>,
    pub(super) ending: Option<Ending>,
    pub(super) card: Arc<Card>,
    published: Published,
    _listing: Listing,
    pub(super) slot: Option<Slot>,
    /// Dropped with the rest: somebody waits for the slot.
    pub(super) yielded: Option<oneshot::Sender<()>>,
    /// Said when it is gone: who hears of a failure may try again at once (R59).
    pub(super) last_answers: Vec<(Token, Frame)>,
    _tomb: Tomb,
}

/// The actor.
pub struct Session;

impl Session {
    /// Starts it under its berth.
    pub async fn start(args: Arguments, berth: ActorCell) -> Result<ActorRef<Msg>, SpawnErr> {
        Actor::spawn_linked(None, Self, args, berth).await.map(|(actor, _)| actor)
    }
}

impl Actor for Session {
    type Msg = Msg;
    type State = State;
    type Arguments = Arguments;

    async fn pre_start(&self, me: ActorRef<Msg>, args: Arguments) -> Result<State, ActorProcessingErr> {
        let id = args.order.id.clone();
        let card = Card::new("session", id.as_str(), format!("berth/{id}"));
        card.set("agent", args.order.name.as_str());
        card.set("cwd", args.order.cwd.to_string_lossy());
        let address = Address::Session(id);
        let listing = args.shared.directory.enter(address, me.get_derived(), card.clone());
        let mut state = State {
            services: Services::of(&args.order.capabilities),
            me,
            order: args.order,
            shared: args.shared,
            reports: args.reports,
            stage: Stage::Starting,
            generation: 0,
            peer: None,
            leaving: Vec::new(),
            start_waits: false,
            ledger: Ledger::default(),
            turn: Turn::default(),
            tools: Tools::default(),
            scratch: None,
            health: Health::default(),
            warm_times: 0,
            answered: 0,
            recycle: false,
            children: Children::default(),
            setup: None,
            early: Vec::new(),
            cancelled: None,
            unsent: None,
            params: None,
            peer_session: None,
            opened: None,
            login: None,
            terminals: Vec::new(),
            ending: None,
            card,
            published: Published::default(),
            _listing: listing,
            slot: Some(args.slot),
            yielded: None,
            last_answers: Vec::new(),
            _tomb: args.tomb,
        };
        state.publish();
        Ok(state)
    }

    async fn post_start(&self, _: ActorRef<Msg>, state: &mut State) -> Result<(), ActorProcessingErr> {
        let first = std::mem::take(&mut state.order.first);
        state.host_lines(first, Credit::none());
        state.start_peer().await?;
        Ok(())
    }

    async fn handle(&self, _: ActorRef<Msg>, msg: Msg, state: &mut State) -> Result<(), ActorProcessingErr> {
        match msg {
            Msg::Post(letter) => state.post(letter),
            Msg::Peer(generation, event) => state.peer_event(generation, event),
            Msg::Start(verdict) => state.start_allowed(verdict).await?,
            Msg::CancelDue(turn) => state.cancel_due(turn),
            Msg::LoginDue(ours) => state.login_due(ours),
            Msg::WarmDue(number) => state.warm_due(number),
            Msg::End(ending) => state.end(ending),
        }
        state.publish();
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<Msg>,
        event: SupervisionEvent,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        // A peer says that it is down before it ends; one that panicked could not.
        if let SupervisionEvent::ActorFailed(_, error) = event {
            state.peer_panicked(&error.to_string());
        }
        Ok(())
    }
}

impl State {
    /// Sends lines to the host. A host that is gone answers nothing: its end is told by a word (R112).
    pub(super) fn to_host(&self, envelopes: Vec<Envelope>, credit: Credit) {
        if envelopes.is_empty() {
            return;
        }
        let letter = Letter::Lines { from: self.address(), envelopes, credit };
        let _ = self.shared.directory.post(&self.order.host, letter);
    }

    /// Answers a request of the host's.
    pub(super) fn answer_host(&self, token: Token, frame: Frame) {
        self.to_host(vec![Envelope::new(Call::Response(token), frame)], Credit::none());
    }

    /// Answers a request of the host's with an error.
    pub(super) fn refuse_host(&self, token: Token, error: &RpcError) {
        self.answer_host(token, Frame::error(error));
    }

    /// Sends lines to the process.
    pub(super) fn to_peer(&self, envelopes: Vec<Envelope>, credit: Credit) {
        self.to_peer_as(envelopes, credit, None);
    }

    /// The same, taking up a session that the peer knows under this id.
    pub(super) fn to_peer_as(&self, envelopes: Vec<Envelope>, credit: Credit, known: Option<Vec<u8>>) {
        if let Some(peer) = &self.peer {
            let _ = peer.actor.cast(peer::Msg::Send { envelopes, credit, known });
        }
    }

    /// Tells the host something about the session that is no part of the conversation (R86).
    pub(super) fn notice(&self, facts: serde_json::Value) {
        let now = jiff::Timestamp::now().to_string();
        let notice = author::notice(&self.order.id, now, facts);
        self.to_host(vec![Envelope::new(Call::Notification, notice)], Credit::none());
    }

    /// After that time, this message.
    pub(super) fn later(&self, after: Duration, msg: impl FnOnce() -> Msg + Send + 'static) {
        self.me.send_after(after, msg);
    }

    pub(super) fn address(&self) -> Address {
        Address::Session(self.order.id.clone())
    }

    /// Whether it may answer the host at all.
    pub(super) fn is_ending(&self) -> bool {
        self.stage == Stage::Ending
    }

    /// Whether nothing runs, waits or is open in it (R69).
    fn is_idle(&self) -> bool {
        // The turn first: while one streams, nothing else is looked at.
        let quiet = !self.turn.is_active() && self.turn.waiting() == 0 && self.stage == Stage::Live;
        let asked = |side| self.ledger.count(side) > 0;
        quiet && self.terminals.is_empty() && !asked(Side::Peer) && !asked(Side::Host)
    }

    /// Publishes what has changed; most lines change nothing.
    fn publish(&mut self) {
        let now = Published {
            stage: Some(self.stage),
            turn: self.turn.word(),
            waiting: self.turn.waiting(),
            open: self.ledger.count(Side::Peer),
            bound: self.peer_session.is_some(),
            idle: self.is_idle(),
        };
        if now == self.published {
            return;
        }
        self.card.set("stage", format!("{:?}", self.stage).to_lowercase());
        self.card.set("turn", now.turn);
        self.card.set("waiting", now.waiting);
        self.card.set("open_requests", now.open);
        self.card.set("idle", now.idle);
        let host = if let Address::Host(n) = self.order.host { Some(n) } else { None };
        self.card.set("host", host);
        let peer = self.peer_session.as_deref().and_then(|id| serde_json::from_slice::<String>(id).ok());
        self.card.set("peer_session", peer);
        self.published = now;
    }
}

carries!(Msg: Letter => Post);

impl From<(Generation, peer::Event)> for Msg {
    fn from((generation, event): (Generation, peer::Event)) -> Self {
        Self::Peer(generation, event)
    }
}

impl TryFrom<Msg> for (Generation, peer::Event) {
    type Error = ();
    fn try_from(msg: Msg) -> Result<Self, ()> {
        if let Msg::Peer(generation, event) = msg { Ok((generation, event)) } else { Err(()) }
    }
}
