//! How long a run may take and how much it may say (R224, R225). Pure: the time comes in, counted from the start.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use super::outcome::Abort;

/// The limits of a run; none means no limit.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Budget {
    /// Longest silence.
    pub stall: Option<Duration>,
    /// Longest time altogether.
    pub wall: Option<Duration>,
    /// Most assistant messages.
    pub turns_max: Option<usize>,
}

/// Watches one run.
#[derive(Debug)]
pub(super) struct Watch {
    budget: Budget,
    heard: Duration,
    /// Hashes: an id may be as long as a line.
    messages: HashSet<u64>,
}

impl Watch {
    pub fn new(budget: Budget) -> Self {
        Self { budget, heard: Duration::ZERO, messages: HashSet::new() }
    }

    /// Something came, or an answer went out that was waited for.
    pub fn hear(&mut self, now: Duration) {
        self.heard = now;
    }

    /// Counts a message; tells whether it is one too many.
    pub fn is_over(&mut self, message_id: Option<&str>) -> bool {
        let (Some(most), Some(id)) = (self.budget.turns_max, message_id) else { return false };
        let mut hasher = DefaultHasher::new();
        id.hash(&mut hasher);
        self.messages.insert(hasher.finish());
        self.messages.len() > most
    }

    /// When what ends the run next. Silence counts only while it is `silent`: nothing is open that may take its time.
    pub fn next(&self, silent: bool) -> Option<(Duration, Abort)> {
        let stall = self
            .budget
            .stall
            .filter(|_| silent)
            .map(|stall| (self.heard.saturating_add(stall), Abort::Stalled));
        let wall = self.budget.wall.map(|wall| (wall, Abort::Timeout));
        [stall, wall].into_iter().flatten().min_by_key(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    /// R225: silence ends a run, unless something is open; the wall limit counts whatever is open.
    #[test]
    fn the_earlier_limit_counts() {
        let mut watch = Watch::new(Budget { stall: Some(2 * S), wall: Some(10 * S), turns_max: None });
        assert_eq!(watch.next(true), Some((2 * S, Abort::Stalled)));
        watch.hear(5 * S);
        assert_eq!(watch.next(true), Some((7 * S, Abort::Stalled)));
        assert_eq!(watch.next(false), Some((10 * S, Abort::Timeout)));
        watch.hear(9 * S);
        assert_eq!(watch.next(true), Some((10 * S, Abort::Timeout)));
        assert_eq!(Watch::new(Budget::default()).next(true), None);
    }

    /// R224: distinct message ids are counted, not chunks.
    #[test]
    fn distinct_messages_are_counted() {
        let mut watch = Watch::new(Budget { turns_max: Some(2), ..Budget::default() });
        for id in ["m1", "m1", "m2", "m1"] {
            assert!(!watch.is_over(Some(id)));
        }
        assert!(!watch.is_over(None));
        assert!(watch.is_over(Some("m3")));
    }
}
