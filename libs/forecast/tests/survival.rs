//! The survival curve against a textbook and against plain code.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use lacuna_forecast::{Bins, LearningStage, Predictor, Settings, Survival};
use lacuna_model::{Hole, NodeId, Span, Timestamp};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix(seconds)
}

fn hole(number: usize, since: i64) -> Hole {
    Hole {
        node: NodeId::new(format!("n{number}")).unwrap(),
        since: at(since),
    }
}

/// Settings that are exact to the second, from the first end on, without decay.
fn exact(last_s: u32) -> Settings {
    Settings {
        bins: Bins::every_second(last_s),
        needed: 1,
        enough_at_risk: 0.0,
        half_life: None,
        ..Settings::default()
    }
}

#[test]
fn the_textbook_case_is_reproduced() {
    // Remission of leukaemia under 6-MP, weeks (Freireich et al. 1963; the standard example,
    // e.g. Kleinbaum and Klein, Survival Analysis, chapter 2). + means censored.
    let ended = [6, 6, 6, 7, 10, 13, 16, 22, 23];
    let censored = [6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35];
    let mut survival = Survival::new(exact(40));
    for (number, length) in ended.into_iter().enumerate() {
        survival.opened(&hole(number, 0), at(0));
        survival.closed(&hole(number, 0), at(length));
    }
    // Half of the censored holes are lost, the others are present when the curve is read.
    let now = 100;
    let mut present = Vec::new();
    for (number, length) in censored.into_iter().enumerate() {
        let number = number + 100;
        if number % 2 == 0 {
            survival.opened(&hole(number, 0), at(0));
            survival.lost(&hole(number, 0), at(length));
        } else {
            let hole = hole(number, now - length);
            survival.opened(&hole, hole.since);
            present.push(hole);
        }
    }
    let curve = survival.curve(at(now), &present);
    for (week, open) in [
        (5, 1.0),
        (6, 0.857),
        (7, 0.807),
        (10, 0.753),
        (13, 0.690),
        (16, 0.627),
        (22, 0.538),
        (23, 0.448),
        (35, 0.448),
    ] {
        let found = curve.open(f64::from(week));
        assert!((found - open).abs() < 0.0006, "week {week}: {found}");
    }
}

#[test]
fn a_young_predictor_forecasts_by_age_and_its_label_says_so() {
    let mut survival = Survival::new(Settings {
        needed: 3,
        ..Settings::default()
    });
    let present = [hole(98, 900), hole(99, 0)];
    let mut open = Vec::new();
    for number in 0..3 {
        assert!(matches!(survival.learning(), LearningStage::Young { .. }));
        assert_eq!(
            survival.label(),
            format!("by age alone (survival has seen {number} of 3 ends)")
        );
        let forecasts = survival.forecast(at(1000), &present);
        let after = |place| forecasts.of(place).unwrap().open_after(600.0);
        assert!(after(0) < after(1), "{} {}", after(0), after(1));
        open.push(after(0));
        survival.closed(&hole(number, 900), at(960));
    }
    assert!(open.is_sorted_by(|a, b| a > b), "short ones: {open:?}");
    assert_eq!(survival.label(), "survival");
    assert_eq!(survival.learning(), LearningStage::Learnt { ended: 3 });
}

#[test]
fn holes_that_started_together_share_a_forecast() {
    let mut survival = Survival::new(exact(1000));
    for number in 0..20 {
        survival.closed(&hole(number, 0), at(10 * number as i64));
    }
    let present = [hole(1, 900), hole(2, 950), hole(3, 900)];
    let forecasts = survival.forecast(at(1000), &present);
    assert_eq!(forecasts.forecasts.len(), 2);
    assert_eq!(forecasts.index[0], forecasts.index[2]);
    assert_ne!(forecasts.index[0], forecasts.index[1]);
    // Ages 100 and 50: of the lengths 0, 10, ..., 190, nine are longer than 100, and three
    // of these longer than 160. The present holes are at risk at their ages too, but no hole ends
    // there.
    let after = survival.curve(at(1000), &present);
    assert!((after.open_after(100.0, 60.0) - 3.0 / 9.0).abs() < 1e-9);
}

#[test]
fn many_starts_are_forecast_by_age() {
    let mut survival = Survival::new(Settings {
        max_forecasts: 256,
        needed: 1,
        ..Settings::default()
    });
    for number in 0..100 {
        survival.closed(&hole(number, 0), at(30 * number as i64));
    }
    let present: Vec<Hole> = (0..5000).map(|n| hole(n, n as i64)).collect();
    let forecasts = survival.forecast(at(6000), &present);
    assert!(forecasts.forecasts.len() <= 256);
    assert_eq!(forecasts.index.len(), 5000);
    let curve = survival.curve(at(6000), &present);
    for place in (0..5000).step_by(97) {
        let own = curve.open_after(6000.0 - place as f64, 300.0);
        let shared = forecasts.of(place).unwrap().open_after(300.0);
        assert!((own - shared).abs() < 0.08, "hole {place}: {own} {shared}");
    }
}

#[test]
fn a_hole_first_seen_old_does_not_make_short_holes_rarer() {
    // Ten short holes are seen from the start; ten long ones are first seen at age 500. The curve
    // at short ages follows from the short holes alone.
    let mut survival = Survival::new(exact(2000));
    for number in 0..10 {
        survival.opened(&hole(number, 0), at(0));
        survival.closed(&hole(number, 0), at(100 + number as i64));
    }
    for number in 10..20 {
        survival.opened(&hole(number, 0), at(500));
        survival.closed(&hole(number, 0), at(1500));
    }
    let curve = survival.curve(at(2000), &[]);
    assert!((curve.open(104.0) - 0.5).abs() < 1e-9);
}

#[test]
fn old_holes_are_forgotten_by_half_lives() {
    let mut survival = Survival::new(Settings {
        half_life: Some(Span::from_secs(1000)),
        ..exact(1000)
    });
    survival.closed(&hole(1, 0), at(100));
    // New holes end two half-lives later, with weight 4 against 1.
    survival.closed(&hole(2, 1800), at(2100));
    let curve = survival.curve(at(2100), &[]);
    assert!(
        (curve.open(150.0) - 0.8).abs() < 1e-9,
        "{}",
        curve.open(150.0)
    );
    // Much later, weights are scaled down without a change of the curve.
    survival.closed(&hole(3, 199_900), at(200_000));
    let curve = survival.curve(at(200_000), &[]);
    assert!(curve.open(100.0) < 1e-9);
}

/// One hole: start, age when first seen, observed length, and the kind of its end.
#[derive(Debug, Clone, Copy)]
struct Life {
    entry: i64,
    exit: i64,
    ended: bool,
}

/// Kaplan-Meier with delayed entry in O(n²), from the definition.
fn naive(lives: &[Life], age: i64) -> f64 {
    let mut open = 1.0;
    for t in 1..=age {
        let at_risk = lives.iter().filter(|l| l.entry < t && t <= l.exit).count();
        let ended = lives
            .iter()
            .filter(|l| l.ended && l.entry < t && l.exit == t)
            .count();
        if at_risk > 0 {
            open *= 1.0 - ended as f64 / at_risk as f64;
        } else {
            break;
        }
    }
    open
}

fn lives() -> impl Strategy<Value = Vec<Life>> {
    let life = (prop::bool::weighted(0.3), 1i64..40, 1i64..60, 0u8..3).prop_map(
        |(late, age, length, how)| Life {
            entry: if late { age } else { 0 },
            exit: if late { age + length } else { length },
            ended: how > 0,
        },
    );
    prop::collection::vec(life, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 512,
        rng_seed: RngSeed::Fixed(1958),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_curve_is_that_of_the_definition(lives in lives(), keep in any::<u8>()) {
        let mut survival = Survival::new(exact(200));
        let now = 1000;
        let mut present = Vec::new();
        for (number, life) in lives.iter().enumerate() {
            let hole = hole(number, now - life.exit);
            survival.opened(&hole, hole.since + Span::from_secs(life.entry));
            if life.ended {
                survival.closed(&hole, at(now));
            } else if (number as u8).wrapping_mul(keep) % 2 == 0 {
                survival.lost(&hole, at(now));
            } else {
                present.push(hole);
            }
        }
        let curve = survival.curve(at(now), &present);
        let reach = curve.reach_s() as i64;
        for age in 1..=reach {
            let (found, expected) = (curve.open(age as f64), naive(&lives, age));
            prop_assert!((found - expected).abs() < 1e-9, "age {age}: {found} {expected}");
        }
    }

    #[test]
    fn every_forecast_is_a_survival_curve(
        ends in prop::collection::vec((0i64..10_000, 0i64..5000), 30..200),
        starts in prop::collection::vec(0i64..20_000, 1..50),
    ) {
        let mut survival = Survival::new(Settings::default());
        for (number, (since, length)) in ends.into_iter().enumerate() {
            survival.closed(&hole(number, since), at(since + length));
        }
        let present: Vec<Hole> =
            starts.into_iter().enumerate().map(|(n, since)| hole(n, since)).collect();
        let forecasts = survival.forecast(at(20_000), &present);
        prop_assert_eq!(forecasts.index.len(), present.len());
        for forecast in &forecasts.forecasts {
            let mut before = (0.0, 1.0);
            for point in &forecast.points {
                prop_assert!(point.after_s > before.0 && point.open <= before.1);
                prop_assert!((0.0..=1.0).contains(&point.open));
                before = (point.after_s, point.open);
            }
        }
    }
}
