//! One connection of an operator: requests in, answers out, in order.
//!
//! The actor owns the task that talks and the place the connection takes; the task waits so that the actor does not.

use std::{io, sync::Arc};

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, BufReader},
    net::UnixStream,
    sync::OwnedSemaphorePermit,
    task::JoinSet,
};

use super::{conversation::Conversation, outlet::Outlet, rpc::Refusal, service::Service};
use crate::{
    directory::{Card, Directory, Listing},
    limits::MIB,
    socket::Visitor,
};

/// Longest request.
const REQUEST_BYTES_MAX: usize = MIB;

/// The actor of one connection.
pub struct Operator;

/// The conversation is over.
pub struct Hangup;

/// A connection that was let in.
pub struct Connection {
    /// Its number.
    pub number: u64,
    /// The connection.
    pub stream: UnixStream,
    /// Who is there.
    pub visitor: Visitor,
    /// Its place among those there may be.
    pub place: OwnedSemaphorePermit,
    /// What answers.
    pub service: Arc<Service>,
}

/// What an operator's actor keeps. Dropping it ends the conversation and gives the place back.
pub struct State {
    _talk: JoinSet<()>,
    _listing: Listing,
    _place: OwnedSemaphorePermit,
}

impl Actor for Operator {
    type Msg = Hangup;
    type State = State;
    type Arguments = Connection;

    async fn pre_start(
        &self,
        me: ActorRef<Hangup>,
        connection: Connection,
    ) -> Result<State, ActorProcessingErr> {
        let Connection { number, stream, visitor, place, service } = connection;
        let listing = list(&service.directory, number, visitor);
        let bell = Bell(me);
        let mut talk = JoinSet::new();
        talk.spawn(async move {
            let _bell = bell;
            let (read, write) = stream.into_split();
            let talk = Conversation::new(service, Outlet::over(write));
            if let Err(error) = converse(BufReader::new(read), talk).await {
                tracing::debug!(operator = number, %error, "operator lost");
            }
        });
        Ok(State { _talk: talk, _listing: listing, _place: place })
    }

    async fn handle(
        &self,
        me: ActorRef<Hangup>,
        Hangup: Hangup,
        _: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        me.stop(Some("hung up".to_owned()));
        Ok(())
    }
}

fn list(directory: &Directory, number: u64, visitor: Visitor) -> Listing {
    let card = Card::new("operator", number.to_string(), "listener/control");
    card.set("pid", visitor.pid);
    directory.list(card)
}

/// Rings when the task ends, however it ends.
struct Bell(ActorRef<Hangup>);

impl Drop for Bell {
    fn drop(&mut self) {
        let _ = self.0.cast(Hangup);
    }
}

/// Reads requests until the operator leaves. It may say nothing for as long as it likes.
async fn converse(mut read: impl AsyncBufRead + Unpin, mut talk: Conversation) -> io::Result<()> {
    let mut line = Vec::new();
    while next(&mut read, &mut line).await? {
        if line.len() > REQUEST_BYTES_MAX {
            let refusal = Refusal::request(format!("a request of more than {REQUEST_BYTES_MAX} bytes"));
            return talk.refuse(refusal).await;
        }
        if !line.trim_ascii().is_empty() {
            talk.serve(&line).await?;
        }
    }
    Ok(())
}

/// Reads one line, or one byte more than a line may have. False at the end.
async fn next(read: &mut (impl AsyncBufRead + Unpin), line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let ceiling = u64::try_from(REQUEST_BYTES_MAX + 1).unwrap_or(u64::MAX);
    Ok(read.take(ceiling).read_until(b'\n', line).await? > 0)
}
