//! Listens on the host socket and supervises the hosts that come (R255, R256).

use std::{
    ops::ControlFlow,
    os::unix::net::UnixListener,
    sync::{
        Arc, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::{
    net::UnixStream,
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    task::JoinSet,
};

use super::actor::{Arguments as HostArguments, Host, Msg as HostMsg};
use crate::{
    berth,
    config::Config,
    directory::{Card, Listing},
    id::ConnectionId,
    limits,
    session::Shared,
    socket::{self, Door, Visitor},
    wire::{RpcError, credit::Large},
};

/// What stopping all of them may take.
const CLOSE_MAX: Duration = Duration::from_millis(500);

/// What it is started with.
pub struct Ears {
    /// The host socket, not blocking.
    pub listener: UnixListener,
    /// Whom it lets in.
    pub door: Door,
    /// What was configured; read anew for every connection (R267).
    pub config: Arc<RwLock<Arc<Config>>>,
    /// What sessions share.
    pub shared: Arc<Shared>,
    /// Makes, takes up and ends sessions.
    pub berths: ActorRef<berth::Msg>,
    /// Counts connections for the life of the daemon: a number never comes back, whoever listens.
    pub numbers: Arc<AtomicU64>,
}

/// What happens on its socket.
pub enum Message {
    /// Somebody was let in and has a place.
    Arrived(UnixStream, Visitor, OwnedSemaphorePermit),
    /// The socket gives no connections any more.
    Deaf,
    /// Let nobody in any more.
    Shut,
    /// Write what is there and close every connection. Answered when that is done, or takes too long.
    Close(oneshot::Sender<()>),
}

/// The actor.
pub struct Listener;

/// What it keeps.
pub struct State {
    config: Arc<RwLock<Arc<Config>>>,
    shared: Arc<Shared>,
    berths: ActorRef<berth::Msg>,
    large: Large,
    hosts: Vec<(ActorRef<HostMsg>, OwnedSemaphorePermit)>,
    numbers: Arc<AtomicU64>,
    ears: JoinSet<()>,
    closed: Option<oneshot::Sender<()>>,
    _listing: Listing,
}

impl Actor for Listener {
    type Msg = Message;
    type State = State;
    type Arguments = Ears;

    async fn pre_start(&self, me: ActorRef<Message>, ears: Ears) -> Result<State, ActorProcessingErr> {
        let listener = tokio::net::UnixListener::from_std(ears.listener)?;
        let places = Arc::new(Semaphore::new(ears.shared.limits.hosts_max));
        let card = Card::new("listener", "host", "root");
        let listing = ears.shared.directory.list(card);
        let mut tasks = JoinSet::new();
        tasks.spawn(listen(listener, ears.door, places, ears.shared.limits.hosts_max, me));
        Ok(State {
            config: ears.config,
            shared: ears.shared,
            berths: ears.berths,
            large: Large::new(limits::LARGE_POOL_BYTES),
            hosts: Vec::new(),
            numbers: ears.numbers,
            ears: tasks,
            closed: None,
            _listing: listing,
        })
    }

    async fn handle(
        &self,
        me: ActorRef<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Message::Arrived(stream, visitor, place) => state.arrived(stream, visitor, place, &me).await?,
            Message::Deaf => return Err("the host socket gives no connections any more".into()),
            Message::Shut => state.ears.abort_all(),
            Message::Close(done) => state.close(done),
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<Message>,
        event: SupervisionEvent,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorTerminated(cell, host, _) => {
                drop(host);
                state.left(&cell);
            }
            SupervisionEvent::ActorFailed(cell, error) => {
                tracing::error!(%error, "host connection failed");
                state.left(&cell);
            }
            _ => {}
        }
        Ok(())
    }
}

impl State {
    async fn arrived(
        &mut self,
        stream: UnixStream,
        visitor: Visitor,
        place: OwnedSemaphorePermit,
        me: &ActorRef<Message>,
    ) -> Result<(), ActorProcessingErr> {
        let number: ConnectionId = self.numbers.fetch_add(1, Ordering::Relaxed) + 1;
        tracing::debug!(host = number, pid = visitor.pid, "host connected");
        let arguments = HostArguments {
            number,
            pid: visitor.pid,
            stream,
            config: self.config.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone(),
            shared: self.shared.clone(),
            berths: self.berths.clone(),
            large: self.large.clone(),
        };
        // A connection that could not be started is closed by its drop; the socket goes on.
        match Host::start(arguments, me.get_cell()).await {
            Ok(host) => self.hosts.push((host, place)),
            Err(error) => tracing::error!(host = number, %error, "host connection could not be started"),
        }
        Ok(())
    }

    fn left(&mut self, cell: &ractor::ActorCell) {
        self.hosts.retain(|(host, _)| host.get_id() != cell.get_id());
        if self.hosts.is_empty() {
            self.closed.take().map(|done| done.send(()));
        }
    }

    fn close(&mut self, done: oneshot::Sender<()>) {
        self.ears.abort_all();
        for (host, _) in &self.hosts {
            let _ = host.cast(HostMsg::Close);
        }
        if self.hosts.is_empty() {
            let _ = done.send(());
            return;
        }
        let (all, closed) = oneshot::channel();
        self.closed = Some(all);
        tokio::spawn(async move {
            let _ = tokio::time::timeout(CLOSE_MAX, closed).await;
            let _ = done.send(());
        });
    }
}

async fn listen(
    socket: tokio::net::UnixListener,
    door: Door,
    places: Arc<Semaphore>,
    max: usize,
    me: ActorRef<Message>,
) {
    let take = |stream: UnixStream, visitor: Visitor| {
        let Ok(place) = places.clone().try_acquire_owned() else {
            let why = format!("{max} hosts are connected: limits.hosts_max"); // R256
            socket::turn_away(stream, &RpcError::internal(why));
            return ControlFlow::Continue(());
        };
        match me.cast(Message::Arrived(stream, visitor, place)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    };
    if let Err(error) = socket::receive(socket, door, take).await {
        tracing::error!(%error, "host socket is broken");
        let _ = me.cast(Message::Deaf);
    }
}
