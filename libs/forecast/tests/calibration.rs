//! The scores against hand-computed cases.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use lacuna_forecast::{Calibration, Forecasts};
use lacuna_model::{Forecast, ForecastPoint, Hole, NodeId, Timestamp};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix(seconds)
}

fn hole(name: &str) -> Hole {
    Hole {
        node: NodeId::new(name).unwrap(),
        since: at(0),
    }
}

/// Open with probability 3/4 at every horizon.
fn three_quarters(holes: usize) -> Forecasts {
    Forecasts {
        forecasts: vec![Forecast {
            points: vec![ForecastPoint {
                after_s: 1.0,
                open: 0.75,
            }],
        }],
        index: vec![0; holes],
        joint: None,
    }
}

#[test]
fn the_score_is_the_mean_square() {
    let mut calibration = Calibration::new();
    let holes = [hole("a"), hole("b")];
    calibration.observe(at(0), at(0), &holes, &three_quarters(2));
    assert_eq!(calibration.pending(), 8);
    // a ends within the fifth minute: open at one minute, closed at 5, 15 and 60.
    calibration.closed(&holes[0].node, at(290));
    calibration.observe(at(301), at(301), &holes[1..], &three_quarters(1));
    let [minute, five, ..] = *calibration.scores();
    assert_eq!((minute.answered, minute.open), (2, 2));
    assert_eq!(minute.brier(), Some(0.0625));
    // Nothing was known, so the constant said one half.
    assert_eq!(minute.brier_of_constant(), Some(0.25));
    assert_eq!(minute.skill(), Some(0.75));
    assert_eq!((five.answered, five.open), (2, 1));
    assert_eq!(five.brier(), Some((0.0625 + 0.5625) / 2.0));
}

#[test]
fn a_hole_that_ends_at_the_moment_asked_for_is_closed_then() {
    let mut calibration = Calibration::new();
    let holes = [hole("a")];
    calibration.observe(at(0), at(0), &holes, &three_quarters(1));
    calibration.observe(at(60), at(60), &holes, &three_quarters(1));
    assert_eq!(calibration.scores()[0].answered, 0);
    calibration.closed(&holes[0].node, at(60));
    assert_eq!(calibration.scores()[0].answered, 2);
    assert_eq!(calibration.scores()[0].open, 0);
    assert_eq!(calibration.pending(), 0);
}

#[test]
fn a_lost_hole_answers_only_what_was_due() {
    let mut calibration = Calibration::new();
    let holes = [hole("a")];
    calibration.observe(at(0), at(0), &holes, &three_quarters(1));
    calibration.lost(&holes[0].node, at(100));
    let answered: Vec<u64> = calibration.scores().iter().map(|s| s.answered).collect();
    assert_eq!(answered, [1, 0, 0, 0]);
    assert_eq!(calibration.pending(), 0);
}

#[test]
fn memory_stays_bounded_when_many_holes_stay_open() {
    let mut calibration = Calibration::new();
    let holes: Vec<Hole> = (0..1000).map(|n| hole(&format!("n{n}"))).collect();
    let forecasts = three_quarters(holes.len());
    for minute in 0..500 {
        calibration.observe(at(minute * 60), at(minute * 60), &holes, &forecasts);
    }
    // 64 holes a minute, and each waits 1 + 5 + 15 + 60 minutes in all.
    assert!(
        calibration.pending() <= 64 * (1 + 5 + 15 + 60 + 4),
        "{}",
        calibration.pending()
    );
    assert!(
        calibration
            .scores()
            .iter()
            .all(|score| score.open == score.answered)
    );
}
