//! One stream of events: behind the store, at the pace of its reader (R258).
//!
//! Owns its place in the store and nothing that grows: one page at a time is read, told and written. Who falls too
//! far behind is told how much it missed and goes on at the newest.

use crate::{
    control::outlet::Outlet,
    id::SessionId,
    limits::{EVENTS_BEHIND_BYTES_MAX, EVENTS_BEHIND_ROWS_MAX, REPLAY_PAGE_BYTES},
    store::{Extent, Reader, StoreError},
};

use super::{Kind, kind::Wanted, note::Note, number, telling::Telling};

/// A stream that is wanted.
pub struct Subscription {
    reader: Reader,
    outlet: Outlet,
    session: Option<SessionId>,
    telling: Telling,
    /// Where it stands, and where history ends.
    at: i64,
    newest: i64,
    replays: bool,
    /// The session was found in the store: when it is not any more, it was deleted.
    known: bool,
}

/// Why a stream is over.
enum End {
    /// Nobody is there to hear it.
    Unheard,
    /// The daemon stops.
    Stopping,
    /// The store cannot be read.
    Unread(StoreError),
}

impl Subscription {
    /// Of that number on its connection.
    pub fn new(
        number: u64,
        reader: Reader,
        outlet: Outlet,
        wanted: (Option<SessionId>, Option<&[Kind]>),
        since: Option<u64>,
    ) -> Self {
        let newest = *reader.latest().borrow();
        let (session, kinds) = wanted;
        let heard = since.unwrap_or_else(|| number::upto(newest));
        Self {
            reader,
            outlet,
            session,
            telling: Telling::new(number, Wanted::of(kinds), heard),
            at: number::row_before(heard.saturating_add(1)),
            newest,
            replays: since.is_some(),
            known: false,
        }
    }

    /// The greatest number of what happened before it began.
    pub fn newest(&self) -> u64 {
        number::upto(self.newest)
    }

    /// Tells what happens until nobody hears it or the daemon stops.
    pub async fn run(mut self) {
        let reason = match self.follow().await {
            Err(End::Unread(StoreError::Unknown(id))) => format!("session {id} was deleted"),
            Err(End::Unread(error)) => error.to_string(),
            Ok(()) | Err(End::Unheard | End::Stopping) => return,
        };
        tracing::info!(reason, "stream of events ended");
        let _ = self.say(Note::Ended { reason }).await;
    }

    async fn follow(&mut self) -> Result<(), End> {
        if self.replays {
            while self.page(self.newest).await? {}
            self.at = self.at.max(self.newest);
            self.say(Note::Current {}).await?;
        }
        loop {
            let newest = self.news().await?;
            self.keep_up(newest).await?;
            if !self.page(newest).await? {
                self.at = newest;
            }
        }
    }

    /// Waits until the store has more.
    async fn news(&self) -> Result<i64, End> {
        let (mut latest, at) = (self.reader.latest(), self.at);
        latest.wait_for(|newest| *newest > at).await.map(|newest| *newest).map_err(|_| End::Stopping)
    }

    /// Leaves out what is too much to catch up with.
    async fn keep_up(&mut self, newest: i64) -> Result<(), End> {
        let (session, at) = (self.session.clone(), self.at);
        let behind = self.read(move |reader| reader.extent(session.as_ref(), at, newest)).await?;
        let Extent { rows, bytes } = behind.unwrap_or_default();
        if rows <= EVENTS_BEHIND_ROWS_MAX && bytes <= EVENTS_BEHIND_BYTES_MAX {
            return Ok(());
        }
        self.at = newest;
        self.telling.start_over();
        self.say(Note::Gap { dropped: rows }).await
    }

    /// Tells one page of what lies up to that row; false when nothing does.
    async fn page(&mut self, upto: i64) -> Result<bool, End> {
        let (session, at) = (self.session.clone(), self.at);
        let rows =
            self.read(move |reader| reader.rows(session.as_ref(), at, upto, REPLAY_PAGE_BYTES)).await?;
        let rows = rows.unwrap_or_default();
        let Some(last) = rows.last().map(|row| row.number) else { return Ok(false) };
        let reader = self.reader.clone();
        let mut telling = std::mem::take(&mut self.telling);
        let told = tokio::task::spawn_blocking(move || {
            rows.iter().for_each(|row| telling.row(row, || name(&reader, &row.session)));
            telling
        });
        self.telling = told.await.map_err(|_| End::Stopping)?;
        self.at = last;
        self.write().await.map(|()| true)
    }

    /// Asks the store; nothing when the session is not there yet.
    async fn read<T: Send + 'static>(
        &mut self,
        ask: impl FnOnce(&Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<Option<T>, End> {
        let reader = self.reader.clone();
        let answer = tokio::task::spawn_blocking(move || ask(&reader)).await.map_err(|_| End::Stopping)?;
        match answer {
            Ok(answer) => {
                self.known = true;
                Ok(Some(answer))
            }
            Err(StoreError::Unknown(_)) if !self.known => Ok(None),
            Err(error) => Err(End::Unread(error)),
        }
    }

    async fn say(&mut self, note: Note<'_>) -> Result<(), End> {
        self.telling.stream(note, self.at, jiff::Timestamp::now().as_millisecond());
        self.write().await
    }

    async fn write(&mut self) -> Result<(), End> {
        self.outlet.tell(&self.telling.take()).await.map_err(|_| End::Unheard)
    }
}

/// What the agent calls a session.
fn name(reader: &Reader, session: &SessionId) -> String {
    let row = reader.row(session).ok().flatten();
    row.and_then(|row| serde_json::from_slice(&row.peer_session).ok()).unwrap_or_default()
}
