//! Writes what a descriptor does not take at once, so that no actor waits for it.
//!
//! What fits is written by the actor itself, without waiting; the pump gets the rest and says when it is out.

use std::{
    collections::VecDeque,
    io::{self, IoSlice},
    sync::Arc,
    time::Duration,
};

use bytes::{Buf, Bytes};
use tokio::{
    net::unix::{OwnedWriteHalf, pipe},
    sync::mpsc,
};

use super::queue::Parcel;
use crate::ingress::{FreeTime, Held};

/// Most slices one write takes; Linux's IOV_MAX.
const SLICES_MAX: usize = 1_024;

/// The least time between two looks at a clock that stands still.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

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
    /// Answers pile up, because the other end asks and does not read (R249).
    Deaf,
}

/// One write: the parcels, whose credit returns when it is dropped, and what of them has not left.
#[derive(Debug)]
pub struct Write {
    left: VecDeque<Bytes>,
    _parcels: Vec<Parcel>,
}

/// How far a write got without waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Progress {
    /// Everything left.
    Done,
    /// The descriptor takes no more for now.
    Blocked,
}

impl Write {
    /// Of all these.
    pub fn new(parcels: Vec<Parcel>) -> Self {
        let left = parcels.iter().flat_map(|p| p.segments.iter().cloned()).collect();
        Self { left, _parcels: parcels }
    }

    /// Writes until everything left or the descriptor would have to be waited for.
    pub fn attempt(
        &mut self,
        write: impl Fn(&[IoSlice<'_>]) -> io::Result<usize>,
    ) -> Result<Progress, Failure> {
        while !self.left.is_empty() {
            let slices: Vec<IoSlice<'_>> =
                self.left.iter().take(SLICES_MAX).map(|b| IoSlice::new(b)).collect();
            match write(&slices) {
                Ok(0) => return Err(Failure::Broken(io::ErrorKind::WriteZero)),
                Ok(written) => self.advance(written),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(Progress::Blocked),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Failure::Broken(e.kind())),
            }
        }
        Ok(Progress::Done)
    }

    fn advance(&mut self, mut written: usize) {
        while let Some(first) = self.left.front_mut() {
            if written < first.len() {
                first.advance(written);
                return;
            }
            written -= first.len();
            self.left.pop_front();
        }
    }
}

/// The pump of one descriptor.
pub struct Pump<S> {
    pub sink: Arc<S>,
    /// No progress for this long is a failure.
    pub stall: Duration,
    /// Whose clock stands still while the reader beside it waits for credit (R10).
    pub held: Held,
    pub writes: mpsc::Receiver<Write>,
}

impl<S: Sink> Pump<S> {
    /// Writes until there is nothing more to come. `done` hears of every write.
    pub async fn run(mut self, done: impl Fn(Result<(), Failure>)) {
        while let Some(write) = self.writes.recv().await {
            let result = self.finish(write).await;
            done(result);
            if result.is_err() {
                return;
            }
        }
    }

    async fn finish(&self, mut write: Write) -> Result<(), Failure> {
        loop {
            self.writable().await?;
            if write.attempt(|slices| self.sink.try_write(slices))? == Progress::Done {
                return Ok(());
            }
        }
    }

    async fn writable(&self) -> Result<(), Failure> {
        let clock = FreeTime::of(&self.held);
        loop {
            // A wait that stands still is looked at again after a while, not at once.
            let left = self.stall.saturating_sub(clock.elapsed(&self.held)).max(LOOK_AGAIN);
            match tokio::time::timeout(left, self.sink.writable()).await {
                Ok(ready) => return ready.map_err(|e| Failure::Broken(e.kind())),
                Err(_) if clock.elapsed(&self.held) < self.stall => {}
                Err(_) => return Err(Failure::Stalled),
            }
        }
    }
}
