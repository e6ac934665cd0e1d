//! The measures of skill against their definitions, by slow code or by hand.

use lacuna_forecast::skill::{
    Brier, Concordance, LEVELS, Pinball, Ranked, best_constant, concordance,
};
use lacuna_forecast::{Predictor, Settings, Survival};
use lacuna_model::{Hole, NodeId, Timestamp};
use proptest::prelude::*;

/// Harrell's definition, pair by pair.
fn pair_by_pair(set: &[Ranked]) -> Concordance {
    let mut found = Concordance::default();
    for (at, a) in set.iter().enumerate() {
        for b in set.iter().skip(at + 1) {
            let (short, long) = if a.length_s < b.length_s || (a.length_s == b.length_s && a.ended)
            {
                (a, b)
            } else {
                (b, a)
            };
            let same_time = short.length_s == long.length_s;
            if !short.ended || (same_time && long.ended) {
                continue;
            }
            found.comparable += 1;
            found.tied += u64::from(short.expected == long.expected);
            found.concordant += u64::from(short.expected < long.expected);
        }
    }
    found
}

/// Few distinct values, so that ties of every kind occur.
fn ranked() -> impl Strategy<Value = Ranked> {
    (-6_i32..6, 0_i32..12, any::<bool>()).prop_map(|(expected, length, ended)| Ranked {
        expected: f64::from(expected) * 0.5,
        length_s: f64::from(length),
        ended,
    })
}

proptest! {
    #[test]
    fn concordance_counts_the_pairs_of_its_definition(
        mut set in proptest::collection::vec(ranked(), 0..80)
    ) {
        let expected = pair_by_pair(&set);
        prop_assert_eq!(concordance(&mut set), expected);
    }

    #[test]
    fn the_order_of_the_set_changes_nothing(
        set in proptest::collection::vec(ranked(), 0..40)
    ) {
        let mut turned: Vec<Ranked> = set.iter().rev().copied().collect();
        prop_assert_eq!(concordance(&mut turned), concordance(&mut set.clone()));
    }

    #[test]
    fn sums_are_those_of_the_definitions(
        answers in proptest::collection::vec((0.0_f64..=1.0, any::<bool>()), 1..200)
    ) {
        let mut brier = Brier::new();
        for &(predicted, open) in &answers {
            brier.add(predicted, open);
        }
        let n = answers.len() as f64;
        let outcome = |open: bool| f64::from(u8::from(open));
        let mean = |each: &dyn Fn(f64, f64) -> f64| {
            answers.iter().map(|&(p, open)| each(p, outcome(open))).sum::<f64>() / n
        };
        let rate = mean(&|_, open| open);
        prop_assert!((brier.score().unwrap() - mean(&|p, open| (p - open).powi(2))).abs() < 1e-12);
        let lost = mean(&|p, open| -(if open > 0.5 { p } else { 1.0 - p }).max(1e-4).ln());
        prop_assert!((brier.log_loss().unwrap() - lost).abs() < 1e-12);
        let base = mean(&|_, open| (rate - open).powi(2));
        prop_assert!((brier.of_base_rate().unwrap() - base).abs() < 1e-12);
        prop_assert!((brier.in_the_large().unwrap() - mean(&|p, open| p - open)).abs() < 1e-12);
        let mut error = 0.0;
        for tenth in 0..10 {
            let within = |p: f64| (p * 10.0) as usize == tenth || (tenth == 9 && p >= 1.0);
            error += mean(&|p, open| if within(p) { p - open } else { 0.0 }).abs();
        }
        prop_assert!((brier.calibration_error().unwrap() - error).abs() < 1e-12);
        prop_assert_eq!(brier.bins().iter().map(|bin| bin.count).sum::<u64>(), answers.len() as u64);
    }

    #[test]
    fn no_constant_loses_less_than_the_best(
        mut lengths in proptest::collection::vec(0.0_f64..3600.0, 1..60),
        other in 0.0_f64..3600.0,
    ) {
        for level in LEVELS {
            let best = best_constant(level, &mut lengths).unwrap();
            let mut tried = Pinball::new(level);
            for &length in &lengths {
                tried.add(other, length);
            }
            prop_assert!(best <= tried.loss().unwrap() + 1e-9);
        }
    }
}

#[test]
fn measures_of_a_case_by_hand() {
    let one = |expected, length_s, ended| Ranked {
        expected,
        length_s,
        ended,
    };
    // The first is shortest, the third has the forecast of the first, the last is censored.
    let mut set = [
        one(5.0, 10.0, true),
        one(9.0, 20.0, true),
        one(5.0, 30.0, true),
        one(1.0, 20.0, false),
    ];
    // 1-2 right, 1-3 tied, 1-4 wrong, 2-3 wrong, 2-4 wrong, 3-4 not comparable.
    let found = concordance(&mut set);
    assert_eq!(
        found,
        Concordance {
            concordant: 1,
            tied: 1,
            comparable: 5
        }
    );
    assert_eq!(found.share(), Some(0.3));
    assert_eq!(concordance(&mut []).share(), None);
}

#[test]
fn a_forecast_of_nan_is_the_worst_and_does_no_harm() {
    let one = |expected, length_s| Ranked {
        expected,
        length_s,
        ended: true,
    };
    let mut set = [one(f64::NAN, 9.0), one(-0.0, 1.0), one(0.0, 2.0)];
    let found = concordance(&mut set);
    assert_eq!((found.concordant, found.tied, found.comparable), (0, 1, 3));
    let mut brier = Brier::new();
    brier.add(f64::NAN, true);
    brier.add(7.0, true);
    brier.add(-1.0, false);
    assert_eq!(brier.score(), Some(0.25 / 3.0));
}

#[test]
fn a_large_set_is_ranked_quickly() {
    // A pair-by-pair comparison would take 2 · 10^10 steps.
    let mut state = 7_u64;
    let mut draw = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as f64
    };
    let mut set: Vec<Ranked> = (0..200_000)
        .map(|_| {
            let length_s = draw();
            Ranked {
                expected: length_s,
                length_s,
                ended: true,
            }
        })
        .collect();
    assert_eq!(concordance(&mut set).share(), Some(1.0));
    for one in &mut set {
        one.expected = draw();
    }
    let share = concordance(&mut set).share().unwrap();
    assert!((share - 0.5).abs() < 0.005, "{share}");
}

/// Holes last one minute before the freeze and an hour after it: the forecast stays at a minute.
#[test]
fn a_frozen_curve_learns_nothing_more() {
    let hole = |since| Hole {
        node: NodeId::new("n1").unwrap(),
        since: Timestamp::from_unix(since),
    };
    let mut learns = Survival::new(Settings::default());
    let mut frozen = learns.clone();
    let open = |survival: &mut Survival, since: i64| {
        let forecasts = survival.forecast(Timestamp::from_unix(since), &[hole(since)]);
        forecasts.of(0).unwrap().open_after(300.0)
    };
    for (count, length_s) in [(100, 60), (400, 3600)] {
        for number in 0..count {
            let since = i64::from(length_s) * 10_000 + i64::from(number) * 4000;
            for survival in [&mut learns, &mut frozen] {
                survival.opened(&hole(since), Timestamp::from_unix(since));
                let until = since + i64::from(length_s);
                survival.closed(&hole(since), Timestamp::from_unix(until));
            }
        }
        frozen.freeze();
        if length_s == 60 {
            assert!(open(&mut frozen, 1_000_000) < 0.1);
        }
    }
    assert!(open(&mut frozen, 40_000_000) < 0.1);
    assert!(open(&mut learns, 40_000_000) > 0.7);
}
