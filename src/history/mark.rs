//! What the daemon itself notes in a transcript: one JSON object a line, with a member `mark`.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One note. Unknown ones, of a later daemon, are read as [`Mark::Other`] and shown to nobody.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "mark", rename_all = "snake_case")]
pub enum Mark<'a> {
    /// A process took the session up.
    Opened {
        /// The agent's name in the configuration.
        agent: Cow<'a, str>,
        /// `new`, `resume`, `load` or `transcript` (R31).
        how: Cow<'a, str>,
        /// The peer's own id.
        peer_session: Cow<'a, str>,
    },
    /// A prompt goes to the peer: the next `session/prompt` among the lines sent is it.
    TurnStarted {
        /// Its number.
        turn: u64,
        /// `host` or `inbox`.
        source: Cow<'a, str>,
        /// Leading blocks of that prompt that are context and nobody's words (R31).
        #[serde(default)]
        context_blocks: usize,
    },
    /// Input of the inbox that the host is shown as the user's (R92).
    Input {
        /// The entry's id, which is the chunk's message id.
        id: Cow<'a, str>,
        /// What it says.
        text: Cow<'a, str>,
    },
    /// The turn ended.
    TurnEnded {
        /// Its number.
        turn: u64,
        /// The stop reason that the host heard; absent for an error.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stop_reason: Option<Cow<'a, str>>,
        /// The error that the host heard.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Value>,
    },
    /// A process ended.
    PeerGone {
        /// How, for people.
        cause: Cow<'a, str>,
    },
    /// A permission request was decided (R291).
    Decision {
        /// Which tool call.
        tool_call: Cow<'a, str>,
        /// Its kind.
        kind: Cow<'a, str>,
        /// `allow`, `deny` or `cancelled`.
        decision: Cow<'a, str>,
        /// Who or what decided: `host`, `approval`, `unattended` …
        by: Cow<'a, str>,
        /// Why.
        reason: Cow<'a, str>,
    },
    /// Settings changed (R170, R177).
    Settings {
        /// All that is set now.
        settings: Value,
    },
    /// A host took it, or left it.
    Host {
        /// `attached` or `detached`.
        state: Cow<'a, str>,
        /// Why.
        reason: Cow<'a, str>,
    },
    /// How automatic resume stands (R200).
    Recovery {
        /// The projection that the host sees.
        pending_resume: Value,
    },
    /// The session ended.
    Closed {
        /// Why.
        reason: Cow<'a, str>,
    },
    /// What the agent was given in a turn of the inbox, shown to the host or not (R38): written by compaction, in
    /// place of the prompt.
    Given {
        /// All of it.
        text: Cow<'a, str>,
    },
    /// The next updates that end tool calls are none of the agent's: it never ended them (R58). Written by compaction.
    Unfinished {
        /// How many they are.
        calls: usize,
    },
    /// History before this was made shorter (R289).
    Compacted {
        /// Lines that there were.
        lines: u64,
        /// Their bytes.
        bytes: u64,
    },
    /// Of a later daemon.
    #[serde(other)]
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_as_it_was_written() {
        let mark = Mark::TurnEnded { turn: 3, stop_reason: Some("end_turn".into()), error: None };
        let line = serde_json::to_string(&mark).unwrap();
        assert_eq!(line, r#"{"mark":"turn_ended","turn":3,"stop_reason":"end_turn"}"#);
        assert_eq!(serde_json::from_str::<Mark<'_>>(&line).unwrap(), mark);
    }

    /// R273: a mark of a later daemon is no reason not to read on.
    #[test]
    fn a_mark_that_is_not_known_is_another_one() {
        let line = r#"{"mark":"of_tomorrow","n":[1]}"#;
        assert_eq!(serde_json::from_str::<Mark<'_>>(line).unwrap(), Mark::Other);
    }
}
