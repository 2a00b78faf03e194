//! Inboxes by hand: what is put in, looked at, changed and taken out (R182, R187, R188, R295).
//!
//! What is accepted is on the disk before anybody hears so; only then its session is told.

use serde_json::Value;
use smallvec::{SmallVec, smallvec};

use super::{
    methods::{EditParams, EntryParams, Inbox, Ordered, SendParams, Sent},
    orders::order,
    rpc::Refusal,
    service::{Service, result, session},
    view,
};
use crate::{
    fault,
    id::{Address, SessionId},
    store::{Entry, EntryState, Op, StoreError},
    wire::Word,
};

/// Longest id of a message, and longest word for its source.
const NAME_BYTES_MAX: usize = 200;
/// Who sends what names nobody.
const USER: &str = "user";

impl Service {
    pub(super) async fn send(&self, params: SendParams) -> Result<Value, Refusal> {
        let session = session(&params.id)?;
        let entry = message(&params)?;
        if params.wake && !self.is_live(&session) {
            // Nothing is stored for a session that cannot be woken.
            self.revival(&session).await?;
        }
        fault::pass("message-taken");
        self.write(&session, smallvec![Op::Enqueue(entry.clone())]).await?;
        fault::pass("message-stored");
        tracing::info!(session = %session, entry = %entry.id, source = %entry.source, "message stored");
        let duplicate = params.entry.is_some() && self.was_there(&session, &entry).await?;
        let mut live = self.wake(&session);
        if params.wake && !live {
            self.revive(&session).await.map_err(|refusal| refusal.although_stored(&entry.id))?;
            live = self.wake(&session);
        }
        result(Sent { entry: entry.id, duplicate, live })
    }

    /// Whether another message has that id.
    async fn was_there(&self, session: &SessionId, ours: &Entry) -> Result<bool, Refusal> {
        let stored = self.entries(session).await?.into_iter().find(|entry| entry.id == ours.id);
        Ok(stored.is_some_and(|stored| (stored.queued_ms, &stored.text) != (ours.queued_ms, &ours.text)))
    }

    pub(super) async fn inbox(&self, id: &str) -> Result<Value, Refusal> {
        let entries = self.entries(&session(id)?).await?;
        result(Inbox { entries: entries.iter().map(view::entry_in_short).collect() })
    }

    pub(super) async fn entry(&self, params: &EntryParams) -> Result<Value, Refusal> {
        result(view::entry(&self.found(&session(&params.id)?, &params.entry).await?))
    }

    pub(super) async fn rewrite(&self, params: EditParams) -> Result<Value, Refusal> {
        says_something(&params.text)?;
        self.change(&session(&params.id)?, smallvec![Op::Rewrite(params.entry, params.text)]).await
    }

    pub(super) async fn remove(&self, params: EntryParams) -> Result<Value, Refusal> {
        self.change(&session(&params.id)?, smallvec![Op::Remove(params.entry)]).await
    }

    /// A message that is over is queued again, behind the others.
    pub(super) async fn again(&self, params: EntryParams) -> Result<Value, Refusal> {
        let session = session(&params.id)?;
        let entry = self.found(&session, &params.entry).await?;
        if matches!(entry.state, EntryState::Queued | EntryState::Running) {
            return Err(refusal(&session, &params.entry, &format!("it is {} already", entry.state.word())));
        }
        let queued = Entry { state: EntryState::Queued, queued_ms: now_ms(), ..entry };
        self.change(&session, smallvec![Op::Remove(params.entry), Op::Enqueue(queued)]).await
    }

    async fn change(&self, session: &SessionId, ops: SmallVec<[Op; 2]>) -> Result<Value, Refusal> {
        self.write(session, ops).await?;
        self.wake(session);
        result(Ordered {})
    }

    async fn entries(&self, session: &SessionId) -> Result<Vec<Entry>, Refusal> {
        let id = session.clone();
        self.read(move |reader| reader.inbox(&id)).await
    }

    async fn found(&self, session: &SessionId, entry: &str) -> Result<Entry, Refusal> {
        let found = self.entries(session).await?.into_iter().find(|stored| stored.id == entry);
        found.ok_or_else(|| refusal(session, entry, "there is none of that id"))
    }

    pub(super) fn is_live(&self, session: &SessionId) -> bool {
        self.directory.has(&Address::Session(session.clone()))
    }

    /// Tells a session that its inbox changed. Whether it lives.
    fn wake(&self, session: &SessionId) -> bool {
        self.directory.post(&Address::Session(session.clone()), order(Word::Wake)).is_ok()
    }
}

/// The message that these params make.
fn message(params: &SendParams) -> Result<Entry, Refusal> {
    says_something(&params.text)?;
    let source = name("source", params.source.as_deref())?.unwrap_or(USER).to_owned();
    let id = name("entry", params.entry.as_deref())?.map(str::to_owned);
    Ok(Entry {
        id: id.unwrap_or_else(|| SessionId::fresh().to_string()),
        source,
        text: params.text.clone(),
        queued_ms: now_ms(),
        state: EntryState::Queued,
        attempt: 0,
    })
}

fn says_something(text: &str) -> Result<(), Refusal> {
    match text.trim().is_empty() {
        true => Err(Refusal::params("params.text: it says nothing".to_owned())),
        false => Ok(()),
    }
}

/// A name that can be shown and typed.
fn name<'a>(member: &str, text: Option<&'a str>) -> Result<Option<&'a str>, Refusal> {
    let fits = |text: &str| {
        !text.is_empty() && text.len() <= NAME_BYTES_MAX && !text.chars().any(|c| c.is_control())
    };
    if text.is_none_or(fits) {
        return Ok(text);
    }
    let why = format!("params.{member}: expected 1 to {NAME_BYTES_MAX} bytes without control characters");
    Err(Refusal::params(why))
}

fn refusal(session: &SessionId, entry: &str, why: &str) -> Refusal {
    let (session, entry, why) = (session.to_string(), entry.to_owned(), why.to_owned());
    Refusal::of(&StoreError::Entry { session, entry, why })
}

fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}
