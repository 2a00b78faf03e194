//! The process behind a session: one is started, is given up, or does not come to life (R227).

use std::{sync::Arc, time::Duration};

use ractor::SpawnErr;
use serde_json::json;
use tokio::sync::oneshot;

use super::{
    actor::{Link, Msg, Report, Stage, State},
    children::Children,
    ending::{Ending, Reason},
    health::Health,
    room::Seat,
};
use crate::{
    config::Home,
    ingress::Held,
    limits::{RESTARTS_MAX, RESTARTS_WINDOW_MS},
    peer::{self, Death, Peer},
    process::Scratch,
    wire::{Frame, RpcError},
};

impl State {
    /// Starts a process. It reports by itself.
    async fn start_peer(&mut self, seat: Seat) -> Result<(), SpawnErr> {
        self.generation += 1;
        self.answered = 0;
        self.health = Health::default();
        self.children = Children::default();
        self.settings.peer_gone();
        self.enter(Stage::Starting);
        let scratch = match self.scratch() {
            Ok(scratch) => scratch,
            Err(error) => {
                let why = format!("make a scratch home for session {}: {error}", self.order.id);
                self.not_started(&RpcError::internal(why));
                return Ok(());
            }
        };
        let held = Held::default();
        let args = peer::Arguments {
            session: self.order.id.clone(),
            generation: self.generation,
            name: self.order.name.clone(),
            agent: self.order.agent.clone(),
            cwd: self.order.cwd.clone(),
            bridge_env: self.order.bridge_env.clone(),
            client_capabilities: self.order.capabilities.clone(),
            limits: self.shared.limits.clone(),
            directory: self.shared.directory.clone(),
            records: self.shared.records.clone(),
            large: self.shared.large.clone(),
            store: self.shared.store.clone(),
            scratch,
            owner: self.me.get_derived(),
            seat,
            held: held.clone(),
        };
        let actor = Peer::start(args, self.me.get_cell()).await?;
        self.peer = Some(Link { actor, held, answer: None, authenticated: false });
        Ok(())
    }

    /// The session's own home, made for its first process and kept for the next (R234).
    fn scratch(&mut self) -> std::io::Result<Option<Arc<Scratch>>> {
        if self.order.agent.home == Home::Scratch && self.scratch.is_none() {
            let made = Scratch::make(&self.shared.homes, self.order.id.as_str())?;
            self.scratch = Some(Arc::new(made));
        }
        Ok(self.scratch.clone())
    }

    /// Asks whether the program may be started again (R227).
    pub(super) fn restart_peer(&mut self) {
        self.enter(Stage::Starting);
        let (ask, answer) = oneshot::channel();
        let _ =
            self.reports.send_message(Report::MayStart(self.order.program(), self.order.name.clone(), ask));
        let stopping = |_| Err(RpcError::internal("the daemon is stopping"));
        self.start_when(async move { answer.await.unwrap_or_else(stopping) });
    }

    /// The first process: whether it may be started was asked before.
    pub(super) fn request_start(&mut self) {
        self.start_when(async { Ok(()) });
    }

    /// Starts a process once it may be, and a seat is free for it (R283).
    fn start_when(&self, allowed: impl Future<Output = Result<(), RpcError>> + Send + 'static) {
        let (me, shared, id) = (self.me.clone(), self.shared.clone(), self.order.id.clone());
        tokio::spawn(async move {
            let seat = match allowed.await {
                Ok(()) => shared.room.seat(&id).await,
                Err(error) => Err(error),
            };
            let _ = me.cast(Msg::Start(seat));
        });
    }

    pub(super) async fn start_allowed(&mut self, allowed: Result<Seat, RpcError>) -> Result<(), SpawnErr> {
        match allowed {
            _ if self.is_ending() => {}
            // One process at a time: the old one is gone before the new one starts.
            Ok(seat) if !self.leaving.is_empty() => self.start_waits = Some(seat),
            Ok(seat) => self.start_peer(seat).await?,
            Err(error) => self.not_started(&error),
        }
        Ok(())
    }

    /// Ends the process at once; what it still says is nobody's. It is waited for before anything follows it.
    pub(super) fn drop_peer(&mut self, error: &RpcError) {
        if let Some(peer) = self.peer.take() {
            let _ = peer.actor.cast(peer::Msg::End(Duration::ZERO));
            self.leaving.push(self.generation);
        }
        if self.stage != Stage::Ending {
            self.enter(Stage::Live);
        }
        self.bereaved(error);
    }

    /// A process did not come to life: who waits for it is told.
    pub(super) fn start_failed(&mut self, death: &Death) {
        self.not_started(&death.error());
    }

    pub(super) fn not_started(&mut self, error: &RpcError) {
        let wanted = self.setup.take().and_then(|setup| setup.token);
        let answer = Frame::error(error);
        if self.opened.is_none() {
            let waiting = wanted.into_iter().chain(self.take_early());
            let answers: Vec<_> = waiting.map(|token| (token, answer.clone())).collect();
            self.last_answers.extend(answers);
            return self.end(Ending::at_once(Reason::Failed));
        }
        self.enter(Stage::Live);
        self.fail_early(&answer);
        self.fail_unsent(&answer);
    }
}

/// What is said of a program that keeps failing, and failed like this the last time (R227).
pub fn held_back(agent: &str, rest: Duration, last: &str) -> RpcError {
    let why = format!(
        "agent `{agent}` failed {RESTARTS_MAX} times in {} s in this directory and is held back for {} s; \
         its last error: {last}",
        RESTARTS_WINDOW_MS / 1_000,
        rest.as_secs().max(1)
    );
    RpcError::internal(why).with(json!({
        "failureType": "runtime",
        "failure": { "code": "runtime", "retryable": true },
        "retryAfterMs": u64::try_from(rest.as_millis()).unwrap_or(u64::MAX),
    }))
}
