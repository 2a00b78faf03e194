//! Takes connections from a listening socket for as long as somebody wants them.
//!
//! A machine short of descriptors or memory is waited for: it must not cost the daemon its ears (RES-01).

use std::{
    future::Future,
    io::{self, Write},
    ops::ControlFlow,
    time::{Duration, Instant},
};

use rustix::io::Errno;
use tokio::net::{UnixListener, UnixStream};

use super::{Door, Refusals, Refused, Visitor};
use crate::wire::{Frame, RpcError};

/// Pause after a connection could not be accepted. Whoever is refused waits in the kernel's backlog meanwhile.
const PAUSE: Duration = Duration::from_millis(100);

/// What connections come from.
pub trait Accept: Send {
    /// The next one.
    fn accept(&mut self) -> impl Future<Output = io::Result<UnixStream>> + Send;
}

impl Accept for UnixListener {
    async fn accept(&mut self) -> io::Result<UnixStream> {
        UnixListener::accept(self).await.map(|(stream, _)| stream)
    }
}

/// Hands every connection the door lets in to `take`, until that breaks off. An error means the socket is broken.
pub async fn receive(
    mut socket: impl Accept,
    door: Door,
    mut take: impl FnMut(UnixStream, Visitor) -> ControlFlow<()> + Send,
) -> io::Result<()> {
    let (mut short, mut refusals, started) = (false, Refusals::default(), Instant::now());
    loop {
        match socket.accept().await {
            Ok(stream) => {
                short = false;
                let visitor = match door(&stream) {
                    Ok(visitor) => visitor,
                    Err(refused) => {
                        if let Some(count) = refusals.count(started.elapsed()) {
                            tracing::warn!(%refused, count, "connection refused");
                        }
                        explain(stream, &refused);
                        continue;
                    }
                };
                if take(stream, visitor).is_break() {
                    return Ok(());
                }
            }
            Err(error) if passes(&error) => {
                // One event when it begins: it may last for hours.
                if !std::mem::replace(&mut short, true) {
                    tracing::warn!(%error, "cannot accept connections for now");
                }
                tokio::time::sleep(PAUSE).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Whoever is ours is told why. Strangers hear nothing.
fn explain(stream: UnixStream, refused: &Refused) {
    if matches!(refused, Refused::Nested { .. }) {
        turn_away(stream, &RpcError::internal(format!("failed to {refused}")));
    }
}

/// Says why, under no id, and closes the connection. One line fits into any new socket.
pub fn turn_away(stream: UnixStream, why: &RpcError) {
    let line = [Frame::null_error(why).line().as_ref(), b"\n"].concat();
    if let Ok(mut stream) = stream.into_std() {
        let _ = stream.write_all(&line);
    }
}

/// Whether it is the machine's or one connection's trouble, and not the socket's.
fn passes(error: &io::Error) -> bool {
    let short = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    let one = [Errno::CONNABORTED, Errno::INTR, Errno::AGAIN, Errno::PROTO, Errno::PERM];
    Errno::from_io_error(error).is_some_and(|errno| short.contains(&errno) || one.contains(&errno))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::socket::Refused;

    struct Script(Vec<io::Result<UnixStream>>);

    impl Accept for Script {
        async fn accept(&mut self) -> io::Result<UnixStream> {
            self.0.remove(0)
        }
    }

    fn failure(errno: Errno) -> io::Result<UnixStream> {
        Err(errno.into())
    }

    fn connection() -> io::Result<UnixStream> {
        UnixStream::pair().map(|(ours, _)| ours)
    }

    /// RES-01: a machine without descriptors is waited for, a broken socket is told of.
    #[tokio::test]
    async fn a_shortage_is_survived_and_a_broken_socket_is_not() {
        let script =
            Script(vec![failure(Errno::MFILE), failure(Errno::NFILE), connection(), failure(Errno::BADF)]);
        let mut taken = 0;
        let take = |_, _| {
            taken += 1;
            ControlFlow::Continue(())
        };
        let error = receive(script, Arc::new(super::super::admit), take).await.unwrap_err();
        assert_eq!((Errno::from_io_error(&error), taken), (Some(Errno::BADF), 1));
    }

    #[tokio::test]
    async fn who_is_refused_is_not_taken_and_the_last_taker_ends_it() {
        let script = Script(vec![connection(), connection()]);
        let mut calls = 0;
        let door: Door = Arc::new(|_| Err(Refused::Unseen));
        let broken =
            receive(Script(vec![connection(), failure(Errno::BADF)]), door, |_, _| unreachable!()).await;
        assert!(broken.is_err());
        let take = |_, _| {
            calls += 1;
            ControlFlow::Break(())
        };
        receive(script, Arc::new(super::super::admit), take).await.unwrap();
        assert_eq!(calls, 1);
    }
    /// R255: our own process hears why it is refused; a stranger hears nothing.
    #[tokio::test]
    async fn only_who_is_ours_hears_why_it_is_refused() {
        let refusals: [(fn() -> Refused, bool); 2] = [
            (|| Refused::Nested { pid: 7 }, true),
            (|| Refused::Foreign { uid: 1, pid: None, own: 0 }, false),
        ];
        for (refused, told) in refusals {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            let door: Door = Arc::new(move |_| Err(refused()));
            let script = Script(vec![Ok(ours), failure(Errno::BADF)]);
            receive(script, door, |_, _| unreachable!()).await.unwrap_err();
            let mut line = String::new();
            tokio::io::AsyncReadExt::read_to_string(&mut theirs, &mut line).await.unwrap();
            assert_eq!(line.ends_with("}\n") && line.contains("nested = true"), told, "{line}");
            assert_eq!(line.is_empty(), !told, "{line}");
        }
    }
}
