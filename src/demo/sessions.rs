//! The sessions of this process and the turn that runs in each.
//!
//! Keeps no conversation: a resumed session is a new one under the old id.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc::Sender},
};

use serde_json::{Value, json};

use super::{error::Refusal, turn::Event};

const MODES: [&str; 2] = ["default", "plan"];
const MODELS: [&str; 2] = ["demo-small", "demo-large"];

/// One conversation.
#[derive(Debug)]
struct Session {
    cwd: PathBuf,
    mode: &'static str,
    model: &'static str,
    turn: Option<Running>,
}

/// The turn of a session, as seen by who cancels it.
#[derive(Debug)]
struct Running {
    request: Value,
    events: Sender<Event>,
}

/// All sessions. Cheap to clone; all clones are one table.
#[derive(Debug, Clone, Default)]
pub(super) struct Sessions(Arc<Mutex<HashMap<String, Session>>>);

impl Sessions {
    /// Opens a session, anew or again; returns its modes and options.
    pub fn open(&self, id: &str, cwd: PathBuf) -> Value {
        let session = Session { cwd, mode: MODES[0], model: MODELS[0], turn: None };
        let settings = session.settings();
        self.lock().insert(id.to_owned(), session);
        settings
    }

    /// Cancels what runs and forgets the session.
    pub fn close(&self, id: &str) -> Result<(), Refusal> {
        let session = self.lock().remove(id).ok_or_else(|| Refusal::session(id))?;
        session.cancel();
        Ok(())
    }

    /// Enters a turn; returns the directory it runs in.
    pub fn begin(&self, id: &str, request: Value, events: Sender<Event>) -> Result<PathBuf, Refusal> {
        let mut all = self.lock();
        let session = all.get_mut(id).ok_or_else(|| Refusal::session(id))?;
        if session.turn.is_some() {
            return Err(Refusal::request("a turn of this session is running; one at a time"));
        }
        session.turn = Some(Running { request, events });
        Ok(session.cwd.clone())
    }

    /// Takes the turn out again.
    pub fn end(&self, id: &str) {
        if let Some(session) = self.lock().get_mut(id) {
            session.turn = None;
        }
    }

    /// Cancels the turn of that session, if there is one.
    pub fn cancel(&self, id: &str) {
        if let Some(session) = self.lock().get(id) {
            session.cancel();
        }
    }

    /// Cancels the turn that began with that request.
    pub fn cancel_request(&self, request: &Value) {
        let all = self.lock();
        let asked = |s: &&Session| s.turn.as_ref().is_some_and(|t| t.request == *request);
        if let Some(session) = all.values().find(asked) {
            session.cancel();
        }
    }

    /// Sets the mode.
    pub fn set_mode(&self, id: &str, mode: &str) -> Result<Value, Refusal> {
        let known = MODES.into_iter().find(|m| *m == mode);
        let known = known.ok_or_else(|| Refusal::params(format!("{mode:?} is none of {MODES:?}")))?;
        self.lock().get_mut(id).ok_or_else(|| Refusal::session(id))?.mode = known;
        Ok(json!({}))
    }

    /// Sets the one option; answers with the complete list.
    pub fn set_option(&self, id: &str, option: &str, value: &str) -> Result<Value, Refusal> {
        if option != "model" {
            return Err(Refusal::params(format!("{option:?} is no option; there is only \"model\"")));
        }
        let known = MODELS.into_iter().find(|m| *m == value);
        let known = known.ok_or_else(|| Refusal::params(format!("{value:?} is none of {MODELS:?}")))?;
        let mut all = self.lock();
        let session = all.get_mut(id).ok_or_else(|| Refusal::session(id))?;
        session.model = known;
        Ok(json!({"configOptions": session.options()}))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Session>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    fn cancel(&self) {
        if let Some(turn) = &self.turn {
            let _ = turn.events.send(Event::Cancel);
        }
    }

    fn settings(&self) -> Value {
        let modes = [
            json!({"id": "default", "name": "Default", "description": "Acts, and asks before it changes anything"}),
            json!({"id": "plan", "name": "Plan", "description": "Only says what it would do"}),
        ];
        json!({
            "modes": {"currentModeId": self.mode, "availableModes": modes},
            "configOptions": self.options(),
        })
    }

    fn options(&self) -> Value {
        let choices = MODELS.map(|model| json!({"value": model, "name": model}));
        json!([{
            "id": "model", "name": "Model", "category": "model", "type": "select",
            "currentValue": self.model, "options": choices,
        }])
    }
}
