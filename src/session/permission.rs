//! Permission requests of the peer: decided by the approval mode, by a host, or by nobody coming (R134, R140, R141).

use std::time::Duration;

use super::{
    actor::{Msg, State},
    ledger::Kind,
    prompts::unanswered,
    waiting::Opened,
};
use crate::{
    history::Mark,
    id::Token,
    policy::{Allowed, Answer, ApproveWith, Asked, HostSaid, Verdict, judge},
    wire::{Call, Envelope, Frame, author, credit::Credit},
};

impl State {
    /// A permission request of the peer. What goes to the host, if it is to decide.
    pub(super) fn permission(&mut self, token: Token, envelope: Envelope) -> Option<Envelope> {
        let asked = Asked::of(&envelope.frame);
        match judge(self.settings.approval(), &asked, None) {
            Verdict::Ask => self.ask_permission(token, envelope, &asked),
            Verdict::Allow => {
                self.allow(token, &asked);
                None
            }
            Verdict::Refuse(why) => {
                self.refuse(token, &asked, "approval", why);
                None
            }
        }
    }

    fn allow(&mut self, token: Token, asked: &Asked) {
        let answer = match asked.offered.allow(ApproveWith::AllowOnce) {
            Allowed::With(answer) | Allowed::Several(answer) => answer,
            Allowed::Unanswerable => {
                let why = "no option that allows just this call is offered";
                return self.refuse(token, asked, "approval", why);
            }
        };
        self.decided(asked, "allow", "approval", self.settings.approval().id());
        self.answer_permission(token, &answer);
    }

    /// A refusal is a failed tool card and a record, and no question to the host (R248).
    fn refuse(&mut self, token: Token, asked: &Asked, by: &str, why: &str) {
        tracing::warn!(session = %self.order.id, tool_call = asked.tool_call().unwrap_or_default(),
            kind = asked.kind().unwrap_or("other"), decision = "deny", reason = why, "permission refused");
        self.decided(asked, "deny", by, why);
        self.answer_permission(token, &asked.offered.refuse());
        if let Some(call) = asked.tool_call() {
            let card = author::refused_tool(&self.order.id, call.to_owned(), why);
            self.tell_host(vec![Envelope::new(Call::Notification, card)], Credit::none());
        }
    }

    fn answer_permission(&mut self, token: Token, answer: &Answer) {
        self.health.saw_decision();
        self.tell_peer(vec![Envelope::new(Call::Response(token), answer.frame())], Credit::none());
    }

    fn decided(&self, asked: &Asked, decision: &str, by: &str, reason: &str) {
        self.mark(&Mark::Decision {
            tool_call: asked.tool_call().unwrap_or_default().into(),
            kind: asked.kind().unwrap_or("other").into(),
            decision: decision.into(),
            by: by.into(),
            reason: reason.into(),
        });
    }

    fn ask_permission(&mut self, token: Token, envelope: Envelope, asked: &Asked) -> Option<Envelope> {
        let child = self.children.number(&envelope.frame);
        let ours = self.ledger.enter_for(child, token, Kind::Permission);
        self.forget_questions();
        match self.waiting.open(ours, envelope.frame.line().len(), self.started.elapsed()) {
            Opened::Relay { keep } => {
                if keep {
                    self.questions.note(ours, &envelope.frame);
                }
                Some(Envelope { call: Call::Request(ours), ..envelope })
            }
            Opened::Wait { .. } => {
                tracing::info!(session = %self.order.id, "a permission request waits for a host");
                self.questions.note(ours, &envelope.frame);
                self.look_at_questions();
                None
            }
            Opened::Refuse(why) => {
                self.ledger.close(ours);
                self.refuse(token, asked, "unattended", &why.to_string());
                None
            }
        }
    }

    /// Questions that were answered or withdrawn are not open any more.
    pub(super) fn forget_questions(&mut self) {
        let ledger = &self.ledger;
        let closed: Vec<Token> =
            self.questions.all().map(|(ours, _)| ours).filter(|ours| ledger.get(*ours).is_none()).collect();
        self.questions.keep(|ours| ledger.get(ours).is_some());
        closed.into_iter().for_each(|ours| _ = self.waiting.close(ours));
    }

    /// The host is gone: what it was asked waits for the next one, or is refused (R140, R148).
    pub(super) fn questions_detached(&mut self) {
        self.forget_questions();
        for (ours, why) in self.waiting.detach(self.started.elapsed()) {
            self.refuse_open(ours, &why.to_string());
        }
        self.look_at_questions();
    }

    fn look_at_questions(&self) {
        if let Some(due) = self.waiting.next_due() {
            let wait = due.saturating_sub(self.started.elapsed()) + Duration::from_millis(1);
            self.later(wait, || Msg::QuestionDue);
        }
    }

    /// Something may have waited long enough.
    pub(super) fn question_due(&mut self) {
        self.forget_questions();
        for (ours, why) in self.waiting.due(self.started.elapsed()) {
            self.refuse_open(ours, &why.to_string());
        }
        if !self.is_attached() {
            self.look_at_questions();
        }
    }

    fn refuse_open(&mut self, ours: Token, why: &str) {
        let asked = self.questions.all().find(|(open, _)| *open == ours).map(|(_, frame)| Asked::of(frame));
        let Some(open) = self.ledger.close(ours) else { return };
        match asked {
            Some(asked) => self.refuse(open.token, &asked, "unattended", why),
            None => self.tell_peer(
                vec![Envelope::new(Call::Response(open.token), unanswered(open.kind))],
                Credit::none(),
            ),
        }
        self.forget_questions();
    }

    /// The host decided: that goes on record (R291).
    pub(super) fn host_decided(&mut self, ours: Token, answer: &Frame) {
        self.health.saw_decision();
        let _ = self.waiting.close(ours);
        let Some(asked) = self.questions.all().find(|(open, _)| *open == ours).map(|(_, f)| Asked::of(f))
        else {
            return;
        };
        let decision = match asked.offered.heard(answer) {
            HostSaid::Selected(grant) => format!("{grant:?}"),
            HostSaid::Refused => "cancelled".to_owned(),
        };
        self.decided(&asked, &decision, "host", "");
    }
}
