//! One turn at a time, and the prompts that wait behind it (R72, R74). Pure.

use std::collections::VecDeque;

use crate::{
    id::Token,
    limits::{QUEUE_BYTES_MAX, WAITING_PROMPTS_MAX},
    wire::Frame,
};

/// A prompt of the host.
#[derive(Debug)]
pub struct Prompt {
    /// The host's token: where the answer goes.
    pub token: Token,
    /// The line.
    pub frame: Frame,
}

/// What becomes of a prompt.
#[derive(Debug)]
#[must_use]
pub enum Admitted {
    /// It is the turn now.
    Starts(Prompt),
    /// It waits; so many are before it.
    Waits(usize),
    /// Too many wait already.
    Refused(Token),
}

/// What a cancel comes to.
#[derive(Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Cancelled {
    /// The turn that now has to end; `None` when none runs or it was told before.
    pub running: Option<Token>,
    /// Prompts that will not run.
    pub waiting: Vec<Token>,
}

/// The end of a turn.
#[derive(Debug)]
#[must_use]
pub struct Ended {
    /// Whose answer it is.
    pub token: Token,
    /// Whether it was told to end.
    pub cancelled: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    Running(Token),
    Cancelling(Token),
}

/// The turns of a session.
#[derive(Debug, Default)]
pub struct Turn {
    state: State,
    waiting: VecDeque<Prompt>,
    /// Counts turns, so that a late timer can tell whose it is.
    number: u64,
}

impl Turn {
    /// A prompt came.
    pub fn prompt(&mut self, prompt: Prompt) -> Admitted {
        if self.state == State::Idle {
            self.begin(prompt.token);
            return Admitted::Starts(prompt);
        }
        let bytes: usize = self.waiting.iter().map(|p| p.frame.line().len()).sum();
        if self.waiting.len() >= WAITING_PROMPTS_MAX || bytes + prompt.frame.line().len() > QUEUE_BYTES_MAX {
            return Admitted::Refused(prompt.token);
        }
        self.waiting.push_back(prompt);
        Admitted::Waits(self.waiting.len())
    }

    /// Everything of the host's is to end.
    pub fn cancel(&mut self) -> Cancelled {
        let waiting = self.waiting.drain(..).map(|p| p.token).collect();
        let State::Running(token) = self.state else { return Cancelled { running: None, waiting } };
        self.state = State::Cancelling(token);
        Cancelled { running: Some(token), waiting }
    }

    /// One waiting prompt is taken back. Whether it waited.
    pub fn withdraw(&mut self, token: Token) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|p| p.token != token);
        self.waiting.len() < before
    }

    /// The turn is over; `None` when none was.
    pub fn end(&mut self) -> Option<Ended> {
        let ended = match self.state {
            State::Idle => return None,
            State::Running(token) => Ended { token, cancelled: false },
            State::Cancelling(token) => Ended { token, cancelled: true },
        };
        self.state = State::Idle;
        Some(ended)
    }

    /// The next prompt that waited, now the turn.
    pub fn next_prompt(&mut self) -> Option<Prompt> {
        if self.state != State::Idle {
            return None;
        }
        let prompt = self.waiting.pop_front()?;
        self.begin(prompt.token);
        Some(prompt)
    }

    /// Whether a turn runs or is being cancelled.
    pub fn is_active(&self) -> bool {
        self.state != State::Idle
    }

    /// Whether the turn was told to end.
    pub fn is_being_cancelled(&self) -> bool {
        matches!(self.state, State::Cancelling(_))
    }

    /// Whether the turn of that number is still being cancelled.
    pub fn is_cancelling(&self, number: u64) -> bool {
        matches!(self.state, State::Cancelling(_)) && self.number == number
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

    fn begin(&mut self, token: Token) {
        self.state = State::Running(token);
        self.number += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(token: Token) -> Prompt {
        Prompt { token, frame: Frame::request("session/prompt", &serde_json::json!({})) }
    }

    /// R72, R221: the second prompt waits for the first, the twenty-first waiting one is refused.
    #[test]
    fn prompts_run_one_after_the_other() {
        let mut t = Turn::default();
        assert!(matches!(t.prompt(prompt(1)), Admitted::Starts(_)));
        for n in 2..=21 {
            assert!(matches!(t.prompt(prompt(n)), Admitted::Waits(w) if w as u64 == n - 1));
        }
        assert!(matches!(t.prompt(prompt(22)), Admitted::Refused(22)));
        assert!(t.next_prompt().is_none());
        assert_eq!(t.end().map(|e| (e.token, e.cancelled)), Some((1, false)));
        assert_eq!(t.next_prompt().map(|p| p.token), Some(2));
        assert!(t.withdraw(3) && !t.withdraw(3) && !t.withdraw(2));
    }

    /// R74: a cancel ends the turn and every waiting prompt, once.
    #[test]
    fn a_cancel_takes_everything_with_it() {
        let mut t = Turn::default();
        assert_eq!(t.cancel(), Cancelled::default());
        for n in 1..=3 {
            let _ = t.prompt(prompt(n));
        }
        assert_eq!(t.cancel(), Cancelled { running: Some(1), waiting: vec![2, 3] });
        assert_eq!(t.cancel(), Cancelled::default());
        assert!(t.is_cancelling(1) && !t.is_cancelling(2));
        assert_eq!(t.end().map(|e| e.cancelled), Some(true));
        assert!(t.end().is_none());
    }
}
