//! What became of the records of a recording. Pure.

use std::collections::BTreeMap;

use crate::recording::{Message, Record};

/// Every record counts once: it arrived as it was, the daemon answered it itself, or it was left out for a reason.
#[derive(Default)]
pub struct Tally {
    /// Lines of the agent that the host got as they were.
    pub host_got: usize,
    /// Lines of the host that the agent got as they were.
    pub peer_got: usize,
    /// Lines that the daemon answers or drops by itself, and did.
    pub own: usize,
    /// Lines of the daemon that nobody recorded.
    pub asides: usize,
    /// Processes that the daemon put in the place of sick ones.
    pub replaced: usize,
    /// Lines of the agent that repeat what was, and that the host did not get.
    pub swallowed: usize,
    /// Updates of histories that the host was shown, as it had seen them.
    pub shown: usize,
    /// Histories that the host was shown.
    pub loads: usize,
    /// Requests for sessions that the daemon never saw, refused with -32002.
    pub unknown: usize,
    updates: usize,
    updates_got: usize,
    left_out: BTreeMap<&'static str, usize>,
}

impl Tally {
    /// The host got that line of the agent.
    pub fn host_got(&mut self, message: &Message) {
        self.host_got += 1;
        let update = usize::from(is_update(message));
        self.updates += update;
        self.updates_got += update;
    }

    /// That line was not played.
    pub fn leave_out(&mut self, message: Option<&Message>, why: &'static str) {
        *self.left_out.entry(why).or_default() += 1;
        self.updates += usize::from(message.is_some_and(is_update));
    }

    /// How many of the updates arrived.
    pub fn updates_share(&self) -> f64 {
        if self.updates == 0 { 1.0 } else { self.updates_got as f64 / self.updates as f64 }
    }

    /// Takes another one in.
    pub fn add(&mut self, other: &Self) {
        self.host_got += other.host_got;
        self.peer_got += other.peer_got;
        self.own += other.own;
        self.asides += other.asides;
        self.replaced += other.replaced;
        self.swallowed += other.swallowed;
        self.shown += other.shown;
        self.loads += other.loads;
        self.unknown += other.unknown;
        self.updates += other.updates;
        self.updates_got += other.updates_got;
        other.left_out.iter().for_each(|(why, n)| *self.left_out.entry(why).or_default() += n);
    }

    /// Takes in what was loaded beside the records.
    pub fn add_loads(&mut self, other: &Self) {
        self.asides += other.asides;
        self.loads += other.loads;
        self.shown += other.shown;
    }

    /// No record was forgotten.
    pub fn assert_whole<'r>(&self, records: impl Iterator<Item = &'r Record>) {
        let recorded = records.filter(|record| !matches!(record, Record::Ended)).count();
        assert_eq!(self.records(), recorded, "a record was counted never or twice: {}", self.row(""));
    }

    fn records(&self) -> usize {
        self.host_got + self.peer_got + self.own + self.swallowed + self.left_out.values().sum::<usize>()
    }

    /// The head of the table.
    pub fn head() -> String {
        format!(
            "{:<36} {:>7} {:>11} {:>8} {:>8} {:>4} {:>6} {:>8} {:>9} {:>5} {:>5} {:>7}  left out",
            "recording",
            "records",
            "updates",
            "host got",
            "peer got",
            "own",
            "asides",
            "replaced",
            "swallowed",
            "loads",
            "shown",
            "unknown"
        )
    }

    /// A row of the table.
    pub fn row(&self, name: &str) -> String {
        let left_out: Vec<String> = self.left_out.iter().map(|(why, n)| format!("{n} {why}")).collect();
        format!(
            "{name:<36} {:>7} {:>5}/{:<5} {:>8} {:>8} {:>4} {:>6} {:>8} {:>9} {:>5} {:>5} {:>7}  {}",
            self.records(),
            self.updates_got,
            self.updates,
            self.host_got,
            self.peer_got,
            self.own,
            self.asides,
            self.replaced,
            self.swallowed,
            self.loads,
            self.shown,
            self.unknown,
            left_out.join(", ")
        )
    }
}

fn is_update(message: &Message) -> bool {
    message.method().as_deref() == Some("session/update")
}
