//! The door: a shim before anything else, the command line otherwise.

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(code) = acpvisor::process::shim::main() {
        std::process::exit(code)
    }
    acpvisor::cli::main()
}
