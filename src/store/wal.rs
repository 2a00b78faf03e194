//! The log that SQLite writes commits to, as something to be synced.
//!
//! A commit survives the death of the process; after a [`sync`](Wal::sync) it and all before it survive the death of
//! the machine too (R273). Done here because SQLite can only do it together with a further commit.

use std::{
    fs::File,
    io,
    path::Path,
    time::{Duration, Instant},
};

use crate::limits::SYNC_MS_MAX;

/// What is left of the time for the sync itself.
const AHEAD_MS: u64 = 200;

/// The log beside the file.
#[derive(Debug)]
pub(super) struct Wal {
    file: File,
    /// Until the first sync: the name of the log may be new in it.
    directory: Option<File>,
    due: Option<Instant>,
}

impl Wal {
    /// The log of the store at `path`, which is open.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(beside(path, "-wal"))?;
        let directory = path.parent().map(File::open).transpose()?;
        Ok(Self { file, directory, due: None })
    }

    /// Something was committed.
    pub(super) fn written(&mut self, now: Instant) {
        self.due.get_or_insert(now + Duration::from_millis(SYNC_MS_MAX - AHEAD_MS));
    }

    /// When it must be synced at the latest, if there is anything to sync.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Waits until everything that was committed is on the disk.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        if let Some(directory) = &self.directory {
            directory.sync_all()?;
            self.directory = None;
        }
        self.due = None;
        Ok(())
    }
}

/// The file that belongs to the store at `path`, by its ending.
pub(super) fn beside(path: &Path, ending: &str) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}
