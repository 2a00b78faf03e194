//! What is known of sessions beyond the life of their actors.
//!
//! For now it lives in memory and is bounded; the messages are those that a durable store will answer. Never
//! holds a frame of a conversation.

mod actor;
mod row;

pub use actor::{Msg, Store};
pub use row::Row;
