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
mod events;
mod framing;
mod harness;
mod hibernation;
mod inbox;
mod isolation;
mod lasting;
mod lasting_real;
mod lifecycle;
mod negotiation;
mod notices;
mod operator;
mod owners;
mod relay;
mod replay;
mod residency;
mod routes;
mod sessions;

mod settings;
mod sizes;
mod storage;
mod supervision;
mod tidy;
mod turns;
mod verbs;
mod wrappers;
