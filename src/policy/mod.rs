//! Who decides what an agent wants to do: the first thing to read for whoever asks what acpvisor lets pass.
//!
//! Owns the approval modes, their table, and which offered option is the answer. Pure: no clock, no I/O, no actor.
//! What it does not know it asks or refuses; only `yolo` lets that pass (R275).
//!
//! ```text
//!   session/request_permission -> Asked -- judge --> Ask | Allow | Refuse -> Answer, one of the options offered
//! ```

mod approval;
mod options;

pub use approval::{Approval, Verdict, decide, judge};
pub use options::{Allowed, Answer, ApproveWith, Asked, Grant, HostSaid, Offered};
