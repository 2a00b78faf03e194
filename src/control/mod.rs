//! The operator's side: what the daemon says about itself and what it is told to do, over `control.sock` (R257).
//!
//! Owns the listener, a connection an operator, and nothing else. Reads the cards that actors publish and the store
//! behind its writer, never asks an actor; passes orders on as words.

mod conversation;
mod events;
mod export;
mod inbox;
mod listener;
pub mod methods;
mod operator;
mod orders;
mod outlet;
mod revival;
mod rpc;
mod saved;
mod service;
mod view;

#[cfg(test)]
mod tests;

pub use listener::{Arguments, Listener, Message};
