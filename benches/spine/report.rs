//! The table, with R282's targets beside what was measured.

use std::thread;

use crate::{
    Outcome,
    rounds::{AT_ONCE, METHODS, Measured, SIZES, Samples, quantile},
    stall::Stalled,
};

/// Least share of the bare relay's updates, by size.
const SHARE_MIN: [f64; SIZES.len()] = [0.5, 0.5, 0.8, 0.8];
const AT_ONCE_SHARE_MIN: f64 = 0.5;
/// Most microseconds over the bare relay for a request without durable effect.
const ADDED_US_MAX: f64 = 60.0;
const COLD_RATIO_MAX: f64 = 1.5;
const READY_MS_MAX: f64 = 50.0;
const GROWTH_KIB_MAX: u64 = 8 << 10;
const TOTAL_KIB_MAX: u64 = 64 << 10;

/// Prints everything.
pub fn print(measured: &Measured, stalled: Outcome<Stalled>) {
    let cores = thread::available_parallelism().map_or(0, usize::from);
    println!("\nspine: medians of {} interleaved rounds on {cores} cores\n", measured.rounds);
    let acpvisor = match &measured.acpvisor {
        Ok(samples) => samples,
        Err(error) => {
            println!("acpvisor was not measured: {error}\n");
            &Samples::default()
        }
    };
    println!(
        "{:<30}{:>12}{:>12}{:>12}{:>10}{:>10}   target",
        "", "alone", "bare relay", "acpvisor", "of alone", "of bare"
    );
    let row = Row { measured, acpvisor };
    for (size, bytes) in SIZES.into_iter().enumerate() {
        row.rate(&format!("updates/s, {bytes} B"), |s| &s.updates[0][size], Some(SHARE_MIN[size]));
    }
    row.rate(&format!("updates/s, {AT_ONCE} sessions, 64 B"), |s| &s.at_once, Some(AT_ONCE_SHARE_MIN));
    for (size, bytes) in SIZES.into_iter().enumerate() {
        row.rate(&format!("the same made at once, {bytes} B"), |s| &s.updates[1][size], None);
    }
    for (index, method) in METHODS.into_iter().enumerate() {
        let target = (index == 0).then_some(ADDED_US_MAX);
        row.trip(&format!("{method} p50, us"), |s| quantile(&s.round_trips[index], 0.5), target);
        row.trip(&format!("{method} p99, us"), |s| quantile(&s.round_trips[index], 0.99), None);
    }
    row.cold();
    println!();
    if measured.acpvisor.is_ok() {
        let ready = measured.ready.as_secs_f64() * 1e3;
        let peak = measured.peak_kib;
        println!("daemon ready after {ready:.1} ms   {}", verdict(ready <= READY_MS_MAX, "<= 50 ms"));
        println!("daemon at its largest {peak} KiB   {}", verdict(peak < TOTAL_KIB_MAX, "< 64 MiB"));
    }
    match stalled {
        Ok(stalled) => print_stalled(&stalled),
        Err(error) => println!("the host that stops reading was not measured: {error}"),
    }
}

struct Row<'a> {
    measured: &'a Measured,
    acpvisor: &'a Samples,
}

impl Row<'_> {
    fn values(&self, of: impl Fn(&Samples) -> Option<f64>) -> [Option<f64>; 3] {
        [of(&self.measured.alone), of(&self.measured.bare), of(self.acpvisor)]
    }

    fn rate(&self, name: &str, of: impl Fn(&Samples) -> &Vec<f64>, share_min: Option<f64>) {
        let [alone, bare, ours] = self.values(|samples| quantile(of(samples), 0.5));
        let verdict = ratio(ours, bare)
            .zip(share_min)
            .map(|(share, min)| verdict(share >= min, &format!(">= {min} of bare")));
        line(name, [alone, bare, ours], 1.0, &verdict.unwrap_or_default());
    }

    fn trip(&self, name: &str, of: impl Fn(&Samples) -> Option<f64>, target: Option<f64>) {
        let values = self.values(of);
        let added = values[2].zip(values[1]).map(|(ours, bare)| (ours - bare) * 1e6);
        let note = added.map(|added| match target {
            Some(max) => verdict(added <= max, &format!("{added:+.1} us, <= +{max} us")),
            None => format!("{added:+.1} us"),
        });
        line(name, values, 1e6, &note.unwrap_or_default());
    }

    fn cold(&self) {
        let values = self.values(|samples| quantile(&samples.cold, 0.5));
        let ratio = ratio(values[2], values[1]);
        let text = format!("<= {COLD_RATIO_MAX} of bare");
        let verdict = ratio.map(|ratio| verdict(ratio <= COLD_RATIO_MAX, &text));
        line("cold start to a session, us", values, 1e6, &verdict.unwrap_or_default());
    }
}

fn print_stalled(stalled: &Stalled) {
    let Stalled { idle_kib, stalled_kib, peak_kib, drained } = stalled;
    let growth = stalled_kib.saturating_sub(*idle_kib);
    let total = verdict(*peak_kib < TOTAL_KIB_MAX, "< 64 MiB");
    println!("1 GiB offered to a host that does not read:");
    println!("  growth {growth} KiB over {idle_kib} KiB   {}", verdict(growth <= GROWTH_KIB_MAX, "<= 8 MiB"));
    println!("  at its largest, reading on included: {peak_kib} KiB   {total}");
    println!("  nothing lost, all read in {:.1} s", drained.as_secs_f64());
}

fn line(name: &str, values: [Option<f64>; 3], scale: f64, note: &str) {
    let [alone, bare, ours] = values;
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{:.0}", value * scale));
    let share = |to| ratio(ours, to).map_or("-".to_owned(), |share| format!("{share:.2}"));
    println!(
        "{name:<30}{:>12}{:>12}{:>12}{:>10}{:>10}   {note}",
        number(alone),
        number(bare),
        number(ours),
        share(alone),
        share(bare)
    );
}

fn ratio(ours: Option<f64>, to: Option<f64>) -> Option<f64> {
    ours.zip(to).map(|(ours, to)| ours / to)
}

fn verdict(met: bool, target: &str) -> String {
    format!("{target}: {}", if met { "met" } else { "MISSED" })
}
