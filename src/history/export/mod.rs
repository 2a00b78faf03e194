//! A transcript for people and programs (R270): every line as it is, the events of the runs, or Markdown. Pure.
//!
//! Each reads rows once, in order, and writes as it goes.

mod diff;
mod events;
mod markdown;
mod ndjson;
mod prose;
#[cfg(test)]
mod tests;

pub use events::Events;
pub use markdown::Markdown;
pub use ndjson::ndjson;

/// A time for people and programs.
fn time(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).map_or_else(|_| ms.to_string(), |time| format!("{time:.3}"))
}
