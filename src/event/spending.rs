//! What a turn cost, from totals that only grow (R102).
//!
//! Owns two totals. Never guesses: a difference needs both ends.

/// The reported totals around a turn.
#[derive(Debug)]
pub(super) struct Spending {
    before: Option<f64>,
    now: Option<f64>,
}

impl Spending {
    pub fn of_new_session() -> Self {
        Self { before: Some(0.0), now: None }
    }

    pub fn of_known_session() -> Self {
        Self { before: None, now: None }
    }

    /// The total of the newest report; none when it named no usable amount.
    pub fn report(&mut self, total: Option<f64>) {
        self.now = total;
    }

    /// Ends a turn and tells its cost.
    pub fn settle(&mut self) -> Option<f64> {
        let (before, now) = (self.before, self.now.take());
        self.before = now;
        Some(now? - before?).filter(|cost| *cost >= 0.0)
    }
}
