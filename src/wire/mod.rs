//! What travels: lines, the frames in them, the credit they were lent, and the ledger of open requests.
//!
//! Owns no descriptor and knows no actor. A frame keeps the bytes it came in; only ids are spliced (R12).

pub mod author;
pub mod credit;
pub mod error;
pub mod frame;
pub mod letter;
pub mod line;
pub mod method;
pub mod outgoing;
pub(crate) mod parse;
pub mod patch;
pub mod pending;
pub mod shallow;

pub use error::RpcError;
pub use frame::Frame;
pub use letter::{Call, Envelope, Letter, Loss, Word};
pub use method::Method;
