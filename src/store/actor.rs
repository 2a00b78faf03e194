//! The mailbox of the store: it hands each write to the writer thread and never waits for it.

use ractor::{Actor, ActorProcessingErr, ActorRef, DerivedActorRef};
use std::sync::mpsc;

use super::{StoreError, Write, schema::Opened, writer};
use crate::{
    directory::{Card, Directory, Listing},
    id::SessionId,
};

/// What it takes.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a write is what it takes all the time; a box would cost an allocation each"
)]
pub enum Msg {
    /// To be committed, and acknowledged where somebody waits for that.
    Write(Write),
    /// The writer ended: with it the daemon (R274).
    Ended(StoreError),
    /// A session became larger than it may be, with so many bytes; said again when it has grown (R289).
    Oversize(SessionId, u64),
    /// Who makes such sessions smaller.
    Watch(DerivedActorRef<Oversize>),
}

/// A session that became too large (R289).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Oversize {
    /// Which one.
    pub session: SessionId,
    /// How many bytes its transcript holds.
    pub bytes: u64,
}

/// The actor.
pub struct Store;

/// What it owns.
pub struct State {
    writer: mpsc::Sender<Write>,
    watch: Option<DerivedActorRef<Oversize>>,
    _listing: Listing,
}

impl Actor for Store {
    type Msg = Msg;
    type State = State;
    type Arguments = (Directory, Opened);

    async fn pre_start(
        &self,
        me: ActorRef<Msg>,
        (directory, opened): Self::Arguments,
    ) -> Result<State, ActorProcessingErr> {
        let listing = directory.list(Card::new("store", "", "root"));
        let (writer, queue) = mpsc::channel();
        // It ends by itself when the sender is gone; `Reader::ended` tells when.
        writer::start(opened, queue, move |msg| drop(me.cast(msg)))?;
        Ok(State { writer, watch: None, _listing: listing })
    }

    async fn handle(&self, _: ActorRef<Msg>, msg: Msg, state: &mut State) -> Result<(), ActorProcessingErr> {
        match msg {
            // A writer that is gone drops the write, and with it says so to whoever waits.
            Msg::Write(write) => drop(state.writer.send(write)),
            Msg::Ended(error) => return Err(error.into()),
            Msg::Oversize(session, bytes) => state.oversize(session, bytes),
            Msg::Watch(watch) => state.watch = Some(watch),
        }
        Ok(())
    }
}

impl State {
    fn oversize(&self, session: SessionId, bytes: u64) {
        tracing::info!(%session, bytes, "session is larger than it may be");
        if let Some(watch) = &self.watch {
            let _ = watch.cast(Oversize { session, bytes });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use ractor::ActorStatus;
    use tokio::{sync::mpsc, time::timeout};

    use super::*;
    use crate::store::{
        Ack, Kind, Op, open,
        tests::{row, unacknowledged},
    };

    const DEADLINE: Duration = Duration::from_secs(20);

    /// Takes what a watcher takes.
    struct Watcher;

    impl Actor for Watcher {
        type Msg = Oversize;
        type State = mpsc::UnboundedSender<Oversize>;
        type Arguments = Self::State;

        async fn pre_start(
            &self,
            _: ActorRef<Oversize>,
            seen: Self::Arguments,
        ) -> Result<Self::State, ActorProcessingErr> {
            Ok(seen)
        }

        async fn handle(
            &self,
            _: ActorRef<Oversize>,
            oversize: Oversize,
            seen: &mut Self::State,
        ) -> Result<(), ActorProcessingErr> {
            Ok(seen.send(oversize)?)
        }
    }

    fn write(session: &SessionId, op: Op) -> (Write, mpsc::UnboundedReceiver<Result<i64, StoreError>>) {
        let (told, answer) = mpsc::unbounded_channel();
        let ack = Some(Ack::new(move |outcome| drop(told.send(outcome))));
        (Write { ack, ..unacknowledged(session, [op]) }, answer)
    }

    /// R289: a session that became too large is told to whoever watches. R273: when the actor has gone by draining,
    /// everything it was given is stored.
    #[tokio::test]
    async fn it_passes_on_what_it_gets_and_ends_behind_it() {
        let directory = tempfile::tempdir().unwrap();
        let mut opened = open(directory.path()).unwrap();
        opened.session_bytes_max = 1;
        let reader = opened.reader.clone();
        let (store, ended) = Actor::spawn(None, Store, (Directory::default(), opened)).await.unwrap();
        let (seen, mut oversize) = mpsc::unbounded_channel();
        let (watcher, _) = Actor::spawn(None, Watcher, seen).await.unwrap();
        store.cast(Msg::Watch(watcher.get_derived())).unwrap();
        let row = row("/w");
        let id = row.id.clone();
        store.cast(Msg::Write(write(&id, Op::Create(Box::new(row))).0)).unwrap();
        let (frames, mut answer) = write(&id, Op::Frames(Kind::Peer, vec![Bytes::from_static(b"12345")]));
        store.cast(Msg::Write(frames)).unwrap();
        assert!(matches!(timeout(DEADLINE, answer.recv()).await.unwrap(), Some(Ok(_))));
        let told = timeout(DEADLINE, oversize.recv()).await.unwrap();
        assert_eq!(told, Some(Oversize { session: id.clone(), bytes: 6 }));

        store.cast(Msg::Write(write(&id, Op::Title(Some("last".to_owned()))).0)).unwrap();
        store.drain().unwrap();
        ended.await.unwrap();
        timeout(DEADLINE, reader.ended()).await.unwrap();
        assert_eq!(reader.row(&id).unwrap().unwrap().title.as_deref(), Some("last"));
    }

    /// R274: the actor ends with its writer, as a failure.
    #[tokio::test]
    async fn it_fails_when_its_writer_does() {
        let directory = tempfile::tempdir().unwrap();
        let mut opened = open(directory.path()).unwrap();
        opened.strain = Box::new(|_| Err(rusqlite::Error::InvalidQuery));
        let (store, ended) = Actor::spawn(None, Store, (Directory::default(), opened)).await.unwrap();
        let (write, mut answer) = write(&SessionId::fresh(), Op::Delete);
        store.cast(Msg::Write(write)).unwrap();
        let told = timeout(DEADLINE, answer.recv()).await.unwrap();
        assert!(matches!(told, Some(Err(StoreError::Io { .. }))), "{told:?}");
        timeout(DEADLINE, ended).await.unwrap().unwrap();
        assert_eq!(store.get_status(), ActorStatus::Stopped);
    }
}
