//! A session that became too large is made shorter: its old turns, piece by piece (R289).
//!
//! What would be shown of them stays; what only repeats it goes. The newest half stays as it is, and so does a turn that
//! has not ended. Works in a task of its own, beside the session, and never holds up its writes.

use std::{sync::Arc, time::Duration};

use ractor::ActorRef;
use smallvec::smallvec;
use tokio::sync::oneshot;

use crate::{
    history::Compactor,
    id::SessionId,
    limits::{REPLAY_PAGE_BYTES, SHRINK_PIECE_BYTES},
    session::Shared,
    store::{self, Ack, Kind, Op, Reader, StoreError, Stored, Write},
    wire::credit::Credit,
};

/// Rows behind one and up to another: whole turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    after: i64,
    upto: i64,
}

/// How often it is looked whether somebody still reads.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// How often at most; then it waits until the session has grown again.
const LOOKS_MAX: u32 = 600;

/// Makes it shorter, piece by piece, while nobody reads.
pub async fn shrink(shared: Arc<Shared>, session: SessionId) {
    let work = Work { reader: shared.reader.clone(), store: shared.store.clone(), session: session.clone() };
    let newest = shared.limits.session_bytes_max / 2;
    match Arc::new(work).run(newest).await {
        Ok((before, after)) => tracing::info!(%session, before, after, "session made shorter"),
        Err(error) => tracing::warn!(%session, %error, "session not made shorter"),
    }
}

struct Work {
    reader: Reader,
    store: ActorRef<store::Msg>,
    session: SessionId,
}

impl Work {
    /// Bytes before and after.
    async fn run(self: Arc<Self>, newest: u64) -> Result<(u64, u64), StoreError> {
        let found = self.blocking(move |work| {
            let before = work.reader.size(&work.session)?;
            Ok((before, work.pieces(before.saturating_sub(newest))?))
        });
        let (before, pieces) = found.await?;
        for piece in pieces {
            let Some(moving) = self.nobody_reads().await else { break };
            self.blocking(move |work| work.shorten(piece)).await?;
            drop(moving);
        }
        let after = self.blocking(|work| work.reader.size(&work.session)).await?;
        Ok((before, after))
    }

    /// The right to move rows, once nobody reads.
    async fn nobody_reads(&self) -> Option<impl Drop> {
        for _ in 0..LOOKS_MAX {
            if let Some(moving) = self.reader.try_move() {
                return Some(moving);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        None
    }

    async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        of: impl FnOnce(&Self) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let work = self.clone();
        tokio::task::spawn_blocking(move || of(&work)).await.unwrap_or(Err(StoreError::Closed))
    }

    /// The oldest whole turns within so many bytes.
    fn pieces(&self, bytes: u64) -> Result<Vec<Piece>, StoreError> {
        let (mut pieces, mut seen, mut size, mut after) = (Vec::new(), 0, 0, 0);
        let least = usize::try_from(bytes / 8).unwrap_or(SHRINK_PIECE_BYTES).min(SHRINK_PIECE_BYTES);
        self.each_row(0, i64::MAX, |row| {
            seen += row.lines.len() as u64;
            size += row.lines.len();
            if size >= least && ends_turn(row) {
                pieces.push(Piece { after, upto: row.number });
                (size, after) = (0, row.number);
            }
            seen < bytes
        })?;
        Ok(pieces)
    }

    fn shorten(&self, piece: Piece) -> Result<(), StoreError> {
        let (mut compactor, mut rows) = (Compactor::new(self.session.clone()), Vec::new());
        let (mut count, mut bytes) = (0, 0);
        self.each_row(piece.after, piece.upto, |row| {
            (count, bytes) = (count + 1, bytes + row.lines.len());
            compactor.take(row, &mut rows);
            true
        })?;
        compactor.finish(&mut rows);
        let shorter: usize = rows.iter().map(|row| row.lines.len()).sum();
        if shorter >= bytes || rows.len() > count {
            return Ok(());
        }
        let rows = rows.into_iter().map(|row| (row.kind, row.lines)).collect();
        self.write(Op::Replace { after: piece.after, upto: piece.upto, rows })
    }

    /// Rows in order, as long as more are wanted.
    fn each_row(
        &self,
        mut after: i64,
        upto: i64,
        mut take: impl FnMut(&Stored) -> bool,
    ) -> Result<(), StoreError> {
        loop {
            let rows = self.reader.rows(Some(&self.session), after, upto, REPLAY_PAGE_BYTES)?;
            let Some(last) = rows.last() else { return Ok(()) };
            after = last.number;
            if !rows.iter().all(&mut take) {
                return Ok(());
            }
        }
    }

    fn write(&self, op: Op) -> Result<(), StoreError> {
        let (told, outcome) = oneshot::channel();
        let ack = Ack::new(move |outcome| drop(told.send(outcome)));
        let session = self.session.clone();
        let ops = smallvec![op];
        let write = Write { session, ops, sync: false, credit: Credit::none(), ack: Some(ack) };
        let _ = self.store.cast(store::Msg::Write(write));
        outcome.blocking_recv().unwrap_or(Err(StoreError::Closed)).map(drop)
    }
}

fn ends_turn(row: &Stored) -> bool {
    row.kind == Kind::Mark && memchr::memmem::find(&row.lines, br#""mark":"turn_ended""#).is_some()
}
