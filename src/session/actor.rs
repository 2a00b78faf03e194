//! The mailbox of a session.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, DerivedActorRef, SpawnErr, SupervisionEvent};
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::{
    card::Published,
    children::Children,
    context::Context,
    ending::Ending,
    health::Health,
    ledger::Ledger,
    order::Order,
    outbox::{Outbox, Ticket},
    prompts::Unsent,
    questions::Questions,
    record::Record,
    recovery::{self, Number},
    replay::Showing,
    resuming::Resuming,
    room::{Room, Seat},
    route::Services,
    setting::Settling,
    settings::Settings,
    setup::Setup,
    sleep::Sleeping,
    split::Copied,
    tools::Tools,
    turn::Turn,
    waiting::Waiting,
};
use crate::{
    config::{self, Limits},
    directory::{Card, Directory, Listing},
    id::{Address, Generation, Token},
    ingress::{FreeTime, Held},
    mailbox::carries,
    peer,
    process::{Records, Scratch},
    residency::Slot,
    store::{self, Entry, StoreError},
    tomb::Tomb,
    wire::{Envelope, Frame, Letter, RpcError, credit::Credit, credit::Large, patch::Object},
};

/// What all sessions of a daemon share.
pub struct Shared {
    /// Finds the other end.
    pub directory: Directory,
    /// Ceilings.
    pub limits: Limits,
    /// What hosts may do.
    pub host: config::Host,
    /// Where processes are recorded.
    pub records: Records,
    /// Homes of sessions whose agent wants a scratch one.
    pub homes: PathBuf,
    /// For lines of peers that are larger than a window.
    pub large: Large,
    /// Seats for their processes.
    pub room: Room,
    /// Remembers sessions.
    pub store: ActorRef<store::Msg>,
    /// Reads what it remembers.
    pub reader: store::Reader,
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
    Start(Result<Seat, RpcError>),
    /// The turn of that number had its time to be cancelled.
    CancelDue(u64),
    /// Our own `authenticate`, under this token, should be answered by now.
    LoginDue(Token),
    /// A warm process had its time to be used: the how-manieth such time it was.
    WarmDue(u64),
    /// It is to end. Told when it stays all the same: it is detached from its host then (R112).
    End(Ending, Option<oneshot::Sender<()>>),
    /// Another host, or the same one again, takes it up while it lives (R41).
    Adopt(Box<Order>),
    /// A write is on record, up to that row of it, or failed.
    Stored(Ticket, Result<i64, StoreError>),
    /// A page of history for the host.
    Page(u64, Vec<Frame>, Credit),
    /// The host has all of it.
    Shown(u64, Result<(), StoreError>),
    /// What the process of that generation is to be told of the time before it.
    Context(Generation, Result<Option<String>, StoreError>),
    /// Perhaps nothing was wanted of its process for long.
    SleepDue,
    /// A copy that the peer was asked for should be there by now.
    SplitDue(Token),
    /// A question of the peer may have waited long enough for its answer.
    QuestionDue,
    /// A new process should have taken a setting by now.
    RestoreDue(Token),
    /// The process of that generation may have streamed all of its history.
    SilenceDue(Generation),
    /// What waits in the inbox, for that attempt.
    Pending(Number, Result<Vec<Entry>, StoreError>),
    /// A timer of automatic resume.
    Recovery(recovery::Event),
    /// Nobody came for it: the how-manieth time without a host it was.
    DetachedDue(u64),
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
    pub(super) start_waits: Option<Seat>,
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
    /// The prompt that is the turn and has not gone to the peer.
    pub(super) unsent: Option<Unsent>,
    /// The params that opened the session: what a new process is told.
    pub(super) params: Option<Box<RawValue>>,
    /// What the process is to be told before its first prompt.
    pub(super) context: Context,
    /// What is not on record yet.
    pub(super) record: Record,
    /// What waits to leave for the host.
    pub(super) outbox: Outbox,
    /// The host that is being shown history.
    pub(super) showing: Option<Showing>,
    /// How many were.
    pub(super) shows: u64,
    /// Questions of the peer that are open at the host, or wait for one.
    pub(super) questions: Questions,
    /// How long they may wait.
    pub(super) waiting: Waiting,
    /// Modes and options.
    pub(super) settings: Settings,
    /// Those on their way.
    pub(super) settling: Settling,
    /// What a new process did not take, for the host to hear.
    pub(super) lost: Vec<serde_json::Value>,
    /// Automatic resume from the inbox.
    pub(super) resuming: Resuming,
    /// What its clocks are read from.
    pub(super) started: Instant,
    /// The host that takes it up has not heard them.
    pub(super) asks_again: bool,
    /// How often it was without a host.
    pub(super) detachments: u64,
    /// Its end is on record.
    pub(super) closed: bool,
    /// It leaves when everything is on record.
    pub(super) leaves: bool,
    /// The peer's id of the session, as written (R229).
    pub(super) peer_session: Option<Vec<u8>>,
    /// The result of the request that opened it, for a host that asks again.
    pub(super) opened: Option<Object>,
    /// The `authenticate` that is out, and under which token of ours.
    pub(super) login: Option<(Token, Frame)>,
    /// Whether its process may go.
    pub(super) sleeping: Sleeping,
    /// Copies that the peer was asked for, by our token, and who waits for them.
    pub(super) splits: Vec<(Token, Copied)>,
    /// Terminals of the host that the peer has not released, as written.
    pub(super) terminals: Vec<Box<str>>,
    pub(super) ending: Option<Ending>,
    pub(super) card: Arc<Card>,
    pub(super) published: Published,
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
        let saved = args.order.resume.as_ref();
        let waiting = waiting(&args);
        let stored = saved.map(|saved| saved.row.settings.clone()).unwrap_or_default();
        let settings = Settings::new(stored, args.shared.host.options_during_turn);
        let mut state = State {
            services: Services::of(&args.order.capabilities),
            me,
            shared: args.shared,
            reports: args.reports,
            stage: Stage::Starting,
            generation: 0,
            peer: None,
            leaving: Vec::new(),
            start_waits: None,
            ledger: Ledger::default(),
            turn: Turn::after(saved.map_or(0, |saved| saved.prompts)),
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
            params: saved.and_then(|saved| serde_json::from_str(&saved.row.params).ok()),
            context: Context::default(),
            record: Record::of(saved.is_some()),
            outbox: Outbox::default(),
            showing: None,
            shows: 0,
            questions: Questions::default(),
            waiting,
            settings,
            settling: Settling::default(),
            lost: Vec::new(),
            resuming: Resuming::new(&args.order),
            started: Instant::now(),
            asks_again: false,
            detachments: 0,
            closed: false,
            leaves: false,
            peer_session: saved.map(|saved| saved.row.peer_session.clone()).filter(|id| !id.is_empty()),
            order: args.order,
            opened: None,
            login: None,
            sleeping: Sleeping::default(),
            splits: Vec::new(),
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
        state.request_start();
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
            Msg::End(ending, stays) => state.end_or_stay(ending, stays),
            Msg::Adopt(order) => state.adopt(*order),
            Msg::Stored(ticket, outcome) => state.stored(ticket, outcome),
            Msg::Page(number, frames, credit) => state.show_page(number, frames, credit),
            Msg::Shown(number, outcome) => state.shown(number, outcome),
            Msg::Context(generation, text) if generation == state.generation => state.context_gathered(text),
            Msg::SilenceDue(generation) if generation == state.generation => state.restored_all(),
            Msg::Context(..) | Msg::SilenceDue(_) => {}
            Msg::SleepDue => state.sleep_due(),
            Msg::SplitDue(ours) => state.split_due(ours),
            Msg::QuestionDue => state.question_due(),
            Msg::RestoreDue(ours) => state.restore_due(ours),
            Msg::Pending(number, entries) => state.pending(number, entries),
            Msg::Recovery(event) => state.recover(event),
            Msg::DetachedDue(number) => state.detached_due(number),
        }
        state.tell_freedom();
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
}

fn waiting(args: &Arguments) -> Waiting {
    let wait = Duration::from_secs(args.shared.limits.permission_wait_s);
    let mut waiting = Waiting::new(args.order.agent.unattended, wait);
    if args.order.host != Address::Nobody {
        let _ = waiting.attach();
    }
    waiting
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
