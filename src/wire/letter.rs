//! What actors send each other: lines in wire order, or a word about the state of the other end.
//!
//! A request is answered to the sender of the letter under the token it carries. Tokens are the sender's own;
//! JSON-RPC ids never travel (law 7).

use tokio::sync::oneshot;

use crate::{
    id::{Address, SessionId, Token},
    wire::{credit::Credit, frame::Frame},
};

/// One piece of post.
#[derive(Debug)]
pub enum Letter {
    /// Lines of one wire, in its order, with the credit they were lent.
    Lines {
        /// Who sends them; answers go there.
        from: Address,
        /// The lines.
        envelopes: Vec<Envelope>,
        /// Their credit, for all of them.
        credit: Credit,
    },
    /// Something about the sender or asked of the receiver that is no line of the protocol.
    Word {
        /// Who says it.
        from: Address,
        /// What.
        word: Word,
    },
}

/// One line on its way.
#[derive(Debug)]
pub struct Envelope {
    /// What it asks for or answers.
    pub call: Call,
    /// The request that `params.requestId` of the line names: in a `$/cancel_request` the sender's own, else
    /// one of the receiver's.
    pub about: Option<Token>,
    /// The line.
    pub frame: Frame,
}

impl Envelope {
    /// A line that names no other request.
    pub fn new(call: Call, frame: Frame) -> Self {
        Self { call, about: None, frame }
    }
}

/// What a line means to its receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Wants exactly one answer, sent to the letter's sender under this token.
    Request(Token),
    /// Answers the receiver's own token.
    Response(Token),
    /// Wants nothing.
    Notification,
}

/// Answer to an operator's order: nothing, or why not.
pub type Done = oneshot::Sender<Result<(), String>>;

/// What ends say to each other beside the protocol.
#[derive(Debug)]
pub enum Word {
    /// To a session: its host is gone; end.
    HostLost(Loss),
    /// To a session: cancel what runs, as `session/cancel` does.
    Cancel,
    /// To a session: end at once, by the operator's order.
    Abort,
    /// To a session: end if nobody uses its process. Dropped when that is done, or refused.
    Yield(oneshot::Sender<()>),
    /// To a session: give its process up, if nothing is wanted of it. Dropped when that is done, or refused.
    Sleep(oneshot::Sender<()>),
    /// To a session: have its peer make a copy of it (R46). Hears the peer's id of that, as written, or nothing.
    Split(oneshot::Sender<Vec<u8>>),
    /// To the berths: end a session, by the operator's order. Answers when it is gone.
    Close(SessionId, Done),
    /// To the berths: the same without any grace.
    Kill(SessionId, Done),
    /// To the berths: end it, and remove everything that is known of it. Answers when that is done.
    Delete(SessionId, Done),
    /// To a session: go on without its host. Told when it does, dropped when it does not.
    Detach(oneshot::Sender<()>),
    /// To the berths: take a session from its host, and let it go on without one. Answers when that is done.
    Release(SessionId, Done),
    /// To a session: something was put into its inbox, or changed there.
    Wake,
    /// To a host: a session of it ended by itself or was taken by somebody else.
    SessionGone(SessionId, String),
    /// To the root: stop the daemon. Answers when everything is down.
    Stop(Done),
}

/// How a host was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// It closed its end.
    Eof,
    /// Reading from or writing to it failed.
    Broken,
    /// It took nothing for too long (R108).
    Stalled,
    /// More was queued for it than a queue holds (R108).
    Overflow,
    /// Another host took the session over (R41).
    Replaced,
    /// The daemon stops.
    Stopping,
}
