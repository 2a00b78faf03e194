//! A daemon that is killed at any moment: what it acknowledged is there, once (R186, R273).

use std::{
    collections::BTreeMap,
    env,
    io::{BufRead, BufReader, Write as _},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::SystemTime,
};

use super::*;

/// Where a process that is to be killed finds its directory.
const PRETEND: &str = "ACPVISOR_TEST_STORE";
/// How often it is killed, unless the time is over before.
const ROUNDS: usize = 25;
const TIME_MAX: Duration = Duration::from_millis(2_500);
/// It is killed behind so many acknowledgements at most.
const ACKS_MAX: u64 = 400;

/// What was acknowledged: of each session the number of its last row and of its last entry.
type Acknowledged = BTreeMap<SessionId, (Option<u64>, Option<u64>)>;

/// R273: killed under load at any moment, 25 times over one file.
#[test]
fn what_was_acknowledged_survives_every_kill_once() {
    let directory = directory();
    let mut acknowledged = Acknowledged::new();
    let due = Instant::now() + TIME_MAX;
    let mut chance = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    for _ in (0..ROUNDS).take_while(|_| Instant::now() < due) {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        run_and_kill(directory.path(), 1 + (chance >> 33) % ACKS_MAX, &mut acknowledged);
    }
    assert!(acknowledged.values().any(|(rows, _)| rows.is_some()));
    let store = Running::start(directory.path());
    acknowledged.iter().for_each(|(session, last)| check(&store, session, *last));
    store.stop();
    let opened = open(directory.path()).unwrap();
    let checked: String =
        opened.connection.pragma_query_value(None, "integrity_check", |row| row.get(0)).unwrap();
    assert_eq!(checked, "ok");
}

fn run_and_kill(directory: &Path, acks: u64, acknowledged: &mut Acknowledged) {
    let mut child = Killed(
        Command::new(env::current_exe().unwrap())
            .args(["--ignored", "--exact", "store::tests::crash::writes_until_it_is_killed", "--nocapture"])
            .env(PRETEND, directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut seen = 0;
    // what was said before the kill is read to the end
    for line in BufReader::new(child.0.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        let ["ack", session, what, number] = line.split(' ').collect::<Vec<_>>()[..] else { continue };
        let last = acknowledged.entry(SessionId::parse(session).unwrap()).or_default();
        let number = Some(number.parse().unwrap());
        if what == "row" {
            last.0 = number
        } else {
            last.1 = number
        }
        seen += 1;
        if seen == acks {
            child.0.kill().unwrap();
        }
    }
    assert!(seen >= acks, "it ended by itself");
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Rows and entries are there without a gap up to what was acknowledged, and none of them twice.
fn check(store: &Running, session: &SessionId, (row, entry): (Option<u64>, Option<u64>)) {
    let text = store.text(session);
    let rows: Vec<u64> = text.lines().map(|line| line.parse().unwrap()).collect();
    assert!(rows.iter().copied().eq(0..rows.len() as u64), "{session}: {rows:?}");
    assert!(rows.last().copied() >= row, "{session}: {row:?} was acknowledged, {:?} is there", rows.last());
    let entries = store.reader.inbox(session).unwrap();
    let entries: Vec<u64> = entries.iter().map(|entry| entry.id.parse().unwrap()).collect();
    assert!(entries.iter().copied().eq(0..entries.len() as u64), "{session}: {entries:?}");
    assert!(entries.last().copied() >= entry, "{session}: {entry:?}, {:?}", entries.last());
}

/// Three sessions at once, most rows unsynced, each tenth with an entry that is.
#[test]
#[ignore = "no test: the process that another kills"]
fn writes_until_it_is_killed() {
    let Some(directory) = env::var_os(PRETEND).map(PathBuf::from) else { return };
    let store = Running::start(&directory);
    let sessions = [(); 3].map(|()| store.session());
    for number in 0..u64::MAX {
        for session in &sessions {
            let line = Bytes::from(number.to_string());
            let row = store_and_tell(&store, session, Op::Frames(Kind::Peer, vec![line]), "row", number);
            let entry = (number % 10 == 0 && number < 1_000).then(|| {
                let number = number / 10;
                let entry = inbox::entry(&number.to_string(), "load", "x");
                store_and_tell(&store, session, Op::Enqueue(entry), "entry", number)
            });
            // some rows are on their way while others are written
            if number % 8 == 0 {
                row.recv().unwrap();
                if let Some(entry) = entry {
                    entry.recv().unwrap();
                }
            }
        }
    }
}

fn store_and_tell(
    store: &Running,
    session: &SessionId,
    op: Op,
    what: &'static str,
    number: u64,
) -> mpsc::Receiver<()> {
    let (told, done) = mpsc::channel();
    let name = session.clone();
    let ack = Ack::new(move |outcome| {
        outcome.unwrap();
        let _ = writeln!(std::io::stdout(), "ack {name} {what} {number}");
        let _ = told.send(());
    });
    let sync = what == "entry";
    store.queue.send(Write { sync, ack: Some(ack), ..unacknowledged(session, [op]) }).unwrap();
    done
}
