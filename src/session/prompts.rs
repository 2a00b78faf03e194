//! Prompts, their end, and cancelling them (R72 to R76, R250).

use std::time::Duration;

use serde_json::{json, value::RawValue};

use super::{
    actor::{Msg, Stage, State},
    children::Number,
    ledger::{Kind, Open, Side},
    turn::{Admitted, Ended, Prompt},
};
use crate::{
    id::Token,
    ingress::FreeTime,
    peer::{can_load, can_resume},
    wire::{Call, Envelope, Frame, RpcError, author, credit::Credit, frame::Class, patch::Object},
};

/// The least time between two looks at a clock that stands still.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

impl State {
    /// A prompt of the host.
    pub(super) fn prompt(&mut self, token: Token, frame: Frame, credit: Credit) {
        match self.turn.prompt(Prompt { token, frame }) {
            Admitted::Starts(prompt) => self.start_turn(prompt, credit),
            Admitted::Waits(position) => self.notice(json!({ "queue": { "position": position } })),
            Admitted::Refused(token) => {
                let why = "too many prompts wait behind the running turn";
                let data = json!({ "resource": "pending_count", "retryable": true });
                self.refuse_host(token, &RpcError::internal(why).with(data));
            }
        }
    }

    fn start_turn(&mut self, prompt: Prompt, credit: Credit) {
        if self.stage == Stage::Live && self.peer.is_some() {
            return self.send_prompt(prompt, credit);
        }
        self.unsent = Some(prompt);
        if self.stage == Stage::Live {
            self.restart_peer();
        }
    }

    fn send_prompt(&mut self, prompt: Prompt, credit: Credit) {
        let out = self.ledger.enter(Side::Host, prompt.token, Kind::Prompt);
        self.to_peer(vec![Envelope::new(Call::Request(out), prompt.frame)], credit);
    }

    /// The new process is there: the prompt that waited for it goes.
    pub(super) fn send_unsent(&mut self) {
        if let Some(prompt) = self.unsent.take() {
            self.send_prompt(prompt, Credit::none());
        }
    }

    /// The new process is not there: the prompt that waited for it fails.
    pub(super) fn fail_unsent(&mut self, answer: &Frame) {
        if self.unsent.take().is_some() {
            self.finish_turn(answer.clone());
        }
    }

    /// The peer answered the prompt. What comes before the answer, and the answer (R73).
    pub(super) fn prompt_answered(&mut self, answer: Frame) -> Vec<Envelope> {
        let mut lines = self.withdraw_questions(None);
        if let Some(ended) = self.turn.end() {
            lines.extend(self.last_lines(&ended, answer));
        }
        lines
    }

    /// The turn ends without the peer's answer, or with one that comes by itself.
    pub(super) fn finish_turn(&mut self, answer: Frame) {
        let lines = self.prompt_answered(answer);
        self.to_host(lines, Credit::none());
        self.next_turn();
    }

    /// A prompt that waited is the turn now.
    pub(super) fn next_turn(&mut self) {
        if std::mem::take(&mut self.recycle) {
            self.forsake_peer("it is sick and is replaced");
        }
        if self.is_ending() {
            if !self.turn.is_active() {
                self.turn_settled();
            }
        } else if let Some(prompt) = self.turn.next_prompt() {
            self.start_turn(prompt, Credit::none());
        }
    }

    /// A peer that is sick is replaced before the next prompt, when a new process can take the session up (R227).
    /// What the daemon answers for it says nothing of its health.
    pub(super) fn examine(&mut self, answer: &Frame) {
        let Some(sickness) = self.health.turn_ended(answer, self.turn.is_being_cancelled()) else { return };
        let restores =
            self.peer.as_ref().and_then(|p| p.answer.as_ref()).is_some_and(|a| can_resume(a) || can_load(a));
        tracing::warn!(session = %self.order.id, ?sickness, restores, "peer is sick");
        self.card
            .set(sickness.word(), self.card.get(sickness.word()).and_then(|n| n.as_u64()).unwrap_or(0) + 1);
        if restores && !self.is_ending() {
            self.recycle = true;
        }
    }

    fn last_lines(&mut self, ended: &Ended, answer: Frame) -> Vec<Envelope> {
        let reason = stop_reason(&answer);
        let answer = match (ended.cancelled, reason.as_deref()) {
            // Whatever the peer answers, a cancelled turn is cancelled (R74, R240).
            (true, Some("cancelled")) => answer,
            (true, _) => author::cancelled_turn(),
            (false, None) if answer.class() == (Class::Response { ok: true }) => {
                Frame::error(&RpcError::runtime("the agent ended the turn without a stop reason"))
            }
            (false, _) => answer,
        };
        let cut_short = ended.cancelled || answer.class() != (Class::Response { ok: true });
        let mut lines = if cut_short { self.failed_tools() } else { self.forget_tools() };
        tracing::info!(session = %self.order.id, turn = self.turn.number(), cancelled = ended.cancelled,
            reason = reason.as_deref().unwrap_or("none"), "turn ended");
        lines.push(Envelope::new(Call::Response(ended.token), answer));
        lines
    }

    fn forget_tools(&mut self) -> Vec<Envelope> {
        self.tools.drain();
        Vec::new()
    }

    /// The open tool calls of a turn that was cut short are shown failed (R74).
    fn failed_tools(&mut self) -> Vec<Envelope> {
        let id = &self.order.id;
        let failed = |call| Envelope::new(Call::Notification, author::failed_tool(id, call));
        self.tools.drain().into_iter().map(failed).collect()
    }

    /// Cancels whatever runs or waits (R74).
    pub(super) fn cancel(&mut self) {
        let cancelled = self.turn.cancel();
        for token in cancelled.waiting {
            self.answer_host(token, author::cancelled_turn());
        }
        if cancelled.running.is_none() {
            return;
        }
        if self.unsent.take().is_some() {
            return self.finish_turn(author::cancelled_turn());
        }
        // The peer hears the answers to its questions before the cancel, the host that they are not wanted (R250).
        let withdrawn = self.withdraw_questions(None);
        self.to_host(withdrawn, Credit::none());
        let cancel = author::cancel(self.order.id.as_str());
        self.to_peer(vec![Envelope::new(Call::Notification, cancel)], Credit::none());
        self.cancelled = self.peer.as_ref().map(|peer| FreeTime::of(&peer.held));
        self.cancel_later(self.cancel_grace());
    }

    /// Cancels what a child does, where the peer announced that this may be (R276).
    pub(super) fn cancel_child(&mut self, envelope: Envelope, credit: Credit) {
        let Some(child) = self.children.number(&envelope.frame) else { return };
        if self.children.may_cancel(&envelope.frame) {
            let withdrawn = self.withdraw_questions(Some(child));
            self.to_host(withdrawn, Credit::none());
            self.to_peer(vec![envelope], credit);
        }
    }

    pub(super) fn cancel_later(&self, grace: Duration) {
        let turn = self.turn.number();
        self.later(grace, move || Msg::CancelDue(turn));
    }

    fn cancel_grace(&self) -> Duration {
        let usual = Duration::from_millis(self.shared.limits.cancel_grace_ms);
        self.ending.as_ref().map_or(usual, |e| e.cancel_grace.min(usual))
    }

    /// What is left of the peer's time to answer a cancel: the time it was held by a slow host is not its own (R250).
    fn cancel_time_left(&self) -> Duration {
        let spent = self.cancelled.zip(self.peer.as_ref()).map(|(clock, peer)| clock.elapsed(&peer.held));
        spent.map_or(Duration::ZERO, |spent| self.cancel_grace().saturating_sub(spent))
    }

    /// The peer had its time to answer the cancel: its process ends and the turn with it (R250).
    pub(super) fn cancel_due(&mut self, turn: u64) {
        if !self.turn.is_cancelling(turn) {
            return;
        }
        let left = self.cancel_time_left();
        if !left.is_zero() && !self.is_ending() {
            return self.cancel_later(left.max(LOOK_AGAIN));
        }
        tracing::warn!(session = %self.order.id, turn, "cancel was not answered in time, ending the peer");
        self.ledger.take(|open| open.kind == Kind::Prompt);
        if !self.is_ending() {
            self.forsake_peer("the agent did not answer a cancel");
        }
        self.finish_turn(author::cancelled_turn());
    }

    /// Answers open questions of the session, or of a child of it, with `cancelled`, and returns the lines that take
    /// them back from the host (R250, protocol: prompt turn, cancellation).
    fn withdraw_questions(&mut self, of: Option<Number>) -> Vec<Envelope> {
        let asked = |o: &Open| matches!(o.kind, Kind::Permission | Kind::Elicitation) && o.child == of;
        let questions = self.ledger.take(asked);
        self.answer_for_host(questions)
    }

    /// Answers for a host that will not, and returns the lines that take the questions back from it.
    pub(super) fn answer_for_host(&self, asked: Vec<(Token, Open)>) -> Vec<Envelope> {
        let mut back = Vec::with_capacity(asked.len());
        for (ours, open) in asked {
            let answer = Envelope::new(Call::Response(open.token), unanswered(open.kind));
            self.to_peer(vec![answer], Credit::none());
            back.push(withdrawal(ours));
        }
        back
    }
}

/// What a peer hears to what no host answers.
pub(super) fn unanswered(kind: Kind) -> Frame {
    match kind {
        Kind::Permission => author::cancelled_permission(),
        Kind::Elicitation => author::cancelled_elicitation(),
        _ => Frame::error(&RpcError::internal("the session is ending")),
    }
}

/// Takes a request back: `$/cancel_request`, whose id the wire fills in.
pub(super) fn withdrawal(ours: Token) -> Envelope {
    let frame = Frame::notification("$/cancel_request", &json!({ "requestId": 0 }));
    Envelope { call: Call::Notification, about: Some(ours), frame }
}

fn stop_reason(answer: &Frame) -> Option<String> {
    let result = Object::of(answer.member("result")?.get());
    result.get("stopReason").map(RawValue::get).and_then(|r| serde_json::from_str(r).ok())
}
