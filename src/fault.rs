//! Faults on demand, so that tests can see what a panic or a bad disk costs (R239, R274). Only debug builds have any.
//!
//! `ACPVISOR_FAULT`, read once, is one of these. `panic-KIND-on=TEXT`: the actor of that kind (`host`, `session`,
//! `peer`) that takes a line which holds TEXT panics. `slow-commit=MS`: each commit of the store takes so much longer.
//! `fail-commit=N`: the N-th commit of the store and all behind it fail. `full-while=PATH`: while there is a file of that
//! name, no commit finds space. `die-at=POINT`: the process kills itself when it comes to that point.

#[cfg(debug_assertions)]
mod armed {
    use std::{
        io,
        path::PathBuf,
        sync::{
            LazyLock,
            atomic::{AtomicU64, Ordering},
        },
        time::Duration,
    };

    static FAULT: LazyLock<Option<Fault>> =
        LazyLock::new(|| Fault::parse(&std::env::var("ACPVISOR_FAULT").ok()?));
    static COMMITS: AtomicU64 = AtomicU64::new(0);

    enum Fault {
        /// Kind and text.
        Panic(String, String),
        Slow(Duration),
        Fail(u64),
        /// Where.
        Die(String),
        Full(PathBuf),
    }

    impl Fault {
        fn parse(order: &str) -> Option<Self> {
            if let Some(ms) = order.strip_prefix("slow-commit=") {
                return Some(Self::Slow(Duration::from_millis(ms.parse().ok()?)));
            }
            if let Some(number) = order.strip_prefix("fail-commit=") {
                return Some(Self::Fail(number.parse().ok()?));
            }
            if let Some(point) = order.strip_prefix("die-at=") {
                return Some(Self::Die(point.to_owned()));
            }
            if let Some(path) = order.strip_prefix("full-while=") {
                return Some(Self::Full(path.into()));
            }
            let (kind, text) = order.strip_prefix("panic-")?.split_once("-on=")?;
            (!text.is_empty()).then(|| Self::Panic(kind.to_owned(), text.to_owned()))
        }
    }

    /// Panics when the fault of this process is of that kind and its text stands in the line.
    pub fn strike(kind: &str, line: &[u8]) {
        if let Some(Fault::Panic(of, text)) = &*FAULT
            && of == kind
            && memchr::memmem::find(line, text.as_bytes()).is_some()
        {
            panic!("fault on demand in a {kind}");
        }
    }

    /// Holds a commit up, or fails it, when that is the fault of this process.
    pub fn commit() -> io::Result<()> {
        let number = COMMITS.fetch_add(1, Ordering::Relaxed) + 1;
        match &*FAULT {
            Some(Fault::Slow(pause)) => std::thread::sleep(*pause),
            Some(Fault::Fail(first)) if number >= *first => {
                return Err(io::Error::other("fault on demand in a commit"));
            }
            Some(Fault::Full(path)) if path.exists() => return Err(io::ErrorKind::StorageFull.into()),
            _ => {}
        }
        Ok(())
    }

    /// Ends the process as a kill does, when that is the fault of this process.
    pub fn pass(point: &str) {
        if let Some(Fault::Die(at)) = &*FAULT
            && at == point
        {
            use rustix::process::{Signal, getpid, kill_process};
            let _ = kill_process(getpid(), Signal::KILL);
        }
    }
}

#[cfg(not(debug_assertions))]
mod armed {
    /// Nothing: a release has no faults on demand.
    pub fn strike(_: &str, _: &[u8]) {}

    /// Nothing, likewise.
    pub fn commit() -> std::io::Result<()> {
        Ok(())
    }

    /// Nothing, likewise.
    pub fn pass(_: &str) {}
}

pub use armed::{commit, pass, strike};
