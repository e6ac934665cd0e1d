//! Planned starts and reservations in forecasts, and their track record.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use lacuna_forecast::{AnnouncedEnd, Choice, EndKind, OrderBy, Predictor, WithPlannedStarts};
use lacuna_model::{Hole, NodeId, Timestamp};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix(1_600_000_000 + seconds)
}

fn hole(name: &str) -> Hole {
    Hole {
        node: NodeId::new(name).unwrap(),
        since: at(0),
    }
}

fn end(name: &str, seconds: i64, kind: EndKind) -> AnnouncedEnd {
    AnnouncedEnd {
        node: NodeId::new(name).unwrap(),
        at: at(seconds),
        kind,
    }
}

fn predictor() -> WithPlannedStarts {
    let mut predictor = WithPlannedStarts::new(Choice::Persistence.build());
    for name in ["a", "b", "c"] {
        predictor.opened(&hole(name), at(0));
    }
    predictor
}

#[test]
fn a_reservation_ends_the_hole_and_a_planned_start_is_as_likely_as_its_record() {
    let mut predictor = predictor();
    let now = at(3600);
    predictor.announce(
        now,
        &[
            end("a", 4200, EndKind::Reservation),
            end("b", 4200, EndKind::PlannedStart),
        ],
    );
    let holes = [hole("a"), hole("b"), hole("c")];
    let forecasts = predictor.forecast(now, &holes);
    let open = |place, after| forecasts.of(place).unwrap().open_after(after);
    let persistence = Choice::Persistence.build().forecast(now, &holes);
    let plain = |after| persistence.of(0).unwrap().open_after(after);
    assert!((open(0, 590.0) - plain(590.0)).abs() < 0.02);
    assert_eq!(open(0, 601.0), 0.0);
    // Without a record of planned starts, earlier, on time and later are equally likely.
    assert!(open(1, 590.0) > 0.65);
    let late = plain(700.0) / plain(600.0) / 3.0;
    assert!((open(1, 700.0) - late).abs() < 0.01);
    assert_eq!(open(2, 700.0), plain(700.0));
    for place in 0..3 {
        let points = &forecasts.of(place).unwrap().points;
        assert!(points.is_sorted_by(|a, b| a.after_s < b.after_s && a.open >= b.open));
    }
}

#[test]
fn withdrawn_and_moved_plans_prove_false_once_their_time_has_passed() {
    let mut predictor = predictor();
    for round in 0..20 {
        // Announced and withdrawn again and again, for the same time.
        predictor.announce(at(round * 60), &[end("a", 1500, EndKind::PlannedStart)]);
        predictor.announce(at(round * 60 + 30), &[]);
    }
    let soft = |predictor: &WithPlannedStarts| {
        let record = predictor.record(EndKind::PlannedStart);
        (record.came_true, record.proved_false)
    };
    assert_eq!(soft(&predictor), (0, 0));
    predictor.announce(at(1600), &[]);
    // Once for each lead at which it was announced: up to an hour, and up to 15 minutes.
    assert_eq!(soft(&predictor), (0, 2));
    let reliability = predictor.record(EndKind::PlannedStart).reliability();
    assert!(reliability < 0.26, "{reliability}");
    // Moved by an hour: the first plan was false, the second comes true.
    predictor.announce(at(1700), &[end("b", 5000, EndKind::PlannedStart)]);
    predictor.announce(at(1710), &[end("b", 8600, EndKind::PlannedStart)]);
    predictor.announce(at(5100), &[end("b", 8600, EndKind::PlannedStart)]);
    assert_eq!(soft(&predictor), (0, 3));
    // Announced far ahead, and again after the first time had passed.
    predictor.closed(&hole("b"), at(8650));
    assert_eq!(soft(&predictor), (2, 3));
    // The reservation starts and the hole is still open.
    predictor.announce(at(8700), &[end("c", 9000, EndKind::Reservation)]);
    predictor.announce(at(9200), &[end("c", 9000, EndKind::Reservation)]);
    assert_eq!(predictor.record(EndKind::Reservation).proved_false, 1);
    // The end of a lost hole is unknown.
    predictor.announce(at(9300), &[end("c", 9500, EndKind::Reservation)]);
    predictor.lost(&hole("c"), at(9400));
    predictor.announce(at(9900), &[]);
    let record = predictor.record(EndKind::Reservation);
    assert_eq!((record.came_true, record.proved_false), (0, 1));
    assert_eq!(predictor.announced_ends(), 0);
}

#[test]
fn false_reservations_are_weighed_by_their_own_record() {
    let mut predictor = predictor();
    for round in 0..12 {
        let now = round * 1000;
        predictor.announce(at(now), &[end("a", now + 100, EndKind::Reservation)]);
        predictor.announce(at(now + 900), &[]);
    }
    let now = at(13_600);
    predictor.announce(now, &[end("a", 14_200, EndKind::Reservation)]);
    let after = |predictor: &mut WithPlannedStarts| {
        let forecasts = predictor.forecast(now, &[hole("a")]);
        forecasts.of(0).unwrap().open_after(700.0)
    };
    let doubted = after(&mut predictor);
    assert!(doubted > 0.3);
    // The record of planned starts does not count for reservations.
    for round in 0..50 {
        let moment = 13_600 + round;
        predictor.announce(at(moment), &[end("b", moment, EndKind::PlannedStart)]);
        predictor.closed(&hole("b"), at(moment));
    }
    assert_eq!(predictor.record(EndKind::PlannedStart).came_true, 50);
    predictor.announce(now, &[end("a", 14_200, EndKind::Reservation)]);
    let now_doubted = after(&mut predictor);
    assert!(
        (now_doubted - doubted).abs() < 0.1,
        "{doubted} {now_doubted}"
    );
}

#[test]
fn planned_starts_that_come_true_shape_forecasts_and_are_listed() {
    let mut predictor = WithPlannedStarts::new(Choice::hazard(OrderBy::Learnt).build());
    for round in 0..30i64 {
        let start = round * 1000;
        for name in ["a1", "a2", "a3"] {
            let hole = Hole {
                node: NodeId::new(name).unwrap(),
                since: at(start),
            };
            predictor.opened(&hole, at(start));
        }
        let ends = ["a1", "a2"].map(|name| end(name, start + 500, EndKind::PlannedStart));
        predictor.announce(at(start + 10), &ends);
        for name in ["a1", "a2", "a3"] {
            let hole = Hole {
                node: NodeId::new(name).unwrap(),
                since: at(start),
            };
            predictor.closed(&hole, at(start + if name == "a3" { 900 } else { 500 }));
        }
    }
    // Both nodes of a round are one batch.
    assert_eq!(predictor.record(EndKind::PlannedStart).came_true, 30);
    let start = 30_000;
    let holes = ["a1", "a2", "a3"].map(|name| Hole {
        node: NodeId::new(name).unwrap(),
        since: at(start),
    });
    for hole in &holes {
        predictor.opened(hole, at(start));
    }
    let ends = ["a1", "a2"].map(|name| end(name, start + 500, EndKind::PlannedStart));
    predictor.announce(at(start + 10), &ends);
    let bytes = predictor.save().unwrap();
    let forecasts = predictor.forecast(at(start + 10), &holes);
    assert!(forecasts.of(0).unwrap().open_after(480.0) > 0.95);
    assert!(forecasts.of(0).unwrap().open_after(500.0) < 0.05);
    // The forecasts list the announced ends with the curves that leave them out.
    let listed: Vec<u32> = forecasts.announced.iter().map(|end| end.hole).collect();
    assert_eq!(listed, [0, 1]);
    for announced in &forecasts.announced {
        assert!(
            announced.kept > 0.9 && announced.after_s == 490.0,
            "{announced:?}"
        );
        let otherwise = &forecasts.forecasts[announced.otherwise as usize];
        assert_eq!(otherwise, forecasts.of(2).unwrap());
    }
    let pool = forecasts.into_pool(at(start + 10), 1, holes.to_vec());
    assert_eq!(pool.joint.unwrap().announced.len(), 2);
    let restored = WithPlannedStarts::restore(&Choice::hazard(OrderBy::Learnt), &bytes).unwrap();
    assert_eq!(
        restored.record(EndKind::PlannedStart),
        predictor.record(EndKind::PlannedStart)
    );
}
