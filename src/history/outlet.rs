//! Where the updates of a replay leave: each under the right name, none larger than it has to be. Pure.

use bytes::Bytes;

use super::{
    author, bulk,
    content::{self, Show},
    line::{Line, Update},
    names::Names,
    terminals::Terminals,
    visit,
};
use crate::{limits::REPLAY_TEXT_BYTES_MAX, wire::Frame};

/// Takes updates, with what is known for them.
pub(super) struct Outlet<'a> {
    pub names: &'a Names,
    pub terminals: &'a Terminals,
    pub out: &'a mut Vec<Frame>,
}

impl Outlet<'_> {
    /// An update that was put together here.
    pub fn written(&mut self, line: String) {
        self.out.push(self.names.written(line));
    }

    /// A line as it was written, under our name.
    pub fn passed(&mut self, line: &Bytes) {
        self.out.extend(self.names.rewritten(line));
    }

    /// An update of a tool call as it was written, but for what is too large, and for terminals.
    pub fn call(&mut self, line: &Bytes, update: &Update<'_>, terminals: Show<'_>) {
        let names_terminal = || update.content.is_some_and(|content| content::names_terminal(content.get()));
        if update.raw.get().len() <= REPLAY_TEXT_BYTES_MAX && !names_terminal() {
            return self.passed(line);
        }
        let Some(frame) = self.names.rewritten(line) else { return };
        if let Some(Line::Update(update)) = Line::read(frame.line()) {
            self.written(shorter(&update, terminals));
        }
    }
}

fn shorter(update: &Update<'_>, terminals: Show<'_>) -> String {
    let (mut kind, mut members) = (None, Vec::new());
    visit::object(update.raw.get(), |name, value| match name {
        "sessionUpdate" => kind = visit::text(value),
        _ if members.len() < usize::from(u8::MAX) => {
            members.push((name.to_owned(), bulk::member(name, value.get(), terminals)));
        }
        _ => {}
    });
    members.retain(|(_, value)| value != "null");
    let members = members.iter().map(|(name, value)| (name.as_str(), &**value));
    author::update(update.session.get(), &kind.unwrap_or_default(), members)
}
