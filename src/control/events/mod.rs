//! What happens, as a stream: rows of the store told as events, to whoever subscribed (R258).
//!
//! Reads the store behind its writer, in a task of the subscriber's own: an actor knows of no subscriber, and one
//! that does not read holds up nobody. Every event has a number that is the same whenever it is told.
//!
//! ```text
//!   store -- rows --> tellers (one a session: Mapper, turn) -- events --> numbers, filter --> lines --> connection
//! ```

mod kind;
mod note;
mod number;
mod subscription;
mod teller;
mod tellers;
mod telling;
#[cfg(test)]
mod tests;

pub use kind::Kind;
pub(super) use subscription::Subscription;
