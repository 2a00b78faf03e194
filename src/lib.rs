//! acpvisor: a daemon that supervises coding agents.

pub mod config;
pub mod directory;
pub mod egress;
pub mod id;
pub mod ingress;
pub mod limits;
pub mod process;
pub mod wire;
