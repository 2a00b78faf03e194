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
mod card;
mod children;
mod context;
mod detach;
mod ending;
mod failure;
mod health;
mod ledger;
mod likeness;
mod loss;
mod order;
mod outbox;
mod permission;
mod post;
mod prompts;
mod questions;
mod record;
mod recovery;
mod relay;
mod replay;
mod resuming;
mod room;
mod route;
mod setting;
mod settings;
mod setup;
mod sleep;
mod split;
mod start;
mod tools;
mod turn;
mod waiting;

pub use actor::{Arguments, Msg, Report, Session, Shared};
pub use capabilities::offer;
pub use children::announced;
pub use ending::{Ending, Reason};
pub use likeness::likeness;
pub use order::{Order, Saved};
pub use room::Room;
pub use start::held_back;
