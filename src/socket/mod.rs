//! The two sockets, and the right to them: one daemon owns a runtime and a state directory (R57, R255).
//!
//! Owns the locks, the listening sockets and their files. Who holds the kernel's locks is the daemon; nothing else
//! is proof, neither an answer nor its lack. **Never unlinks what it has not shown to be dead or its own.**

mod arrivals;
mod claim;
mod endpoint;
mod lock;
mod private;
mod refusals;
mod visitor;

#[cfg(test)]
mod tests;

pub use arrivals::{Accept, receive, turn_away};
pub use claim::{Claim, ClaimError, OWNED_EXIT_CODE, Tenure, claim};
pub use refusals::Refusals;
pub use visitor::{Door, Refused, Visitor, admit};

/// Makes everything this process creates its user's alone. Call before any thread starts: it holds for all of them.
pub fn tighten_umask() {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
}
