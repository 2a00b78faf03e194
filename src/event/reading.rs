//! Reading what a peer sends, leniently: a member of the wrong type counts as absent.
//!
//! Owns nothing; everything borrows from the frame. Never fails a frame for a member nobody needs, such as a
//! number that fits no float.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::limits::TOOL_CALL_ID_BYTES_MAX;

type Raw<'a> = Option<&'a RawValue>;

/// The members of a `session/update` that mean something here.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Update<'a> {
    #[serde(borrow, rename = "sessionUpdate")]
    pub variant: Raw<'a>,
    #[serde(borrow, rename = "messageId")]
    pub message_id: Raw<'a>,
    #[serde(borrow, rename = "toolCallId")]
    tool_call_id: Raw<'a>,
    #[serde(borrow, rename = "kind")]
    pub tool_kind: Raw<'a>,
    #[serde(borrow)]
    pub title: Raw<'a>,
    #[serde(borrow)]
    pub status: Raw<'a>,
    #[serde(borrow)]
    content: Raw<'a>,
    #[serde(borrow)]
    locations: Raw<'a>,
    #[serde(borrow, rename = "rawInput")]
    raw_input: Raw<'a>,
    #[serde(borrow)]
    cost: Raw<'a>,
}

impl<'a> Update<'a> {
    /// The text of a chunk, if its content is text.
    pub fn chunk_text(&self) -> Option<Cow<'a, str>> {
        read::<Block>(self.content)?.text()
    }

    /// The first text among the content of a call.
    pub fn first_text(&self) -> Option<Cow<'a, str>> {
        let items = read::<Vec<&RawValue>>(self.content)?;
        items.into_iter().find_map(|item| {
            let item = read::<Item>(Some(item))?;
            read::<Block>((text(item.kind)? == "content").then_some(item.content).flatten())?.text()
        })
    }

    /// The id of a call, unless it is empty or too long (R106).
    pub fn call_id(&self) -> Option<Cow<'a, str>> {
        text(self.tool_call_id).filter(|id| !id.is_empty() && id.len() <= TOOL_CALL_ID_BYTES_MAX)
    }

    /// What the call acts on: a command, or else its first location.
    pub fn subject(&self) -> Option<Cow<'a, str>> {
        self.command().or_else(|| {
            let first = read::<Vec<&RawValue>>(self.locations)?.into_iter().next();
            text(read::<Location>(first)?.path)
        })
    }

    /// The total so far in USD: numeric, finite, not negative (R102).
    pub fn total_usd(&self) -> Option<f64> {
        let cost = read::<Cost>(self.cost)?;
        let amount = read::<f64>(cost.amount).filter(|amount| amount.is_finite() && *amount >= 0.0)?;
        (text(cost.currency)? == "USD").then_some(amount)
    }

    fn command(&self) -> Option<Cow<'a, str>> {
        let command = read::<Input>(self.raw_input)?.command;
        text(command).or_else(|| Some(Cow::Owned(read::<Vec<Cow<'_, str>>>(command)?.join(" "))))
    }
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow, rename = "sessionId")]
    session_id: Raw<'a>,
    #[serde(borrow)]
    update: Raw<'a>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow, rename = "type")]
    kind: Raw<'a>,
    #[serde(borrow)]
    text: Raw<'a>,
}

impl<'a> Block<'a> {
    fn text(&self) -> Option<Cow<'a, str>> {
        (text(self.kind)? == "text").then_some(self.text).and_then(text)
    }
}

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(borrow, rename = "type")]
    kind: Raw<'a>,
    #[serde(borrow)]
    content: Raw<'a>,
}

#[derive(Deserialize)]
struct Location<'a> {
    #[serde(borrow)]
    path: Raw<'a>,
}

#[derive(Deserialize)]
struct Input<'a> {
    #[serde(borrow)]
    command: Raw<'a>,
}

#[derive(Deserialize)]
struct Cost<'a> {
    #[serde(borrow)]
    amount: Raw<'a>,
    #[serde(borrow)]
    currency: Raw<'a>,
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow, rename = "stopReason")]
    stop_reason: Raw<'a>,
}

/// Session id and update of a `session/update`; none when it is not of that shape.
pub(super) fn update_of(params: Raw<'_>) -> Option<(Cow<'_, str>, Update<'_>)> {
    let params = read::<Params>(params)?;
    Some((text(params.session_id)?, read(params.update)?))
}

/// The tool call that a permission request is about; empty when it names none.
pub(super) fn tool_call_of(tool_call: Raw<'_>) -> Update<'_> {
    read(tool_call).unwrap_or_default()
}

/// The stop reason of an answer to a prompt, whatever its type.
pub(super) fn stop_reason(answer: &RawValue) -> Raw<'_> {
    read::<Answer>(Some(answer))?.stop_reason
}

/// What the peer reports as its model: the value of its option of category `model` (R29).
pub(super) fn model(session_new: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct New<'a> {
        #[serde(borrow, rename = "configOptions")]
        options: Raw<'a>,
    }
    #[derive(Deserialize)]
    struct ConfigOption<'a> {
        #[serde(borrow)]
        category: Raw<'a>,
        #[serde(borrow, rename = "currentValue")]
        value: Raw<'a>,
    }
    read::<Vec<&RawValue>>(read::<New>(Some(session_new))?.options)?.into_iter().find_map(|option| {
        let option = read::<ConfigOption>(Some(option))?;
        (text(option.category)? == "model").then_some(option.value).and_then(text).map(Cow::into_owned)
    })
}

/// The peer's own id of the session, as the daemon's `_meta` tells it (R229).
pub(super) fn peer_session_id(session_new: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct New<'a> {
        #[serde(borrow, rename = "_meta")]
        meta: Raw<'a>,
    }
    #[derive(Deserialize)]
    struct Meta<'a> {
        #[serde(borrow)]
        acpvisor: Raw<'a>,
    }
    #[derive(Deserialize)]
    struct Ours<'a> {
        #[serde(borrow, rename = "peerSessionId")]
        peer: Raw<'a>,
    }
    let meta = read::<Meta>(read::<New>(Some(session_new))?.meta)?;
    text(read::<Ours>(meta.acpvisor)?.peer).map(Cow::into_owned)
}

/// A string.
pub(super) fn text(raw: Raw<'_>) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    read::<Text>(raw).map(|text| text.0)
}

fn read<'a, T: Deserialize<'a>>(raw: Raw<'a>) -> Option<T> {
    serde_json::from_str(raw?.get()).ok()
}
