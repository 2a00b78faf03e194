//! One turn at a time, and the prompts that wait behind it (R72, R74). Pure.

use std::collections::VecDeque;

use crate::{
    id::Token,
    limits::{QUEUE_BYTES_MAX, WAITING_PROMPTS_MAX},
    wire::Frame,
};

/// Who wants a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The host, under its token: where the answer goes.
    Host(Token),
    /// The inbox: the entries that it holds (R82).
    Inbox(Vec<String>),
    /// A host that is gone: nobody hears the answer (R112).
    Nobody,
}

impl Source {
    /// The host's token, if a host waits for the answer.
    pub fn token(&self) -> Option<Token> {
        if let Self::Host(token) = self { Some(*token) } else { None }
    }

    /// The word that is stored.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Host(_) | Self::Nobody => "host",
            Self::Inbox(_) => "inbox",
        }
    }
}

/// A prompt on its way.
#[derive(Debug)]
pub struct Prompt {
    /// Counts the prompts of the session, over all its lives.
    pub number: u64,
    /// Who wants it.
    pub source: Source,
    /// The line.
    pub frame: Frame,
    /// What the store says of it.
    pub standing: Standing,
}

/// What the store says of a prompt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Standing {
    /// Nothing yet.
    #[default]
    Unknown,
    /// That it waits.
    Waits,
    /// That it runs.
    Runs,
}

/// What becomes of a prompt.
#[derive(Debug)]
#[must_use]
pub enum Admitted {
    /// It is the turn now.
    Starts(Prompt),
    /// It waits under that number; so many are before it.
    Waits(u64, usize),
    /// Too many wait already.
    Refused(Token),
}

/// What a cancel comes to.
#[derive(Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Cancelled {
    /// Whether a turn now has to end: one runs, and was not told before.
    pub running: bool,
    /// Prompts that will not run: their numbers and who waits for them.
    pub waiting: Vec<(u64, Source)>,
}

/// The end of a turn.
#[derive(Debug)]
#[must_use]
pub struct Ended {
    /// The prompt's number.
    pub number: u64,
    /// Whose answer it is.
    pub source: Source,
    /// Whether it was told to end.
    pub cancelled: bool,
    /// What the store says of it.
    pub standing: Standing,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Idle,
    Running(Source),
    Cancelling(Source),
}

/// The turns of a session.
#[derive(Debug, Default)]
pub struct Turn {
    state: State,
    waiting: VecDeque<Prompt>,
    /// Of the running turn, or of the latest.
    number: u64,
    /// What the store says of it.
    standing: Standing,
    /// Of the latest prompt that was taken.
    taken: u64,
}

impl Turn {
    /// Turns of a session that had so many prompts in former lives.
    pub fn after(prompts: u64) -> Self {
        Self { number: prompts, taken: prompts, ..Self::default() }
    }

    /// A prompt of the host came.
    pub fn prompt(&mut self, token: Token, frame: Frame) -> Admitted {
        if !self.is_active() {
            return Admitted::Starts(self.begin(Source::Host(token), frame));
        }
        let bytes: usize = self.waiting.iter().map(|p| p.frame.line().len()).sum();
        if self.waiting.len() >= WAITING_PROMPTS_MAX || bytes + frame.line().len() > QUEUE_BYTES_MAX {
            return Admitted::Refused(token);
        }
        self.taken += 1;
        let source = Source::Host(token);
        self.waiting.push_back(Prompt { number: self.taken, source, frame, standing: Standing::Waits });
        Admitted::Waits(self.taken, self.waiting.len())
    }

    /// A turn begins, while none runs.
    pub fn begin(&mut self, source: Source, frame: Frame) -> Prompt {
        self.taken += 1;
        self.run(Prompt { number: self.taken, source, frame, standing: Standing::Unknown })
    }

    fn run(&mut self, prompt: Prompt) -> Prompt {
        self.number = prompt.number;
        self.standing = prompt.standing;
        self.state = State::Running(prompt.source.clone());
        prompt
    }

    /// The running turn is on record from now on. Returns what was said of it before.
    pub fn on_record(&mut self) -> Standing {
        std::mem::replace(&mut self.standing, Standing::Runs)
    }

    /// That was refused: what was said of it before holds.
    pub fn not_on_record(&mut self, before: Standing) {
        self.standing = before;
    }

    /// Everything of the host's is to end.
    pub fn cancel(&mut self) -> Cancelled {
        let waiting = self.waiting.drain(..).map(|p| (p.number, p.source)).collect();
        Cancelled { running: self.stop(), waiting }
    }

    /// The running turn is to end, and nothing else. Whether one runs that was not told before.
    pub fn stop(&mut self) -> bool {
        let running = matches!(self.state, State::Running(_));
        self.state = match std::mem::take(&mut self.state) {
            State::Running(source) => State::Cancelling(source),
            other => other,
        };
        running
    }

    /// The host is gone: what waits will not run, what runs is nobody's (R72, R112). Returns what waited.
    pub fn orphan(&mut self) -> Vec<u64> {
        let whose = |source| if let Source::Inbox(_) = source { source } else { Source::Nobody };
        self.state = match std::mem::take(&mut self.state) {
            State::Idle => State::Idle,
            State::Running(source) => State::Running(whose(source)),
            State::Cancelling(source) => State::Cancelling(whose(source)),
        };
        self.waiting.drain(..).map(|p| p.number).collect()
    }

    /// One waiting prompt is taken back: its number, if it waited.
    pub fn withdraw(&mut self, token: Token) -> Option<u64> {
        let at = self.waiting.iter().position(|p| p.source == Source::Host(token))?;
        self.waiting.remove(at).map(|p| p.number)
    }

    /// The turn is over; `None` when none was.
    pub fn end(&mut self) -> Option<Ended> {
        let (source, cancelled) = match std::mem::take(&mut self.state) {
            State::Idle => return None,
            State::Running(source) => (source, false),
            State::Cancelling(source) => (source, true),
        };
        Some(Ended { number: self.number, source, cancelled, standing: self.standing })
    }

    /// The next prompt that waited, now the turn.
    pub fn next_prompt(&mut self) -> Option<Prompt> {
        if self.is_active() {
            return None;
        }
        let prompt = self.waiting.pop_front()?;
        Some(self.run(prompt))
    }

    /// Whether a turn runs or is being cancelled.
    pub fn is_active(&self) -> bool {
        !matches!(self.state, State::Idle)
    }

    /// Whether the turn was told to end.
    pub fn is_being_cancelled(&self) -> bool {
        matches!(self.state, State::Cancelling(_))
    }

    /// Whether the turn of that number is still being cancelled.
    pub fn is_cancelling(&self, number: u64) -> bool {
        self.is_being_cancelled() && self.number == number
    }

    /// The number of the latest turn.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// How many prompts wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The state in a word.
    pub fn word(&self) -> &'static str {
        match self.state {
            State::Idle => "idle",
            State::Running(_) => "running",
            State::Cancelling(_) => "cancelling",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> Frame {
        Frame::request("session/prompt", &serde_json::json!({}))
    }

    fn started(admitted: &Admitted) -> bool {
        matches!(admitted, Admitted::Starts(_))
    }

    /// R72: one turn at a time, the others in arrival order, the 21st is refused.
    #[test]
    fn later_prompts_wait_their_turn() {
        let mut t = Turn::after(7);
        assert!(started(&t.prompt(1, frame())));
        for n in 2..=21 {
            assert!(matches!(t.prompt(n, frame()), Admitted::Waits(m, w) if m == n + 7 && w as u64 == n - 1));
        }
        assert!(matches!(t.prompt(22, frame()), Admitted::Refused(22)));
        assert!(t.next_prompt().is_none());
        let ended = t.end().unwrap();
        assert_eq!((ended.number, ended.source, ended.cancelled), (8, Source::Host(1), false));
        assert_eq!(t.next_prompt().map(|p| (p.number, p.source)), Some((9, Source::Host(2))));
        assert_eq!((t.withdraw(3), t.withdraw(3), t.withdraw(2)), (Some(10), None, None));
    }

    /// R74: a cancel ends the turn and every waiting prompt, once.
    #[test]
    fn a_cancel_takes_everything_with_it() {
        let mut t = Turn::default();
        assert_eq!(t.cancel(), Cancelled::default());
        for n in 1..=3 {
            let _ = t.prompt(n, frame());
        }
        let waiting = vec![(2, Source::Host(2)), (3, Source::Host(3))];
        assert_eq!(t.cancel(), Cancelled { running: true, waiting });
        assert_eq!(t.cancel(), Cancelled::default());
        assert!(t.is_cancelling(1) && !t.is_cancelling(2));
        assert_eq!(t.end().map(|e| e.cancelled), Some(true));
        assert!(t.end().is_none());
    }

    /// R196: a turn that is told to end by itself leaves what waits behind it.
    #[test]
    fn a_stop_leaves_what_waits() {
        let mut t = Turn::default();
        assert!(!t.stop());
        let _ = (t.begin(Source::Inbox(Vec::new()), frame()), t.prompt(2, frame()));
        assert!(t.stop() && !t.stop());
        assert_eq!(t.end().map(|e| e.cancelled), Some(true));
        assert_eq!(t.next_prompt().map(|p| p.source), Some(Source::Host(2)));
    }

    /// R72, R112: without its host the turn goes on for nobody, and what waited never runs.
    #[test]
    fn a_turn_survives_its_host() {
        let mut t = Turn::default();
        let _ = (t.prompt(1, frame()), t.prompt(2, frame()));
        assert_eq!(t.orphan(), [2]);
        assert!(t.is_active() && t.waiting() == 0);
        assert_eq!(t.end().map(|e| e.source), Some(Source::Nobody));
        let _ = t.begin(Source::Inbox(vec!["e".to_owned()]), frame());
        assert!(t.orphan().is_empty());
        assert_eq!(t.end().map(|e| e.source), Some(Source::Inbox(vec!["e".to_owned()])));
    }
}
