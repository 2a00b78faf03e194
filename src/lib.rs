//! acpvisor: a daemon that supervises coding agents.

pub mod berth;
pub mod cli;
pub mod config;
pub mod control;
pub mod daemon;
pub mod demo;
pub mod directory;
pub mod egress;
pub mod event;
pub mod hello;
pub mod host;
pub mod id;
pub mod ingress;
pub mod limits;
pub mod log;
pub mod peer;
pub mod process;
pub mod root;
pub mod residency;
pub mod session;
pub mod socket;
pub mod store;
pub mod supervisor;
pub mod tomb;
pub mod wire;
