//! The door: hands over to the command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    acpvisor::cli::main()
}
