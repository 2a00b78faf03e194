//! The mailbox of a way out: takes parcels, hands the pump one write at a time, tells its owner what failed.

use std::{
    collections::HashSet,
    io::{self, IoSlice},
    sync::Arc,
    time::Duration,
};

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, DerivedActorRef, SpawnErr};
use tokio::sync::mpsc;

use super::{
    pump::{Failure, Progress, Pump, Sink, Write},
    queue::{Admission, Lane, Parcel, Queue, Wait},
};
use crate::{
    id::Token,
    ingress::Held,
    limits::{QUEUE_BYTES_MAX, QUEUE_ITEMS_MAX, READ_BYTES_MAX},
    wire::credit::Amount,
};

/// Bytes one write aims at.
const WRITE_BYTES: usize = READ_BYTES_MAX;

/// What the owner hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A request was turned away: the lane is full (R10).
    Refused(Token),
    /// Something that could not be slowed was turned away (R108).
    Overflow(Lane),
    /// Nothing more leaves. Said once (R113).
    Failed(Failure),
    /// Everything offered before [`Msg::Close`] has left, and the descriptor is closed.
    Closed,
}

/// What it takes.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "an offer is what it takes all the time; a box would cost an allocation each"
)]
pub enum Msg {
    /// To be written after everything of its lane.
    Offer(Lane, Parcel, Admission),
    /// The write under way ended.
    Wrote(Result<(), Failure>),
    /// Write what is there, then close the descriptor.
    Close,
}

/// How to write one wire.
pub struct Arguments<S> {
    /// The write end.
    pub sink: S,
    /// No progress for this long is a failure.
    pub stall: Duration,
    /// The reader beside it.
    pub held: Held,
    /// Who hears of failures.
    pub owner: DerivedActorRef<Event>,
}

/// The actor.
pub struct Egress;

impl Egress {
    /// Starts it under its owner.
    pub async fn start<S: Sink>(args: Arguments<S>, owner: ActorCell) -> Result<ActorRef<Msg>, SpawnErr> {
        let start = Box::new(move |actor: ActorRef<Msg>| {
            let (writes, rest) = mpsc::channel(1);
            let sink = Arc::new(args.sink);
            let pump = Pump { sink: sink.clone(), stall: args.stall, held: args.held, writes: rest };
            let task = tokio::spawn(pump.run(move |result| {
                let _ = actor.cast(Msg::Wrote(result));
            }));
            State {
                queue: Queue::new(Amount { items: QUEUE_ITEMS_MAX, bytes: QUEUE_BYTES_MAX }),
                way: Some(Way { direct: Box::new(move |slices| sink.try_write(slices)), rest: writes }),
                pump: task.abort_handle(),
                overflowed: HashSet::new(),
                owner: args.owner,
                closing: false,
            }
        });
        Actor::spawn_linked(None, Self, Start(start), owner).await.map(|(actor, _)| actor)
    }
}

/// Makes the state once the actor has a mailbox to report to.
pub struct Start(Box<dyn FnOnce(ActorRef<Msg>) -> State + Send>);

/// Writes what fits at once.
type Direct = Box<dyn Fn(&[IoSlice<'_>]) -> io::Result<usize> + Send>;

/// How lines leave: at once, and through the pump what is left then.
struct Way {
    direct: Direct,
    rest: mpsc::Sender<Write>,
}

/// What it owns.
pub struct State {
    queue: Queue,
    /// Gone once nothing more may leave.
    way: Option<Way>,
    pump: tokio::task::AbortHandle,
    /// Lanes whose overflow was told.
    overflowed: HashSet<Lane>,
    owner: DerivedActorRef<Event>,
    closing: bool,
}

impl Actor for Egress {
    type Msg = Msg;
    type State = State;
    type Arguments = Start;

    async fn pre_start(&self, me: ActorRef<Msg>, start: Start) -> Result<State, ActorProcessingErr> {
        Ok(start.0(me))
    }

    async fn handle(&self, _: ActorRef<Msg>, msg: Msg, state: &mut State) -> Result<(), ActorProcessingErr> {
        match msg {
            Msg::Offer(lane, parcel, admission) => state.offer(lane, parcel, admission),
            Msg::Wrote(Ok(())) => state.wrote(),
            Msg::Wrote(Err(failure)) => state.fail(failure),
            Msg::Close => state.closing = true,
        }
        state.write();
        Ok(())
    }
}

impl State {
    fn offer(&mut self, lane: Lane, parcel: Parcel, admission: Admission) {
        if self.way.is_none() {
            return;
        }
        let event = match (self.queue.offer(lane, parcel, admission), admission) {
            (Wait::Queued, _) => return,
            (Wait::Full, Admission::Request(token)) => Event::Refused(token),
            // Once per lane: whoever hears it ends what fills the lane (R113).
            (Wait::Full, _) if !self.overflowed.insert(lane) => return,
            (Wait::Full, _) => Event::Overflow(lane),
            (Wait::Deaf, _) => return self.fail(Failure::Deaf),
        };
        self.say(event);
    }

    fn wrote(&mut self) {
        self.queue.written();
    }

    fn fail(&mut self, failure: Failure) {
        self.queue.clear();
        self.pump.abort();
        if self.way.take().is_some() {
            self.say(Event::Failed(failure));
        }
    }

    /// Writes what is there, until the descriptor would have to be waited for.
    fn write(&mut self) {
        while let Some(way) = &self.way {
            let parcels = self.queue.next_write(WRITE_BYTES);
            if parcels.is_empty() {
                return self.nothing_to_write();
            }
            let mut write = Write::new(parcels);
            match write.attempt(&way.direct) {
                Ok(Progress::Done) => self.queue.written(),
                // The channel has room: the pump took the last one before it said that it was out.
                Ok(Progress::Blocked) => return drop(way.rest.try_send(write)),
                Err(failure) => self.fail(failure),
            }
        }
    }

    fn nothing_to_write(&mut self) {
        if self.closing && self.queue.is_empty() {
            self.way = None;
            self.say(Event::Closed);
        }
    }

    fn say(&self, event: Event) {
        let _ = self.owner.send_message(event);
    }
}

impl Drop for State {
    /// Ended before its time: a write that waits must not keep the descriptor or its credit.
    fn drop(&mut self) {
        if self.way.is_some() {
            self.pump.abort();
        }
    }
}
