//! Forecast skill: by hand on a few nodes, and on the recorded trace.

use lacuna_forecast::{Choice, OrderBy};
use lacuna_model::{HoleRecord, Timestamp};
use lacuna_sim::HoleTrace;
use lacuna_sim::skill::{AfterTraining, Evaluation, SampleTimes, SkillOptions, evaluate};
use lacuna_skip::or_skip;

use crate::common::{Summit, hole, hole_of};

fn constant(length_s: f64) -> (String, Choice) {
    (
        format!("constant {length_s} s"),
        Choice::Constant { length_s },
    )
}

fn survival() -> (String, Choice) {
    ("survival".to_owned(), Choice::survival())
}

fn evaluated(trace: &HoleTrace, options: &SkillOptions) -> Evaluation {
    println!("seed {}", options.seed);
    evaluate(trace, options, &mut |_| {}).unwrap()
}

/// One node that is idle for 100 s in each 101 s: at a moment within a hole it is open a minute
/// later if the hole is younger than 40 s.
#[test]
fn a_constant_is_scored_as_by_hand() {
    let records: Vec<HoleRecord> = (0..2000)
        .map(|at| hole(0, at * 101, at * 101 + 100))
        .collect();
    let trace = HoleTrace::new(&records, None, Timestamp::from_unix(0), None);
    let options = SkillOptions {
        predictors: vec![constant(120.0)],
        moments: SampleTimes::Times(4000),
        ..SkillOptions::default()
    };
    let found = evaluated(&trace, &options);
    // Now and then a moment falls between two holes.
    assert!((3900..4000).contains(&found.holes), "{}", found.holes);
    let minute = &found.predictors[0].horizons[0];
    assert_eq!(minute.bins.len(), 1);
    assert_eq!(minute.bins[0].predicted, 1.0);
    assert!((minute.bins[0].observed - 0.4).abs() < 0.03, "{minute:?}");
    // Each forecast of open is wrong by one where the hole had closed.
    let wrong = 1.0 - minute.bins[0].observed;
    assert!((minute.brier.unwrap() - wrong).abs() < 1e-12);
    assert!((minute.calibration_error.unwrap() - wrong).abs() < 1e-12);
    assert!((minute.in_the_large.unwrap() - wrong).abs() < 1e-12);
    let five = &found.predictors[0].horizons[1];
    assert_eq!((five.open, five.brier, five.skill), (0, Some(0.0), None));
    // Questions of the last five minutes have no answer five minutes later.
    assert!(
        (1..12).contains(&(found.holes - five.answered)),
        "{} of {}",
        five.answered,
        found.holes
    );
    // All forecasts are equal, and each moment has one hole.
    let order = found.predictors[0].concordance;
    assert_eq!((order.all, order.within), (Some(0.5), None));
    // A hole lasts 50 s more in the mean and 120 s were forecast: the median loses half of 70 s.
    let median = &found.predictors[0].quantiles[1];
    assert!((median.loss_s.unwrap() - 35.0).abs() < 2.0, "{median:?}");
    assert!((median.loss_of_constant_s.unwrap() - 12.5).abs() < 1.0);
    assert_eq!(median.coverage, Some(1.0));
}

/// Node `a` is idle for 10 s, node `b` from the same moment on for 200 s, each time.
fn two_nodes(rounds: i64) -> HoleTrace {
    let records: Vec<HoleRecord> = (0..rounds)
        .flat_map(|at| {
            let from = at * 300;
            [
                hole_of("a", from, from + 10),
                hole_of("b", from, from + 200),
            ]
        })
        .collect();
    HoleTrace::new(&records, None, Timestamp::from_unix(0), None)
}

#[test]
fn questions_are_drawn_right_after_events() {
    let trace = two_nodes(100);
    let options = SkillOptions {
        predictors: vec![constant(60.0)],
        moments: SampleTimes::Events(1_000_000),
        ..SkillOptions::default()
    };
    let found = evaluated(&trace, &options);
    // Three events a round, but the last end is the end of the trace. At the first of a
    // round both are there, at the second b alone, at the third none.
    assert_eq!((found.events, found.every), (299, Some(1)));
    assert_eq!((found.moments, found.holes), (200, 300));
    assert_eq!(found.unended, 2);
    let order = found.predictors[0].concordance;
    assert_eq!((order.within_pairs, order.within), (100, Some(0.5)));
    let minute = &found.predictors[0].horizons[0];
    assert_eq!((minute.answered, minute.open), (300, 200));
    // Half as many moments: one for two events.
    let options = SkillOptions {
        moments: SampleTimes::Events(150),
        ..options
    };
    let found = evaluated(&trace, &options);
    assert_eq!(found.every, Some(2));
    assert!((99..=101).contains(&found.moments), "{}", found.moments);
}

#[test]
fn questions_begin_after_training_and_frozen_predictors_learn_nothing_more() {
    // Holes of a minute for a day, then of an hour.
    let mut records: Vec<HoleRecord> = (0..200)
        .map(|at| hole(0, at * 400, at * 400 + 60))
        .collect();
    let turn = 200 * 400;
    records.extend((0..100).map(|at| hole(0, turn + at * 7200, turn + at * 7200 + 3600)));
    let trace = HoleTrace::new(&records, None, Timestamp::from_unix(0), None);
    let options = SkillOptions {
        predictors: vec![survival(), constant(60.0)],
        train_until: Some(Timestamp::from_unix(turn)),
        moments: SampleTimes::Events(1000),
        ..SkillOptions::default()
    };
    let learns = evaluated(&trace, &options);
    assert_eq!(
        (learns.events, learns.moments, learns.too_young),
        (199, 100, 0)
    );
    let frozen = evaluated(
        &trace,
        &SkillOptions {
            after: AfterTraining::Freeze,
            ..options.clone()
        },
    );
    // Five minutes later all were open, which a learning predictor learns.
    let five = |found: &Evaluation, at: usize| found.predictors[at].horizons[1].brier.unwrap();
    assert!(five(&frozen, 0) > 0.99, "{}", five(&frozen, 0));
    assert!(five(&learns, 0) < 0.7, "{}", five(&learns, 0));
    assert_eq!(five(&frozen, 1), five(&learns, 1));
}

/// A predictor that is too young prevents questions to all.
#[test]
fn all_are_scored_on_the_same_questions() {
    let trace = two_nodes(100);
    let options = SkillOptions {
        predictors: vec![constant(60.0), survival()],
        moments: SampleTimes::Events(1000),
        ..SkillOptions::default()
    };
    let found = evaluated(&trace, &options);
    // Thirty ends make fifteen rounds of two moments each.
    assert_eq!((found.too_young, found.moments), (30, 170));
    let answered: Vec<u64> = found
        .predictors
        .iter()
        .map(|predictor| predictor.horizons[0].answered)
        .collect();
    assert_eq!(answered[0], answered[1]);
}

#[test]
fn a_recording_without_an_answer_gives_no_figures() {
    let trace = HoleTrace::new(&[hole(0, 0, 30)], None, Timestamp::from_unix(0), None);
    let options = SkillOptions {
        predictors: vec![constant(60.0)],
        moments: SampleTimes::Events(10),
        ..SkillOptions::default()
    };
    let found = evaluated(&trace, &options);
    assert_eq!((found.holes, found.unended), (1, 1));
    let predictor = &found.predictors[0];
    assert!(
        predictor
            .horizons
            .iter()
            .all(|h| h.brier.is_none() && h.skill.is_none())
    );
    assert!(predictor.quantiles.iter().all(|q| q.loss_s.is_none()));
    assert_eq!(predictor.concordance.all, None);
}

#[test]
fn forecasts_of_the_recorded_pool_are_better_than_the_base_rate() {
    let summit = or_skip!(Summit::open());
    let trace = summit.whole();
    let options = SkillOptions::default();
    let found = evaluated(&trace, &options);
    println!("{} holes at {} moments", found.holes, found.moments);
    for predictor in &found.predictors {
        for score in &predictor.horizons {
            println!(
                "{} {} s: Brier {:.4}, base rate {:.4}, skill {:+.3}, {} of {} open",
                predictor.label,
                score.horizon_s,
                score.brier.unwrap(),
                score.brier_of_base_rate.unwrap(),
                score.skill.unwrap(),
                score.open,
                score.answered
            );
        }
    }
    let survival = &found.predictors[0];
    assert!(found.moments > 900, "{}", found.moments);
    for score in &survival.horizons {
        assert!(score.skill.unwrap() > 0.0, "{score:?}");
        assert!(score.answered > 20_000, "{score:?}");
    }
    // By a constant of two minutes no hole is open after five.
    let constant = &found.predictors[1].horizons[1];
    assert_eq!(constant.bins.len(), 1);
    assert_eq!(constant.bins[0].predicted, 0.0);
    assert_eq!(evaluated(&trace, &options), found);
}

/// The front of the order of names is taken each time; of the reverse, the end.
#[test]
fn an_order_is_recognised_by_departures() {
    let trace = two_nodes(100);
    let place = |order| {
        let options = SkillOptions {
            predictors: vec![constant(60.0)],
            order,
            ..SkillOptions::default()
        };
        evaluated(&trace, &options).order
    };
    let found = place(OrderBy::Names).unwrap();
    assert_eq!((found.events, found.place), (100, Some(0.0)));
    assert!(found.holds && !found.reversed);
    let turned = place(OrderBy::List(vec!["b".to_owned(), "a".to_owned()])).unwrap();
    assert_eq!(turned.place, Some(1.0));
    assert!(turned.reversed && !turned.holds);
    assert_eq!(place(OrderBy::None), None);
}

/// Three of four leave: the places 0, 1 and 3 have the mean 4/3, one more than the front's 1; and
/// the event of three weighs three times as much as one that takes the last of two.
#[test]
fn places_are_those_of_mann_and_whitney_weighted_by_nodes() {
    let mut records: Vec<HoleRecord> = Vec::new();
    for round in 0..20 {
        let at = round * 1000;
        let until = [50, 50, 100, 50];
        for (node, until) in ["n1", "n2", "n3", "n4"].iter().zip(until) {
            records.push(hole_of(node, at, at + until));
        }
        records.push(hole_of("n9", at + 200, at + 300));
        records.push(hole_of("n10", at + 200, at + 250));
    }
    let trace = HoleTrace::new(&records, None, Timestamp::from_unix(0), None);
    let options = SkillOptions {
        predictors: vec![constant(60.0)],
        order: OrderBy::Names,
        ..SkillOptions::default()
    };
    let order = evaluated(&trace, &options).order.unwrap();
    assert_eq!((order.events, order.nodes), (40, 80));
    let (by_node, by_event) = ((3.0 * (1.0 / 3.0) + 1.0) / 4.0, (1.0 / 3.0 + 1.0) / 2.0);
    assert!((order.place.unwrap() - by_node).abs() < 1e-12, "{order:?}");
    assert!(
        (order.by_event.unwrap() - by_event).abs() < 1e-12,
        "{order:?}"
    );
    assert!(!order.holds && !order.reversed, "{order:?}");
}

/// Half of the moments have a hole that stays, half one that goes, and all are forecast to stay.
#[test]
fn errors_are_those_of_the_moments() {
    let records: Vec<HoleRecord> = (0..400)
        .map(|at| hole(0, at * 400, at * 400 + if at % 2 == 0 { 30 } else { 200 }))
        .collect();
    let end = Some(Timestamp::from_unix(161_000));
    let trace = HoleTrace::new(&records, None, Timestamp::from_unix(0), end);
    let options = SkillOptions {
        predictors: vec![constant(120.0)],
        moments: SampleTimes::Events(10_000),
        ..SkillOptions::default()
    };
    let found = evaluated(&trace, &options);
    assert_eq!(found.moments, 400);
    let minute = &found.predictors[0].horizons[0];
    // Each moment adds 1/4 to the base and 0 or 1 to the score: the ratio is 2, so the skill -1,
    // and moments are off by 1/2 each way.
    assert!((minute.skill.unwrap() + 1.0).abs() < 1e-12, "{minute:?}");
    let error = (400.0 * 0.25 * 400.0 / 399.0_f64).sqrt() / 100.0;
    assert!(
        (minute.skill_error.unwrap() - error).abs() < 1e-12,
        "{minute:?}"
    );
}

/// While predictors learn, one hole in four outlasts the minute; later every second does.
#[test]
fn the_training_constant_uses_answers_known_when_scoring_begins() {
    let length = |at: i64| match at {
        ..200 => at % 4 == 3,
        _ => at % 2 == 1,
    };
    let records: Vec<HoleRecord> = (0..400)
        .map(|at| hole(0, at * 400, at * 400 + if length(at) { 200 } else { 30 }))
        .collect();
    let options = SkillOptions {
        predictors: vec![constant(120.0)],
        // Scoring begins while a hole is open whose length is not known yet.
        train_until: Some(Timestamp::from_unix(200 * 400 - 370)),
        moments: SampleTimes::Events(10_000),
        ..SkillOptions::default()
    };
    let end = Some(Timestamp::from_unix(161_000));
    let trace = HoleTrace::new(&records, None, Timestamp::from_unix(0), end);
    let minute = |found: &Evaluation| found.predictors[0].horizons[0].clone();
    let found = minute(&evaluated(&trace, &options));
    let learnt = found.constant.unwrap();
    assert!((learnt - 49.0 / 199.0).abs() < 1e-12, "{learnt}");
    let open = found.open as f64 / found.answered as f64;
    let score = open * (1.0 - learnt).powi(2) + (1.0 - open) * learnt.powi(2);
    assert!((found.brier_of_constant.unwrap() - score).abs() < 1e-12);
    let skill = 1.0 - found.brier.unwrap() / score;
    assert!((found.skill_over_constant.unwrap() - skill).abs() < 1e-12);
    // A constant with the right share is no worse than the training constant.
    assert!(found.skill_over_constant.unwrap() > found.skill.unwrap());
    // Later holes do not change it, and moments spread over time give the same constant.
    let shorter = HoleTrace::new(&records[..250], None, Timestamp::from_unix(0), end);
    assert_eq!(
        minute(&evaluated(&shorter, &options)).constant,
        Some(learnt)
    );
    let times = SkillOptions {
        moments: SampleTimes::Times(2000),
        ..options.clone()
    };
    let by_time = minute(&evaluated(&trace, &times)).constant.unwrap();
    // Of a hole of 200 s, 140 s have a minute left; one of 30 s never has.
    let expected = 50.0 * 140.0 / (50.0 * 200.0 + 150.0 * 30.0);
    assert!((by_time - expected).abs() < 0.05, "{by_time} {expected}");
    let without = SkillOptions {
        train_until: None,
        ..options
    };
    assert_eq!(minute(&evaluated(&trace, &without)).constant, None);
}

/// At one moment a single hole goes, at another three stay, and all are forecast to stay.
#[test]
fn a_moment_of_many_holes_counts_as_much_as_one_of_few() {
    let mut records: Vec<HoleRecord> = Vec::new();
    for round in 0..50 {
        records.push(hole_of("a", round * 1000, round * 1000 + 30));
        for node in ["b", "c", "d"] {
            records.push(hole_of(node, round * 1000 + 400, round * 1000 + 700));
        }
    }
    let end = Some(Timestamp::from_unix(60_000));
    let trace = HoleTrace::new(&records, None, Timestamp::from_unix(0), end);
    let options = SkillOptions {
        predictors: vec![constant(120.0)],
        moments: SampleTimes::Events(10_000),
        ..SkillOptions::default()
    };
    let found = evaluated(&trace, &options);
    let minute = &found.predictors[0].horizons[0];
    assert_eq!((minute.answered, minute.open), (200, 150));
    // By hole one in four is wrong, where the base rate scores 3/16; by moment one in two, where
    // it scores 1/4.
    assert!(
        (minute.skill.unwrap() + 1.0 / 3.0).abs() < 1e-12,
        "{minute:?}"
    );
    assert!(
        (minute.skill_by_event.unwrap() + 1.0).abs() < 1e-12,
        "{minute:?}"
    );
}
