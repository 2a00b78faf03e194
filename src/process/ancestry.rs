//! Whether a process lives below one of our shims, which is how an agent that calls its own daemon is known (R255).

use super::procfs;

/// A chain of parents longer than this is a table that changes faster than it can be read.
const STEPS_MAX: usize = 1_000;

/// Walks from `pid` upwards; true when one of the shims is met. A process that is gone lives nowhere.
pub fn lives_under(pid: i32, shims: &[i32]) -> bool {
    let mut at = pid;
    for _ in 0..STEPS_MAX {
        if shims.contains(&at) {
            return true;
        }
        match procfs::stat(at) {
            Some(stat) if stat.parent > 0 => at = stat.parent,
            _ => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R255: a process below a shim is told from one that is not.
    #[test]
    fn a_process_lives_under_itself_and_its_parents_alone() {
        let me = std::process::id() as i32;
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep starts");
        let pid = child.id() as i32;
        assert!(lives_under(pid, &[pid]) && lives_under(pid, &[me]) && lives_under(me, &[i32::MAX, me]));
        assert!(!lives_under(me, &[pid]) && !lives_under(pid, &[]));
        child.kill().and_then(|()| child.wait()).expect("it can be killed");
        assert!(!lives_under(pid, &[me]));
    }
}
