//! Faults on demand, so that tests can see what a panic costs (R239). Only debug builds have any.
//!
//! `ACPVISOR_FAULT=panic-KIND-on=TEXT`, read once: the actor of that kind (`host`, `session`, `peer`) that takes a
//! line which holds TEXT panics.

#[cfg(debug_assertions)]
mod armed {
    use std::sync::LazyLock;

    /// Kind and text.
    static FAULT: LazyLock<Option<(String, String)>> = LazyLock::new(|| {
        let order = std::env::var("ACPVISOR_FAULT").ok()?;
        let (kind, text) = order.strip_prefix("panic-")?.split_once("-on=")?;
        (!text.is_empty()).then(|| (kind.to_owned(), text.to_owned()))
    });

    /// Panics when the fault of this process is of that kind and its text stands in the line.
    pub fn strike(kind: &str, line: &[u8]) {
        if let Some((of, text)) = &*FAULT
            && of == kind
            && memchr::memmem::find(line, text.as_bytes()).is_some()
        {
            panic!("fault on demand in a {kind}");
        }
    }
}

#[cfg(not(debug_assertions))]
mod armed {
    /// Nothing: a release has no faults on demand.
    pub fn strike(_: &str, _: &[u8]) {}
}

pub use armed::strike;
