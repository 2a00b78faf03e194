//! The kill ladder: when which step of ending a peer is due (R222). Pure; the caller has the timers.
//!
//! ```text
//!  0: stdin closed ---- grace/2: SIGTERM to the group ---- grace: everything killed
//! ```

use std::time::Duration;

/// How far the end of a peer must have gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[must_use]
pub enum Step {
    /// Its stdin is closed; it may leave by itself.
    CloseStdin,
    /// Its group is asked to end.
    Term,
    /// Everything below its shim is killed.
    Kill,
}

/// The last step that is due after `elapsed`; earlier ones that were missed are due as well.
pub fn due(grace: Duration, elapsed: Duration) -> Step {
    if elapsed >= grace {
        Step::Kill
    } else if elapsed >= grace / 2 {
        Step::Term
    } else {
        Step::CloseStdin
    }
}

/// From `elapsed` to the next step; `None` after the last.
pub fn next_in(grace: Duration, elapsed: Duration) -> Option<Duration> {
    let at = match due(grace, elapsed) {
        Step::CloseStdin => grace / 2,
        Step::Term => grace,
        Step::Kill => return None,
    };
    Some(at - elapsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// R222: stdin is closed first, TERM follows at half the grace, KILL at its end.
    #[test]
    fn the_steps_come_at_their_times() {
        let steps = [0, 2_499, 2_500, 4_999, 5_000, 60_000].map(|elapsed| due(ms(5_000), ms(elapsed)));
        assert_eq!(
            steps,
            [Step::CloseStdin, Step::CloseStdin, Step::Term, Step::Term, Step::Kill, Step::Kill]
        );
    }

    #[test]
    fn sleeping_until_the_next_step_climbs_the_whole_ladder() {
        let (grace, mut elapsed, mut steps) = (ms(5_001), Duration::ZERO, Vec::new());
        loop {
            steps.push(due(grace, elapsed));
            let Some(wait) = next_in(grace, elapsed) else { break };
            elapsed += wait;
        }
        assert_eq!(steps, [Step::CloseStdin, Step::Term, Step::Kill]);
        assert_eq!(elapsed, grace);
    }

    #[test]
    fn without_grace_the_first_step_is_the_last() {
        assert_eq!(due(Duration::ZERO, Duration::ZERO), Step::Kill);
        assert_eq!(next_in(Duration::ZERO, Duration::ZERO), None);
    }
}
