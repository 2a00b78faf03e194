//! The mailbox of a host connection.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, SpawnErr, SupervisionEvent};
use tokio::net::UnixStream;

use super::{ordering::Ordered, stage::Stage};
use crate::{
    berth,
    config::Config,
    directory::{Card, Listing},
    egress::{self, Egress, Lane},
    hello::Hello,
    id::{Address, ConnectionId, SessionId, Token},
    ingress::{Batch, End, Held, Ingress, Reading},
    limits,
    mailbox::carries,
    session::Shared,
    wire::{
        Frame, Letter, Loss, Method,
        credit::{Amount, Budget, Credit, Large},
        patch::Object,
        pending::Pending,
    },
};

/// What a host connection takes.
pub enum Msg {
    /// Lines were read.
    Read(Batch),
    /// Nothing more will be read.
    ReadEnd(End),
    /// From the way out.
    Egress(egress::Event),
    /// From a session or a berth.
    Post(Letter),
    /// A session that is wanted was looked at.
    Ordered(Box<Ordered>),
    /// A task found the answer to a request.
    Found(Token, Frame),
    /// The first message should be here by now (R256).
    FirstDue,
    /// A host that says nothing more has had its answer, or time enough for it.
    EofDue,
    /// Write what is there and go.
    Close,
    /// Time to go, even if a session is not proved gone.
    CloseDue,
}

/// What it is started with.
pub struct Arguments {
    /// Its number.
    pub number: ConnectionId,
    /// The process at the other end.
    pub pid: i32,
    /// The connection.
    pub stream: UnixStream,
    /// What was configured when it came (R267).
    pub config: Arc<Config>,
    /// What sessions share.
    pub shared: Arc<Shared>,
    /// Makes, takes up and ends sessions.
    pub berths: ActorRef<berth::Msg>,
    /// For lines of hosts that are larger than usual.
    pub large: Large,
}

/// A request of the host that is open.
#[derive(Debug)]
pub(super) struct Asked {
    pub method: Method,
    /// Who answers it; `None` while it is looked at here.
    pub to: Option<SessionId>,
    /// The session it closes or deletes.
    pub closes: Option<SessionId>,
    /// Where the session that it makes works.
    pub cwd: Option<PathBuf>,
    /// What was lent for the line, until its answer is written.
    pub owed: Option<Credit>,
    /// The line, of an `authenticate` that may have to be repeated (R18).
    pub login: Option<Frame>,
}

impl Asked {
    /// Whether it is to take that session up.
    pub(super) fn wishes_for(&self, id: &SessionId) -> bool {
        matches!(self.method, Method::SessionLoad | Method::SessionResume) && self.to.as_ref() == Some(id)
    }
}

/// A request to the host that is open.
#[derive(Debug)]
pub(super) struct Carried {
    pub from: Address,
    pub token: Token,
}

/// A process that holds no session yet (R14).
#[derive(Debug, Clone)]
pub(super) struct Warm {
    pub id: SessionId,
    pub cwd: PathBuf,
}

/// The actor.
pub struct Host;

/// What it owns.
pub struct State {
    pub(super) me: ActorRef<Msg>,
    pub(super) number: ConnectionId,
    pub(super) config: Arc<Config>,
    pub(super) shared: Arc<Shared>,
    pub(super) berths: ActorRef<berth::Msg>,
    pub(super) egress: ActorRef<egress::Msg>,
    pub(super) stage: Stage,
    /// It says nothing more, and `initialize` is still being answered.
    pub(super) ended: bool,
    pub(super) hello: Option<Hello>,
    /// The agent named in `initialize` (R254).
    pub(super) agent: Option<String>,
    pub(super) capabilities: Object,
    pub(super) authenticated: Option<Frame>,
    pub(super) pending: Pending<Asked, Carried>,
    /// What was lent for the line that is being looked at: whatever answers it holds that.
    pub(super) owed: Option<Credit>,
    /// Sessions of this connection, those included that are being set up.
    pub(super) sessions: HashSet<SessionId>,
    /// Those of them that it closes: nothing more is let in (R207).
    pub(super) closing: HashSet<SessionId>,
    /// The latest of them: answers what names none (R13).
    pub(super) latest: Option<SessionId>,
    pub(super) warm: Option<Warm>,
    /// Children that sessions announced, by their own ids (R276).
    pub(super) children: HashMap<SessionId, HashSet<String>>,
    pub(super) lanes: HashMap<SessionId, Lane>,
    pub(super) next_lane: Lane,
    /// A message came (R256).
    pub(super) heard: bool,
    /// What the card says: sessions and open requests.
    pub(super) published: Option<(usize, usize)>,
    pub(super) card: Arc<Card>,
    _reading: Reading,
    _listing: Listing,
}

impl Host {
    /// Starts it under its listener.
    pub async fn start(args: Arguments, listener: ActorCell) -> Result<ActorRef<Msg>, SpawnErr> {
        Actor::spawn_linked(None, Self, args, listener).await.map(|(actor, _)| actor)
    }
}

impl Actor for Host {
    type Msg = Msg;
    type State = State;
    type Arguments = Arguments;

    async fn pre_start(&self, me: ActorRef<Msg>, args: Arguments) -> Result<State, ActorProcessingErr> {
        let (source, sink) = args.stream.into_split();
        let limits = &args.shared.limits;
        let stall = Duration::from_millis(limits.write_stall_ms);
        // A host always reads on: its own slowness holds nobody up but itself, so no clock stands still for it.
        let arguments = egress::Arguments { sink, stall, held: Held::default(), owner: me.get_derived() };
        let egress = Egress::start(arguments, me.get_cell()).await?;
        let ingress = Ingress {
            source,
            budget: Budget::new(
                Amount {
                    items: limits.host_requests_max + limits::HOST_ANSWERS_MAX,
                    bytes: limits::HOST_BYTES_MAX,
                },
                args.large,
            ),
            line_bytes_max: limits.line_bytes_max,
            line_time_max: limits.large_line_time(),
            held: Held::default(),
        };
        let reading = tokio::spawn(read(ingress, me.clone())).into();
        me.send_after(Duration::from_millis(limits.first_message_ms), || Msg::FirstDue);
        let card = Card::new("host", args.number.to_string(), "listener/host");
        card.set("pid", args.pid);
        let address = Address::Host(args.number);
        Ok(State {
            _listing: args.shared.directory.enter(address, me.get_derived(), card.clone()),
            me,
            number: args.number,
            config: args.config,
            shared: args.shared,
            berths: args.berths,
            egress,
            stage: Stage::First,
            ended: false,
            hello: None,
            agent: None,
            capabilities: Object::default(),
            authenticated: None,
            pending: Pending::default(),
            owed: None,
            sessions: HashSet::new(),
            closing: HashSet::new(),
            latest: None,
            warm: None,
            children: HashMap::new(),
            lanes: HashMap::new(),
            next_lane: 0,
            heard: false,
            published: None,
            card,
            _reading: reading,
        })
    }

    async fn handle(&self, _: ActorRef<Msg>, msg: Msg, state: &mut State) -> Result<(), ActorProcessingErr> {
        match msg {
            Msg::Read(batch) => state.read(batch),
            Msg::ReadEnd(end) => state.read_end(&end),
            Msg::Egress(event) => state.egress_event(&event),
            Msg::Post(letter) => state.post(letter),
            Msg::Ordered(ordered) => state.ordered(*ordered),
            Msg::Found(token, answer) => state.answer(token, &answer),
            Msg::FirstDue => state.first_due(),
            Msg::EofDue => state.lose(Loss::Eof),
            Msg::Close => state.close(),
            Msg::CloseDue => state.me.stop(Some("closed".to_owned())),
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<Msg>,
        event: SupervisionEvent,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        if matches!(event, SupervisionEvent::ActorFailed(..)) {
            state.broken();
        }
        Ok(())
    }
}

async fn read<S: crate::ingress::Source>(ingress: Ingress<S>, me: ActorRef<Msg>) {
    let end = ingress.run(|batch| me.cast(Msg::Read(batch)).is_ok()).await;
    let _ = me.cast(Msg::ReadEnd(end));
}

carries!(Msg: Letter => Post, egress::Event => Egress);
