//! How the turns of a conversation ended, as far as an agent has to know (R58). Pure.

use serde_json::Value;

use super::safe;

/// Calls that are named when nobody knows what became of them.
const NAMED_MAX: usize = 16;
const UNKNOWN: &str = "nobody knows how it ended";

/// The turn that was begun last, and the one before when nothing of it has reached the peer yet.
#[derive(Debug, Default)]
pub(super) struct Turns {
    before: Turn,
    now: Turn,
}

#[derive(Debug, Default)]
struct Turn {
    is_inboxs: bool,
    has_begun: bool,
    is_sent: bool,
    has_ended: bool,
    /// Why it did not end as it should.
    cut_short: Option<String>,
    /// Calls whose outcome is unknown.
    calls: Vec<String>,
}

impl Turns {
    /// A turn begins; says how the one before was cut short, when nothing was said of its end.
    pub fn begin(&mut self, source: &str) -> Option<String> {
        let now = std::mem::take(&mut self.now);
        self.now.is_inboxs = source != "host";
        self.now.has_begun = true;
        if !now.is_sent {
            return None;
        }
        self.before = now.ended();
        self.before.cut_short.clone().filter(|_| !self.before.has_ended)
    }

    /// Its prompt went to the peer.
    pub fn sent(&mut self) {
        self.now.is_sent |= self.now.has_begun && !self.now.has_ended;
    }

    /// It ended; says how it was cut short.
    pub fn end(&mut self, stop_reason: Option<&str>, error: Option<&Value>) -> Option<String> {
        self.now.has_ended = true;
        self.now.cut_short = match (stop_reason, error) {
            (Some("end_turn"), _) => None,
            (Some(reason), _) => Some(format!("it ended with `{}`", crate::event::cut(reason))),
            (None, error) => {
                let message = error.and_then(|error| error["message"].as_str());
                Some(crate::event::cut(message.unwrap_or("it failed")))
            }
        };
        self.now.cut_short.clone()
    }

    /// A call of it was open when it ended.
    pub fn unknown(&mut self, call: String) {
        self.now.calls.push(call);
    }

    /// Whether its prompt comes from the inbox.
    pub fn is_inboxs(&self) -> bool {
        self.now.is_inboxs
    }

    /// What has to be known of the last turn that the peer had; empty when it ended as it should.
    pub fn ending(self) -> String {
        let last = if self.now.is_sent { self.now.ended() } else { self.before };
        let Some(why) = last.cut_short else { return String::new() };
        let mut text = format!("[interrupted] The last turn was cut short: {}.", safe(&why));
        if !last.calls.is_empty() {
            text.push_str(" These tool calls had begun and their outcome is unknown:");
            text.extend(last.calls.iter().take(NAMED_MAX).map(|call| format!("\n- {}", safe(call))));
            let more = last.calls.len().saturating_sub(NAMED_MAX);
            text.push_str(&if more > 0 { format!("\n- {more} more") } else { String::new() });
            text.push_str("\nDo not repeat them. Find out first what they have done.");
        }
        text + "\n\n"
    }
}

impl Turn {
    fn ended(mut self) -> Self {
        if !self.has_ended {
            self.cut_short = Some(UNKNOWN.to_owned());
        }
        self
    }
}
