//! What a run came to, and how it says so (R226, R288). Pure.

use serde::Serialize;

/// Why we ended it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Abort {
    /// A signal.
    Interrupted,
    /// Silence (R225).
    Stalled,
    /// The wall limit (R225).
    Timeout,
    /// Too many assistant messages (R224).
    Turns,
    /// Nobody reads what we print.
    Unread,
}

/// How the prompt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ended {
    /// It was never answered.
    Unanswered,
    /// With a stop reason.
    Answered {
        /// Whether it was a natural end with everything kept.
        natural: bool,
        /// The stop reason.
        stop_reason: Option<String>,
        /// Whether the last message holds text.
        text: bool,
    },
    /// With an error.
    Failed(String),
}

/// A run that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outcome {
    /// How the prompt ended.
    pub ended: Ended,
    /// Why we ended it, if we did.
    pub abort: Option<Abort>,
    /// Permissions refused because nobody could be asked.
    pub refused: usize,
}

/// The verdict in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    /// It ended by itself, with text.
    Pass,
    /// It was ended, or something is missing.
    Partial,
    /// It failed.
    Fail,
}

/// The last line of the event stream.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    #[serde(rename = "type")]
    kind: &'static str,
    outcome: Verdict,
    aborted: Option<Abort>,
    refused: usize,
    exit_code: u8,
}

impl Outcome {
    /// R226.
    pub fn verdict(&self) -> Verdict {
        match (&self.ended, self.abort) {
            (_, Some(_)) => Verdict::Partial,
            (Ended::Answered { natural: true, text, .. }, None) if !*text || self.refused > 0 => {
                Verdict::Partial
            }
            (Ended::Answered { natural: true, .. }, None) => Verdict::Pass,
            _ => Verdict::Fail,
        }
    }

    /// R260, R288.
    pub fn exit_code(&self) -> u8 {
        match (&self.ended, self.abort) {
            (_, Some(Abort::Interrupted)) => 130,
            (Ended::Failed(_), _) => 1,
            _ if self.refused > 0 => 5,
            _ if self.verdict() == Verdict::Pass => 0,
            _ => 4,
        }
    }

    /// What stderr is told; nothing when all is well.
    pub fn complaint(&self) -> Option<String> {
        let aborted = self.abort.and_then(|abort| match abort {
            Abort::Interrupted => Some("the run was interrupted"),
            Abort::Stalled => Some("the run was ended: the agent said nothing for too long; see --stall"),
            Abort::Timeout => Some("the run was ended: it took too long; see --timeout"),
            Abort::Turns => Some("the run was ended: too many messages; see --max-turns"),
            Abort::Unread => None,
        });
        let ended = match &self.ended {
            _ if self.abort.is_some() => aborted.map(str::to_owned),
            Ended::Failed(text) => Some(text.clone()),
            Ended::Unanswered => Some("the prompt was never answered".to_owned()),
            Ended::Answered { stop_reason: Some(reason), .. } if reason != "end_turn" => {
                Some(format!("the turn ended with {reason}, not end_turn"))
            }
            Ended::Answered { stop_reason: None, .. } => {
                Some("the turn ended without a stop reason".to_owned())
            }
            Ended::Answered { natural: false, .. } => {
                Some("the last message was too long to keep".to_owned())
            }
            Ended::Answered { text: false, .. } => Some("the turn ended without any text".to_owned()),
            Ended::Answered { .. } => None,
        };
        let refused = (self.refused > 0).then(|| {
            let times = if self.refused == 1 { "permission was" } else { "permissions were" };
            format!("{} {times} refused, since nobody could be asked; run it on a terminal", self.refused)
        });
        let all: Vec<String> = [ended, refused].into_iter().flatten().collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// As the event stream says it.
    pub fn line(&self) -> Line {
        Line {
            kind: "outcome",
            outcome: self.verdict(),
            aborted: self.abort,
            refused: self.refused,
            exit_code: self.exit_code(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(reason: &str, text: bool) -> Ended {
        Ended::Answered { natural: reason == "end_turn", stop_reason: Some(reason.to_owned()), text }
    }

    /// R226, R288: every way to end has its verdict and its exit code, and only success is silent.
    #[test]
    fn every_end_has_its_verdict_and_code() {
        use Verdict::{Fail, Partial, Pass};
        let failed = || Ended::Failed("boom".to_owned());
        let cases = [
            (answered("end_turn", true), None, 0, Pass, 0),
            (answered("end_turn", false), None, 0, Partial, 4),
            (answered("end_turn", true), None, 2, Partial, 5),
            (answered("max_tokens", true), None, 0, Fail, 4),
            (answered("max_tokens", true), None, 1, Fail, 5),
            (answered("cancelled", true), None, 0, Fail, 4),
            (answered("cancelled", true), Some(Abort::Interrupted), 1, Partial, 130),
            (answered("end_turn", true), Some(Abort::Stalled), 0, Partial, 4),
            (Ended::Unanswered, Some(Abort::Timeout), 0, Partial, 4),
            (Ended::Unanswered, Some(Abort::Turns), 0, Partial, 4),
            (Ended::Unanswered, Some(Abort::Interrupted), 0, Partial, 130),
            (failed(), None, 0, Fail, 1),
            (failed(), Some(Abort::Stalled), 0, Partial, 1),
        ];
        for (ended, abort, refused, verdict, code) in cases {
            let outcome = Outcome { ended, abort, refused };
            assert_eq!((outcome.verdict(), outcome.exit_code()), (verdict, code), "{outcome:?}");
            assert_eq!(outcome.complaint().is_none(), code == 0, "{outcome:?}");
        }
    }

    #[test]
    fn nothing_is_said_when_nobody_reads() {
        let outcome = Outcome { ended: Ended::Unanswered, abort: Some(Abort::Unread), refused: 0 };
        assert_eq!(outcome.complaint(), None);
    }
}
