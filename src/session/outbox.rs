//! What waits to leave for the host: an answer that must be on record first, and everything behind it (R107, R273).
//! Pure.
//!
//! Lines leave in the order they were put in. While nothing waits, nothing is kept here. What waits keeps its credit,
//! so a peer that has more to say waits too.

use std::collections::VecDeque;

use crate::wire::{Call, Envelope, Frame, credit::Credit};

/// Names one write of the session to the session.
pub type Ticket = u64;

/// Lines that leave together.
#[derive(Debug)]
pub struct Bundle {
    /// The lines.
    pub envelopes: Vec<Envelope>,
    /// Their credit.
    pub credit: Credit,
}

#[derive(Debug)]
struct Waiting {
    bundle: Bundle,
    /// Not before that is on record.
    until: Option<Ticket>,
}

/// The lines of one session that have not left.
#[derive(Debug, Default)]
pub struct Outbox {
    waiting: VecDeque<Waiting>,
    /// Nothing leaves: the host is shown history first (R37, R41).
    closed: bool,
}

impl Outbox {
    /// Puts lines behind what waits; gives them back when they may leave at once.
    pub fn put(&mut self, bundle: Bundle) -> Option<Bundle> {
        if self.is_clear() {
            return Some(bundle);
        }
        self.waiting.push_back(Waiting { bundle, until: None });
        None
    }

    /// Puts lines in that leave when that is on record.
    pub fn put_after(&mut self, ticket: Ticket, bundle: Bundle) {
        self.waiting.push_back(Waiting { bundle, until: Some(ticket) });
    }

    /// It is on record, or will never be: then what waited for it says this error instead of its answers.
    pub fn settle(&mut self, ticket: Ticket, failure: Option<&Frame>) {
        let held = self.waiting.iter_mut().filter(|w| w.until == Some(ticket));
        for waiting in held {
            waiting.until = None;
            if let Some(error) = failure {
                fail(&mut waiting.bundle.envelopes, error);
            }
        }
    }

    /// It will never be on record, and what waited for it never leaves.
    pub fn forget(&mut self, ticket: Ticket) {
        self.waiting.retain(|waiting| waiting.until != Some(ticket));
    }

    /// What waited for that says this instead, and may leave.
    pub fn fill(&mut self, ticket: Ticket, envelope: Envelope) {
        if let Some(held) = self.waiting.iter_mut().find(|w| w.until == Some(ticket)) {
            held.until = None;
            held.bundle.envelopes = vec![envelope];
        }
    }

    /// The next lines that may leave.
    pub fn next(&mut self) -> Option<Bundle> {
        if self.closed || self.waiting.front()?.until.is_some() {
            return None;
        }
        self.waiting.pop_front().map(|w| w.bundle)
    }

    /// Nothing leaves from now on.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// What waits may leave.
    pub fn open(&mut self) {
        self.closed = false;
    }

    /// Forgets what was for a host that is gone. What waits for the record goes too: nobody hears it.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether what is put in now leaves at once.
    pub fn is_clear(&self) -> bool {
        !self.closed && self.waiting.is_empty()
    }
}

fn fail(envelopes: &mut [Envelope], error: &Frame) {
    let answers = envelopes.iter_mut().filter(|e| matches!(e.call, Call::Response(_)));
    answers.for_each(|answer| answer.frame = error.clone());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::RpcError;

    fn bundle(token: u64) -> Bundle {
        let answer = Envelope::new(Call::Response(token), Frame::result(&token));
        Bundle { envelopes: vec![answer], credit: Credit::none() }
    }

    fn token(bundle: &Bundle) -> u64 {
        let Call::Response(token) = bundle.envelopes[0].call else { panic!("no answer") };
        token
    }

    /// R107, R273: what comes behind an answer that waits for its record leaves behind it.
    #[test]
    fn an_answer_leaves_when_it_is_on_record_and_the_rest_behind_it() {
        let mut o = Outbox::default();
        assert!(o.put(bundle(1)).is_some());
        o.put_after(7, bundle(2));
        assert!(o.put(bundle(3)).is_none());
        o.put_after(8, bundle(4));
        assert!(o.next().is_none());
        o.settle(8, None);
        assert!(o.next().is_none());
        o.settle(7, None);
        assert_eq!(std::iter::from_fn(|| o.next()).map(|b| token(&b)).collect::<Vec<_>>(), [2, 3, 4]);
        assert!(o.is_clear());
    }

    /// R274: an answer whose record failed is an error, and what follows it is not.
    #[test]
    fn a_record_that_failed_is_an_error() {
        let mut o = Outbox::default();
        o.put_after(1, bundle(1));
        assert!(o.put(bundle(2)).is_none());
        o.settle(1, Some(&Frame::error(&RpcError::internal("full"))));
        let said: Vec<bool> =
            std::iter::from_fn(|| o.next()).map(|b| b.envelopes[0].frame.member("error").is_some()).collect();
        assert_eq!(said, [true, false]);
    }

    /// R92: what was to be shown of a turn is not shown when the turn never began.
    #[test]
    fn what_never_was_is_forgotten() {
        let mut o = Outbox::default();
        o.put_after(1, bundle(1));
        assert!(o.put(bundle(2)).is_none());
        o.forget(1);
        assert_eq!(std::iter::from_fn(|| o.next()).map(|b| token(&b)).collect::<Vec<_>>(), [2]);
    }

    /// R107: what is known only when it is on record leaves in the place that it took before.
    #[test]
    fn a_place_is_kept_for_what_is_said_later() {
        let mut o = Outbox::default();
        o.put_after(1, bundle(1));
        assert!(o.put(bundle(2)).is_none());
        o.fill(1, bundle(3).envelopes.remove(0));
        assert_eq!(std::iter::from_fn(|| o.next()).map(|b| token(&b)).collect::<Vec<_>>(), [3, 2]);
        o.fill(1, bundle(4).envelopes.remove(0));
        assert!(o.is_clear());
    }

    /// R37, R41: history first.
    #[test]
    fn nothing_leaves_while_it_is_closed() {
        let mut o = Outbox::default();
        o.close();
        assert!(o.put(bundle(1)).is_none() && o.next().is_none());
        o.open();
        assert!(o.next().is_some() && o.is_clear());
    }
}
