//! What travels: lines, the frames in them, the credit they were lent, and the ledger of open requests.
//!
//! Owns no descriptor and knows no actor. A frame keeps the bytes it came in; only ids are spliced (R12).

pub mod credit;
pub mod frame;
pub mod letter;
