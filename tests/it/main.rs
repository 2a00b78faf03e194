//! Everything that can be seen from outside: the binary as a daemon, between a scripted host and a scripted
//! peer.
//!
//! `sandbox` keeps one daemon and its files, `host` and `peer` are the two ends, `scene` is all three ready
//! to play. Blocking calls with deadlines only, so that a test reads from top to bottom.

#![allow(clippy::unwrap_used)]

mod host;
mod line;
mod peer;
mod process;
mod recording;
mod sandbox;
mod scene;
mod source;

mod backpressure;
mod bridges;
mod commands;
mod connections;
mod correlation;
mod coverage;
mod deaf;
mod demo;
mod environment;
mod framing;
mod harness;
mod isolation;
mod lifecycle;
mod negotiation;
mod notices;
mod operator;
mod relay;
mod replay;
mod residency;
mod routes;
mod sessions;
mod supervision;
mod tidy;
mod turns;
mod wrappers;
