//! The daemon as a process: config, log, lock, signals, and how it ends.
//!
//! Owns the runtime and the claim on the directories. **Never changes its working directory after it started.**

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use ractor::{Actor, ActorRef};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::{oneshot, watch},
};

use crate::{
    config::{Config, Paths},
    id::Address,
    limits::STOP_HARD_MS_MAX,
    log,
    process::{self, Records},
    root::{self, Root},
    socket::{self, ClaimError},
    store::{self, StoreError},
    wire::{Letter, Word},
};

/// Exit code of a daemon that lost a part of itself: its service manager starts it again.
const BROKEN_EXIT_CODE: u8 = 111;

/// Why the daemon did not start.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// Its place is not to be had.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// Its log is not to be had.
    #[error(transparent)]
    Log(#[from] log::LogError),
    /// The directory for records of processes is not to be had.
    #[error("open the records of agents below {}: {source}", dir.display())]
    Records {
        /// Which.
        dir: std::path::PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The store is not to be had.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The machine does not give what it needs.
    #[error("start the runtime: {0}")]
    Runtime(#[from] std::io::Error),
    /// A part of it did not start.
    #[error("start the supervision tree: {0}")]
    Tree(String),
    /// A part that all others stand on ended while the daemon ran.
    #[error("keep running: a part of the daemon was lost; its log says which")]
    Broken,
}

impl DaemonError {
    /// The exit code that says so.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Claim(claim) => claim.exit_code(),
            Self::Broken => BROKEN_EXIT_CODE,
            _ => 1,
        }
    }
}

/// Runs the daemon until it is told to stop.
pub fn run(config: Config, paths: Paths, foreground: bool) -> Result<(), DaemonError> {
    let started = Instant::now();
    socket::tighten_umask();
    if !foreground {
        // Away from whoever started it: no terminal of theirs, no directory of theirs kept busy (SIG-02).
        let _ = rustix::process::setsid();
        std::env::set_current_dir("/")?;
    }
    process::descriptors::raise();
    let claim = socket::claim(&paths)?;
    let _log = log::start(&paths.logs_dir(), config.log_level.filter(), foreground)?;
    process::adopt_orphans()?;
    process::Scratch::sweep(&paths.homes_dir());
    let dir = paths.peers_dir();
    let records = Records::new(&dir).map_err(|source| DaemonError::Records { dir, source })?;
    for reaped in records.sweep() {
        tracing::warn!(?reaped, "left behind by a former daemon");
    }
    let mut store = store::open(&paths.state_dir)?;
    store.session_bytes_max = config.limits.session_bytes_max;
    if !store.repaired.is_empty() {
        tracing::warn!(repaired = ?store.repaired, "cut off by the end of a former daemon");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (stop, wanted) = watch::channel(false);
    let arguments = root::Arguments {
        config: Arc::new(config),
        paths,
        host: claim.host,
        control: claim.control,
        records,
        started,
        numbers: Arc::default(),
        stop,
    };
    let end = runtime.block_on(live(arguments, store, wanted, foreground));
    runtime.shutdown_timeout(Duration::from_millis(200));
    drop(claim.tenure);
    end
}

async fn live(
    arguments: root::Arguments,
    store: store::Opened,
    wanted: watch::Receiver<bool>,
    foreground: bool,
) -> Result<(), DaemonError> {
    let signals = Signals::new()?;
    let tree = |e: &dyn std::fmt::Display| DaemonError::Tree(e.to_string());
    let (root, ended) = Actor::spawn(None, Root, (arguments, store)).await.map_err(|e| tree(&e))?;
    tracing::info!(pid = std::process::id(), version = env!("CARGO_PKG_VERSION"), "daemon ready");
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    if !foreground {
        let_go_of_stderr();
    }
    tokio::spawn(signals.watch(root));
    tokio::spawn(insist(wanted.clone()));
    let _ = ended.await;
    if *wanted.borrow() {
        tracing::info!("daemon stopped");
        return Ok(());
    }
    tracing::error!("daemon lost a part of itself");
    Err(DaemonError::Broken)
}

/// Whoever started a daemon in the background heard by now whether it runs; what anything prints from here on must not
/// pile up where they listened.
fn let_go_of_stderr() {
    if let Ok(null) = std::fs::File::options().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stderr(null);
    }
}

/// Sees to it that an end that was ordered comes (R209).
async fn insist(mut stop: watch::Receiver<bool>) {
    if stop.wait_for(|wanted| *wanted).await.is_ok() {
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
        // A thread, because a runtime that hangs would not run a timer.
        std::thread::spawn(|| {
            std::thread::sleep(Duration::from_millis(STOP_HARD_MS_MAX));
            std::process::exit(i32::from(BROKEN_EXIT_CODE));
        });
    }
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// The terminal of a daemon in the foreground is closed.
    hangup: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn watch(mut self, root: ActorRef<root::Msg>) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => {}
                _ = self.interrupt.recv() => {}
                _ = self.hangup.recv() => {}
            }
            let (done, _) = oneshot::channel();
            let _ = root.cast(root::Msg::Post(Letter::Word { from: Address::Root, word: Word::Stop(done) }));
        }
    }
}
