//! A headless run as an ordinary host speaks it: initialize, session/new, one prompt, session/close (R30). A session
//! that is gone on with is resumed instead, and not closed: its inbox and its next host need it.
//!
//! Owns the ledger of one connection and decides what is said next; the lines to send wait in its outbox. Pure: no
//! socket, no clock. Invariant: every request of the daemon is answered, and the run always ends.
//!
//! ```text
//! Initializing -> Creating -> Prompting -> Closing -> Over
//!       any stage -> Over (interrupt, deadline)      Prompting -> Prompting (aborted: cancel was sent)
//! ```

#[cfg(test)]
mod tests;

use std::{collections::VecDeque, mem, time::Duration};

use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::{
    budget::{Budget, Watch},
    consent::{self, Asked, Choice, Question},
    outcome::{Abort, Ended, Outcome},
};
use crate::{
    event::{Event, Mapper},
    limits::{CANCEL_GRACE_MS, OPEN_PERMISSIONS_MAX},
    wire::{Frame, Method, RpcError, frame::Class},
};

/// How long the answer to a cancelled prompt is waited for: the daemon's own grace and some.
const CANCELLED_MAX: Duration = Duration::from_millis(CANCEL_GRACE_MS + 5_000);
/// How long session/close is waited for; the connection's end closes the session as well.
const CLOSE_MAX: Duration = Duration::from_secs(10);

/// What is to be done.
#[derive(Debug)]
pub(super) struct Task {
    /// Absolute working directory.
    pub cwd: String,
    /// The session to go on with; without it a new one.
    pub resume: Option<String>,
    /// The whole prompt.
    pub prompt: String,
    /// Whether somebody can be asked.
    pub attended: bool,
    /// Limits.
    pub budget: Budget,
}

/// Who sees the events.
pub(super) trait Sink {
    /// One event. What goes wrong with showing it is the sink's own affair.
    fn event(&mut self, event: &Event<'_>);
}

/// Why there is no session to run in.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("open a session: {method} was refused: {message}")]
pub(in crate::cli) struct SetUpError {
    method: &'static str,
    message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Initializing,
    Creating,
    Prompting,
    Closing,
    Over,
}

/// The run so far.
pub(super) struct Conversation {
    task: Task,
    stage: Stage,
    /// Id of the one request that is open.
    open: u64,
    outbox: Vec<String>,
    initialize: Option<Box<RawValue>>,
    agent: Option<String>,
    session: Option<Session>,
    questions: VecDeque<Question>,
    watch: Watch,
    /// When a cancelled prompt or a close is not waited for any longer.
    patience: Option<Duration>,
    outcome: Outcome,
}

struct Session {
    id: String,
    mapper: Mapper,
}

impl Conversation {
    /// Begins with initialize. Neither files nor terminals are offered.
    pub fn new(task: Task) -> Self {
        let mut new = Self {
            watch: Watch::new(task.budget),
            task,
            stage: Stage::Initializing,
            open: 0,
            outbox: Vec::new(),
            initialize: None,
            agent: None,
            session: None,
            questions: VecDeque::new(),
            patience: None,
            outcome: Outcome { ended: Ended::Unanswered, abort: None, refused: 0 },
        };
        let client = json!({ "name": "acpvisor-run", "version": env!("CARGO_PKG_VERSION") });
        let params = json!({ "protocolVersion": 1, "clientCapabilities": {}, "clientInfo": client });
        new.request("initialize", params);
        new
    }

    /// The lines to send, in order.
    pub fn take_outbox(&mut self) -> Vec<String> {
        mem::take(&mut self.outbox)
    }

    /// The session, once it is there.
    pub fn session(&self) -> Option<&str> {
        self.session.as_ref().map(|session| session.id.as_str())
    }

    /// What the agent calls itself.
    pub fn agent(&self) -> String {
        self.agent.clone().unwrap_or_else(|| "The agent".to_owned())
    }

    /// The question that somebody has to answer.
    pub fn question(&self) -> Option<&Question> {
        self.questions.front()
    }

    /// What it came to, once it is over.
    pub fn outcome(&self) -> Option<&Outcome> {
        (self.stage == Stage::Over).then_some(&self.outcome)
    }

    /// When [`Self::tick`] is due.
    pub fn deadline(&self) -> Option<Duration> {
        self.due().map(|(at, _)| at)
    }

    /// A line came.
    pub fn frame(&mut self, frame: &Frame, now: Duration, sink: &mut impl Sink) -> Result<(), SetUpError> {
        self.watch.hear(now);
        match frame.class() {
            Class::Request(Method::RequestPermission) => self.permission(frame, sink),
            Class::Request(_) => {
                self.keep(frame, sink);
                self.reply_error(frame, &RpcError::method_not_found(&frame.method_name()));
            }
            Class::Notification(method) => self.notification(method, frame, now, sink),
            Class::Response { ok } if frame.id_number() == Some(self.open) => {
                return self.answer(ok, frame, now, sink);
            }
            Class::Response { .. } | Class::Unrecognised => {
                // under no id, and no session is there: it is about the connection
                if let (None, Some(error), Some(b"null")) = (&self.session, frame.member("error"), frame.id())
                {
                    return Err(set_up("the connection", error));
                }
                self.stray(frame, sink);
            }
        }
        Ok(())
    }

    /// A line that is no JSON came.
    pub fn junk(&mut self, line: &[u8], sink: &mut impl Sink) {
        if let Some(session) = &self.session {
            sink.event(&session.mapper.unparsed(line));
        }
    }

    /// The connection ended; tells whether that was to be expected.
    pub fn hung_up(&mut self) -> bool {
        let expected = self.stage == Stage::Closing || self.outcome.abort.is_some();
        self.stage = Stage::Over;
        expected
    }

    /// Somebody answered the question; without a choice they would not say.
    pub fn choose(&mut self, choice: Option<&Choice>, now: Duration) {
        self.watch.hear(now);
        if let Some(question) = self.questions.pop_front() {
            self.reply(&question.id, &choice.map_or_else(consent::cancelled, consent::selected));
        }
    }

    /// Ends the run from our side: cancels the turn, and waits for its answer for a while.
    pub fn abort(&mut self, why: Abort, now: Duration) {
        self.outcome.abort.get_or_insert(why);
        match self.stage {
            Stage::Prompting if self.patience.is_none() => {
                self.notify("session/cancel");
                for question in mem::take(&mut self.questions) {
                    self.reply(&question.id, &consent::cancelled());
                }
                self.patience = Some(now + CANCELLED_MAX);
            }
            Stage::Prompting => {}
            Stage::Initializing | Stage::Creating | Stage::Closing | Stage::Over => self.stage = Stage::Over,
        }
    }

    /// Time passed.
    pub fn tick(&mut self, now: Duration) {
        match self.due().filter(|(at, _)| *at <= now) {
            Some((_, Due::Abort(why))) => self.abort(why, now),
            Some((_, Due::GiveUp)) if self.stage == Stage::Prompting => self.close(now),
            Some((_, Due::GiveUp)) => self.stage = Stage::Over,
            None => {}
        }
    }

    fn due(&self) -> Option<(Duration, Due)> {
        if let Some(at) = self.patience {
            return Some((at, Due::GiveUp));
        }
        let silent = self.stage == Stage::Prompting
            && self.questions.is_empty()
            && self.session.as_ref().is_some_and(|session| !session.mapper.has_open_calls());
        self.watch.next(silent).map(|(at, why)| (at, Due::Abort(why)))
    }

    fn notification(&mut self, method: Method, frame: &Frame, now: Duration, sink: &mut impl Sink) {
        if method == Method::CancelRequest {
            self.withdraw(frame);
        }
        let Some(session) = &mut self.session else { return };
        let mut over = false;
        for event in session.mapper.notification(&frame.method_name(), frame.member("params"), whole(frame)) {
            if let Event::Text { message_id, .. } = &event {
                over |= self.watch.is_over(message_id.as_deref());
            }
            sink.event(&event);
        }
        if over && self.stage == Stage::Prompting {
            self.abort(Abort::Turns, now);
        }
    }

    /// A question that the daemon takes back is answered all the same.
    fn withdraw(&mut self, frame: &Frame) {
        let Some(id) = frame.request_id().map(String::from_utf8_lossy) else { return };
        if let Some(at) = self.questions.iter().position(|question| *question.id == id) {
            self.questions.remove(at);
            self.reply_error_to(&id, &RpcError::cancelled());
        }
    }

    fn permission(&mut self, frame: &Frame, sink: &mut impl Sink) {
        self.keep(frame, sink);
        let asked = Asked::read(frame.member("params"));
        let Some(session) = self.session.as_mut().filter(|ours| asked.session.as_deref() == Some(&*ours.id))
        else {
            let other = asked.session.unwrap_or_default();
            return self.reply_error(frame, &RpcError::unknown_session(&other));
        };
        let call_id = asked.call_id();
        let call = session.mapper.described(asked.tool_call);
        let question = asked.question(&id_of(frame), call);
        if self.outcome.abort.is_some() {
            self.reply(&question.id, &consent::cancelled());
        } else if self.task.attended && self.questions.len() < OPEN_PERMISSIONS_MAX {
            self.questions.push_back(question);
        } else {
            self.outcome.refused += 1;
            let denied =
                session.mapper.refused(&call_id, &question.call.kind, &question.refusal(), whole(frame));
            sink.event(&denied);
            self.reply(&question.id, &question.unattended());
        }
    }

    fn answer(
        &mut self,
        ok: bool,
        frame: &Frame,
        now: Duration,
        sink: &mut impl Sink,
    ) -> Result<(), SetUpError> {
        let member = frame.member(if ok { "result" } else { "error" });
        let body = member.unwrap_or(RawValue::NULL);
        match self.stage {
            Stage::Initializing => {
                self.initialized(ok.then_some(body).ok_or_else(|| set_up("initialize", body))?)
            }
            Stage::Creating => {
                let opening = self.opening();
                self.created(ok.then_some(body).ok_or_else(|| set_up(opening, body))?, now, sink)?;
            }
            Stage::Prompting => self.prompted(ok, body, now, sink),
            Stage::Closing => self.stage = Stage::Over,
            Stage::Over => {}
        }
        Ok(())
    }

    fn initialized(&mut self, answer: &RawValue) {
        let said: Value = serde_json::from_str(answer.get()).unwrap_or_default();
        let name = |key: &str| said["agentInfo"][key].as_str().filter(|name| !name.is_empty());
        self.agent = name("title").or(name("name")).map(|name| format!("The agent `{name}`"));
        self.initialize = Some(answer.to_owned());
        self.stage = Stage::Creating;
        let mut params = json!({ "cwd": self.task.cwd, "mcpServers": [] });
        if let Some(id) = &self.task.resume {
            params["sessionId"] = id.as_str().into();
        }
        self.request(self.opening(), params);
    }

    fn created(&mut self, answer: &RawValue, now: Duration, sink: &mut impl Sink) -> Result<(), SetUpError> {
        let (id, mapper) = match &self.task.resume {
            Some(id) => (id.clone(), Mapper::taken_up(id)),
            None => new_session(answer)?,
        };
        let initialize = self.initialize.take();
        sink.event(&mapper.init(initialize.as_deref().unwrap_or(RawValue::NULL), answer));
        let prompt = json!([{ "type": "text", "text": mem::take(&mut self.task.prompt) }]);
        let params = json!({ "sessionId": id, "prompt": prompt });
        self.session = Some(Session { id, mapper });
        self.stage = Stage::Prompting;
        self.watch.hear(now);
        self.request("session/prompt", params);
        Ok(())
    }

    fn prompted(&mut self, ok: bool, body: &RawValue, now: Duration, sink: &mut impl Sink) {
        let id = self.open;
        if let Some(session) = &mut self.session {
            let result = if ok { session.mapper.answered(body) } else { session.mapper.failed(id, body) };
            self.outcome.ended = ended(ok, body, &result);
            sink.event(&result);
        }
        self.close(now);
    }

    fn opening(&self) -> &'static str {
        if self.task.resume.is_some() { "session/resume" } else { "session/new" }
    }

    fn close(&mut self, now: Duration) {
        self.stage = if self.task.resume.is_some() { Stage::Over } else { Stage::Closing };
        self.patience = Some(now + CLOSE_MAX);
        for question in mem::take(&mut self.questions) {
            self.reply(&question.id, &consent::cancelled());
        }
        if self.stage == Stage::Closing {
            let params = json!({ "sessionId": self.session() });
            self.request("session/close", params);
        }
    }

    fn keep(&self, frame: &Frame, sink: &mut impl Sink) {
        if let Some(session) = &self.session {
            sink.event(&session.mapper.request(whole(frame)));
        }
    }

    fn stray(&self, frame: &Frame, sink: &mut impl Sink) {
        let Some(session) = &self.session else { return };
        match frame.class() {
            Class::Response { .. } => sink.event(&session.mapper.unmatched(whole(frame))),
            _ => self.keep(frame, sink),
        }
    }

    fn request(&mut self, method: &str, params: Value) {
        self.open += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": self.open, "method": method, "params": params }));
    }

    fn notify(&mut self, method: &str) {
        let params = json!({ "sessionId": self.session() });
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    fn send(&mut self, line: &Value) {
        self.outbox.push(format!("{line}\n"));
    }

    fn reply(&mut self, id: &str, result: &Value) {
        self.outbox.push(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n"));
    }

    fn reply_error(&mut self, frame: &Frame, error: &RpcError) {
        self.reply_error_to(&id_of(frame), error);
    }

    fn reply_error_to(&mut self, id: &str, error: &RpcError) {
        let error = json!(error);
        self.outbox.push(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{error}}}\n"));
    }
}

fn new_session(answer: &RawValue) -> Result<(String, Mapper), SetUpError> {
    #[derive(Deserialize)]
    struct New {
        #[serde(rename = "sessionId")]
        id: String,
    }
    let unnamed = |_| SetUpError { method: "session/new", message: "the answer names no session".to_owned() };
    let New { id } = serde_json::from_str(answer.get()).map_err(unnamed)?;
    let mapper = Mapper::new(&id);
    Ok((id, mapper))
}

enum Due {
    Abort(Abort),
    GiveUp,
}

/// The id of a request, as written.
fn id_of(frame: &Frame) -> String {
    String::from_utf8_lossy(frame.id().unwrap_or(b"null")).into_owned()
}

/// The whole line as a value.
fn whole(frame: &Frame) -> &RawValue {
    serde_json::from_slice(frame.line()).unwrap_or(RawValue::NULL)
}

fn ended(ok: bool, body: &RawValue, result: &Event<'_>) -> Ended {
    match result {
        Event::Result { text, is_error, stop_reason, .. } if ok => Ended::Answered {
            natural: !is_error,
            stop_reason: stop_reason.clone(),
            text: !text.trim().is_empty(),
        },
        _ => Ended::Failed(format!("the prompt failed: {}", said(body))),
    }
}

fn set_up(method: &'static str, error: &RawValue) -> SetUpError {
    SetUpError { method, message: said(error) }
}

/// An error object for people.
fn said(error: &RawValue) -> String {
    let value: Value = serde_json::from_str(error.get()).unwrap_or_default();
    let message = value["message"].as_str().unwrap_or("no message");
    let hint = if value["code"] == -32000 { "; log in with the agent's own program first" } else { "" };
    format!("{message} ({}){hint}", value["code"])
}
