//! The bare relay: two processes and a Unix socket between editor and agent, and nothing looked at on the way.
//!
//! What `socat -b 262144 - UNIX-CONNECT:S` before `socat -b 262144 UNIX-LISTEN:S,fork EXEC:agent` does, with a
//! thread for each direction: the fastest that anything with a daemon in the middle can be.

use std::{
    env,
    fs::File,
    io::{ErrorKind, Read, Write, stdin, stdout},
    net::Shutdown,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::{UnixListener, UnixStream},
    },
    path::Path,
    process::{Command, Stdio},
    thread,
};

use crate::{Outcome, agent};

/// Argument that makes this binary the hop at the editor's side.
pub const NEAR: &str = "--near";
/// The same for the agent's side.
pub const FAR: &str = "--far";

const BUFFER_BYTES: usize = 256 << 10;

/// Stdin and stdout to the socket.
pub fn near(socket: &Path) -> Outcome<()> {
    let socket = UnixStream::connect(socket)?;
    let to = socket.try_clone()?;
    let stdin = File::from(stdin().as_fd().try_clone_to_owned()?);
    thread::spawn(move || {
        copy(stdin, &to);
        let _ = to.shutdown(Shutdown::Write);
    });
    copy(socket, File::from(stdout().as_fd().try_clone_to_owned()?));
    Ok(())
}

/// Each connection to an agent of its own, until this process is ended.
pub fn far(socket: &Path) -> Outcome<()> {
    for connection in UnixListener::bind(socket)?.incoming() {
        join_to_agent(connection?)?;
    }
    Ok(())
}

fn join_to_agent(connection: UnixStream) -> Outcome<()> {
    let mut command = Command::new(env::current_exe()?);
    let mut agent = command.arg(agent::MODE).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (to, from) = (agent.stdin.take().ok_or("no stdin")?, agent.stdout.take().ok_or("no stdout")?);
    let (to, from) = (File::from(OwnedFd::from(to)), File::from(OwnedFd::from(from)));
    let back = connection.try_clone()?;
    thread::spawn(move || copy(connection, to));
    thread::spawn(move || {
        copy(from, &back);
        let _ = back.shutdown(Shutdown::Both);
        let _ = agent.kill();
        let _ = agent.wait();
    });
    Ok(())
}

fn copy(mut from: impl Read, mut to: impl Write) {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => match to.write_all(&buffer[..count]) {
                Ok(()) => {}
                Err(_) => return,
            },
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
