//! The bounded number of live sessions: reserve, initialise, commit, or cancel (R59, R60).
//!
//! ```text
//!   free -> reserved -> resident -> free
//!             `------- dropped ------^
//! ```
//! A [`Slot`] is the only way to hold one; dropping it gives it back, whatever happened.

mod actor;
mod slots;

pub use actor::{Msg, Reply, Residency, Slot};
pub use slots::Refusal;
