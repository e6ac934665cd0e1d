//! Models learnt from a trace, and replays that start with them.

use std::sync::Arc;

use lacuna_forecast::{LearningStage, Unfit};
use lacuna_model::{HoleRecord, Policy, Timestamp};
use lacuna_sim::{HoleTrace, Hooks, Settings, SimError, Summary, learn, replay};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::common::{hole_of, trainer};

/// The moment up to which a model learns, and the end, seconds.
const PAST: i64 = 200_000;
const END: i64 = 260_000;

/// Holes of twenty nodes; those of low numbers are shorter.
fn holes(name: &str) -> Vec<HoleRecord> {
    let seed = 7;
    println!("seed {seed}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut holes = Vec::new();
    for node in 0..20 {
        let mut at = 0;
        loop {
            let from = at + rng.random_range(300..6000);
            at = from + rng.random_range(30..300 * (node + 1));
            if at >= END {
                break;
            }
            holes.push(hole_of(&format!("{name}{node:02}"), from, at));
        }
    }
    holes.sort_by_key(|hole| hole.from);
    holes
}

fn trace(holes: &[HoleRecord], from: i64, until: i64) -> HoleTrace {
    let at = Timestamp::from_unix;
    HoleTrace::new(holes, None, at(from), Some(at(until)))
}

fn settings() -> Settings {
    Settings {
        policy: Policy::Forecast,
        endless: true,
        cost_scale: 10.0,
        ..Settings::published()
    }
}

fn from_past(trace: &HoleTrace, settings: &Settings) -> Result<Summary, SimError> {
    let mut progress = |_| {};
    let mut hooks = Hooks::new(&|| 0.0, &mut progress);
    let trainers = [trainer(0, 10, 1e9), trainer(1, 10, 1e9)];
    Ok(replay(trace, &trainers, settings, None, &mut hooks)?.summary)
}

#[test]
fn a_replay_that_starts_with_a_model_learns_nothing_twice() {
    let holes = holes("n");
    let lesson = learn(&trace(&holes, 0, PAST), &settings(), false, &mut |_| {}).unwrap();
    assert!(matches!(lesson.learning, LearningStage::Learnt { .. }));
    let from = lesson.learnt.from();
    assert_eq!(from.until, Timestamp::from_unix(PAST));
    let ended = holes.iter().filter(|hole| hole.until < from.until).count();
    assert_eq!(from.ended, ended as u64);
    let mut learnt = settings();
    learnt.forecast.model = Some(Arc::new(lesson.learnt));
    let past = Timestamp::from_unix(PAST);
    let rest = holes.iter().filter(|hole| hole.until > past);
    let rest: Vec<HoleRecord> = rest.cloned().collect();
    // On a trace with its past, and on one without.
    let with_past = from_past(&trace(&holes, PAST, END), &learnt).unwrap();
    let without = from_past(&trace(&rest, PAST, END), &learnt).unwrap();
    assert!(with_past.history_holes > 200 && without.history_holes == 0);
    assert_eq!(with_past.samples.to_bits(), without.samples.to_bits());
    assert_eq!(with_past.order, without.order);
    let cold = from_past(&trace(&rest, PAST, END), &settings()).unwrap();
    assert_ne!(cold.order, without.order);
}

#[test]
fn a_model_of_another_machine_or_of_the_future_starts_no_replay() {
    let holes = holes("n");
    let all = learn(&trace(&holes, 0, END), &settings(), false, &mut |_| {}).unwrap();
    let mut learnt = settings();
    learnt.forecast.model = Some(Arc::new(all.learnt));
    let refused = from_past(&trace(&holes, PAST, END), &learnt);
    assert!(matches!(refused, Err(SimError::Model(Unfit::Ahead { .. }))));
    let others: Vec<HoleRecord> = self::holes("x");
    let refused = from_past(&trace(&others, PAST, END), &learnt);
    let is_foreign = matches!(refused, Err(SimError::Model(Unfit::OtherMachine { .. })));
    assert!(is_foreign);
}
