//! One change of the settings: what is set, who wants it, and what it does to what is stored. Pure.

use serde_json::value::RawValue;
use smallvec::SmallVec;

use super::{knob::About, offer::Offer, own};
use crate::{id::Token, policy::Approval, store, wire::parse::text};

/// One thing that is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setting {
    /// The daemon's own (R141).
    Approval(Approval),
    /// The peer's mode.
    Mode(String),
    /// The peer's model, by the older `session/set_model`.
    Model(String),
    /// An option of the peer.
    Option {
        /// Its id.
        id: String,
        /// Its value, as JSON text.
        value: String,
    },
}

/// By which request something is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// `session/set_mode`.
    Mode,
    /// `session/set_config_option`.
    Option,
    /// The older `session/set_model`.
    Model,
}

/// Who wants a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The host: this request of it waits for the answer.
    Host(Token, Way),
    /// The peer changed it by itself (R174).
    Peer,
}

/// A change, from its request until it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Who wants it.
    pub by: By,
    /// What is set; a peer may change several things at once.
    pub set: SmallVec<[Setting; 1]>,
    /// What it was before, as far as that is known.
    pub(super) before: Option<Setting>,
}

impl Way {
    /// The way of that method's name.
    pub fn of(method: &str) -> Option<Self> {
        match method {
            "session/set_mode" => Some(Self::Mode),
            "session/set_config_option" => Some(Self::Option),
            "session/set_model" => Some(Self::Model),
            _ => None,
        }
    }
}

impl Change {
    /// Of a host's request.
    pub(super) fn of_host(token: Token, way: Way, setting: Setting, before: Option<Setting>) -> Self {
        Self { by: By::Host(token, way), set: SmallVec::from_buf([setting]), before }
    }

    /// Of the peer's own doing.
    pub(super) fn of_peer(set: SmallVec<[Setting; 1]>) -> Self {
        Self { by: By::Peer, set, before: None }
    }

    /// Whether it is the daemon's own setting that changes.
    pub fn is_own(&self) -> bool {
        self.set.iter().any(|setting| matches!(setting, Setting::Approval(_)))
    }

    /// What is stored with it.
    pub(super) fn apply(&self, stored: &store::Settings, offer: &Offer) -> store::Settings {
        let mut next = stored.clone();
        self.set.iter().for_each(|setting| put(&mut next, setting, offer));
        next
    }
}

/// Sets one thing. Mode and model can be set in two ways: what was set last is what counts (R284).
fn put(stored: &mut store::Settings, setting: &Setting, offer: &Offer) {
    match setting {
        Setting::Approval(approval) => stored.approval = own::to_stored(*approval),
        Setting::Mode(id) => {
            stored.mode = Some(id.clone());
            stored.options.retain(|(option, _)| about(option, offer) != About::Mode);
        }
        Setting::Model(id) => {
            stored.model = Some(id.clone());
            stored.options.retain(|(option, _)| about(option, offer) != About::Model);
        }
        Setting::Option { id, value } => put_option(stored, id, value, offer),
    }
}

fn put_option(stored: &mut store::Settings, id: &str, value: &str, offer: &Offer) {
    let other_way = match about(id, offer) {
        About::Mode => Some(&mut stored.mode),
        About::Model => Some(&mut stored.model),
        About::Other => None,
    };
    // Many peers say both: then it is stored already.
    if other_way.as_ref().is_some_and(|way| way.as_deref() == Some(&*text(&raw(value)))) {
        return;
    }
    other_way.into_iter().for_each(|way| *way = None);
    match stored.options.iter_mut().find(|(option, _)| option == id) {
        Some((_, old)) => value.clone_into(old),
        None => stored.options.push((id.to_owned(), value.to_owned())),
    }
}

/// What an option is about.
pub(super) fn about(option: &str, offer: &Offer) -> About {
    offer.knob(option).map_or_else(|| About::of(option), super::knob::Knob::about)
}

/// The value as it was written.
pub(super) fn raw(value: &str) -> Box<RawValue> {
    RawValue::from_string(value.to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
