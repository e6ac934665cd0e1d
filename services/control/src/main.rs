//! Admits trainers, holds leases, and makes the cluster match the plan.

use std::process::ExitCode;

fn main() -> ExitCode {
    lacuna_runtime::service_main("control", lacuna_control_service::run)
}
