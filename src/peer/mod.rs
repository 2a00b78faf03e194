//! The process behind a session: its pipes, its handshake, its ids, its end.
//!
//! Owns the process and the ledger of its wire. Knows the peer's session id and lets nobody else know it (R229).
//! Never decides about a turn and never restarts itself.
//!
//! ```text
//!   spawning -> initialising -> ready -> ending -> (gone)
//! ```

mod actor;
mod death;
mod ending;
mod handshake;

mod stage;
mod starting;
mod wire;

pub use actor::{Arguments, Event, Msg, Peer};
pub use death::{Cause, Death, Outcome};
pub use handshake::{can_close, can_fork, can_load, can_resume};
