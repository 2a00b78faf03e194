//! The kill ladder: which step of ending a peer comes when (R222). Pure; the caller has the timers.
//!
//! ```text
//!  0: stdin closed ---- grace/2: SIGTERM to the group ---- grace: everything killed
//! ```

use std::time::Duration;

/// A step towards the end of a peer whose stdin is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Its group is asked to end.
    Term,
    /// Everything below its shim is killed.
    Kill,
}

/// The steps, each with the time from closing its stdin. Without grace nobody is asked.
pub fn steps(grace: Duration) -> impl Iterator<Item = (Duration, Step)> {
    let asked = (!grace.is_zero()).then_some((grace / 2, Step::Term));
    asked.into_iter().chain([(grace, Step::Kill)])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R222: half the grace to go by itself, the other half to heed SIGTERM; without grace it is killed.
    #[test]
    fn a_peer_is_asked_before_it_is_killed() {
        let ms = Duration::from_millis;
        assert_eq!(steps(ms(5_000)).collect::<Vec<_>>(), [(ms(2_500), Step::Term), (ms(5_000), Step::Kill)]);
        assert_eq!(steps(Duration::ZERO).collect::<Vec<_>>(), [(Duration::ZERO, Step::Kill)]);
    }
}
