//! Prompts, their end, and cancelling them (R72 to R76, R250).

use std::time::Duration;

use serde_json::{json, value::RawValue};
use smallvec::{SmallVec, smallvec};

use super::{
    actor::{Msg, Stage, State},
    children::Number,
    context::{self, Context},
    ledger::{self, Open, Side},
    outbox::Ticket,
    record::{After, alone, noted},
    recovery::Event,
    turn::{Admitted, Ended, Prompt, Standing},
};
use crate::{
    fault,
    history::Mark,
    id::Token,
    ingress::FreeTime,
    peer::{can_load, can_resume},
    store::{Kind, Op, PromptState},
    wire::{Call, Envelope, Frame, RpcError, author, credit::Credit, frame::Class, patch::Object},
};

/// The least time between two looks at a clock that stands still.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The prompt that is the turn and has not gone to the peer: it waits for a process, for its context, or for its own
/// record.
#[derive(Debug)]
pub(super) struct Unsent {
    pub prompt: Prompt,
    credit: Credit,
    /// The write that says that it runs.
    ticket: Option<Ticket>,
    recorded: bool,
    /// It carries what its process is to be told of the time before it.
    informs: bool,
}

impl State {
    /// A prompt of the host.
    pub(super) fn prompt(&mut self, token: Token, frame: Frame, credit: Credit) {
        self.recover(Event::Prompted);
        match self.turn.prompt(token, frame) {
            Admitted::Starts(prompt) => self.start_turn(prompt, credit),
            Admitted::Waits(number, position) => {
                self.write(alone(Op::Prompt(number, PromptState::Waiting, "host")), Credit::none());
                self.notice(json!({ "queue": { "position": position } }));
            }
            Admitted::Refused(token) => {
                let why = "too many prompts wait behind the running turn";
                let data = json!({ "resource": "pending_count", "retryable": true });
                self.refuse_host(token, &RpcError::internal(why).with(data));
            }
        }
    }

    pub(super) fn start_turn(&mut self, prompt: Prompt, credit: Credit) {
        self.unsent = Some(Unsent { prompt, credit, ticket: None, recorded: false, informs: false });
        self.advance();
    }

    /// Takes the prompt that is the turn one step on: to a process, to its context, on record, to the peer.
    pub(super) fn advance(&mut self) {
        let Some(unsent) = &self.unsent else { return };
        if self.stage != Stage::Live {
            return;
        }
        if self.peer.is_none() {
            self.restart_peer();
        } else if self.context.is_wanted() {
            self.gather_context();
        } else if unsent.recorded {
            self.send_unsent();
        } else if unsent.ticket.is_none() {
            self.record_start();
        }
    }

    /// It is on record before the peer hears of it: after a death of the daemon nobody has to guess (R280).
    fn record_start(&mut self) {
        let Some(mut unsent) = self.unsent.take() else { return };
        let context = self.context.take();
        let prompt = &mut unsent.prompt;
        if let Some(text) = &context {
            prompt.frame = context::before(&prompt.frame, text);
        }
        let started = Mark::TurnStarted {
            turn: prompt.number,
            source: prompt.source.word().into(),
            context_blocks: usize::from(context.is_some()),
        };
        unsent.informs = context.is_some();
        let runs = match self.turn.on_record() {
            Standing::Unknown => Op::Prompt(prompt.number, PromptState::Running, prompt.source.word()),
            Standing::Waits | Standing::Runs => Op::PromptTo(prompt.number, PromptState::Running, None),
        };
        let mut ops: SmallVec<[Op; 2]> =
            smallvec![runs, noted(&started), Op::Frames(Kind::Sent, vec![prompt.frame.line().clone()]),];
        ops.extend(self.started_entries(&unsent.prompt.source));
        let ticket = self.write_then(ops, false, After::Prompt);
        unsent.ticket = Some(ticket);
        self.show_entries(&unsent.prompt.source, ticket);
        self.unsent = Some(unsent);
    }

    /// The start of the turn is on record, or it cannot be: then the turn is over.
    pub(super) fn prompt_on_record(&mut self, ticket: Ticket, failure: Option<RpcError>) {
        let Some(unsent) = self.unsent.as_mut().filter(|u| u.ticket == Some(ticket)) else { return };
        unsent.recorded = true;
        match failure {
            None => {
                fault::pass("turn-stored");
                self.advance();
            }
            Some(error) => {
                self.turn.not_on_record(unsent.prompt.standing);
                self.fail_unsent(&Frame::error(&error));
            }
        }
    }

    fn send_unsent(&mut self) {
        let Some(Unsent { prompt, credit, .. }) = self.unsent.take() else { return };
        let token = prompt.source.token().unwrap_or_default();
        let out = self.ledger.enter(Side::Host, token, ledger::Kind::Prompt);
        self.tell_peer_again(vec![Envelope::new(Call::Request(out), prompt.frame)], credit);
        self.attempt_sent(&prompt.source);
    }

    /// The new process is not there: the prompt that waited for it fails.
    pub(super) fn fail_unsent(&mut self, answer: &Frame) {
        if self.take_unsent() {
            self.finish_turn(answer.clone());
        }
    }

    /// The prompt that is the turn does not go to the peer. What it would have told the process is left for the next.
    pub(super) fn take_unsent(&mut self) -> bool {
        let unsent = self.unsent.take();
        if unsent.as_ref().is_some_and(|unsent| unsent.informs) {
            self.context = Context::Wanted;
        }
        unsent.is_some()
    }

    /// The turn ends: its last lines and its answer leave when the end is on record (R73, R273).
    pub(super) fn end_turn(&mut self, answer: Frame) {
        let mut lines = self.withdraw_questions(None);
        let Some(ended) = self.turn.end() else { return self.tell_host(lines, Credit::none()) };
        fault::pass("turn-ending");
        let entries = self.attempt_ended(&ended, &answer);
        let answer = self.last_answer(&ended, answer, &mut lines);
        let ticket = self.record_end(&ended, &answer, entries);
        if let Some(token) = ended.source.token() {
            lines.push(Envelope::new(Call::Response(token), answer));
        }
        self.tell_host_after(ticket, lines);
        // Whoever prompts is there again (R198).
        if ended.source.token().is_some() && !ended.cancelled {
            self.release();
        }
    }

    fn record_end(&mut self, ended: &Ended, answer: &Frame, entries: Option<Op>) -> Ticket {
        let reason = stop_reason(answer);
        let error = answer.member("error").and_then(|e| serde_json::from_str(e.get()).ok());
        let mark =
            Mark::TurnEnded { turn: ended.number, stop_reason: reason.as_deref().map(Into::into), error };
        let mark = noted(&mark);
        let outcome = Some(reason.unwrap_or_else(|| "error".to_owned()));
        let (number, source) = (ended.number, ended.source.word());
        let mut ops: SmallVec<[Op; 2]> = match ended.standing {
            Standing::Runs => smallvec![mark, Op::PromptTo(number, PromptState::Answered, outcome)],
            Standing::Waits => smallvec![Op::PromptTo(number, PromptState::NotStarted, outcome)],
            Standing::Unknown => smallvec![
                Op::Prompt(number, PromptState::Waiting, source),
                Op::PromptTo(number, PromptState::NotStarted, outcome)
            ],
        };
        // Entries whose turn never began wait as before.
        ops.extend(entries.filter(|_| ended.standing == Standing::Runs));
        // The end is so whether there is space or not, and is written when there is; the answer waits behind it.
        self.write(ops, Credit::none());
        self.write_then(SmallVec::new(), false, After::Lines)
    }

    /// The turn ends without the peer's answer, or with one that comes by itself.
    pub(super) fn finish_turn(&mut self, answer: Frame) {
        self.end_turn(answer);
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

    /// What the host hears at the end of a turn, and the lines before it.
    fn last_answer(&mut self, ended: &Ended, answer: Frame, lines: &mut Vec<Envelope>) -> Frame {
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
        lines.extend(if cut_short { self.failed_tools() } else { self.forget_tools() });
        tracing::info!(session = %self.order.id, turn = ended.number, cancelled = ended.cancelled,
            reason = reason.as_deref().unwrap_or("none"), "turn ended");
        answer
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

    /// A prompt that waited will not run (R280).
    pub(super) fn never_ran(&self, number: u64, why: &str) {
        let op = Op::PromptTo(number, PromptState::NotStarted, Some(why.to_owned()));
        self.write(alone(op), Credit::none());
    }

    /// Cancels whatever runs or waits; nothing starts by itself after it (R74, R198).
    pub(super) fn cancel(&mut self) {
        self.recover(Event::Halt);
        self.cancel_turn();
    }

    /// Cancels whatever runs or waits.
    pub(super) fn cancel_turn(&mut self) {
        let cancelled = self.turn.cancel();
        for (number, source) in cancelled.waiting {
            self.never_ran(number, "cancelled");
            source.token().into_iter().for_each(|token| self.answer_host(token, author::cancelled_turn()));
        }
        if cancelled.running {
            self.turn_told_to_end();
        }
    }

    /// Cancels the turn that runs; what waits behind it goes on (R196).
    pub(super) fn stop_turn(&mut self) {
        if self.turn.stop() {
            self.turn_told_to_end();
        }
    }

    fn turn_told_to_end(&mut self) {
        if self.take_unsent() {
            return self.finish_turn(author::cancelled_turn());
        }
        // The peer hears the answers to its questions before the cancel, the host that they are not wanted (R250).
        let withdrawn = self.withdraw_questions(None);
        self.tell_host(withdrawn, Credit::none());
        let cancel = author::cancel(self.order.id.as_str());
        self.tell_peer(vec![Envelope::new(Call::Notification, cancel)], Credit::none());
        self.cancelled = self.peer.as_ref().map(|peer| FreeTime::of(&peer.held));
        self.cancel_later(self.cancel_grace());
    }

    /// Cancels what a child does, where the peer announced that this may be (R276).
    pub(super) fn cancel_child(&mut self, envelope: Envelope, credit: Credit) {
        let Some(child) = self.children.number(&envelope.frame) else { return };
        if self.children.may_cancel(&envelope.frame) {
            let withdrawn = self.withdraw_questions(Some(child));
            self.tell_host(withdrawn, Credit::none());
            self.tell_peer(vec![envelope], credit);
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
        self.ledger.take(|open| open.kind == ledger::Kind::Prompt);
        if !self.is_ending() {
            self.forsake_peer("the agent did not answer a cancel");
        }
        self.finish_turn(author::cancelled_turn());
    }

    /// Answers open questions of the session, or of a child of it, with `cancelled`, and returns the lines that take
    /// them back from the host (R250, protocol: prompt turn, cancellation).
    fn withdraw_questions(&mut self, of: Option<Number>) -> Vec<Envelope> {
        let asked = |o: &Open| {
            matches!(o.kind, ledger::Kind::Permission | ledger::Kind::Elicitation) && o.child == of
        };
        let questions = self.ledger.take(asked);
        self.answer_for_host(questions)
    }

    /// Answers for a host that will not, and returns the lines that take the questions back from it.
    pub(super) fn answer_for_host(&self, asked: Vec<(Token, Open)>) -> Vec<Envelope> {
        let mut back = Vec::with_capacity(asked.len());
        for (ours, open) in asked {
            let answer = Envelope::new(Call::Response(open.token), unanswered(open.kind));
            self.tell_peer(vec![answer], Credit::none());
            back.push(withdrawal(ours));
        }
        back
    }
}

/// What a peer hears to what no host answers.
pub(super) fn unanswered(kind: ledger::Kind) -> Frame {
    match kind {
        ledger::Kind::Permission => author::cancelled_permission(),
        ledger::Kind::Elicitation => author::cancelled_elicitation(),
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
