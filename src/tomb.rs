//! "Really gone": a [`Tomb`] is the last field of an actor's state, so whoever waits at the [`Grave`] wakes when
//! every other field has been dropped, however the actor ended. `wait` and `stop_and_wait` of ractor return before.

use tokio::sync::watch;

/// Held by the one who lives.
#[must_use = "a tomb that is dropped wakes the waiters"]
#[derive(Debug)]
pub struct Tomb(#[expect(dead_code, reason = "its drop is what counts")] watch::Sender<()>);

/// Held by those who wait.
#[derive(Debug, Clone)]
pub struct Grave(watch::Receiver<()>);

/// A life that can be waited for.
pub fn tomb() -> (Tomb, Grave) {
    let (tomb, grave) = watch::channel(());
    (Tomb(tomb), Grave(grave))
}

impl Grave {
    /// Waits until the tomb was dropped.
    pub async fn closed(mut self) {
        while self.0.changed().await.is_ok() {}
    }
}
