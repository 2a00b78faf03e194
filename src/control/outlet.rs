//! The way out of one connection, shared by its answers and its streams: one line at a time, whole.

use std::{io, sync::Arc, time::Duration};

use tokio::{
    io::AsyncWriteExt,
    net::unix::OwnedWriteHalf,
    sync::{Mutex, MutexGuard},
    time::timeout,
};

use crate::limits::WRITE_STALL_MS_MAX;

/// Writes to an operator. Cheap to clone; all clones are one way.
#[derive(Debug, Clone)]
pub struct Outlet(Arc<Mutex<OwnedWriteHalf>>);

impl Outlet {
    /// Over that connection.
    pub fn over(write: OwnedWriteHalf) -> Self {
        Self(Arc::new(Mutex::new(write)))
    }

    /// Writes what somebody waits for. Who takes nothing for too long is lost.
    pub async fn answer(&self, lines: &[u8]) -> io::Result<()> {
        let write = async { self.0.lock().await.write_all(lines).await };
        timeout(patience(), write).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Writes a part of a stream, however long its reader takes: nobody else waits for it.
    pub async fn tell(&self, lines: &[u8]) -> io::Result<()> {
        self.0.lock().await.write_all(lines).await
    }

    /// Nothing is being written as long as this is held: what writes to it may be ended now.
    pub async fn still(&self) -> io::Result<MutexGuard<'_, OwnedWriteHalf>> {
        timeout(patience(), self.0.lock()).await.map_err(|_| io::ErrorKind::TimedOut.into())
    }
}

fn patience() -> Duration {
    Duration::from_millis(WRITE_STALL_MS_MAX)
}
