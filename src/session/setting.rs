//! Modes and options as the session performs them: asked, stored, told, and told again to a new process (R170 to
//! R181, R284).

use std::{collections::VecDeque, time::Duration};

use super::{
    actor::{Msg, State},
    ledger::{self, Side},
    outbox::Ticket,
    record::{After, alone, noted},
    settings::{Answered, By, Change, Decision, Heard, Outcome, Saved, Setting, Step, Way},
};
use crate::{
    history::Mark,
    id::Token,
    store::Op,
    wire::{Call, Envelope, Frame, RpcError, credit::Credit},
};

/// What the host hears of a change when it is stored.
#[derive(Debug)]
enum Untold {
    /// The daemon's own answer.
    Own,
    /// What the peer answered, in its place in the outbox.
    Answer(Ticket, Frame),
    /// What the peer said of itself, likewise.
    Update(Ticket),
}

/// Settings on their way.
#[derive(Debug, Default)]
pub(super) struct Settling {
    /// Forwarded to the peer, by our token.
    asked: Vec<(Token, Change)>,
    /// What the host hears of what is being stored, in that order.
    untold: VecDeque<Untold>,
    /// Told to a new process, and not answered yet.
    restoring: Option<(Token, Setting)>,
}

impl State {
    /// A host asks for a setting.
    pub(super) fn set(&mut self, token: Token, way: Way, envelope: Envelope, credit: Credit) {
        match self.settings.ask(token, way, &envelope.frame, self.turn.is_active()) {
            Decision::Forward(change) if self.peer.is_none() => self.set_without_peer(change),
            Decision::Forward(change) => {
                let ours = self.ledger.enter(Side::Host, token, ledger::Kind::Setting);
                self.settling.asked.push((ours, change));
                self.tell_peer(vec![Envelope { call: Call::Request(ours), ..envelope }], credit);
            }
            Decision::Own(change) => self.save(change, Untold::Own),
            Decision::Same(answer) => self.answer_host(token, answer),
            Decision::Refuse(error) => self.refuse_host(token, &error),
        }
    }

    /// No process is there to refuse it: the next one is told.
    fn set_without_peer(&mut self, change: Change) {
        let taken = Frame::result(&serde_json::json!({}));
        if let Answered::Save(change) = self.settings.answered(change, &taken) {
            self.save(change, Untold::Own);
        }
    }

    /// The peer answered what was forwarded: an answer to pass on, or one that waits for the record.
    pub(super) fn set_answered(&mut self, ours: Token, token: Token, answer: Frame) -> Option<Envelope> {
        let at = self.settling.asked.iter().position(|(asked, _)| *asked == ours)?;
        let (_, change) = self.settling.asked.swap_remove(at);
        match self.settings.answered(change, &answer) {
            Answered::Refused => Some(Envelope::new(Call::Response(token), answer)),
            Answered::Save(change) => {
                let ticket = self.record.ticket();
                let held = Envelope::new(Call::Response(token), answer.clone());
                self.tell_host_after(ticket, vec![held]);
                self.save(change, Untold::Answer(ticket, answer));
                None
            }
        }
    }

    /// What was forwarded will not be answered any more.
    pub(super) fn sets_lost(&mut self) {
        let lost = std::mem::take(&mut self.settling.asked);
        lost.iter().for_each(|_| self.settings.unanswered());
        self.settling.restoring = None;
    }

    fn save(&mut self, change: Change, untold: Untold) {
        self.settling.untold.push_back(untold);
        let saved = self.settings.save(change);
        self.settle(saved, None);
        self.post_waiting();
    }

    /// Settings are on record, or cannot be.
    pub(super) fn setting_on_record(&mut self, failure: Option<RpcError>) {
        let saved = self.settings.saved(failure.is_none());
        self.settle(saved, failure.as_ref());
    }

    fn settle(&mut self, saved: Saved, failure: Option<&RpcError>) {
        if let Some(settings) = saved.write {
            let shown = serde_json::to_value(&settings).unwrap_or_default();
            let mut ops = alone(Op::Settings(settings));
            ops.push(noted(&Mark::Settings { settings: shown }));
            let _ = self.write_then(ops, true, After::Settings);
        }
        for (change, outcome) in saved.done {
            match self.settling.untold.pop_front().unwrap_or(Untold::Own) {
                Untold::Update(ticket) => self.outbox.settle(ticket, None),
                untold => match (outcome, failure) {
                    (Outcome::NotStored, Some(error)) => self.not_set(&change, untold, error),
                    _ => self.is_set(&change, untold),
                },
            }
        }
    }

    /// Stored, so that it may be told, then answered (R170).
    fn is_set(&mut self, change: &Change, untold: Untold) {
        let notices = self.settings.notices(&self.order.id, change);
        let notices = notices.into_iter().map(|frame| Envelope::new(Call::Notification, frame)).collect();
        self.tell_host(notices, Credit::none());
        let By::Host(token, way) = change.by else { return };
        match untold {
            Untold::Answer(ticket, answer) => {
                let reply = self.settings.reply(way, Some(answer));
                self.outbox.fill(ticket, Envelope::new(Call::Response(token), reply));
            }
            Untold::Own | Untold::Update(_) => {
                let reply = self.settings.reply(way, None);
                self.answer_host(token, reply);
            }
        }
    }

    /// Not stored: the peer goes back to what it had, and the host hears why (R173, R179).
    fn not_set(&mut self, change: &Change, untold: Untold, error: &RpcError) {
        if let Some(undo) = self.settings.undo(&self.order.id, change) {
            let ours = self.ledger.enter(Side::Ours, 0, ledger::Kind::Other);
            self.tell_peer(vec![Envelope::new(Call::Request(ours), undo)], Credit::none());
        }
        match (untold, change.by) {
            (Untold::Answer(ticket, _), _) => self.outbox.settle(ticket, Some(&Frame::error(error))),
            (_, By::Host(token, _)) => self.refuse_host(token, error),
            (_, By::Peer) => {}
        }
    }

    /// The peer speaks of its modes or options (R174): what passes on now. What has to be stored first leaves when it is.
    pub(super) fn peer_sets(&mut self, envelope: Envelope) -> Option<Envelope> {
        match self.settings.heard(&envelope.frame) {
            Heard::Pass => Some(envelope),
            Heard::PassAs(frame) => Some(Envelope { frame, ..envelope }),
            Heard::Swallow => None,
            Heard::Save(change, frame) => {
                let frame = frame.unwrap_or_else(|| envelope.frame.clone());
                let ticket = self.record.ticket();
                self.tell_host_after(ticket, vec![Envelope { frame, ..envelope }]);
                self.save(change, Untold::Update(ticket));
                None
            }
        }
    }

    /// Tells a new process what was set, one thing after the other (R284).
    pub(super) fn restore_next(&mut self) {
        loop {
            match self.settings.restore(&self.order.id) {
                Step::Ask(setting, request) => {
                    let ours = self.ledger.enter(Side::Ours, 0, ledger::Kind::Restore);
                    self.settling.restoring = Some((ours, setting));
                    self.tell_peer(vec![Envelope::new(Call::Request(ours), request)], Credit::none());
                    let deadline = Duration::from_secs(self.order.agent.handshake_s);
                    return self.later(deadline, move || Msg::RestoreDue(ours));
                }
                Step::Lost(lost) => self.lost.push(lost.facts()),
                Step::Done => return self.restored_all(),
            }
        }
    }

    /// The new process answered; what it refuses the host hears of.
    pub(super) fn restored(&mut self, ours: Token, answer: &Frame) {
        let Some((_, setting)) = self.settling.restoring.take_if(|(token, _)| *token == ours) else { return };
        let lost = self.settings.restored(setting, answer);
        self.lost.extend(lost.map(|lost| lost.facts()));
        self.restore_next();
    }

    /// It does not answer: the session is not held up for that.
    pub(super) fn restore_due(&mut self, ours: Token) {
        if self.ledger.close(ours).is_some() {
            let error = RpcError::runtime("the agent did not answer in time");
            self.restored(ours, &Frame::error(&error));
        }
    }
}
