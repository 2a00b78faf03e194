//! What a permission request offers, and which of it is the answer (R134, R143).
//!
//! Reads leniently: what is missing or of another type is not there. An option's id is opaque and goes back as it was
//! written; nothing is ever selected that was not offered.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::wire::{Frame, author, parse::text, patch::Object};

/// A `session/request_permission`, as far as a decision needs it.
#[derive(Debug, Clone)]
pub struct Asked {
    kind: Option<String>,
    tool_call: Option<String>,
    title: Option<String>,
    command: bool,
    /// The options, in their order.
    pub offered: Offered,
}

/// The options of a request, in their order.
#[derive(Debug, Clone, Default)]
pub struct Offered(Vec<Choice>);

/// One option that has an id.
#[derive(Debug, Clone)]
struct Choice {
    id: Box<RawValue>,
    grant: Grant,
}

/// What an option grants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the protocol's own")]
pub enum Grant {
    AllowOnce,
    AllowAlways,
    RejectOnce,
    RejectAlways,
    /// Of tomorrow: it may be either.
    Unknown,
}

/// What allows when the policy allows (`approve_with`, R134).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ApproveWith {
    /// `allow_once` and nothing that grants more than this call.
    #[default]
    AllowOnce,
    /// The first `allow_always` too, where there is no `allow_once`.
    AnyAllow,
}

/// The answer to a permission request.
#[derive(Debug, Clone)]
#[must_use]
pub enum Answer {
    /// This option, its id as it was written.
    Selected(Box<RawValue>),
    /// None of them: a refusal that is always there.
    Cancelled,
}

/// How a request can be allowed.
#[derive(Debug, Clone)]
#[must_use]
pub enum Allowed {
    /// With this answer.
    With(Answer),
    /// With any of several options that only a human can tell apart: this is the first of them (PERM-06). Without a
    /// human it is the answer (R134).
    Several(Answer),
    /// Not at all: nothing that allows just this call is offered. It is refused (R134).
    Unanswerable,
}

/// What a host's answer to a request comes to (R143).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum HostSaid {
    /// It selected an option that was offered and grants this.
    Selected(Grant),
    /// It refused: cancelled, an error, or an option that nobody offered.
    Refused,
}

impl Asked {
    /// Of the request's frame.
    pub fn of(frame: &Frame) -> Self {
        let params = Object::of(frame.member("params").map_or("{}", RawValue::get));
        let call = params.object("toolCall");
        let input = call.object("rawInput");
        let word =
            |key| call.get(key).map(text).filter(|word| !word.is_empty()).map(|word| word.into_owned());
        Self {
            kind: word("kind"),
            tool_call: word("toolCallId"),
            title: word("title"),
            command: input.marks("command") || input.marks("cmd"),
            offered: Offered::of(params.get("options")),
        }
    }

    /// The kind of the tool call, when the request says it.
    pub fn kind(&self) -> Option<&str> {
        self.kind.as_deref()
    }

    /// The tool call's id, when it is one.
    pub fn tool_call(&self) -> Option<&str> {
        self.tool_call.as_deref()
    }

    /// What the tool call is called, for people only (R125).
    pub fn title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    /// Whether its raw input holds a command (R119).
    pub fn carries_command(&self) -> bool {
        self.command
    }
}

impl Offered {
    fn of(options: Option<&RawValue>) -> Self {
        let all: Vec<&RawValue> =
            options.and_then(|o| serde_json::from_str(o.get()).ok()).unwrap_or_default();
        Self(all.into_iter().filter_map(Choice::of).collect())
    }

    /// The answer that refuses: the first `reject_once`, else the first `reject_always`, else `cancelled` (R134).
    pub fn refuse(&self) -> Answer {
        let reject = self.first(Grant::RejectOnce).or_else(|| self.first(Grant::RejectAlways));
        reject.map_or(Answer::Cancelled, Choice::select)
    }

    /// The answer that allows just this call: the first `allow_once` (R134).
    pub fn allow(&self, with: ApproveWith) -> Allowed {
        let first = self.first(Grant::AllowOnce);
        let always = || self.first(Grant::AllowAlways).filter(|_| with == ApproveWith::AnyAllow);
        match first.or_else(always) {
            Some(first) if self.0.iter().any(|other| other.rivals(first)) => Allowed::Several(first.select()),
            Some(first) => Allowed::With(first.select()),
            None => Allowed::Unanswerable,
        }
    }

    /// What the host's answer to the request comes to (R143). An id is the same however it is escaped.
    pub fn heard(&self, answer: &Frame) -> HostSaid {
        let outcome =
            answer.member("result").map(|r| Object::of(r.get()).object("outcome")).unwrap_or_default();
        let selected = outcome.get("outcome").is_some_and(|o| text(o) == "selected");
        let id = outcome.get("optionId").filter(|_| selected);
        let choice = id.and_then(|id| self.0.iter().find(|choice| same(&choice.id, id)));
        choice.map_or(HostSaid::Refused, |choice| HostSaid::Selected(choice.grant))
    }

    /// Whether nothing can be selected.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn first(&self, grant: Grant) -> Option<&Choice> {
        self.0.iter().find(|choice| choice.grant == grant)
    }
}

impl Choice {
    fn of(option: &RawValue) -> Option<Self> {
        let option = Object::of(option.get());
        let grant = match option.get("kind").map(text).as_deref() {
            Some("allow_once") => Grant::AllowOnce,
            Some("allow_always") => Grant::AllowAlways,
            Some("reject_once") => Grant::RejectOnce,
            Some("reject_always") => Grant::RejectAlways,
            _ => Grant::Unknown,
        };
        let id = option.get("optionId").filter(|id| id.get() != "null")?;
        Some(Self { id: id.to_owned(), grant })
    }

    fn select(&self) -> Answer {
        Answer::Selected(self.id.clone())
    }

    /// Whether it grants the same under another id.
    fn rivals(&self, other: &Self) -> bool {
        self.grant == other.grant && !same(&self.id, &other.id)
    }
}

impl Answer {
    /// The answer's line; its id is spliced when it leaves.
    pub fn frame(&self) -> Frame {
        #[derive(Serialize)]
        struct Selected<'a> {
            outcome: &'a str,
            #[serde(rename = "optionId")]
            option_id: &'a RawValue,
        }
        #[derive(Serialize)]
        struct Response<'a> {
            outcome: Selected<'a>,
        }
        match self {
            Self::Selected(id) => {
                Frame::result(&Response { outcome: Selected { outcome: "selected", option_id: id } })
            }
            Self::Cancelled => author::cancelled_permission(),
        }
    }
}

/// Whether two ids are one: strings by what they say, anything else as written.
fn same(a: &RawValue, b: &RawValue) -> bool {
    let is_string = |id: &RawValue| id.get().starts_with('"');
    a.get() == b.get() || (is_string(a) && is_string(b) && text(a) == text(b))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn asked(options: &str) -> Asked {
        let line = format!(
            r#"{{"id":1,"method":"session/request_permission","params":{{"sessionId":"s",
                "toolCall":{{"toolCallId":"t","kind":"execute"}},"options":{options}}}}}"#
        );
        Asked::of(&Frame::parse(line.into()).unwrap())
    }

    /// Options from a short list: `id=kind,id=kind`.
    fn offered(list: &str) -> Offered {
        let option = |pair: &str| {
            let (id, kind) = pair.split_once('=').unwrap();
            json!({ "optionId": id, "name": id, "kind": kind })
        };
        let options: Vec<Value> = list.split(',').filter(|pair| !pair.is_empty()).map(option).collect();
        asked(&json!(options).to_string()).offered
    }

    fn said(answer: &Answer) -> String {
        answer.frame().member("result").unwrap().get().to_owned()
    }

    fn selected(id: &str) -> String {
        format!(r#"{{"outcome":{{"outcome":"selected","optionId":"{id}"}}}}"#)
    }

    const CANCELLED: &str = r#"{"outcome":{"outcome":"cancelled"}}"#;

    /// R134, PERM-04, PERM-06: only what was offered is selected; `cancelled` where no option refuses.
    #[test]
    fn a_refusal_takes_the_mildest_option_that_refuses() {
        for (options, want) in [
            ("a=allow_once,r=reject_once", "r"),
            ("R=reject_always,r=reject_once,q=reject_once", "r"),
            ("a=allow_once,R=reject_always", "R"),
            ("a=allow_once,A=allow_always", ""),
            ("p=allow_persistent,n=reject", ""),
            ("", ""),
        ] {
            let want = if want.is_empty() { CANCELLED.to_owned() } else { selected(want) };
            assert_eq!(said(&offered(options).refuse()), want, "{options}");
        }
    }

    /// R134, PERM-06: a policy grants this call and no more; what could mean two things is for a human.
    #[test]
    fn an_approval_takes_the_first_option_for_this_call_alone() {
        use ApproveWith::{AllowOnce, AnyAllow};
        for (options, with, want) in [
            ("r=reject_once,a=allow_once,A=allow_always", AllowOnce, ("with", "a")),
            ("A=allow_always,a=allow_once", AnyAllow, ("with", "a")),
            ("A=allow_always,r=reject_once", AllowOnce, ("unanswerable", "")),
            ("A=allow_always,r=reject_once", AnyAllow, ("with", "A")),
            ("a=allow_once,a=allow_once", AllowOnce, ("with", "a")),
            ("a=allow_once,b=allow_once", AllowOnce, ("several", "a")),
            ("A=allow_always,B=allow_always,a=allow_once", AnyAllow, ("with", "a")),
            ("A=allow_always,B=allow_always", AnyAllow, ("several", "A")),
            ("p=allow_persistent,r=reject_once", AnyAllow, ("unanswerable", "")),
            ("", AnyAllow, ("unanswerable", "")),
        ] {
            let (word, answer) = match offered(options).allow(with) {
                Allowed::With(answer) => ("with", Some(answer)),
                Allowed::Several(answer) => ("several", Some(answer)),
                Allowed::Unanswerable => ("unanswerable", None),
            };
            assert_eq!(word, want.0, "{options}");
            assert!(answer.is_none_or(|answer| said(&answer) == selected(want.1)), "{options}");
        }
    }

    /// R134: ids are opaque: no spelling is changed, and no type.
    #[test]
    fn an_id_goes_back_as_it_was_written() {
        for id in [r#""\u0061\/b ä""#, "1.50", "9223372036854775808", "true", r#"{"x":[1]}"#, r#""""#] {
            let a = asked(&format!(r#"[{{"optionId": {id} ,"kind":"allow_once"}}]"#));
            let Allowed::With(answer) = a.offered.allow(ApproveWith::AllowOnce) else { panic!("{id}") };
            assert_eq!(said(&answer), format!(r#"{{"outcome":{{"outcome":"selected","optionId":{id}}}}}"#));
        }
    }

    /// R33, R126: whatever a request lacks or says otherwise is not there, and nothing is invented.
    #[test]
    fn a_request_of_any_shape_can_be_read() {
        for options in ["null", "{}", "3", r#""x""#, "[]", "[1,null,[]]", r#"[{"kind":"allow_once"}]"#] {
            assert!(asked(options).offered.is_empty(), "{options}");
        }
        assert!(asked(r#"[{"optionId":null,"kind":"allow_once"}]"#).offered.is_empty());
        assert!(!asked(r#"[7,{"optionId":"a"}]"#).offered.is_empty());
        for params in [r#""params":[]"#, r#""params":{"toolCall":[]}"#, r#""x":1"#] {
            let line = format!(r#"{{"id":1,"method":"session/request_permission",{params}}}"#);
            let a = Asked::of(&Frame::parse(line.into()).unwrap());
            assert_eq!((a.kind(), a.tool_call(), a.title(), a.carries_command()), (None, None, None, false));
        }
        let whole = asked("[]");
        assert_eq!((whole.kind(), whole.tool_call()), (Some("execute"), Some("t")));
        let blank = json!({ "toolCall": { "toolCallId": 7, "kind": "", "title": "x" } });
        let blank = Asked::of(&Frame::request("session/request_permission", &blank));
        assert_eq!((blank.kind(), blank.tool_call(), blank.title()), (None, None, Some("x")));
    }

    /// R143: what a host answers counts only as far as it was offered.
    #[test]
    fn a_host_selects_what_was_offered_or_refuses() {
        let options = r#"[{"optionId":"\u00e4","kind":"allow_always"},{"optionId":7,"kind":"reject_once"},
                          {"optionId":"f","kind":"of_tomorrow"}]"#;
        let offered = asked(options).offered;
        for (answer, want) in [
            (
                r#""result":{"outcome":{"outcome":"selected","optionId":"ä"}}"#,
                HostSaid::Selected(Grant::AllowAlways),
            ),
            (
                r#""result":{"outcome":{"optionId":7,"outcome":"selected"}}"#,
                HostSaid::Selected(Grant::RejectOnce),
            ),
            (
                r#""result":{"outcome":{"outcome":"selected","optionId":"f"}}"#,
                HostSaid::Selected(Grant::Unknown),
            ),
            (r#""result":{"outcome":{"outcome":"selected","optionId":"7"}}"#, HostSaid::Refused),
            (r#""result":{"outcome":{"outcome":"selected","optionId":"made-up"}}"#, HostSaid::Refused),
            (r#""result":{"outcome":{"outcome":"selected"}}"#, HostSaid::Refused),
            (r#""result":{"outcome":{"outcome":"cancelled","optionId":"ä"}}"#, HostSaid::Refused),
            (r#""result":null"#, HostSaid::Refused),
            (r#""error":{"code":-32601,"message":"no"}"#, HostSaid::Refused),
        ] {
            let frame = Frame::parse(format!(r#"{{"id":1,{answer}}}"#).into()).unwrap();
            assert_eq!(offered.heard(&frame), want, "{answer}");
        }
    }
}
