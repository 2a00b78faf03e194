//! One line, parsed once.

use bytes::Bytes;

/// One line and where in it the parts lie that matter.
#[derive(Debug, Clone)]
pub struct Frame {
    line: Bytes,
}
