//! The host that stops reading while a gigabyte is offered to it: how far the daemon grows, and what is lost.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::{
    Outcome,
    host::{Flood, Host},
    way::Way,
};

/// What is offered: a gigabyte, in updates of 8 KiB.
const OFFERED: Flood = Flood { made: "flood", count: 131_072, bytes: 8 << 10 };
/// Enough for everything that buffers to be full.
const STALLED: Duration = Duration::from_secs(2);
const SAMPLE_EVERY: Duration = Duration::from_millis(20);

/// What was seen.
pub struct Stalled {
    /// Resident before, in KiB.
    pub idle_kib: u64,
    /// The most while nobody read, in KiB.
    pub stalled_kib: u64,
    /// The most that ever was, reading on included, in KiB.
    pub peak_kib: u64,
    /// From reading on to the last line.
    pub drained: Duration,
}

/// A daemon of its own, so that nothing before has made it large.
pub fn measure() -> Outcome<Stalled> {
    let way = Way::acpvisor()?;
    let daemon = way.served().ok_or("no daemon")?;
    let mut host = Host::open(way.command()?)?;
    host.flood(Flood { count: 1_000, ..OFFERED })?;
    let idle_kib = daemon.memory_kib("VmRSS")?;
    host.ask(OFFERED)?;
    let until = Instant::now() + STALLED;
    let mut stalled_kib = 0;
    while Instant::now() < until {
        stalled_kib = daemon.memory_kib("VmRSS")?.max(stalled_kib);
        thread::sleep(SAMPLE_EVERY);
    }
    let began = Instant::now();
    host.read_flood(OFFERED.count)?;
    Ok(Stalled { idle_kib, stalled_kib, peak_kib: daemon.memory_kib("VmHWM")?, drained: began.elapsed() })
}
