//! The process `lacuna-planner`.

use std::process::ExitCode;

fn main() -> ExitCode {
    lacuna_runtime::service_main("planner", lacuna_planner_service::run)
}
