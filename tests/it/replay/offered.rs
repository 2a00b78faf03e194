//! What of a session can be set, as its host is to see it: the agent's own, and the daemon's beside it (R175). Pure.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

/// What of it stands in an answer that opens a session.
const MODES: &str = "modes";
const OPTIONS: &str = "configOptions";
const MODELS: &str = "models";

/// The ids of the daemon's four modes (R171).
const APPROVALS: [&str; 4] = ["default", "auto-edit", "yolo", "plan"];

/// What a session offers, and how it is set.
#[derive(Clone, Default)]
pub struct Offered {
    modes: Option<Value>,
    models: Option<Value>,
    options: Option<Vec<Value>>,
    /// The agent did not say what it has: it takes a session up.
    unsaid: bool,
    /// The mode as it was set last: by itself, or as an option.
    mode: Option<Value>,
    mode_option: Option<Value>,
    /// Other options and the model as they were set last.
    kept: HashMap<String, Value>,
}

/// What comes of a request that sets something (R172, R177, R178, R180).
#[derive(Debug, PartialEq, Eq)]
pub enum Asked {
    /// The agent is asked.
    Forwarded,
    /// It is so already.
    Same,
    /// It cannot be, for that reason.
    Refused(i64),
}

impl Offered {
    /// A process was given the session: learns from its answer.
    pub fn opened(&mut self, result: &Value, fresh: bool) {
        *self = Self {
            unsaid: !fresh,
            mode: self.mode.take(),
            mode_option: self.mode_option.take(),
            kept: std::mem::take(&mut self.kept),
            ..Self::default()
        };
        let listed = |name: &str, list: &str| {
            let has = result[name][list].as_array().is_some_and(|all| !all.is_empty());
            has.then(|| result[name].clone())
        };
        self.modes = listed(MODES, "availableModes");
        self.models = listed(MODELS, "availableModels");
        self.options = result[OPTIONS].as_array().cloned();
    }

    /// The answer as the host gets it.
    pub fn decorate(&self, result: &Value) -> Value {
        let mut members = result.as_object().cloned().unwrap_or_default();
        self.stamp(&mut members);
        Value::Object(members)
    }

    /// The answer that takes the session up as it is: without an id (R48).
    pub fn answer(&self) -> Value {
        let mut members = Map::new();
        members.extend(self.models.clone().map(|models| (MODELS.to_owned(), models)));
        self.stamp(&mut members);
        Value::Object(members)
    }

    /// Whether that is the answer.
    pub fn is_answered(&self, result: &Value) -> bool {
        fits(result, &self.answer())
    }

    /// A history shows mode and options as they are.
    pub fn assert_shown(&self, [mode, options]: [Option<&Value>; 2]) {
        let modes = self.modes.as_ref().or(mode.filter(|_| !self.is_shown_own()));
        assert_eq!(mode.map(|mode| &mode[MODE.current]), mode.and(modes).map(|modes| &modes[MODE.current]));
        let list = options.map(|options| json!({ OPTIONS: options[OPTIONS] }));
        let right = list.as_ref().is_none_or(|list| fits(list, &json!({ OPTIONS: self.list() })));
        assert!(right, "a history shows options {list:?} instead of {}", self.list());
    }

    fn stamp(&self, members: &mut Map<String, Value>) {
        match &self.modes {
            Some(modes) => drop(members.insert(MODES.to_owned(), modes.clone())),
            None if self.is_shown_own() => drop(members.insert(MODES.to_owned(), json!(null))),
            None => {}
        }
        if let Some(models) = self.models.clone().filter(|_| members.contains_key(MODELS)) {
            members.insert(MODELS.to_owned(), models);
        }
        members.insert(OPTIONS.to_owned(), self.list());
    }

    /// Whether the host sees the daemon's modes.
    pub fn is_shown_own(&self) -> bool {
        self.modes.is_none() && !(self.unsaid && self.mode.is_some())
    }

    /// The complete list; in place of the daemon's own option a hole ([`fits`]).
    pub fn list(&self) -> Value {
        self.options.iter().flatten().cloned().chain([Value::Null]).collect()
    }

    /// The agent tells the complete list.
    pub fn options(&mut self, from: &Value) -> bool {
        let list = from[OPTIONS].as_array();
        self.options = list.cloned().or(self.options.take());
        list.is_some()
    }

    /// Members of the answer to `session/new` that would open the same.
    pub fn members(&self) -> Value {
        let mut members = json!({});
        let shared = [(MODES, self.modes.clone()), (MODELS, self.models.clone())];
        let options = self.options.clone().map(Value::Array);
        for (name, value) in shared.into_iter().chain([(OPTIONS, options)]) {
            value.into_iter().for_each(|value| members[name] = value);
        }
        members
    }

    /// The host asks for a setting.
    pub fn asked(&self, method: &str, params: &Value, turn: bool) -> Asked {
        match method {
            "session/set_mode" => Self::choice(&self.modes, &MODE, &params["modeId"], false),
            "session/set_model" => Self::choice(&self.models, &MODEL, &params["modelId"], turn),
            _ => match self.options.iter().flatten().find(|option| option["id"] == params["configId"]) {
                Some(option) if option["currentValue"] == params["value"] => Asked::Same,
                Some(_) if turn => Asked::Refused(-32600),
                Some(_) => Asked::Forwarded,
                None => Asked::Refused(-32602),
            },
        }
    }

    fn choice(choices: &Option<Value>, names: &Names, id: &Value, turn: bool) -> Asked {
        let Some(choices) = choices else { return Asked::Forwarded };
        let all = choices[names.all].as_array().expect("it is a list");
        match all.iter().any(|choice| choice[names.id] == *id) {
            false => Asked::Refused(-32602),
            true if choices[names.current] == *id => Asked::Same,
            true if turn => Asked::Refused(-32600),
            true => Asked::Forwarded,
        }
    }

    /// The agent has it now.
    pub fn set(&mut self, method: &str, params: &Value, result: &Value) {
        let listed = self.options(result);
        if let Some((name, value)) = named(method, params) {
            self.kept.insert(name.to_owned(), value.clone());
        }
        let about = match method {
            "session/set_mode" => return self.has_mode(&params["modeId"]),
            "session/set_model" => return choose(&mut self.models, &MODEL, &params["modelId"]),
            _ => self.options.iter_mut().flatten().find(|option| option["id"] == params["configId"]),
        };
        let Some(option) = about else { return };
        if !listed {
            option["currentValue"] = params["value"].clone();
        }
        if is_mode(option) && self.mode.as_ref() != Some(&params["value"]) {
            choose(&mut self.modes, &MODE, &params["value"]);
            (self.mode, self.mode_option) = (None, Some(params["value"].clone()));
        }
    }

    /// Another process is told what was set last (R284).
    pub fn assert_kept(&self, method: &str, params: &Value) {
        let kept = match method {
            "session/set_mode" => self.mode.as_ref() == Some(&params["modeId"]),
            _ if params["configId"] == "mode" => self.mode_option.as_ref() == Some(&params["value"]),
            _ => named(method, params).is_some_and(|(name, value)| self.kept.get(name) == Some(value)),
        };
        assert!(kept, "{method} of {params} was never set");
    }

    /// The agent says its mode; it is kept unless it is what was set.
    pub fn says_mode(&mut self, id: &Value) {
        if self.mode.as_ref().or(self.mode_option.as_ref()) != Some(id) {
            self.has_mode(id);
        }
    }

    fn has_mode(&mut self, id: &Value) {
        (self.mode, self.mode_option) = (Some(id.clone()), None);
        choose(&mut self.modes, &MODE, id);
        let options = self.options.iter_mut().flatten().filter(|option| is_mode(option));
        options.for_each(|option| option["currentValue"] = id.clone());
    }
}

struct Names {
    current: &'static str,
    all: &'static str,
    id: &'static str,
}

const MODE: Names = Names { current: "currentModeId", all: "availableModes", id: "id" };
const MODEL: Names = Names { current: "currentModelId", all: "availableModels", id: "modelId" };

fn choose(choices: &mut Option<Value>, names: &Names, id: &Value) {
    choices.iter_mut().for_each(|choices| choices[names.current] = id.clone());
}

/// What a request sets, of what is no mode.
fn named<'p>(method: &str, params: &'p Value) -> Option<(&'p str, &'p Value)> {
    match method {
        "session/set_model" => Some(("model", &params["modelId"])),
        "session/set_config_option" => Some((params["configId"].as_str()?, &params["value"])),
        _ => None,
    }
}

fn is_mode(option: &Value) -> bool {
    option["category"] == "mode" || option["id"] == "mode"
}

/// Whether that is it, with the daemon's own where `expected` has holes: its option at the end of the list, its four
/// modes where the agent has none.
pub fn fits(got: &Value, expected: &Value) -> bool {
    let mut plain = got.clone();
    let holder = if expected[OPTIONS].is_array() { Some(&mut plain) } else { plain.get_mut("update") };
    let Some(holder) = holder else { return false };
    let own = holder[OPTIONS].as_array_mut().and_then(|list| Some((list.pop()?, list.push(Value::Null))));
    let modes = holder.get_mut(MODES).filter(|_| expected.get(MODES) == Some(&Value::Null));
    let modes = modes.map(Value::take);
    let right = own.is_some_and(|(own, ())| is_own_option(&own)) && modes.is_none_or(|m| is_own_modes(&m));
    right && plain == *expected
}

fn is_own_option(option: &Value) -> bool {
    let values: Vec<&Value> =
        option["options"].as_array().into_iter().flatten().map(|o| &o["value"]).collect();
    let right = option["id"] == "approval" && option["type"] == "select" && values == APPROVALS;
    right && option["currentValue"] == "default" && option["name"].is_string()
}

fn is_own_modes(modes: &Value) -> bool {
    let ids: Vec<&Value> =
        modes["availableModes"].as_array().into_iter().flatten().map(|m| &m["id"]).collect();
    ids == APPROVALS && modes["currentModeId"] == "default"
}
