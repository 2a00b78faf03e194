//! How long a retry waits: the same in every process, different for every session (R195). Pure.

use std::time::Duration;

use sha2::{Digest, Sha256};

/// The first delay, in milliseconds; each next one is twice as long.
const BASE_MS: u64 = 1_000;
/// No delay is longer.
const MAX_MS: u64 = 4_000;

/// How long to wait after that attempt failed, counted from 1.
pub fn delay(workspace: &str, session: &str, failed_attempt: u32) -> Duration {
    let doubled = BASE_MS << failed_attempt.saturating_sub(1).min(8);
    // From 0.8 to 1.2 of it, in whole parts of 5 * (2^32 - 1).
    let whole = u64::from(u32::MAX);
    let parts = 4 * whole + 2 * u64::from(jitter(workspace, session, failed_attempt));
    let ms = (doubled.min(MAX_MS) * parts + 5 * whole / 2) / (5 * whole);
    Duration::from_millis(ms.min(MAX_MS))
}

fn jitter(workspace: &str, session: &str, failed_attempt: u32) -> u32 {
    let text = format!("{workspace}\0{session}\0{failed_attempt}");
    let hash = Sha256::digest(text.as_bytes());
    u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// R195: the vectors of the specification.
    #[test]
    fn the_delays_are_those_that_were_written_down() {
        let all = |workspace, session| [1, 2, 3].map(|n| delay(workspace, session, n).as_millis());
        assert_eq!(all("workspace", "session"), [808, 2343, 4000]);
        assert_eq!(all("/w/a", "acp-1"), [1166, 2033, 4000]);
        assert_ne!(all("/w/a", "acp-1"), all("/w/a", "acp-2"));
        assert_ne!(all("/w/a", "b"), all("/w/", "ab"));
    }

    proptest! {
        /// R195: within a fifth of 1, 2 and 4 s, never more than 4 s, whatever the attempt's number.
        #[test]
        fn a_delay_stays_in_its_range(workspace: String, session: String, attempt: u32) {
            let of = |n| delay(&workspace, &session, n).as_millis();
            prop_assert!((800..=1200).contains(&of(1)) && (1600..=2400).contains(&of(2)));
            prop_assert!((3200..=4000).contains(&of(3)) && (800..=4000).contains(&of(attempt)));
        }
    }
}
