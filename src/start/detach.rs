//! Cutting a daemon loose from whoever starts it: own session, no terminal, not in the starter's process tree.
//!
//! Editors end their children by group, by terminal or by walking the tree of parents; none of these reaches a
//! process whose parent is gone. Between starter and daemon stands a waiter, which hands on the daemon's exit code
//! while the starter cares, and is killed when it no longer does.
//!
//! ```text
//! starter -> waiter (new session) -> daemon        starter    (waiter killed)    init -> daemon
//! ```

use std::{io, os::unix::process::CommandExt, process::Command};

/// Makes the command's process the grandchild of this one; the [`std::process::Child`] will be the waiter.
pub(super) fn detach(command: &mut Command) {
    // SAFETY: the closure runs between fork and exec and makes system calls only: no allocation, no lock.
    unsafe { command.pre_exec(split) };
}

fn split() -> io::Result<()> {
    // SAFETY: plain system calls without pointers.
    unsafe {
        if libc::setsid() < 0 {
            return Err(io::Error::last_os_error());
        }
        match libc::fork() {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                // descriptors that the editor leaked to us must not live as long as the daemon
                close_from(3, libc::CLOSE_RANGE_CLOEXEC);
                Ok(())
            }
            daemon => wait_for(daemon),
        }
    }
}

/// The waiter's whole life. It holds no descriptor, so that the starter learns of the daemon's exec.
///
/// # Safety
/// To be called after fork only: it never returns to the caller's stack.
unsafe fn wait_for(daemon: libc::pid_t) -> ! {
    let mut status = 0;
    // SAFETY: system calls only; `status` is alive across the wait.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        close_from(0, 0);
        while libc::waitpid(daemon, &raw mut status, 0) < 0 {
            if *libc::__errno_location() != libc::EINTR {
                libc::_exit(1);
            }
        }
        libc::_exit(if libc::WIFEXITED(status) {
            libc::WEXITSTATUS(status)
        } else {
            128 + libc::WTERMSIG(status)
        })
    }
}

/// # Safety
/// Without `CLOSE_RANGE_CLOEXEC` no descriptor may be used afterwards.
unsafe fn close_from(first: libc::c_uint, flags: libc::c_uint) {
    // SAFETY: a system call without pointers.
    unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, flags) };
}
