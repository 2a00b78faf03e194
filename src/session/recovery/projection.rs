//! How automatic resume stands, as its host sees it: `_meta.acpvisor.pendingResume` (R200). Pure.

use std::time::Duration;

use serde::Serialize;

use super::ATTEMPTS_MAX;
use crate::session::failure::Failure;

/// One notice. It has these members and no other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Projection {
    /// Where it stands.
    pub phase: Outlook,
    /// What failed, or was resumed.
    pub kind: Kind,
    /// The coming attempt of a retry, else the last one.
    pub attempt: u32,
    /// How many there may be.
    pub max_attempts: u32,
    /// How long a retry waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// When it begins, in milliseconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_retry_at: Option<i64>,
    /// How the last attempt failed; not there when evidence was missing, or when output had started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// Where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outlook {
    /// Another attempt will be made.
    RetryScheduled,
    /// An attempt after the first one worked.
    Recovered,
    /// It failed in a way that is not tried again.
    Failed,
    /// Attempts or time are used up.
    Exhausted,
}

/// What an attempt had come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The turn with what was pending.
    PendingInput,
    /// What comes before it: reading the inbox, starting a process.
    Preflight,
}

impl Projection {
    /// Another attempt follows after that time.
    pub(super) fn retry(
        kind: Kind,
        attempt: u32,
        after: Duration,
        epoch_ms: i64,
        failure: Option<Failure>,
    ) -> Self {
        // At most 4 s: it fits both.
        let ms = after.as_millis();
        Self {
            phase: Outlook::RetryScheduled,
            kind,
            attempt,
            max_attempts: ATTEMPTS_MAX,
            delay_ms: u64::try_from(ms).ok(),
            next_retry_at: i64::try_from(ms).ok().map(|ms| epoch_ms.saturating_add(ms)),
            failure,
        }
    }

    /// None follows.
    pub(super) fn end(phase: Outlook, kind: Kind, attempt: u32, failure: Option<Failure>) -> Self {
        Self {
            phase,
            kind,
            attempt,
            max_attempts: ATTEMPTS_MAX,
            delay_ms: None,
            next_retry_at: None,
            failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::failure::{Code, Resource};

    /// R200: the payload, and only its members.
    #[test]
    fn the_payload_has_the_members_that_were_agreed_on() {
        let text = |p: &Projection| serde_json::to_string(p).unwrap();
        let capacity = Failure { code: Code::Capacity, resource: Some(Resource::ResidentRuntimes) };
        let retry = Projection::retry(Kind::Preflight, 2, Duration::from_millis(808), 1_000, Some(capacity));
        let want = r#"{"phase":"retry_scheduled","kind":"preflight","attempt":2,"maxAttempts":4,"delayMs":808,"nextRetryAt":1808,"failure":{"code":"capacity","retryable":true,"resource":"resident_runtimes"}}"#;
        assert_eq!(text(&retry), want);
        let recovered = Projection::end(Outlook::Recovered, Kind::PendingInput, 2, None);
        assert_eq!(
            text(&recovered),
            r#"{"phase":"recovered","kind":"pending_input","attempt":2,"maxAttempts":4}"#
        );
        let failed =
            Projection::end(Outlook::Failed, Kind::PendingInput, 1, Some(Code::Authentication.into()));
        let want = r#"{"phase":"failed","kind":"pending_input","attempt":1,"maxAttempts":4,"failure":{"code":"authentication","retryable":false}}"#;
        assert_eq!(text(&failed), want);
    }
}
