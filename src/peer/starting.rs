//! From nothing to an agent that may be asked: the process, its two wires, its handshake (R20 to R26).

use std::time::Duration;

use ractor::{ActorProcessingErr, ActorRef};

use super::{
    actor::{Arguments, Event, Msg, State},
    death::Cause,
    handshake::{self, HandshakeError},
    stage::Stage,
};
use crate::{
    egress::{self, Admission, Egress},
    ingress::{Ingress, Source},
    limits,
    process::{self, ExitWatch, SpawnError, Spawned, Spec},
    wire::{
        Frame, Method, RpcError,
        credit::{Amount, Budget, Credit},
        outgoing::Outgoing,
    },
};

impl State {
    pub(super) async fn spawned(
        &mut self,
        result: Result<Spawned, SpawnError>,
        me: &ActorRef<Msg>,
    ) -> Result<(), ActorProcessingErr> {
        let spawned = match result {
            Ok(spawned) => spawned,
            Err(error) => {
                self.cause = Some(Cause::Spawn(error.to_string()));
                self.down(me);
                return Ok(());
            }
        };
        let pid = spawned.process.pid();
        tracing::info!(session = %self.args.session, agent = %self.args.name, pid, "peer started");
        self.card.set("pid", pid);
        self.card.set("shim", spawned.process.shim_pid());
        self.process = Some(spawned.process);
        self.stderr = Some(spawned.stderr);
        let arguments = egress::Arguments {
            sink: spawned.stdin,
            stall: Duration::from_millis(self.args.limits.write_stall_ms),
            held: self.held.clone(),
            owner: me.get_derived(),
        };
        self.egress = Some(Egress::start(arguments, me.get_cell()).await?);
        self.reading = Some(tokio::spawn(read(self.ingress(spawned.stdout), me.clone())).into());
        tokio::spawn(watch(spawned.exit, me.clone()));
        if self.stage == Stage::Ending {
            self.kill();
        } else {
            self.initialise(me);
        }
        Ok(())
    }

    fn ingress<S>(&self, source: S) -> Ingress<S> {
        let window = Amount { items: limits::WINDOW_ITEMS, bytes: limits::WINDOW_BYTES };
        Ingress {
            source,
            budget: Budget::new(window, self.args.large.clone()),
            line_bytes_max: self.args.limits.line_bytes_max,
            line_time_max: self.args.limits.large_line_time(),
            held: self.held.clone(),
        }
    }

    fn initialise(&mut self, me: &ActorRef<Msg>) {
        self.enter(Stage::Initialising);
        let mut out = Outgoing::default();
        let id = self.wire.initialise(&handshake::initialize(&self.args.client_capabilities), &mut out);
        self.offer(out, Credit::none(), Admission::Always);
        self.arm(id, me);
    }

    /// Every handshake request is answered in time, or the start failed (R22).
    pub(super) fn arm(&self, id: u64, me: &ActorRef<Msg>) {
        let frames = self.frames;
        me.send_after(Duration::from_secs(self.args.agent.handshake_s), move || Msg::Deadline(id, frames));
    }

    pub(super) fn deadline(&mut self, id: u64, frames: u64, me: &ActorRef<Msg>) {
        let Some(asked) = self.wire.asked(id) else { return };
        // A session that is loaded streams its history first: only silence counts against it.
        if asked.method == Method::SessionLoad && self.frames > frames {
            return self.arm(id, me);
        }
        let method = asked.method;
        let after = Duration::from_secs(self.args.agent.handshake_s);
        self.refuse(HandshakeError::Timeout { method, id, after });
    }

    pub(super) fn initialised(&mut self, answer: &Frame) {
        if let Some(error) = answer.member("error") {
            let error = RpcError::of(error);
            return self.refuse(HandshakeError::Refused(error));
        }
        match handshake::check_initialize(answer.member("result")) {
            Ok(answer) => {
                self.enter(Stage::Ready);
                self.say(Event::Ready(answer));
            }
            Err(error) => self.refuse(error),
        }
    }
}

pub(super) fn spec(args: &Arguments) -> Spec {
    let daemon: process::environment::Variables = std::env::vars_os().collect();
    let bridge: Option<process::environment::Variables> = args
        .bridge_env
        .as_ref()
        .map(|env| env.iter().map(|(name, value)| (name.into(), value.into())).collect());
    let session = args.session.to_string();
    let mut spec = Spec::new(&args.agent.command, &args.cwd, &session, args.records.clone());
    spec.args = args.agent.args.iter().map(Into::into).collect();
    spec.env = process::environment::environment(&daemon, bridge.as_ref(), &args.agent);
    if let Some(scratch) = &args.scratch {
        let own = args.agent.env.iter().map(|(name, value)| (name.into(), value.into())).collect();
        scratch.furnish(&mut spec.env, &own);
    }
    spec
}

pub(super) async fn spawn(spec: Spec, me: ActorRef<Msg>) {
    let spawned = process::spawn(spec).await;
    let _ = me.cast(Msg::Spawned(Box::new(spawned)));
}

async fn read<S: Source>(ingress: Ingress<S>, me: ActorRef<Msg>) {
    let end = ingress.run(|batch| me.cast(Msg::Read(batch)).is_ok()).await;
    let _ = me.cast(Msg::ReadEnd(end));
}

async fn watch(exit: ExitWatch, me: ActorRef<Msg>) {
    let exit = exit.wait().await;
    let _ = me.cast(Msg::Exited(exit));
}
