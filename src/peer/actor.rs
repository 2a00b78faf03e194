//! The mailbox of a peer: starts its process, shakes hands, carries lines both ways, ends it.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, DerivedActorRef, SpawnErr, SupervisionEvent};

use smallvec::smallvec;
use tokio::sync::OwnedSemaphorePermit;

use super::{
    death::{Cause, Death},
    handshake::HandshakeError,
    stage::Stage,
    starting,
    wire::{self, Step, Wire},
};
use crate::{
    config::{Agent, Limits},
    directory::{Card, Directory, Listing},
    egress::{self, Admission, Parcel},
    id::{Generation, SessionId, Token},
    ingress::{Batch, End, Held, Input, Reading},
    mailbox::carries,
    process::{Exit, Process, Records, Scratch, SpawnError, Spawned, Tail, ladder},
    store::{self, Kind, Op, Write},
    wire::{
        Call, Envelope, Frame,
        credit::{Credit, Large},
        outgoing::{Outgoing, Segments},
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
    /// Lines that go no further and are kept all the same (R5, R6, R32, R105).
    Stray(Vec<Bytes>, Credit),
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
        /// Whether they go on record as they leave: with the ids of this wire (R242).
        keep: bool,
    },
    /// The request of that number should be answered by now; so many frames had been read when it was sent.
    Deadline(u64, u64),
    /// Go: close stdin, then TERM, then KILL within this time (R222).
    End(Duration),
    /// A step of that is due.
    Climb(ladder::Step),
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
    /// Keeps what is sent.
    pub store: ActorRef<store::Msg>,
    /// A home of the session's own (R234).
    pub scratch: Option<Arc<Scratch>>,
    /// Who hears of it.
    pub owner: DerivedActorRef<(Generation, Event)>,
    /// The right to be a process.
    pub seat: OwnedSemaphorePermit,
    /// Shared with the session: whether a slow host holds the peer up.
    pub held: Held,
}

/// The actor.
pub struct Peer;

/// What it owns.
pub struct State {
    pub(super) args: Arguments,
    pub(super) stage: Stage,
    pub(super) wire: Wire,
    pub(super) held: Held,
    pub(super) egress: Option<ActorRef<egress::Msg>>,
    pub(super) process: Option<Process>,
    pub(super) stderr: Option<Tail>,
    pub(super) cause: Option<Cause>,
    pub(super) exit: Option<Exit>,
    pub(super) read_ended: bool,
    pub(super) reading: Option<Reading>,
    pub(super) counts: BTreeMap<&'static str, u64>,
    /// Frames read so far: shows that a slow answer is on its way.
    pub(super) frames: u64,
    pub(super) card: Arc<Card>,
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
        tokio::spawn(starting::spawn(starting::spec(&args), me));
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
            Msg::Read(batch) => state.read(batch),
            Msg::ReadEnd(end) => state.read_end(&end, &me),
            Msg::Egress(event) => state.egress(event),
            Msg::Send { envelopes, credit, known, keep } => {
                state.send(envelopes, credit, (known.as_deref(), keep), &me);
            }
            Msg::Deadline(id, frames) => state.deadline(id, frames, &me),
            Msg::End(grace) => state.end(grace, &me),
            Msg::Climb(step) => state.climb(step),
            Msg::Exited(exit) => state.exited(exit, &me),
            Msg::Settled => state.settled(&me),
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<Msg>,
        event: SupervisionEvent,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        // The way out never ends by itself: if it panicked, nothing can be written any more.
        if matches!(event, SupervisionEvent::ActorFailed(..)) {
            state.fail(Cause::WriteFailed(std::io::ErrorKind::Other));
        }
        Ok(())
    }
}

impl State {
    fn read(&mut self, mut batch: Batch) {
        // What follows a breach is no word of an agent any more, whether it came with it or in a later read (R6).
        if matches!(self.cause, Some(Cause::Strict(_) | Cause::Handshake(_))) {
            return;
        }
        self.card.touch();
        self.frames += batch.inputs.len() as u64;
        let mut envelopes = Vec::with_capacity(batch.inputs.len());
        let mut strays = Vec::new();
        for input in batch.inputs {
            if let Input::Frame(frame) = &input {
                crate::fault::strike("peer", frame.line());
            }
            if let Some(offence) = self.wire.offence(&input) {
                self.fail(Cause::Strict(offence.to_owned()));
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
                Step::Reply { line, answer, id } => {
                    strays.push(line);
                    self.reply(&answer, &id);
                }
                Step::Initialised(answer) => self.initialised(&answer),
                Step::Fail(error) => {
                    self.refuse(error);
                    break;
                }
                Step::Held => self.count("early_updates"),
                Step::Kept(kind, line) => {
                    strays.push(line);
                    self.count(kind);
                }
            }
        }
        if !strays.is_empty() {
            self.say(Event::Stray(strays, batch.credit.share()));
        }
        if !envelopes.is_empty() {
            self.say(Event::Lines(envelopes, batch.credit));
        }
    }

    /// What goes no further is counted, and never logged with its content (R118).
    fn count(&mut self, kind: &'static str) {
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

    pub(super) fn refuse(&mut self, error: HandshakeError) {
        self.fail(Cause::Handshake(error));
    }

    /// It cannot be gone on with: the whole tree goes, at once. The first cause is the one that counts.
    pub(super) fn fail(&mut self, cause: Cause) {
        self.cause.get_or_insert(cause);
        self.enter(Stage::Ending);
        self.kill();
    }

    fn send(
        &mut self,
        envelopes: Vec<Envelope>,
        mut credit: Credit,
        (known, keep): (Option<&[u8]>, bool),
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
                let mut part = credit.split(1, envelope.frame.line().len());
                let segments = out.finish();
                if keep {
                    self.keep(&segments, part.share());
                }
                self.offer_parcel(Parcel::new(1, segments, part), admission);
            }
            if let Some(id) = id.filter(|_| wire::binds(wire::method(&envelope.frame))) {
                self.arm(id, me);
            }
        }
    }

    pub(super) fn offer(&self, out: Outgoing, credit: Credit, admission: Admission) {
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
                    egress::Failure::Deaf => Cause::Deaf,
                });
                self.enter(Stage::Ending);
                self.kill();
            }
            egress::Event::Failed(_) | egress::Event::Closed | egress::Event::Overflow(_) => {}
        }
    }

    fn offer_parcel(&self, parcel: Parcel, admission: Admission) {
        if let Some(egress) = &self.egress {
            let _ = egress.cast(egress::Msg::Offer(LANE, parcel, admission));
        }
    }

    /// A line goes on record as it leaves. Its credit is held until it is stored (R274).
    fn keep(&self, segments: &Segments, credit: Credit) {
        let line = match segments.as_slice() {
            [line] => line.clone(),
            pieces => pieces.concat().into(),
        };
        let session = self.args.session.clone();
        let ops = smallvec![Op::Frames(Kind::Sent, vec![line.slice(..line.len() - 1)])];
        let write = Write { session, ops, sync: false, credit, ack: None };
        let _ = self.args.store.cast(store::Msg::Write(write));
    }

    pub(super) fn enter(&mut self, stage: Stage) {
        self.stage = stage;
        self.card.set("stage", format!("{stage:?}").to_lowercase());
    }

    pub(super) fn say(&self, event: Event) {
        let _ = self.args.owner.send_message((self.args.generation, event));
    }
}

carries!(Msg: egress::Event => Egress);
