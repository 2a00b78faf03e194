//! What a session tells automatic resume, and what it is told to do. Pure.

use std::time::Duration;

use smallvec::SmallVec;

use super::{End, Evidence, Projection};
use crate::{session::failure::Failure, store::EntryState};

/// Names one attempt, timer or notice. Ascends, and is never used again.
pub type Number = u64;

/// What to do for one event, in this order.
pub type Actions = SmallVec<[Action; 4]>;

/// Two clocks, read at once.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// Since some fixed moment; never goes back.
    pub steady: Duration,
    /// Since the Unix epoch, in milliseconds, to be shown.
    pub epoch_ms: i64,
}

/// What the session saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Something may be pending: an entry of a terminal or of another session, a host that attached.
    Wake,
    /// The same by the hand of somebody: a `send`, a load, the end of a host's prompt that was not cancelled. Ends a
    /// hold (R198).
    Release,
    /// A turn may start: nothing runs or waits, the history is replayed and the set-up answered (R190, R197). Owed
    /// again after each start and after each prompt of the host.
    Free,
    /// A turn may not start.
    Busy,
    /// A host's prompt came: what has not begun gives way to it (R192, R198).
    Prompted,
    /// The check found nothing pending.
    NothingPending(Number),
    /// The check failed, or the process could not be had.
    CheckFailed(Number, Failure),
    /// The prompt of the attempt is with the peer.
    Sent(Number),
    /// Something was seen of its turn (R193).
    Seen(Number, Evidence),
    /// Its turn ended.
    Ended(Number, End),
    /// The timer of that number fired.
    Timer(Number),
    /// The total limit of that number is over.
    Limit(Number),
    /// The notice of that number was written, or will never be (R201).
    Noticed(Number),
    /// Cancel, or the way to the host failed: all of it ends, and nothing starts before a release (R198).
    Halt,
    /// The session is on its way out: nothing starts any more.
    Destroy,
}

/// What the session is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Check what is pending, and send it as one prompt if [`super::Recovery::may_send`] still says so.
    Start {
        /// The attempt.
        number: Number,
        /// The how-manieth of its episode, from 1.
        attempt: u32,
    },
    /// After so long, [`Event::Timer`].
    ArmTimer {
        /// The timer.
        number: Number,
        /// From now.
        after: Duration,
    },
    /// After so long, [`Event::Limit`].
    ArmLimit {
        /// The limit.
        number: Number,
        /// From now.
        after: Duration,
    },
    /// No timer is of use any more.
    Disarm,
    /// Cancel the turn of this attempt as a host would, with its open permission requests, and nothing that waits behind
    /// it. It ends all the same.
    Abort(Number),
    /// The entries that this attempt took, if it has taken any, are in this state now (R184, R187).
    Settle {
        /// The attempt.
        number: Number,
        /// Done, queued or indeterminate.
        state: EntryState,
    },
    /// Tell the host (R200). With a number, [`Event::Noticed`] is owed.
    Publish {
        /// Of a notice that ends an episode: the session is not idle before it is written (R201).
        number: Option<Number>,
        /// What to tell.
        projection: Projection,
    },
}
