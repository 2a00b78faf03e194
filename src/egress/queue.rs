//! What waits to be written: a lane per session, served in turn (R115). Pure.
//!
//! A lane is bounded by items and bytes, what is being written included (R108). What exceeds the bytes is admitted
//! alone (R111). Answers and cancels are always admitted (R10).

use std::collections::{HashMap, VecDeque};

use crate::{
    id::Token,
    limits::QUEUE_ITEMS_LAST,
    wire::{
        credit::{Amount, Credit},
        outgoing::Segments,
    },
};

/// Which queue of a wire.
pub type Lane = u64;

/// Lines that leave together.
#[derive(Debug)]
pub struct Parcel {
    /// The bytes.
    pub segments: Segments,
    /// How many lines and bytes they are.
    pub amount: Amount,
    /// Returned when they are written.
    pub credit: Credit,
    /// The same of the requests that they answer.
    pub owed: Option<Credit>,
}

impl Parcel {
    /// Lines of an [`crate::wire::outgoing::Outgoing`].
    pub fn new(lines: usize, segments: Segments, credit: Credit) -> Self {
        let bytes = segments.iter().map(bytes::Bytes::len).sum();
        Self { segments, amount: Amount { items: lines, bytes }, credit, owed: None }
    }

    /// Holds what the asking end was lent for its questions until it takes the answers.
    #[must_use]
    pub fn owing(self, owed: Option<Credit>) -> Self {
        Self { owed, ..self }
    }
}

impl Parcel {
    fn unlent(&self) -> usize {
        if self.credit.is_none() { self.amount.bytes } else { 0 }
    }
}

/// Whether a parcel may be turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Never: answers, cancels, and lines whose credit is below the queue by construction (R10, R110).
    Always,
    /// When the lane is full: what nobody can slow (R108).
    Limited,
    /// When the lane is full: a request of the owner's, under this token (R10).
    Request(Token),
}

/// What a full lane means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Wait {
    /// It is in the queue.
    Queued,
    /// The lane is full.
    Full,
    /// More waits than anybody leaves unread who reads.
    Deaf,
}

/// The lanes of one wire.
#[derive(Debug)]
pub struct Queue {
    limit: Amount,
    lanes: HashMap<Lane, Waiting>,
    /// Lanes that have something to write, in turn.
    turn: VecDeque<Lane>,
    /// Lane, amount, and what of it nobody was lent for.
    writing: Vec<(Lane, Amount, usize)>,
}

#[derive(Debug, Default)]
struct Waiting {
    parcels: VecDeque<Parcel>,
    /// Waiting and being written.
    pending: Amount,
    /// Those of these bytes that nobody was lent for.
    unlent: usize,
}

impl Queue {
    /// Lanes of at most that much.
    pub fn new(limit: Amount) -> Self {
        Self { limit, lanes: HashMap::new(), turn: VecDeque::new(), writing: Vec::new() }
    }

    /// Takes a parcel in, unless its lane is full.
    pub fn offer(&mut self, lane: Lane, parcel: Parcel, admission: Admission) -> Wait {
        let limit = self.limit;
        let waiting = self.lanes.entry(lane).or_default();
        let items = waiting.pending.items + parcel.amount.items;
        let bytes = waiting.pending.bytes + parcel.amount.bytes;
        let unlent = waiting.unlent + parcel.unlent();
        let alone = waiting.pending == Amount::default();
        // Whoever takes nothing while so much waits takes nothing at all: memory is bounded, whatever is owed.
        if waiting.pending.items >= QUEUE_ITEMS_LAST {
            return Wait::Deaf;
        }
        // A large line is bounded by its credit: what the daemon adds must fit beside it (R111).
        let counted = if admission == Admission::Limited { unlent } else { bytes };
        if admission != Admission::Always && !alone && (items > limit.items || counted > limit.bytes) {
            return Wait::Full;
        }
        waiting.pending = Amount { items, bytes };
        waiting.unlent = unlent;
        if waiting.parcels.is_empty() {
            self.turn.push_back(lane);
        }
        waiting.parcels.push_back(parcel);
        Wait::Queued
    }

    /// The next write: one parcel of each lane in turn, up to about that many bytes. Empty when nothing waits or
    /// a write is under way (R109).
    pub fn next_write(&mut self, bytes_max: usize) -> Vec<Parcel> {
        let mut write = Vec::new();
        let mut bytes = 0;
        if !self.writing.is_empty() {
            return write;
        }
        while bytes < bytes_max
            && let Some(lane) = self.turn.pop_front()
        {
            let Some(parcel) = self.lanes.get_mut(&lane).and_then(|w| w.parcels.pop_front()) else {
                continue;
            };
            if self.lanes.get(&lane).is_some_and(|w| !w.parcels.is_empty()) {
                self.turn.push_back(lane);
            }
            bytes += parcel.amount.bytes;
            self.writing.push((lane, parcel.amount, parcel.unlent()));
            write.push(parcel);
        }
        write
    }

    /// The write under way is done.
    pub fn written(&mut self) {
        for (lane, amount, unlent) in self.writing.drain(..) {
            let Some(waiting) = self.lanes.get_mut(&lane) else { continue };
            waiting.pending.items -= amount.items;
            waiting.pending.bytes -= amount.bytes;
            waiting.unlent -= unlent;
            if waiting.pending == Amount::default() {
                self.lanes.remove(&lane);
            }
        }
    }

    /// Whether nothing waits and nothing is being written.
    pub fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// Drops everything: nothing more will be written (R113).
    pub fn clear(&mut self) {
        self.lanes.clear();
        self.turn.clear();
        self.writing.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parcel(items: usize, bytes: usize) -> Parcel {
        Parcel {
            segments: Segments::new(),
            amount: Amount { items, bytes },
            credit: Credit::none(),
            owed: None,
        }
    }

    fn queue() -> Queue {
        Queue::new(Amount { items: 256, bytes: 1_000 })
    }

    /// R108: exactly at the limit fits, one more does not; what is being written counts.
    #[test]
    fn a_lane_is_full_at_its_limit() {
        let mut q = queue();
        assert_eq!(q.offer(1, parcel(255, 10), Admission::Limited), Wait::Queued);
        assert_eq!(q.offer(1, parcel(1, 990), Admission::Limited), Wait::Queued);
        assert_eq!(q.next_write(5).len(), 1);
        assert_eq!(q.offer(1, parcel(1, 0), Admission::Limited), Wait::Full);
        assert_eq!(q.offer(1, parcel(1, 1), Admission::Request(7)), Wait::Full);
        assert_eq!(q.offer(1, parcel(1, 1), Admission::Always), Wait::Queued);
        assert_eq!(q.offer(2, parcel(1, 1), Admission::Limited), Wait::Queued);
    }

    /// R249: what is always admitted is bounded all the same.
    #[test]
    fn a_lane_that_nobody_reads_is_deaf_in_the_end() {
        let mut q = queue();
        for _ in 0..QUEUE_ITEMS_LAST {
            assert_eq!(q.offer(1, parcel(1, 1), Admission::Always), Wait::Queued);
        }
        assert_eq!(q.offer(1, parcel(1, 1), Admission::Always), Wait::Deaf);
    }

    /// R111: what is larger than the limit is admitted alone.
    #[test]
    fn an_oversized_parcel_is_admitted_alone() {
        let mut q = queue();
        assert_eq!(q.offer(1, parcel(1, 5_000), Admission::Limited), Wait::Queued);
        assert_eq!(q.offer(1, parcel(1, 1), Admission::Limited), Wait::Full);
        assert_eq!(q.next_write(1).len(), 1);
        q.written();
        assert!(q.is_empty());
        assert_eq!(q.offer(1, parcel(1, 1), Admission::Limited), Wait::Queued);
    }

    /// R109, R115: one write at a time, lanes in turn, order kept within a lane.
    #[test]
    fn lanes_take_turns() {
        let mut q = queue();
        for n in 1..=3 {
            assert_eq!(q.offer(1, parcel(n, 100), Admission::Limited), Wait::Queued);
        }
        assert_eq!(q.offer(2, parcel(9, 100), Admission::Limited), Wait::Queued);
        let items = |w: Vec<Parcel>| w.iter().map(|p| p.amount.items).collect::<Vec<_>>();
        assert_eq!(items(q.next_write(150)), [1, 9]);
        assert!(q.next_write(150).is_empty());
        q.written();
        assert_eq!(items(q.next_write(1_000)), [2, 3]);
        q.written();
        assert!(q.is_empty());
    }
}
