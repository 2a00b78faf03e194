//! Permission requests that a human decides, and what becomes of them while no host is there (R140, R141). Pure.
//!
//! Knows tokens and times; the requests themselves the session keeps. A request is open until it is closed here, so
//! that none is answered twice. While a host is attached it has no deadline but the end of the turn.
//!
//! ```text
//!   open -- host --> relayed --detach--> waits --deadline--> refused
//!     '--- none --> waits | refused       '--attach--> relayed again
//! ```

use std::{fmt, time::Duration};

use crate::{config::Unattended, id::Token, limits::OPEN_PERMISSIONS_MAX};

/// Longest request that is kept for a host to come (R140).
pub const KEPT_BYTES_MAX: usize = 64 << 10;
/// How long a request waits for a host to come (`permission_wait_s`, R140).
#[cfg(test)]
pub const WAIT_DEFAULT: Duration = Duration::from_secs(300);

/// What to do with a new request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Opened {
    /// Ask the host.
    Relay {
        /// Whether it is kept: asked again if another host comes.
        keep: bool,
    },
    /// Keep it until then; look again at [`Waiting::due`].
    Wait {
        /// On the clock that `now` is read from.
        until: Duration,
    },
    /// Answer it with a refusal. It is not open.
    Refuse(Refusal),
}

/// Why a request is refused that nobody decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// So many are open already.
    TooMany,
    /// It is too long to be kept.
    TooLong,
    /// No host is attached, and none is waited for.
    Unattended,
    /// No host came in this time.
    NobodyCame(Duration),
}

/// The open requests of one session, oldest first.
#[derive(Debug)]
pub struct Waiting {
    unattended: Unattended,
    wait: Duration,
    attached: bool,
    open: Vec<Open>,
}

#[derive(Debug)]
struct Open {
    token: Token,
    /// It is short enough to be kept.
    kept: bool,
    /// When it is refused; `None` while a host has it.
    until: Option<Duration>,
}

impl Waiting {
    /// Of a session without a host.
    pub fn new(unattended: Unattended, wait: Duration) -> Self {
        Self { unattended, wait, attached: false, open: Vec::new() }
    }

    /// A request of so many bytes that a human has to decide. A token that is open already is refused by the wire.
    pub fn open(&mut self, token: Token, bytes: usize, now: Duration) -> Opened {
        let kept = bytes <= KEPT_BYTES_MAX;
        let until = now.saturating_add(self.wait);
        let opened = match (self.attached, self.unattended) {
            _ if self.open.len() >= OPEN_PERMISSIONS_MAX => Opened::Refuse(Refusal::TooMany),
            (true, _) => Opened::Relay { keep: kept },
            (false, Unattended::Refuse) => Opened::Refuse(Refusal::Unattended),
            (false, Unattended::Wait) if !kept => Opened::Refuse(Refusal::TooLong),
            (false, Unattended::Wait) => Opened::Wait { until },
        };
        match opened {
            Opened::Relay { .. } => self.open.push(Open { token, kept, until: None }),
            Opened::Wait { until } => self.open.push(Open { token, kept, until: Some(until) }),
            Opened::Refuse(_) => {}
        }
        opened
    }

    /// A request was answered or withdrawn. Whether it was open: else the answer comes too late and is dropped.
    #[must_use]
    pub fn close(&mut self, token: Token) -> bool {
        let before = self.open.len();
        self.open.retain(|open| open.token != token);
        self.open.len() < before
    }

    /// The turn is over, or cancelled: all that were open, oldest first (R144).
    #[cfg(test)]
    #[must_use]
    pub fn close_all(&mut self) -> Vec<Token> {
        self.open.drain(..).map(|open| open.token).collect()
    }

    /// A host came that can answer, after the one before was detached: what it is asked, oldest first. From now on
    /// nothing has a deadline (R140).
    #[must_use]
    pub fn attach(&mut self) -> Vec<Token> {
        self.attached = true;
        self.open.iter_mut().for_each(|open| open.until = None);
        self.open.iter().map(|open| open.token).collect()
    }

    /// The host is gone: what is to be refused now. The rest waits for the next one.
    #[must_use]
    pub fn detach(&mut self, now: Duration) -> Vec<(Token, Refusal)> {
        self.attached = false;
        let until = now.saturating_add(self.wait);
        let refusal = |open: &Open| match self.unattended {
            Unattended::Refuse => Some((open.token, Refusal::Unattended)),
            Unattended::Wait => (!open.kept).then_some((open.token, Refusal::TooLong)),
        };
        let refused: Vec<_> = self.open.iter().filter_map(refusal).collect();
        self.open.retain(|open| refused.iter().all(|(token, _)| *token != open.token));
        self.open.iter_mut().for_each(|open| {
            open.until.get_or_insert(until);
        });
        refused
    }

    /// What has waited long enough, oldest first: to be refused.
    #[must_use]
    pub fn due(&mut self, now: Duration) -> Vec<(Token, Refusal)> {
        let late = |open: &mut Open| open.until.is_some_and(|until| until <= now);
        let nobody = Refusal::NobodyCame(self.wait);
        self.open.extract_if(.., late).map(|open| (open.token, nobody)).collect()
    }

    /// When to look at [`Self::due`] next.
    pub fn next_due(&self) -> Option<Duration> {
        self.open.iter().filter_map(|open| open.until).min()
    }

    /// How many are open.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether none is open.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany => write!(f, "{OPEN_PERMISSIONS_MAX} permission requests are open already"),
            Self::TooLong => {
                write!(
                    f,
                    "no host is attached, and the request is longer than the {KEPT_BYTES_MAX} bytes kept"
                )
            }
            Self::Unattended => f.write_str("no host is attached that could be asked"),
            Self::NobodyCame(wait) => write!(f, "no host came to decide it within {} s", wait.as_secs_f32()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    fn waiting() -> Waiting {
        Waiting::new(Unattended::Wait, WAIT_DEFAULT)
    }

    /// R140, R141: who is asked, who waits and who is refused at once.
    #[test]
    fn a_request_finds_a_host_waits_for_one_or_is_refused() {
        use Opened::{Refuse, Relay, Wait};
        for (attached, unattended, bytes, want) in [
            (true, Unattended::Wait, 1, Relay { keep: true }),
            (true, Unattended::Refuse, KEPT_BYTES_MAX, Relay { keep: true }),
            (true, Unattended::Wait, KEPT_BYTES_MAX + 1, Relay { keep: false }),
            (false, Unattended::Wait, KEPT_BYTES_MAX, Wait { until: S(307) }),
            (false, Unattended::Wait, KEPT_BYTES_MAX + 1, Refuse(Refusal::TooLong)),
            (false, Unattended::Refuse, 1, Refuse(Refusal::Unattended)),
        ] {
            let mut w = Waiting::new(unattended, WAIT_DEFAULT);
            if attached {
                assert!(w.attach().is_empty());
            }
            assert_eq!(w.open(1, bytes, S(7)), want);
            let open = !matches!(want, Refuse(_));
            assert_eq!((w.is_empty(), w.close(1)), (!open, open));
        }
    }

    /// R140: the seventeenth is refused, with a host and without one, until one of the others is closed.
    #[test]
    fn sixteen_are_open_at_most() {
        for attached in [false, true] {
            let mut w = waiting();
            if attached {
                let _ = w.attach();
            }
            for token in 1..=16 {
                assert!(!matches!(w.open(token, 1, S(0)), Opened::Refuse(_)));
            }
            assert_eq!(w.open(17, 1, S(0)), Opened::Refuse(Refusal::TooMany));
            assert!(!w.close(17) && w.close(3) && !w.close(3));
            assert!(!matches!(w.open(17, 1, S(0)), Opened::Refuse(_)));
            assert_eq!((w.close_all().len(), w.close_all().len()), (16, 0));
        }
    }

    /// PERM-05: nobody comes, and each request is refused once, when its own time is over.
    #[test]
    fn a_request_is_refused_when_nobody_came() {
        let mut w = waiting();
        assert_eq!(w.next_due(), None);
        let _ = (w.open(1, 1, S(0)), w.open(2, 1, S(10)));
        assert_eq!((w.next_due(), w.due(S(299))), (Some(S(300)), vec![]));
        assert_eq!(w.due(S(300)), [(1, Refusal::NobodyCame(S(300)))]);
        assert_eq!((w.next_due(), w.due(S(301)), w.close(1)), (Some(S(310)), vec![], false));
        assert_eq!(w.due(S(400)), [(2, Refusal::NobodyCame(S(300)))]);
        assert!(w.is_empty() && w.next_due().is_none());
    }

    /// PERM-05, PERM-02: a host that comes is asked everything that is open, in order, and has all the time of the
    /// turn; when it goes, the time begins anew.
    #[test]
    fn a_host_that_comes_is_asked_what_is_open() {
        let mut w = waiting();
        let _ = (w.open(1, 1, S(0)), w.open(2, 1, S(100)));
        assert_eq!(w.attach(), [1, 2]);
        assert_eq!((w.due(S(1_000_000)), w.next_due()), (vec![], None));
        assert_eq!(w.open(3, KEPT_BYTES_MAX + 1, S(5)), Opened::Relay { keep: false });
        assert!(w.close(1));
        assert_eq!(w.detach(S(500)), [(3, Refusal::TooLong)]);
        assert_eq!((w.next_due(), w.close(3)), (Some(S(800)), false));
        assert_eq!(w.attach(), [2]);
    }

    /// R141: `run` waits for nobody.
    #[test]
    fn what_a_host_leaves_behind_is_refused_where_nobody_is_waited_for() {
        let mut w = Waiting::new(Unattended::Refuse, S(300));
        let _ = (w.attach(), w.open(1, 1, S(0)), w.open(2, 1, S(0)));
        assert_eq!(w.detach(S(1)), [(1, Refusal::Unattended), (2, Refusal::Unattended)]);
        assert!(w.is_empty());
        // A second loss of the same host changes nothing.
        assert!(w.detach(S(2)).is_empty());
    }

    /// R241: each refusal says why.
    #[test]
    fn a_refusal_names_its_limit() {
        for (refusal, word) in [
            (Refusal::TooMany, "16"),
            (Refusal::TooLong, "65536"),
            (Refusal::Unattended, "no host"),
            (Refusal::NobodyCame(S(300)), "300 s"),
        ] {
            assert!(refusal.to_string().contains(word), "{refusal}");
        }
    }
}
