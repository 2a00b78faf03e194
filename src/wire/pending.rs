//! The ledger of one wire: which requests are open on it, in both directions (R3, R4).
//!
//! JSON-RPC ids begin and end here. Inbound requests get a token that the house knows them by; outbound requests
//! get the next number of this wire, never used twice (R4).

use std::collections::HashMap;

use crate::id::Token;

/// Open requests of one wire. `I` is remembered for each inbound request, `O` for each outbound one.
#[derive(Debug)]
pub struct Pending<I, O> {
    inbound: HashMap<Token, (Box<[u8]>, I)>,
    outbound: HashMap<u64, O>,
    next_token: Token,
    next_id: u64,
}

impl<I, O> Default for Pending<I, O> {
    fn default() -> Self {
        Self { inbound: HashMap::new(), outbound: HashMap::new(), next_token: 0, next_id: 0 }
    }
}

impl<I, O> Pending<I, O> {
    /// Enters a request of the other end under a new token; `Err` when its id is open already (R277).
    pub fn receive(&mut self, id: &[u8], note: I) -> Result<Token, I> {
        if self.inbound.values().any(|(open, _)| **open == *id) {
            return Err(note);
        }
        self.next_token += 1;
        self.inbound.insert(self.next_token, (id.into(), note));
        Ok(self.next_token)
    }

    /// Takes a request of the other end out, to answer it: its id as written.
    pub fn answer(&mut self, token: Token) -> Option<(Box<[u8]>, I)> {
        self.inbound.remove(&token)
    }

    /// What is remembered of an open request of the other end.
    pub fn inbound_mut(&mut self, token: Token) -> Option<&mut I> {
        self.inbound.get_mut(&token).map(|(_, note)| note)
    }

    /// The id of an open request of the other end, as written.
    pub fn inbound_id(&self, token: Token) -> Option<&[u8]> {
        self.inbound.get(&token).map(|(id, _)| &**id)
    }

    /// The open request of the other end that has this id.
    pub fn inbound_token(&self, id: &[u8]) -> Option<(Token, &I)> {
        self.inbound.iter().find(|(_, (open, _))| **open == *id).map(|(token, (_, note))| (*token, note))
    }

    /// The open requests of the other end.
    pub fn inbound(&self) -> impl Iterator<Item = (Token, &I)> {
        self.inbound.iter().map(|(token, (_, note))| (*token, note))
    }

    /// Enters a request to the other end: the number it gets.
    pub fn send(&mut self, note: O) -> u64 {
        self.next_id += 1;
        self.outbound.insert(self.next_id, note);
        self.next_id
    }

    /// Takes a request to the other end out, because its answer came.
    pub fn answered(&mut self, id: u64) -> Option<O> {
        self.outbound.remove(&id)
    }

    /// A request to the other end.
    pub fn outbound(&self, id: u64) -> Option<&O> {
        self.outbound.get(&id)
    }

    /// The number of the first request to the other end for which this holds.
    pub fn find_outbound(&self, holds: impl Fn(&O) -> bool) -> Option<u64> {
        self.outbound.iter().find(|(_, note)| holds(note)).map(|(id, _)| *id)
    }

    /// Forgets the requests to the other end for which this holds: their answers mean nothing any more.
    pub fn forget_outbound(&mut self, holds: impl Fn(&O) -> bool) {
        self.outbound.retain(|_, note| !holds(note));
    }

    /// How many requests of the other end are open.
    pub fn inbound_len(&self) -> usize {
        self.inbound.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R3, R277: `1`, `"1"` and `null` are different ids; one that is open cannot be opened again.
    #[test]
    fn ids_are_told_apart_as_written() {
        let mut p: Pending<(), ()> = Pending::default();
        let one = p.receive(b"1", ()).expect("new");
        assert!(
            p.receive(b"\"1\"", ()).is_ok() && p.receive(b"null", ()).is_ok() && p.receive(b"0", ()).is_ok()
        );
        assert!(p.receive(b"1", ()).is_err());
        assert_eq!(p.answer(one).map(|(id, ())| id.to_vec()), Some(b"1".to_vec()));
        assert!(p.answer(one).is_none());
        assert!(p.receive(b"1", ()).is_ok());
    }

    /// R4: our own ids ascend from 1 and are never used twice.
    #[test]
    fn own_ids_ascend() {
        let mut p: Pending<(), u8> = Pending::default();
        assert_eq!((p.send(1), p.send(2)), (1, 2));
        assert_eq!(p.answered(1), Some(1));
        assert_eq!((p.send(3), p.answered(1)), (3, None));
    }
}
