//! How many descriptors: the daemon takes what the machine allows, its agents what it was given (RES-01).

use std::sync::OnceLock;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};

/// What this process was given, before it took more.
static GIVEN: OnceLock<Option<u64>> = OnceLock::new();

/// Takes all that the hard limit allows. To be called once, when the daemon starts.
pub fn raise() {
    let limit = getrlimit(Resource::Nofile);
    let _ = GIVEN.set(limit.current);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Gives an agent the soft limit that the daemon was given: many programs close or poll all they may have.
pub(super) fn restore(pid: i32) {
    let (Some(given), Some(pid)) = (GIVEN.get(), Pid::from_raw(pid)) else { return };
    let maximum = getrlimit(Resource::Nofile).maximum;
    let _ = prlimit(Some(pid), Resource::Nofile, Rlimit { current: *given, maximum });
}
