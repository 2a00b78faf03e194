//! Owns a write end, so that no actor waits for one: one vectored write for all that is handed over.

use std::{
    io::{self, IoSlice},
    time::Duration,
};

use bytes::{Buf, Bytes};
use tokio::{
    net::unix::{OwnedWriteHalf, pipe},
    sync::mpsc,
};

use super::queue::Parcel;
use crate::ingress::Held;

/// Most slices one write takes; Linux's IOV_MAX.
const SLICES_MAX: usize = 1_024;

/// A descriptor that can be written without waiting.
pub trait Sink: Send + Sync + 'static {
    /// Waits until something can be written.
    fn writable(&self) -> impl Future<Output = io::Result<()>> + Send;
    /// Writes what fits.
    fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize>;
}

impl Sink for pipe::Sender {
    fn writable(&self) -> impl Future<Output = io::Result<()>> + Send {
        pipe::Sender::writable(self)
    }
    fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.try_write_vectored(slices)
    }
}

impl Sink for OwnedWriteHalf {
    async fn writable(&self) -> io::Result<()> {
        OwnedWriteHalf::writable(self).await
    }
    fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.try_write_vectored(slices)
    }
}

/// Why nothing more leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// Writing failed.
    Broken(io::ErrorKind),
    /// No progress for too long (R108).
    Stalled,
}

/// The pump of one descriptor.
pub struct Pump<S> {
    pub sink: S,
    /// No progress for this long is a failure.
    pub stall: Duration,
    /// Whose clock stands still while the reader beside it waits for credit (R10).
    pub held: Held,
    pub writes: mpsc::Receiver<Vec<Parcel>>,
}

impl<S: Sink> Pump<S> {
    /// Writes until there is nothing more to come; then the descriptor closes. `done` hears of every write.
    pub async fn run(mut self, done: impl Fn(Result<(), Failure>)) {
        while let Some(parcels) = self.writes.recv().await {
            let result = self.write(&parcels).await;
            drop(parcels);
            done(result);
            if result.is_err() {
                return;
            }
        }
    }

    async fn write(&self, parcels: &[Parcel]) -> Result<(), Failure> {
        let mut left: std::collections::VecDeque<Bytes> =
            parcels.iter().flat_map(|p| p.segments.iter().cloned()).collect();
        while !left.is_empty() {
            match self.sink.try_write(&slices(&left)) {
                Ok(0) => return Err(Failure::Broken(io::ErrorKind::WriteZero)),
                Ok(written) => advance(&mut left, written),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.writable().await?,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Failure::Broken(e.kind())),
            }
        }
        Ok(())
    }

    async fn writable(&self) -> Result<(), Failure> {
        loop {
            match tokio::time::timeout(self.stall, self.sink.writable()).await {
                Ok(ready) => return ready.map_err(|e| Failure::Broken(e.kind())),
                Err(_) if self.held.is() => {}
                Err(_) => return Err(Failure::Stalled),
            }
        }
    }
}

fn slices(left: &std::collections::VecDeque<Bytes>) -> Vec<IoSlice<'_>> {
    left.iter().take(SLICES_MAX).map(|b| IoSlice::new(b)).collect()
}

fn advance(left: &mut std::collections::VecDeque<Bytes>, mut written: usize) {
    while let Some(first) = left.front_mut() {
        if written < first.len() {
            first.advance(written);
            return;
        }
        written -= first.len();
        left.pop_front();
    }
}
