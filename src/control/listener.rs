//! Listens on the control socket and supervises the operators that come.
//!
//! Owns the socket's ears and the places of operators. An operator's end is its own; a broken socket is ours.

use std::{
    ops::ControlFlow,
    os::unix::net::UnixListener,
    sync::Arc,
    time::{Duration, Instant},
};

use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::{
    net::UnixStream,
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
};

use super::{
    operator::{Connection, Operator},
    service::Service,
};
use crate::{
    berth,
    config::{Config, Paths},
    directory::{Card, Directory, Listing},
    socket::{self, Door, Refusals, Visitor},
    store::{self, Reader},
    wire::RpcError,
};

/// Operators connected at once.
const OPERATORS_MAX: usize = 64;
/// What stopping all of them may take.
const STOP_MAX: Duration = Duration::from_millis(500);

/// The actor that listens for operators.
pub struct Listener;

/// What it is started with.
pub struct Arguments {
    /// The control socket, not blocking.
    pub listener: UnixListener,
    /// Whom it lets in.
    pub door: Door,
    /// Who is there.
    pub directory: Directory,
    /// What was configured.
    pub config: Arc<Config>,
    /// Where things lie.
    pub paths: Paths,
    /// When the daemon started.
    pub started: Instant,
    /// Remembers sessions.
    pub store: ActorRef<store::Msg>,
    /// Reads what it remembers.
    pub reader: Reader,
    /// Let saved sessions live.
    pub berths: ActorRef<berth::Msg>,
}

/// What happens on its socket.
pub enum Message {
    /// Somebody was let in and has a place.
    Arrived(UnixStream, Visitor, OwnedSemaphorePermit),
    /// The socket gives no connections any more.
    Deaf,
}

/// What it keeps.
pub struct State {
    service: Arc<Service>,
    next: u64,
    _ears: JoinSet<()>,
    _listing: Listing,
}

impl Actor for Listener {
    type Msg = Message;
    type State = State;
    type Arguments = Arguments;

    async fn pre_start(
        &self,
        me: ActorRef<Message>,
        arguments: Arguments,
    ) -> Result<State, ActorProcessingErr> {
        let Arguments { listener, door, directory, config, paths, started, store, reader, berths } =
            arguments;
        listener.set_nonblocking(true)?;
        let listener = tokio::net::UnixListener::from_std(listener)?;
        let listing = directory.list(Card::new("listener", "control", "root"));
        let mut ears = JoinSet::new();
        ears.spawn(listen(listener, door, me));
        let service = Arc::new(Service { directory, config, paths, started, store, reader, berths });
        Ok(State { service, next: 0, _ears: ears, _listing: listing })
    }

    async fn handle(
        &self,
        me: ActorRef<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Message::Arrived(stream, visitor, place) => state.seat(&me, stream, visitor, place).await,
            Message::Deaf => {
                return Err("hear on the control socket: it gives no connections any more".into());
            }
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<Message>,
        event: SupervisionEvent,
        _: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        // The end of a connection is nobody else's; its place came back with its state.
        if let SupervisionEvent::ActorFailed(_, error) = event {
            tracing::error!(%error, "operator failed");
        }
        Ok(())
    }

    async fn post_stop(&self, me: ActorRef<Message>, _: &mut State) -> Result<(), ActorProcessingErr> {
        me.get_cell().stop_children_and_wait(None, Some(STOP_MAX)).await;
        Ok(())
    }
}

impl State {
    async fn seat(
        &mut self,
        me: &ActorRef<Message>,
        stream: UnixStream,
        visitor: Visitor,
        place: OwnedSemaphorePermit,
    ) {
        self.next += 1;
        let connection =
            Connection { number: self.next, stream, visitor, place, service: self.service.clone() };
        if let Err(error) = Actor::spawn_linked(None, Operator, connection, me.get_cell()).await {
            tracing::error!(operator = self.next, %error, "operator not started");
        }
    }
}

async fn listen(listener: tokio::net::UnixListener, door: Door, me: ActorRef<Message>) {
    let bell = Bell(me);
    let places = Arc::new(Semaphore::new(OPERATORS_MAX));
    let (mut refusals, started) = (Refusals::default(), Instant::now());
    let take = |stream, visitor| {
        let Ok(place) = places.clone().try_acquire_owned() else {
            if let Some(count) = refusals.count(started.elapsed()) {
                tracing::warn!(operators = OPERATORS_MAX, count, "operator refused");
            }
            let why = format!("{OPERATORS_MAX} operators are connected, which is the limit");
            socket::turn_away(stream, &RpcError::internal(why));
            return ControlFlow::Continue(());
        };
        match bell.0.cast(Message::Arrived(stream, visitor, place)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    };
    if let Err(error) = socket::receive(listener, door, take).await {
        tracing::error!(%error, "control socket broken");
    }
}

/// Rings when nobody listens any more, for whatever reason.
struct Bell(ActorRef<Message>);

impl Drop for Bell {
    fn drop(&mut self) {
        let _ = self.0.cast(Message::Deaf);
    }
}
