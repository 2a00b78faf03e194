//! Memory is lent: a budget lends items and bytes, credit returns them when it is dropped (R110).
//!
//! A reader borrows before it posts what it read; whoever holds the lines holds the credit with them. A line
//! larger than its budget is admitted alone, through a pool that the whole daemon shares.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// How much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amount {
    /// Lines.
    pub items: usize,
    /// Bytes.
    pub bytes: usize,
}

/// What may be lent to one wire at once. Cheap to clone; all clones are one budget.
#[derive(Clone)]
pub struct Budget(Arc<Inner>);

struct Inner {
    limit: Amount,
    lent: Mutex<Amount>,
    returned: Notify,
    large: Large,
}

/// The pool for lines larger than a budget: granted whole, in order (R110). One for the whole daemon.
#[derive(Clone)]
pub struct Large(Arc<Semaphore>);

impl Large {
    /// A pool of that many bytes.
    pub fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new(bytes)))
    }
}

/// A part of the pool for large lines, taken while a line grows.
pub struct Hold(Option<OwnedSemaphorePermit>);

impl Hold {
    /// Gives back what the line did not need.
    fn shrink(mut self, bytes: usize) -> Self {
        if let Some(permit) = &mut self.0 {
            drop(permit.split(permit.num_permits().saturating_sub(bytes)));
        }
        self
    }
}

impl Budget {
    /// A budget of that size beside a pool for what is larger.
    pub fn new(limit: Amount, large: Large) -> Self {
        Self(Arc::new(Inner { limit, lent: Mutex::default(), returned: Notify::new(), large }))
    }

    /// Borrows for as many of these lines as fit now, at most `most`; waits until the first one does.
    /// Returns the credit and for how many lines it is. Nothing is lent for no line.
    /// A line larger than the budget goes alone, on what was held for it while it grew.
    pub async fn lend(&self, lengths: &[usize], most: usize, held: &mut Option<Hold>) -> (Credit, usize) {
        let Some(first) = lengths.first() else { return (Credit::none(), 0) };
        if *first > self.0.limit.bytes {
            let hold = match held.take() {
                Some(hold) => hold,
                None => self.hold(*first).await,
            };
            return (self.lend_alone(hold.shrink(*first)).await, 1);
        }
        loop {
            // Registered before the look, so that a return between look and wait is not missed.
            let returned = self.0.returned.notified();
            let amount = self.take(lengths, most);
            if amount.items > 0 {
                return (Credit::of(self, amount, None), amount.items);
            }
            returned.await;
        }
    }

    /// Waits until anything at all could be lent: the moment at which reading makes sense.
    pub async fn ready(&self) {
        loop {
            let returned = self.0.returned.notified();
            if self.has_room() {
                return;
            }
            returned.await;
        }
    }

    /// How much it lends at most.
    pub fn limit(&self) -> Amount {
        self.0.limit
    }

    /// Whether anything could be lent.
    pub fn has_room(&self) -> bool {
        let lent = self.lent();
        lent.items < self.0.limit.items && lent.bytes < self.0.limit.bytes
    }

    /// What is out at the moment.
    pub fn out(&self) -> Amount {
        *self.lent()
    }

    fn take(&self, lengths: &[usize], most: usize) -> Amount {
        let mut lent = self.lent();
        let mut taken = Amount::default();
        for length in lengths.iter().take(most) {
            let items = lent.items + taken.items + 1;
            let bytes = lent.bytes + taken.bytes + length;
            if items > self.0.limit.items || bytes > self.0.limit.bytes {
                break;
            }
            taken.items += 1;
            taken.bytes += length;
        }
        lent.items += taken.items;
        lent.bytes += taken.bytes;
        taken
    }

    /// Takes that much from the pool for large lines: before a line may grow beyond the budget.
    pub async fn hold(&self, bytes: usize) -> Hold {
        let permits = u32::try_from(bytes).unwrap_or(u32::MAX);
        Hold(self.0.large.0.clone().acquire_many_owned(permits).await.ok())
    }

    /// A line larger than the whole budget: when nothing else is out.
    async fn lend_alone(&self, hold: Hold) -> Credit {
        let mut large = hold.0;
        loop {
            let returned = self.0.returned.notified();
            {
                let mut lent = self.lent();
                if *lent == Amount::default() {
                    *lent = self.0.limit;
                    drop(lent);
                    return Credit::of(self, self.0.limit, large.take());
                }
            }
            returned.await;
        }
    }

    fn lent(&self) -> MutexGuard<'_, Amount> {
        self.0.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give_back(&self, amount: Amount) {
        {
            let mut lent = self.lent();
            lent.items -= amount.items;
            lent.bytes -= amount.bytes;
        }
        self.0.returned.notify_waiters();
    }
}

/// What was lent, returned on drop. The holder of a line holds its credit.
#[must_use = "credit returns when it is dropped"]
pub struct Credit {
    lender: Option<Budget>,
    amount: Amount,
    large: Option<OwnedSemaphorePermit>,
    /// Held together with somebody else, who has the same lines.
    shared: Option<Arc<Credit>>,
}

impl Credit {
    /// For what the daemon itself authors: owed to nobody.
    pub fn none() -> Self {
        Self { lender: None, amount: Amount::default(), large: None, shared: None }
    }

    /// Whether it is owed to nobody.
    pub fn is_none(&self) -> bool {
        self.lender.is_none() && self.shared.is_none()
    }

    /// The same for a second holder of the lines: it returns when both have dropped it.
    pub fn share(&mut self) -> Self {
        if self.shared.is_none() && self.lender.is_some() {
            let whole = std::mem::replace(self, Self::none());
            self.shared = Some(Arc::new(whole));
        }
        Self { lender: None, amount: Amount::default(), large: None, shared: self.shared.clone() }
    }

    fn of(lender: &Budget, amount: Amount, large: Option<OwnedSemaphorePermit>) -> Self {
        Self { lender: Some(lender.clone()), amount, large, shared: None }
    }

    /// Takes a part out, for lines that go another way; what is not there is not taken. What is shared stays whole:
    /// the part holds it too.
    pub fn split(&mut self, items: usize, bytes: usize) -> Credit {
        if self.shared.is_some() {
            return self.share();
        }
        let amount = Amount { items: items.min(self.amount.items), bytes: bytes.min(self.amount.bytes) };
        if self.large.is_some() {
            return std::mem::replace(self, Self::none());
        }
        self.amount.items -= amount.items;
        self.amount.bytes -= amount.bytes;
        Self { lender: self.lender.clone(), amount, large: None, shared: None }
    }

    /// Adds what another credit of the same lender holds. Credit of another lender comes back.
    pub fn absorb(&mut self, mut other: Credit) -> Option<Credit> {
        match (&self.lender, &other.lender) {
            (_, None) if other.shared.is_none() => None,
            (Some(mine), Some(theirs)) if Arc::ptr_eq(&mine.0, &theirs.0) && other.large.is_none() => {
                self.amount.items += other.amount.items;
                self.amount.bytes += other.amount.bytes;
                other.lender = None;
                None
            }
            _ => Some(other),
        }
    }
}

impl Drop for Credit {
    fn drop(&mut self) {
        if let Some(lender) = self.lender.take() {
            self.large = None;
            lender.give_back(self.amount);
        }
    }
}

impl std::fmt::Debug for Credit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credit").field("amount", &self.amount).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(items: usize, bytes: usize) -> Budget {
        Budget::new(Amount { items, bytes }, Large::new(1_000))
    }

    /// R110: lines are lent up to the window, the rest waits for a return.
    #[tokio::test]
    async fn lends_what_fits_and_waits_for_the_rest() {
        let b = budget(3, 100);
        let (first, n) = b.lend(&[10, 10, 10, 10], 96, &mut None).await;
        assert_eq!((n, b.out()), (3, Amount { items: 3, bytes: 30 }));
        let waiter = tokio::spawn({
            let b = b.clone();
            async move { b.lend(&[10], 96, &mut None).await.1 }
        });
        tokio::task::yield_now().await;
        assert!(!waiter.is_finished());
        drop(first);
        assert_eq!(waiter.await.expect("the waiter lives"), 1);
        assert_eq!(b.out(), Amount::default());
    }

    /// R111: a line larger than the window is admitted alone, and takes the whole window.
    #[tokio::test]
    async fn a_large_line_goes_alone() {
        let b = budget(3, 100);
        let (large, n) = b.lend(&[500, 1], 96, &mut None).await;
        assert_eq!((n, b.has_room()), (1, false));
        drop(large);
        assert_eq!(b.out(), Amount::default());
        assert!(b.has_room());
    }

    /// R274: what two hold is out until both let it go.
    #[tokio::test]
    async fn shared_credit_returns_with_its_last_holder() {
        let b = budget(10, 100);
        let (mut one, _) = b.lend(&[10], 1, &mut None).await;
        let two = one.share();
        let three = one.split(1, 10);
        drop(one);
        drop(two);
        assert_eq!(b.out(), Amount { items: 1, bytes: 10 });
        drop(three);
        assert_eq!(b.out(), Amount::default());
        assert!(Credit::none().share().is_none());
    }

    #[tokio::test]
    async fn credit_of_one_lender_merges() {
        let b = budget(10, 100);
        let (mut one, _) = b.lend(&[10], 1, &mut None).await;
        let (two, _) = b.lend(&[10], 1, &mut None).await;
        assert!(one.absorb(two).is_none());
        assert_eq!(b.out(), Amount { items: 2, bytes: 20 });
        drop(one);
        assert_eq!(b.out(), Amount::default());
    }
}
