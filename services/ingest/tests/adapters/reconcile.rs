//! Observations, hooks and restarts in any order, by seeded random schedules.

use std::collections::BTreeSet;

use lacuna_ingest_service::ledger::Ledger;
use lacuna_model::{EventKind, NodeEvent, NodeId, Span, Timestamp};
use lacuna_pool::{PoolKeeper, UnknownNodes};
use lacuna_scheduler::NodeStatus;
use lacuna_wire::External;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const NODES: usize = 8;

fn node(n: usize) -> NodeId {
    NodeId::new(format!("n{n}")).unwrap()
}

fn node_status(rng: &mut StdRng, at: Timestamp) -> NodeStatus {
    match rng.random_range(0..5) {
        0 | 1 => NodeStatus::Hole,
        2 => NodeStatus::Wanted { since: at },
        3 => NodeStatus::Taken,
        _ => NodeStatus::Unusable {
            reason: "fan".to_owned(),
        },
    }
}

fn ledger() -> Ledger {
    Ledger::new(0, UnknownNodes::Accept, 100, Span::from_secs(300))
}

/// An event of a hook, with a time up to ten seconds before or after `now`.
fn hook(rng: &mut StdRng, now: i64) -> External {
    let node = node(rng.random_range(0..NODES));
    External {
        kind: match rng.random_range(0..3) {
            0 => EventKind::NodeIdle { node },
            1 => EventKind::NodeBusy { node },
            _ => EventKind::NodeDown {
                node,
                reason: String::new(),
            },
        },
        at: Some(Timestamp::from_unix(now + rng.random_range(-10..=10))),
        id: None,
        source: None,
    }
}

/// An observation that is newer than all earlier events sets the pool, also for consumers. Its
/// repetition changes nothing.
#[test]
fn a_newer_observation_sets_the_pool_and_an_older_one_changes_nothing_newer() {
    for seed in 0..200 {
        println!("seed {seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        let mut ledger = ledger();
        let mut consumer = PoolKeeper::new(UnknownNodes::Accept);
        let mut events: Vec<NodeEvent> = Vec::new();
        let mut now = 1_700_000_000;
        for _ in 0..60 {
            now += rng.random_range(1..30);
            match rng.random_range(0..10) {
                0..4 => {
                    let event = hook(&mut rng, now);
                    events.extend(
                        ledger
                            .external(&event, Timestamp::from_unix(now))
                            .unwrap_or_default(),
                    );
                }
                // A slow answer is of an earlier moment.
                4..9 => {
                    let at = Timestamp::from_unix(now - rng.random_range(0..15));
                    let seen: Vec<(NodeId, NodeStatus)> = (0..NODES)
                        .filter_map(|n| {
                            let listed = rng.random_bool(0.8);
                            listed.then(|| (node(n), node_status(&mut rng, at)))
                        })
                        .collect();
                    let newer: BTreeSet<NodeId> = events
                        .iter()
                        .filter(|e| e.at > at)
                        .filter_map(|e| match &e.kind {
                            EventKind::NodeIdle { node }
                            | EventKind::NodeBusy { node }
                            | EventKind::NodeWanted { node, .. }
                            | EventKind::NodeDown { node, .. } => Some(node.clone()),
                            _ => None,
                        })
                        .collect();
                    let before: BTreeSet<NodeId> = idle(&ledger);
                    events.extend(ledger.reconcile(&seen, &[], at));
                    let after = idle(&ledger);
                    for (node, status) in &seen {
                        if newer.contains(node) {
                            assert_eq!(before.contains(node), after.contains(node), "{node}");
                        } else {
                            assert_eq!(*status == NodeStatus::Hole, after.contains(node), "{node}");
                        }
                    }
                    assert_eq!(ledger.reconcile(&seen, &[], at), [], "a repetition");
                }
                // Ingest restarts from its newest snapshot.
                _ => {
                    let snapshot = ledger.snapshot(Timestamp::from_unix(now));
                    ledger = self::ledger();
                    ledger.recall(&snapshot);
                    ledger.restart();
                    let restored = ledger.snapshot(Timestamp::from_unix(now));
                    consumer = PoolKeeper::new(UnknownNodes::Accept);
                    consumer.step(&restored);
                    events.clear();
                    now += 20;
                }
            }
        }
        for event in &events {
            consumer.step(event);
        }
        let numbers: Vec<u64> = events.iter().map(|e| e.seq).collect();
        let first = numbers.first().copied().unwrap_or_default();
        let expected: Vec<u64> = (first..).take(numbers.len()).collect();
        assert_eq!(numbers, expected);
        let seen: BTreeSet<NodeId> = consumer.holes().into_iter().map(|hole| hole.node).collect();
        assert_eq!(seen, idle(&ledger), "consumers see another pool");
    }
}

fn idle(ledger: &Ledger) -> BTreeSet<NodeId> {
    let EventKind::Snapshot { idle } = ledger.snapshot(Timestamp::default()).kind else {
        panic!("no snapshot")
    };
    idle.into_iter().map(|hole| hole.node).collect()
}
