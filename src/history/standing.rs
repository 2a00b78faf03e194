//! What counts only as it stands in the end: the plan, the mode, the options, the title, the usage (R37). Pure.
//!
//! Owns the last of each. Mode and options also change by what the host sets and the peer acknowledges; the session's
//! title and its like are put together, because each update of them says only what changed.

use std::collections::VecDeque;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::{
    author,
    card::Card,
    line::{self, Update},
    outlet::Outlet,
    visit,
};
use crate::{
    limits::{ID_BYTES_MAX, REPLAY_WHOLE_BYTES_MAX},
    wire::Frame,
};

/// Requests of the host's that are remembered until they are answered.
const ASKED_MAX: usize = 64;

/// The last of each.
#[derive(Debug, Default)]
pub(super) struct Standing {
    plan: Option<Frame>,
    mode: Option<Frame>,
    options: Option<Frame>,
    info: Card,
    usage: Option<Frame>,
    asked: VecDeque<(Box<str>, Asked)>,
}

#[derive(Debug)]
enum Asked {
    /// The mode of that id, as written.
    Mode(Box<str>),
    /// Some option; the answer says all.
    Option,
}

impl Standing {
    /// An update. One that is too large to be kept passes where it stands.
    pub fn note(&mut self, kind: line::Standing, line: &Bytes, update: &Update<'_>, outlet: &mut Outlet<'_>) {
        if kind == line::Standing::Info {
            return self.info(update.raw);
        }
        let large = line.len() > REPLAY_WHOLE_BYTES_MAX;
        if large {
            outlet.passed(line);
        }
        *self.last(kind) = outlet.names.rewritten(line).filter(|_| !large);
    }

    /// The host sets something.
    pub fn asked(&mut self, id: &RawValue, method: &str, params: &RawValue) {
        let asked = match method {
            "session/set_mode" => {
                visit::member(params.get(), "modeId").map(|id| Asked::Mode(id.get().into()))
            }
            "session/set_config_option" => Some(Asked::Option),
            _ => None,
        };
        let Some(asked) = asked.filter(|_| params.get().len() + id.get().len() <= ID_BYTES_MAX * 2) else {
            return;
        };
        if self.asked.len() == ASKED_MAX {
            self.asked.pop_front();
        }
        self.asked.push_back((id.get().into(), asked));
    }

    /// The peer answers.
    pub fn answered(&mut self, id: &RawValue, outcome: Result<&RawValue, &RawValue>, outlet: &Outlet<'_>) {
        let Some(at) = self.asked.iter().position(|(asked, _)| **asked == *id.get()) else { return };
        let (Some((_, asked)), Ok(result)) = (self.asked.remove(at), outcome) else { return };
        let update = |kind, member, value: &str| {
            outlet.names.written(author::update(outlet.names.ours(), kind, [(member, value)].into_iter()))
        };
        match asked {
            Asked::Mode(id) => self.mode = Some(update("current_mode_update", "currentModeId", &id)),
            Asked::Option => {
                let options = visit::member(result.get(), "configOptions");
                let options = options.filter(|all| all.get().len() <= REPLAY_WHOLE_BYTES_MAX);
                let all = options.map(|all| update("config_option_update", "configOptions", all.get()));
                self.options = all.or(self.options.take());
            }
        }
    }

    /// The peer that was asked is gone.
    pub fn forget(&mut self) {
        self.asked.clear();
    }

    /// Lets all of them out.
    pub fn finish(&mut self, outlet: &mut Outlet<'_>) {
        let before = [self.plan.take(), self.mode.take(), self.options.take()];
        outlet.out.extend(before.into_iter().flatten());
        if !self.info.is_empty() {
            let info = std::mem::take(&mut self.info);
            outlet.written(info.patch(outlet.names.ours(), "session_info_update"));
        }
        outlet.out.extend(self.usage.take());
    }

    fn info(&mut self, update: &RawValue) {
        visit::object(update.get(), |name, value| {
            if name != "sessionUpdate" && value.get().len() <= REPLAY_WHOLE_BYTES_MAX {
                self.info.set(name, value.get());
            }
        });
    }

    fn last(&mut self, kind: line::Standing) -> &mut Option<Frame> {
        match kind {
            line::Standing::Plan => &mut self.plan,
            line::Standing::Mode => &mut self.mode,
            line::Standing::Options => &mut self.options,
            line::Standing::Info | line::Standing::Usage => &mut self.usage,
        }
    }
}
