//! One connection of an editor or program: an ordinary ACP client, whoever it is.
//!
//! Owns the ledger of its wire and the list of sessions it holds; knows the agent it wants. Never sees a peer. What
//! belongs to a session leaves through that session's lane, in order (R107); lanes take turns (R115).
//!
//! ```text
//!   first -> initialising -> ready -> closing -> (gone)
//! ```

mod actor;
mod closing;
mod inbound;
mod listener;
mod listing;
mod ordering;
mod outbound;
mod stage;

pub use actor::{Arguments, Msg};
pub use listener::{Ears, Listener, Message};
