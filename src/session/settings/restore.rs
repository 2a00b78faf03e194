//! What a new process is told of what was set: mode, model, options, one after the other, before its first prompt
//! (R284). Pure.

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::{
    Settings, Stage,
    change::{Setting, raw},
    line,
    offer::Known,
};
use crate::{
    id::SessionId,
    store,
    wire::{Frame, RpcError, frame::Class},
};

/// What comes next.
#[derive(Debug)]
#[must_use]
pub enum Step {
    /// Send this request, and bring its answer to [`Settings::restored`].
    Ask(Setting, Frame),
    /// This cannot be set: tell the host, and go on.
    Lost(Lost),
    /// The process was told everything.
    Done,
}

/// A setting that a new process does not take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// Which.
    pub setting: Setting,
    /// Why.
    pub why: String,
}

impl Lost {
    /// For the host, as a member of `_meta.acpvisor`.
    pub fn facts(&self) -> Value {
        let what = match &self.setting {
            Setting::Approval(approval) => json!({ "approval": approval.id() }),
            Setting::Mode(id) => json!({ "mode": id }),
            Setting::Model(id) => json!({ "model": id }),
            Setting::Option { id, value } => json!({ "option": id, "value": raw(value) }),
        };
        json!({ "settingLost": { "setting": what, "reason": self.why } })
    }
}

/// What is stored, in the order it is set again.
pub(super) fn order(stored: &store::Settings) -> VecDeque<Setting> {
    let mode = stored.mode.clone().map(Setting::Mode);
    let model = stored.model.clone().map(Setting::Model);
    let option = |(id, value): &(String, String)| Setting::Option { id: id.clone(), value: value.clone() };
    mode.into_iter().chain(model).chain(stored.options.iter().map(option)).collect()
}

impl Settings {
    /// What the new process is told next. What it offers is looked at anew each time: one answer may change what is
    /// offered next.
    pub fn restore(&mut self, session: &SessionId) -> Step {
        let next = if let Stage::Restoring(order) = &mut self.stage { order.pop_front() } else { None };
        let Some(setting) = next else {
            self.stage = Stage::Settled;
            return Step::Done;
        };
        match (self.withheld(&setting), line::request(session, &setting)) {
            (Some(why), _) => Step::Lost(Lost { setting, why }),
            (None, Some(request)) => Step::Ask(setting, request),
            (None, None) => self.restore(session),
        }
    }

    /// The new process answered; what it refused is told to the host.
    #[must_use]
    pub fn restored(&mut self, setting: Setting, answer: &Frame) -> Option<Lost> {
        if answer.class() == (Class::Response { ok: true }) {
            self.is_set(&setting, answer);
            return None;
        }
        let code = answer.member("error").map_or(-32603, |error| RpcError::of(error).code);
        Some(Lost { setting, why: format!("the agent refused it ({code})") })
    }

    /// Whether a new process was told everything.
    #[cfg(test)]
    pub fn is_settled(&self) -> bool {
        matches!(self.stage, Stage::Settled)
    }

    /// Why it cannot be asked for any more.
    fn withheld(&self, setting: &Setting) -> Option<String> {
        let gone = || Some("the agent does not offer it any more".to_owned());
        match setting {
            Setting::Approval(_) => None,
            Setting::Mode(id) => match &self.offer.modes {
                Known::Listed(modes) if !modes.lists(id) => gone(),
                Known::Nothing => gone(),
                Known::Listed(_) | Known::Unknown => None,
            },
            // A peer may take the older request without a list of models.
            Setting::Model(id) => match &self.offer.models {
                Known::Listed(models) if !models.lists(id) => gone(),
                Known::Listed(_) | Known::Nothing | Known::Unknown => None,
            },
            Setting::Option { id, value } => match (self.offer.knob(id), &self.offer.options) {
                (Some(knob), _) => knob.objection(&raw(value)),
                (None, Known::Unknown) => None,
                (None, _) => gone(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        session::settings::{
            Heard,
            tests::{RICH, mode_update, opened, options_update, session, set_mode, succeeds, told, values},
        },
        wire::patch::Object,
    };

    /// What was set in a session with a rich peer.
    fn set() -> store::Settings {
        let options = [("effort", "\"high\""), ("fast", "true"), ("gone", "1")];
        store::Settings {
            approval: store::Approval::Plan,
            mode: Some("code".to_owned()),
            model: Some("m2".to_owned()),
            options: options.map(|(id, value)| (id.to_owned(), value.to_owned())).to_vec(),
        }
    }

    /// What a process is told in order, and what is lost, while it takes everything but what `refuses` names.
    fn restored(settings: &mut Settings, refuses: &str) -> (Vec<String>, Vec<Value>) {
        let (mut asked, mut lost) = (vec![], vec![]);
        loop {
            match settings.restore(&session()) {
                Step::Ask(setting, request) => {
                    let params: Value =
                        serde_json::from_str(request.member("params").unwrap().get()).unwrap();
                    let value =
                        ["modeId", "modelId", "value"].into_iter().find_map(|key| params.get(key)).unwrap();
                    asked.push(format!("{} {value}", request.method_name()));
                    let refused =
                        request.line().windows(refuses.len().max(1)).any(|w| w == refuses.as_bytes());
                    let answer = if refused {
                        Frame::error(&RpcError::internal("no"))
                    } else {
                        Frame::result(&json!({}))
                    };
                    lost.extend(settings.restored(setting, &answer).map(|lost| lost.facts()));
                }
                Step::Lost(it) => lost.push(it.facts()),
                Step::Done => return (asked, lost),
            }
        }
    }

    /// R284: a new process is told mode, model and options in their order before its first prompt, and the host what it
    /// does not take.
    #[test]
    fn settings_come_back() {
        let mut s = Settings::new(set(), false);
        s.set_up(&Object::of(RICH), false);
        assert!(!s.is_settled());
        let (asked, lost) = restored(&mut s, "\"effort\"");
        let want = [
            r#"session/set_mode "code""#,
            r#"session/set_model "m2""#,
            r#"session/set_config_option "high""#,
            "session/set_config_option true",
        ];
        assert_eq!((asked, s.is_settled()), (want.map(String::from).to_vec(), true));
        let effort = json!({ "option": "effort", "value": "high" });
        let reason = "the agent refused it (-32603)";
        assert_eq!(lost[0], json!({ "settingLost": { "setting": effort, "reason": reason } }));
        assert_eq!((lost.len(), &lost[1]["settingLost"]["setting"]["option"]), (2, &json!("gone")));
        // The answer shows what is so now.
        let answer = serde_json::to_value(s.decorate(Object::of(RICH))).unwrap();
        assert_eq!(
            (&answer["modes"]["currentModeId"], &answer["models"]["currentModelId"]),
            (&json!("code"), &json!("m2"))
        );
        let want = [
            ("mode", json!("code")),
            ("effort", json!("low")),
            ("fast", json!(true)),
            ("approval", json!("plan")),
        ];
        assert_eq!(values(&answer["configOptions"]), want.map(|(id, value)| (id.to_owned(), value)));
        assert_eq!(s.stored(), &set());
    }

    /// R284: only what it still offers; a process that says nothing of what it offers is asked for everything.
    #[test]
    fn a_process_is_asked_for_what_it_still_offers() {
        let mut s = Settings::new(set(), false);
        s.set_up(
            &Object::of(r#"{"configOptions":[{"id":"fast","type":"select","options":[{"value":"a"}]}]}"#),
            true,
        );
        let (asked, lost) = restored(&mut s, "");
        assert_eq!(asked, [r#"session/set_model "m2""#]);
        assert_eq!(lost.len(), 4);
        let mut s = Settings::new(set(), false);
        s.set_up(&Object::default(), false);
        let (asked, lost) = restored(&mut s, "");
        assert_eq!((asked.len(), lost.len()), (5, 0));
    }

    /// R284: what a new process says before it was told is neither stored nor shown; in the end the host hears what is
    /// different.
    #[test]
    fn the_noise_of_a_new_process_changes_nothing() {
        let mut s = opened(RICH);
        let decision = set_mode(&mut s, "code");
        succeeds(&mut s, decision);
        s.peer_gone();
        assert!(matches!(s.heard(&mode_update("ask")), Heard::Swallow));
        s.set_up(&Object::of(RICH), false);
        assert!(matches!(s.heard(&mode_update("ask")), Heard::Swallow));
        assert!(matches!(
            s.heard(&options_update(json!([{ "id": "effort", "currentValue": "low" }]))),
            Heard::Swallow
        ));
        let (asked, lost) = restored(&mut s, "");
        assert_eq!((asked.as_slice(), lost.len()), ([r#"session/set_mode "code""#.to_owned()].as_slice(), 0));
        assert_eq!(s.stored().mode.as_deref(), Some("code"));
        let told: Vec<Value> = s.resync(&session()).iter().map(told).collect();
        assert_eq!((told.len(), &told[0]["sessionUpdate"]), (1, &json!("config_option_update")));
        assert!(s.resync(&session()).is_empty());

        // What was never set is not told to it, and the host hears of it in the end all the same.
        let mut unset = opened(RICH);
        unset.peer_gone();
        assert!(matches!(unset.heard(&mode_update("code")), Heard::Swallow));
        assert_eq!(restored(&mut unset, "").0.len(), 0);
        assert_eq!(unset.resync(&session()).len(), 2);

        // A process that refuses the mode is in another one, and the host hears so.
        s.peer_gone();
        s.set_up(&Object::of(RICH), false);
        let (_, lost) = restored(&mut s, "set_mode");
        assert_eq!(lost.len(), 1);
        let told = s.resync(&session()).iter().map(told_kind).collect::<Vec<_>>();
        assert_eq!(told, ["current_mode_update", "config_option_update"]);
    }

    fn told_kind(frame: &Frame) -> String {
        told(frame)["sessionUpdate"].as_str().unwrap().to_owned()
    }
}
