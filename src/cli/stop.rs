//! `acpvisor stop`: asks the daemon to end and waits until it has.

use std::{
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use serde_json::json;

use super::{
    Failure, Globals,
    operator::{Operator, OperatorError},
    print,
};
use crate::{limits::STOP_HARD_MS_MAX, start::StartError};

/// The daemon ends itself within its own bound; the rest is for a busy machine.
const GONE_MAX: Duration = Duration::from_millis(STOP_HARD_MS_MAX + 3_000);
const PAUSE: Duration = Duration::from_millis(20);

/// Arguments of `stop`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

impl Args {
    pub fn run(self, globals: &Globals) -> Result<ExitCode, Failure> {
        let paths = globals.paths()?;
        let mut operator = Operator::connect(&paths)?;
        match operator.call("shutdown", &json!({})) {
            // it may be gone before its answer is
            Ok(_) | Err(OperatorError::Lost { .. }) => {}
            Err(refused) => return Err(refused.into()),
        }
        let until = Instant::now() + GONE_MAX;
        let closed = operator.wait_for_end(until);
        while closed && Instant::now() < until {
            if let Err(OperatorError::Start(StartError::NotRunning { .. })) = Operator::connect(&paths) {
                print("stopped\n")?;
                return Ok(ExitCode::SUCCESS);
            }
            thread::sleep(PAUSE);
        }
        Err(Failure::StillThere)
    }
}
