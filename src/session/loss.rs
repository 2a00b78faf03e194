//! A process is lost, or given up: what it owed is answered, what it held is given back (R227, R251).

use serde_json::{json, value::RawValue};

use super::{
    actor::{Msg, Stage, State},
    ledger::{Kind, Side},
    prompts::withdrawal,
};
use crate::{
    history::Mark,
    id::Generation,
    limits::OPEN_PEER_REQUESTS_MAX,
    peer::{Cause, Death, Outcome},
    wire::{Call, Envelope, Frame, RpcError, author, credit::Credit, patch::Object},
};

impl State {
    pub(super) fn peer_down(&mut self, mut death: Death) {
        self.peer = None;
        death.prompt_open = self.turn.is_active();
        self.card.set("last_exit", death.to_string());
        let outcome = death.outcome(self.answered);
        tracing::info!(session = %self.order.id, ?outcome, answered = self.answered, "peer exit classified");
        if self.is_ending() {
            return self.gone(&death);
        }
        self.note_unproved(&death);
        tracing::warn!(session = %self.order.id, %death, "peer is gone");
        self.mark(&Mark::PeerGone { cause: death.to_string().into() });
        if outcome == Outcome::Failed && death.is_failure() {
            let _ =
                self.reports.send_message(super::Report::Failed(self.order.program(), death.error().message));
        }
        let live = self.stage == Stage::Live;
        if live {
            self.notice(json!({ "peer": "gone" }));
        }
        // A prompt that waited starts another process right away.
        self.bereaved(&death.error());
        if !live {
            self.start_failed(&death);
        }
    }

    /// A process that was given up is gone: what waited for that goes on.
    pub(super) fn left(&mut self, generation: Generation, death: &Death) {
        self.leaving.retain(|g| *g != generation);
        self.sleeping.told = None;
        self.note_unproved(death);
        if !self.leaving.is_empty() {
            return;
        }
        if self.is_ending() && self.peer.is_none() {
            self.gone(death);
        } else if let Some(seat) = self.start_waits.take() {
            let _ = self.me.cast(Msg::Start(Ok(seat)));
        }
    }

    /// The peer's mailbox failed: its process went with it.
    pub(super) fn peer_panicked(&mut self, error: &str) {
        let death = Death {
            agent: self.order.name.clone(),
            cause: Cause::ReadFailed(format!("internal error: {error}")),
            exit: None,
            unanswered: None,
            stderr: String::new(),
            prompt_open: false,
        };
        match self.leaving.last().copied() {
            _ if self.peer.is_some() => self.peer_down(death),
            // Which of them it was does not matter: a mailbox that failed took its process with it.
            Some(generation) => self.left(generation, &death),
            None => {}
        }
    }

    /// The process is given up while its session lives on.
    pub(super) fn forsake_peer(&mut self, why: &str) {
        self.drop_peer(&RpcError::runtime(format!("agent `{}` was ended: {why}", self.order.name)));
    }

    /// Nobody answers any more what the peer was asked, and nobody waits for what it asked (R251).
    pub(super) fn bereaved(&mut self, error: &RpcError) {
        let waiting_for_nobody = self.ledger.take(|o| o.side == Side::Peer);
        let back = waiting_for_nobody.iter().map(|(ours, _)| withdrawal(*ours)).collect();
        self.tell_host(back, Credit::none());
        let released = std::mem::take(&mut self.terminals);
        self.release_terminals(released);
        self.splits.clear();
        self.sets_lost();
        let turn = self.ledger.take(|o| o.kind == Kind::Prompt);
        for (_, open) in self.ledger.take(|o| o.side == Side::Host) {
            self.refuse_host(open.token, error);
        }
        self.ledger.take(|o| {
            o.side == Side::Ours && !matches!(o.kind, Kind::TerminalCreate | Kind::TerminalRelease)
        });
        // A terminal that the host makes all the same is released when it says so.
        for (ours, _) in waiting_for_nobody.iter().filter(|(_, o)| o.kind == Kind::TerminalCreate) {
            self.ledger.adopt(*ours, Kind::TerminalCreate);
        }
        if !turn.is_empty() {
            self.finish_turn(Frame::error(error));
        }
    }

    pub(super) fn note_terminal(&mut self, answer: &Frame) {
        let room = self.terminals.len() < OPEN_PEER_REQUESTS_MAX;
        self.terminals.extend(terminal(answer).filter(|_| room));
    }

    pub(super) fn forget_terminal(&mut self, request: &Frame) {
        let params = Object::of(request.member("params").map_or("{}", RawValue::get));
        if let Some(id) = params.get("terminalId") {
            self.terminals.retain(|t| **t != *id.get());
        }
    }

    /// The peer is gone and released nothing: its terminals at the host are released for it.
    pub(super) fn release_terminals(&mut self, ids: Vec<Box<str>>) {
        let mut releases = Vec::with_capacity(ids.len());
        for id in ids.iter().filter_map(|id| serde_json::from_str(id).ok()) {
            let ours = self.ledger.enter(Side::Ours, 0, Kind::TerminalRelease);
            releases.push(Envelope::new(Call::Request(ours), author::release_terminal(&self.order.id, id)));
        }
        self.tell_host(releases, Credit::none());
    }
}

/// The terminal that the host made, as written.
pub(super) fn terminal(answer: &Frame) -> Option<Box<str>> {
    let result = Object::of(answer.member("result")?.get());
    result.get("terminalId").map(|id| id.get().into())
}
