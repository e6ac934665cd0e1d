//! The service and the bus beside it.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use lacuna_forecast_service::{Config, Sections, run};
use lacuna_model::{ClusterId, NodeEvent, Timestamp};
use lacuna_runtime::{Bus, Follow, NoArgs, Received};
use lacuna_testkit::{Server, Service};
use lacuna_wire::address;
use lacuna_wire::msg::{Clock, Pace, PoolState};

/// The longest wait for a pool.
const LIMIT: Duration = Duration::from_secs(30);

/// Starts the service.
pub(crate) async fn start(nats: &Server, config: Config) -> Service<Sections> {
    Service::start(nats, &cluster(), "forecast", config, |context| {
        run(context, NoArgs {})
    })
    .await
}

pub(crate) fn cluster() -> ClusterId {
    ClusterId::new("t").unwrap()
}

pub(crate) async fn send(bus: &Bus, event: &NodeEvent, correlation: &str) {
    let subject = address::event(&cluster());
    bus.store(&subject, event, correlation).await.unwrap();
}

pub(crate) async fn tick(bus: &Bus, clock: Clock) {
    bus.store(&address::clock(&cluster()), &clock, "")
        .await
        .unwrap();
}

pub(crate) fn lock_step(step: u64, now: i64, events_upto: u64, complete: bool) -> Clock {
    Clock {
        now: Timestamp::from_unix(now),
        pace: Pace::LockStep,
        step,
        events_upto,
        complete,
        ended: false,
        recording: String::new(),
    }
}

/// The time of a trace, which hardly moves.
pub(crate) fn slow(now: i64) -> Clock {
    Clock {
        pace: Pace::Scaled {
            rate: 1e-6,
            wall_at: lacuna_runtime::clock::wall(),
        },
        ..lock_step(0, now, 0, false)
    }
}

/// The first pool for which `wanted` holds.
pub(crate) async fn pool(
    pools: &mut Follow<PoolState>,
    wanted: impl Fn(&PoolState) -> bool,
) -> Received<PoolState> {
    let found = async {
        loop {
            let pool = pools.next().await.unwrap();
            if wanted(&pool.message) {
                return pool;
            }
        }
    };
    tokio::time::timeout(LIMIT, found).await.unwrap()
}

pub(crate) fn names(state: &PoolState) -> Vec<&str> {
    state
        .pool
        .holes
        .iter()
        .map(|pooled| pooled.hole.node.as_str())
        .collect()
}
