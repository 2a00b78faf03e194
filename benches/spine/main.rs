//! A line end to end: the agent alone, behind a bare relay of two hops, and through `acpvisor acp` and a daemon.
//!
//! `cargo bench --bench spine`. Everything is in this binary, which starts itself again as agent and as relay; the
//! three ways take turns in every round, so that a busy machine is busy for all of them (R282).

mod agent;
mod hop;
mod host;
mod report;
mod rounds;
mod stall;
mod way;

use std::{env, error::Error, path::Path, process::ExitCode};

/// What went wrong, in words: a bench has nobody who would tell errors apart.
type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        [agent::MODE] => agent::run(),
        [hop::NEAR, socket] => hop::near(Path::new(socket)),
        [hop::FAR, socket] => hop::far(Path::new(socket)),
        // what cargo bench says and cargo test does not
        ["--bench", ..] => bench(),
        _ => Ok(()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("spine: {error}");
            ExitCode::FAILURE
        }
    }
}

fn bench() -> Outcome<()> {
    let measured = rounds::measure()?;
    let stalled = stall::measure();
    report::print(&measured, stalled);
    Ok(())
}
