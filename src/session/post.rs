//! What leaves a session: to its host in order, to its process, each with its record (R107, R242).

use super::{actor::State, outbox::Bundle};
use crate::{
    id::Token,
    peer,
    wire::{Call, Envelope, Frame, Letter, RpcError, author, credit::Credit},
};

impl State {
    /// Sends lines to the host, behind what waits to leave.
    pub(super) fn tell_host(&mut self, envelopes: Vec<Envelope>, credit: Credit) {
        if envelopes.is_empty() {
            return;
        }
        if let Some(Bundle { envelopes, credit }) = self.outbox.put(Bundle { envelopes, credit }) {
            self.post_host(envelopes, credit);
        }
    }

    /// Sends lines to the host now. A host that is gone answers nothing: its end is told by a word (R112).
    pub(super) fn post_host(&self, envelopes: Vec<Envelope>, credit: Credit) {
        let letter = Letter::Lines { from: self.address(), envelopes, credit };
        let _ = self.shared.directory.post(&self.order.host, letter);
    }

    /// Answers a request of the host's.
    pub(super) fn answer_host(&mut self, token: Token, frame: Frame) {
        self.tell_host(vec![Envelope::new(Call::Response(token), frame)], Credit::none());
    }

    /// Answers it now, before anything that waits.
    pub(super) fn post_answer(&self, token: Token, frame: Frame) {
        self.post_host(vec![Envelope::new(Call::Response(token), frame)], Credit::none());
    }

    /// Answers a request of the host's with an error.
    pub(super) fn refuse_host(&mut self, token: Token, error: &RpcError) {
        self.answer_host(token, Frame::error(error));
    }

    /// Sends lines to the process, and keeps them.
    pub(super) fn tell_peer(&self, envelopes: Vec<Envelope>, credit: Credit) {
        self.tell_peer_as(envelopes, credit, None);
    }

    /// The same, taking up a session that the peer knows under this id.
    pub(super) fn tell_peer_as(&self, envelopes: Vec<Envelope>, credit: Credit, known: Option<Vec<u8>>) {
        self.send_peer(envelopes, credit, known, self.record.kept);
    }

    /// Sends what is on record already.
    pub(super) fn tell_peer_again(&self, envelopes: Vec<Envelope>, credit: Credit) {
        self.send_peer(envelopes, credit, None, false);
    }

    fn send_peer(&self, envelopes: Vec<Envelope>, credit: Credit, known: Option<Vec<u8>>, keep: bool) {
        if let Some(peer) = &self.peer {
            let _ = peer.actor.cast(peer::Msg::Send { envelopes, credit, known, keep });
        }
    }

    /// Tells the host something about the session that is no part of the conversation (R86).
    pub(super) fn notice(&mut self, facts: serde_json::Value) {
        let notice = self.noticed(facts);
        self.tell_host(vec![notice], Credit::none());
    }

    /// The line that tells it.
    pub(super) fn noticed(&self, facts: serde_json::Value) -> Envelope {
        let now = jiff::Timestamp::now().to_string();
        Envelope::new(Call::Notification, author::notice(&self.order.id, now, facts))
    }
}
