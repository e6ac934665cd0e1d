//! Shared by the tests of control.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use lacuna_control_service::{Config, Sections, run};
use lacuna_model::ClusterId;
use lacuna_runtime::NoArgs;
use lacuna_testkit::{Server, Service};

pub(crate) fn cluster() -> ClusterId {
    ClusterId::new("c").unwrap()
}

/// Starts control.
pub(crate) async fn start(nats: &Server, config: Config) -> Service<Sections> {
    Service::start(nats, &cluster(), "control", config, |context| {
        run(context, NoArgs {})
    })
    .await
}
