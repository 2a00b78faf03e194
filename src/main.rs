//! The door: a shim before anything else, the command line otherwise.

fn main() {
    if let Some(code) = acpvisor::process::shim::main() {
        std::process::exit(code)
    }
}
