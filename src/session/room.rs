//! Room for one more agent process: who is idle longest goes to sleep for it (R283).
//!
//! A process needs a [`Seat`]; there are `limits.peers_max` of them. When all are taken, or the agents use more memory
//! than they may, the session that has been idle longest and whose agent can take it up again gives its process up.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use serde_json::json;
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot},
    time::timeout,
};

use crate::{
    config::Limits,
    directory::{Card, Directory},
    id::{Address, SessionId},
    process::figures::Processes,
    wire::{Letter, RpcError, Word},
};

/// How long a start waits for others to make room.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long one of them has to go to sleep before another is asked.
const ONE_PATIENCE: Duration = Duration::from_secs(2);

/// The right to be a process. Held until the process is gone.
pub type Seat = OwnedSemaphorePermit;

/// All seats.
pub struct Room {
    seats: Arc<Semaphore>,
    /// Says that a session became idle.
    idle: Notify,
    limits: Limits,
    directory: Directory,
}

impl Room {
    /// As large as the configuration says.
    pub fn new(limits: &Limits, directory: Directory) -> Self {
        let seats = Arc::new(Semaphore::new(limits.peers_max));
        Self { seats, idle: Notify::new(), limits: limits.clone(), directory }
    }

    /// A session became idle, and its card says so: whoever waits for room looks again.
    pub fn one_is_idle(&self) {
        self.idle.notify_waiters();
    }

    /// A seat for a process of that session.
    pub async fn seat(&self, session: &SessionId) -> Result<Seat, RpcError> {
        self.shed_memory(session).await;
        if let Ok(seat) = self.seats.clone().try_acquire_owned() {
            return Ok(seat);
        }
        let wait = async {
            loop {
                // Registered before the look, so that one that becomes idle meanwhile is not missed.
                let idle = self.idle.notified();
                let asked = self.put_one_to_sleep(session).await;
                let pause = if asked { ONE_PATIENCE } else { PATIENCE };
                tokio::select! {
                    seat = timeout(pause, self.seats.clone().acquire_owned()) => {
                        if let Ok(Ok(seat)) = seat {
                            return seat;
                        }
                    }
                    () = idle, if !asked => {}
                }
            }
        };
        timeout(PATIENCE, wait).await.map_err(|_| self.full())
    }

    fn full(&self) -> RpcError {
        let max = self.limits.peers_max;
        let why = format!("{max} agent processes run and none is idle: limits.peers_max");
        RpcError::internal(why).with(json!({ "resource": "processes", "limit": max, "retryable": true }))
    }

    /// Asks the session that has been idle longest. Whether there was one.
    async fn put_one_to_sleep(&self, except: &SessionId) -> bool {
        let Some(id) = idlest(&self.directory.cards(), except) else { return false };
        let (done, asleep) = oneshot::channel();
        let word = Letter::Word { from: Address::Berths, word: Word::Sleep(done) };
        let asked = self.directory.post(&Address::Session(id), word).is_ok();
        let _ = timeout(ONE_PATIENCE, asleep).await;
        asked
    }

    /// Agents that use more memory than all may: idle ones go to sleep until it is enough, or none is idle.
    async fn shed_memory(&self, except: &SessionId) {
        let max = self.limits.peers_memory_max << 20;
        if self.limits.peers_memory_max == Limits::default().peers_memory_max {
            return;
        }
        while self.memory().await > max && self.put_one_to_sleep(except).await {}
    }

    async fn memory(&self) -> u64 {
        let cards = self.directory.cards();
        let of = move || {
            let processes = Processes::read();
            let number = |card: &Card, key: &str| i32::try_from(card.get(key)?.as_i64()?).ok();
            let peers = cards.iter().filter(|card| card.kind == "peer");
            let figures =
                peers.filter_map(|card| processes.figures(number(card, "pid")?, number(card, "shim")));
            figures.map(|figures| figures.subtree.rss_bytes).sum()
        };
        tokio::task::spawn_blocking(of).await.unwrap_or_default()
    }
}

/// The session that has been idle longest, among those that can sleep.
fn idlest(cards: &[Arc<Card>], except: &SessionId) -> Option<SessionId> {
    let can = |card: &&Arc<Card>| {
        card.kind == "session" && card.get("can_sleep") == Some(true.into()) && card.name != except.as_str()
    };
    let idlest = cards.iter().filter(can).min_by_key(|card| card.last_frame_ms.load(Ordering::Relaxed))?;
    SessionId::parse(&idlest.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(name: &str, can: bool, last: u64) -> Arc<Card> {
        let card = Card::new("session", name, "");
        card.set("can_sleep", can);
        card.last_frame_ms.store(last, Ordering::Relaxed);
        card
    }

    /// R283: least recently used first; never one that cannot, and never the one that needs the room.
    #[test]
    fn the_idlest_makes_room() {
        let cards = [card("a", true, 5), card("b", false, 1), card("c", true, 3), card("d", true, 2)];
        let d = SessionId::parse("d").unwrap();
        assert_eq!(idlest(&cards, &d).as_ref().map(SessionId::as_str), Some("c"));
        assert_eq!(idlest(&cards[1..2], &d), None);
    }
}
