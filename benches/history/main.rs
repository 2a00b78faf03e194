//! How fast a stored history is read: updates a second, beside a bare split of the same bytes into lines.
//!
//! `cargo bench --bench history`. Everything is made here; nothing is read from a disk. The heap that reading takes is
//! counted too, without the updates that come out (R37, R281).

mod heap;
mod rows;

use std::{
    env, hint,
    process::ExitCode,
    time::{Duration, Instant},
};

use acpvisor::{history::Replay, store::Stored};

/// Each figure is the best of so many rounds: what disturbs only makes it slower.
const ROUNDS: usize = 5;
/// Updates a second that reading must reach at least, when they are small.
const UPDATES_PER_S_MIN: f64 = 200_000.0;
const SMALL_BYTES: usize = 500;

fn main() -> ExitCode {
    // what cargo bench says and cargo test does not
    if !env::args().any(|word| word == "--bench") {
        return ExitCode::SUCCESS;
    }
    println!(
        "{:<28}{:>12}{:>10}{:>16}{:>12}{:>10}",
        "history", "updates/s", "MB/s", "x bare split", "heap KiB", "out"
    );
    let is_slow =
        |(name, rows): &(&str, Vec<Stored>)| measure(name, rows) < UPDATES_PER_S_MIN && is_small(rows);
    let slow = rows::kinds().iter().filter(|kind| is_slow(kind)).count();
    if slow == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether its updates are of the size that the least figure is for.
fn is_small(rows: &[Stored]) -> bool {
    let bytes: usize = rows.iter().map(|row| row.lines.len()).sum();
    bytes / split(rows) < SMALL_BYTES
}

fn measure(name: &str, rows: &[Stored]) -> f64 {
    let bytes: usize = rows.iter().map(|row| row.lines.len()).sum();
    let (updates, split) = best(|| split(rows));
    let ((frames, heap), replay) = best(|| replay(rows));
    let per_s = updates as f64 / replay.as_secs_f64();
    println!(
        "{name:<28}{per_s:>12.0}{:>10.0}{:>16.1}{:>12}{frames:>10}",
        bytes as f64 / replay.as_secs_f64() / 1e6,
        replay.as_secs_f64() / split.as_secs_f64(),
        heap >> 10,
    );
    per_s
}

fn best<T>(mut run: impl FnMut() -> T) -> (T, Duration) {
    let timed = |run: &mut dyn FnMut() -> T| {
        let start = Instant::now();
        let done = hint::black_box(run());
        (done, start.elapsed())
    };
    let rounds = (0..ROUNDS).map(|_| timed(&mut run));
    rounds.min_by_key(|(_, time)| *time).expect("there are rounds")
}

/// Lines that are there.
fn split(rows: &[Stored]) -> usize {
    let lines = |row: &Stored| memchr::memchr_iter(b'\n', &row.lines).map(hint::black_box).count();
    rows.iter().map(lines).sum()
}

/// Frames that come out, and the heap that it took at most.
fn replay(rows: &[Stored]) -> (usize, usize) {
    let (mut frames, mut out) = (0, Vec::new());
    let before = heap::in_use();
    heap::forget_peak();
    let mut replay = Replay::new(rows::session());
    for row in rows {
        replay.take(row, &mut out);
        frames += out.len();
        out.clear();
    }
    replay.finish(&mut out);
    (frames + out.len(), heap::peak() - before)
}
