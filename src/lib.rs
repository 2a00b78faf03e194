//! acpvisor: a daemon that supervises coding agents.

pub mod config;
pub mod control;
pub mod directory;
pub mod id;
pub mod limits;
pub mod log;
pub mod socket;
pub mod wire;
