//! How a connection ends: its sessions end, what they still say is written, then it closes (R208).

use std::time::Duration;

use super::{
    actor::{Msg, State},
    stage::Stage,
};
use crate::{
    berth::{self, Answer},
    egress::{self, Failure},
    id::{Address, SessionId},
    ingress::End,
    limits::STOP_HARD_MS_MAX,
    session::Ending,
    wire::{Letter, Loss, RpcError, Word},
};

/// How long a host that says nothing more may wait for its `initialize`: a script that asks that alone.
const LAST_ANSWER_MAX: Duration = Duration::from_millis(500);

impl State {
    pub(super) fn read_end(&mut self, end: &End) {
        match end {
            End::Eof if self.stage == Stage::Initialising => {
                self.ended = true;
                self.me.send_after(LAST_ANSWER_MAX, || Msg::EofDue);
            }
            End::Eof => self.lose(Loss::Eof),
            End::Failed(_) | End::Unwanted => self.lose(Loss::Broken),
            End::Unfinished => {
                self.say_null(&RpcError::invalid_request("a line was begun and not ended in time"));
                self.lose(Loss::Broken);
            }
        }
    }

    pub(super) fn egress_event(&mut self, event: &egress::Event) {
        match event {
            egress::Event::Closed => self.me.stop(Some("closed".to_owned())),
            egress::Event::Overflow(lane) => self.overflow(*lane),
            egress::Event::Failed(failure) => {
                let loss = if matches!(failure, Failure::Broken(_)) { Loss::Broken } else { Loss::Stalled };
                tracing::info!(host = self.number, ?failure, "host cannot be written to");
                self.lose(loss);
                self.me.stop(Some("broken".to_owned()));
            }
            egress::Event::Refused(_) => {}
        }
    }

    /// More was said of a session than its lane holds: that session ends, the others go on (R112, R115).
    fn overflow(&mut self, lane: egress::Lane) {
        let session = self.lanes.iter().find(|(_, l)| **l == lane).map(|(id, _)| id.clone());
        if let Some(id) = session {
            tracing::warn!(session = %id, kind = "overflow", "host takes too little");
            self.end_session(&id, Loss::Overflow);
        }
    }

    /// The host is gone. Its sessions end; nothing waits beyond them yet (R51 needs an inbox).
    pub(super) fn lose(&mut self, loss: Loss) {
        if self.stage == Stage::Closing {
            return;
        }
        tracing::info!(host = self.number, ?loss, sessions = self.sessions.len(), "host is gone");
        self.stage = Stage::Closing;
        let warm = self.warm.as_ref().map(|w| w.id.clone());
        let all: Vec<SessionId> = self.sessions.iter().cloned().chain(warm).collect();
        all.iter().for_each(|id| self.end_session(id, loss));
        self.me.send_after(Duration::from_millis(2 * STOP_HARD_MS_MAX), || Msg::CloseDue);
        self.close_when_empty();
    }

    fn end_session(&self, id: &SessionId, loss: Loss) {
        let word = Letter::Word { from: Address::Host(self.number), word: Word::HostLost(loss) };
        // Told directly, because its berth may be waiting for it to open.
        let _ = self.shared.directory.post(&Address::Session(id.clone()), word);
        let answer = Answer::Unheard(Address::Host(self.number));
        let _ = self.berths.cast(berth::Msg::End(id.clone(), Ending::host_lost(loss), answer));
    }

    /// The half that still reads may hear the last answers; then the connection closes.
    pub(super) fn close_when_empty(&mut self) {
        if self.sessions.is_empty() && self.warm.is_none() {
            let _ = self.egress.cast(egress::Msg::Close);
        }
    }

    /// The daemon stops: what is there is written, and that is all.
    pub(super) fn close(&mut self) {
        self.stage = Stage::Closing;
        let _ = self.egress.cast(egress::Msg::Close);
    }

    pub(super) fn broken(&mut self) {
        self.lose(Loss::Broken);
        self.me.stop(Some("broken".to_owned()));
    }

    /// Who says nothing has no business here (R256).
    pub(super) fn first_due(&mut self) {
        // The hello is a message: an editor may start its bridge long before it needs it.
        if !self.heard && self.stage != Stage::Closing {
            let ms = self.shared.limits.first_message_ms;
            self.say_null(&RpcError::invalid_request(format!(
                "no message within {ms} ms: limits.first_message_ms"
            )));
            self.lose(Loss::Eof);
        }
    }
}

impl Drop for State {
    /// Whatever ended the connection, its sessions are not left without anybody.
    fn drop(&mut self) {
        if self.stage != Stage::Closing {
            let warm = self.warm.as_ref().map(|w| &w.id);
            self.sessions.iter().chain(warm).for_each(|id| self.end_session(id, Loss::Broken));
        }
    }
}
