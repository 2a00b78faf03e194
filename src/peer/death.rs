//! How a peer ended, in words for people and for its host (R217, R237, R241).

use std::time::Duration;

use super::handshake::HandshakeError;
use crate::{
    process::{Exit, Status},
    wire::{Method, RpcError},
};

/// What ended it.
#[derive(Debug, Clone)]
pub enum Cause {
    /// It went by itself.
    Itself,
    /// It was told to go.
    Order,
    /// Its program could not be started.
    Spawn(String),
    /// It is not the agent it was taken for.
    Handshake(HandshakeError),
    /// It read nothing for that long while something was written to it (R10).
    WriteStalled(Duration),
    /// It asked on and on and read none of the answers (R249).
    Deaf,
    /// Writing to it failed (R11).
    WriteFailed(std::io::ErrorKind),
    /// Reading from it failed (R218).
    ReadFailed(String),
    /// A line was not proper JSON-RPC, and the agent is `strict_wire` (R6).
    Strict(String),
}

/// The end of a process.
#[derive(Debug, Clone)]
pub struct Death {
    /// The agent's name in the configuration.
    pub agent: String,
    /// What ended it.
    pub cause: Cause,
    /// How it exited, when it had begun.
    pub exit: Option<Exit>,
    /// The request of the handshake that it left open, and its number (R23).
    pub unanswered: Option<(Method, u64)>,
    /// The end of its stderr.
    pub stderr: String,
    /// A prompt was open (R217).
    pub prompt_open: bool,
}

/// What an exit comes to (R216, R217).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It ended well, after at least one answer.
    Completed,
    /// It was told to go.
    Aborted,
    /// Anything else.
    Failed,
}

impl Death {
    /// Whether it failed, as against being told to go: counts for the restart intensity (R227).
    pub fn is_failure(&self) -> bool {
        let refused = matches!(&self.cause, Cause::Handshake(HandshakeError::Refused(_)));
        !matches!(self.cause, Cause::Order) && !refused
    }

    /// What its exit comes to, after so many answered prompts.
    pub fn outcome(&self, answered: u64) -> Outcome {
        let well = self.exit.as_ref().is_some_and(|e| matches!(e.status, Status::Code(0)));
        match self.cause {
            Cause::Itself | Cause::Order if well && answered > 0 => Outcome::Completed,
            Cause::Order => Outcome::Aborted,
            _ => Outcome::Failed,
        }
    }

    /// What a host is told.
    pub fn error(&self) -> RpcError {
        match &self.cause {
            Cause::Handshake(HandshakeError::Refused(error)) => error.clone(),
            _ => RpcError::runtime(self.to_string()),
        }
    }
}

impl std::fmt::Display for Death {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "agent `{}` ", self.agent)?;
        match &self.cause {
            Cause::Itself => write!(f, "{}", status(self.exit.as_ref()))?,
            Cause::Order => f.write_str("was ended")?,
            Cause::Spawn(why) => write!(f, "could not be started: {why}")?,
            Cause::Handshake(why) => write!(f, "failed to start: {why}")?,
            Cause::WriteStalled(after) => {
                write!(f, "was ended after a write timeout: it read nothing for {} s", after.as_secs_f32())?;
            }
            Cause::Deaf => f.write_str("was ended: it asks on and on and reads none of the answers")?,
            Cause::WriteFailed(kind) => write!(f, "closed its stdin: write failed: {kind}")?,
            Cause::ReadFailed(why) => write!(f, "could not be read: {why}")?,
            Cause::Strict(why) => write!(f, "broke the protocol and is strict_wire: {why}")?,
        }
        if self.prompt_open && matches!(self.cause, Cause::Itself | Cause::WriteFailed(_)) {
            f.write_str(" without answering")?;
        }
        let by_itself = self.exit.as_ref().is_some_and(|exit| !exit.by_us);
        if by_itself && !matches!(self.cause, Cause::Itself) {
            write!(f, "; it {}", status(self.exit.as_ref()))?;
        }
        let told = matches!(self.cause, Cause::Order | Cause::Spawn(_) | Cause::Handshake(_));
        if let Some((method, id)) = self.unanswered.filter(|_| !told) {
            write!(f, " before it answered {} (request {id})", method.name())?;
        }
        if !self.stderr.is_empty() {
            write!(f, "; its stderr ends: {}", self.stderr)?;
        }
        Ok(())
    }
}

fn status(exit: Option<&Exit>) -> String {
    match exit.map(|e| &e.status) {
        Some(Status::Code(code)) => format!("exited with status {code}"),
        Some(Status::Signal(signal)) => format!("was ended by signal {signal}"),
        _ => "ended".to_owned(),
    }
}
