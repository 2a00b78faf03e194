//! The table.

use crate::rounds::{AT_ONCE, Measured, Pair, SESSIONS};

/// Fewest updates that are read back in a second (R282).
const READ_MIN: f64 = 200_000.0;
/// Most milliseconds that opening may take of the 200 there are until the daemon is ready (R282).
const OPEN_MS_MAX: f64 = 20.0;

/// Prints everything.
pub fn print(measured: &Measured) {
    println!("\nstore: medians, lines of 300 bytes in batches of 96\n");
    println!("{:<42}{:>12}{:>12}{:>9}   target", "", "store", "plain file", "ratio");
    pair("lines stored in a second", &measured.appended, 1.0, "");
    pair(&format!("the same of {AT_ONCE} sessions at once"), &measured.appended_at_once, 1.0, "");
    let read = verdict(median(&measured.read.store) >= READ_MIN, ">= 200 000");
    pair("lines read back in a second", &measured.read, 1.0, &read);
    one("a small write committed, us", median(&measured.noted) * 1e6, "");
    pair("a small write on the disk, us", &measured.synced, 1e6, "");
    one("opened empty, ms", median(&measured.opened_empty) * 1e3, "");
    let opened = median(&measured.opened) * 1e3;
    one(&format!("opened with {SESSIONS} sessions, ms"), opened, &verdict(opened <= OPEN_MS_MAX, "<= 20"));
    one(&format!("a page of 50 from {SESSIONS} sessions, us"), median(&measured.listed) * 1e6, "");
}

fn pair(name: &str, pair: &Pair, scale: f64, note: &str) {
    let (store, plain) = (median(&pair.store) * scale, median(&pair.plain) * scale);
    println!("{name:<42}{store:>12.0}{plain:>12.0}{:>9.2}   {note}", store / plain);
}

fn one(name: &str, value: f64, note: &str) {
    println!("{name:<42}{value:>12.1}{:>12}{:>9}   {note}", "-", "-");
}

fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

fn verdict(met: bool, target: &str) -> String {
    format!("{target}: {}", if met { "met" } else { "MISSED" })
}
