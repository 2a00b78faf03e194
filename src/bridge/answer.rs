//! What the bridge itself says to the editor: errors, in JSON-RPC.
//!
//! Pure: appends lines to a buffer.

use serde_json::json;

/// JSON-RPC's internal error.
const INTERNAL_ERROR: i32 = -32_603;

/// Appends the answer to the request with this raw id. Asking again is allowed: nothing was refused.
pub(super) fn error(to: &mut Vec<u8>, id: &str, message: &str) {
    let error = json!({ "code": INTERNAL_ERROR, "message": message, "data": { "retryable": true } });
    to.extend_from_slice(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{error}}}\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_keeps_its_bytes_and_the_message_is_escaped() {
        let mut line = Vec::new();
        error(&mut line, "\"a\\u0031\"", "no \"x\"\n");
        assert_eq!(
            String::from_utf8(line).unwrap(),
            "{\"jsonrpc\":\"2.0\",\"id\":\"a\\u0031\",\"error\":{\"code\":-32603,\
             \"message\":\"no \\\"x\\\"\\n\",\"data\":{\"retryable\":true}}}\n"
        );
    }
}
