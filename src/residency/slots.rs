//! Which sessions hold a slot. Pure.

use std::collections::HashMap;

use crate::id::SessionId;

/// Why there is no slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// All of them are taken (R63).
    #[error("all {limit} session slots are taken")]
    Full {
        /// How many there are.
        limit: usize,
    },
    /// That session has one already (R65).
    #[error("the session is resident or being set up already")]
    Taken,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Reserved,
    Resident,
    /// Its disposal could not be proved complete: it stays charged and unusable (R67).
    Stuck,
}

/// The slots.
#[derive(Debug)]
pub struct Slots {
    limit: usize,
    taken: HashMap<SessionId, State>,
}

/// How many slots are in which state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    pub resident: usize,
    pub reserved: usize,
}

impl Slots {
    /// That many.
    pub fn new(limit: usize) -> Self {
        Self { limit, taken: HashMap::new() }
    }

    /// Takes one, for a session that is being set up.
    pub fn reserve(&mut self, session: &SessionId) -> Result<(), Refusal> {
        if self.taken.contains_key(session) {
            return Err(Refusal::Taken);
        }
        if self.taken.len() >= self.limit {
            return Err(Refusal::Full { limit: self.limit });
        }
        self.taken.insert(session.clone(), State::Reserved);
        Ok(())
    }

    /// The session is set up.
    pub fn commit(&mut self, session: &SessionId) {
        if let Some(state) = self.taken.get_mut(session).filter(|state| **state == State::Reserved) {
            *state = State::Resident;
        }
    }

    /// The session is gone; one whose disposal failed keeps its slot (R67).
    pub fn release(&mut self, session: &SessionId) {
        if self.taken.get(session) != Some(&State::Stuck) {
            self.taken.remove(session);
        }
    }

    /// The session's disposal could not be proved complete.
    pub fn stick(&mut self, session: &SessionId) {
        if let Some(state) = self.taken.get_mut(session) {
            *state = State::Stuck;
        }
    }

    /// How many are taken.
    pub fn count(&self) -> Count {
        let reserved = self.taken.values().filter(|s| **s == State::Reserved).count();
        Count { resident: self.taken.len() - reserved, reserved }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R60, R65, R67: reservations and residents share one limit, a key has one owner, what is stuck stays charged.
    #[test]
    fn slots_are_bounded_and_owned() {
        let (a, b, c) = (SessionId::fresh(), SessionId::fresh(), SessionId::fresh());
        let mut s = Slots::new(2);
        assert_eq!(s.reserve(&a), Ok(()));
        assert_eq!(s.reserve(&a), Err(Refusal::Taken));
        assert_eq!(s.reserve(&b), Ok(()));
        s.commit(&a);
        assert_eq!(s.count(), Count { resident: 1, reserved: 1 });
        assert_eq!(s.reserve(&c), Err(Refusal::Full { limit: 2 }));
        s.release(&b);
        assert_eq!(s.reserve(&c), Ok(()));
        s.stick(&c);
        s.release(&c);
        s.release(&c);
        assert_eq!(s.count(), Count { resident: 2, reserved: 0 });
    }
}
