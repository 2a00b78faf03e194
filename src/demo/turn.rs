//! One prompt and its answer, in a thread of its own: updates out, questions to the client, and the cancel.
//!
//! Answers and the cancel come through one inbox, so a turn waits in one place only. After a cancel every
//! step fails with [`Cancelled`]; the client has a second for answers that are still out.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, Sender},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{client::Offered, connection::Connection, script::Script, sessions::Sessions, story, tricks};

/// How long a cancelled turn waits for an answer that is still out.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// What reaches a running turn.
#[derive(Debug)]
pub(super) enum Event {
    /// The client answers the turn's own request of that id.
    Answer(u64, Answer),
    /// The client wants the turn to end.
    Cancel,
}

/// The client's answer: its result, or its error.
pub(super) type Answer = Result<Value, Value>;

/// The turn was cancelled; nothing more is to be done in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cancelled;

/// What happens once the prompt is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Afterwards {
    /// Nothing, as it should be.
    Nothing,
    /// The process exits.
    Exit,
    /// That many updates come late.
    Updates(u32),
}

/// A running turn.
pub(super) struct Turn {
    connection: Arc<Connection>,
    session: String,
    cwd: PathBuf,
    client: Offered,
    events: Sender<Event>,
    inbox: Receiver<Event>,
    cancelled: Option<Instant>,
}

/// Plays what the prompt asks for, answers it, and does what comes after the answer.
pub(super) fn run(mut turn: Turn, prompt: &str, id: Value, connection: &Connection, sessions: &Sessions) {
    let played = match Script::parse(prompt) {
        Script::Story(text) => story::tell(&mut turn, &text).map(|()| Afterwards::Nothing),
        script => tricks::play(&mut turn, script),
    };
    // Before the answer: the client may prompt again as soon as it has it.
    sessions.end(&turn.session);
    let reason = if played.is_ok() { "end_turn" } else { "cancelled" };
    connection.reply(id, Ok(json!({"stopReason": reason})));
    match played.unwrap_or(Afterwards::Nothing) {
        Afterwards::Nothing => {}
        Afterwards::Exit => std::process::exit(0),
        Afterwards::Updates(count) => (0..count).for_each(|n| turn.text(&format!("late {n}"))),
    }
}

impl Turn {
    /// A turn of that session with its own inbox.
    pub fn new(
        connection: Arc<Connection>,
        session: String,
        cwd: PathBuf,
        client: Offered,
        (events, inbox): (Sender<Event>, Receiver<Event>),
    ) -> Self {
        Self { connection, session, cwd, client, events, inbox, cancelled: None }
    }

    /// Id of its session.
    pub fn session(&self) -> &str {
        &self.session
    }

    /// Directory of its session.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// What the client offers.
    pub fn client(&self) -> Offered {
        self.client
    }

    /// The wire, for those who do on it what one should not.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Sends one update.
    pub fn update(&self, update: &Value) {
        self.connection.notify("session/update", json!({"sessionId": self.session, "update": update}));
    }

    /// Sends a piece of the answer.
    pub fn text(&self, text: &str) {
        let content = json!({"type": "text", "text": text});
        self.update(&json!({"sessionUpdate": "agent_message_chunk", "content": content}));
    }

    /// Sends a piece of thought.
    pub fn thought(&self, text: &str) {
        let content = json!({"type": "text", "text": text});
        self.update(&json!({"sessionUpdate": "agent_thought_chunk", "content": content}));
    }

    /// An id for a tool call that no other call of this process has.
    pub fn fresh_call(&self) -> String {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        format!("call-{}", NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Announces a tool call.
    pub fn tool_call(&self, mut call: Value) {
        call["sessionUpdate"] = "tool_call".into();
        self.update(&call);
    }

    /// Changes a tool call that was announced.
    pub fn tool_update(&self, mut call: Value) {
        call["sessionUpdate"] = "tool_call_update".into();
        self.update(&call);
    }

    /// Fails once the turn is cancelled.
    pub fn check(&mut self) -> Result<(), Cancelled> {
        while let Ok(event) = self.inbox.try_recv() {
            self.note(&event);
        }
        if self.cancelled.is_some() { Err(Cancelled) } else { Ok(()) }
    }

    /// Lets time pass, unless the turn is cancelled meanwhile.
    pub fn pause(&mut self, time: Duration) -> Result<(), Cancelled> {
        self.check()?;
        let until = Instant::now() + time;
        while let Ok(event) = self.inbox.recv_timeout(until.saturating_duration_since(Instant::now())) {
            self.note(&event);
            self.check()?;
        }
        Ok(())
    }

    /// Asks the client and waits for its answer, after a cancel a second at most.
    pub fn ask(&mut self, method: &str, params: Value) -> Result<Answer, Cancelled> {
        self.ask_with(method, params, LAST_ANSWERS)
    }

    /// Asks the client and stops waiting as soon as the turn is cancelled.
    pub fn ask_unless_cancelled(&mut self, method: &str, params: Value) -> Result<Answer, Cancelled> {
        self.ask_with(method, params, Duration::ZERO)
    }

    /// Asks the client and does not care for the answer.
    pub fn tell(&self, method: &str, params: Value) {
        let _unread = self.connection.ask(method, params, self.events.clone());
    }

    /// Waits for ever, whatever comes.
    pub fn hang(&self) -> ! {
        loop {
            let _ = self.inbox.recv();
        }
    }

    fn ask_with(&mut self, method: &str, params: Value, grace: Duration) -> Result<Answer, Cancelled> {
        self.check()?;
        let asked = self.connection.ask(method, params, self.events.clone());
        while let Some(event) = self.next(grace) {
            match event {
                Event::Answer(id, answer) if id == asked => return Ok(answer),
                other => self.note(&other),
            }
        }
        Err(Cancelled)
    }

    /// The next event; none once the grace after a cancel has passed.
    fn next(&self, grace: Duration) -> Option<Event> {
        match self.cancelled {
            None => self.inbox.recv().ok(),
            Some(since) => {
                self.inbox.recv_timeout((since + grace).saturating_duration_since(Instant::now())).ok()
            }
        }
    }

    fn note(&mut self, event: &Event) {
        if matches!(event, Event::Cancel) {
            self.cancelled.get_or_insert_with(Instant::now);
        }
    }
}
