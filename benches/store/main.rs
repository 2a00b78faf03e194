//! The store beside plain files: what a row, a commit and an index cost.
//!
//! `cargo bench --bench store`. The two ways take turns in every round, in one directory, so that a busy disk is busy
//! for both (R273, R282).

mod plain;
mod report;
mod rounds;
mod shelf;

use std::{env, error::Error, process::ExitCode};

/// What went wrong, in words: a bench has nobody who would tell errors apart.
type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    // what cargo bench says and cargo test does not
    if env::args().nth(1).is_none_or(|word| word != "--bench") {
        return ExitCode::SUCCESS;
    }
    match rounds::measure() {
        Ok(measured) => {
            report::print(&measured);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("store: {error}");
            ExitCode::FAILURE
        }
    }
}
