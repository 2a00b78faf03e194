//! Sentences about automatic resume, in virtual time.

use super::*;
use crate::session::failure::Resource;

pub(super) const CLEAN: End = End::Failed { failure: Some(RUNTIME), tool_calls: Some(0), pending: true };
pub(super) const RUNTIME: Failure = Failure { code: Code::Runtime, resource: None };
const S: fn(u64) -> Duration = Duration::from_secs;

/// A session around the machine: it obeys, and remembers.
struct Scene {
    recovery: Recovery,
    at: Duration,
    numbers: Vec<Number>,
    timer: Option<(Number, Duration)>,
    limit: Option<(Number, Duration)>,
    aborted: Vec<Number>,
    settled: Vec<EntryState>,
    told: Vec<(Outlook, u32)>,
    last: Option<Projection>,
    notice: Option<Number>,
}

impl Scene {
    /// A session that is free, with nothing pending.
    fn new() -> Self {
        let mut scene = Self {
            recovery: Recovery::new("workspace", "session"),
            at: S(1_000),
            numbers: vec![],
            timer: None,
            limit: None,
            aborted: vec![],
            settled: vec![],
            told: vec![],
            last: None,
            notice: None,
        };
        assert_eq!(scene.step(Event::Free), 0);
        scene
    }

    /// How many actions the event had.
    fn step(&mut self, event: Event) -> usize {
        let now = Now { steady: self.at, epoch_ms: 1_000_000 };
        let actions = self.recovery.step(event, now);
        let count = actions.len();
        for action in actions {
            match action {
                Action::Start { number, .. } => self.numbers.push(number),
                Action::ArmTimer { number, after } => self.timer = Some((number, self.at + after)),
                Action::ArmLimit { number, after } => self.limit = Some((number, self.at + after)),
                Action::Disarm => (self.timer, self.limit) = (None, None),
                Action::Abort(number) => self.aborted.push(number),
                Action::Settle { state, .. } => self.settled.push(state),
                Action::Publish { number, projection } => {
                    self.told.push((projection.phase, projection.attempt));
                    self.last = Some(projection);
                    self.notice = number.or(self.notice);
                }
            }
        }
        count
    }

    /// The attempt that was started last.
    fn number(&self) -> Number {
        *self.numbers.last().unwrap()
    }

    /// Something about the attempt that was started last.
    fn tell(&mut self, event: impl Fn(Number) -> Event) -> usize {
        self.step(event(self.number()))
    }

    /// The attempt sends its prompt.
    fn sent(&mut self) -> &mut Self {
        assert_eq!(self.tell(Event::Sent), 0);
        self
    }

    /// Its turn ends, and the process is back.
    fn ends(&mut self, end: End) -> &mut Self {
        self.step(Event::Ended(self.number(), end));
        self.step(Event::Free);
        self
    }

    fn noticed(&mut self) -> &mut Self {
        let notice = self.notice.take().unwrap();
        self.step(Event::Noticed(notice));
        self
    }

    /// The timer of the retry fires in its time; how long it took.
    fn retry(&mut self) -> Duration {
        let (number, at) = self.timer.unwrap();
        let waited = at - self.at;
        self.at = at;
        self.step(Event::Timer(number));
        waited
    }

    fn started(&self) -> usize {
        self.numbers.len()
    }
}

/// A session in which the first attempt runs.
fn running() -> Scene {
    let mut s = Scene::new();
    s.step(Event::Wake);
    s.sent();
    s
}

/// R183, R191: any number of signals lead to one turn, and one that comes during it to another.
#[test]
fn signals_coalesce_and_none_is_lost() {
    let mut s = Scene::new();
    s.step(Event::Busy);
    assert_eq!((0..100).map(|_| s.step(Event::Wake)).sum::<usize>(), 0);
    assert_eq!((s.step(Event::Free), s.started()), (2, 1));
    s.step(Event::Wake);
    s.sent().ends(End::Completed);
    assert_eq!(s.started(), 2);
    let check = s.number();
    s.step(Event::Wake);
    s.step(Event::NothingPending(check));
    assert_eq!(s.started(), 2);
    s.step(Event::Free);
    assert_eq!(s.started(), 3);
    s.tell(Event::NothingPending);
    assert_eq!((s.step(Event::Free), s.started(), s.recovery.is_settled()), (0, 3, true));
    assert_eq!((s.told, s.settled), (vec![], vec![EntryState::Done]));
}

/// R193: the matrix of what is tried again, and what becomes of the entries.
#[test]
fn only_a_clean_retryable_failure_is_tried_again() {
    use EntryState::{Indeterminate, Queued};
    let failed =
        |code: Code, tool_calls, pending| End::Failed { failure: Some(code.into()), tool_calls, pending };
    let unknown = End::Failed { failure: None, tool_calls: Some(0), pending: true };
    let clean = || failed(Code::RateLimit, Some(0), true);
    for (what, evidence, end, retried, entries, told) in [
        ("clean", None, clean(), true, Some(Queued), Some(Code::RateLimit)),
        ("busy", Some(Evidence::Text), End::Busy, true, Some(Queued), Some(Code::Runtime)),
        (
            "login",
            None,
            failed(Code::Authentication, Some(0), true),
            false,
            Some(Queued),
            Some(Code::Authentication),
        ),
        (
            "context",
            None,
            failed(Code::ContextLimit, Some(0), true),
            false,
            Some(Queued),
            Some(Code::ContextLimit),
        ),
        ("one call", None, failed(Code::Runtime, Some(1), true), false, Some(Indeterminate), None),
        ("no count", None, failed(Code::Runtime, None, true), false, Some(Indeterminate), None),
        ("acknowledged", None, failed(Code::Runtime, Some(0), false), false, None, Some(Code::Runtime)),
        ("no failure", None, unknown, false, Some(Queued), None),
        ("text", Some(Evidence::Text), clean(), false, Some(Indeterminate), None),
        ("thought", Some(Evidence::Thought), clean(), false, Some(Indeterminate), None),
        ("structured", Some(Evidence::Structured), clean(), false, Some(Indeterminate), None),
        ("tool start", Some(Evidence::ToolStart), clean(), false, Some(Indeterminate), None),
        ("tool progress", Some(Evidence::ToolProgress), clean(), false, Some(Indeterminate), None),
        ("tool result", Some(Evidence::ToolResult), clean(), false, Some(Indeterminate), None),
        ("unknown", Some(Evidence::Unknown), clean(), false, Some(Indeterminate), None),
        ("cancelled by itself", None, End::Cancelled, false, Some(Queued), None),
        ("no stop reason", None, End::NoReason, false, Some(Indeterminate), None),
    ] {
        let mut s = running();
        if let Some(evidence) = evidence {
            s.tell(|n| Event::Seen(n, evidence));
            assert_eq!(s.recovery.evidence(), Some(evidence));
        }
        s.ends(end);
        let want = if retried { (Outlook::RetryScheduled, 2) } else { (Outlook::Failed, 1) };
        assert_eq!((s.told.as_slice(), s.timer.is_some()), ([want].as_slice(), retried), "{what}");
        assert_eq!(s.settled, Vec::from_iter(entries), "{what}");
        assert_eq!(s.last.unwrap().failure.map(|f| f.code), told, "{what}");
    }
}

/// R194, R195, R200: four prompts, three notices of a retry, then exhausted, with the delays that were written down.
#[test]
fn there_are_four_attempts_at_most() {
    let mut s = running();
    let mut delays = vec![];
    for _ in 0..3 {
        s.ends(CLEAN);
        delays.push(s.retry().as_millis());
        s.sent();
    }
    s.ends(CLEAN);
    assert_eq!((s.started(), delays), (4, vec![808, 2343, 4000]));
    let retry = |attempt| (Outlook::RetryScheduled, attempt);
    assert_eq!(s.told, [retry(2), retry(3), retry(4), (Outlook::Exhausted, 4)]);
    assert_eq!((s.last.as_ref().unwrap().failure, s.timer, s.limit), (Some(RUNTIME), None, None));
    assert_eq!(s.settled, [EntryState::Queued; 4]);
    s.noticed().step(Event::Free);
    assert_eq!((s.started(), s.recovery.word()), (4, "idle"));
    // What is still there gets another episode with the next signal.
    s.step(Event::Wake);
    assert_eq!((s.started(), s.limit.is_some()), (5, true));
}

/// R200: nothing is said when the first attempt works, `recovered` names the one that did.
#[test]
fn a_retry_that_works_is_told() {
    let mut s = running();
    s.ends(End::Completed);
    assert_eq!((s.told.len(), s.limit), (0, None));
    let mut s = running();
    s.ends(CLEAN).retry();
    s.sent();
    s.tell(|n| Event::Seen(n, Evidence::Text));
    s.ends(End::Completed);
    assert_eq!(s.told, [(Outlook::RetryScheduled, 2), (Outlook::Recovered, 2)]);
    let recovered = s.last.unwrap();
    assert_eq!((recovered.failure, recovered.delay_ms, recovered.next_retry_at), (None, None, None));
    assert_eq!(s.settled, [EntryState::Queued, EntryState::Done]);
}

/// R196: at 120 s what is silent is cancelled, the entries stay, a late success is not accepted; late output leaves the
/// entries to the operator.
#[test]
fn a_silent_attempt_ends_with_the_total_limit() {
    let mut s = running();
    let (limit, at) = s.limit.unwrap();
    assert_eq!(at - s.at, SILENCE_MAX);
    s.at = at;
    s.step(Event::Limit(limit));
    assert_eq!((s.aborted.len(), s.told.as_slice()), (1, [(Outlook::Exhausted, 1)].as_slice()));
    assert_eq!(s.last.as_ref().unwrap().failure, Some(Code::Timeout.into()));
    s.step(Event::Wake);
    assert_eq!((s.recovery.word(), s.started()), ("aborting", 1));
    s.ends(End::Completed);
    assert_eq!((s.settled.as_slice(), s.started()), ([EntryState::Queued].as_slice(), 1));
    s.noticed();
    assert_eq!(s.started(), 2);

    let mut s = running();
    s.at += SILENCE_MAX;
    // The limit counts from its time on, even before its timer is heard.
    s.tell(|n| Event::Seen(n, Evidence::Text));
    assert_eq!(s.aborted.len(), 1);
    s.ends(End::Cancelled);
    assert_eq!(s.settled, [EntryState::Indeterminate]);
}

/// R196: from the first output on there is no limit.
#[test]
fn a_turn_that_spoke_has_no_limit() {
    let mut s = running();
    let (limit, _) = s.limit.unwrap();
    s.at += S(119);
    s.tell(|n| Event::Seen(n, Evidence::Thought));
    assert_eq!(s.recovery.watches(), None);
    s.at += S(10_000);
    assert_eq!(s.step(Event::Limit(limit)), 0);
    s.ends(End::Completed);
    assert_eq!((s.settled.as_slice(), s.told.len()), ([EntryState::Done].as_slice(), 0));
}

/// R196: no retry is scheduled that would begin beyond the limit, none begins beyond it, and one that waits ends.
#[test]
fn no_retry_begins_after_the_total_limit() {
    let mut s = running();
    s.at += S(119);
    s.tell(|n| Event::Ended(n, CLEAN));
    assert_eq!(s.timer, Some((s.timer.unwrap().0, s.at + Duration::from_millis(808))));
    s.step(Event::Timer(s.timer.unwrap().0));
    assert_eq!(s.recovery.word(), "due");
    s.at += S(2);
    s.step(Event::Free);
    assert_eq!((s.started(), s.told.last()), (1, Some(&(Outlook::Exhausted, 1))));

    let mut s = running();
    s.at += Duration::from_millis(119_200);
    s.ends(CLEAN);
    assert_eq!((s.timer, s.told.as_slice()), (None, [(Outlook::Exhausted, 1)].as_slice()));
    assert_eq!(s.last.unwrap().failure, Some(Code::Timeout.into()));

    let mut s = running();
    let (limit, at) = s.limit.unwrap();
    s.tell(|n| Event::Ended(n, CLEAN));
    s.at = at;
    s.step(Event::Limit(limit));
    assert_eq!((s.timer, s.told.last()), (None, Some(&(Outlook::Exhausted, 1))));
}

/// R197: an attempt waits until the one before has given the process back.
#[test]
fn a_retry_waits_for_the_process() {
    let mut s = running();
    // A word that came too early counts for nothing.
    s.step(Event::Free);
    s.tell(|n| Event::Ended(n, CLEAN));
    s.retry();
    assert_eq!((s.started(), s.recovery.word()), (1, "due"));
    s.step(Event::Free);
    assert_eq!(s.started(), 2);
}

/// A session in which this is under way.
fn under_way(what: &str) -> Scene {
    let mut s = Scene::new();
    match what {
        "queued" => {
            s.step(Event::Busy);
            s.step(Event::Wake);
        }
        "checking" => drop(s.step(Event::Wake)),
        "running" => s = running(),
        "spoke" => {
            s = running();
            s.tell(|n| Event::Seen(n, Evidence::ToolStart));
        }
        "backoff" => {
            s = running();
            s.ends(CLEAN);
        }
        "due" => {
            s = running();
            s.tell(|n| Event::Ended(n, CLEAN));
            s.retry();
        }
        "settling" => {
            s = running();
            s.ends(End::NoReason);
        }
        _ => unreachable!("{what}"),
    }
    s
}

/// R198: after a cancel nothing goes on, whatever was under way, until somebody asks for it. The turn that ran still
/// says what became of its entries.
#[test]
fn a_cancel_ends_everything_and_holds_the_input() {
    use EntryState::{Indeterminate, Queued};
    for (what, entries) in [
        ("queued", None),
        ("checking", Some(Queued)),
        ("running", Some(Queued)),
        ("spoke", Some(Indeterminate)),
        ("backoff", None),
        ("due", None),
        ("settling", None),
    ] {
        let mut s = under_way(what);
        s.settled.clear();
        let (told, started, timers) = (s.told.len(), s.started(), (s.timer, s.limit));
        s.step(Event::Halt);
        assert_eq!((s.timer, s.limit), (None, None), "{what}");
        assert_eq!(s.aborted.len(), usize::from(["running", "spoke"].contains(&what)), "{what}");
        let late = [timers.0.map(|(n, _)| Event::Timer(n)), timers.1.map(|(n, _)| Event::Limit(n))];
        for event in late.into_iter().flatten() {
            assert_eq!(s.step(event), 0, "{what}");
        }
        if let Some(number) = s.numbers.last().copied() {
            assert!(!s.recovery.may_send(number), "{what}");
            s.step(Event::Ended(number, End::Cancelled));
            assert_eq!(s.step(Event::Ended(number, CLEAN)), 0, "{what}");
        }
        assert_eq!(s.settled, Vec::from_iter(entries), "{what}");
        for event in [Event::Wake, Event::Free, Event::Busy, Event::Free, Event::Wake] {
            assert_eq!(s.step(event), 0, "{what}");
        }
        assert_eq!((s.told.len(), s.started(), s.recovery.word()), (told, started, "held"), "{what}");
        assert!(s.step(Event::Release) > 0 && s.started() == started + 1, "{what}");
    }
}

/// R198: a session on its way out starts nothing, and the turn that ran settles its entries.
#[test]
fn nothing_starts_in_a_session_that_ends() {
    let mut s = running();
    s.step(Event::Destroy);
    s.ends(End::Cancelled);
    assert_eq!((s.settled.as_slice(), s.aborted.len()), ([EntryState::Queued].as_slice(), 1));
    assert_eq!((s.step(Event::Release), s.step(Event::Free), s.started()), (0, 0, 1));
}

/// R192, R198: a prompt of the user goes before what has not begun, and leaves alone what has.
#[test]
fn a_users_prompt_supersedes_a_retry() {
    let mut s = running();
    s.ends(CLEAN);
    let (timer, _) = s.timer.unwrap();
    s.step(Event::Prompted);
    assert_eq!((s.timer, s.limit, s.step(Event::Timer(timer))), (None, None, 0));
    s.step(Event::Busy);
    s.step(Event::Release);
    assert_eq!(s.started(), 1);
    s.step(Event::Free);
    assert_eq!((s.started(), s.recovery.word()), (2, "checking"));
    let check = s.number();
    s.step(Event::Prompted);
    assert!(!s.recovery.may_send(check));
    assert_eq!((s.step(Event::Sent(check)), s.recovery.word()), (0, "idle"));
    s.step(Event::Free);
    s.sent();
    assert_eq!((s.step(Event::Prompted), s.recovery.word()), (0, "running"));
}

/// R199: a check that failed is tried again by the same rules, and what came meanwhile is run.
#[test]
fn a_check_that_fails_swallows_nothing() {
    let mut s = Scene::new();
    s.step(Event::Wake);
    s.step(Event::Wake);
    let capacity = Failure { code: Code::Capacity, resource: Some(Resource::ResidentRuntimes) };
    s.tell(|n| Event::CheckFailed(n, capacity));
    s.step(Event::Free);
    let told = s.last.clone().unwrap();
    assert_eq!(
        (told.phase, told.kind, told.failure),
        (Outlook::RetryScheduled, Kind::Preflight, Some(capacity))
    );
    s.retry();
    s.step(Event::Wake);
    s.tell(|n| Event::CheckFailed(n, Code::Permission.into()));
    s.step(Event::Free);
    assert_eq!((s.told.last(), s.started()), (Some(&(Outlook::Failed, 2)), 2));
    s.noticed();
    assert_eq!((s.started(), s.recovery.word()), (3, "checking"));
    assert_eq!(s.settled, [EntryState::Queued; 2]);
}

/// R196, UPG-06: a process that cannot be had is asked for four times, further and further apart, and no longer than
/// the limit.
#[test]
fn a_check_that_fails_or_hangs_is_given_up() {
    let mut s = Scene::new();
    s.step(Event::Wake);
    for _ in 0..3 {
        s.tell(|n| Event::CheckFailed(n, RUNTIME));
        s.step(Event::Free);
        s.retry();
    }
    s.tell(|n| Event::CheckFailed(n, RUNTIME));
    assert_eq!((s.started(), s.told.last()), (4, Some(&(Outlook::Exhausted, 4))));
    assert_eq!(s.last.unwrap().kind, Kind::Preflight);

    let mut s = Scene::new();
    s.step(Event::Wake);
    s.at = s.limit.unwrap().1;
    s.step(Event::Limit(s.limit.unwrap().0));
    let told = s.last.clone().unwrap();
    assert_eq!((told.phase, told.kind, told.attempt), (Outlook::Exhausted, Kind::Preflight, 1));
    assert!(!s.recovery.may_send(s.number()) && s.aborted.is_empty());
}

/// R200: a host that was promised a retry hears that nothing was left to do.
#[test]
fn a_retry_without_work_is_told() {
    let mut s = running();
    s.ends(CLEAN).retry();
    s.tell(Event::NothingPending);
    assert_eq!(s.told, [(Outlook::RetryScheduled, 2), (Outlook::Failed, 2)]);
    assert_eq!(s.last.unwrap().failure, None);
}

/// R201: the session is not idle, and nothing starts, before the last notice was written; a notice that could not be
/// written repeats nothing.
#[test]
fn the_last_notice_comes_before_the_next_turn() {
    let mut s = running();
    s.ends(CLEAN).retry();
    s.sent().ends(End::Completed);
    s.step(Event::Wake);
    assert_eq!((s.recovery.word(), s.recovery.is_settled(), s.started()), ("settling", false, 2));
    s.step(Event::Noticed(s.notice.unwrap() + 7));
    assert_eq!(s.started(), 2);
    s.noticed();
    assert_eq!(s.started(), 3);
    s.tell(Event::NothingPending);
    assert!(s.recovery.is_settled());
}

/// INB-02: a peer that is at work by itself is asked again when it is free, and the entry is delivered once.
#[test]
fn a_busy_peer_is_asked_again() {
    let mut s = running();
    s.ends(End::Busy);
    s.retry();
    s.sent().tell(|n| Event::Seen(n, Evidence::Text));
    s.ends(End::Completed);
    assert_eq!(s.settled, [EntryState::Queued, EntryState::Done]);
    assert_eq!(s.told, [(Outlook::RetryScheduled, 2), (Outlook::Recovered, 2)]);
}
