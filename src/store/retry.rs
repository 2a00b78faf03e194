//! The way of a write to the disk when there may be no space on it (R274).
//!
//! Whoever waits for a write that does not fit hears so. What nobody waits for stays in the backlog of its session, with
//! its credit, and everything later of that session comes behind it.

use std::{
    collections::HashSet,
    slice,
    time::{Duration, Instant},
};

use super::{
    StoreError, Write,
    failure::Setback,
    shrink,
    writer::{Writer, say},
};
use crate::{id::SessionId, limits::SPACE_RETRY_MS};

impl Writer {
    /// Stores a group; all of it with one commit when nothing is in the way.
    pub(super) fn store(&mut self, group: Vec<Write>) -> Result<(), StoreError> {
        let (ready, behind) = self.divide(group);
        if !ready.is_empty() {
            match self.committer.commit(&ready) {
                Ok(done) => self.settle(ready, done),
                Err(setback) => self.one_by_one(ready, setback)?,
            }
        }
        behind.into_iter().try_for_each(|write| self.alone(write))
    }

    /// Takes out what must come behind a backlog, with everything of the same sessions that follows it.
    fn divide(&self, group: Vec<Write>) -> (Vec<Write>, Vec<Write>) {
        if self.backlog.is_empty() {
            return (group, Vec::new());
        }
        let mut held = HashSet::new();
        group.into_iter().partition(|write| {
            let waits = write.concerns().any(|session| self.backlog.holds(session) || held.contains(session));
            if waits {
                held.insert(write.session.clone());
            }
            !waits
        })
    }

    fn one_by_one(&mut self, group: Vec<Write>, setback: Setback) -> Result<(), StoreError> {
        match setback {
            Setback::Full => {
                // the same pages often stand in the log many times
                let _ = shrink::empty_log(&self.committer.connection);
                group.into_iter().try_for_each(|write| self.alone(write))
            }
            Setback::Busy(_) => {
                group.into_iter().for_each(|write| self.set_aside(write, &setback));
                Ok(())
            }
            Setback::Broken(why) => {
                let error = self.broken(why);
                group.into_iter().for_each(|write| say(write, Err(error.clone())));
                Err(error)
            }
        }
    }

    /// One write behind the backlog of its session; one that deletes the session does not wait for that.
    fn alone(&mut self, write: Write) -> Result<(), StoreError> {
        if !write.deletes() {
            let before: Vec<SessionId> = write.concerns().cloned().collect();
            for session in &before {
                if let Some(setback) = self.flush(session)? {
                    self.set_aside(write, &setback);
                    return Ok(());
                }
            }
        }
        match self.committer.commit(slice::from_ref(&write)) {
            Ok(done) => self.settle(vec![write], done),
            Err(setback @ Setback::Broken(_)) => return self.one_by_one(vec![write], setback),
            Err(setback) => self.set_aside(write, &setback),
        }
        Ok(())
    }

    /// Tries the backlog of a session: why something of it is left, if something is.
    fn flush(&mut self, session: &SessionId) -> Result<Option<Setback>, StoreError> {
        let mut waiting = self.backlog.take(session);
        let some = !waiting.is_empty();
        while let Some(write) = waiting.pop_front() {
            // What it copies is whole first (R46).
            if let Some(setback) = self.flush_sources(&write)? {
                waiting.push_front(write);
                self.backlog.put_back(session, waiting);
                return Ok(Some(setback));
            }
            match self.committer.commit(slice::from_ref(&write)) {
                Ok(done) => self.settle(vec![write], done),
                Err(Setback::Broken(why)) => return Err(self.broken(why)),
                Err(setback) => {
                    waiting.push_front(write);
                    self.backlog.put_back(session, waiting);
                    return Ok(Some(setback));
                }
            }
        }
        if some {
            tracing::info!(%session, "what waited for space is stored");
        }
        Ok(None)
    }

    /// Tries the backlogs of other sessions that a write reads.
    fn flush_sources(&mut self, write: &Write) -> Result<Option<Setback>, StoreError> {
        let sources: Vec<SessionId> =
            write.concerns().filter(|id| **id != write.session && self.backlog.holds(id)).cloned().collect();
        for source in &sources {
            if let Some(setback) = self.flush(source)? {
                return Ok(Some(setback));
            }
        }
        Ok(None)
    }

    /// Tries all backlogs, and says when that is done again.
    pub(super) fn flush_all(&mut self) -> Result<(), StoreError> {
        self.again = None;
        for session in self.backlog.sessions() {
            // a smaller line of another session may fit, but a lock is in the way of all
            if let Some(Setback::Busy(_)) = self.flush(&session)? {
                break;
            }
        }
        if !self.backlog.is_empty() {
            self.again = Some(later());
        }
        Ok(())
    }

    /// It was not stored: whoever waits hears that, what nobody waits for is tried again.
    fn set_aside(&mut self, write: Write, setback: &Setback) {
        let error = setback.told(write.session.as_str(), &self.committer.path);
        if write.ack.is_some() {
            return say(write, Err(error));
        }
        let session = write.session.clone();
        if self.backlog.push(write) {
            tracing::warn!(%session, %error, "lines wait until they can be stored");
        }
        self.again.get_or_insert_with(later);
    }
}

/// When something is tried again for which there was no space.
pub(super) fn later() -> Instant {
    Instant::now() + Duration::from_millis(SPACE_RETRY_MS)
}
