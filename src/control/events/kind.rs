//! The kinds of events, by which a subscriber chooses. Pure.

use serde::{Deserialize, Serialize};

/// What an event is about: `docs/control.md` says what each is. Its word is the `type` of the event as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    SessionOpened,
    SessionClosed,
    Host,
    Settings,
    TurnStarted,
    Prompt,
    Input,
    TurnEnded,
    PermissionAsked,
    PermissionDecided,
    PeerGone,
    Recovery,
    Text,
    ToolUse,
    ToolResult,
    Result,
    Transcript,
    Gap,
    Current,
    Ended,
}

/// What a subscriber wants to hear.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Wanted(u32);

impl Wanted {
    /// These; without any, all. What concerns the stream itself is always wanted.
    pub fn of(kinds: Option<&[Kind]>) -> Self {
        let bit = |kind: &Kind| 1 << *kind as u32;
        let stream = [Kind::Gap, Kind::Current, Kind::Ended];
        Self(
            kinds
                .map_or(u32::MAX, |kinds| kinds.iter().chain(&stream).map(bit).fold(0, |all, bit| all | bit)),
        )
    }

    /// Whether it is among them.
    pub fn has(self, kind: Kind) -> bool {
        self.0 & 1 << kind as u32 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_concerns_the_stream_is_always_wanted() {
        let few = Wanted::of(Some(&[Kind::Text]));
        assert!(few.has(Kind::Text) && few.has(Kind::Gap) && few.has(Kind::Ended) && !few.has(Kind::Prompt));
        assert!(Wanted::of(None).has(Kind::Transcript));
        assert!(!Wanted::of(Some(&[])).has(Kind::Text));
    }
}
