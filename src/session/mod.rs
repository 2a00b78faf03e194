//! One conversation: between its host and the process behind it.
//!
//! Owns the turn, the open requests of both sides and the slot; is the parent of its peer. Every request that
//! enters is answered exactly once, whatever happens to either side. Never touches a descriptor.
//!
//! ```text
//!   starting -> warm -> opening -> live -> ending -> (gone)
//!       ^---------- a prompt after the peer's death --'
//! ```

mod actor;
mod capabilities;
mod children;
mod ending;
mod health;
mod ledger;
mod prompts;
mod relay;
mod route;
mod setup;
mod tools;
mod turn;

pub use actor::{Arguments, Msg, Order, Report, Session, Shared};
pub use capabilities::offer;
pub use children::announced;
pub use ending::{Ending, Reason};
pub use setup::held_back;
