//! The mailbox of a peer: starts its process, shakes hands, carries lines both ways, ends it.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, DerivedActorRef, SpawnErr, SupervisionEvent};

use super::{
    death::{Cause, Death},
    handshake::{self, HandshakeError},
    stage::Stage,
    wire::{self, Step, Wire},
};
use crate::{
    config::{Agent, Limits},
    directory::{Card, Directory, Listing},
    egress::{self, Admission, Egress, Parcel},
    id::{Generation, SessionId, Token},
    ingress::{Batch, End, Held, Ingress, Input, Reading},
    limits,
    process::{self, Exit, ExitWatch, Process, Records, Scratch, SpawnError, Spawned, Spec, Tail},
    wire::{
        Call, Envelope, Frame, Method,
        credit::{Amount, Budget, Credit, Large},
        outgoing::Outgoing,
        patch::Object,
    },
};

/// The one lane towards a peer.
const LANE: egress::Lane = 0;

/// What a session hears of its peer.
#[derive(Debug)]
pub enum Event {
    /// The handshake is done: the peer's answer to `initialize`, as it wrote it.
    Ready(Object),
    /// Lines for the session, in the order of the wire.
    Lines(Vec<Envelope>, Credit),
    /// A request was not sent: the peer's queue is full (R10).
    Refused(Token),
    /// It is gone, and everything below it.
    Down(Box<Death>),
}

/// What a peer takes.
#[derive(Debug)]
pub enum Msg {
    /// The process runs, or does not.
    Spawned(Box<Result<Spawned, SpawnError>>),
    /// Lines were read.
    Read(Batch),
    /// Nothing more will be read.
    ReadEnd(End),
    /// From the way out.
    Egress(egress::Event),
    /// Lines of the session for the peer; `known` is the peer's id of a session that is taken up again.
    Send {
        /// The lines.
        envelopes: Vec<Envelope>,
        /// Their credit.
        credit: Credit,
        /// As written, quotes included.
        known: Option<Vec<u8>>,
    },
    /// The request of that number should be answered by now; so many frames had been read when it was sent.
    Deadline(u64, u64),
    /// Go: close stdin, then TERM, then KILL within this time (R222).
    End(Duration),
    /// The next step of that is due.
    Term,
    /// The last step of that is due.
    Kill,
    /// The process and everything below it are gone, or cannot be proved gone.
    Exited(Exit),
    /// What it left behind was read, or takes too long.
    Settled,
}

/// What a peer is started with.
pub struct Arguments {
    /// Of which session.
    pub session: SessionId,
    /// The how-manieth process behind it.
    pub generation: Generation,
    /// Its name in the configuration.
    pub name: String,
    /// Its configuration.
    pub agent: Agent,
    /// The directory it starts in.
    pub cwd: PathBuf,
    /// The bridge's environment, as far as the hello carried it.
    pub bridge_env: Option<BTreeMap<String, String>>,
    /// What the host declared.
    pub client_capabilities: Object,
    /// Ceilings.
    pub limits: Limits,
    /// Where it is listed.
    pub directory: Directory,
    /// Where its process is recorded.
    pub records: Records,
    /// For lines larger than a window.
    pub large: Large,
    /// A home of the session's own (R234).
    pub scratch: Option<Arc<Scratch>>,
    /// Who hears of it.
    pub owner: DerivedActorRef<(Generation, Event)>,
    /// Shared with the session: whether a slow host holds the peer up.
    pub held: Held,
}

/// The actor.
pub struct Peer;

/// What it owns.
pub struct State {
    args: Arguments,
    stage: Stage,
    wire: Wire,
    held: Held,
    egress: Option<ActorRef<egress::Msg>>,
    process: Option<Process>,
    stderr: Option<Tail>,
    cause: Option<Cause>,
    exit: Option<Exit>,
    read_ended: bool,
    reading: Option<Reading>,
    counts: BTreeMap<&'static str, u64>,
    /// Frames read so far: shows that a slow answer is on its way.
    frames: u64,
    card: Arc<Card>,
    _listing: Listing,
}

impl Peer {
    /// Starts it under its session.
    pub async fn start(args: Arguments, session: ActorCell) -> Result<ActorRef<Msg>, SpawnErr> {
        Actor::spawn_linked(None, Self, args, session).await.map(|(actor, _)| actor)
    }
}

impl Actor for Peer {
    type Msg = Msg;
    type State = State;
    type Arguments = Arguments;

    async fn pre_start(&self, me: ActorRef<Msg>, args: Arguments) -> Result<State, ActorProcessingErr> {
        let name = format!("{}.{}", args.session, args.generation);
        let card = Card::new("peer", name, format!("session/{}", args.session));
        card.set("agent", args.name.as_str());
        card.set("stage", "spawning");
        let listing = args.directory.list(card.clone());
        tokio::spawn(spawn(spec(&args), me));
        let wire = Wire::new(args.agent.strict_wire);
        Ok(State {
            held: args.held.clone(),
            args,
            stage: Stage::Spawning,
            wire,
            egress: None,
            process: None,
            stderr: None,
            cause: None,
            exit: None,
            read_ended: false,
            reading: None,
            counts: BTreeMap::new(),
            frames: 0,
            card,
            _listing: listing,
        })
    }

    async fn handle(&self, me: ActorRef<Msg>, msg: Msg, state: &mut State) -> Result<(), ActorProcessingErr> {
        match msg {
            Msg::Spawned(result) => state.spawned(*result, &me).await?,
            Msg::Read(batch) => state.read(batch, &me),
            Msg::ReadEnd(end) => state.read_end(&end, &me),
            Msg::Egress(event) => state.egress(event),
            Msg::Send { envelopes, credit, known } => state.send(envelopes, credit, known.as_deref(), &me),
            Msg::Deadline(id, frames) => state.deadline(id, frames, &me),
            Msg::End(grace) => state.end(grace, &me),
            Msg::Term => state.term(),
            Msg::Kill => state.kill(),
            Msg::Exited(exit) => state.exited(exit, &me),
            Msg::Settled => state.settled(&me),
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        me: ActorRef<Msg>,
        event: SupervisionEvent,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        // The way out never ends by itself: if it panicked, nothing can be written any more.
        if matches!(event, SupervisionEvent::ActorFailed(..)) {
            state.fail(Cause::WriteFailed(std::io::ErrorKind::Other), &me);
        }
        Ok(())
    }
}

impl State {
    async fn spawned(
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
            line_time_max: Duration::from_millis(self.args.limits.write_stall_ms),
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
    fn arm(&self, id: u64, me: &ActorRef<Msg>) {
        let frames = self.frames;
        me.send_after(Duration::from_secs(self.args.agent.handshake_s), move || Msg::Deadline(id, frames));
    }

    fn deadline(&mut self, id: u64, frames: u64, me: &ActorRef<Msg>) {
        let Some(asked) = self.wire.asked(id) else { return };
        // A session that is loaded streams its history first: only silence counts against it.
        if asked.method == Method::SessionLoad && self.frames > frames {
            return self.arm(id, me);
        }
        let method = asked.method;
        let after = Duration::from_secs(self.args.agent.handshake_s);
        self.refuse(HandshakeError::Timeout { method, id, after }, me);
    }

    fn read(&mut self, batch: Batch, me: &ActorRef<Msg>) {
        // What follows a breach is no word of an agent any more, whether it came with it or in a later read (R6).
        if matches!(self.cause, Some(Cause::Strict(_) | Cause::Handshake(_))) {
            return;
        }
        self.card.touch();
        self.frames += batch.inputs.len() as u64;
        let mut envelopes = Vec::with_capacity(batch.inputs.len());
        for input in batch.inputs {
            if let Input::Frame(frame) = &input {
                crate::fault::strike("peer", frame.line());
            }
            if let Some(offence) = self.wire.offence(&input) {
                self.fail(Cause::Strict(offence.to_owned()), me);
                break;
            }
            match self.wire.read(input) {
                Step::Forward(envelope) => {
                    let opens = matches!(envelope.call, Call::Response(_));
                    envelopes.push(envelope);
                    if opens {
                        envelopes.extend(self.wire.release());
                    }
                }
                Step::Reply(frame, id) => self.reply(&frame, &id),
                Step::Initialised(answer) => self.initialised(&answer, me),
                Step::Fail(error) => self.refuse(error, me),
                Step::Kept(kind) => self.keep(kind),
            }
        }
        if !envelopes.is_empty() {
            self.say(Event::Lines(envelopes, batch.credit));
        }
    }

    /// What goes no further is counted, and never logged with its content (R118).
    fn keep(&mut self, kind: &'static str) {
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        self.card.set(kind, *count);
        tracing::debug!(session = %self.args.session, kind, count = *count, "line kept");
    }

    fn reply(&self, frame: &Frame, id: &[u8]) {
        let mut out = Outgoing::default();
        out.push(frame, crate::wire::outgoing::Splice { id: Some(id), ..Default::default() });
        self.offer(out, Credit::none(), Admission::Always);
    }

    fn initialised(&mut self, answer: &Frame, me: &ActorRef<Msg>) {
        if let Some(error) = answer.member("error") {
            let error = crate::wire::RpcError::of(error);
            return self.refuse(HandshakeError::Refused(error), me);
        }
        match handshake::check_initialize(answer.member("result")) {
            Ok(answer) => {
                self.enter(Stage::Ready);
                self.say(Event::Ready(answer));
            }
            Err(error) => self.refuse(error, me),
        }
    }

    fn refuse(&mut self, error: HandshakeError, me: &ActorRef<Msg>) {
        self.fail(Cause::Handshake(error), me);
    }

    /// It cannot be gone on with: the whole tree goes, at once. The first cause is the one that counts.
    fn fail(&mut self, cause: Cause, _me: &ActorRef<Msg>) {
        self.cause.get_or_insert(cause);
        self.enter(Stage::Ending);
        self.kill();
    }

    fn send(
        &mut self,
        envelopes: Vec<Envelope>,
        mut credit: Credit,
        known: Option<&[u8]>,
        me: &ActorRef<Msg>,
    ) {
        for envelope in envelopes {
            let mut out = Outgoing::default();
            let id = self.wire.send(&envelope, known, &mut out);
            let admission = match envelope.call {
                Call::Request(token) => Admission::Request(token),
                Call::Response(_) | Call::Notification => Admission::Always,
            };
            if out.lines() > 0 {
                self.offer(out, credit.split(1, envelope.frame.line().len()), admission);
            }
            if let Some(id) = id.filter(|_| wire::binds(wire::method(&envelope.frame))) {
                self.arm(id, me);
            }
        }
    }

    fn offer(&self, out: Outgoing, credit: Credit, admission: Admission) {
        let Some(egress) = &self.egress else { return };
        let parcel = Parcel::new(out.lines(), out.finish(), credit);
        let _ = egress.cast(egress::Msg::Offer(LANE, parcel, admission));
    }

    fn egress(&mut self, event: egress::Event) {
        match event {
            egress::Event::Refused(token) => {
                self.wire.unsent(token);
                self.say(Event::Refused(token));
            }
            egress::Event::Failed(failure) if self.stage != Stage::Ending => {
                self.cause.get_or_insert(match failure {
                    egress::Failure::Stalled => {
                        Cause::WriteStalled(Duration::from_millis(self.args.limits.write_stall_ms))
                    }
                    egress::Failure::Broken(kind) => Cause::WriteFailed(kind),
                });
                self.enter(Stage::Ending);
                self.kill();
            }
            egress::Event::Failed(_) | egress::Event::Closed | egress::Event::Overflow(_) => {}
        }
    }

    /// It writes no more. A process that stays after that is ended (R222).
    fn read_end(&mut self, end: &End, me: &ActorRef<Msg>) {
        self.read_ended = true;
        match end {
            End::Eof | End::Unwanted => self.end_by(None, self.grace(), me),
            End::Failed(error) => self.fail(Cause::ReadFailed(error.to_string()), me),
            End::Unfinished => self.fail(Cause::ReadFailed("a line was begun and not ended".to_owned()), me),
        }
        if self.exit.is_some() {
            self.settled(me);
        }
    }

    fn grace(&self) -> Duration {
        Duration::from_millis(self.args.agent.stop_grace_ms)
    }

    fn end(&mut self, grace: Duration, me: &ActorRef<Msg>) {
        self.end_by(Some(Cause::Order), grace, me);
    }

    fn end_by(&mut self, cause: Option<Cause>, grace: Duration, me: &ActorRef<Msg>) {
        if let (Some(cause), None) = (cause, &self.exit) {
            self.cause.get_or_insert(cause);
        }
        self.enter(Stage::Ending);
        if let Some(egress) = &self.egress {
            let _ = egress.cast(egress::Msg::Close);
        }
        if grace.is_zero() {
            return self.kill();
        }
        me.send_after(grace / 2, || Msg::Term);
        me.send_after(grace, || Msg::Kill);
    }

    fn term(&self) {
        if let Some(process) = self.process.as_ref().filter(|_| self.exit.is_none()) {
            process.term();
        }
    }

    fn kill(&self) {
        if let Some(process) = self.process.as_ref().filter(|_| self.exit.is_none()) {
            process.kill();
        }
    }

    /// What it wrote before it went is still read, and its stderr with it, within bounds (R8, R214).
    fn exited(&mut self, exit: Exit, me: &ActorRef<Msg>) {
        tracing::info!(session = %self.args.session, agent = %self.args.name, status = ?exit.status,
            by_us = exit.by_us, unproved = exit.unproved, "peer ended");
        self.exit = Some(exit);
        self.settle_later(me);
    }

    fn settle_later(&self, me: &ActorRef<Msg>) {
        let (stderr, me) = (self.stderr.clone(), me.clone());
        let bound = Duration::from_millis(limits::REAP_MS_MAX);
        let read_ended = self.read_ended;
        tokio::spawn(async move {
            let drained = match stderr {
                Some(tail) => tail.drained(bound).await,
                None => true,
            };
            if drained && !read_ended {
                tokio::time::sleep(bound).await;
            }
            let _ = me.cast(Msg::Settled);
        });
    }

    fn settled(&mut self, me: &ActorRef<Msg>) {
        if self.exit.is_none() {
            return;
        }
        // A slow host holds the reader up: what the peer said before it went is not lost for that, unless nobody
        // wants it any more.
        let wanted = !matches!(self.cause, Some(Cause::Order));
        if wanted && !self.read_ended && self.held.is() {
            return self.settle_later(me);
        }
        self.down(me);
    }

    fn down(&mut self, me: &ActorRef<Msg>) {
        let death = Death {
            agent: self.args.name.clone(),
            cause: self.cause.take().unwrap_or(Cause::Itself),
            exit: self.exit.take(),
            unanswered: self.wire.unanswered(),
            stderr: self.stderr.as_ref().map(Tail::shown).unwrap_or_default(),
            prompt_open: false,
        };
        self.say(Event::Down(Box::new(death)));
        me.stop(Some("gone".to_owned()));
    }

    fn enter(&mut self, stage: Stage) {
        self.stage = stage;
        self.card.set("stage", format!("{stage:?}").to_lowercase());
    }

    fn say(&self, event: Event) {
        let _ = self.args.owner.send_message((self.args.generation, event));
    }
}

impl From<egress::Event> for Msg {
    fn from(event: egress::Event) -> Self {
        Self::Egress(event)
    }
}

impl TryFrom<Msg> for egress::Event {
    type Error = ();
    fn try_from(msg: Msg) -> Result<Self, ()> {
        if let Msg::Egress(event) = msg { Ok(event) } else { Err(()) }
    }
}

fn spec(args: &Arguments) -> Spec {
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

async fn spawn(spec: Spec, me: ActorRef<Msg>) {
    let spawned = process::spawn(spec).await;
    let _ = me.cast(Msg::Spawned(Box::new(spawned)));
}

async fn read<S: crate::ingress::Source>(ingress: Ingress<S>, me: ActorRef<Msg>) {
    let end = ingress.run(|batch| me.cast(Msg::Read(batch)).is_ok()).await;
    let _ = me.cast(Msg::ReadEnd(end));
}

async fn watch(exit: ExitWatch, me: ActorRef<Msg>) {
    let exit = exit.wait().await;
    let _ = me.cast(Msg::Exited(exit));
}
