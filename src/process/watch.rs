//! Follows one shim from its birth until nothing of it is left, in a task of its own.
//!
//! Owns the shim as a child, its record and the news of its end. The invariant: an end is published once, after the
//! shim is reaped and the whole subtree is proved gone, or with words for what could not be proved (R279).

use std::{io, sync::Arc, time::Duration};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    process::Child,
    sync::{oneshot, watch},
    time::{Instant, sleep_until, timeout},
};

use super::{
    Exit, Records, Status,
    children::{self, Known},
    control::Control,
    descriptors,
    procfs::Identity,
    records::Entry,
    spawn::SpawnError,
    tree,
    words::{Report, Step},
};
use crate::limits::REAP_MS_MAX;

/// From the birth of a shim to a program that runs.
const START_MAX: Duration = Duration::from_secs(10);
/// From the order to kill, or from the end of the leader, to the proof, or else to the news that there is none.
const PROOF_MAX: Duration = Duration::from_secs(4);
/// How much longer the shim is left to it. More than its own bound.
const FOLLOW_MAX: Duration = Duration::from_secs(35);
/// Bound on ending what a shim stood over without it.
const ORPHANS_MAX: Duration = Duration::from_secs(2);
const REAP_MAX: Duration = Duration::from_millis(REAP_MS_MAX);

/// What is known of the end so far.
#[derive(Debug, Clone, Default)]
struct News {
    leader: Option<Status>,
    exit: Option<Exit>,
}

/// Tells when and how an agent ended. Clones tell the same.
#[derive(Debug, Clone)]
pub struct ExitWatch(watch::Receiver<News>);

impl ExitWatch {
    /// Resolves when the agent's whole subtree is proved gone, or when the bounds for that are over.
    pub async fn wait(mut self) -> Exit {
        let exit = self.0.wait_for(|news| news.exit.is_some()).await.ok().and_then(|news| news.exit.clone());
        exit.unwrap_or_else(|| Exit {
            status: Status::Unknown,
            by_us: false,
            unproved: Some("the runtime ended first".to_owned()),
        })
    }

    /// Resolves as soon as the agent itself has ended; what it left may still run.
    pub async fn leader_exited(&mut self) -> Status {
        let seen = |news: &News| news.leader.or(news.exit.as_ref().map(|exit| exit.status));
        let status = self.0.wait_for(|news| seen(news).is_some()).await.ok().and_then(|news| seen(&news));
        status.unwrap_or(Status::Unknown)
    }
}

/// The start's outcome goes here: the agent's number, or why there is none.
pub(super) type Started = oneshot::Sender<Result<i32, SpawnError>>;

/// What a start was about, for its record and its errors.
pub(super) struct Subject {
    pub(super) session: String,
    pub(super) program: std::path::PathBuf,
    pub(super) cwd: std::path::PathBuf,
    pub(super) records: Records,
}

pub(super) struct Watch {
    subject: Subject,
    control: Arc<Control>,
    child: Child,
    /// Until the shim is reaped.
    _known: Known,
    shim: i32,
    started: Option<Started>,
    agent: Option<Identity>,
    entry: Option<Entry>,
    due: Option<Instant>,
    status: Status,
    by_us: bool,
    news: watch::Sender<News>,
}

/// How following a shim ended.
#[must_use]
enum Proof {
    Gone,
    /// The shim is dead or mute: the daemon has to end what it stood over.
    Lost,
}

impl Watch {
    /// Follows a shim that has been told to begin.
    pub(super) fn start(
        subject: Subject,
        control: Arc<Control>,
        (child, known): (Child, Known),
        shim: i32,
        started: Started,
    ) -> ExitWatch {
        let (news, watch) = watch::channel(News::default());
        let due = Some(Instant::now() + START_MAX);
        let (started, status) = (Some(started), Status::Unknown);
        let (agent, entry, by_us) = (None, None, false);
        let watch_task = Self {
            subject,
            control,
            child,
            _known: known,
            shim,
            started,
            agent,
            entry,
            due,
            status,
            by_us,
            news,
        };
        tokio::spawn(watch_task.run());
        ExitWatch(watch)
    }

    async fn run(mut self) {
        let proof = self.follow().await;
        let unproved = match proof {
            Proof::Gone => None,
            Proof::Lost => self.end_without_shim().await,
        };
        let unproved = unproved.or(self.reap().await);
        if unproved.is_none()
            && let Some(entry) = self.entry.take()
        {
            entry.remove();
        }
        self.publish(unproved);
        self.settle(SpawnError::Mute { program: self.subject.program.clone() });
    }

    async fn follow(&mut self) -> Proof {
        loop {
            let due = self.due;
            let report = tokio::select! {
                report = self.control.report() => report,
                () = self.control.killed() => { self.wake(); continue }
                () = until(due) => {
                    if self.is_given_up() { None } else { continue }
                }
            };
            let Some(report) = report else { return Proof::Lost };
            match report {
                Report::Waiting(pid) => self.admit(pid).await,
                Report::Running => self.running(),
                Report::Failed(step, errno) => return self.failed(step, errno),
                Report::Exited { status, asked } => self.exited(status, asked),
                Report::Gone => return Proof::Gone,
                Report::Left(pids) => self.go_on(format!("processes {pids:?} are still being killed")),
            }
        }
    }

    /// The order to kill was given. An agent may have stopped its shim, which then has to hear it.
    fn wake(&mut self) {
        if let Some(shim) = Pid::from_raw(self.shim) {
            // the number is held: nobody has reaped the shim
            let _ = kill_process(shim, Signal::CONT);
        }
        self.hurry();
    }

    /// The end has begun: the proof is due.
    fn hurry(&mut self) {
        if self.is_told() {
            return;
        }
        let due = Instant::now() + PROOF_MAX;
        self.due = Some(self.due.filter(|_| self.started.is_none()).map_or(due, |earlier| earlier.min(due)));
    }

    fn is_told(&self) -> bool {
        self.news.borrow().exit.is_some()
    }

    /// Time is over. Whether the shim is taken for mute, or may go on with an agent that runs and takes long to end.
    fn is_given_up(&mut self) -> bool {
        if self.started.is_some() || self.is_told() {
            return true;
        }
        self.go_on(format!("its processes below shim {} are still being killed", self.shim));
        false
    }

    /// There is no proof yet, which is news; the shim goes on.
    fn go_on(&mut self, unproved: String) {
        self.publish(Some(unproved));
        self.due = Some(Instant::now() + FOLLOW_MAX);
    }

    /// Tells the end, once.
    fn publish(&self, unproved: Option<String>) {
        let by_us = self.by_us || (self.status == Status::Unknown && self.control.has_asked());
        let exit = Exit { status: self.status, by_us, unproved };
        self.news.send_if_modified(|news| {
            let is_news = news.exit.is_none();
            news.exit.get_or_insert(exit);
            is_news
        });
    }

    /// Writes down who waits for `Go`, then gives it: no instant of a spawn is unowned (R210).
    async fn admit(&mut self, pid: i32) {
        match self.record(pid).await {
            Ok(entry) => {
                self.entry = Some(entry);
                descriptors::restore(pid);
                self.control.go();
            }
            Err(source) => {
                self.settle(SpawnError::Record { session: self.subject.session.clone(), source });
                self.control.kill();
            }
        }
    }

    async fn record(&mut self, pid: i32) -> io::Result<Entry> {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let agent = Identity::of(pid).ok_or_else(missing)?;
        let shim = Identity::of(self.shim).ok_or_else(missing)?;
        self.agent = Some(agent);
        let (records, session) = (self.subject.records.clone(), self.subject.session.clone());
        tokio::task::spawn_blocking(move || records.write(&session, shim, agent)).await?
    }

    fn running(&mut self) {
        self.due = None;
        let agent = self.agent.map_or(0, |agent| agent.pid);
        if let Some(started) = self.started.take() {
            // whoever gave up waiting has dropped the handle, which kills
            let _ = started.send(Ok(agent));
        }
    }

    fn failed(&mut self, step: Step, errno: i32) -> Proof {
        let source = io::Error::from_raw_os_error(errno);
        self.settle(match step {
            Step::Cwd => SpawnError::Cwd { cwd: self.subject.cwd.clone(), source },
            Step::Run => SpawnError::run(&self.subject.program, source),
        });
        Proof::Gone
    }

    /// Answers whoever waits for the start, if nothing else has.
    fn settle(&mut self, error: SpawnError) {
        if let Some(started) = self.started.take() {
            let _ = started.send(Err(error));
        }
    }

    fn exited(&mut self, status: Status, asked: bool) {
        (self.status, self.by_us) = (status, asked);
        self.hurry();
        self.news.send_modify(|news| news.leader = Some(status));
    }

    /// Somebody killed or stopped the shim. What it stood over comes to the daemon, which ends it.
    async fn end_without_shim(&mut self) -> Option<String> {
        // the group is found while its leader is not reaped, which is so until the sweep
        if let Some(agent) = self.agent.filter(|agent| Identity::of(agent.pid) == Some(*agent)) {
            tree::signal_group(agent.pid, Signal::KILL);
        }
        let _ = self.child.start_kill();
        // what is below a shim comes to us when it dies, not before
        self.reap().await;
        match tokio::task::spawn_blocking(|| children::end_orphans(ORPHANS_MAX)).await {
            Ok(Some(left)) if left.is_empty() => None,
            Ok(Some(left)) => Some(format!("the shim was killed and processes {left:?} would not end")),
            Ok(None) => Some("the shim was killed, and this process adopts no orphans".to_owned()),
            Err(_) => Some("the shim was killed, and the runtime ended first".to_owned()),
        }
    }

    async fn reap(&mut self) -> Option<String> {
        let reaped = timeout(REAP_MAX, self.child.wait()).await;
        let told = || format!("shim {} is not reaped", self.shim);
        (!matches!(reaped, Ok(Ok(_)))).then(told)
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}
