//! Modes and options of a session: what may be set, what is stored, what a new process is told (R170 to R181, R284).
//! Pure.
//!
//! Owns what is stored, what the peer offers, and the daemon's own option beside it. A change is stored before anybody
//! hears of it, one at a time; what could not be stored is not in force.
//!
//! ```text
//!   host asks --> Own ------------------------------> save --> saved --> notices, reply
//!             '-> Forward --> peer answers: answered --^
//!   peer says --> heard --> Save ----------------------^
//! ```

mod asking;
mod change;
mod hearing;
mod knob;
mod line;
mod offer;
mod own;
mod restore;
mod saving;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use serde_json::{json, value::RawValue};

pub use asking::{Answered, Decision};
pub use change::{By, Change, Setting, Way};
pub use hearing::Heard;
pub use own::from_stored;
pub use restore::Step;
pub use saving::{Outcome, Saved};

use self::{
    change::raw,
    knob::{About, Knob},
    offer::{Known, Offer},
};
use crate::{
    id::SessionId,
    policy::Approval,
    store,
    wire::{Frame, parse::text, patch::Object},
};

/// The settings of one session.
#[derive(Debug)]
pub struct Settings {
    stored: store::Settings,
    offer: Offer,
    /// Options may change while a turn runs (`options_during_turn`, R178).
    during_turn: bool,
    /// The peer has an option of our id.
    beside: bool,
    /// The peer says that it has modes, though it lists none.
    speaks_of_modes: bool,
    /// The mode and the options that the host last knew of.
    shown: Option<(String, String)>,
    /// Forwarded, and not answered yet.
    open: usize,
    /// To be stored, in order.
    saves: VecDeque<Change>,
    /// What is being written for the first of them.
    writing: Option<store::Settings>,
    stage: Stage,
}

/// How far the process has come.
#[derive(Debug)]
enum Stage {
    /// It opens a session in which nothing was set: what it says goes to the host, and is no change.
    Opening,
    /// It is told what was set. What it says meanwhile is not what will be, and nobody hears it.
    Restoring(VecDeque<Setting>),
    /// What it says is so.
    Settled,
}

impl Settings {
    /// As they are stored. `during_turn`: options of the peer may change while a turn runs.
    pub fn new(stored: store::Settings, during_turn: bool) -> Self {
        let mut new = Self {
            stored,
            offer: Offer::default(),
            during_turn,
            beside: false,
            speaks_of_modes: false,
            shown: None,
            open: 0,
            saves: VecDeque::new(),
            writing: None,
            stage: Stage::Opening,
        };
        new.begin();
        new
    }

    /// What is stored, and in force.
    pub fn stored(&self) -> &store::Settings {
        &self.stored
    }

    /// Who decides what the policy does not.
    pub fn approval(&self) -> Approval {
        from_stored(self.stored.approval)
    }

    /// The process is gone, or another one is being started: what comes next is said by the next one.
    pub fn peer_gone(&mut self) {
        if self.shown.is_some() {
            self.shown = Some(self.view());
        }
        self.open = 0;
        self.begin();
    }

    /// A process holds the session now: the result that set it up, and whether the session is new to it. Then
    /// [`Self::restore`].
    pub fn set_up(&mut self, result: &Object, fresh: bool) {
        self.offer.learn(result, fresh);
        self.note_own_id();
        self.begin();
    }

    /// A set-up answer as the host gets it: what the peer offers, as it stands now, and the daemon's own (R175).
    #[must_use]
    pub fn decorate(&mut self, mut result: Object) -> Object {
        match self.offer.modes.listed() {
            Some(modes) => result.set("modes", modes.raw()),
            None if self.shows_own_modes() => result.set("modes", &own::modes(self.approval())),
            None => {}
        }
        if let Some(models) = self.offer.models.listed() {
            result.set("models", models.raw());
        }
        result.set("configOptions", &self.list());
        self.shown = Some(self.view());
        result
    }

    /// What the host is told of a change that was stored, before the answer (R170). Of the peer's settings the peer
    /// tells itself.
    #[must_use]
    pub fn notices(&self, session: &SessionId, change: &Change) -> Vec<Frame> {
        if !change.is_own() {
            return Vec::new();
        }
        let mode = self.shows_own_modes().then(|| line::current_mode(session, self.approval().id()));
        // The answer to an option holds the list.
        let listed = matches!(change.by, By::Host(_, Way::Option));
        let list = (!listed).then(|| line::options(session, &self.list()));
        mode.into_iter().chain(list).collect()
    }

    /// The answer to the host: to an option with the complete list (R177), else the peer's own where there is one.
    pub fn reply(&self, way: Way, answer: Option<Frame>) -> Frame {
        if way != Way::Option {
            return answer.unwrap_or_else(|| Frame::result(&json!({})));
        }
        let peers = answer.as_ref().and_then(|answer| answer.member("result"));
        let mut result = peers.map(|result| Object::of(result.get())).unwrap_or_default();
        result.set("configOptions", &self.list());
        Frame::result(&result)
    }

    /// Another process was told everything: what the host is to be told of what it offers now, if that is not what the
    /// host was shown.
    #[must_use]
    pub fn resync(&mut self, session: &SessionId) -> Vec<Frame> {
        let Some((modes, options)) = self.shown.replace(self.view()) else { return Vec::new() };
        let now = self.view();
        let current = self.offer.modes.listed().and_then(|modes| modes.current()).filter(|_| now.0 != modes);
        let mode = current.map(|id| line::current_mode(session, &id));
        let list = (now.1 != options).then(|| line::options(session, &self.list()));
        mode.into_iter().chain(list).collect()
    }

    /// The process has something to be told, or nothing was set yet.
    fn begin(&mut self) {
        let order = restore::order(&self.stored);
        let silent = self.shown.is_none() && order.is_empty();
        self.stage = if silent { Stage::Opening } else { Stage::Restoring(order) };
    }

    /// The peer has it now.
    fn is_set(&mut self, setting: &Setting, answer: &Frame) {
        let result = Object::of(answer.member("result").map_or("{}", RawValue::get));
        let listed = self.offer.learn_options(&result);
        self.note_own_id();
        match setting {
            Setting::Mode(id) => self.has_mode(id),
            Setting::Model(id) => {
                self.offer.models.listed_mut().into_iter().for_each(|models| models.choose(id));
            }
            Setting::Option { id, value } => {
                let knob = self.offer.knob_mut(id);
                let is_mode = knob.as_ref().is_some_and(|knob| knob.about() == About::Mode);
                knob.filter(|_| !listed).into_iter().for_each(|knob| knob.turn(&raw(value)));
                let mode = text(&raw(value)).into_owned();
                let modes = self.offer.modes.listed_mut().filter(|modes| is_mode && modes.lists(&mode));
                modes.into_iter().for_each(|modes| modes.choose(&mode));
            }
            Setting::Approval(_) => {}
        }
    }

    /// The peer's mode is this one; an option about the mode says the same.
    fn has_mode(&mut self, id: &str) {
        self.offer.modes.listed_mut().into_iter().for_each(|modes| modes.choose(id));
        let value = serde_json::value::to_raw_value(id).expect("a string is plain data");
        let options = self.offer.options.listed_mut().into_iter().flatten();
        let about = |knob: &&mut Knob| knob.about() == About::Mode && knob.objection(&value).is_none();
        options.filter(about).for_each(|knob| knob.turn(&value));
    }

    /// Whether nothing is under way: what is known is what is so.
    fn is_quiet(&self) -> bool {
        self.open == 0 && self.saves.is_empty()
    }

    fn shows_own_modes(&self) -> bool {
        match self.offer.modes {
            Known::Listed(_) => false,
            Known::Nothing => !self.speaks_of_modes,
            Known::Unknown => !self.speaks_of_modes && self.stored.mode.is_none(),
        }
    }

    fn own_id(&self) -> &'static str {
        if self.beside { own::ID_BESIDE } else { own::ID }
    }

    /// Once the peer had an option of our id, ours keeps the other one.
    fn note_own_id(&mut self) {
        self.beside |= self.offer.knob(own::ID).is_some();
    }

    /// The complete list of options: the peer's as they were written, and the daemon's own.
    fn list(&self) -> Vec<Box<RawValue>> {
        let peers = self.offer.knobs().iter().map(|knob| knob.raw().to_owned());
        peers.chain([own::option(self.own_id(), self.approval())]).collect()
    }

    fn view(&self) -> (String, String) {
        let modes = self.offer.modes.listed().map(|modes| modes.current().unwrap_or_default());
        let list: Vec<String> = self.list().iter().map(|option| option.get().to_owned()).collect();
        (modes.unwrap_or_default(), list.join(","))
    }
}

/// A member that is a string.
fn word(object: &Object, key: &str) -> Option<String> {
    serde_json::from_str(object.get(key)?.get()).ok()
}
