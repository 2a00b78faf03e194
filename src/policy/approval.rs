//! The approval modes, and what each says to a kind of tool call (R141).
//!
//! | | read, search, think | edit, delete, move | fetch, switch_mode | execute, other, unknown |
//! |---|---|---|---|---|
//! | `default` | ask | ask | ask | ask |
//! | `auto-edit` | allow | allow | ask | ask |
//! | `yolo` | allow | allow | allow | allow |
//! | `plan` | allow | refuse | ask | refuse |
//!
//! Deny patterns and read-only sessions come before all of it and win.

use super::Asked;

/// The approval modes under their names on the wire (R171).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the table says what each does")]
pub enum Approval {
    #[default]
    Default,
    AutoEdit,
    Yolo,
    Plan,
}

/// What becomes of a tool call that wants a permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// A human decides.
    Ask,
    /// It may run.
    Allow,
    /// It may not, for this reason.
    Refuse(&'static str),
}

/// What a tool call does, as far as the modes tell kinds apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    Reads,
    Writes,
    /// It reaches outside, or changes what the session may do: a human's business in every mode but `yolo`.
    Reaches,
    Runs,
}

impl Approval {
    /// All of them, in the order they are shown.
    pub const ALL: [Self; 4] = [Self::Default, Self::AutoEdit, Self::Yolo, Self::Plan];

    /// The one of that name.
    pub fn of(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.id() == id)
    }

    /// Its name on the wire.
    pub fn id(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::AutoEdit => "auto-edit",
            Self::Yolo => "yolo",
            Self::Plan => "plan",
        }
    }

    /// The one that is stored under that word; `None` is for the caller to say loudly, and counts as the default
    /// (R171).
    pub fn of_stored(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.stored() == word)
    }

    /// The word it is stored under: another spelling than on the wire (R171).
    pub fn stored(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::AutoEdit => "autoEdit",
            Self::Yolo => "yolo",
            Self::Plan => "plan",
        }
    }

    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "Ask",
            Self::AutoEdit => "Edit freely",
            Self::Yolo => "Allow everything",
            Self::Plan => "Plan only",
        }
    }

    /// What it does, for people.
    pub fn description(self) -> &'static str {
        match self {
            Self::Default => "Asks before everything the agent wants permission for",
            Self::AutoEdit => "Allows reading and editing files, asks before commands",
            Self::Yolo => "Allows everything that no rule denies",
            Self::Plan => "Allows reading, refuses edits and commands",
        }
    }
}

/// What a mode says to a call of that kind (R141). An unknown or missing kind counts as `execute`.
pub fn decide(approval: Approval, kind: &str) -> Verdict {
    match (approval, deed(kind)) {
        (Approval::Yolo, _) | (Approval::AutoEdit | Approval::Plan, Deed::Reads) => Verdict::Allow,
        (Approval::AutoEdit, Deed::Writes) => Verdict::Allow,
        (Approval::Plan, Deed::Writes) => Verdict::Refuse("the session is in plan mode: nothing is written"),
        (Approval::Plan, Deed::Runs) => Verdict::Refuse("the session is in plan mode: no command is run"),
        (Approval::Default, _) | (_, Deed::Reaches) | (Approval::AutoEdit, Deed::Runs) => Verdict::Ask,
    }
}

/// The same of a whole request: a call that carries a command runs one, whatever its kind says (R119); the stricter
/// of the two counts. `announced` is the kind of an earlier announcement, for a request without one (R126).
pub fn judge(approval: Approval, asked: &Asked, announced: Option<&str>) -> Verdict {
    let by_kind = decide(approval, asked.kind().or(announced).unwrap_or_default());
    let as_command = if asked.carries_command() { decide(approval, "execute") } else { Verdict::Allow };
    match (by_kind, as_command) {
        (Verdict::Refuse(why), _) | (_, Verdict::Refuse(why)) => Verdict::Refuse(why),
        (Verdict::Ask, _) | (_, Verdict::Ask) => Verdict::Ask,
        (Verdict::Allow, Verdict::Allow) => Verdict::Allow,
    }
}

fn deed(kind: &str) -> Deed {
    match kind {
        "read" | "search" | "think" => Deed::Reads,
        "edit" | "delete" | "move" => Deed::Writes,
        "fetch" | "switch_mode" => Deed::Reaches,
        _ => Deed::Runs,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::wire::Frame;

    /// R141, PERM-04: the table. Nothing is allowed for want of a row.
    #[test]
    fn each_mode_says_what_the_table_says() {
        let mark = |verdict| match verdict {
            Verdict::Ask => '?',
            Verdict::Allow => '+',
            Verdict::Refuse(_) => '-',
        };
        for (kinds, want) in [
            (&["read", "search", "think"][..], "?+++"),
            (&["edit", "delete", "move"], "?++-"),
            (&["fetch", "switch_mode"], "??+?"),
            (&["execute", "other", "", " ", "Read", "edit ", "write", "of_tomorrow"], "??+-"),
        ] {
            for kind in kinds {
                let row: String = Approval::ALL.map(|mode| mark(decide(mode, kind))).iter().collect();
                assert_eq!(row, want, "{kind}");
            }
        }
    }

    /// R171: the names on the wire and in the store, each once, and no other spelling.
    #[test]
    fn a_mode_is_found_by_its_names() {
        assert_eq!(Approval::ALL.map(Approval::id), ["default", "auto-edit", "yolo", "plan"]);
        assert!(Approval::ALL.into_iter().all(|mode| Approval::of(mode.id()) == Some(mode)));
        for wrong in ["", "turbo", "autoEdit", "Yolo", "plan "] {
            assert_eq!(Approval::of(wrong), None, "{wrong}");
        }
        assert_eq!(Approval::ALL.map(Approval::stored), ["default", "autoEdit", "yolo", "plan"]);
        assert!(Approval::ALL.into_iter().all(|mode| Approval::of_stored(mode.stored()) == Some(mode)));
        assert_eq!(Approval::of_stored("auto-edit"), None);
    }

    /// R119, R126: a command is a command under any kind; what the request does not say was announced.
    #[test]
    fn the_whole_request_is_judged() {
        let judge = |mode, call: Value, announced| {
            let params = json!({ "sessionId": "s", "toolCall": call, "options": [] });
            judge(mode, &Asked::of(&Frame::request("session/request_permission", &params)), announced)
        };
        let (edit, plan) = (Approval::AutoEdit, Approval::Plan);
        assert_eq!(judge(edit, json!({ "kind": "read" }), None), Verdict::Allow);
        assert_eq!(
            judge(edit, json!({ "kind": "read", "rawInput": { "command": "rm x" } }), None),
            Verdict::Ask
        );
        let think = json!({ "kind": "think", "rawInput": { "cmd": ["git", "push"] } });
        assert!(matches!(judge(plan, think.clone(), None), Verdict::Refuse(_)));
        assert_eq!(judge(Approval::Yolo, think, None), Verdict::Allow);
        assert_eq!(judge(edit, json!({}), Some("edit")), Verdict::Allow);
        assert_eq!(judge(edit, json!({ "kind": "execute" }), Some("edit")), Verdict::Ask);
        assert_eq!(judge(edit, json!({ "kind": null }), None), Verdict::Ask);
    }
}
