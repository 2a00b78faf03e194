//! Directories that are nobody else's.
//!
//! Makes what is missing with mode 0700 and refuses what others could enter; never changes a mode.

use std::{
    fs::{self, DirBuilder, Metadata},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::Path,
};

use super::claim::ClaimError;

/// The directory of the state. Its parents are made too, as the XDG specification wants it.
pub fn state(dir: &Path) -> Result<(), ClaimError> {
    private(dir, true, "see HOME, XDG_STATE_HOME, ACPVISOR_STATE_DIR")
}

/// The directory of the sockets. Its parent is the system's to make.
pub fn runtime(dir: &Path) -> Result<(), ClaimError> {
    private(dir, false, "see XDG_RUNTIME_DIR, ACPVISOR_RUNTIME_DIR")
}

fn private(dir: &Path, parents: bool, settings: &'static str) -> Result<(), ClaimError> {
    let failed = |source| ClaimError::Create { dir: dir.to_owned(), settings, source };
    match DirBuilder::new().mode(0o700).recursive(parents).create(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
        _ => {}
    }
    let entry = fs::symlink_metadata(dir).map_err(failed)?;
    let target = fs::metadata(dir).map_err(failed)?;
    let me = rustix::process::geteuid().as_raw();
    match fault(&entry, &target, me) {
        Some(why) => Err(ClaimError::Unsafe { dir: dir.to_owned(), why }),
        None => Ok(()),
    }
}

/// What is wrong with a directory, judged by its entry (which may be a link) and by what it leads to.
fn fault(entry: &Metadata, target: &Metadata, me: u32) -> Option<String> {
    let (uid, mode) = (target.uid(), target.mode() & 0o7777);
    if entry.uid() != me {
        Some(format!("belongs to uid {}, not to uid {me}", entry.uid()))
    } else if !target.is_dir() {
        Some("is no directory".to_owned())
    } else if uid != me {
        Some(format!("is a symbolic link into a directory of uid {uid}, not of uid {me}"))
    } else if mode & 0o077 != 0 {
        Some(format!("is open to others (mode {mode:04o}); chmod 700 it"))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R255: a directory or a link of somebody else is refused.
    #[test]
    fn what_belongs_to_somebody_else_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("dir");
        state(&dir).unwrap();
        let mine = fs::metadata(&dir).unwrap();
        assert_eq!(fault(&mine, &mine, mine.uid()), None);
        let said = fault(&mine, &mine, mine.uid() + 1).unwrap();
        assert_eq!(said, format!("belongs to uid {}, not to uid {}", mine.uid(), mine.uid() + 1));
    }
}
