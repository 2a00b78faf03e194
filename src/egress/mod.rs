//! The way out of one descriptor: everything that leaves by it, in order, one write at a time (R107, R109).
//!
//! ```text
//!   owner -> actor (queue: a lane per session) -> pump (the descriptor) -> wire
//! ```
//! The actor never waits for the descriptor; the pump does. The first failure wins and closes the way (R113).

mod actor;
mod pump;
mod queue;

pub use actor::{Arguments, Egress, Event, Msg};
pub use pump::{Failure, Sink};
pub use queue::{Admission, Lane, Parcel, Wait};
