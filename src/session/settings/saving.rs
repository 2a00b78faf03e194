//! Changes on their way to the disk, one at a time: stored first, told afterwards (R170, R173, R179). Pure.

use serde_json::json;
use smallvec::SmallVec;

use super::{Settings, change::Change, line};
use crate::{id::SessionId, store, wire::Frame};

/// What became of changes, and what is to be stored next.
#[derive(Debug, Default)]
#[must_use]
pub struct Saved {
    /// Changes that are stored, in order, or could not be.
    pub done: SmallVec<[(Change, Outcome); 1]>,
    /// To be written and synced; then [`Settings::saved`].
    pub write: Option<store::Settings>,
}

/// What became of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is stored and in force: tell it and answer.
    Stored,
    /// It could not be stored and is not in force: [`Settings::undo`], and an error.
    NotStored,
}

impl Settings {
    /// A change is to be stored. It may wait behind others, or be stored already.
    pub fn save(&mut self, change: Change) -> Saved {
        self.saves.push_back(change);
        if self.writing.is_none() { self.write() } else { Saved::default() }
    }

    /// The write of before is on the disk, or failed.
    pub fn saved(&mut self, ok: bool) -> Saved {
        let Some(written) = self.writing.take() else { return Saved::default() };
        if ok {
            self.stored = written;
        }
        let outcome = if ok { Outcome::Stored } else { Outcome::NotStored };
        let first = self.saves.pop_front().map(|change| (change, outcome));
        let Saved { done, write } = self.write();
        Saved { done: first.into_iter().chain(done).collect(), write }
    }

    /// A change of the host's that could not be stored: what sets the peer back, where the peer has it already.
    #[must_use]
    pub fn undo(&mut self, session: &SessionId, change: &Change) -> Option<Frame> {
        let before = change.before.as_ref()?;
        let request = line::request(session, before)?;
        self.is_set(before, &Frame::result(&json!({})));
        Some(request)
    }

    /// What is written for the first change that makes a difference; those before it are done.
    fn write(&mut self) -> Saved {
        let mut saved = Saved::default();
        while let Some(change) = self.saves.front() {
            let next = change.apply(&self.stored, &self.offer);
            if next != self.stored {
                self.writing = Some(next.clone());
                saved.write = Some(next);
                break;
            }
            saved.done.extend(self.saves.pop_front().map(|change| (change, Outcome::Stored)));
        }
        saved
    }
}
