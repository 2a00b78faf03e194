//! The one place per session id where open, take-over, close and kill happen one after the other (R39, R40).
//!
//! [`Berths`] finds or makes the berth of an id; a `Berth` owns the order of what happens there and is the parent
//! of its session. A new owner begins only when the old one is proved gone. Different ids never wait for each other.

mod actor;
mod berths;
mod learnt;
mod operation;
mod shrink;

pub use berths::{Berths, Msg};
pub use operation::Answer;
