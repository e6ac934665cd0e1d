//! Helpers of the tests that run `lacuna up`.

use std::path::Path;

use lacuna_testkit::{Missing, Need};

/// Checks that all programs of `lacuna up` are built.
pub(crate) fn all_built() -> Result<(), Missing> {
    let lacuna = Path::new(env!("CARGO_BIN_EXE_lacuna"));
    for service in ["ingest", "forecast", "planner", "control", "agent"] {
        let built = lacuna.with_file_name(format!("lacuna-{service}")).is_file();
        Need::Services.given(built, format!("lacuna-{service} is not built"))?;
    }
    Ok(())
}
