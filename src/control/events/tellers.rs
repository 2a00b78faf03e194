//! The tellers of all sessions that somebody hears of. Pure.

use std::collections::HashMap;

use super::teller::Teller;
use crate::id::SessionId;

/// How many are kept: more than sessions that live, and few enough for those that are long over.
const TELLERS_MAX: usize = 1_024;

/// Tellers by their sessions; who was not asked for longest is forgotten when there are too many.
#[derive(Debug, Default)]
pub(super) struct Tellers {
    all: HashMap<SessionId, (u64, Teller)>,
    asked: u64,
}

impl Tellers {
    /// The teller of that session; `name` is what its agent calls it.
    pub fn of(&mut self, session: &SessionId, name: impl FnOnce() -> String) -> &mut Teller {
        if !self.all.contains_key(session) && self.all.len() >= TELLERS_MAX {
            self.forget_one();
        }
        self.asked += 1;
        let entry = self.all.entry(session.clone()).or_insert_with(|| (0, Teller::new(&name())));
        entry.0 = self.asked;
        &mut entry.1
    }

    /// Its session is over.
    pub fn forget(&mut self, session: &SessionId) {
        self.all.remove(session);
    }

    fn forget_one(&mut self) {
        let oldest = self.all.iter().min_by_key(|(_, (asked, _))| *asked).map(|(id, _)| id.clone());
        oldest.into_iter().for_each(|id| self.forget(&id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tellers_are_bounded_and_the_one_in_use_stays() {
        let mut tellers = Tellers::default();
        let id = |n: usize| SessionId::parse(&format!("s{n}")).unwrap();
        for n in 0..2 * TELLERS_MAX {
            let _ = tellers.of(&id(n), String::new);
            let _ = tellers.of(&id(0), || panic!("it is there"));
        }
        assert_eq!(tellers.all.len(), TELLERS_MAX);
    }
}
