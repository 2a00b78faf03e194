//! Giving a new process what its predecessor knew, when it can neither resume nor load (R31).

use bytes::Bytes;
use serde_json::{json, value::RawValue};

use super::actor::{Msg, State};
use crate::{
    config::Context as Way,
    history,
    id::SessionId,
    limits::{CONTEXT_BYTES_MAX, REPLAY_PAGE_BYTES},
    store::{Reader, StoreError},
    wire::{Frame, patch::Object},
};

/// What the first prompt on a process is preceded by.
#[derive(Debug, Default)]
pub(super) enum Context {
    /// Nothing: the process knows, or there is nothing to know.
    #[default]
    Known,
    /// The transcript, which is not read yet.
    Wanted,
    /// The transcript, which is being read.
    Gathering,
    /// This text.
    Text(String),
}

impl Context {
    /// Whether a prompt has to wait for it.
    pub fn is_wanted(&self) -> bool {
        matches!(self, Self::Wanted | Self::Gathering)
    }

    /// The text, for the one prompt that carries it.
    pub fn take(&mut self) -> Option<String> {
        if let Self::Text(text) = std::mem::take(self) { Some(text) } else { None }
    }
}

impl State {
    /// The process starts blank: the host hears so, and the next prompt tells it what was said before.
    pub(super) fn start_blank(&mut self) {
        let wanted = self.order.agent.context == Way::Transcript && self.record.kept;
        self.context = if wanted { Context::Wanted } else { Context::Known };
        let facts = match wanted {
            true => {
                json!({ "context": "transcript", "reason": "the agent cannot restore the session itself" })
            }
            false => json!({ "context": "lost", "reason": "the agent was restarted and cannot resume" }),
        };
        self.notice(facts);
    }

    /// Reads the transcript, away from the mailbox.
    pub(super) fn gather_context(&mut self) {
        if !matches!(self.context, Context::Wanted) {
            return;
        }
        self.context = Context::Gathering;
        let (me, generation) = (self.me.clone(), self.generation);
        let (reader, id) = (self.shared.reader.clone(), self.order.id.clone());
        tokio::spawn(async move {
            let _still = reader.clone().hold_still().await;
            let text = tokio::task::spawn_blocking(move || gather(&reader, &id)).await;
            let _ = me.cast(Msg::Context(generation, text.unwrap_or(Err(StoreError::Closed))));
        });
    }

    /// The transcript was read. One that cannot be read is no reason to lose the turn: the agent starts blank.
    pub(super) fn context_gathered(&mut self, text: Result<Option<String>, StoreError>) {
        if let Err(error) = &text {
            tracing::warn!(session = %self.order.id, %error, "context not restored");
        }
        self.context = text.ok().flatten().map_or(Context::Known, Context::Text);
        self.advance();
    }
}

fn gather(reader: &Reader, id: &SessionId) -> Result<Option<String>, StoreError> {
    let mut context = history::Context::new(id.clone(), CONTEXT_BYTES_MAX);
    let mut after = 0;
    loop {
        let rows = reader.rows(Some(id), after, i64::MAX, REPLAY_PAGE_BYTES)?;
        let Some(last) = rows.last() else { return Ok(context.finish()) };
        after = last.number;
        rows.iter().for_each(|row| context.take(row));
    }
}

/// The same prompt with one text block before all others.
pub(super) fn before(prompt: &Frame, text: &str) -> Frame {
    let mut params = Object::of(prompt.member("params").map_or("{}", RawValue::get));
    let blocks = params.get("prompt").map_or("[]", RawValue::get);
    let mut all: Vec<Box<RawValue>> = serde_json::from_str(blocks).unwrap_or_default();
    let block = json!({ "type": "text", "text": text });
    all.insert(0, serde_json::value::to_raw_value(&block).expect("plain data"));
    params.set("prompt", &all);
    let mut line = Object::of(std::str::from_utf8(prompt.line()).unwrap_or("{}"));
    line.set("params", &params);
    let text = serde_json::to_string(&line).expect("it was JSON before");
    Frame::parse(Bytes::from(text)).expect("it was a frame before")
}
