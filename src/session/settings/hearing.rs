//! What the peer says of modes and options by itself (R174, R175). Pure.

use serde_json::value::RawValue;
use smallvec::SmallVec;

use super::{
    Settings, Stage,
    change::{Change, Setting, about, raw},
    knob::{About, same_value},
    line, word,
};
use crate::{
    id::SessionId,
    wire::{Frame, Method, frame::Class, parse::text, patch::Object},
};

/// What to do with an update of the peer.
#[derive(Debug)]
#[must_use]
pub enum Heard {
    /// Pass it on as it is.
    Pass,
    /// Pass this on instead.
    PassAs(Frame),
    /// Pass this on after it was stored ([`Settings::save`]); what the peer says after it waits so long (R174).
    Save(Change, Option<Frame>),
    /// It is about modes that the host does not see, or about what a new process will not have for long: what it has in
    /// the end the host is told by [`Settings::decorate`] or [`Settings::resync`].
    Swallow,
}

impl Settings {
    /// An update of the peer's session.
    pub fn heard(&mut self, frame: &Frame) -> Heard {
        if frame.class() != Class::Notification(Method::SessionUpdate) || frame.sessions().is_empty() {
            return Heard::Pass;
        }
        let params = Object::of(frame.member("params").map_or("{}", RawValue::get));
        let update = params.object("update");
        match update.get("sessionUpdate").map(text).as_deref() {
            Some("current_mode_update") => self.heard_mode(&update),
            Some("config_option_update") => self.heard_options(params, update),
            _ => Heard::Pass,
        }
    }

    /// An update of history, as a host is shown it: as it stands now, and nothing of modes that it does not see (R37,
    /// R175).
    #[must_use]
    pub fn retold(&self, session: &SessionId, frame: Frame) -> Option<Frame> {
        // A child's are its own.
        if frame.sessions().is_empty() {
            return Some(frame);
        }
        let params = Object::of(frame.member("params").map_or("{}", RawValue::get));
        if params.object("update").marks("configOptions") {
            return Some(line::options(session, &self.list()));
        }
        let current = self.offer.modes.listed().and_then(|modes| modes.current());
        let now = current.map(|id| line::current_mode(session, &id));
        now.or_else(|| (!self.shows_own_modes()).then_some(frame))
    }

    fn heard_mode(&mut self, update: &Object) -> Heard {
        let id = word(update, "currentModeId").or_else(|| word(update, "modeId"));
        let Some(id) = id else { return Heard::Pass };
        if self.shows_own_modes() {
            if self.shown.is_some() {
                return Heard::Swallow;
            }
            self.speaks_of_modes = true;
        }
        self.has_mode(&id);
        match self.stage {
            Stage::Opening => Heard::Pass,
            Stage::Restoring(_) => Heard::Swallow,
            Stage::Settled if self.mode_stored().as_deref() == Some(&id) => Heard::Pass,
            Stage::Settled => Heard::Save(Change::of_peer(SmallVec::from_buf([Setting::Mode(id)])), None),
        }
    }

    fn heard_options(&mut self, mut params: Object, mut update: Object) -> Heard {
        if !self.offer.learn_options(&update) {
            return Heard::Pass;
        }
        self.note_own_id();
        update.set("configOptions", &self.list());
        params.set("update", &update);
        let frame = Frame::notification("session/update", &params);
        match self.stage {
            Stage::Opening => Heard::PassAs(frame),
            Stage::Restoring(_) => Heard::Swallow,
            Stage::Settled => match self.changed_by_peer() {
                set if set.is_empty() => Heard::PassAs(frame),
                set => Heard::Save(Change::of_peer(set), Some(frame)),
            },
        }
    }

    /// What was set once, and the peer's list says otherwise now.
    fn changed_by_peer(&self) -> SmallVec<[Setting; 1]> {
        let mut set = SmallVec::new();
        for knob in self.offer.knobs() {
            let Some(value) = knob.current() else { continue };
            let stored = self.stored.options.iter().find(|(id, _)| id == knob.id());
            if stored.is_some_and(|(_, stored)| !same_value(stored, &value)) {
                set.push(Setting::Option { id: knob.id().to_owned(), value });
                continue;
            }
            let id = text(&raw(&value)).into_owned();
            let (known, stored) = match knob.about() {
                About::Mode => (self.offer.modes.listed(), &self.stored.mode),
                About::Model => (self.offer.models.listed(), &self.stored.model),
                About::Other => continue,
            };
            let differs = stored.as_ref().is_some_and(|stored| *stored != id);
            if differs && known.is_some_and(|known| known.lists(&id)) {
                let is_mode = knob.about() == About::Mode;
                set.push(if is_mode { Setting::Mode(id) } else { Setting::Model(id) });
            }
        }
        set
    }

    /// The mode that is stored, in whichever way it was set.
    fn mode_stored(&self) -> Option<String> {
        let option = self.stored.options.iter().find(|(id, _)| about(id, &self.offer) == About::Mode);
        self.stored.mode.clone().or_else(|| option.map(|(_, value)| text(&raw(value)).into_owned()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::session::settings::tests::{RICH, opened, update};

    /// R33: updates about anything else, of children, or without a list, pass untouched.
    #[test]
    fn other_updates_pass() {
        let mut s = opened(RICH);
        for other in [
            json!({ "sessionUpdate": "agent_message_chunk" }),
            json!({ "sessionUpdate": "current_mode_update" }),
            json!({ "sessionUpdate": "config_option_update", "configOptions": 3 }),
            json!({}),
        ] {
            assert!(matches!(s.heard(&update(other)), Heard::Pass));
        }
        let child = json!({ "update": { "sessionUpdate": "current_mode_update", "currentModeId": "code" } });
        assert!(matches!(s.heard(&Frame::notification("session/update", &child)), Heard::Pass));
        assert!(matches!(s.heard(&Frame::notification("_x/current_mode_update", &json!({}))), Heard::Pass));
    }
}
