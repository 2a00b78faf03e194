//! OTP's words as plain facts: which child is restarted, how often, and what is said when it is too often. Pure.

use std::{collections::VecDeque, time::Duration};

use crate::limits::{RESTARTS_MAX, RESTARTS_WINDOW_MS};

/// OTP's restart types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// Always.
    Permanent,
    /// When it ended abnormally.
    Transient,
    /// Never.
    Temporary,
}

/// OTP's restart intensity: so many in so long, then something is wrong for good.
#[derive(Debug)]
pub struct Intensity {
    max: usize,
    window: Duration,
    /// Times since some fixed moment, oldest first.
    times: VecDeque<Duration>,
}

/// What to do about a child that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// Start it again.
    Restart,
    /// Leave it.
    Leave,
    /// Not before this much time has passed.
    Hold(Duration),
}

impl Default for Intensity {
    /// 3 in 60 s (R227).
    fn default() -> Self {
        Self::new(RESTARTS_MAX, Duration::from_millis(RESTARTS_WINDOW_MS))
    }
}

impl Intensity {
    /// So many in so long.
    pub fn new(max: usize, window: Duration) -> Self {
        Self { max, window, times: VecDeque::new() }
    }

    /// It failed at this time.
    pub fn failed(&mut self, now: Duration) {
        self.forget(now);
        self.times.push_back(now);
    }

    /// Whether it may be started at this time.
    pub fn verdict(&mut self, now: Duration) -> Verdict {
        self.forget(now);
        match self.times.front() {
            Some(first) if self.times.len() >= self.max => Verdict::Hold(*first + self.window - now),
            _ => Verdict::Restart,
        }
    }

    /// Whether nothing is remembered any more.
    pub fn is_calm(&mut self, now: Duration) -> bool {
        self.forget(now);
        self.times.is_empty()
    }

    fn forget(&mut self, now: Duration) {
        while self.times.front().is_some_and(|t| now.saturating_sub(*t) >= self.window) {
            self.times.pop_front();
        }
    }
}

/// What to do about a permanent, transient or temporary child.
pub fn verdict(restart: Restart, abnormal: bool, intensity: &mut Intensity, now: Duration) -> Verdict {
    match (restart, abnormal) {
        (Restart::Permanent, _) | (Restart::Transient, true) => {
            let verdict = intensity.verdict(now);
            intensity.failed(now);
            verdict
        }
        (Restart::Transient, false) | (Restart::Temporary, _) => Verdict::Leave,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    /// R227: three failures in sixty seconds are held back until the first of them is a minute old.
    #[test]
    fn a_program_that_keeps_failing_is_held_back() {
        let mut i = Intensity::default();
        for t in [0, 10, 20] {
            assert_eq!(i.verdict(S(t)), Verdict::Restart);
            i.failed(S(t));
        }
        assert_eq!(i.verdict(S(21)), Verdict::Hold(S(39)));
        assert_eq!(i.verdict(S(60)), Verdict::Restart);
        assert!(!i.is_calm(S(60)) && i.is_calm(S(80)));
    }

    #[test]
    fn only_what_should_live_is_restarted() {
        let mut i = Intensity::default();
        assert_eq!(verdict(Restart::Temporary, true, &mut i, S(0)), Verdict::Leave);
        assert_eq!(verdict(Restart::Transient, false, &mut i, S(0)), Verdict::Leave);
        assert_eq!(verdict(Restart::Transient, true, &mut i, S(0)), Verdict::Restart);
        assert_eq!(verdict(Restart::Permanent, false, &mut i, S(0)), Verdict::Restart);
    }
}
