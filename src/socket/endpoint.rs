//! One listening socket: handed over by the service manager, or bound by us and ours to unlink.
//!
//! Call only under the locks. Nobody else can connect at any moment: the mode is set before the file exists.

use std::{
    fs, io,
    os::{
        fd::{FromRawFd, OwnedFd, RawFd},
        unix::{
            fs::{FileTypeExt, MetadataExt},
            net::UnixListener,
        },
    },
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use rustix::{
    fs::{Mode, fchmod},
    io::Errno,
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, socket_with, sockopt},
};

use super::claim::ClaimError;
use crate::limits::SOCKET_PATH_BYTES_MAX;

/// What the service manager listens on for us.
#[derive(Debug, Default)]
pub struct Offered {
    /// For hosts.
    pub host: Option<UnixListener>,
    /// For operators.
    pub control: Option<UnixListener>,
}

/// A socket's file that we made: unlinked when this is dropped, if it is still the same file.
#[derive(Debug)]
pub struct Bound {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Drop for Bound {
    fn drop(&mut self) {
        let ours = |file: &fs::Metadata| (file.dev(), file.ino()) == (self.device, self.inode);
        if fs::symlink_metadata(&self.path).is_ok_and(|file| ours(&file)) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Whether the kernel can take that path.
pub fn fits(path: &Path) -> Result<(), ClaimError> {
    let bytes = path.as_os_str().len();
    if bytes <= SOCKET_PATH_BYTES_MAX {
        Ok(())
    } else {
        Err(ClaimError::TooLong { path: path.to_owned(), bytes })
    }
}

/// The socket that was offered, else one bound at the path.
pub fn listen(
    offered: Option<UnixListener>,
    path: &Path,
    bound: &mut Vec<Bound>,
) -> Result<UnixListener, ClaimError> {
    let failed = |source| ClaimError::Listen { path: path.to_owned(), source };
    if let Some(listener) = offered {
        listener.set_nonblocking(true).map_err(failed)?;
        return Ok(listener);
    }
    remove_stale(path)?;
    let (listener, file) = bind_private(path).map_err(failed)?;
    bound.push(file);
    Ok(listener)
}

fn bind_private(path: &Path) -> io::Result<(UnixListener, Bound)> {
    let socket = stream_socket()?;
    // The file gets the mode of the socket less the umask: this way it never has another.
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    let file = fs::symlink_metadata(path)?;
    let bound = Bound { path: path.to_owned(), device: file.dev(), inode: file.ino() };
    // The kernel cuts the backlog to its own ceiling.
    rustix::net::listen(&socket, i32::MAX)?;
    Ok((UnixListener::from(socket), bound))
}

fn stream_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

/// Unlinks a socket of a dead daemon. We hold the locks, so that a socket nobody answers on is exactly that.
fn remove_stale(path: &Path) -> Result<(), ClaimError> {
    let failed = |source| ClaimError::Listen { path: path.to_owned(), source };
    let file = match fs::symlink_metadata(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    match occupant(&file, path) {
        Some(what) => Err(ClaimError::Taken { path: path.to_owned(), what }),
        None => fs::remove_file(path).map_err(failed),
    }
}

fn occupant(file: &fs::Metadata, path: &Path) -> Option<&'static str> {
    let kind = file.file_type();
    if kind.is_symlink() {
        Some("a symbolic link is there")
    } else if kind.is_dir() {
        Some("a directory is there")
    } else if kind.is_file() {
        Some("a regular file is there")
    } else if !kind.is_socket() {
        Some("something that is no socket is there")
    } else if answers(path) {
        Some("another program listens there")
    } else {
        None
    }
}

/// Whether somebody listens. Anything but a plain refusal counts as somebody.
fn answers(path: &Path) -> bool {
    let Ok(socket) = stream_socket() else { return true };
    let Ok(address) = SocketAddrUnix::new(path) else { return true };
    connect(&socket, &address) != Err(Errno::CONNREFUSED)
}

/// Takes what the service manager offers, by the names `host` and `control`, else in that order.
pub fn offered() -> io::Result<Offered> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if TAKEN.swap(true, Ordering::SeqCst) {
        return Ok(Offered::default());
    }
    let all: Vec<(RawFd, String)> = sd_notify::listen_fds_with_names()?.collect();
    let (host, control) = chosen(&all);
    let take = |raw: Option<RawFd>| raw.map(adopt).transpose();
    Ok(Offered { host: take(host)?, control: take(control)? })
}

fn chosen(all: &[(RawFd, String)]) -> (Option<RawFd>, Option<RawFd>) {
    let named = |wanted: &str| all.iter().find(|(_, name)| name == wanted).map(|(fd, _)| *fd);
    match (named("host"), named("control")) {
        (None, None) => (all.first().map(|(fd, _)| *fd), all.get(1).map(|(fd, _)| *fd)),
        found => found,
    }
}

fn adopt(raw: RawFd) -> io::Result<UnixListener> {
    // SAFETY: the service manager opened the descriptor for this process and nothing else in it knows its number;
    // `offered` hands each out once in the life of the process.
    let fd = unsafe { OwnedFd::from_raw_fd(raw) };
    let unix = sockopt::socket_domain(&fd)? == AddressFamily::UNIX;
    if unix && sockopt::socket_type(&fd)? == SocketType::STREAM && sockopt::socket_acceptconn(&fd)? {
        Ok(UnixListener::from(fd))
    } else {
        Err(io::Error::other(format!("descriptor {raw} is no listening Unix stream socket")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offered_sockets_are_chosen_by_name_and_else_in_order() {
        let named = |names: &[&str]| -> Vec<(RawFd, String)> {
            (3..).zip(names.iter().map(|name| (*name).to_owned())).collect()
        };
        assert_eq!(chosen(&named(&[])), (None, None));
        assert_eq!(chosen(&named(&["acpvisor.socket"])), (Some(3), None));
        assert_eq!(chosen(&named(&["acpvisor.socket", "acpvisor.socket"])), (Some(3), Some(4)));
        assert_eq!(chosen(&named(&["control", "host"])), (Some(4), Some(3)));
        assert_eq!(chosen(&named(&["control"])), (None, Some(3)));
    }

    #[test]
    fn what_is_no_listening_socket_is_not_adopted() {
        use std::os::fd::IntoRawFd;
        let connected = std::os::unix::net::UnixStream::pair().unwrap().0.into_raw_fd();
        assert!(adopt(connected).unwrap_err().to_string().contains("no listening Unix stream socket"));
    }
}
