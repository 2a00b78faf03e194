//! What a host may set, and what the peer answers to it (R172, R177, R178, R180). Pure.

use serde_json::{json, value::RawValue};

use super::{
    Settings,
    change::{Change, Setting, Way},
    knob::{quoted, same_value, shown},
    offer::Known,
    own, word,
};
use crate::{
    id::Token,
    policy::Approval,
    wire::{
        Frame, RpcError,
        frame::Class,
        parse::{repeats_a_key, text},
        patch::Object,
    },
};

/// What to do with a host's request.
#[derive(Debug)]
#[must_use]
pub enum Decision {
    /// Send it to the peer as it is, and bring its answer to [`Settings::answered`].
    Forward(Change),
    /// It is the daemon's own: [`Settings::save`].
    Own(Change),
    /// It is so already: answer this.
    Same(Frame),
    /// Answer this; nothing changes.
    Refuse(RpcError),
}

/// What to do with an answer of the peer to what was forwarded.
#[derive(Debug)]
#[must_use]
pub enum Answered {
    /// The peer refused: pass its answer on.
    Refused,
    /// Keep the answer, and [`Settings::save`].
    Save(Change),
}

impl Settings {
    /// A host asks for a setting. `turn_runs`: R178.
    pub fn ask(&mut self, token: Token, way: Way, request: &Frame, turn_runs: bool) -> Decision {
        let params = request.member("params").map_or("{}", RawValue::get);
        if repeats_a_key(params) {
            return refuse("an object repeats a key, so its meaning is not certain");
        }
        let params = Object::of(params);
        let decision = match way {
            Way::Mode => match word(&params, "modeId") {
                Some(id) => self.ask_mode(token, id),
                None => refuse("`modeId` is not a string"),
            },
            Way::Model => match word(&params, "modelId") {
                Some(id) => self.ask_model(token, id, turn_runs),
                None => refuse("`modelId` is not a string"),
            },
            Way::Option => match (word(&params, "configId"), params.get("value")) {
                (Some(id), Some(value)) => self.ask_option(token, id, value, turn_runs),
                (None, _) => refuse("`configId` is not a string"),
                (_, None) => refuse("`value` is missing"),
            },
        };
        self.open += usize::from(matches!(decision, Decision::Forward(_)));
        decision
    }

    /// The peer answered what was forwarded.
    pub fn answered(&mut self, change: Change, answer: &Frame) -> Answered {
        self.open = self.open.saturating_sub(1);
        if answer.class() != (Class::Response { ok: true }) {
            return Answered::Refused;
        }
        change.set.iter().for_each(|setting| self.is_set(setting, answer));
        Answered::Save(change)
    }

    /// What was forwarded will not be answered: the request is refused in another way.
    pub fn unanswered(&mut self) {
        self.open = self.open.saturating_sub(1);
    }

    fn ask_mode(&self, token: Token, id: String) -> Decision {
        let own = Approval::of(&id).filter(|_| self.shows_own_modes());
        match (&self.offer.modes, own) {
            (_, Some(approval)) => self.ask_own(token, Way::Mode, approval),
            (Known::Listed(modes), _) if !modes.lists(&id) => {
                refuse(format!("unknown mode {}; there are {}", quoted(&id), shown(modes.ids())))
            }
            (Known::Nothing, _) if self.shows_own_modes() => {
                let ids = Approval::ALL.map(Approval::id);
                refuse(format!("unknown mode {}; there are {}", quoted(&id), shown(&ids)))
            }
            // Not every peer that has modes says so when it takes a session up (OPT-03).
            (modes, _) => {
                let before = modes.listed().and_then(|modes| modes.current());
                if self.is_quiet() && before.as_ref() == Some(&id) {
                    return Decision::Same(self.reply(Way::Mode, None));
                }
                let before = before.map(Setting::Mode);
                Decision::Forward(Change::of_host(token, Way::Mode, Setting::Mode(id), before))
            }
        }
    }

    fn ask_model(&self, token: Token, id: String, turn_runs: bool) -> Decision {
        let models = self.offer.models.listed();
        if let Some(models) = models.filter(|models| !models.lists(&id)) {
            return refuse(format!("unknown model {}; there are {}", quoted(&id), shown(models.ids())));
        }
        let before = models.and_then(|models| models.current());
        if self.is_quiet() && before.as_ref() == Some(&id) {
            return Decision::Same(self.reply(Way::Model, None));
        }
        if turn_runs && !self.during_turn {
            return Decision::Refuse(not_now());
        }
        let before = before.map(Setting::Model);
        Decision::Forward(Change::of_host(token, Way::Model, Setting::Model(id), before))
    }

    fn ask_option(&self, token: Token, id: String, value: &RawValue, turn_runs: bool) -> Decision {
        if id == own::ID_BESIDE || id == self.own_id() {
            return match Approval::of(&text(value)) {
                Some(approval) => self.ask_own(token, Way::Option, approval),
                None => refuse(format!("{id} takes one of {}", shown(&Approval::ALL.map(Approval::id)))),
            };
        }
        let knob = self.offer.knob(&id).filter(|_| !id.is_empty());
        if knob.is_none() && !matches!(self.offer.options, Known::Unknown) {
            let ids: Vec<&str> =
                self.offer.knobs().iter().map(|knob| knob.id()).chain([self.own_id()]).collect();
            return refuse(format!("unknown option {}; there are {}", quoted(&id), shown(&ids)));
        }
        if let Some(objection) = knob.and_then(|knob| knob.objection(value)) {
            return refuse(format!("option {} {objection}", quoted(&id)));
        }
        let before = knob.and_then(|knob| knob.current());
        if self.is_quiet() && before.as_ref().is_some_and(|before| same_value(before, value.get())) {
            return Decision::Same(self.reply(Way::Option, None));
        }
        if turn_runs && !self.during_turn {
            return Decision::Refuse(not_now());
        }
        let before = before.map(|value| Setting::Option { id: id.clone(), value });
        let setting = Setting::Option { id, value: value.get().to_owned() };
        Decision::Forward(Change::of_host(token, Way::Option, setting, before))
    }

    fn ask_own(&self, token: Token, way: Way, approval: Approval) -> Decision {
        if self.saves.is_empty() && approval == self.approval() {
            return Decision::Same(self.reply(way, None));
        }
        Decision::Own(Change::of_host(token, way, Setting::Approval(approval), None))
    }
}

fn refuse(why: impl Into<String>) -> Decision {
    Decision::Refuse(RpcError::invalid_params(why))
}

fn not_now() -> RpcError {
    RpcError::invalid_request("options do not change while a prompt runs; cancel it, or wait for its end")
        .with(json!({ "retryable": true }))
}
