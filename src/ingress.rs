//! The way in: reads what a descriptor has, parses the lines in it, waits for credit, hands over one batch.
//!
//! Owns the read end, in a task of its own. Never waits for anything but the descriptor and the budget; while it
//! waits for the budget the other end is slowed by its own pipe (R104, R110), and [`Held`] says so.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::BytesMut;
use tokio::{
    net::unix::{OwnedReadHalf, pipe},
    task::{AbortHandle, JoinHandle},
    time::Instant,
};

use crate::{
    limits::{BATCH_ITEMS_MAX, WINDOW_BYTES},
    wire::{
        credit::{Budget, Credit, Hold},
        frame::Frame,
        line::{Line, Overlong, Splitter},
    },
};

/// How many times the longest silence a large line may take in all.
const LARGE_LINE_TIMES_MAX: u32 = 6;

/// A descriptor that can be read without waiting.
pub trait Source: Send + Sync + 'static {
    /// Waits until there is something to read, or the end.
    fn readable(&self) -> impl Future<Output = io::Result<()>> + Send;
    /// Reads what is there; 0 is the end.
    fn try_read(&self, into: &mut BytesMut) -> io::Result<usize>;
}

impl Source for pipe::Receiver {
    fn readable(&self) -> impl Future<Output = io::Result<()>> + Send {
        pipe::Receiver::readable(self)
    }
    fn try_read(&self, into: &mut BytesMut) -> io::Result<usize> {
        self.try_read_buf(into)
    }
}

impl Source for OwnedReadHalf {
    async fn readable(&self) -> io::Result<()> {
        OwnedReadHalf::readable(self).await
    }
    fn try_read(&self, into: &mut BytesMut) -> io::Result<usize> {
        self.try_read_buf(into)
    }
}

/// One thing that was read.
#[derive(Debug)]
pub enum Input {
    /// A line of JSON.
    Frame(Frame),
    /// A line that is no JSON (R6).
    Unparsed(bytes::Bytes),
    /// A line over the ceiling (R9).
    Overlong(Box<Overlong>),
}

/// What one read brought, as far as credit allowed.
#[derive(Debug)]
pub struct Batch {
    /// In the order of the wire.
    pub inputs: Vec<Input>,
    /// For all of them.
    pub credit: Credit,
}

/// How a wire ended.
#[derive(Debug)]
pub enum End {
    /// The other end closed it.
    Eof,
    /// Reading failed (R218).
    Failed(io::Error),
    /// A line that was begun did not end in time.
    Unfinished,
    /// Nobody takes what is read any more.
    Unwanted,
}

/// Whether a reader waits for credit: clocks of the other direction stand still meanwhile (R10, R250).
#[derive(Debug, Clone, Default)]
pub struct Held(Arc<Mutex<Waits>>);

#[derive(Debug, Default)]
struct Waits {
    /// When the wait began that lasts.
    since: Option<Instant>,
    /// The waits that are over, together.
    over: Duration,
}

impl Held {
    /// Whether it waits just now.
    pub fn is(&self) -> bool {
        self.waits().since.is_some()
    }

    /// How long it has waited, all together.
    pub fn spent(&self) -> Duration {
        let waits = self.waits();
        waits.over + waits.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn begin(&self) {
        self.waits().since = Some(Instant::now());
    }

    fn end(&self) {
        let mut waits = self.waits();
        let last = waits.since.take().map_or(Duration::ZERO, |since| since.elapsed());
        waits.over += last;
    }

    fn waits(&self) -> MutexGuard<'_, Waits> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A clock that stands still while a reader is held.
#[derive(Debug, Clone, Copy)]
pub struct FreeTime {
    began: Instant,
    spent: Duration,
}

impl FreeTime {
    /// From now on.
    pub fn of(held: &Held) -> Self {
        Self { began: Instant::now(), spent: held.spent() }
    }

    /// How much has passed in which the reader was not held.
    pub fn elapsed(&self, held: &Held) -> Duration {
        self.began.elapsed().saturating_sub(held.spent().saturating_sub(self.spent))
    }
}

/// A task that reads. Dropping this ends it and closes the descriptor: the other end may be silent for ever, or say
/// no whole line, and nobody would notice that it is not wanted any more.
#[derive(Debug)]
#[must_use = "reading ends with this"]
pub struct Reading(AbortHandle);

impl From<JoinHandle<()>> for Reading {
    fn from(task: JoinHandle<()>) -> Self {
        Self(task.abort_handle())
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// How to read one wire.
pub struct Ingress<S> {
    /// The read end.
    pub source: S,
    /// Lends for every line.
    pub budget: Budget,
    /// Longest line.
    pub line_bytes_max: usize,
    /// Longest silence in a large line; from its first to its last byte it may take a few times as long.
    pub line_time_max: Duration,
    /// Tells others that it waits for credit.
    pub held: Held,
}

impl<S: Source> Ingress<S> {
    /// Reads until the end. `deliver` says whether anybody still wants it.
    pub async fn run(self, deliver: impl Fn(Batch) -> bool) -> End {
        let mut lines = Splitter::new(self.line_bytes_max);
        let mut large = None;
        let mut due = Instant::now();
        loop {
            self.wait(self.budget.ready()).await;
            if is_large(lines.partial()) && large.is_none() {
                // Others hold that memory, not the host: no clock stands still for it.
                large = Some(self.budget.hold(self.line_bytes_max).await);
                due = Instant::now() + LARGE_LINE_TIMES_MAX * self.line_time_max;
            }
            let read = match self.read(&mut lines, due).await {
                Ok(read) => read,
                Err(end) => return end,
            };
            loop {
                let next = std::iter::from_fn(|| lines.next_line()).take(BATCH_ITEMS_MAX);
                let mut inputs: Vec<Input> = next.map(input).collect();
                if read == 0 && inputs.is_empty() {
                    inputs.extend(lines.finish().map(input));
                }
                if inputs.is_empty() {
                    break;
                }
                if !self.hand_over(inputs, &mut large, &deliver).await {
                    return End::Unwanted;
                }
            }
            if !is_large(lines.partial()) {
                large = None;
            }
            if read == 0 {
                return End::Eof;
            }
        }
    }

    async fn read(&self, lines: &mut Splitter, due: Instant) -> Result<usize, End> {
        lines.rest();
        loop {
            self.readable(lines.partial(), due).await?;
            match self.source.try_read(lines.buffer()) {
                Ok(read) => {
                    lines.filled(read);
                    return Ok(read);
                }
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(e) => return Err(End::Failed(e)),
            }
        }
    }

    /// A wire may be silent for ever, but not in the middle of a line so large that others wait for its memory.
    async fn readable(&self, partial: usize, due: Instant) -> Result<(), End> {
        let readable = self.source.readable();
        let ready = if is_large(partial) {
            let due = due.min(Instant::now() + self.line_time_max);
            tokio::time::timeout_at(due, readable).await.map_err(|_| End::Unfinished)?
        } else {
            readable.await
        };
        ready.map_err(End::Failed)
    }

    async fn hand_over(
        &self,
        mut inputs: Vec<Input>,
        large: &mut Option<Hold>,
        deliver: &impl Fn(Batch) -> bool,
    ) -> bool {
        while !inputs.is_empty() {
            let lengths: Vec<usize> = inputs.iter().take(BATCH_ITEMS_MAX).map(length).collect();
            let (credit, fits) = self.wait(self.budget.lend(&lengths, BATCH_ITEMS_MAX, large)).await;
            let rest = inputs.split_off(fits);
            if !deliver(Batch { inputs: std::mem::replace(&mut inputs, rest), credit }) {
                return false;
            }
        }
        true
    }

    /// Waits for the budget, and says so when it really has to.
    async fn wait<T>(&self, lent: impl Future<Output = T>) -> T {
        let mut lent = std::pin::pin!(lent);
        tokio::select! {
            biased;
            value = &mut lent => value,
            () = std::future::ready(()) => {
                self.held.begin();
                let value = lent.await;
                self.held.end();
                value
            }
        }
    }
}

/// Whether a line has grown so much that it needs memory from the pool that all wires of a side share.
fn is_large(partial: usize) -> bool {
    partial > WINDOW_BYTES
}

fn input(line: Line) -> Input {
    match line {
        Line::Whole(line) => Frame::parse(line).map_or_else(Input::Unparsed, Input::Frame),
        Line::Overlong(overlong) => Input::Overlong(overlong),
    }
}

fn length(input: &Input) -> usize {
    match input {
        Input::Frame(frame) => frame.line().len(),
        Input::Unparsed(line) => line.len(),
        Input::Overlong(overlong) => overlong.head.len() + overlong.tail.len(),
    }
}
