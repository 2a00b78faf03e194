//! Without a host, and with one again (R41, R52, R61, R112, R148).
//!
//! ```text
//!   held -> detached -> held (another host, or the same, took it up)
//!               `-> (gone, when it is idle for long)
//! ```

use std::time::Duration;

use serde_json::json;
use tokio::sync::oneshot;

use super::{
    actor::{Msg, State},
    ending::{Ending, Reason},
    ledger::{Kind, Side},
    order::Order,
    prompts::unanswered,
    route::Services,
};
use crate::{
    config::OnHostLoss,
    history::Mark,
    id::{Address, Token},
    wire::{Call, Envelope, Frame, Loss, RpcError, credit::Credit},
};

impl State {
    /// Whether a host holds it.
    pub(super) fn is_attached(&self) -> bool {
        self.order.host != Address::Nobody
    }

    /// Ends, unless it is one that outlives its host: who waits for the end hears that it stays.
    pub(super) fn end_or_stay(&mut self, ending: Ending, stays: Option<oneshot::Sender<()>>) {
        let lost = matches!(ending.reason, Reason::HostLost(loss) if loss.leaves_others());
        if lost && self.outlives_host() {
            self.detach("the host is gone");
            if let Some(stays) = stays {
                let _ = stays.send(());
            }
        } else {
            self.end(ending);
        }
    }

    fn outlives_host(&self) -> bool {
        let wanted = !self.is_attached() || self.order.agent.on_host_loss == OnHostLoss::Continue;
        wanted && self.record.kept && !self.is_ending()
    }

    /// An operator takes it from its host. One that is not open yet, or on its way out, stays as it is.
    pub(super) fn let_go(&mut self, stays: oneshot::Sender<()>) {
        if !self.record.kept || self.is_ending() {
            return;
        }
        let why = "the operator took the session from its host";
        if self.is_attached() {
            self.notice(json!({ "detached": { "reason": why } }));
        }
        self.detach(why);
        let _ = stays.send(());
    }

    /// Its host is gone and the turn goes on: into the store, and questions wait (R112, R140).
    fn detach(&mut self, why: &str) {
        if !self.is_attached() {
            return;
        }
        tracing::info!(session = %self.order.id, host = ?self.order.host, "detached");
        self.order.host = Address::Nobody;
        self.mark(&Mark::Host { state: "detached".into(), reason: why.into() });
        self.showing = None;
        self.order.opened = None;
        self.outbox.clear();
        self.outbox.open();
        self.early.clear();
        self.terminals.clear();
        for number in self.turn.orphan() {
            self.never_ran(number, "its host is gone");
        }
        self.disown_requests();
        self.answer_services();
        self.questions_detached();
        self.detached_later();
    }

    /// What the host asked is answered to nobody.
    fn disown_requests(&mut self) {
        for (ours, _) in self.ledger.take(|o| o.side == Side::Host && o.kind != Kind::Prompt) {
            self.ledger.adopt(ours, Kind::Other);
        }
    }

    /// What only a host can serve fails; it never falls back to something local (R41).
    fn answer_services(&mut self) {
        for (_, open) in self.ledger.take(|o| o.side == Side::Peer && o.kind != Kind::Permission) {
            self.tell_peer(
                vec![Envelope::new(Call::Response(open.token), unserved(open.kind))],
                Credit::none(),
            );
        }
    }

    /// A service that only a host could give, while none is there.
    pub(super) fn unserved(&mut self, token: Token, kind: Kind) {
        self.tell_peer(vec![Envelope::new(Call::Response(token), unserved(kind))], Credit::none());
    }

    /// A host holds it and has seen everything: what waits in the inbox may run (R190).
    pub(super) fn attached(&mut self) {
        self.release();
    }

    /// A host has it again: it is asked what is open (R41, PERM-05).
    pub(super) fn ask_again(&mut self) {
        if !std::mem::take(&mut self.asks_again) {
            return;
        }
        self.forget_questions();
        let _ = self.waiting.attach();
        let ask = |(ours, frame): (_, &Frame)| Envelope::new(Call::Request(ours), frame.clone());
        let questions: Vec<_> = self.questions.all().map(ask).collect();
        if !questions.is_empty() {
            self.post_host(questions, Credit::none());
        }
    }

    /// Another host, or the same one again, takes it up while it lives.
    pub(super) fn adopt(&mut self, order: Order) {
        if order.host != self.order.host {
            tracing::info!(session = %self.order.id, host = ?order.host, "attached");
            self.order.host = order.host;
            self.order.capabilities = order.capabilities;
            self.services = Services::of(&self.order.capabilities);
            self.order.authenticated = order.authenticated;
            self.asks_again = true;
            // Nothing is said to it before it has seen what was.
            self.outbox.close();
        }
        self.order.opened = order.opened;
        self.host_lines(order.first, Credit::none());
    }

    /// A session that nobody comes for does not stay for ever (R61).
    pub(super) fn detached_later(&mut self) {
        self.detachments += 1;
        let number = self.detachments;
        let after = Duration::from_millis(self.shared.limits.detached_idle_ms);
        self.later(after, move || Msg::DetachedDue(number));
    }

    pub(super) fn detached_due(&mut self, number: u64) {
        if number != self.detachments || self.is_attached() {
            return;
        }
        if self.is_idle() {
            self.end(Ending::orderly(Reason::Idle));
        } else {
            self.detached_later();
        }
    }
}

/// What a peer hears of a service that only a host could give.
fn unserved(kind: Kind) -> Frame {
    match kind {
        Kind::Elicitation => unanswered(kind),
        _ => Frame::error(&RpcError::internal("no host is attached to the session")),
    }
}

impl Loss {
    /// Whether the daemon and its other hosts live on.
    fn leaves_others(self) -> bool {
        !matches!(self, Self::Stopping | Self::Replaced)
    }
}
