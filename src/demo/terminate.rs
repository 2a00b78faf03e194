//! What signals do to this process: SIGTERM, when it shall not simply end it, and SIGSTOP.

use std::thread;

/// From now on SIGTERM does nothing; children inherit that, as those of a stubborn wrapper do.
pub(super) fn ignore() {
    // SAFETY: SIG_IGN is a valid disposition and no handler runs.
    unsafe { libc::signal(libc::SIGTERM, libc::SIG_IGN) };
}

/// Calls `told` for every SIGTERM, which then does nothing else. Call it before any thread starts: the mask
/// that keeps the signal for the waiting thread is inherited.
pub(super) fn tell(told: impl Fn() + Send + 'static) {
    // SAFETY: an all-zero sigset_t is only ever passed to sigemptyset, which initialises it.
    let mut signals: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set lives on this stack; the three calls read and write nothing else.
    unsafe {
        libc::sigemptyset(&raw mut signals);
        libc::sigaddset(&raw mut signals, libc::SIGTERM);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const signals, std::ptr::null_mut());
    }
    thread::spawn(move || {
        let mut signal = 0;
        // SAFETY: both pointers are to live locals of this thread.
        while unsafe { libc::sigwait(&raw const signals, &raw mut signal) } == 0 {
            told();
        }
    });
}

/// Stops this process. The signal goes to the calling thread, which so does nothing more before it is continued;
/// one to the whole process could be taken by another thread while this one goes on.
pub(super) fn stop_here() {
    // SAFETY: no handler can be installed for SIGSTOP.
    unsafe { libc::raise(libc::SIGSTOP) };
}
