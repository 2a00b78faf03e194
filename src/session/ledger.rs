//! Requests that pass through the session and are not answered yet, of both sides. Pure.

use std::collections::HashMap;

use super::children::Number;
use crate::id::Token;

/// Who asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The host.
    Host,
    /// The peer.
    Peer,
    /// The session itself.
    Ours,
}

/// What was asked, as far as its end matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `session/prompt`.
    Prompt,
    /// `session/new` and its kin: opens the session on the peer.
    Open,
    /// `session/fork`: our own, for a fork of the session (R46).
    Fork,
    /// A setting that the host asks for.
    Setting,
    /// A setting that a new process is told: our own (R284).
    Restore,
    /// `authenticate`.
    Authenticate,
    /// `logout`.
    Logout,
    /// `session/request_permission`.
    Permission,
    /// `elicitation/create`.
    Elicitation,
    /// `terminal/create`.
    TerminalCreate,
    /// `terminal/release`.
    TerminalRelease,
    /// Anything that is only carried.
    Other,
}

/// One open request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Open {
    /// Who asked.
    pub side: Side,
    /// Under which token of theirs.
    pub token: Token,
    /// What.
    pub kind: Kind,
    /// On behalf of which child.
    pub child: Option<Number>,
}

/// All of them, by our own token.
#[derive(Debug, Default)]
pub struct Ledger {
    open: HashMap<Token, Open>,
    next: Token,
}

impl Ledger {
    /// Enters one: our token for it.
    pub fn enter(&mut self, side: Side, token: Token, kind: Kind) -> Token {
        self.next += 1;
        self.open.insert(self.next, Open { side, token, kind, child: None });
        self.next
    }

    /// Enters a request of the peer on behalf of a child.
    pub fn enter_for(&mut self, child: Option<Number>, token: Token, kind: Kind) -> Token {
        self.next += 1;
        self.open.insert(self.next, Open { side: Side::Peer, token, kind, child });
        self.next
    }

    /// Nobody but ourselves waits for the answer any more.
    pub fn adopt(&mut self, ours: Token, kind: Kind) {
        self.open.insert(ours, Open { side: Side::Ours, token: 0, kind, child: None });
    }

    /// Takes one out, to answer it. `None`: it was answered before.
    pub fn close(&mut self, ours: Token) -> Option<Open> {
        self.open.remove(&ours)
    }

    /// One that is open.
    pub fn get(&self, ours: Token) -> Option<Open> {
        self.open.get(&ours).copied()
    }

    /// Our token for a request of theirs.
    pub fn find(&self, side: Side, token: Token) -> Option<Token> {
        self.open.iter().find(|(_, o)| o.side == side && o.token == token).map(|(ours, _)| *ours)
    }

    /// Takes out all for which this holds, oldest first.
    pub fn take(&mut self, holds: impl Fn(&Open) -> bool) -> Vec<(Token, Open)> {
        let mut taken: Vec<_> = self.open.extract_if(|_, open| holds(open)).collect();
        taken.sort_unstable_by_key(|(ours, _)| *ours);
        taken
    }

    /// How many are open of that side.
    pub fn count(&self, side: Side) -> usize {
        self.open.values().filter(|o| o.side == side).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Law 5: a request is answered once; the second answer finds nothing.
    #[test]
    fn a_request_is_taken_out_once() {
        let mut l = Ledger::default();
        let a = l.enter(Side::Peer, 7, Kind::Permission);
        let b = l.enter(Side::Host, 7, Kind::Prompt);
        assert_eq!(l.find(Side::Peer, 7), Some(a));
        assert_eq!(l.close(b).map(|o| o.kind), Some(Kind::Prompt));
        assert!(l.close(b).is_none());
        assert_eq!(l.take(|o| o.side == Side::Peer).len(), 1);
        assert!(l.close(a).is_none());
    }
}
