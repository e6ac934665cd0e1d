//! The gateway: the operator's page.

use std::process::ExitCode;

use lacuna_gateway_service::run;
use lacuna_runtime::service_main;

fn main() -> ExitCode {
    service_main("gateway", run)
}
