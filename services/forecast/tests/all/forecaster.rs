//! The core of the service, and its metrics.

use lacuna_forecast::{Choice, LearningStage};
use lacuna_forecast_service::{Forecaster, Metrics, Models, PredictorSettings, Ready};
use lacuna_model::{EventKind, NodeEvent, Timestamp};
use lacuna_pool::{Counts, RESTART_JUMP};
use lacuna_runtime::metrics::{Registry, expose};
use lacuna_testkit::{events, golden, hole};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix(seconds)
}

fn snapshot(seq: u64, when: i64, names: &[(&str, i64)]) -> NodeEvent {
    let idle = names
        .iter()
        .map(|(name, since)| hole(name, *since))
        .collect();
    NodeEvent {
        seq,
        at: at(when),
        kind: EventKind::Snapshot { idle },
    }
}

fn forecaster() -> Forecaster {
    Forecaster::new(Models::new(PredictorSettings::of(Choice::survival())))
}

/// Forty holes that open and close in turn.
fn past() -> Vec<NodeEvent> {
    let changes: Vec<(&str, &str)> = (0..40)
        .flat_map(|_| [("idle", "a"), ("busy", "a")])
        .collect();
    events(1, &changes)
}

#[test]
fn a_snapshot_waits_for_the_events_that_it_has_overtaken() {
    let mut forecaster = forecaster();
    let list = events(
        1,
        &[("idle", "a"), ("idle", "b"), ("busy", "a"), ("idle", "c")],
    );
    forecaster.event(&list[0], "");
    let overtaking = snapshot(4, 10, &[("b", 2), ("c", 4)]);
    assert!(forecaster.snapshot(&overtaking, None, "").is_empty());
    assert_eq!((forecaster.seq(), forecaster.ready()), (1, Ready::Live));
    forecaster.event(&list[1], "");
    // The event gives the end of `a`, which the snapshot does not have.
    assert_eq!(forecaster.event(&list[2], "").len(), 1);
    assert!(forecaster.awaits_events());
    forecaster.event(&list[3], "");
    assert_eq!((forecaster.seq(), forecaster.awaits_events()), (4, false));
    // Lost events do not come: the stream is quiet, or goes on after them.
    forecaster.snapshot(&snapshot(6, 20, &[("x", 15)]), None, "");
    assert_eq!((forecaster.seq(), forecaster.holes()), (4, 2));
    forecaster.caught_up();
    assert_eq!((forecaster.seq(), forecaster.awaits_events()), (6, false));
    forecaster.snapshot(&snapshot(8, 30, &[("y", 25)]), None, "");
    let mut later = events(9, &[("idle", "w")]).remove(0);
    later.at = at(31);
    forecaster.event(&later, "");
    assert_eq!((forecaster.seq(), forecaster.holes()), (9, 2));
    assert_eq!(forecaster.counts().gaps, 0);
}

#[test]
fn the_past_of_the_stream_is_learnt_and_the_snapshot_sets_the_present() {
    let mut forecaster = forecaster();
    forecaster.catch_up(snapshot(80, 90, &[("z", 85)]), None);
    for event in past() {
        assert_eq!(forecaster.ready(), Ready::CatchingUp);
        forecaster.event(&event, "");
    }
    // An event that the snapshot does not include ends the past.
    forecaster.event(&events(81, &[("idle", "y")])[0], "");
    assert_eq!(
        forecaster.ready(),
        Ready::CatchingUp,
        "older than the snapshot"
    );
    let mut next = events(81, &[("idle", "y")]).remove(0);
    next.at = at(91);
    forecaster.event(&next, "");
    assert_eq!(forecaster.ready(), Ready::Live);
    assert_eq!(
        forecaster.models().learning(),
        LearningStage::Learnt { ended: 40 }
    );
    let pool = forecaster.pool(at(100)).pool;
    assert_eq!(pool.seq, 81);
    let holes: Vec<_> = pool.holes.into_iter().map(|pooled| pooled.hole).collect();
    assert_eq!(holes, [hole("y", 91), hole("z", 85)]);
}

#[test]
fn a_stream_without_its_beginning_is_still_learnt() {
    let mut forecaster = forecaster();
    forecaster.catch_up(snapshot(80, 90, &[]), None);
    for event in past().into_iter().skip(11) {
        forecaster.event(&event, "");
    }
    // The first event ends a hole with a lost start, which is not learnt.
    assert_eq!(
        forecaster.models().learning(),
        LearningStage::Learnt { ended: 34 }
    );
    forecaster.caught_up();
    assert_eq!(forecaster.ready(), Ready::Live);
}

#[test]
fn a_past_restart_of_the_publisher_does_not_stop_the_learning() {
    let jump = |seq: u64| if seq > 41 { seq + RESTART_JUMP } else { seq };
    let mut forecaster = forecaster();
    forecaster.catch_up(snapshot(jump(80), 90, &[("z", 85)]), None);
    for mut event in past() {
        event.seq = jump(event.seq);
        forecaster.event(&event, "");
    }
    // The hole that event 41 opened stays open over the restart; event 42 ends it.
    assert_eq!(
        forecaster.models().learning(),
        LearningStage::Learnt { ended: 40 }
    );
    assert!(!forecaster.is_stale());
    forecaster.caught_up();
    let pool = forecaster.pool(at(100)).pool;
    assert_eq!((pool.seq, pool.holes.len()), (jump(80), 1));
}

#[test]
fn events_of_an_older_numbering_are_refused() {
    let mut forecaster = forecaster();
    forecaster.catch_up(snapshot(10, 5000, &[("z", 4000)]), None);
    for event in past() {
        forecaster.event(&event, "");
    }
    forecaster.caught_up();
    let pool = forecaster.pool(at(5001)).pool;
    assert_eq!((pool.seq, pool.holes.len()), (10, 1));
}

#[test]
fn a_snapshot_alone_is_enough_and_the_newest_event_gives_the_correlation() {
    let mut forecaster = forecaster();
    assert_eq!(forecaster.ready(), Ready::Waiting);
    forecaster.snapshot(&snapshot(7, 50, &[("a", 1), ("b", 2)]), None, "first");
    assert_eq!(forecaster.ready(), Ready::Live);
    let lengths = forecaster.event(&events(8, &[("busy", "a")])[0], "second");
    assert_eq!(lengths, [7.0]);
    assert_eq!(forecaster.correlation(), "second");
    // An event without a change keeps the correlation.
    forecaster.event(&events(9, &[("busy", "a")])[0], "third");
    assert_eq!(forecaster.correlation(), "second");
    let state = forecaster.pool(at(60));
    assert_eq!(
        state.predictor,
        "by age alone (survival has seen 0 of 30 ends)"
    );
    assert_eq!((state.pool.seq, state.pool.holes.len()), (9, 1));
}

#[test]
fn the_exposition_matches_the_golden_file() {
    let registry = Registry::new();
    let metrics = Metrics::new(&registry).unwrap();
    let mut forecaster = forecaster();
    for event in events(1, &[("idle", "a"), ("idle", "b"), ("busy", "a")]) {
        for length in forecaster.event(&event, "") {
            metrics.hole_seconds.observe(length);
        }
    }
    forecaster.event(&events(3, &[("busy", "a")])[0], "");
    forecaster.event(&events(6, &[("idle", "c")])[0], "");
    forecaster.pool(Timestamp::from_unix(60));
    metrics.update(&forecaster, &Counts::default());
    metrics.published.inc();
    metrics.forecast_seconds.observe(0.0005);
    metrics.publish_seconds.observe(0.003);
    let text = expose(&registry).unwrap();
    golden(
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/metrics.txt"),
        &text,
    );
}
