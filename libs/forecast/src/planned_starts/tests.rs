use super::class::{LEADS, OVERDUE};
use super::tracker::NONE;
use super::{EndKind, EndTracker, TrackRecord};

const PLANNED: EndKind = EndKind::PlannedStart;

fn tracker(nodes: usize) -> EndTracker {
    let mut tracker = EndTracker::default();
    tracker.grow(nodes);
    tracker
}

fn always_open(_: f64) -> f64 {
    1.0
}

#[test]
fn announced_ends_are_judged_by_their_outcomes() {
    let mut tracker = tracker(4);
    for round in 0..100 {
        let now = f64::from(round) * 10_000.0;
        // Node 0 always leaves as announced, node 1 always too soon, node 2 always too late.
        for node in 0..3 {
            tracker.announce(node, now + 200.0 + 300.0 * f64::from(node), PLANNED);
        }
        tracker.step(now);
        tracker.ended(1, now + 100.0);
        tracker.step(now + 100.0);
        tracker.ended(0, now + 230.0);
        tracker.step(now + 230.0);
        tracker.step(now + 1000.0);
        tracker.ended(2, now + 5000.0);
        tracker.step(now + 5000.0);
    }
    let [_, soon, later, ..] = tracker.counts.outcomes;
    // Node 0 is announced 60 to 300 s ahead, the other nodes further ahead.
    assert!(soon.at > 80.0 && soon.before == 0.0, "{soon:?}");
    assert!(
        later.at == 0.0 && later.before > 80.0 && later.after > 80.0,
        "{later:?}"
    );
    tracker.announce(3, 1e6 + 200.0, PLANNED);
    tracker.step(1e6);
    let odds = tracker.odds(3, 1e6, always_open).unwrap();
    assert!(odds.after_s == 200.0 && odds.kept > 0.5, "{odds:?}");
    tracker.announce(3, NONE, PLANNED);
    assert_eq!(tracker.odds(3, 1e6, always_open), None);
    assert_eq!(tracker.odds(99, 1e6, always_open), None);
}

#[test]
fn an_overdue_planned_start_has_worse_odds() {
    let mut tracker = tracker(1);
    for round in 0..50 {
        let mut now = f64::from(round) * 10_000.0;
        tracker.announce(0, now + 50.0, PLANNED);
        tracker.step(now);
        // It is announced again and again for the next second.
        for _ in 0..20 {
            now += 100.0;
            tracker.announce(0, now + 1.0, PLANNED);
            tracker.step(now);
        }
        tracker.ended(0, now + 50.0);
        tracker.step(now + 50.0);
    }
    let overdue = tracker.counts.outcomes[OVERDUE];
    assert!(overdue.after > 5.0 * overdue.at, "{overdue:?}");
    // NaN announces no end.
    tracker.announce(0, f64::NAN, PLANNED);
    assert_eq!(tracker.odds(0, 0.0, always_open), None);
}

#[test]
fn a_plan_that_moved_by_hours_is_judged_by_its_lead_and_a_stale_one_once() {
    let mut tracker = tracker(1);
    tracker.announce(0, 50.0, PLANNED);
    tracker.step(0.0);
    // The planned start passes and moves to two hours later, when the hole ends.
    tracker.announce(0, 7400.0, PLANNED);
    tracker.step(200.0);
    tracker.ended(0, 7400.0);
    tracker.step(7400.0);
    let far = tracker.counts.outcomes[LEADS - 2];
    assert!(far.at > 0.9 && far.after < 0.1, "{far:?}");
    assert_eq!(tracker.counts.outcomes[OVERDUE].all(), 0.0);
    let record = tracker.record(PLANNED);
    assert_eq!((record.came_true, record.proved_false), (1, 1));
    // A plan that is not withdrawn proves false only once, however long it is announced.
    tracker.announce(0, 8050.0, PLANNED);
    for minute in 0..60 {
        tracker.step(8000.0 + 60.0 * f64::from(minute));
    }
    assert_eq!(tracker.record(PLANNED).proved_false, 2);
}

#[test]
fn a_large_job_is_one_observation_however_it_is_announced() {
    let outcomes = |one_by_one: bool| {
        let mut tracker = tracker(1000);
        for node in 0..1000 {
            tracker.announce(node, 200.0, PLANNED);
            if one_by_one {
                tracker.step(f64::from(node) / 1000.0);
            }
        }
        tracker.step(1.0);
        for node in 0..1000 {
            // A quarter of them ends too soon.
            let now = if node < 250 { 20.0 } else { 190.0 };
            tracker.ended(node, now);
            if one_by_one {
                tracker.step(now);
            }
        }
        assert!(tracker.counts.open.is_empty());
        tracker.counts.outcomes[1]
    };
    let at_once = outcomes(false);
    assert_eq!((at_once.before, at_once.at), (0.25, 0.75));
    assert_eq!(outcomes(true), at_once);
}

#[test]
fn a_plan_that_moves_a_little_is_not_false_each_time() {
    let mut tracker = tracker(2);
    // The plan of node 0 moves to and fro by seconds and comes true; that of node 1 recedes.
    let mut now = 0.0;
    while now < 250.0 {
        tracker.announce(0, 250.0 + (now / 10.0) % 3.0, PLANNED);
        tracker.announce(1, now + 200.0, PLANNED);
        tracker.step(now);
        now += 10.0;
    }
    tracker.ended(0, 251.0);
    tracker.step(300.0);
    let record = tracker.record(PLANNED);
    // Node 0 counts at the leads of 5 min and 1 min, node 1 once, when its time passed.
    assert_eq!((record.came_true, record.proved_false), (2, 1));
}

#[test]
fn a_reservation_bounds_a_hole_until_reservations_prove_false() {
    let mut tracker = tracker(2);
    tracker.announce(0, 500.0, EndKind::Reservation);
    tracker.step(0.0);
    let curve = |after_s: f64| 1.0 - after_s / 1000.0;
    let odds = tracker.odds(0, 0.0, curve).unwrap();
    assert_eq!((odds.early, odds.kept), (0.5, 0.5));
    // An earlier end is as announced. A hole open after its reservation has no odds.
    tracker.ended(0, 100.0);
    tracker.announce(1, 200.0, EndKind::Reservation);
    assert!(tracker.odds(1, 250.0, curve).is_some());
    assert!(tracker.odds(1, 270.0, curve).is_none());
    let record = tracker.record(EndKind::Reservation);
    assert_eq!((record.came_true, record.proved_false), (1, 0));
    for round in 0..12 {
        let now = f64::from(round) * 1000.0;
        tracker.announce(1, now + 100.0, EndKind::Reservation);
        tracker.step(now);
        tracker.ended(1, now + 900.0);
    }
    tracker.announce(1, 20_100.0, EndKind::Reservation);
    let odds = tracker.odds(1, 20_000.0, curve).unwrap();
    assert!(odds.early + odds.kept < 0.5, "{odds:?}");
}

#[test]
fn ends_announced_on_another_clock_are_not_judged() {
    let mut tracker = tracker(2);
    tracker.announce(0, 1e6 + 100.0, PLANNED);
    tracker.step(1e6);
    // The clock was wrong; another hole ends unseen.
    tracker.ended(0, 50.0);
    tracker.announce(1, 200.0, PLANNED);
    tracker.step(60.0);
    tracker.lost(1);
    tracker.step(1000.0);
    assert_eq!(tracker.record(PLANNED), TrackRecord::default());
    assert!(tracker.counts.open.is_empty());
}
