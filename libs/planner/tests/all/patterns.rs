//! The programme over patterns: against trying everything, its floor, its limits, its outcomes.

use std::cell::Cell;
use std::collections::HashMap;
use std::time::Duration;

use lacuna_model::Outcome;
use lacuna_planner::instance::Size;
use lacuna_planner::patterns::{
    Answer, Charges, Column, Error, Options, Pattern, Patterns, Runs, RunsError, Shape, Situation,
    Source, Trainer, instance, solve,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A clock that stands still: limits on time do nothing, and answers are the same everywhere.
const STILL: &dyn Fn() -> f64 = &|| 0.0;

fn answer(runs: &mut Runs, warm: &[Column], options: &Options<'_>) -> Answer {
    let capacity = runs.capacity().to_vec();
    let answer = solve(runs, &capacity, warm, options).unwrap();
    assert_sound(runs, &answer, &capacity);
    answer
}

/// One pattern a trainer, classes not overdrawn, values true, the sum right, above the floor.
fn assert_sound(runs: &mut Runs, answer: &Answer, capacity: &[u32]) {
    assert_eq!(answer.chosen.len(), runs.trainers());
    let mut used = vec![0_i64; capacity.len()];
    let mut keep = 0.0;
    for (j, column) in answer.chosen.iter().enumerate() {
        assert_eq!(column.trainer as usize, j);
        for &(k, n) in &column.take {
            used[k as usize] += i64::from(n);
        }
        keep += runs.keep(j).value;
    }
    for (used, &capacity) in used.iter().zip(capacity) {
        assert!(*used <= i64::from(capacity), "{used} of {capacity}");
    }
    let sum: f64 = answer.chosen.iter().map(|c| c.value).sum();
    assert!((sum - answer.objective).abs() <= 1e-9 * sum.abs());
    assert!(answer.objective >= keep, "{} {keep}", answer.objective);
    let apart = (answer.bound - answer.objective).max(0.0);
    let told = answer.gap() * answer.objective.abs();
    assert!(told.is_nan() || (told - apart).abs() <= 1e-9 * apart || told == apart);
}

/// Node sets with the charge for coming to them.
type Family = Vec<(Vec<u32>, f64)>;

/// A small pool of random classes, scenarios and trainers, some hit, some without nodes.
fn small(seed: u64) -> (Runs, Vec<Trainer>, Vec<Vec<f64>>) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let classes = rng.random_range(1..4);
    let mut free: Vec<u32> = (0..classes).map(|_| rng.random_range(1..5)).collect();
    let leaves: Vec<Vec<f64>> = (0..rng.random_range(1..4))
        .map(|_| {
            let moments = [10.0, 50.0, 50.0, 120.0, 400.0, f64::INFINITY];
            let pick = |_| moments[rng.random_range(0..moments.len())];
            (0..classes).map(pick).collect()
        })
        .collect();
    let trainers: Vec<Trainer> = (0..rng.random_range(1..4))
        .map(|_| {
            let mut held = Vec::new();
            for (k, left) in (0..).zip(&mut free) {
                let part = rng.random_range(0..=*left / 2);
                if part > 0 {
                    held.push((k, part));
                    *left -= part;
                }
            }
            let mut rate = 0.0;
            let mut rates = vec![0.0];
            for _ in 0..rng.random_range(3..9) {
                // Neither concave nor convex, and of no use at some sizes.
                rate += rng.random_range(0.0..10.0) * f64::from(u8::from(rng.random_bool(0.8)));
                rates.push(rate);
            }
            let any = (held.is_empty() || rng.random_bool(0.4)).then_some(0.0);
            Trainer {
                held,
                rates: rates.into(),
                stall_s: rng.random_range(0.0..30.0),
                charges: Charges {
                    grow: rng.random_range(0.0..500.0),
                    shrink: rng.random_range(0.0..300.0),
                    any,
                },
            }
        })
        .collect();
    let runs = Runs::new(200.0, free, leaves.clone(), trainers.clone()).unwrap();
    (runs, trainers, leaves)
}

/// All patterns of a trainer, by the words of the family and nothing of the tables: what each
/// makes it hold, with the charge.
fn family(runs: &Runs, trainers: &[Trainer], j: usize) -> Family {
    let trainer = &trainers[j];
    let free = runs.capacity();
    let classes = free.len();
    let dense = |trainer: &Trainer| {
        let mut counts = vec![0; classes];
        for &(k, n) in &trainer.held {
            counts[k as usize] = n;
        }
        counts
    };
    let held = dense(trainer);
    let all: Vec<u32> = (0..classes)
        .map(|k| free[k] + trainers.iter().map(|t| dense(t)[k]).sum::<u32>())
        .collect();
    let loose: Vec<u32> = (0..classes)
        .map(|k| {
            let any = trainers.iter().filter(|t| t.charges.any.is_some());
            free[k] + any.map(|t| dense(t)[k]).sum::<u32>()
        })
        .collect();
    let max = trainer.rates.len() as u32 - 1;
    let mut family = vec![(held.clone(), 0.0)];
    // Shrinking gives back from the front.
    let shrink = trainer.charges.any.map_or(trainer.charges.shrink, |any| {
        any.min(trainer.charges.shrink)
    });
    let mut left = held.clone();
    while let Some(front) = left.iter().position(|&n| n > 0) {
        left[front] -= 1;
        family.push((left.clone(), shrink));
    }
    let mut bases = vec![(held.clone(), trainer.charges.grow, true)];
    if let Some(any) = trainer.charges.any {
        bases.push((vec![0; classes], any, false));
    }
    for (base, charge, grows) in bases {
        let own = |k: usize| if grows { held[k] } else { 0 };
        let to_have = |k: usize| {
            let mine = if trainer.charges.any.is_some() {
                own(k)
            } else {
                0
            };
            loose[k] - mine
        };
        for from in 0..classes {
            let back: Vec<usize> = (0..=from).rev().collect();
            let forth: Vec<usize> = (from..classes).collect();
            for (walk, quarters) in [back, forth]
                .iter()
                .flat_map(|w| (1..=4).map(move |q| (w, q)))
            {
                let mut now = base.clone();
                for &k in walk {
                    let part = if k == from {
                        to_have(k) * quarters / 4
                    } else {
                        to_have(k)
                    };
                    let most = if k == from && quarters == 4 {
                        all[k] - own(k)
                    } else {
                        part
                    };
                    for m in 1..=most {
                        let mut then = now.clone();
                        then[k] += m;
                        // A part of the first class alone is a pattern by any quarter.
                        if then.iter().sum::<u32>() <= max {
                            family.push((then, charge));
                        }
                    }
                    if part == 0 && k == from {
                        break;
                    }
                    now[k] += part;
                }
            }
        }
    }
    family
}

/// More than any pattern can be: all node sets that a trainer could come to, with the charge.
fn wide(runs: &Runs, trainers: &[Trainer], j: usize) -> Family {
    let trainer = &trainers[j];
    let mut all = runs.capacity().to_vec();
    for &(k, n) in trainers.iter().flat_map(|t| &t.held) {
        all[k as usize] += n;
    }
    let mut held = vec![0; all.len()];
    for &(k, n) in &trainer.held {
        held[k as usize] = n;
    }
    let mut sets: Vec<Vec<u32>> = vec![Vec::new()];
    for &most in &all {
        let longer = |set: &Vec<u32>| -> Vec<Vec<u32>> {
            (0..=most)
                .map(|n| [set.as_slice(), &[n]].concat())
                .collect()
        };
        sets = sets.iter().flat_map(longer).collect();
    }
    let max = trainer.rates.len() as u32 - 1;
    let charges = &trainer.charges;
    let charge = |set: &Vec<u32>| {
        let pairs = || set.iter().zip(&held);
        let kind = if *set == held {
            Some(0.0)
        } else if pairs().all(|(n, h)| n >= h) {
            Some(charges.grow)
        } else if pairs().all(|(n, h)| n <= h) {
            Some(charges.shrink)
        } else {
            None
        };
        let any = charges.any.unwrap_or(f64::INFINITY);
        Some(kind.unwrap_or(f64::INFINITY).min(any)).filter(|c| c.is_finite())
    };
    let fits = |set: &Vec<u32>| *set == held || set.iter().sum::<u32>() <= max;
    let sets = sets.into_iter().filter(fits);
    sets.filter_map(|set| charge(&set).map(|c| (set, c)))
        .collect()
}

/// What a node set is worth, second by second of events, from the definition.
fn worth(trainer: &Trainer, leaves: &[Vec<f64>], nodes: &[u32], horizon: f64) -> f64 {
    let rate = |n: u32| trainer.rates[(n as usize).min(trainer.rates.len() - 1)];
    let mut sum = 0.0;
    for scenario in leaves {
        let alive = |t: f64| -> u32 {
            let stays = |&(k, _): &(usize, &u32)| scenario[k] > t;
            nodes.iter().enumerate().filter(stays).map(|(_, n)| n).sum()
        };
        let mut moments: Vec<f64> = scenario.iter().copied().filter(|&t| t < horizon).collect();
        moments.sort_by(f64::total_cmp);
        moments.dedup();
        let mut now = 0.0;
        let mut before: u32 = nodes.iter().sum();
        for t in moments {
            sum += (t - now) * rate(before);
            if alive(t) < before {
                sum -= trainer.stall_s * rate(before);
            }
            (now, before) = (t, alive(t));
        }
        sum += (horizon - now) * rate(before);
    }
    sum / leaves.len() as f64
}

/// The best choice over all combinations of the families.
fn try_everything(
    runs: &Runs,
    trainers: &[Trainer],
    leaves: &[Vec<f64>],
    family: fn(&Runs, &[Trainer], usize) -> Family,
) -> f64 {
    let capacity = runs.capacity();
    // For each way to use up the classes, the best so far.
    let start: Vec<i64> = capacity.iter().map(|&c| i64::from(c)).collect();
    let mut states: HashMap<Vec<i64>, f64> = HashMap::from([(start, 0.0)]);
    for (j, trainer) in trainers.iter().enumerate() {
        let mut held = vec![0_i64; capacity.len()];
        for &(k, n) in &trainer.held {
            held[k as usize] = i64::from(n);
        }
        let family: Vec<(Vec<i64>, f64)> = family(runs, trainers, j)
            .into_iter()
            .map(|(nodes, charge)| {
                let value = worth(trainer, leaves, &nodes, 200.0) - charge;
                let take = nodes.iter().zip(&held).map(|(&n, h)| i64::from(n) - h);
                (take.collect(), value)
            })
            .collect();
        let mut next: HashMap<Vec<i64>, f64> = HashMap::new();
        for (left, value) in &states {
            for (take, more) in &family {
                let left: Vec<i64> = left.iter().zip(take).map(|(l, t)| l - t).collect();
                let best = next.entry(left).or_insert(f64::NEG_INFINITY);
                *best = best.max(value + more);
            }
        }
        states = next;
    }
    let fits = states
        .iter()
        .filter(|(left, _)| left.iter().all(|&n| n >= 0));
    fits.map(|(_, &value)| value)
        .fold(f64::NEG_INFINITY, f64::max)
}

#[test]
fn small_pools_agree_with_trying_everything() {
    let (mut shrunk, mut missed) = (0, 0);
    for seed in 0..150 {
        let (mut runs, trainers, leaves) = small(seed);
        let right = try_everything(&runs, &trainers, &leaves, family);
        let most = try_everything(&runs, &trainers, &leaves, wide);
        let options = Options {
            gap: 0.0,
            ..Options::new(STILL)
        };
        let answer = answer(&mut runs, &[], &options);
        let close = 1e-6 * right.abs().max(1.0);
        let seen = format!("seed {seed}: {right}, {most} of all node sets: {answer:?}");
        assert!(
            answer.objective <= most + close,
            "above the optimum, {seen}"
        );
        assert!(answer.bound >= right - close, "no bound, {seen}");
        // Columns come from the relaxation, so the programme over them may miss the optimum;
        // then it says so.
        let gap = (right - answer.objective) / answer.objective.abs().max(1e-9);
        assert!(gap <= answer.gap() + 1e-9, "{seen}");
        let gives = |c: &Column| c.take.iter().any(|t| t.1 < 0);
        shrunk += usize::from(answer.chosen.iter().any(gives));
        missed += usize::from(gap > 1e-6);
    }
    println!("{missed} of 150 not optimal, nodes given back in {shrunk}");
    // The cases are worth something: nodes are given back in some, and most are optimal.
    assert!(shrunk >= 10, "{shrunk}");
    assert!(missed <= 15, "{missed}");
}

#[test]
fn tables_hold_the_whole_family_at_its_true_worth() {
    for seed in 0..80 {
        let (mut runs, trainers, leaves) = small(seed);
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let classes = runs.capacity().len();
        for (j, trainer) in trainers.iter().enumerate() {
            for _ in 0..5 {
                let price: Vec<f64> = (0..classes).map(|_| rng.random_range(0.0..900.0)).collect();
                let mut held = vec![0; classes];
                for &(k, n) in &trainer.held {
                    held[k as usize] = n;
                }
                let reduced = |nodes: &[u32], charge: f64| {
                    let paid: f64 = (0..classes)
                        .map(|k| price[k] * (f64::from(nodes[k]) - f64::from(held[k])))
                        .sum();
                    worth(trainer, &leaves, nodes, 200.0) - charge - paid
                };
                let right = family(&runs, &trainers, j)
                    .iter()
                    .map(|(nodes, charge)| reduced(nodes, *charge))
                    .fold(f64::NEG_INFINITY, f64::max);
                let mut out = vec![runs.keep(j)];
                runs.price(j, &price, &mut out);
                for column in &out {
                    let mut nodes = held.clone();
                    for &(k, n) in &column.take {
                        nodes[k as usize] = nodes[k as usize].checked_add_signed(n).unwrap();
                    }
                    let sparse: Vec<(u32, u32)> = (0..).zip(nodes.iter().copied()).collect();
                    let charge = runs.value(j, &sparse) - column.value;
                    let right = worth(trainer, &leaves, &nodes, 200.0) - charge;
                    assert!(
                        (column.value - right).abs() < 1e-6,
                        "seed {seed}: {column:?}"
                    );
                    let words = Runs::pattern(column.tag).unwrap();
                    let expected = match words {
                        Pattern::Keep => 0.0,
                        Pattern::Grow { .. } => trainer.charges.grow,
                        Pattern::Any { .. } => trainer.charges.any.unwrap(),
                        Pattern::Shrink { to } => {
                            assert_eq!(nodes.iter().sum::<u32>(), to);
                            trainer.charges.any.unwrap_or(trainer.charges.shrink)
                        }
                        Pattern::Nothing => {
                            assert_eq!(nodes.iter().sum::<u32>(), 0);
                            trainer.charges.any.unwrap_or(trainer.charges.shrink)
                        }
                    };
                    assert!((charge - expected).abs() < 1e-6, "seed {seed}: {column:?}");
                }
                let found = out
                    .iter()
                    .map(|c| c.reduced(&price))
                    .fold(f64::NEG_INFINITY, f64::max);
                assert!((found - right).abs() < 1e-6, "seed {seed}: {found} {right}");
            }
        }
    }
}

fn middling(seed: u64) -> Runs {
    let shape = Shape {
        size: Size::of(10, 400),
        classes: 8,
        scenarios: 6,
        situation: Situation::Storm,
    };
    instance(shape, seed).unwrap()
}

#[test]
fn a_warm_start_is_never_made_worse_and_the_answer_stands_again() {
    for seed in 0..12 {
        let mut runs = middling(seed);
        let cold = answer(&mut runs, &[], &Options::new(STILL));
        let warm = answer(&mut runs, &cold.chosen, &Options::new(STILL));
        assert!(warm.objective >= cold.objective, "seed {seed}");
        // Even without any work.
        let none = Options {
            rounds: 0,
            time_limit: Duration::ZERO,
            ..Options::new(STILL)
        };
        let lazy = answer(&mut runs, &cold.chosen, &none);
        assert_eq!(lazy.objective, cold.objective);
        assert_eq!(lazy.outcome, Outcome::Feasible { gap: f64::INFINITY });
    }
}

#[test]
fn out_of_time_is_feasible_and_says_so() {
    for seed in 0..6 {
        let mut runs = middling(seed);
        // A clock that runs by a millisecond a look, and time for so many looks.
        for limit in [0, 1, 5, 20, 40, 80, 200] {
            let ticks = Cell::new(0.0);
            let stopwatch = || {
                ticks.set(ticks.get() + 1e-3);
                ticks.get()
            };
            let options = Options {
                gap: 0.0,
                time_limit: Duration::from_millis(limit),
                ..Options::new(&stopwatch)
            };
            let answer = answer(&mut runs, &[], &options);
            match answer.outcome {
                Outcome::Feasible { gap } => assert!(gap > 0.0 && gap == answer.gap()),
                Outcome::Optimal => assert!(answer.gap() == 0.0),
                other => panic!("seed {seed}, {limit} ms: {other:?}"),
            }
            if limit == 0 {
                assert_eq!((answer.source, answer.rounds), (Source::Keep, 0));
            }
        }
    }
}

#[test]
fn solver_and_bound_agree_on_larger_pools() {
    for seed in 0..12 {
        let mut runs = middling(seed);
        let answer = answer(&mut runs, &[], &Options::new(STILL));
        assert!(answer.converged, "seed {seed}");
        assert!(answer.gap() < 0.03, "seed {seed}: {}", answer.gap());
        // The relaxation over all patterns is the best of the bounds.
        let apart = (answer.bound - answer.relaxation).abs() / answer.bound;
        assert!(apart <= 1.1e-4, "seed {seed}: {apart}");
        let again = self::answer(&mut middling(seed), &[], &Options::new(STILL));
        assert_eq!(again, answer, "seed {seed}: the same twice");
    }
}

/// Patterns that are wrong in one way.
struct Wrong(fn(&mut Column));

impl Patterns for Wrong {
    fn trainers(&self) -> usize {
        1
    }

    fn keep(&mut self, _: usize) -> Column {
        Column {
            trainer: 0,
            take: Vec::new(),
            value: 1.0,
            tag: 0,
        }
    }

    fn price(&mut self, _: usize, _: &[f64], out: &mut Vec<Column>) {
        let mut column = Column {
            trainer: 0,
            take: vec![(0, 1)],
            value: 2.0,
            tag: 1,
        };
        (self.0)(&mut column);
        out.push(column);
    }
}

#[test]
fn patterns_that_make_no_sense_are_named() {
    let run = |change| solve(&mut Wrong(change), &[3, 3], &[], &Options::new(STILL));
    let right = run(|_| ()).unwrap();
    assert_eq!(right.objective, 2.0);
    assert_eq!(right.outcome, Outcome::Optimal);
    let nan = run(|c| c.value = f64::NAN);
    assert!(
        matches!(nan, Err(Error::Value { trainer: 0, .. })),
        "{nan:?}"
    );
    let far = run(|c| c.take = vec![(2, 1)]);
    assert_eq!(far, Err(Error::Classes { trainer: 0 }));
    let twice = run(|c| c.take = vec![(1, 1), (1, 1)]);
    assert_eq!(twice, Err(Error::Classes { trainer: 0 }));
    let other = run(|c| c.trainer = 7);
    assert_eq!(
        other,
        Err(Error::Trainer {
            trainer: 0,
            found: 7
        })
    );
    // Nobody, and nothing to have.
    let mut nobody = Runs::new(60.0, vec![4], vec![vec![9.0]], Vec::new()).unwrap();
    let answer = answer(&mut nobody, &[], &Options::new(STILL));
    assert_eq!((answer.objective, answer.outcome), (0.0, Outcome::Optimal));
}

#[test]
fn runs_refuse_what_makes_no_sense() {
    let trainer = Trainer {
        held: vec![(0, 2)],
        rates: vec![0.0, 1.0, 1.5].into(),
        stall_s: 1.0,
        charges: Charges {
            grow: 1.0,
            shrink: 1.0,
            any: None,
        },
    };
    let run = |change: fn(&mut Trainer)| {
        let mut trainer = trainer.clone();
        change(&mut trainer);
        Runs::new(60.0, vec![4, 4], vec![vec![9.0, -3.0]], vec![trainer]).map(|_| ())
    };
    assert_eq!(run(|_| ()), Ok(()));
    let refused = |change| matches!(run(change), Err(RunsError::Trainer { trainer: 0, .. }));
    assert!(refused(|t| t.held = vec![(5, 1)]));
    assert!(refused(|t| t.held = vec![(1, 1), (0, 1)]));
    assert!(refused(|t| t.held = vec![(0, u32::MAX)]));
    assert!(refused(|t| t.rates = vec![].into()));
    assert!(refused(|t| t.rates = vec![0.0, f64::NAN].into()));
    assert!(refused(|t| t.charges.any = Some(-1.0)));
    assert!(refused(|t| t.stall_s = f64::INFINITY));
    let bad = Runs::new(0.0, vec![], vec![vec![]], vec![]).unwrap_err();
    assert_eq!(bad, RunsError::Horizon(0.0));
    let bad = Runs::new(1.0, vec![1], vec![vec![1.0], vec![]], vec![]).unwrap_err();
    assert_eq!(
        bad,
        RunsError::Scenario {
            scenario: 1,
            classes: 1
        }
    );
}
