//! The forecast service: the pool with its forecasts, from the events of ingest.

use std::process::ExitCode;

use lacuna_forecast_service::run;
use lacuna_runtime::service_main;

fn main() -> ExitCode {
    service_main("forecast", run)
}
