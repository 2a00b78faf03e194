//! How often refusals are told of: the first at once, then how many there were, now and then (R255). Pure.
//!
//! An agent that tries again and again must not fill the log.

use std::time::Duration;

/// Shortest time between two warnings of one socket.
const PAUSE: Duration = Duration::from_secs(10);

/// Counts the refusals of one socket.
#[derive(Debug, Default)]
pub struct Refusals {
    told: Option<Duration>,
    untold: u64,
}

impl Refusals {
    /// One more, at this time since some fixed moment. Gives how many are to be told of now.
    pub fn count(&mut self, now: Duration) -> Option<u64> {
        self.untold += 1;
        if self.told.is_some_and(|told| now.saturating_sub(told) < PAUSE) {
            return None;
        }
        self.told = Some(now);
        Some(std::mem::take(&mut self.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_told_at_once_and_the_others_together() {
        let mut refusals = Refusals::default();
        let told: Vec<_> = [0, 1, 9, 10, 11, 30].map(|s| refusals.count(Duration::from_secs(s))).into();
        assert_eq!(told, [Some(1), None, None, Some(3), None, Some(2)]);
    }
}
