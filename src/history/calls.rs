//! The tool calls of a history: each is shown when it is announced and once more as it stood in the end (R37). Pure.
//!
//! Owns what is known of the calls that are open, within bounds, and the ids of those that ended lately. A call that
//! nobody ended is shown as failed when its turn ends (R280).
//!
//! ```text
//!  (unknown) -- tool_call, permission asked, update with an open status --> open -- update: merged --> open
//!     |                                                                      | completed or failed; the turn's end
//!     +-- update with a last status, or none: passes                         v
//!                                                    ended -- update: passes; tool_call: a new call
//! ```

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use bytes::Bytes;
use serde_json::value::RawValue;

use super::{
    author, bulk,
    card::Card,
    content::{self, Show},
    line::{Kind, Status, Update},
    names::{Names, Whose},
    outlet::Outlet,
    visit,
};
use crate::limits::{REPLAY_CALLS_BYTES_MAX, TOOL_CALL_ID_BYTES_MAX, TOOL_CALLS_MAX};

/// Calls by their ids, as written; in front of a child's call stands the child's id.
#[derive(Debug, Default)]
pub(super) struct Calls {
    open: HashMap<Box<str>, Open>,
    ended: Ended,
    announced: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Open {
    /// Its place among all that were announced.
    number: u64,
    session: Box<str>,
    id: Box<str>,
    is_childs: bool,
    card: Card,
}

impl Calls {
    /// An update of a call.
    pub fn take(&mut self, line: &Bytes, update: &Update<'_>, whose: Whose, outlet: &mut Outlet<'_>) {
        let Some(call) = CallId::of(update.session, update.call, whose, outlet.names) else {
            return outlet.call(line, update, Show::Text(outlet.terminals));
        };
        let is_open = self.open.contains_key(&*call.key);
        match (update.kind, update.status) {
            (_, Status::Ended) if is_open => {
                self.merge(&call, update.raw, outlet);
                self.end(&call, outlet);
            }
            _ if is_open => self.merge(&call, update.raw, outlet),
            (_, Status::Ended) => {
                self.ended.add(call.key.into());
                outlet.call(line, update, Show::Text(outlet.terminals));
            }
            (Kind::ToolCall, _) => self.announce(&call, line, update, outlet),
            (_, Status::Open) if !self.ended.has(&call.key) => self.announce(&call, line, update, outlet),
            _ => outlet.call(line, update, Show::Text(outlet.terminals)),
        }
    }

    /// A permission is asked for a call: some agents announce it in no other way.
    pub fn asked(&mut self, session: &RawValue, tool_call: &RawValue, whose: Whose, outlet: &mut Outlet<'_>) {
        let id = visit::member(tool_call.get(), "toolCallId");
        let Some(call) = CallId::of(session, id, whose, outlet.names) else { return };
        if self.open.contains_key(&*call.key) || self.ended.has(&call.key) {
            return;
        }
        outlet.written(announcement(call.session, tool_call));
        self.open(&call, outlet);
    }

    /// A turn ended: its calls end with it. Those of children may go on.
    pub fn end_of_turn(&mut self, outlet: &mut Outlet<'_>) {
        self.close(|open| !open.is_childs, outlet);
    }

    /// Nothing more will come of any call.
    pub fn end_of_all(&mut self, outlet: &mut Outlet<'_>) {
        self.close(|_| true, outlet);
    }

    /// Bytes that are kept of open calls.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn announce(&mut self, call: &CallId<'_>, line: &Bytes, update: &Update<'_>, outlet: &mut Outlet<'_>) {
        outlet.call(line, update, Show::Omit);
        self.open(call, outlet);
        // What its terminals say is known when it ends.
        if let Some(content) = update.content.filter(|content| content::names_terminal(content.get())) {
            self.keep(&call.key, |card| {
                card.set("content", &bulk::member("content", content.get(), Show::Keep))
            });
        }
    }

    fn open(&mut self, call: &CallId<'_>, outlet: &mut Outlet<'_>) {
        if self.open.len() == TOOL_CALLS_MAX {
            let oldest = self.open.values().map(|open| open.number).min();
            self.close(|open| Some(open.number) == oldest, outlet);
        }
        self.announced += 1;
        self.ended.remove(&call.key);
        let open = Open {
            number: self.announced,
            session: call.session.into(),
            id: call.id.into(),
            is_childs: call.is_childs,
            card: Card::default(),
        };
        self.open.insert(call.key.as_ref().into(), open);
    }

    fn merge(&mut self, call: &CallId<'_>, update: &RawValue, outlet: &mut Outlet<'_>) {
        self.keep(&call.key, |card| card.merge(update));
        while self.bytes > REPLAY_CALLS_BYTES_MAX {
            self.relieve(outlet);
        }
    }

    fn keep(&mut self, key: &str, change: impl FnOnce(&mut Card)) {
        if let Some(open) = self.open.get_mut(key) {
            self.bytes -= open.card.bytes();
            change(&mut open.card);
            self.bytes += open.card.bytes();
        }
    }

    /// Shows early what is known of the largest call, and keeps nothing of it.
    fn relieve(&mut self, outlet: &mut Outlet<'_>) {
        let largest = self.open.values_mut().max_by_key(|open| (open.card.bytes(), open.number));
        if let Some(open) = largest {
            let card = std::mem::take(&mut open.card);
            self.bytes -= card.bytes();
            outlet.written(card.update(&open.session, &open.id, Show::Text(outlet.terminals)));
        }
    }

    fn end(&mut self, call: &CallId<'_>, outlet: &mut Outlet<'_>) {
        if let Some(open) = self.open.remove(&*call.key) {
            self.bytes -= open.card.bytes();
            outlet.written(open.card.update(&open.session, &open.id, Show::Text(outlet.terminals)));
            self.ended.add(call.key.as_ref().into());
        }
    }

    fn close(&mut self, is_over: impl Fn(&Open) -> bool, outlet: &mut Outlet<'_>) {
        let mut over: Vec<_> = self.open.extract_if(|_, open| is_over(open)).collect();
        over.sort_unstable_by_key(|(_, open)| open.number);
        for (key, mut open) in over {
            self.bytes -= open.card.bytes();
            open.card.set("status", "\"failed\"");
            outlet.written(open.card.update(&open.session, &open.id, Show::Text(outlet.terminals)));
            self.ended.add(key);
        }
    }
}

/// The call that a permission is asked for, as the announcement that never came.
fn announcement(session: &str, tool_call: &RawValue) -> String {
    let (mut members, mut has_title) = (Vec::new(), false);
    visit::object(tool_call.get(), |name, value| {
        has_title |= name == "title" && !visit::is_null(value);
        if name != "sessionUpdate" && !visit::is_null(value) && members.len() < usize::from(u8::MAX) {
            members.push((name.to_owned(), bulk::member(name, value.get(), Show::Omit)));
        }
    });
    let title = (!has_title).then_some(("title", "\"\""));
    let members = members.iter().map(|(name, value)| (name.as_str(), &**value));
    author::update(session, "tool_call", members.filter(|(_, value)| *value != "null").chain(title))
}

/// How a call is named.
struct CallId<'a> {
    key: Cow<'a, str>,
    /// Its session as the host knows it, quoted.
    session: &'a str,
    id: &'a str,
    is_childs: bool,
}

impl<'a> CallId<'a> {
    /// Nothing for an id that is none (R106).
    fn of(session: &'a RawValue, id: Option<&'a RawValue>, whose: Whose, names: &'a Names) -> Option<Self> {
        let body = id.and_then(visit::body)?;
        let id = id.filter(|_| !body.is_empty() && body.len() <= TOOL_CALL_ID_BYTES_MAX)?.get();
        Some(match whose {
            Whose::Child => {
                let session = session.get();
                Self { key: Cow::Owned([session, id].concat()), session, id, is_childs: true }
            }
            _ => Self { key: Cow::Borrowed(id), session: names.ours(), id, is_childs: false },
        })
    }
}

/// Ids of the calls that ended lately: the newer half, and the older one.
#[derive(Debug, Default)]
struct Ended {
    newer: HashSet<Box<str>>,
    older: HashSet<Box<str>>,
}

impl Ended {
    fn add(&mut self, key: Box<str>) {
        if self.newer.len() == TOOL_CALLS_MAX {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(key);
    }

    fn has(&self, key: &str) -> bool {
        self.newer.contains(key) || self.older.contains(key)
    }

    fn remove(&mut self, key: &str) {
        self.newer.remove(key);
        self.older.remove(key);
    }
}
