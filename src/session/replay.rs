//! Showing a host what was said before it came (R37, R41, R44, R281).
//!
//! A task reads the store page by page and lends each page's bytes from a budget of its own, so a history of any
//! length is shown in bounded memory; the session posts what the task casts, and nothing else leaves meanwhile.

use ractor::ActorRef;

use super::{
    actor::{Msg, State},
    ending::{Ending, Reason},
    record::{After, alone, noted},
    relay::is_settings,
};
use crate::{
    history::{Mark, Replay},
    id::{SessionId, Token},
    limits::{REPLAY_PAGE_BYTES, WINDOW_BYTES, WINDOW_ITEMS},
    store::{Reader, StoreError},
    wire::{
        Call, Envelope, Frame, RpcError,
        credit::{Amount, Budget, Credit, Large},
    },
};

/// A host is being shown what was said.
#[derive(Debug)]
pub(super) struct Showing {
    /// Counts them: a page of one that was given up is nobody's.
    pub number: u64,
    /// Who asked.
    pub token: Token,
    /// What it hears when it has seen everything.
    pub answer: Frame,
    /// Whether it is shown history at all (R53).
    pub history: bool,
}

impl State {
    /// Nothing new leaves for the host until it has seen what was, and its answer (R41, R190).
    pub(super) fn show(&mut self, token: Token, answer: Frame, history: bool) {
        if let Some(before) = self.showing.take() {
            self.post_answer(before.token, Frame::error(&RpcError::cancelled()));
        }
        self.shows += 1;
        self.outbox.close();
        self.showing = Some(Showing { number: self.shows, token, answer, history });
        let mark = Mark::Host { state: "attached".into(), reason: "session/load".into() };
        self.write_then(alone(noted(&mark)), false, After::Replay);
    }

    /// Everything up to here is history, everything after it waits in the outbox.
    pub(super) fn replay_upto(&mut self, upto: Result<i64, StoreError>) {
        let Some(showing) = &self.showing else { return };
        let number = showing.number;
        match upto {
            Ok(_) if !showing.history => self.shown(number, Ok(())),
            Ok(upto) => {
                let (reader, id) = (self.shared.reader.clone(), self.order.id.clone());
                let pages = Pages { reader, id, upto, large: self.shared.large.clone() };
                tokio::spawn(pages.show(number, self.me.clone()));
            }
            Err(error) => self.shown(number, Err(error)),
        }
    }

    /// A page of history.
    pub(super) fn show_page(&mut self, number: u64, frames: Vec<Frame>, credit: Credit) {
        if self.showing.as_ref().is_some_and(|s| s.number == number) {
            let frames = frames.into_iter().filter_map(|frame| self.retold(frame));
            let envelopes = frames.map(|f| Envelope::new(Call::Notification, f)).collect();
            self.post_host(envelopes, credit);
        }
    }

    fn retold(&self, frame: Frame) -> Option<Frame> {
        if is_settings(&frame) { self.settings.retold(&self.order.id, frame) } else { Some(frame) }
    }

    /// The host has seen everything: its answer, the questions that are open, then what happened meanwhile.
    pub(super) fn shown(&mut self, number: u64, outcome: Result<(), StoreError>) {
        let Some(showing) = self.showing.take_if(|s| s.number == number) else { return };
        if let Err(error) = outcome {
            let error = RpcError::internal(format!("show session {}: {error}", self.order.id));
            return self.show_failed(showing.token, &error);
        }
        self.post_answer(showing.token, showing.answer);
        self.order.opened = None;
        self.ask_again();
        self.outbox.open();
        self.post_waiting();
        self.attached();
    }

    /// A load that failed leaves nothing of its own (R42): what it opened ends, what lived before goes on.
    fn show_failed(&mut self, token: Token, error: &RpcError) {
        self.outbox.open();
        if self.order.opened.is_some() {
            self.last_answers.push((token, Frame::error(error)));
            return self.end(Ending::at_once(Reason::Failed));
        }
        self.post_answer(token, Frame::error(error));
        self.post_waiting();
    }
}

struct Pages {
    reader: Reader,
    id: SessionId,
    upto: i64,
    large: Large,
}

impl Pages {
    async fn show(self, number: u64, session: ActorRef<Msg>) {
        let still = self.reader.hold_still().await;
        let outcome = self.read(number, &session).await;
        drop(still);
        let _ = session.cast(Msg::Shown(number, outcome));
    }

    async fn read(&self, number: u64, session: &ActorRef<Msg>) -> Result<(), StoreError> {
        let limit = Amount { items: WINDOW_ITEMS, bytes: WINDOW_BYTES };
        let budget = Budget::new(limit, self.large.clone());
        let mut replay = Replay::new(self.id.clone());
        let mut after = 0;
        loop {
            let (reader, id, upto) = (self.reader.clone(), self.id.clone(), self.upto);
            let page = tokio::task::spawn_blocking(move || {
                let mut frames = Vec::new();
                let rows = reader.rows(Some(&id), after, upto, REPLAY_PAGE_BYTES)?;
                rows.iter().for_each(|row| replay.take(row, &mut frames));
                if rows.is_empty() {
                    replay.finish(&mut frames);
                }
                Ok((replay, frames, rows.last().map(|row| row.number)))
            });
            let (back, frames, last) = page.await.map_err(|_| StoreError::Closed)??;
            replay = back;
            send(number, frames, &budget, session).await;
            match last {
                Some(last) => after = last,
                None => return Ok(()),
            }
        }
    }
}

/// Hands over as many at a time as may be on their way.
async fn send(number: u64, mut frames: Vec<Frame>, budget: &Budget, session: &ActorRef<Msg>) {
    while !frames.is_empty() {
        let lengths: Vec<usize> = frames.iter().map(|f| f.line().len()).collect();
        let (credit, count) = budget.lend(&lengths, frames.len(), &mut None).await;
        let rest = frames.split_off(count);
        if session.cast(Msg::Page(number, std::mem::replace(&mut frames, rest), credit)).is_err() {
            return;
        }
    }
}
