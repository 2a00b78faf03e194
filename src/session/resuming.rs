//! Runs what waits in the inbox: performs what [`Recovery`](super::recovery) decides (R182 to R201).

use std::time::Duration;

use serde_json::json;
use tokio::task::AbortHandle;

use super::{
    actor::{Msg, Stage, State},
    failure::{Code, Failure},
    order::Order,
    outbox::Ticket,
    prompts::Unsent,
    record::{alone, noted},
    recovery::{Action, End, Event, Evidence, Now, Number, Recovery},
    turn::{Ended, Source},
};
use crate::{
    history::Mark,
    store::{Entry, EntryState, Op, StoreError},
    wire::{Call, Envelope, Frame, RpcError, author, credit::Credit},
};

/// Automatic resume of one session.
pub(super) struct Resuming {
    /// Decides.
    pub recovery: Recovery,
    /// Something may wait in the inbox.
    may_have_input: bool,
    attempt: Attempt,
    timers: Vec<AbortHandle>,
    /// It was told that a turn may start.
    said_free: bool,
}

impl Resuming {
    /// Of a session that is made, or taken up.
    pub fn new(order: &Order) -> Self {
        Self {
            recovery: Recovery::new(order.cwd.to_string_lossy(), order.id.as_str()),
            may_have_input: order.resume.is_some(),
            attempt: Attempt::default(),
            timers: Vec::new(),
            said_free: false,
        }
    }
}

/// The attempt that runs.
#[derive(Debug, Default)]
struct Attempt {
    number: Number,
    /// Its entries, as they were read.
    entries: Vec<Entry>,
    /// The peer has the prompt.
    sent: bool,
    /// Tool calls that were announced in its turn.
    tool_calls: u32,
}

impl State {
    /// Tells automatic resume what happened, and does what comes of it.
    pub(super) fn recover(&mut self, event: Event) {
        let settled = self.step(event);
        if let Some(state) = settled {
            self.settle_entries(state);
        }
        self.drop_stale();
    }

    /// A prompt of the inbox's that has not gone to the peer does not go when its attempt is over: it gave way, or its
    /// time did.
    fn drop_stale(&mut self) {
        let of_inbox = |unsent: &Unsent| matches!(unsent.prompt.source, Source::Inbox(_));
        if self.unsent.as_ref().is_some_and(of_inbox)
            && !self.resuming.recovery.may_send(self.resuming.attempt.number)
        {
            self.fail_unsent(&author::cancelled_turn());
        }
    }

    /// Somebody is there, or was: what waits in the inbox may run (R190, R198). A session that cannot have any is not
    /// looked into.
    pub(super) fn release(&mut self) {
        if self.resuming.may_have_input {
            self.recover(Event::Release);
        }
    }

    /// Something was put into the inbox.
    pub(super) fn woken(&mut self) {
        self.resuming.may_have_input = true;
        self.release();
    }

    /// The same, when the entries are settled by the caller: with the end of their turn (R187).
    fn step(&mut self, event: Event) -> Option<EntryState> {
        let now = Now { steady: self.started.elapsed(), epoch_ms: jiff::Timestamp::now().as_millisecond() };
        let mut settled = None;
        for action in self.resuming.recovery.step(event, now) {
            match action {
                Action::Settle { state, .. } => settled = Some(state),
                action => self.perform(action),
            }
        }
        settled
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Start { number, .. } => self.look_into_inbox(number),
            Action::ArmTimer { number, after } => self.arm(after, Event::Timer(number)),
            Action::ArmLimit { number, after } => self.arm(after, Event::Limit(number)),
            Action::Disarm => self.resuming.timers.drain(..).for_each(|timer| timer.abort()),
            Action::Abort(_) => self.stop_turn(),
            Action::Publish { number, projection } => {
                let facts = serde_json::to_value(projection).unwrap_or_default();
                self.mark(&Mark::Recovery { pending_resume: facts.clone() });
                self.notice(json!({ "pendingResume": facts }));
                if let Some(number) = number {
                    self.recover(Event::Noticed(number));
                }
            }
            Action::Settle { .. } => {}
        }
    }

    fn arm(&mut self, after: Duration, event: Event) {
        self.resuming.timers.retain(|timer| !timer.is_finished());
        let timer = self.me.send_after(after, move || Msg::Recovery(event));
        self.resuming.timers.push(timer.abort_handle());
    }

    /// Whether a turn of the inbox's may start: nothing else runs or waits, and the host has seen what was (R190).
    fn is_free(&self) -> bool {
        self.stage == Stage::Live
            && !self.turn.is_active()
            && self.turn.waiting() == 0
            && self.showing.is_none()
            && self.order.opened.is_none()
            && self.record.is_settled()
            && !self.leaves
    }

    /// Says so when it becomes so.
    pub(super) fn tell_freedom(&mut self) {
        let free = self.is_free();
        if std::mem::replace(&mut self.resuming.said_free, free) != free {
            self.recover(if free { Event::Free } else { Event::Busy });
        }
    }

    fn look_into_inbox(&mut self, number: Number) {
        // It is owed again after each start.
        self.resuming.said_free = false;
        let (me, reader, id) = (self.me.clone(), self.shared.reader.clone(), self.order.id.clone());
        tokio::spawn(async move {
            let entries = tokio::task::spawn_blocking(move || reader.inbox(&id)).await;
            let _ = me.cast(Msg::Pending(number, entries.unwrap_or(Err(StoreError::Closed))));
        });
    }

    /// What waits in the inbox becomes one prompt (R82).
    pub(super) fn pending(&mut self, number: Number, entries: Result<Vec<Entry>, StoreError>) {
        if !self.resuming.recovery.may_send(number) || !self.is_free() {
            return;
        }
        match entries {
            Ok(mut entries) => {
                entries.retain(|entry| entry.state == EntryState::Queued);
                if entries.is_empty() {
                    self.resuming.may_have_input = false;
                    return self.recover(Event::NothingPending(number));
                }
                self.run_entries(number, entries);
            }
            Err(error) => {
                tracing::error!(session = %self.order.id, %error, "inbox not readable");
                self.recover(Event::CheckFailed(number, Failure::from(Code::Runtime)));
            }
        }
    }

    fn run_entries(&mut self, number: Number, entries: Vec<Entry>) {
        let ids: Vec<String> = entries.iter().map(|entry| entry.id.clone()).collect();
        tracing::info!(session = %self.order.id, attempt = number, entries = ids.len(), "inbox runs");
        let block = |entry: &Entry| {
            let text = format!("[message from {}]\n\n{}", entry.source, entry.text);
            json!({ "type": "text", "text": text })
        };
        let blocks: Vec<_> = entries.iter().map(block).collect();
        let params = json!({ "sessionId": self.order.id.as_str(), "prompt": blocks });
        let prompt = self.turn.begin(Source::Inbox(ids), Frame::request("session/prompt", &params));
        self.resuming.attempt = Attempt { number, entries, sent: false, tool_calls: 0 };
        self.start_turn(prompt, Credit::none());
    }

    /// What the user sent and nobody was shown yet.
    fn new_input(&self) -> impl Iterator<Item = &Entry> {
        self.resuming.attempt.entries.iter().filter(|entry| entry.source == "user" && entry.attempt == 0)
    }

    /// What goes on record with the start of such a turn.
    pub(super) fn started_entries(&self, source: &Source) -> Vec<Op> {
        let Source::Inbox(_) = source else { return Vec::new() };
        let note = |e: &Entry| noted(&Mark::Input { id: e.id.as_str().into(), text: e.text.as_str().into() });
        let says = |e: &Entry| (e.id.clone(), e.text.clone());
        let begins = Op::Begin(self.resuming.attempt.entries.iter().map(says).collect());
        self.new_input().map(note).chain([begins]).collect()
    }

    /// What the user sent is shown when it is on record that it runs: once, however often it is tried (R92).
    pub(super) fn show_entries(&mut self, source: &Source, ticket: Ticket) {
        let Source::Inbox(entries) = source else { return };
        let id = &self.order.id;
        let chunk = |e: &Entry| Envelope::new(Call::Notification, author::user_chunk(id, &e.id, &e.text));
        let mut shown: Vec<Envelope> = self.new_input().map(chunk).collect();
        shown.push(self.noticed(json!({ "inbox": { "running": entries.len() } })));
        self.tell_host_after(ticket, shown);
    }

    /// The prompt is with the peer.
    pub(super) fn attempt_sent(&mut self, source: &Source) {
        if matches!(source, Source::Inbox(_)) {
            self.resuming.attempt.sent = true;
            self.recover(Event::Sent(self.resuming.attempt.number));
        }
    }

    /// A line of the peer in such a turn.
    pub(super) fn watch(&mut self, frame: &Frame) {
        let Some(number) = self.resuming.recovery.watches() else { return };
        if let Some(evidence) = Evidence::of(frame) {
            self.resuming.attempt.tool_calls += u32::from(evidence == Evidence::ToolStart);
            self.recover(Event::Seen(number, evidence));
        }
    }

    /// Its turn ended. What goes on record with that (R187).
    pub(super) fn attempt_ended(&mut self, ended: &Ended, answer: &Frame) -> Option<Op> {
        let Source::Inbox(entries) = &ended.source else { return None };
        let Attempt { number, sent, tool_calls, .. } = std::mem::take(&mut self.resuming.attempt);
        let event = match (sent, answer.member("error").map(RpcError::of)) {
            (false, Some(error)) => Event::CheckFailed(number, Failure::of_error(&error)),
            (false, None) => Event::CheckFailed(number, Code::Runtime.into()),
            _ if ended.cancelled => Event::Ended(number, End::Cancelled),
            _ => Event::Ended(number, End::of_answer(answer, Some(tool_calls))),
        };
        let state = self.step(event).unwrap_or(EntryState::Queued);
        Some(Op::Entries(entries.clone(), state))
    }

    /// Entries of an attempt that came to nothing wait again.
    fn settle_entries(&mut self, state: EntryState) {
        if !self.resuming.attempt.entries.is_empty() && self.resuming.attempt.sent {
            let entries = self.resuming.attempt.entries.iter().map(|entry| entry.id.clone()).collect();
            self.write(alone(Op::Entries(entries, state)), Credit::none());
        }
    }
}
