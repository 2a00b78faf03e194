//! Sessions as they are known: the live from their cards, the saved from the store.

use std::{collections::HashSet, sync::Arc};

use serde_json::Value;

use super::{
    methods::{ListParams, Sessions, Shown},
    rpc::Refusal,
    service::{Service, processes, result, session},
    view::{self, Remembered},
};
use crate::{
    directory::Card,
    id::SessionId,
    limits::{LIST_PAGE, LIST_PAGE_MAX},
    store::{Cursor, Query, Reader, Row, StoreError},
};

/// Prompts shown of one session.
const PROMPTS_SHOWN: usize = 20;

/// Params that make sense.
struct Wanted {
    params: ListParams,
    after: Option<Cursor>,
    limit: usize,
}

impl Service {
    pub(super) async fn list(&self, params: ListParams) -> Result<Value, Refusal> {
        let wanted = Wanted::read(params)?;
        let cards = view::live(&self.directory.cards());
        result(self.read(move |reader| wanted.page(reader, &cards)).await?)
    }

    /// The session of that id, live or saved.
    pub(super) async fn known(&self, id: &str) -> Result<SessionId, Refusal> {
        let session = session(id)?;
        let wanted = session.clone();
        let is_saved = self.read(move |reader| Ok(reader.row(&wanted)?.is_some())).await?;
        let known = is_saved || self.is_live(&session);
        known.then_some(session).ok_or_else(|| Refusal::unknown_session(id))
    }

    pub(super) async fn show(&self, id: &str) -> Result<Value, Refusal> {
        let session = session(id)?;
        let wanted = session.clone();
        let (remembered, prompts, bytes) = self.read(move |reader| looked_up(reader, &wanted)).await?;
        let cards = self.directory.cards();
        let card = view::live(&cards).into_iter().find(|card| card.name == id);
        if card.is_none() && remembered.is_none() {
            return Err(Refusal::unknown_session(id));
        }
        let tree = match card {
            Some(_) => view::branch(&cards, id, &processes().await),
            None => None,
        };
        let row = remembered.as_ref().map(|remembered| &remembered.row);
        result(Shown {
            session: view::session(id, card.as_deref(), remembered.as_ref()),
            settings: row.map(|row| row.settings.clone()),
            parent: row.and_then(|row| row.parent.as_ref()).map(SessionId::to_string),
            bytes,
            prompts,
            tree,
        })
    }
}

type LookedUp = (Option<Remembered>, Vec<super::methods::Prompt>, u64);

fn looked_up(reader: &Reader, id: &SessionId) -> Result<LookedUp, StoreError> {
    let Some(remembered) = remembered(reader, id)? else { return Ok((None, Vec::new(), 0)) };
    let prompts = reader.last_prompts(id, PROMPTS_SHOWN)?;
    Ok((Some(remembered), prompts.iter().map(view::prompt).collect(), reader.size(id)?))
}

/// What the store has of a session; one that has just begun is not in it.
fn remembered(reader: &Reader, id: &SessionId) -> Result<Option<Remembered>, StoreError> {
    reader.row(id)?.map_or(Ok(None), |row| with_figures(reader, row))
}

/// Nothing when it was deleted meanwhile.
fn with_figures(reader: &Reader, row: Row) -> Result<Option<Remembered>, StoreError> {
    let figures = reader.tally(&row.id).and_then(|tally| Ok((tally, reader.last_prompts(&row.id, 1)?.pop())));
    match figures {
        Ok((tally, last_prompt)) => Ok(Some(Remembered { row, tally, last_prompt })),
        Err(StoreError::Unknown(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Wanted {
    fn read(params: ListParams) -> Result<Self, Refusal> {
        let refuse = |why: &str| Err(Refusal::params(format!("params.{why}")));
        if params.cwd.as_ref().is_some_and(|cwd| !cwd.is_absolute()) {
            return refuse("cwd: expected an absolute path");
        }
        let limit = params.limit.unwrap_or(LIST_PAGE);
        if limit == 0 || limit > LIST_PAGE_MAX {
            return refuse(&format!("limit: expected 1 to {LIST_PAGE_MAX}"));
        }
        let after = match params.cursor.as_deref().map(Cursor::parse) {
            Some(None) => return refuse("cursor: it is none that sessions.list gave"),
            after => after.flatten(),
        };
        Ok(Self { params, after, limit })
    }

    fn page(&self, reader: &Reader, live: &[Arc<Card>]) -> Result<Sessions, StoreError> {
        let mut sessions = Vec::new();
        if self.after.is_none() {
            for card in live.iter().filter(|card| self.fits(card)) {
                let known = SessionId::parse(&card.name).map(|id| remembered(reader, &id)).transpose()?;
                sessions.push(view::session(&card.name, Some(card), known.flatten().as_ref()));
            }
        }
        let mut cursor = None;
        if self.params.saved {
            let (rows, next) = self.saved(reader, &live.iter().map(|card| card.name.as_str()).collect())?;
            for row in rows {
                let known = with_figures(reader, row)?;
                sessions.extend(known.map(|known| view::session(known.row.id.as_str(), None, Some(&known))));
            }
            cursor = next.map(|cursor| cursor.to_text());
        }
        Ok(Sessions { sessions, cursor })
    }

    fn fits(&self, card: &Card) -> bool {
        let cwd = card.get("cwd");
        let there = self.params.cwd.as_ref().is_none_or(|wanted| {
            cwd.as_ref().and_then(Value::as_str).is_some_and(|cwd| wanted.as_os_str() == cwd)
        });
        there && self.begins_so(&card.name)
    }

    fn begins_so(&self, id: &str) -> bool {
        self.params.prefix.as_ref().is_none_or(|prefix| id.starts_with(prefix.as_str()))
    }

    /// Rows of sessions that do not live, and where to go on.
    fn saved(&self, reader: &Reader, live: &HashSet<&str>) -> Result<(Vec<Row>, Option<Cursor>), StoreError> {
        let (mut rows, mut after) = (Vec::new(), self.after.clone());
        while rows.len() < self.limit {
            let limit = self.limit - rows.len();
            let page = reader.list(&Query { cwd: self.params.cwd.clone(), after, limit })?;
            let wanted = |row: &Row| self.begins_so(row.id.as_str()) && !live.contains(row.id.as_str());
            rows.extend(page.rows.into_iter().filter(wanted));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        Ok((rows, after))
    }
}
