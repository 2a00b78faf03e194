//! Processes of agents: each stands under a shim, which is this binary started again before any runtime exists.
//!
//! Owns the start, the environment, the stderr tail, the end and the record of each agent. Never reads stdin or
//! stdout of one. The invariant: whatever an agent starts ends with it, and the end is proved or named (R279).
//!
//! ```text
//!  daemon ----- control (packets, `words`) -----> shim: own group, subreaper, one thread
//!    |  \                                           |
//!    |   `--- children: adopts if a shim is killed  `--> agent: leader of its own group
//!    |                                                     |  `--> whatever it starts, setsid or not
//!    `------------- stdin, stdout, stderr -----------------'
//! ```
//!
//! A start: the shim runs, gets the pipes, forks; the child waits; its identity is written down (`records`); `Go`;
//! the program runs. An end: `Term` asks the group, `Kill` or the loss of the daemon ends everything below the shim.

#[cfg(not(target_os = "linux"))]
compile_error!("acpvisor ends agents by means of subreapers and pidfds, which only Linux has");

pub mod ancestry;
mod birth;
pub mod children;
mod control;
pub mod descriptors;
pub mod environment;
mod exit;
pub mod figures;
pub mod ladder;
mod locate;
mod procfs;
pub mod records;
mod scratch;
pub mod shim;
pub mod spawn;
pub mod stderr;
mod tree;
mod watch;
mod words;

pub use children::adopt_orphans;
pub use exit::{Exit, Status};
pub use records::Records;
pub use scratch::Scratch;
pub use spawn::{Process, SpawnError, Spawned, Spec, spawn};
pub use stderr::Tail;
pub use watch::ExitWatch;
