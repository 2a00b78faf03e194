//! Automatic resume of a session from its inbox: when an attempt starts, and what follows its end (R190 to R201). Pure.
//!
//! Owns the budgets of one session: one attempt at a time, four attempts, 120 s until something is seen. Every attempt,
//! timer and notice has a number of its own, used once: what comes late under an old one does nothing. Waits for
//! nothing and spins on nothing: it acts on events only, and each event has a few actions at most.
//!
//! ```text
//!   idle --wake, free--> checking --sent--> running --ended--> idle
//!     ^                     | fails            | fails clean     ^
//!     | superseded          v                  v                 | notice written
//!     '---------------- backoff, due <---------'--> exhausted ---'
//! ```

mod delay;
mod end;
mod evidence;
#[cfg(test)]
mod laws;
mod message;
mod projection;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use delay::delay;
pub use end::End;
pub use evidence::Evidence;
pub use message::{Action, Actions, Event, Now, Number};
pub use projection::{Kind, Outlook, Projection};

use super::failure::{Code, Failure};
use crate::store::EntryState;

/// Attempts of one episode: the first and three retries (R194).
pub const ATTEMPTS_MAX: u32 = 4;
/// From the start of an episode to the first output or tool event (R196).
pub const SILENCE_MAX: Duration = Duration::from_secs(120);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Idle,
    /// Started, and the peer has nothing of it yet.
    Checking(Number),
    /// The peer has the prompt; what was seen first.
    Running(Number, Option<Evidence>),
    /// Told to end; it reports nothing but its entries.
    Aborting(Number, Option<Evidence>),
    /// A retry waits for its timer.
    Backoff(Number),
    /// A retry waits for the session to be free.
    Due,
}

/// A first attempt and its retries.
#[derive(Debug, Clone, Copy)]
struct Episode {
    limit: Number,
    deadline: Duration,
    attempts: u32,
    /// What failed last.
    kind: Kind,
}

/// Automatic resume of one session.
#[derive(Debug)]
pub struct Recovery {
    workspace: String,
    session: String,
    last: Number,
    phase: Phase,
    episode: Option<Episode>,
    /// The notice that has to be written first.
    notice: Option<Number>,
    woken: bool,
    free: bool,
    held: bool,
    gone: bool,
    armed: bool,
}

impl Recovery {
    /// Of a session that is not free yet. The names give the delays their jitter (R195).
    pub fn new(workspace: impl Into<String>, session: impl Into<String>) -> Self {
        Self {
            workspace: workspace.into(),
            session: session.into(),
            last: 0,
            phase: Phase::Idle,
            episode: None,
            notice: None,
            woken: false,
            free: false,
            held: false,
            gone: false,
            armed: false,
        }
    }

    /// Something happened.
    #[must_use]
    pub fn step(&mut self, event: Event, now: Now) -> Actions {
        let mut out = Actions::new();
        if self.episode.is_some_and(|episode| now.steady >= episode.deadline) {
            self.time_is_over(&mut out);
        }
        match event {
            Event::Wake => self.woken = true,
            Event::Release => (self.woken, self.held) = (true, false),
            Event::Free => self.free = true,
            Event::Busy => self.free = false,
            Event::Prompted => self.supersede(&mut out),
            Event::NothingPending(number) => self.nothing_pending(number, &mut out),
            Event::CheckFailed(number, failure) => self.check_failed(number, failure, now, &mut out),
            Event::Sent(number) => self.sent(number),
            Event::Seen(number, evidence) => self.seen(number, evidence),
            Event::Ended(number, end) => self.ended(number, &end, now, &mut out),
            Event::Timer(number) => self.timer(number),
            Event::Limit(number) => self.limit(number, &mut out),
            Event::Noticed(number) => {
                self.notice.take_if(|notice| *notice == number);
            }
            Event::Halt => self.halt(&mut out),
            Event::Destroy => {
                self.gone = true;
                self.halt(&mut out);
            }
        }
        self.go_on(now, &mut out);
        out
    }

    /// Whether the attempt may still send its prompt: nothing came between.
    pub fn may_send(&self, number: Number) -> bool {
        self.phase == Phase::Checking(number)
    }

    /// The attempt whose turn is to be watched for evidence; once some was seen, none is.
    pub fn watches(&self) -> Option<Number> {
        match self.phase {
            Phase::Running(number, None) | Phase::Aborting(number, None) => Some(number),
            _ => None,
        }
    }

    /// What was seen first of the turn that runs.
    #[cfg(test)]
    pub fn evidence(&self) -> Option<Evidence> {
        match self.phase {
            Phase::Running(_, evidence) | Phase::Aborting(_, evidence) => evidence,
            _ => None,
        }
    }

    /// Whether the session may be called idle for its sake (R201).
    pub fn is_settled(&self) -> bool {
        self.phase == Phase::Idle && self.notice.is_none()
    }

    /// The state in a word.
    pub fn word(&self) -> &'static str {
        match self.phase {
            Phase::Idle if self.notice.is_some() => "settling",
            Phase::Idle if self.held => "held",
            Phase::Idle => "idle",
            Phase::Checking(_) => "checking",
            Phase::Running(..) => "running",
            Phase::Aborting(..) => "aborting",
            Phase::Backoff(_) => "backoff",
            Phase::Due => "due",
        }
    }

    /// Starts what may start.
    fn go_on(&mut self, now: Now, out: &mut Actions) {
        let may = self.free && !self.held && !self.gone && self.notice.is_none();
        match self.phase {
            Phase::Idle if may && self.woken => self.start(now, out),
            Phase::Due if may => self.start(now, out),
            _ => {}
        }
    }

    fn start(&mut self, now: Now, out: &mut Actions) {
        let mut episode = self.episode.unwrap_or_else(|| self.begin(now, out));
        episode.attempts += 1;
        self.episode = Some(episode);
        let number = self.number();
        self.phase = Phase::Checking(number);
        // What woke it so far is in this attempt; what comes from now on is for the next (R191).
        self.woken = false;
        self.free = false;
        out.push(Action::Start { number, attempt: episode.attempts });
    }

    fn begin(&mut self, now: Now, out: &mut Actions) -> Episode {
        let limit = self.number();
        out.push(Action::ArmLimit { number: limit, after: SILENCE_MAX });
        self.armed = true;
        let deadline = now.steady + SILENCE_MAX;
        Episode { limit, deadline, attempts: 0, kind: Kind::PendingInput }
    }

    fn sent(&mut self, number: Number) {
        if self.phase == Phase::Checking(number) {
            self.phase = Phase::Running(number, None);
        }
    }

    fn seen(&mut self, number: Number, evidence: Evidence) {
        match self.phase {
            // From now on its turn has no limit (R196). The timer stays: a peer that is busy with a turn of its own is
            // asked again within the same time.
            Phase::Running(n, None) if n == number => self.phase = Phase::Running(n, Some(evidence)),
            Phase::Aborting(n, None) if n == number => self.phase = Phase::Aborting(n, Some(evidence)),
            _ => {}
        }
    }

    fn nothing_pending(&mut self, number: Number, out: &mut Actions) {
        if self.phase != Phase::Checking(number) {
            return;
        }
        self.phase = Phase::Idle;
        match self.episode {
            // The host waits for a retry that will not come.
            Some(episode) if episode.attempts > 1 => self.close(Outlook::Failed, episode.kind, None, out),
            _ => self.forget(out),
        }
    }

    fn check_failed(&mut self, number: Number, failure: Failure, now: Now, out: &mut Actions) {
        if self.phase != Phase::Checking(number) {
            return;
        }
        out.push(Action::Settle { number, state: EntryState::Queued });
        self.failed(Kind::Preflight, Some(failure), now, out);
    }

    fn ended(&mut self, number: Number, end: &End, now: Now, out: &mut Actions) {
        let (evidence, aborted) = match self.phase {
            Phase::Running(n, evidence) if n == number => (evidence, false),
            Phase::Aborting(n, evidence) if n == number => (evidence, true),
            _ => return,
        };
        self.phase = Phase::Idle;
        // The process is not back yet (R197).
        self.free = false;
        if let Some(state) = end.entries(evidence, aborted) {
            out.push(Action::Settle { number, state });
        }
        if !aborted {
            self.judge(end, evidence, now, out);
        }
    }

    /// What the end of an attempt means for its episode (R193).
    fn judge(&mut self, end: &End, evidence: Option<Evidence>, now: Now, out: &mut Actions) {
        let kind = Kind::PendingInput;
        match end {
            End::Completed if self.episode.is_some_and(|episode| episode.attempts > 1) => {
                self.close(Outlook::Recovered, kind, None, out);
            }
            End::Completed => self.forget(out),
            // It never took the prompt: what was seen is of a turn of its own (INB-02).
            End::Busy => self.failed(kind, Some(Code::Runtime.into()), now, out),
            End::Failed { failure: Some(failure), .. } if end.is_clean(evidence) => {
                if end.is_pending() {
                    self.failed(kind, Some(*failure), now, out);
                } else {
                    self.close(Outlook::Failed, kind, Some(*failure), out);
                }
            }
            End::Failed { .. } | End::Cancelled | End::NoReason => {
                self.close(Outlook::Failed, kind, None, out);
            }
        }
    }

    /// An attempt failed, and nothing was done: again, if budgets allow (R193 to R196).
    fn failed(&mut self, kind: Kind, failure: Option<Failure>, now: Now, out: &mut Actions) {
        self.phase = Phase::Idle;
        let Some(episode) = &mut self.episode else { return };
        episode.kind = kind;
        let (attempt, deadline) = (episode.attempts, episode.deadline);
        if !failure.is_some_and(Failure::is_retryable) {
            return self.close(Outlook::Failed, kind, failure, out);
        }
        if attempt >= ATTEMPTS_MAX {
            return self.close(Outlook::Exhausted, kind, failure, out);
        }
        let after = delay(&self.workspace, &self.session, attempt);
        if now.steady + after >= deadline {
            return self.close(Outlook::Exhausted, kind, Some(Code::Timeout.into()), out);
        }
        let number = self.number();
        self.phase = Phase::Backoff(number);
        self.armed = true;
        out.push(Action::ArmTimer { number, after });
        let projection = Projection::retry(kind, attempt + 1, after, now.epoch_ms, failure);
        out.push(Action::Publish { number: None, projection });
    }

    fn timer(&mut self, number: Number) {
        if self.phase == Phase::Backoff(number) {
            self.phase = Phase::Due;
        }
    }

    fn limit(&mut self, number: Number, out: &mut Actions) {
        if self.episode.is_some_and(|episode| episode.limit == number) {
            self.time_is_over(out);
        }
    }

    /// 120 s are over: what is still silent ends (R196).
    fn time_is_over(&mut self, out: &mut Actions) {
        let kind = match self.phase {
            Phase::Checking(number) => {
                out.push(Action::Settle { number, state: EntryState::Queued });
                self.phase = Phase::Idle;
                Kind::Preflight
            }
            Phase::Running(number, None) => {
                out.push(Action::Abort(number));
                self.phase = Phase::Aborting(number, None);
                Kind::PendingInput
            }
            Phase::Backoff(_) | Phase::Due => {
                self.phase = Phase::Idle;
                self.episode.map_or(Kind::PendingInput, |episode| episode.kind)
            }
            Phase::Idle | Phase::Running(_, Some(_)) | Phase::Aborting(..) => return,
        };
        self.close(Outlook::Exhausted, kind, Some(Code::Timeout.into()), out);
    }

    /// The user goes first: what has not begun is begun anew after the prompt.
    fn supersede(&mut self, out: &mut Actions) {
        self.free = false;
        match self.phase {
            Phase::Checking(number) => out.push(Action::Settle { number, state: EntryState::Queued }),
            Phase::Backoff(_) | Phase::Due => {}
            Phase::Idle | Phase::Running(..) | Phase::Aborting(..) => return,
        }
        self.phase = Phase::Idle;
        self.woken = true;
        self.forget(out);
    }

    /// Nothing of the present goes on (R198).
    fn halt(&mut self, out: &mut Actions) {
        match self.phase {
            Phase::Checking(number) => {
                out.push(Action::Settle { number, state: EntryState::Queued });
                self.phase = Phase::Idle;
            }
            Phase::Running(number, evidence) => {
                out.push(Action::Abort(number));
                self.phase = Phase::Aborting(number, evidence);
            }
            Phase::Backoff(_) | Phase::Due => self.phase = Phase::Idle,
            Phase::Idle | Phase::Aborting(..) => {}
        }
        self.forget(out);
        self.notice = None;
        self.held = true;
    }

    /// The episode is over, and the host hears how.
    fn close(&mut self, outlook: Outlook, kind: Kind, failure: Option<Failure>, out: &mut Actions) {
        let Some(episode) = self.episode else { return };
        self.forget(out);
        let number = self.number();
        self.notice = Some(number);
        let projection = Projection::end(outlook, kind, episode.attempts, failure);
        out.push(Action::Publish { number: Some(number), projection });
    }

    fn forget(&mut self, out: &mut Actions) {
        self.episode = None;
        self.disarm(out);
    }

    fn disarm(&mut self, out: &mut Actions) {
        if std::mem::take(&mut self.armed) {
            out.push(Action::Disarm);
        }
    }

    fn number(&mut self) -> Number {
        self.last += 1;
        self.last
    }
}
