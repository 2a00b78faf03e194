//! acpvisor: a daemon that supervises coding agents.

pub mod config;
pub mod demo;
pub mod directory;
pub mod id;
pub mod limits;
pub mod wire;
