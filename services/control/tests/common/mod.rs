//! Shared by the tests of control: the cluster and the context of control.

use std::sync::Arc;

use lacuna_control_service::{Config, Context};
use lacuna_model::ClusterId;
use lacuna_runtime::{ClusterClock, Health, Tasks, metrics::Registry};
use lacuna_testkit::{TestNats, connect};
use tokio_util::sync::CancellationToken;

pub(crate) fn cluster() -> ClusterId {
    ClusterId::new("c").unwrap()
}

/// The context that the runtime would give to control; `stop` ends it.
pub(crate) async fn context(
    nats: &TestNats,
    config: Config,
    registry: &Registry,
    stop: &CancellationToken,
) -> Context {
    Context {
        config: Arc::new(config),
        cluster: cluster(),
        bus: connect(nats, &cluster(), "control").await,
        registry: registry.clone(),
        health: Health::default(),
        clock: ClusterClock::new(),
        tasks: Tasks::new(stop.clone()),
        shutdown: stop.clone(),
    }
}
