//! The root of the supervision tree: start order, restart verdicts, shutdown order (R209).
//!
//! Start: store, residency, berths, then the ears. Stop: ears first, then sessions, then hosts, then the rest. What
//! all others stand on is not restarted under them: its loss ends the daemon with exit code 111, and the service
//! manager starts everything anew.

use std::{
    os::unix::net::UnixListener,
    sync::{Arc, RwLock, atomic::AtomicU64},
    time::{Duration, Instant},
};

use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::{oneshot, watch};

use crate::{
    berth::{self, Berths},
    config::{Config, Paths},
    control,
    directory::{Card, Directory, Listing},
    host,
    id::Address,
    limits::{LARGE_POOL_BYTES, STOP_FLUSH_MS_MAX, STOP_MS_MAX},
    mailbox::carries,
    process::{self, Records},
    residency::Residency,
    session::{Room, Shared},
    socket::{self, Door, Refused},
    store::{self, Store},
    supervisor::{Intensity, Restart, Verdict, verdict},
    wire::{Letter, Word, credit::Large, letter::Done},
};

/// What it takes.
#[derive(Debug)]
pub enum Msg {
    /// From an operator.
    Post(Letter),
    /// Everything below is down.
    Down,
    /// A listener may be started again.
    Again(Ear),
}

/// Which socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ear {
    /// The one that speaks ACP.
    Host,
    /// The operator's.
    Control,
}

/// What it is started with.
pub struct Arguments {
    /// What was configured.
    pub config: Arc<Config>,
    /// Where things lie.
    pub paths: Paths,
    /// The sockets; kept, because a listener may be started again.
    pub host: UnixListener,
    /// The operator's.
    pub control: UnixListener,
    /// Where processes are recorded.
    pub records: Records,
    /// When the daemon started.
    pub started: Instant,
    /// Counts host connections (see [`host::Ears`]).
    pub numbers: Arc<AtomicU64>,
    /// Set once a stop is ordered: an end without it is a failure.
    pub stop: watch::Sender<bool>,
}

/// The actor.
pub struct Root;

/// What it owns.
pub struct State {
    args: Arguments,
    config: Arc<RwLock<Arc<Config>>>,
    shared: Arc<Shared>,
    berths: ActorRef<berth::Msg>,
    hosts: ActorRef<host::Message>,
    control: ActorRef<control::Message>,
    intensity: Intensity,
    stopping: Option<Vec<Done>>,
    _listing: Listing,
}

impl Actor for Root {
    type Msg = Msg;
    type State = State;
    type Arguments = (Arguments, store::Opened);

    async fn pre_start(
        &self,
        me: ActorRef<Msg>,
        (args, opened): Self::Arguments,
    ) -> Result<State, ActorProcessingErr> {
        let directory = Directory::default();
        let listing = directory.enter(Address::Root, me.get_derived(), Card::new("root", "", ""));
        let cell = me.get_cell();
        let reader = opened.reader.clone();
        let (store, _) = Actor::spawn_linked(None, Store, (directory.clone(), opened), cell.clone()).await?;
        let slots = (args.config.limits.sessions_max, directory.clone());
        let (residency, _) = Actor::spawn_linked(None, Residency, slots, cell.clone()).await?;
        let shared = Arc::new(Shared {
            directory: directory.clone(),
            limits: args.config.limits.clone(),
            records: args.records.clone(),
            homes: args.paths.homes_dir(),
            large: Large::new(LARGE_POOL_BYTES),
            room: Room::new(&args.config.limits, directory.clone()),
            store,
            reader,
            host: args.config.host.clone(),
        });
        let (berths, _) = Actor::spawn_linked(None, Berths, (shared.clone(), residency), cell).await?;
        let config = Arc::new(RwLock::new(args.config.clone()));
        let hosts = listen(&args, &config, &shared, &berths, &me).await?;
        let control = operate(&args, &shared, &berths, &me).await?;
        Ok(State {
            args,
            config,
            shared,
            berths,
            hosts,
            control,
            intensity: Intensity::default(),
            stopping: None,
            _listing: listing,
        })
    }

    async fn handle(&self, me: ActorRef<Msg>, msg: Msg, state: &mut State) -> Result<(), ActorProcessingErr> {
        match msg {
            Msg::Post(Letter::Word { word: Word::Stop(done), .. }) => state.stop(done, &me),
            Msg::Post(_) => {}
            Msg::Down => state.down(&me),
            Msg::Again(ear) => state.again(ear, &me).await?,
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        me: ActorRef<Msg>,
        event: SupervisionEvent,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        let (cell, why) = match event {
            SupervisionEvent::ActorFailed(cell, error) => (cell, error.to_string()),
            SupervisionEvent::ActorTerminated(cell, _, why) => (cell, why.unwrap_or_default()),
            _ => return Ok(()),
        };
        if state.stopping.is_some() {
            return Ok(());
        }
        let ear = match cell.get_id() {
            id if id == state.hosts.get_id() => Ear::Host,
            id if id == state.control.get_id() => Ear::Control,
            _ => return Err(format!("a permanent part of the daemon ended: {why}").into()),
        };
        state.deaf(ear, &why, &me)
    }
}

impl State {
    /// A listener ended: it is started again, unless that happens too often.
    fn deaf(&mut self, ear: Ear, why: &str, me: &ActorRef<Msg>) -> Result<(), ActorProcessingErr> {
        let now = self.args.started.elapsed();
        match verdict(Restart::Permanent, true, &mut self.intensity, now) {
            Verdict::Restart => {
                tracing::error!(?ear, why, "listener ended, starting it again");
                me.send_after(Duration::from_millis(100), move || Msg::Again(ear));
                Ok(())
            }
            Verdict::Hold(_) | Verdict::Leave => Err(format!("a listener ended too often: {why}").into()),
        }
    }

    async fn again(&mut self, ear: Ear, me: &ActorRef<Msg>) -> Result<(), ActorProcessingErr> {
        if self.stopping.is_none() {
            match ear {
                Ear::Host => {
                    self.hosts = listen(&self.args, &self.config, &self.shared, &self.berths, me).await?
                }
                Ear::Control => self.control = operate(&self.args, &self.shared, &self.berths, me).await?,
            }
        }
        Ok(())
    }

    /// Stops everything, in order and within its time. Who asks while it stops waits for the same end.
    fn stop(&mut self, done: Done, me: &ActorRef<Msg>) {
        if let Some(waiting) = &mut self.stopping {
            waiting.push(done);
            return;
        }
        tracing::info!("daemon stops");
        let _ = self.args.stop.send(true);
        self.stopping = Some(vec![done]);
        let (hosts, berths, me) = (self.hosts.clone(), self.berths.clone(), me.clone());
        let (store, reader) = (self.shared.store.clone(), self.shared.reader.clone());
        let due = Instant::now() + Duration::from_millis(STOP_FLUSH_MS_MAX);
        tokio::spawn(async move {
            let _ = hosts.cast(host::Message::Shut);
            let (drained, all) = oneshot::channel();
            let _ = berths.cast(berth::Msg::Drain(drained));
            if tokio::time::timeout(Duration::from_millis(STOP_MS_MAX), all).await.is_err() {
                tracing::warn!("some sessions did not end in time");
            }
            let (closed, all) = oneshot::channel();
            let _ = hosts.cast(host::Message::Close(closed));
            let _ = all.await;
            // What was said last is written, and the log is moved into the file, before the process goes (R273).
            let _ = store.drain();
            if tokio::time::timeout_at(due.into(), reader.ended()).await.is_err() {
                tracing::warn!("the store did not end in time");
            }
            let _ = me.cast(Msg::Down);
        });
    }

    fn down(&mut self, me: &ActorRef<Msg>) {
        for done in self.stopping.take().unwrap_or_default() {
            let _ = done.send(Ok(()));
        }
        // Operators are answered before their connections go.
        self.stopping = Some(Vec::new());
        me.stop(Some("stopped".to_owned()));
    }
}

async fn listen(
    args: &Arguments,
    config: &Arc<RwLock<Arc<Config>>>,
    shared: &Arc<Shared>,
    berths: &ActorRef<berth::Msg>,
    me: &ActorRef<Msg>,
) -> Result<ActorRef<host::Message>, ActorProcessingErr> {
    let ears = host::Ears {
        listener: args.host.try_clone()?,
        door: door(args.config.nested),
        config: config.clone(),
        shared: shared.clone(),
        berths: berths.clone(),
        numbers: args.numbers.clone(),
    };
    Ok(Actor::spawn_linked(None, host::Listener, ears, me.get_cell()).await?.0)
}

async fn operate(
    args: &Arguments,
    shared: &Arc<Shared>,
    berths: &ActorRef<berth::Msg>,
    me: &ActorRef<Msg>,
) -> Result<ActorRef<control::Message>, ActorProcessingErr> {
    let arguments = control::Arguments {
        listener: args.control.try_clone()?,
        door: door(args.config.nested),
        directory: shared.directory.clone(),
        config: args.config.clone(),
        paths: args.paths.clone(),
        started: args.started,
        store: shared.store.clone(),
        reader: shared.reader.clone(),
        berths: berths.clone(),
    };
    Ok(Actor::spawn_linked(None, control::Listener, arguments, me.get_cell()).await?.0)
}

/// Lets our own user in, but not what an agent started: it could make itself a session without rules (R255).
/// Whatever lives below the daemon is a shim or comes from an agent, also one that was adopted from a killed shim.
fn door(nested: bool) -> Door {
    let daemon = std::process::id().cast_signed();
    Arc::new(move |stream| {
        let visitor = socket::admit(stream)?;
        if !nested && process::ancestry::lives_under(visitor.pid, &[daemon]) {
            return Err(Refused::Nested { pid: visitor.pid });
        }
        Ok(visitor)
    })
}

carries!(Msg: Letter => Post);
