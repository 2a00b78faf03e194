//! The signals that end a bridge, taken by a thread, so that they never cut a line in two.
//!
//! Owns the process's signal mask from the call on; children get an empty one from the standard library.

use std::{io, mem::MaybeUninit, ptr};

/// Editors end their agents with the first two (R252), terminals with the last.
const SIGNALS: [libc::c_int; 3] = [libc::SIGTERM, libc::SIGHUP, libc::SIGINT];

/// Signals that are blocked and can be waited for.
pub(super) struct Signals(libc::sigset_t);

impl Signals {
    /// Blocks them in this thread and in all that it starts from here on.
    pub(super) fn block() -> io::Result<Self> {
        let mut set = MaybeUninit::uninit();
        // SAFETY: sigemptyset initialises the set before anything reads it.
        let set = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in SIGNALS {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            set.assume_init()
        };
        // SAFETY: the set is initialised, and the old mask is not asked for.
        match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) } {
            0 => Ok(Self(set)),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// Waits for the next one.
    pub(super) fn wait(&self) -> i32 {
        let mut signal = 0;
        // SAFETY: set and signal are alive across the call.
        while unsafe { libc::sigwait(&raw const self.0, &raw mut signal) } != 0 {}
        signal
    }
}
