//! A wall clock that jumps under control.

use std::time::Duration;

use lacuna_model::{TrainerSpec, Work};
use lacuna_runtime::Stopwatch;
use lacuna_runtime::clock::wall;
use lacuna_testkit::{Need, or_skip};
use lacuna_wire::msg::Totals;

use super::place::faketime;
use crate::upgrade::fleet::{Fleet, SERVICES, trainer};

const NODES: f64 = 2.0;

/// The totals once they are as they should be.
async fn until(fleet: &Fleet, what: &str, holds: impl Fn(&Totals) -> bool) -> Totals {
    let begun = Stopwatch::start();
    loop {
        let totals = fleet.totals().await;
        if holds(&totals) {
            return totals;
        }
        assert!(
            begun.seconds() < 60.0,
            "{what}: {totals:?}\n{}",
            fleet.logs()
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test]
async fn two_hours_that_never_passed_harvest_nothing() {
    let library = or_skip!(faketime().ok_or_else(|| Need::Faketime.missing("no libfaketime")));
    let dir = tempfile::tempdir().unwrap();
    let clock = dir.path().join("clock");
    let set = |text| std::fs::write(&clock, text).unwrap();
    set("+0");
    let env = [
        ("LD_PRELOAD", library.as_path()),
        ("FAKETIME_TIMESTAMP_FILE", clock.as_path()),
        ("FAKETIME_NO_CACHE", "1".as_ref()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".as_ref()),
    ];
    let mut fleet = Fleet::new().await;
    for service in SERVICES {
        let own = if service == "control" { &env[..] } else { &[] };
        fleet.start_with(service, own);
    }
    let spec = TrainerSpec {
        work: Work::UntilExit,
        ..trainer("long")
    };
    fleet.submits(spec).await;
    let begun = Stopwatch::start();
    for node in ["n1", "n2"] {
        fleet.publish_until_kept("node.idle", node).await;
    }
    let mut before = until(&fleet, "it trains", |t| t.harvested_node_s > 1.0).await;
    for (shift, ahead) in [("+7200", true), ("+0", false)] {
        set(shift);
        let is_ahead = |t: &Totals| t.now.since(wall()).as_secs_f64() > 7000.0;
        before = until(&fleet, "it trains on", |t| {
            is_ahead(t) == ahead && t.harvested_node_s > before.harvested_node_s + 1.0
        })
        .await;
        let most = NODES * begun.seconds();
        assert!(before.harvested_node_s <= most, "{most}: {before:?}");
        assert!(before.idle_node_s <= most, "{most}: {before:?}");
    }
}
