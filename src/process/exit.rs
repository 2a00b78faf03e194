//! How a process ended, and how sure that is. Pure.

use std::fmt;

/// What the leader of an agent's group left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It returned this code.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
    /// Nobody saw it end: its shim was killed.
    Unknown,
}

impl Status {
    /// Whether it returned 0.
    pub fn is_success(self) -> bool {
        self == Self::Code(0)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::Unknown => f.write_str("unknown exit status"),
        }
    }
}

/// The end of an agent and of everything it had started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    /// How the agent itself ended.
    pub status: Status,
    /// Whether it was told to before it ended.
    pub by_us: bool,
    /// What could not be proved to be gone; `None` when nothing is left (R279).
    pub unproved: Option<String>,
}
