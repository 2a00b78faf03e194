//! The laws of automatic resume, under any order of events, in virtual time.

use proptest::prelude::*;

use super::{
    tests::{CLEAN, RUNTIME},
    *,
};

#[derive(Debug, Clone)]
enum Do {
    Say(Event),
    /// Of the attempt that is under way.
    Attempt(fn(Number) -> Event),
    /// The same of one that is over.
    Late(fn(Number) -> Event),
    /// The process is back, as the contract says: not while a turn runs.
    Free,
    Noticed,
    /// Time passes; timers fire.
    Pass(u64),
}

fn anything() -> impl Strategy<Value = Do> {
    fn clean(n: Number) -> Event {
        Event::Ended(n, CLEAN)
    }
    let attempt = prop_oneof![
        4 => Just(Event::Sent as fn(Number) -> Event),
        4 => Just(clean as fn(Number) -> Event),
        1 => Just((|n| Event::Seen(n, Evidence::Text)) as fn(Number) -> Event),
        1 => Just((|n| Event::Ended(n, End::Completed)) as fn(Number) -> Event),
        1 => Just((|n| Event::Ended(n, End::Busy)) as fn(Number) -> Event),
        1 => Just((|n| Event::Ended(n, End::NoReason)) as fn(Number) -> Event),
        1 => Just((|n| Event::Ended(n, End::Cancelled)) as fn(Number) -> Event),
        1 => Just((|n| Event::CheckFailed(n, RUNTIME)) as fn(Number) -> Event),
        1 => Just((|n| Event::CheckFailed(n, Code::Permission.into())) as fn(Number) -> Event),
        1 => Just(Event::NothingPending as fn(Number) -> Event),
    ];
    let late = prop_oneof![
        attempt.clone(),
        Just(Event::Timer as fn(Number) -> Event),
        Just(Event::Limit as fn(Number) -> Event),
        Just(Event::Noticed as fn(Number) -> Event),
    ];
    prop_oneof![
        8 => attempt.prop_map(Do::Attempt),
        4 => late.prop_map(Do::Late),
        6 => Just(Do::Free),
        4 => Just(Do::Noticed),
        4 => prop_oneof![0..50u64, 500..5_000u64, 100_000..130_000u64].prop_map(Do::Pass),
        3 => Just(Do::Say(Event::Wake)),
        2 => Just(Do::Say(Event::Release)),
        1 => Just(Do::Say(Event::Busy)),
        1 => Just(Do::Say(Event::Prompted)),
        1 => Just(Do::Say(Event::Halt)),
    ]
}

/// What the laws need to know, kept beside the machine.
#[derive(Default)]
struct Law {
    at: Duration,
    /// The attempt that has begun and is not settled.
    live: Option<Number>,
    /// Whether the peer has it.
    sent: bool,
    attempt: u32,
    began: Duration,
    spoke: bool,
    old: Vec<Number>,
    highest: Number,
    timers: Vec<(Number, Duration, bool)>,
    notice: Option<Number>,
    free: bool,
    held: bool,
    woken: bool,
}

impl Law {
    fn step(&mut self, recovery: &mut Recovery, event: Event) -> Result<usize, TestCaseError> {
        self.before(recovery, &event);
        let actions = recovery.step(event, Now { steady: self.at, epoch_ms: 0 });
        prop_assert!(actions.len() <= 4, "too much at once: {actions:?}");
        let count = actions.len();
        for action in actions {
            self.look_at(action)?;
        }
        let may = self.free && self.woken && !self.held && self.notice.is_none();
        prop_assert!(!(may && recovery.is_settled()), "a wake was lost");
        Ok(count)
    }

    fn before(&mut self, recovery: &Recovery, event: &Event) {
        match event {
            Event::Wake => self.woken = true,
            Event::Release => (self.woken, self.held) = (true, false),
            Event::Free => self.free = true,
            Event::Busy => self.free = false,
            Event::Prompted => {
                self.woken |= ["checking", "backoff", "due"].contains(&recovery.word());
                self.free = false;
            }
            Event::Halt => (self.woken, self.held, self.notice) = (false, true, None),
            Event::Sent(n) if recovery.may_send(*n) && self.in_time() => self.sent = true,
            Event::Seen(n, _) if self.live == Some(*n) && self.sent && self.in_time() => self.spoke = true,
            Event::Ended(n, end) if self.live == Some(*n) && self.sent => {
                self.free = false;
                // What was seen was not of this prompt.
                self.spoke &= *end != End::Busy;
            }
            Event::NothingPending(n) if recovery.may_send(*n) && self.in_time() => self.over(),
            Event::Noticed(n) => {
                self.notice.take_if(|notice| *notice == *n);
            }
            _ => {}
        }
    }

    fn in_time(&self) -> bool {
        self.at < self.began + SILENCE_MAX
    }

    fn over(&mut self) {
        self.old.extend(self.live.take());
        self.sent = false;
    }

    fn look_at(&mut self, action: Action) -> Result<(), TestCaseError> {
        let mut fresh = |number: Number| {
            let ascends = number > self.highest;
            self.highest = number;
            ascends
        };
        match action {
            Action::Start { number, attempt } => {
                prop_assert!(fresh(number));
                prop_assert!(self.live.is_none(), "two at once");
                prop_assert!(self.free && !self.held && self.notice.is_none(), "not now");
                prop_assert!((1..=ATTEMPTS_MAX).contains(&attempt));
                prop_assert!(attempt == 1 || attempt == self.attempt + 1);
                prop_assert!(attempt == 1 || self.in_time(), "after the limit");
                prop_assert!(attempt == 1 || !self.spoke, "after it spoke");
                if attempt == 1 {
                    self.began = self.at;
                }
                (self.attempt, self.live, self.spoke, self.free, self.woken) =
                    (attempt, Some(number), false, false, false);
            }
            Action::ArmTimer { number, after } => {
                prop_assert!(fresh(number) && !self.held && self.live.is_none());
                self.timers.push((number, self.at + after, false));
            }
            Action::ArmLimit { number, after } => {
                prop_assert!(fresh(number));
                self.timers.push((number, self.at + after, true));
            }
            Action::Disarm => self.old.extend(self.timers.drain(..).map(|(number, ..)| number)),
            Action::Abort(number) => prop_assert!(self.live == Some(number) && self.sent),
            Action::Settle { number, .. } => {
                prop_assert!(self.live == Some(number), "settled twice");
                self.over();
            }
            Action::Publish { number, projection } => {
                prop_assert!(!self.held, "no notice after a cancel");
                prop_assert!(number.is_some() == (projection.phase != Outlook::RetryScheduled));
                if let Some(number) = number {
                    prop_assert!(fresh(number));
                    self.notice = Some(number);
                }
            }
        }
        Ok(())
    }

    /// Time passes, and what is armed fires in its order.
    fn pass(&mut self, recovery: &mut Recovery, ms: u64) -> Result<(), TestCaseError> {
        let until = self.at + Duration::from_millis(ms);
        while let Some(at) =
            (0..self.timers.len()).filter(|i| self.timers[*i].1 <= until).min_by_key(|i| self.timers[*i].1)
        {
            let (number, due, limit) = self.timers.remove(at);
            self.at = self.at.max(due);
            self.old.push(number);
            self.step(recovery, if limit { Event::Limit(number) } else { Event::Timer(number) })?;
        }
        self.at = until;
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    /// R191, R193 to R198: whatever comes in whatever order: one attempt at a time, four in an episode, none after its
    /// 120 s or after it spoke, none while held; what is over does nothing any more; no wake is lost, nothing spins.
    #[test]
    fn the_laws_hold_in_any_order(orders in prop::collection::vec(anything(), 0..150)) {
        let mut recovery = Recovery::new("w", "s");
        let mut law = Law::default();
        for order in orders {
            match order {
                Do::Say(event) => {
                    law.step(&mut recovery, event)?;
                }
                Do::Attempt(event) => if let Some(number) = law.live {
                    law.step(&mut recovery, event(number))?;
                },
                Do::Late(event) => for number in law.old.clone() {
                    // Time over is no news of the event: it was said when time passed.
                    prop_assert_eq!(law.step(&mut recovery, event(number))?, 0, "{:?} of {}", event(number), number);
                },
                Do::Free => if law.live.is_none() || !law.sent {
                    law.step(&mut recovery, Event::Free)?;
                },
                Do::Noticed => if let Some(number) = law.notice {
                    law.step(&mut recovery, Event::Noticed(number))?;
                },
                Do::Pass(ms) => law.pass(&mut recovery, ms)?,
            }
        }
    }
}
