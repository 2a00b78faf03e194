//! The daemon's end of the descriptor that rules one shim.
//!
//! Orders are sent at once or not at all: a shim that cannot take one is dead, which the reports tell. Never
//! blocks. The invariant: only the daemon holds this end, so that its loss reaches the shim as EOF.

use std::{
    io::{self, IoSlice},
    mem::MaybeUninit,
    os::fd::{BorrowedFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::{
    cmsg_space,
    io::Errno,
    net::{
        AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
        SocketType, recv, send, sendmsg, socketpair,
    },
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    sync::Notify,
};

use super::words::{Order, PACKET_BYTES_MAX, Report};

const SEND: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::DONTWAIT);

pub(super) struct Control {
    socket: AsyncFd<OwnedFd>,
    term: AtomicBool,
    kill: AtomicBool,
    killed: Notify,
}

impl Control {
    /// A pair: ours, and the stdin of the shim.
    pub(super) fn pair() -> io::Result<(Arc<Self>, OwnedFd)> {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        // SAFETY: the socket is owned here, is never replaced and stays open until it is dropped with the rest.
        let socket = unsafe { AsyncFd::register(ours) }?;
        let (term, kill, killed) = (AtomicBool::new(false), AtomicBool::new(false), Notify::new());
        Ok((Arc::new(Self { socket, term, kill, killed }), theirs))
    }

    /// Hands the agent's ends of its pipes to the shim.
    pub(super) fn begin(&self, ends: [BorrowedFd<'_>; 3]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(3))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&ends));
        sendmsg(self.socket.get_ref(), &[IoSlice::new(Order::Begin.packet())], &mut ancillary, SEND)?;
        Ok(())
    }

    /// Lets the program run.
    pub(super) fn go(&self) {
        self.order(Order::Go);
    }

    /// SIGTERM to the agent's group, once.
    pub(super) fn term(&self) {
        if !self.term.swap(true, Ordering::AcqRel) {
            self.order(Order::Term);
        }
    }

    /// Ends everything, once.
    pub(super) fn kill(&self) {
        if !self.kill.swap(true, Ordering::AcqRel) {
            self.order(Order::Kill);
            self.killed.notify_one();
        }
    }

    /// Whether anything has been ordered that ends an agent.
    pub(super) fn has_asked(&self) -> bool {
        self.term.load(Ordering::Acquire) || self.kill.load(Ordering::Acquire)
    }

    /// Returns once when [`kill`](Self::kill) was called.
    pub(super) async fn killed(&self) {
        self.killed.notified().await;
    }

    fn order(&self, order: Order) {
        let _ = send(self.socket.get_ref(), order.packet(), SEND);
    }

    /// The next report; `None` when the shim is gone or speaks in tongues.
    pub(super) async fn report(&self) -> Option<Report> {
        let mut packet = [0; PACKET_BYTES_MAX];
        let received =
            self.socket.async_io(Interest::READABLE, |socket| take(socket, &mut packet)).await.ok()?;
        Report::parse(&packet[..received])
    }
}

fn take(socket: &OwnedFd, packet: &mut [u8]) -> io::Result<usize> {
    let mut take = || recv(socket, &mut *packet, RecvFlags::DONTWAIT).map(|(_, received)| received);
    // a shim that left with an order unread resets the line, which is told once and before its last words
    Ok(take().or_else(|error| if error == Errno::CONNRESET { take() } else { Err(error) })?)
}
