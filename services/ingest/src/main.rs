//! The service program `lacuna-ingest`.

use std::process::ExitCode;

fn main() -> ExitCode {
    lacuna_runtime::service_main("ingest", lacuna_ingest_service::run)
}
