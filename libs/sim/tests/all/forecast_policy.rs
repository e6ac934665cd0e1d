//! Replays by forecasts: contradictory input, planned starts, and orders of nodes.

use std::borrow::Cow;

use lacuna_forecast::OrderBy;
use lacuna_model::{HoleRecord, Policy, Timestamp, TrainerSpec};
use lacuna_sim::{
    HoleTrace, Hooks, Lookahead, PlannedStartUpdate, PoolStep, PoolSteps, PoolTrace, Settings,
    SimError, Summary, replay,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::common::{hole, trainer};

/// A step with lists of its own.
#[derive(Debug, Clone, Default)]
struct ScriptedStep {
    at_s: f64,
    closed: Vec<u32>,
    opened: Vec<(u32, i64)>,
    planned: Vec<PlannedStartUpdate>,
}

/// A trace of given steps.
#[derive(Debug, Clone)]
struct Scripted {
    nodes: u32,
    length_s: i64,
    steps: Vec<ScriptedStep>,
}

struct Walk<'a>(std::slice::Iter<'a, ScriptedStep>);

impl PoolSteps for Walk<'_> {
    fn next(&mut self) -> Result<Option<PoolStep<'_>>, SimError> {
        Ok(self.0.next().map(|step| PoolStep {
            at_s: step.at_s,
            closed: &step.closed,
            opened: &step.opened,
            planned: &step.planned,
        }))
    }
}

impl PoolTrace for Scripted {
    fn start(&self) -> Timestamp {
        Timestamp::from_unix(0)
    }

    fn end(&self) -> Timestamp {
        Timestamp::from_unix(self.length_s)
    }

    fn nodes(&self) -> u32 {
        self.nodes
    }

    fn node_name(&self, node: u32) -> Cow<'_, str> {
        Cow::Owned(format!("n{node}"))
    }

    fn steps(&self) -> Result<Box<dyn PoolSteps + '_>, SimError> {
        Ok(Box::new(Walk(self.steps.iter())))
    }
}

fn settings() -> Settings {
    Settings {
        policy: Policy::Forecast,
        endless: true,
        ..Settings::published()
    }
}

/// Replays and checks that every figure is finite.
fn sound(trace: &dyn PoolTrace, trainers: &[TrainerSpec], settings: &Settings) -> Summary {
    let mut progress = |_| {};
    let mut hooks = Hooks::new(&|| 0.0, &mut progress);
    let replayed = replay(trace, trainers, settings, None, &mut hooks).unwrap();
    let summary = replayed.summary;
    for figure in [
        summary.efficiency,
        summary.hours,
        summary.idle_share_used,
        summary.samples,
        summary.rescale_cost_fraction,
        summary.preempt_cost_fraction,
        summary.zero_cost_fraction.unwrap_or(0.0),
    ] {
        assert!(figure.is_finite() && figure >= 0.0, "{summary:?}");
    }
    assert!(summary.idle_share_used <= 1.0 + 1e-9, "{summary:?}");
    summary
}

fn scripted_step(at_s: f64, closed: &[u32], opened: &[(u32, i64)]) -> ScriptedStep {
    ScriptedStep {
        at_s,
        closed: closed.to_vec(),
        opened: opened.to_vec(),
        planned: Vec::new(),
    }
}

#[test]
fn contradictory_steps_are_counted_and_decided_about() {
    let trace = Scripted {
        nodes: 4,
        length_s: 1000,
        steps: vec![
            // Node 2 leaves without a hole, and node 9 does not exist.
            scripted_step(0.0, &[2, 9], &[(0, 0), (1, -60_000), (9, 0)]),
            // Node 1 opens again; the hole of node 2 begins after its step.
            scripted_step(100.0, &[], &[(1, 100_000), (2, 900_000)]),
            // Node 2 leaves before its hole began, and twice.
            scripted_step(200.0, &[2, 2], &[(3, i64::MAX), (3, i64::MIN)]),
            scripted_step(300.0, &[0], &[(0, 300_000), (2, i64::MIN)]),
            scripted_step(400.0, &[0, 1, 2, 3], &[]),
            scripted_step(500.0, &[], &[(0, 500_000), (3, 500_000)]),
        ],
    };
    let trainers = [trainer(0, 3, 1e4), trainer(1, 2, 1e4)];
    for lookahead in [
        Lookahead::Seconds(0.0),
        Lookahead::Seconds(150.0),
        Lookahead::All,
    ] {
        let settings = Settings {
            lookahead,
            ..settings()
        };
        let summary = sound(&trace, &trainers, &settings);
        assert!(summary.samples > 0.0);
        let odd = summary.anomalies.unwrap();
        assert!(odd.unknown_end >= 3 && odd.negative >= 2, "{odd:?}");
        assert!(odd.unordered >= 1, "{odd:?}");
    }
}

#[test]
fn a_clock_that_jumps_back_or_far_ahead_stops_no_replay() {
    let mut steps = Vec::new();
    let mut at = 0.0;
    for round in 0..300_u32 {
        at += 20.0;
        // One jump is ten years ahead, one two hours back, and some are small.
        let now = match round {
            100 => at + 3e8,
            200 => at - 7200.0,
            _ if round % 50 == 10 => at - 30.0,
            _ => at,
        };
        let node = round % 6;
        let since = (now * 1000.0) as i64;
        steps.push(match (round / 6) % 2 {
            0 => scripted_step(now, &[], &[(node, since)]),
            _ => scripted_step(now, &[node], &[]),
        });
    }
    let trace = Scripted {
        nodes: 6,
        length_s: 400_000_000,
        steps,
    };
    let summary = sound(&trace, &[trainer(0, 4, 1e5)], &settings());
    assert!(
        summary.anomalies.unwrap().clock_back > 0,
        "{:?}",
        summary.anomalies
    );
}

/// Holes of a machine that takes nodes by name: from the front if `forwards`.
fn taken_by_name(seed: u64, forwards: bool, until: i64) -> Vec<HoleRecord> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let nodes = 32_u32;
    let mut since = vec![Some(0_i64); nodes as usize];
    let mut jobs: Vec<(i64, Vec<usize>)> = Vec::new();
    let (mut now, mut holes) = (0, Vec::new());
    while now < until {
        now += rng.random_range(20..80);
        for (_, nodes) in jobs.extract_if(.., |job| job.0 <= now) {
            nodes.into_iter().for_each(|node| since[node] = Some(now));
        }
        let mut idle: Vec<usize> = (0..32).filter(|&node| since[node].is_some()).collect();
        if !forwards {
            idle.reverse();
        }
        let size = rng.random_range(1..6).min(idle.len());
        let taken = idle[..size].to_vec();
        for &node in &taken {
            let from = since[node].take().unwrap();
            if from < now {
                holes.push(hole(node as u32, from, now));
            }
        }
        jobs.push((now + rng.random_range(100..600), taken));
    }
    for (node, from) in since.into_iter().enumerate() {
        holes.extend(
            from.filter(|&from| from < until)
                .map(|from| hole(node as u32, from, until)),
        );
    }
    holes
}

/// A replay with an order of nodes, on a machine with a past.
fn share(holes: &[HoleRecord], order: OrderBy) -> Summary {
    let start = Timestamp::from_unix(6_000);
    let trace = HoleTrace::with_planned(holes, &[], None, start, None);
    let mut settings = Settings {
        max_parallel: 3,
        cost_scale: 10.0,
        ..settings()
    };
    settings.forecast.order = order;
    let trainers: Vec<_> = (0..3).map(|number| trainer(number, 12, 1e6)).collect();
    sound(&trace, &trainers, &settings)
}

#[test]
fn an_order_that_the_log_contradicts_is_given_up() {
    let mut totals = [0.0; 3];
    for seed in 1..=3 {
        println!("seed {seed}");
        let holes = taken_by_name(seed, false, 16_000);
        let given = share(&holes, OrderBy::Names);
        let learnt = share(&holes, OrderBy::Learnt);
        let none = share(&holes, OrderBy::None);
        assert!(
            given.anomalies.unwrap().contradicted > 0,
            "{:?}",
            given.order
        );
        assert_eq!(learnt.anomalies.unwrap().contradicted, 0);
        let found = learnt.order.unwrap();
        assert!(found.rests_on.is_order(), "{found:?}");
        for (total, summary) in totals.iter_mut().zip([&given, &learnt, &none]) {
            *total += summary.zero_cost_fraction.unwrap();
        }
        // An order that the scheduler follows is kept.
        let forwards = share(&taken_by_name(seed, true, 16_000), OrderBy::Names);
        assert_eq!(forwards.anomalies.unwrap().contradicted, 0);
    }
    let [given, learnt, none] = totals.map(|total| total / 3.0);
    println!("given the wrong way round {given:.4}, learnt {learnt:.4}, none {none:.4}");
    assert!(
        given > none - 0.02 && learnt > none - 0.02,
        "{given} {learnt} {none}"
    );
}

/// Half of six nodes leave in turn at a planned start announced 200 s ahead, or, if not `truly`,
/// at other times.
fn announced(rounds: u32, truly: bool) -> Scripted {
    let mut steps = vec![scripted_step(
        0.0,
        &[],
        &(0..12).map(|n| (n, 0)).collect::<Vec<_>>(),
    )];
    let mut rng = ChaCha8Rng::seed_from_u64(u64::from(rounds));
    for round in 0..rounds {
        let now = f64::from(round) * 1000.0 + 100.0;
        let half: Vec<u32> = (0..12).filter(|_| rng.random_range(0..2) == 0).collect();
        let said: Vec<u32> = match truly {
            true => half.clone(),
            false => (0..12).filter(|node| !half.contains(node)).collect(),
        };
        let hint = |at_s: f64| move |&node: &u32| PlannedStartUpdate { node, at_s };
        steps.push(ScriptedStep {
            at_s: now,
            // A change makes the moment an event.
            closed: vec![12],
            opened: vec![],
            planned: said.iter().map(hint(now + 200.0)).collect(),
        });
        let since = ((now + 300.0) * 1000.0) as i64;
        steps.push(scripted_step(now + 200.0, &half, &[(12, since - 100_000)]));
        steps.push(ScriptedStep {
            planned: match truly {
                true => vec![],
                false => said.iter().map(hint(f64::INFINITY)).collect(),
            },
            ..scripted_step(
                now + 300.0,
                &[],
                &half.iter().map(|&node| (node, since)).collect::<Vec<_>>(),
            )
        });
    }
    Scripted {
        nodes: 13,
        length_s: i64::from(rounds) * 1000,
        steps,
    }
}

#[test]
fn right_planned_starts_help_and_wrong_ones_do_no_harm() {
    let trainers: Vec<_> = (0..2).map(|number| trainer(number, 12, 1e9)).collect();
    let of = |trace: &Scripted, hears: bool, lookahead: f64| {
        let mut trace = trace.clone();
        if !hears {
            trace.steps.iter_mut().for_each(|step| step.planned.clear());
        }
        let settings = Settings {
            max_parallel: 2,
            cost_scale: 80.0,
            lookahead: Lookahead::Seconds(lookahead),
            ..settings()
        };
        sound(&trace, &trainers, &settings)
            .zero_cost_fraction
            .unwrap()
    };
    let (true_ones, false_ones) = (announced(120, true), announced(120, false));
    let deaf = of(&true_ones, false, 0.0);
    let heard = of(&true_ones, true, 0.0);
    let known = of(&true_ones, false, 200.0);
    let misled = of(&false_ones, true, 0.0);
    let unheard = of(&false_ones, false, 0.0);
    println!(
        "true: deaf {deaf:.4} heard {heard:.4} known {known:.4}; false: deaf {unheard:.4} heard {misled:.4}"
    );
    assert!(heard > deaf + 0.01, "{deaf} {heard}");
    assert!(known > heard, "{heard} {known}");
    // The predictor learns that planned starts of the wrong nodes are wrong.
    assert!(misled > unheard - 0.01, "{unheard} {misled}");
}

#[test]
fn pools_and_trainers_of_any_size_and_cost_are_decided_about() {
    let holes: Vec<HoleRecord> = (0..20)
        .map(|n| hole(n, i64::from(n % 5) * 50, 400 + 30 * i64::from(n)))
        .collect();
    let one = [hole(0, 0, 1000)];
    let end = Some(Timestamp::from_unix(1000));
    let start = Timestamp::from_unix(0);
    let none = HoleTrace::new(&[hole(0, 1000, 2000)], None, start, end);
    let one = HoleTrace::new(&one, None, start, end);
    let many = HoleTrace::new(&holes, None, start, end);
    let small: Vec<_> = (0..35).map(|number| trainer(number, 4, 1e9)).collect();
    let large: Vec<_> = (0..3)
        .map(|number| TrainerSpec {
            min_nodes: 50,
            ..trainer(number, 60, 1e9)
        })
        .collect();
    for cost_scale in [0.0, 1.0, 1e9] {
        for charge_starts in [false, true] {
            let settings = Settings {
                cost_scale,
                charge_starts,
                max_parallel: 35,
                ..settings()
            };
            assert_eq!(sound(&none, &small, &settings).samples, 0.0);
            let single = sound(&one, &small, &settings);
            // One node never leaves: it trains where changes are free or cheap.
            if cost_scale == 0.0 || (cost_scale == 1.0 && !charge_starts) {
                assert!(
                    (single.samples - 10_000.0).abs() < 1e-6,
                    "{}",
                    single.samples
                );
            }
            assert_eq!(single.preemptions, 0);
            sound(&many, &small, &settings);
            assert_eq!(sound(&many, &large, &settings).samples, 0.0);
        }
    }
    let mut progress = |_| {};
    let mut hooks = Hooks::new(&|| 0.0, &mut progress);
    let without_trainers = replay(&many, &[], &settings(), None, &mut hooks);
    assert!(matches!(without_trainers, Err(SimError::NoTrainers)));
}

#[test]
fn a_hole_that_is_open_in_the_past_and_absent_at_the_start_has_ended() {
    // It ends at the start: neither the past nor the first step has its end.
    let holes = [
        hole(0, 0, 500),
        hole(1, 100, 900),
        hole(0, 600, 800),
        hole(2, 500, 700),
    ];
    let start = Timestamp::from_unix(500);
    let trace = HoleTrace::with_planned(&holes, &[], None, start, None);
    let summary = sound(&trace, &[trainer(0, 3, 1e9)], &settings());
    // The pool: node 1 for 400 s, node 2 for 200 s, node 0 for 200 s.
    assert!((summary.equivalent_nodes * 400.0 - 800.0).abs() < 1e-6);
    assert_eq!(
        summary.anomalies.unwrap(),
        lacuna_forecast::Anomalies::default()
    );
}
