//! The one table that finds the way: from an address to the mailbox and the card of an actor.
//!
//! Owns every entry; an actor enters itself when it starts and its [`Listing`] takes it out when its state is
//! dropped. Never sends more than the caller asked and never waits. The only file that touches `DashMap`.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};

use dashmap::DashMap;
use ractor::{DerivedActorRef, MessagingErr};
use serde_json::Value;

use crate::{id::Address, wire::letter::Letter};

/// What an actor publishes about itself, for `status`, `tree` and `ls`. Written on transitions, read by anybody.
#[derive(Debug)]
pub struct Card {
    /// What it is: `root`, `berth`, `session`, `peer`, `host` …
    pub kind: &'static str,
    /// Its name among its kind, such as a session id or a connection number.
    pub name: String,
    /// `kind/name` of its parent in the supervision tree; empty for the root.
    pub parent: String,
    /// When it started.
    pub since: SystemTime,
    /// How often it was restarted.
    pub restarts: AtomicU64,
    /// Milliseconds since the Unix epoch of the last frame that passed; 0 before the first.
    pub last_frame_ms: AtomicU64,
    facts: Mutex<BTreeMap<&'static str, Value>>,
}

impl Card {
    /// A card with no facts yet.
    pub fn new(kind: &'static str, name: impl Into<String>, parent: impl Into<String>) -> Arc<Self> {
        Arc::new(Self {
            kind,
            name: name.into(),
            parent: parent.into(),
            since: SystemTime::now(),
            restarts: AtomicU64::new(0),
            last_frame_ms: AtomicU64::new(0),
            facts: Mutex::default(),
        })
    }

    /// `kind/name`, or the kind alone when there is one only.
    pub fn path(&self) -> String {
        if self.name.is_empty() { self.kind.to_owned() } else { format!("{}/{}", self.kind, self.name) }
    }

    /// Publishes one fact; `Null` takes it back.
    pub fn set(&self, key: &'static str, value: impl Into<Value>) {
        let mut facts = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        match value.into() {
            Value::Null => facts.remove(key),
            value => facts.insert(key, value),
        };
    }

    /// One fact as it stands.
    pub fn get(&self, key: &str) -> Option<Value> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// All facts as they stand.
    pub fn facts(&self) -> BTreeMap<&'static str, Value> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Marks that a frame passed just now.
    pub fn touch(&self) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.last_frame_ms.store(u64::try_from(now.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// The table. Cheap to clone; all clones are one table.
#[derive(Clone, Default)]
pub struct Directory {
    mailboxes: Arc<DashMap<Address, DerivedActorRef<Letter>>>,
    cards: Arc<DashMap<u64, Arc<Card>>>,
    next: Arc<AtomicU64>,
}

/// A letter that found nobody.
#[derive(Debug)]
#[must_use = "what an undelivered letter asked must be answered"]
pub struct Undelivered(pub Option<Letter>);

/// An actor's entry. Dropping it takes the actor out of the table.
#[must_use = "an actor is listed as long as this lives"]
pub struct Listing {
    directory: Directory,
    address: Option<Address>,
    number: u64,
}

impl Directory {
    /// Lists an actor that nobody writes to.
    pub fn list(&self, card: Arc<Card>) -> Listing {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.cards.insert(number, card);
        Listing { directory: self.clone(), address: None, number }
    }

    /// Lists an actor and gives it an address. An address has one owner: its berth sees to that.
    pub fn enter(&self, address: Address, mailbox: DerivedActorRef<Letter>, card: Arc<Card>) -> Listing {
        self.mailboxes.insert(address.clone(), mailbox);
        let mut listing = self.list(card);
        listing.address = Some(address);
        listing
    }

    /// Moves a letter. Hands it back when nobody is there (any more): its sender must answer what it holds.
    pub fn post(&self, to: &Address, letter: Letter) -> Result<(), Undelivered> {
        let Some(mailbox) = self.mailboxes.get(to).map(|m| m.clone()) else {
            return Err(Undelivered(Some(letter)));
        };
        mailbox.send_message(letter).map_err(|e| match e {
            MessagingErr::SendErr(letter) => Undelivered(Some(letter)),
            MessagingErr::ChannelClosed | MessagingErr::InvalidActorType => Undelivered(None),
        })
    }

    /// Whether somebody lives at that address.
    pub fn has(&self, address: &Address) -> bool {
        self.mailboxes.contains_key(address)
    }

    /// Every card, oldest first.
    pub fn cards(&self) -> Vec<Arc<Card>> {
        let mut all: Vec<_> = self.cards.iter().map(|e| (*e.key(), e.value().clone())).collect();
        all.sort_by_key(|(number, _)| *number);
        all.into_iter().map(|(_, card)| card).collect()
    }
}

impl Drop for Listing {
    fn drop(&mut self) {
        self.directory.cards.remove(&self.number);
        if let Some(address) = &self.address {
            self.directory.mailboxes.remove(address);
        }
    }
}
