//! acpvisor: a daemon that supervises coding agents.

pub mod cli;
pub mod config;
pub mod directory;
pub mod event;
pub mod hello;
pub mod id;
pub mod ingress;
pub mod limits;
pub mod wire;
