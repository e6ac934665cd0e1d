//! The pool keeper: each rule by example, then lost, repeated and reordered events.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;

use lacuna_model::{EventKind, Hole, NodeEvent, NodeId, Timestamp};
use lacuna_pool::{
    Change, Changes, HoleEnd, Outcome, PoolKeeper, RESTART_JUMP, Sync, UnknownNodes,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn node(name: &str) -> NodeId {
    NodeId::new(name).unwrap()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix(seconds)
}

fn hole(name: &str, since: i64) -> Hole {
    Hole {
        node: node(name),
        since: at(since),
    }
}

fn idle(seq: u64, when: i64, name: &str) -> NodeEvent {
    NodeEvent {
        seq,
        at: at(when),
        kind: EventKind::NodeIdle { node: node(name) },
    }
}

fn busy(seq: u64, when: i64, name: &str) -> NodeEvent {
    NodeEvent {
        seq,
        at: at(when),
        kind: EventKind::NodeBusy { node: node(name) },
    }
}

fn snapshot(seq: u64, when: i64, idle: Vec<Hole>) -> NodeEvent {
    NodeEvent {
        seq,
        at: at(when),
        kind: EventKind::Snapshot { idle },
    }
}

fn keeper() -> PoolKeeper {
    PoolKeeper::new(UnknownNodes::Accept)
}

#[test]
fn a_hole_opens_and_closes() {
    let mut keeper = keeper();
    assert_eq!(keeper.sync(), Sync::Waiting);
    let opened = keeper.step(&idle(1, 10, "b"));
    assert_eq!(opened.opened().collect::<Vec<_>>(), [&hole("b", 10)]);
    keeper.step(&idle(2, 20, "a"));
    assert_eq!(keeper.sync(), Sync::Fresh);
    assert_eq!(keeper.holes(), [hole("a", 20), hole("b", 10)]);
    let closed = keeper.step(&busy(3, 70, "b"));
    assert_eq!(
        closed.list,
        [Change::Closed {
            hole: hole("b", 10),
            at: at(70),
            end: HoleEnd::Seen
        }]
    );
    assert_eq!(keeper.holes(), [hole("a", 20)]);
}

#[test]
fn a_repeated_idle_event_keeps_the_start_of_the_hole() {
    let mut keeper = keeper();
    keeper.step(&idle(1, 10, "a"));
    assert!(keeper.step(&idle(2, 50, "a")).is_empty());
    assert_eq!(keeper.holes(), [hole("a", 10)]);
}

#[test]
fn wanted_and_down_nodes_leave_the_pool() {
    let mut keeper = keeper();
    keeper.step(&idle(1, 10, "a"));
    keeper.step(&idle(2, 10, "b"));
    keeper.step(&NodeEvent {
        seq: 3,
        at: at(20),
        kind: EventKind::NodeWanted {
            node: node("a"),
            deadline: at(50),
        },
    });
    keeper.step(&NodeEvent {
        seq: 4,
        at: at(20),
        kind: EventKind::NodeDown {
            node: node("b"),
            reason: "drained".into(),
        },
    });
    assert!(keeper.is_empty());
    assert_eq!(
        keeper.state(&node("b")),
        Some(lacuna_model::NodeState::Down)
    );
    // The batch job starts on the node, whose hole has closed already.
    assert!(keeper.step(&busy(5, 50, "a")).is_empty());
    assert_eq!(keeper.counts().closed, 2);
}

#[test]
fn duplicates_and_late_events_are_counted_and_refused() {
    let mut keeper = keeper();
    keeper.step(&idle(1, 10, "a"));
    assert_eq!(keeper.step(&idle(1, 10, "a")).outcome, Outcome::Duplicate);
    keeper.step(&idle(2, 30, "b"));
    assert_eq!(keeper.step(&busy(3, 29, "b")).outcome, Outcome::Late);
    // Older than the newest event, but not than its node's newest: applied and counted.
    assert_eq!(keeper.step(&busy(4, 20, "a")).outcome, Outcome::Applied);
    assert_eq!(keeper.holes(), [hole("b", 30)]);
    let counts = keeper.counts();
    assert_eq!(
        (counts.duplicates, counts.late, counts.backwards),
        (1, 1, 2)
    );
}

#[test]
fn behind_a_gap_the_pool_only_shrinks_until_a_snapshot_comes() {
    let mut keeper = keeper();
    keeper.step(&idle(1, 10, "a"));
    keeper.step(&idle(2, 10, "b"));
    assert_eq!(keeper.step(&idle(4, 40, "c")).outcome, Outcome::HeldBack);
    assert_eq!(keeper.sync(), Sync::Stale { missing: 3 });
    let closed = keeper.step(&busy(5, 50, "a"));
    assert_eq!(
        closed.list,
        [Change::Closed {
            hole: hole("a", 10),
            at: at(50),
            end: HoleEnd::Unseen { last_seen: at(10) }
        }]
    );
    assert_eq!(keeper.holes(), [hole("b", 10)]);
    assert_eq!(keeper.seq(), 2);
    // The snapshot includes the missing event. Events 4 and 5 were held back and follow it.
    keeper.step(&snapshot(
        3,
        45,
        vec![hole("d", 30), hole("a", 10), hole("b", 10)],
    ));
    assert_eq!(keeper.sync(), Sync::Fresh);
    assert_eq!(keeper.seq(), 5);
    assert_eq!(
        keeper.holes(),
        [hole("b", 10), hole("c", 40), hole("d", 30)]
    );
    assert_eq!(keeper.counts().gaps, 1);
}

#[test]
fn the_missing_event_itself_repairs_a_gap() {
    let mut keeper = keeper();
    keeper.step(&idle(1, 10, "a"));
    keeper.step(&idle(3, 30, "c"));
    keeper.step(&idle(4, 40, "d"));
    let repaired = keeper.step(&idle(2, 20, "b"));
    let names: Vec<&str> = repaired.opened().map(|hole| hole.node.as_str()).collect();
    assert_eq!(names, ["b", "c", "d"]);
    assert_eq!((keeper.sync(), keeper.seq()), (Sync::Fresh, 4));
}

#[test]
fn an_old_snapshot_is_refused_and_a_new_numbering_is_accepted() {
    let mut keeper = keeper();
    keeper.step(&idle(1, 10, "a"));
    keeper.step(&idle(2, 20, "b"));
    let old = keeper.step(&snapshot(1, 15, vec![hole("a", 10)]));
    assert_eq!(old.outcome, Outcome::OldSnapshot);
    assert_eq!(keeper.len(), 2);
    // Newer in time than every event, with a smaller number: the numbering has restarted.
    keeper.step(&snapshot(0, 100, vec![hole("z", 90)]));
    assert_eq!((keeper.seq(), keeper.counts().renumbered), (0, 1));
    keeper.step(&idle(1, 110, "y"));
    assert_eq!(keeper.holes(), [hole("y", 110), hole("z", 90)]);
    // A trace that restarts from its beginning is accepted at its third snapshot.
    for _ in 0..3 {
        keeper.step(&snapshot(0, 5, vec![hole("q", 1)]));
    }
    assert_eq!(keeper.holes(), [hole("q", 1)]);
}

#[test]
fn a_snapshot_that_events_have_overtaken_is_refused_even_if_newer_in_time() {
    let kept = |s| Some(Timestamp::from_unix(s));
    let mut keeper = keeper();
    keeper.step_kept(&idle(1, 10, "a"), kept(100));
    // The event is dated before the snapshot, and the bus took it after the snapshot was made.
    keeper.step_kept(&busy(2, 50, "a"), kept(101));
    let made_before = snapshot(1, 99, vec![hole("a", 10)]);
    for _ in 0..5 {
        let overtaken = keeper.step_kept(&made_before, kept(100));
        assert_eq!(overtaken.outcome, Outcome::OldSnapshot);
    }
    assert_eq!((keeper.len(), keeper.sync()), (0, Sync::Fresh));
    assert_eq!(keeper.counts().renumbered, 0);
    // Events of a new numbering are duplicates until its snapshot comes. They do not make that
    // snapshot an overtaken one.
    keeper.step_kept(&idle(1, 900, "b"), kept(900));
    keeper.step_kept(&snapshot(1, 900, vec![hole("b", 900)]), kept(900));
    assert_eq!((keeper.holes(), keeper.seq()), (vec![hole("b", 900)], 1));
}

#[test]
fn a_snapshot_that_events_behind_a_gap_have_overtaken_is_refused() {
    let kept = |s| Some(Timestamp::from_unix(s));
    let mut keeper = keeper();
    keeper.step_kept(&idle(1, 10, "a"), kept(10));
    keeper.step_kept(&idle(7, 292, "b"), kept(310));
    // The snapshot before it closes the gap. The next one was made before the event was numbered.
    keeper.step_kept(&snapshot(6, 200, vec![hole("a", 10)]), kept(200));
    assert_eq!(keeper.holes(), [hole("a", 10), hole("b", 292)]);
    let late = keeper.step_kept(&snapshot(6, 307, vec![hole("a", 10)]), kept(308));
    assert_eq!((late.outcome, keeper.len()), (Outcome::OldSnapshot, 2));
}

#[test]
fn a_publisher_that_restarts_jumps_ahead_and_no_hole_is_lost() {
    let jump = 2 + RESTART_JUMP;
    for snapshot_first in [true, false] {
        let mut keeper = keeper();
        keeper.step(&idle(1, 10, "a"));
        keeper.step(&idle(2, 20, "b"));
        // The publisher's snapshot and its next event, in the order of either subscription.
        let restart = snapshot(jump, 20, vec![hole("a", 10), hole("b", 20)]);
        let next = busy(jump + 1, 30, "a");
        let messages = if snapshot_first {
            [&restart, &next]
        } else {
            [&next, &restart]
        };
        let changes: Vec<Change> = messages.map(|m| keeper.step(m).list).concat();
        let of_b = changes.iter().find(|change| match change {
            Change::Opened { hole, .. } | Change::Closed { hole, .. } => hole.node == node("b"),
        });
        assert_eq!(of_b, None, "b is idle all the time");
        assert_eq!((keeper.sync(), keeper.seq()), (Sync::Fresh, jump + 1));
        assert_eq!(keeper.holes(), [hole("b", 20)]);
        assert_eq!(keeper.counts().renumbered, 0);
    }
}

#[test]
fn another_trace_begins_in_the_past() {
    let mut keeper = keeper();
    keeper.step(&idle(1, 5000, "a"));
    keeper.step(&busy(2, 6000, "a"));
    keeper.step(&idle(3, 6000, "b"));
    // Far ahead by its number, older by its time.
    let restarted = keeper.step(&snapshot(3 + RESTART_JUMP, 100, vec![]));
    let closed = &restarted.list;
    assert!(
        matches!(&closed[..], [Change::Closed { hole: h, at: end, .. }]
            if *h == hole("b", 6000) && *end == at(6000)),
        "{closed:?}"
    );
    assert_eq!(keeper.newest_at(), at(100));
    let opened = keeper.step(&idle(4 + RESTART_JUMP, 110, "a"));
    assert_eq!(opened.outcome, Outcome::Applied, "not late: time is new");
    assert_eq!(keeper.holes(), [hole("a", 110)]);
    // A snapshot that is older by as much, without the jump, does not restart time.
    keeper.step(&snapshot(5 + RESTART_JUMP, 50, vec![hole("a", 110)]));
    assert_eq!(keeper.newest_at(), at(110));
}

#[test]
fn names_that_are_not_on_the_list_of_nodes_are_refused() {
    let mut keeper = PoolKeeper::new(UnknownNodes::Refuse([node("a")].into()));
    assert_eq!(keeper.step(&idle(1, 10, "x")).outcome, Outcome::UnknownNode);
    keeper.step(&snapshot(1, 12, vec![hole("a", 11), hole("x", 10)]));
    assert_eq!(keeper.holes(), [hole("a", 11)]);
    assert_eq!(keeper.counts().unknown, 2);
}

#[test]
fn planned_starts_and_reservations_are_stored_withdrawn_and_expire() {
    let mut keeper = keeper();
    let plan = |seq, when, job: &str, nodes: Vec<NodeId>, start| NodeEvent {
        seq,
        at: at(when),
        kind: EventKind::JobPlanned {
            job: job.into(),
            nodes,
            start: at(start),
        },
    };
    keeper.step(&plan(1, 10, "j1", vec![node("a"), node("b")], 500));
    keeper.step(&plan(2, 10, "j2", vec![node("a")], 300));
    keeper.step(&NodeEvent {
        seq: 3,
        at: at(11),
        kind: EventKind::Reservation {
            name: "maintenance".into(),
            nodes: vec![node("b")],
            start: at(400),
            end: at(900),
        },
    });
    let starts = |keeper: &PoolKeeper| -> Vec<Timestamp> {
        let planned = keeper.announcements().planned().map(|(_, plan)| plan.start);
        let reserved = keeper
            .announcements()
            .reserved()
            .map(|(_, reserved)| reserved.start);
        planned.chain(reserved).collect()
    };
    assert_eq!(starts(&keeper), [at(500), at(300), at(400)]);
    keeper.step(&plan(4, 12, "j2", vec![], 0));
    assert_eq!(starts(&keeper), [at(500), at(400)]);
    keeper.step(&idle(5, 5000, "c"));
    assert!(starts(&keeper).is_empty());
}

#[test]
fn the_largest_number_does_no_harm() {
    let mut keeper = keeper();
    keeper.step(&snapshot(u64::MAX, 10, vec![hole("a", 5)]));
    assert_eq!(
        keeper.step(&busy(u64::MAX, 20, "a")).outcome,
        Outcome::Duplicate
    );
    assert_eq!(keeper.holes(), [hole("a", 5)]);
}

/// A true history of some nodes: event `k` (from 1) happens at second `10 k`.
fn history(choices: &[(u8, u8)]) -> Vec<NodeEvent> {
    choices
        .iter()
        .zip(1..)
        .map(|(&(which, what), seq)| {
            let node = node(&format!("n{}", which % 6));
            let kind = match what % 4 {
                0 | 1 => EventKind::NodeIdle { node },
                2 => EventKind::NodeBusy { node },
                _ => EventKind::NodeDown {
                    node,
                    reason: String::new(),
                },
            };
            NodeEvent {
                seq,
                at: at(10 * seq as i64),
                kind,
            }
        })
        .collect()
}

/// The holes after a history without lost, repeated or reordered events, by plain code.
fn truth(events: &[NodeEvent]) -> BTreeMap<NodeId, Timestamp> {
    let mut holes = BTreeMap::new();
    for event in events {
        match &event.kind {
            EventKind::NodeIdle { node } => {
                holes.entry(node.clone()).or_insert(event.at);
            }
            EventKind::NodeBusy { node } | EventKind::NodeDown { node, .. } => {
                holes.remove(node);
            }
            _ => {}
        }
    }
    holes
}

/// Checks that openings and closings alternate and add up to the pool, and that a stale pool
/// does not grow.
struct ChangeLog {
    open: BTreeMap<NodeId, Timestamp>,
}

impl ChangeLog {
    fn enter(&mut self, changes: &Changes) {
        for change in &changes.list {
            match change {
                Change::Opened { hole, seen } => {
                    assert!(*seen >= hole.since);
                    let before = self.open.insert(hole.node.clone(), hole.since);
                    assert_eq!(before, None, "opened twice: {hole:?}");
                }
                Change::Closed { hole, at, end } => {
                    assert!(*at >= hole.since);
                    if let HoleEnd::Unseen { last_seen } = end {
                        assert!((hole.since..=*at).contains(last_seen));
                    }
                    let before = self.open.remove(&hole.node);
                    assert_eq!(before, Some(hole.since), "closed but not open: {hole:?}");
                }
            }
        }
    }
}

/// The same cases each time.
fn seeded() -> ProptestConfig {
    ProptestConfig {
        cases: 2048,
        rng_seed: RngSeed::Fixed(20_210_210),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(seeded())]

    #[test]
    fn any_mishaps_followed_by_a_snapshot_end_in_the_truth(
        choices in prop::collection::vec((any::<u8>(), any::<u8>()), 1..60),
        mishaps in prop::collection::vec((any::<u8>(), any::<u8>()), 0..80),
        with_snapshot in prop::option::of(0usize..60),
    ) {
        let events = history(&choices);
        // Lose, repeat and reorder.
        let mut stream = events.clone();
        for (what, place) in mishaps {
            if stream.is_empty() {
                break;
            }
            let place = place as usize % stream.len();
            match what % 3 {
                0 => { stream.remove(place); }
                1 => { let copy = stream[place].clone(); stream.push(copy); }
                _ => { let last = stream.len() - 1; stream.swap(place, last); }
            }
        }
        // A correct snapshot at a random place in the stream.
        if let Some(upto) = with_snapshot {
            let upto = upto % (events.len() + 1);
            let idle = truth(&events[..upto]).into_iter()
                .map(|(node, since)| Hole { node, since }).collect();
            let place = upto % (stream.len() + 1);
            stream.insert(place, snapshot(upto as u64, 10 * upto as i64 + 5, idle));
        }
        let mut keeper = keeper();
        let mut log = ChangeLog { open: BTreeMap::new() };
        for event in &stream {
            let before = keeper.holes();
            let changes = keeper.step(event);
            log.enter(&changes);
            prop_assert_eq!(&log.open.len(), &keeper.len());
            if keeper.sync() != Sync::Fresh && changes.outcome == Outcome::HeldBack {
                prop_assert!(keeper.holes().iter().all(|hole| before.contains(hole)));
            }
        }
        let end = events.len() as u64;
        let truth: Vec<Hole> = truth(&events).into_iter()
            .map(|(node, since)| Hole { node, since }).collect();
        let changes = keeper.step(&snapshot(end, 10 * end as i64 + 5, truth.clone()));
        log.enter(&changes);
        prop_assert_eq!(keeper.holes(), truth);
        prop_assert_eq!(keeper.seq(), end);
        prop_assert_eq!(keeper.sync(), Sync::Fresh);
        let counts = keeper.counts();
        prop_assert_eq!(counts.opened - counts.closed, keeper.len() as u64);
    }

    #[test]
    fn reordering_within_reach_needs_no_snapshot(
        choices in prop::collection::vec((any::<u8>(), any::<u8>()), 1..60),
        swaps in prop::collection::vec((any::<u8>(), any::<u8>()), 0..60),
    ) {
        let events = history(&choices);
        let mut stream = events.clone();
        for (a, b) in swaps {
            let length = stream.len();
            stream.swap(a as usize % length, b as usize % length);
        }
        let mut keeper = keeper();
        for event in &stream {
            keeper.step(event);
        }
        prop_assert_eq!(keeper.sync(), Sync::Fresh);
        // The set of idle nodes is exact. A hole that was closed early behind a gap may have a
        // later start, never an earlier one.
        let truth = truth(&events);
        for hole in keeper.holes() {
            prop_assert!(truth.get(&hole.node).is_some_and(|&since| hole.since >= since));
        }
        prop_assert_eq!(keeper.len(), truth.len());
    }
}
