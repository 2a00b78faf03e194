//! Who is at the other end of a connection, and whether it may come in (R255).
//!
//! Believes the kernel alone. **What it cannot find out it refuses.**

use std::{io, sync::Arc};

use tokio::net::UnixStream;

/// A process of our own user at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Visitor {
    /// Its process id, as it was when it connected.
    pub pid: i32,
}

/// Decides about a connection: [`admit`], and what else the daemon asks of a visitor.
pub type Door = Arc<dyn Fn(&UnixStream) -> Result<Visitor, Refused> + Send + Sync>;

/// Why a connection is not served.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// It is somebody else's.
    #[error("admit a connection of uid {uid}, pid {pid:?}: only the daemon's own uid {own} may connect")]
    Foreign {
        /// Whose.
        uid: u32,
        /// Its process, when known.
        pid: Option<i32>,
        /// The daemon's.
        own: u32,
    },
    /// Its process is not visible from here.
    #[error("admit a connection: its process id is not visible from here")]
    Unseen,
    /// It comes out of an agent.
    #[error("admit pid {pid}: it was started by an agent; set `nested = true` to allow that")]
    Nested {
        /// The process.
        pid: i32,
    },
    /// The kernel does not say.
    #[error("ask the kernel who connected: {0}")]
    Unknown(#[from] io::Error),
}

/// Lets a process of the daemon's own user in.
pub fn admit(stream: &UnixStream) -> Result<Visitor, Refused> {
    let peer = stream.peer_cred()?;
    judge(peer.uid(), peer.pid(), rustix::process::geteuid().as_raw())
}

fn judge(uid: u32, pid: Option<i32>, own: u32) -> Result<Visitor, Refused> {
    if uid != own {
        return Err(Refused::Foreign { uid, pid, own });
    }
    // The kernel says 0 for a process of another pid namespace.
    pid.filter(|pid| *pid > 0).map(|pid| Visitor { pid }).ok_or(Refused::Unseen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn our_own_process_is_let_in_by_its_pid() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        assert_eq!(admit(&ours).unwrap().pid, i32::try_from(std::process::id()).unwrap());
    }

    /// R255: another uid is refused, and so is what cannot be told.
    #[test]
    fn another_user_and_an_unseen_process_are_refused() {
        assert!(matches!(judge(0, Some(7), 1000), Err(Refused::Foreign { uid: 0, pid: Some(7), own: 1000 })));
        assert!(matches!(judge(1000, Some(0), 1000), Err(Refused::Unseen)));
        assert!(matches!(judge(1000, None, 1000), Err(Refused::Unseen)));
        assert_eq!(judge(1000, Some(7), 1000).unwrap(), Visitor { pid: 7 });
    }
}
