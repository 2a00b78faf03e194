//! The rounds: every way does everything once, then again, until there are enough or time is up.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::{
    Outcome,
    host::{Flood, Host},
    way::Way,
};

const ROUNDS: usize = 5;
/// No round is begun after this.
const TIME_MAX: Duration = Duration::from_secs(50);
/// Bytes of text in an update.
pub const SIZES: [usize; 4] = [64, 300, 4 << 10, 8 << 10];
/// How the agent makes its updates: one by one, as agents do, or all at once, as fast as a pipe takes them.
pub const MADE: [&str; 2] = ["compose", "flood"];
/// Methods of the round trips; the first has no durable effect, and no meaning but to this agent.
pub const METHODS: [&str; 3] = ["_spine/echo", "session/set_mode", "session/prompt"];
/// Hosts that stream at once, and how much each.
pub const AT_ONCE: usize = 8;
const AT_ONCE_EACH: Flood = Flood { made: MADE[0], count: 15_000, bytes: SIZES[0] };
/// About so many bytes make a flood, and not more lines than that.
const FLOOD_BYTES: usize = 48 << 20;
const FLOOD_LINES_MAX: usize = 120_000;
/// Bytes of an update around its text.
const AROUND: usize = 150;
const COLD_STARTS: usize = 3;
const ROUND_TRIPS: usize = 200;
const WARM_UP: usize = 20;

/// All that one way did.
#[derive(Default)]
pub struct Samples {
    /// Updates per second, by how they are made and by size.
    pub updates: [[Vec<f64>; SIZES.len()]; MADE.len()],
    /// The same with [`AT_ONCE`] sessions, all together.
    pub at_once: Vec<f64>,
    /// Seconds, by method; none where the method was refused.
    pub round_trips: [Vec<f64>; METHODS.len()],
    /// Seconds from the start of a process to its first session.
    pub cold: Vec<f64>,
}

/// What the rounds gave.
pub struct Measured {
    /// Rounds that were done.
    pub rounds: usize,
    /// The agent alone.
    pub alone: Samples,
    /// Behind the bare relay.
    pub bare: Samples,
    /// Through acpvisor, or why not.
    pub acpvisor: Outcome<Samples>,
    /// Of the daemon.
    pub ready: Duration,
    /// The most memory the daemon ever had, in KiB.
    pub peak_kib: u64,
}

/// Does the rounds.
pub fn measure() -> Outcome<Measured> {
    let (alone, bare, acpvisor) = (Way::Alone, Way::bare()?, Way::acpvisor());
    let mut measured = Measured {
        rounds: 0,
        alone: Samples::default(),
        bare: Samples::default(),
        acpvisor: Ok(Samples::default()),
        ready: Duration::ZERO,
        peak_kib: 0,
    };
    let began = Instant::now();
    while measured.rounds < ROUNDS && began.elapsed() < TIME_MAX {
        measured.alone.round(&alone)?;
        measured.bare.round(&bare)?;
        measured.acpvisor = match (measured.acpvisor, &acpvisor) {
            (Ok(mut samples), Ok(way)) => samples.round(way).map(|()| samples),
            (Ok(_), Err(error)) => Err(error.to_string().into()),
            (Err(error), _) => Err(error),
        };
        measured.rounds += 1;
    }
    if let Some(daemon) = acpvisor.ok().as_ref().and_then(Way::served) {
        measured.ready = daemon.ready;
        measured.peak_kib = daemon.memory_kib("VmHWM").unwrap_or(0);
    }
    Ok(measured)
}

impl Samples {
    fn round(&mut self, way: &Way) -> Outcome<()> {
        for _ in 0..COLD_STARTS {
            self.cold.push(Host::open(way.command()?)?.cold.as_secs_f64());
        }
        let mut host = Host::open(way.command()?)?;
        for (made, by_size) in MADE.into_iter().zip(&mut self.updates) {
            for (bytes, samples) in SIZES.into_iter().zip(by_size) {
                let count = (FLOOD_BYTES / (bytes + AROUND)).min(FLOOD_LINES_MAX);
                let took = host.flood(Flood { made, count, bytes })?;
                samples.push(count as f64 / took.as_secs_f64());
            }
        }
        for (method, samples) in METHODS.into_iter().zip(&mut self.round_trips) {
            if (0..WARM_UP).any(|_| host.round_trip(method).is_err()) {
                continue;
            }
            for _ in 0..ROUND_TRIPS {
                samples.push(host.round_trip(method)?.as_secs_f64());
            }
        }
        drop(host);
        self.at_once.push(at_once(way)?);
        Ok(())
    }
}

fn at_once(way: &Way) -> Outcome<f64> {
    let mut hosts = Vec::new();
    for _ in 0..AT_ONCE {
        hosts.push(Host::open(way.command()?)?);
    }
    let began = Instant::now();
    thread::scope(|scope| {
        let flood = |host: &mut Host| host.flood(AT_ONCE_EACH).map_err(|error| error.to_string());
        let floods: Vec<_> = hosts.iter_mut().map(|host| scope.spawn(move || flood(host))).collect();
        floods.into_iter().try_for_each(|flood| flood.join().map_err(|_| "a driver panicked")?.map(drop))
    })?;
    Ok((AT_ONCE * AT_ONCE_EACH.count) as f64 / began.elapsed().as_secs_f64())
}

/// The value below which that share of the samples lies.
pub fn quantile(samples: &[f64], share: f64) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1))).copied()
}
