//! Text that is typed as an argument, or read from stdin for `-`.

use std::io::{self, Read};

use super::Failure;

/// What was typed; everything on stdin for `-`, up to what is allowed. Nothing but blanks is no text.
pub(super) fn typed(argument: String, what: &str, bytes_max: usize) -> Result<String, Failure> {
    let text = if argument == "-" { read("stdin", io::stdin(), what, bytes_max)? } else { argument };
    if text.trim().is_empty() {
        return Err(Failure::Usage(format!("take an empty {what}: say what is to be done")));
    }
    if text.len() > bytes_max {
        return Err(Failure::Usage(format!("take a {what} of {} bytes: at most {bytes_max}", text.len())));
    }
    Ok(text)
}

/// Everything there is, and a byte more than allowed when there is too much.
pub(super) fn read(from: &str, source: impl Read, what: &str, bytes_max: usize) -> Result<String, Failure> {
    let mut text = String::new();
    let most = u64::try_from(bytes_max).unwrap_or(u64::MAX);
    source
        .take(most + 1)
        .read_to_string(&mut text)
        .map_err(|error| Failure::Usage(format!("read the {what} from {from}: {error}")))?;
    Ok(text)
}
