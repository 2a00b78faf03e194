//! `session/list`: what is saved, page by page (R45).

use serde_json::{Value, json, value::RawValue};

use super::actor::{Msg, State};
use crate::{
    directory::Directory,
    id::{Address, Token},
    limits::LIST_PAGE,
    store::{Cursor, Query, Reader, Row},
    wire::{Frame, RpcError, patch::Object},
};

impl State {
    /// Looks in a task, because that reads the store.
    pub(super) fn list(&self, token: Token, frame: &Frame) {
        let query = query(&Object::of(frame.member("params").map_or("{}", RawValue::get)));
        let (reader, directory) = (self.shared.reader.clone(), self.shared.directory.clone());
        let me = self.me.clone();
        tokio::spawn(async move {
            let looked = tokio::task::spawn_blocking(move || {
                query.and_then(|query| page(&reader, &directory, &query))
            });
            let answer =
                looked.await.unwrap_or_else(|_| Err(RpcError::internal("the list could not be made")));
            let answer = answer.map_or_else(|error| Frame::error(&error), |page| Frame::result(&page));
            let _ = me.cast(Msg::Found(token, answer));
        });
    }
}

fn query(params: &Object) -> Result<Query, RpcError> {
    let text = |name: &str| match params.get(name).filter(|value| value.get() != "null") {
        Some(value) => serde_json::from_str::<String>(value.get())
            .map(Some)
            .map_err(|_| RpcError::invalid_params(format!("{name} is no string"))),
        None => Ok(None),
    };
    let cwd = text("cwd")?.map(std::path::PathBuf::from);
    if let Some(cwd) = cwd.as_ref().filter(|cwd| !cwd.is_absolute()) {
        return Err(RpcError::invalid_params(format!("cwd {:?} is not absolute", cwd.display())));
    }
    let made_up = || RpcError::invalid_params("cursor is none that session/list gave");
    let after = text("cursor")?.map(|text| Cursor::parse(&text).ok_or_else(made_up)).transpose()?;
    Ok(Query { cwd, after, limit: LIST_PAGE })
}

fn page(reader: &Reader, directory: &Directory, query: &Query) -> Result<Value, RpcError> {
    let page = reader.list(query).map_err(|error| RpcError::internal(error.to_string()))?;
    let sessions: Vec<Value> = page.rows.iter().map(|row| entry(row, directory)).collect();
    let mut answer = json!({ "sessions": sessions });
    if let Some(next) = page.next {
        answer["nextCursor"] = next.to_text().into();
    }
    Ok(answer)
}

fn entry(row: &Row, directory: &Directory) -> Value {
    let live = directory.has(&Address::Session(row.id.clone()));
    let updated = jiff::Timestamp::from_millisecond(row.updated_ms).unwrap_or_default();
    json!({
        "sessionId": row.id.as_str(),
        "cwd": row.cwd.to_string_lossy(),
        "title": row.title,
        "updatedAt": updated.to_string(),
        "_meta": { "acpvisor": { "agent": row.agent, "state": if live { "live" } else { "saved" } } },
    })
}
