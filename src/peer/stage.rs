//! How far a peer has come. Pure.

use std::collections::HashSet;

use crate::limits::CHILDREN_MAX;

/// The life of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Its shim is being started.
    Spawning,
    /// `initialize` is out.
    Initialising,
    /// It may be asked anything.
    Ready,
    /// It was told to go, or is going.
    Ending,
}

/// Which session ids of this wire are ours.
#[derive(Debug, Default)]
pub struct Binding {
    /// The peer's id of the session, as written, quotes included.
    own: Option<Box<[u8]>>,
    /// A request that binds is out: what comes for an unknown id may be for the one to come (R105).
    opening: bool,
    /// Sessions it announced as children of ours (R276).
    children: HashSet<Box<[u8]>>,
}

/// Whose a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Owner {
    /// Our session's, or a child's of it, or nobody's in particular.
    Ours,
    /// Perhaps that of the session that is being opened, or will be (R27).
    Early,
    /// Somebody else's: kept out (R105).
    Foreign,
}

impl Binding {
    /// A request that binds goes out; the id is known already when a session is taken up again. `hold` says
    /// whether what comes before the answer waits for it; a history that is swallowed does not.
    pub fn open(&mut self, known: Option<&[u8]>, hold: bool) {
        self.opening = hold;
        if let Some(id) = known {
            self.own = Some(id.into());
        }
    }

    /// The request was answered.
    pub fn opened(&mut self, id: Option<&[u8]>) {
        self.opening = false;
        if let Some(id) = id {
            self.own = Some(id.into());
        }
    }

    /// The peer's own id of the session, as written.
    pub fn own(&self) -> Option<&[u8]> {
        self.own.as_deref()
    }

    /// Remembers a child session that a line of ours announced.
    pub fn announce(&mut self, child: &[u8]) {
        if self.children.len() < CHILDREN_MAX {
            self.children.insert(child.into());
        }
    }

    /// Whose a line is that names this session, if any.
    pub fn owner(&self, session: Option<&[u8]>) -> Owner {
        match (session, self.own()) {
            (None, _) => Owner::Ours,
            (Some(id), Some(own)) if id == own && !self.opening => Owner::Ours,
            (Some(id), _) if self.children.contains(id) => Owner::Ours,
            (Some(_), None) => Owner::Early,
            (Some(_), _) if self.opening => Owner::Early,
            _ => Owner::Foreign,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R105: what comes before the answer is early, what is somebody else's stays out.
    #[test]
    fn a_line_belongs_to_ours_early_or_nobody() {
        let mut b = Binding::default();
        assert_eq!((b.owner(None), b.owner(Some(b"\"a\""))), (Owner::Ours, Owner::Early));
        b.open(None, true);
        assert_eq!(b.owner(Some(b"\"a\"")), Owner::Early);
        b.opened(Some(b"\"a\""));
        assert_eq!((b.owner(Some(b"\"a\"")), b.owner(Some(b"\"b\""))), (Owner::Ours, Owner::Foreign));
        b.announce(b"\"b\"");
        assert_eq!(b.owner(Some(b"\"b\"")), Owner::Ours);
    }
}
