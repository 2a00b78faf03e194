//! Who is alive, on disk, for the next start of the daemon (R210, PROC-12).
//!
//! Owns `peers/` in the state directory: one small file per live shim, written before its agent's program runs and
//! removed when its end is proved. Only the daemon that holds the lock of the state directory may sweep. The
//! invariant: only a process whose boot, number and start time all match is ever signalled.

use std::{
    collections::BTreeSet,
    fs::{self, DirBuilder, OpenOptions, Permissions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use super::{
    procfs::{self, Identity},
    tree,
};

/// Ending what the former daemon left may take this long, all together.
const SWEEP_MAX: Duration = Duration::from_secs(5);
/// Pause between two rounds of ending.
const PAUSE: Duration = Duration::from_millis(10);
const BROKEN: &str = "broken";

/// The directory of records. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Records {
    directory: Arc<Path>,
    boot: Arc<str>,
}

/// One live shim and its agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    boot: Arc<str>,
    session: String,
    shim: Identity,
    agent: Identity,
}

/// What a sweep found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reaped {
    /// Processes of a former daemon, now gone.
    Ended {
        /// Whose they were.
        session: String,
        /// The agent's number.
        agent: i32,
    },
    /// Processes of a former daemon that would not go; the record stays.
    Unproved {
        /// Whose they are.
        session: String,
        /// The agent's number.
        agent: i32,
        /// What is left.
        why: String,
    },
    /// A record that cannot be read; it was moved aside and nobody was signalled for it.
    Broken {
        /// Where it lies now.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

/// A record on disk. It stays until [`remove`](Entry::remove) says that the end is proved.
#[derive(Debug)]
pub(super) struct Entry(PathBuf);

impl Entry {
    /// The end is proved. A file that cannot be removed is found stale by the next sweep.
    pub(super) fn remove(self) {
        let _ = fs::remove_file(self.0);
    }
}

impl Records {
    /// Opens the directory, which is made if need be and is the owner's alone.
    pub fn new(directory: impl Into<PathBuf>) -> io::Result<Self> {
        let directory: PathBuf = directory.into();
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        fs::set_permissions(&directory, Permissions::from_mode(0o700))?;
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        Ok(Self { directory: directory.into(), boot: boot.trim_end().into() })
    }

    /// Writes down who is about to live. Whole or not at all.
    pub(super) fn write(&self, session: &str, shim: Identity, agent: Identity) -> io::Result<Entry> {
        let record = Record { boot: self.boot.clone(), session: session.to_owned(), shim, agent };
        let path = self.directory.join(format!("{}-{}.json", shim.pid, shim.start));
        let draft = path.with_extension("draft");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        file.write_all(&serde_json::to_vec(&record)?)?;
        fs::rename(&draft, &path)?;
        Ok(Entry(path))
    }

    /// Ends what a former daemon left behind. Blocks for 5 s at most; to be called before anything is spawned.
    pub fn sweep(&self) -> Vec<Reaped> {
        let due = Instant::now() + SWEEP_MAX;
        self.files().iter().filter_map(|file| self.settle(file, due)).collect()
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        files.retain(|file| file.extension().is_none_or(|extension| extension != BROKEN));
        files.sort();
        files
    }

    fn settle(&self, file: &Path, due: Instant) -> Option<Reaped> {
        if file.extension().is_some_and(|extension| extension == "draft") {
            // its program never ran: the record comes first
            let _ = fs::remove_file(file);
            return None;
        }
        match read(file) {
            Ok(record) => self.end(file, record, due),
            Err(error) => Some(move_aside(file, &error)),
        }
    }

    fn end(&self, file: &Path, record: Record, due: Instant) -> Option<Reaped> {
        let found = record.boot == self.boot && (record.shim.is_alive() || record.agent.is_alive());
        let left = if found { end(&record, due) } else { Vec::new() };
        let (session, agent) = (record.session, record.agent.pid);
        if !left.is_empty() {
            return Some(Reaped::Unproved {
                session,
                agent,
                why: format!("processes {left:?} are still there"),
            });
        }
        let _ = fs::remove_file(file);
        found.then_some(Reaped::Ended { session, agent })
    }
}

fn read(file: &Path) -> io::Result<Record> {
    Ok(serde_json::from_slice(&fs::read(file)?)?)
}

fn move_aside(file: &Path, error: &io::Error) -> Reaped {
    let aside = file.with_extension(BROKEN);
    let moved = fs::rename(file, &aside);
    let why = error.to_string();
    match moved {
        Ok(()) => Reaped::Broken { file: aside, why },
        Err(failed) => {
            Reaped::Broken { file: file.to_owned(), why: format!("{why}; it stays here: {failed}") }
        }
    }
}

/// Ends everything a record leads to: who is left when the time is over.
fn end(record: &Record, due: Instant) -> Vec<i32> {
    let mut seen = BTreeSet::new();
    loop {
        seen.extend(remains(record));
        seen.retain(|process: &Identity| process.is_alive());
        if seen.is_empty() || Instant::now() >= due {
            return seen.into_iter().map(|process| process.pid).collect();
        }
        // the number of the group is held as long as its leader is there
        let group = record.agent.is_alive().then_some(record.agent.pid);
        let tops = seen.iter().copied().filter(|process| process.is_alive());
        tree::kill(group, due, || tops.clone().chain(remains(record)).map(|process| process.pid).collect());
        thread::sleep(PAUSE);
    }
}

/// What is there now. The shim comes last, because what is below it stays below it only while it lives.
fn remains(record: &Record) -> BTreeSet<Identity> {
    let mut found = BTreeSet::new();
    if record.agent.is_alive() {
        found.extend(procfs::group(record.agent.pid));
        found.extend(procfs::below(record.agent.pid));
    }
    if record.shim.is_alive() {
        found.extend(procfs::below(record.shim.pid));
    }
    found.retain(|process| process.is_alive());
    if found.is_empty() && record.shim.is_alive() {
        found.insert(record.shim);
    }
    found
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::process::CommandExt,
        process::{Child, Command},
    };

    use super::*;

    fn sleeper(script: &str) -> (Child, Identity) {
        let child = Command::new("sh").args(["-c", script]).process_group(0).spawn().expect("sh starts");
        let identity = Identity::of(child.id() as i32).expect("it is there");
        (child, identity)
    }

    fn records() -> (tempfile::TempDir, Records) {
        let directory = tempfile::tempdir().expect("made");
        let records = Records::new(directory.path().join("state/peers")).expect("opened");
        (directory, records)
    }

    const NOBODY: Identity = Identity { pid: 1, start: u64::MAX };

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("there").permissions().mode() & 0o777
    }

    /// PROC-12: a record is the owner's alone and goes with the proof.
    #[test]
    fn a_record_is_private_and_goes_when_the_end_is_proved() {
        let (_directory, records) = records();
        let entry = records.write("s-1", NOBODY, NOBODY).expect("written");
        assert_eq!((mode(&records.directory), mode(&entry.0)), (0o700, 0o600));
        assert_eq!(read(&entry.0).expect("read").session, "s-1");
        entry.remove();
        assert_eq!(records.files(), Vec::<PathBuf>::new());
    }

    /// PROC-12: what is left of a former daemon is ended, the group of the agent included.
    #[test]
    fn what_a_former_daemon_left_is_ended() {
        let (_directory, records) = records();
        let (mut agent, identity) = sleeper("trap '' TERM; sleep 70 & setsid sleep 70 & wait");
        let _entry = records.write("s-1", NOBODY, identity).expect("written");
        let reaper = thread::spawn(move || agent.wait());
        assert_eq!(records.sweep(), [Reaped::Ended { session: "s-1".to_owned(), agent: identity.pid }]);
        assert!(!reaper.join().expect("joined").expect("reaped").success());
        assert!(!procfs::group(identity.pid).into_iter().any(Identity::is_alive));
        assert_eq!(records.sweep(), []);
    }

    /// PROC-12: a number that belongs to somebody else by now is never signalled.
    #[test]
    fn a_recycled_number_is_never_signalled() {
        let (_directory, records) = records();
        let (mut stranger, identity) = sleeper("sleep 70");
        let former = Identity { start: identity.start - 1, ..identity };
        let _entry = records.write("s-1", former, former).expect("written");
        assert_eq!(records.sweep(), []);
        assert_eq!(records.files(), Vec::<PathBuf>::new());
        assert!(identity.is_alive());
        stranger.kill().and_then(|()| stranger.wait()).expect("it can be killed");
    }

    /// PROC-12: after a reboot every number is a stranger's.
    #[test]
    fn a_record_of_another_boot_is_forgotten() {
        let (_directory, records) = records();
        let (mut stranger, identity) = sleeper("sleep 70");
        let before = Records { boot: "another boot".into(), ..records.clone() };
        let _entry = before.write("s-1", identity, identity).expect("written");
        assert_eq!(records.sweep(), []);
        assert!(identity.is_alive());
        stranger.kill().and_then(|()| stranger.wait()).expect("it can be killed");
    }

    #[test]
    fn a_broken_record_is_moved_aside_with_a_reason() {
        let (_directory, records) = records();
        fs::write(records.directory.join("7-7.json"), "{\"boot\":").expect("written");
        fs::write(records.directory.join("8-8.draft"), "{").expect("written");
        let aside = records.directory.join("7-7.broken");
        let reaped = records.sweep();
        assert!(
            matches!(&reaped[..], [Reaped::Broken { file, why }] if *file == aside && why.contains("EOF")),
            "{reaped:?}"
        );
        assert!(aside.exists());
        assert_eq!(records.sweep(), []);
    }
}
