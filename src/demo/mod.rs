//! The scripted agent inside the binary (R265): a well-behaved ACP v1 agent over stdio that needs no network
//! and misbehaves when a prompt tells it to; also the puppet that tests speak through.
//!
//! Owns its own stdin and stdout and knows nothing of the daemon, for which it is an agent like any other.
//! Blocking threads: one reads, one writes for each running turn.

mod agent;
mod brood;
mod client;
mod connection;
mod error;
mod flags;
mod flood;
mod puppet;
mod script;
mod sessions;
mod story;
mod terminate;
mod tricks;
mod turn;

use std::{
    ffi::OsString,
    fs::{File, OpenOptions},
    io::{self, BufReader, Write},
    os::fd::AsFd,
};

use thiserror::Error;

use self::{agent::Agent, connection::Connection, flags::Flags};

/// Why the agent could not even start.
#[derive(Debug, Error)]
enum DemoError {
    #[error("read its arguments: {0}")]
    Flags(#[from] flags::FlagError),
    #[error("take hold of its own stdin and stdout: {0}")]
    Stdio(#[source] io::Error),
    #[error(transparent)]
    Puppet(#[from] puppet::PuppetError),
}

/// Runs `demo-agent` with the arguments behind the verb; returns the exit code.
pub fn main(args: impl Iterator<Item = OsString>) -> i32 {
    let started = Flags::parse(args).map_err(DemoError::from).and_then(start);
    started.unwrap_or_else(|error| {
        eprintln!("acpvisor demo-agent failed to {error}");
        2
    })
}

fn start(flags: Flags) -> Result<i32, DemoError> {
    if flags.help {
        // a reader that has gone away has seen enough
        let _ = io::stdout().write_all((flags::HELP.to_owned() + &script::words()).as_bytes());
        return Ok(0);
    }
    if let Some(kin) = flags.sleeper {
        return Ok(brood::sleep(kin));
    }
    let (stdin, stdout) = own_stdio().map_err(DemoError::Stdio)?;
    if let Some(socket) = &flags.puppet {
        return Ok(puppet::run(&flags, socket, stdin, stdout)?);
    }
    if flags.ignore_term {
        terminate::ignore();
    }
    let ignore_eof = flags.ignore_eof;
    Agent::new(flags, Connection::new(stdout)).serve(BufReader::with_capacity(64 << 10, stdin));
    if ignore_eof {
        brood::linger();
    }
    Ok(0)
}

/// Takes the two pipes away from the standard handles: a stray print cannot reach the protocol, and dropping
/// the file really closes the pipe.
fn own_stdio() -> io::Result<(File, File)> {
    let stdin = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let stdout = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok((stdin, stdout))
}
