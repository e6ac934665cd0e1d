//! No decision depends on the future: traces that are alike up to a moment get the same decisions
//! up to it, node by node.

use std::collections::{BTreeMap, HashSet};

use lacuna_batchsim::{Backfill, Machine};
use lacuna_forecast::OrderBy;
use lacuna_model::{HoleRecord, Policy, Span, Timestamp, TrainerSpec};
use lacuna_sim::{
    Decision, GanttWindow, History, HoleTrace, Hooks, Lookahead, PoolTrace, Settings,
    SimulatedTrace, Simulation, replay,
};
use lacuna_skip::{data, or_skip};
use lacuna_trace::{JobRecord, Log, Reading, Window};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tempfile::TempDir;

use crate::announced::{Job, jobs, true_ends, write};
use crate::common::{Summit, hole, trainer};

/// A decision: the event, the trainers, their old and new sizes, and its value.
type Answer = (u64, Vec<u32>, Vec<u32>, Vec<u32>, u64);

/// An interval, in bits, and its trainer.
type Stretch = (u64, u64, Option<u32>);

/// All decisions before a moment: every answer of the planner, bit by bit, and by node name the
/// trainers of all intervals.
#[derive(Debug, PartialEq, Default)]
struct Decided {
    answers: Vec<Answer>,
    nodes: BTreeMap<String, Vec<Stretch>>,
}

impl Decided {
    /// Number of answers that gave nodes to a trainer.
    fn giving(&self) -> usize {
        let gives = |counts: &Vec<u32>| counts.iter().any(|&n| n > 0);
        self.answers
            .iter()
            .filter(|answer| gives(&answer.3))
            .count()
    }

    /// Whether the trainers of nodes differ, without the planner's own figures.
    fn nodes_differ(&self, other: &Self) -> bool {
        self.nodes != other.nodes
    }
}

/// Replays and gives the decisions before `until_s`.
fn decided(
    trace: &dyn PoolTrace,
    trainers: &[TrainerSpec],
    settings: &Settings,
    until_s: f64,
) -> Decided {
    // With endless trainers that end at the next event every event is a step.
    let mut steps = trace.steps().unwrap();
    let mut events = 0;
    let end_s = until_s.min(trace.length_s());
    while steps.next().unwrap().is_some_and(|step| step.at_s < end_s) {
        events += 1;
    }
    let settings = Settings {
        endless: true,
        gantt: Some(GanttWindow {
            from_s: 0.0,
            until_s,
            nodes: u32::MAX,
        }),
        ..settings.clone()
    };
    let mut answers = Vec::new();
    let mut save = |decision: &Decision<'_>| {
        if decision.event < events {
            let held = decision.problem.trainers.iter().map(|item| item.current);
            answers.push((
                decision.event,
                decision.lives.to_vec(),
                held.collect(),
                decision.sizes.counts.clone(),
                decision.sizes.objective.to_bits(),
            ));
        }
    };
    let mut progress = |_| {};
    let mut hooks = Hooks {
        save: Some(&mut save),
        ..Hooks::new(&|| 0.0, &mut progress)
    };
    let history = Some(History::default());
    let replayed = replay(trace, trainers, &settings, history, &mut hooks).unwrap();
    let gantt = replayed.history.unwrap().gantt.unwrap();
    let rows = gantt.rows.into_iter().map(|row| {
        let segments = row.segments.iter();
        let bits = segments.map(|s| (s.from_s.to_bits(), s.until_s.to_bits(), s.trainer));
        (row.name, bits.collect())
    });
    assert_eq!(answers.len() as u64, events);
    Decided {
        nodes: rows.collect(),
        answers,
    }
}

/// A machine whose scheduler mostly takes nodes in an order: jobs of a few sizes come and go.
/// Some nodes are present only early, others only late.
fn busy(seed: u64, until: i64) -> Vec<HoleRecord> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let nodes = 40_u32;
    let mut idle: BTreeMap<u32, i64> = (0..nodes / 2).map(|node| (node, 0)).collect();
    let mut jobs: Vec<(i64, Vec<u32>)> = vec![(50, (nodes / 2..nodes).collect())];
    let mut holes = Vec::new();
    let mut now = 0;
    while now < until {
        now += rng.random_range(5..60);
        let (over, on): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|&(end, _)| end <= now);
        jobs = on;
        for (_, nodes) in over {
            let (keep, rest) = nodes.split_at(nodes.len() / 3);
            idle.extend(keep.iter().chain(rest).map(|&node| (node, now)));
        }
        let size = [1, 2, 4, 8, 16][rng.random_range(0..5_usize)];
        if idle.len() >= size {
            let skip = rng.random_range(0..3).min(idle.len() - size);
            let taken: Vec<u32> = idle.keys().copied().skip(skip).take(size).collect();
            for node in &taken {
                let from = idle.remove(node).unwrap();
                if now > from {
                    holes.push(hole(*node, from, now));
                }
            }
            jobs.push((now + rng.random_range(20..250), taken));
        }
    }
    holes.extend(
        idle.into_iter()
            .filter(|&(_, from)| from < until)
            .map(|(n, from)| hole(n, from, until)),
    );
    holes.sort_by_key(|hole| (hole.from, hole.node.clone()));
    holes
}

/// The holes of `before` until `cut`. Holes that are open then end at arbitrary moments, and other
/// holes follow, some of them of new nodes.
fn other_future(before: &[HoleRecord], cut: i64, until: i64, seed: u64) -> Vec<HoleRecord> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let at = Timestamp::from_unix(cut);
    let mut holes: Vec<HoleRecord> = before.iter().filter(|h| h.from < at).cloned().collect();
    for hole in &mut holes {
        if hole.until >= at {
            hole.until = Timestamp::from_unix(cut + rng.random_range(1..=600));
        }
    }
    let later = busy(seed, until - cut - 700)
        .into_iter()
        .map(|hole| HoleRecord {
            from: hole.from + Span::from_secs(cut + 700),
            until: hole.until + Span::from_secs(cut + 700),
            ..hole
        });
    holes.extend(later);
    // These nodes are new. Their names come before and among all others.
    for number in [-3_i64, 7, 99] {
        let name = format!("a{}", number.unsigned_abs());
        holes.push(crate::common::hole_of(&name, cut + 70, cut + 400));
        holes.push(hole(
            1000 + number.unsigned_abs() as u32,
            cut + 80,
            cut + 300,
        ));
    }
    holes
}

/// The trace ends at `cut`.
fn cut_off(before: &[HoleRecord], cut: i64) -> Vec<HoleRecord> {
    let at = Timestamp::from_unix(cut);
    let early = before.iter().filter(|hole| hole.from < at).cloned();
    early
        .map(|hole| HoleRecord {
            censored: hole.until > at,
            until: hole.until.min(at),
            ..hole
        })
        .collect()
}

fn trace(holes: &[HoleRecord], start: i64, end: i64) -> HoleTrace {
    let at = Timestamp::from_unix;
    HoleTrace::with_planned(holes, &[], None, at(start), Some(at(end)))
}

fn settings(lookahead: Lookahead, order: &OrderBy) -> Settings {
    let mut settings = Settings {
        policy: Policy::Forecast,
        max_parallel: 4,
        cost_scale: 30.0,
        lookahead,
        ..Settings::published()
    };
    settings.forecast.order = order.clone();
    settings
}

fn trainers() -> Vec<TrainerSpec> {
    (0..3).map(|number| trainer(number, 6, 1e5)).collect()
}

#[test]
fn decisions_before_a_cut_do_not_depend_on_what_comes_after_it() {
    let (start, cut, end) = (4_000_i64, 6_000_i64, 7_500_i64);
    let list = OrderBy::List((0..40).map(|n| format!("n{}", 39 - n)).collect());
    let mut peeked = [0; 2];
    for seed in 1..=4_u64 {
        println!("seed {seed}");
        let whole = busy(seed, end);
        let variants = [
            (cut_off(&whole, cut), cut),
            (other_future(&whole, cut, end, seed + 100), end),
            (other_future(&whole, cut, end, seed + 200), end),
        ];
        let early = HashSet::<_>::from_iter(whole.iter().map(|hole| &hole.node)).len();
        assert!(early > 30);
        let order = [OrderBy::Learnt, OrderBy::Names, OrderBy::None, list.clone()];
        let order = &order[seed as usize % 4];
        let of = |holes: &[HoleRecord], end: i64, lookahead: Lookahead, until: f64| {
            let settings = settings(lookahead, order);
            decided(&trace(holes, start, end), &trainers(), &settings, until)
        };
        for ahead in [0.0, 300.0] {
            let lookahead = Lookahead::Seconds(ahead);
            let until = (cut - start) as f64 - ahead;
            let expected = of(&whole, end, lookahead, until);
            assert!(expected.giving() > 30, "{}", expected.giving());
            for (holes, end) in &variants {
                let found = of(holes, *end, lookahead, until);
                assert_eq!(found, expected, "{ahead} s ahead");
            }
        }
        // The comparison is sensitive: oracle lookahead beyond the cut changes decisions before it.
        let until = (cut - start) as f64;
        for (peeked, lookahead) in peeked
            .iter_mut()
            .zip([Lookahead::All, Lookahead::Seconds(600.0)])
        {
            let [one, two] = [&whole, &variants[1].0].map(|h| of(h, end, lookahead, until));
            *peeked += u32::from(one.nodes_differ(&two));
        }
    }
    println!("of 4 recordings, peeking showed in {peeked:?}");
    assert!(peeked.iter().all(|&seen| seen >= 2), "{peeked:?}");
}

#[test]
fn on_the_recorded_machine_too() {
    let summit = or_skip!(Summit::open());
    // The first hours are for learning.
    let start = Summit::START + 8 * 3600;
    let (cut, end) = (start + 6 * 3600, start + 7 * 3600);
    let nodes = summit.nodes(512);
    let kept = summit.holes.records.iter();
    let last = Timestamp::from_unix(end);
    let whole: Vec<HoleRecord> = kept
        .filter(|hole| nodes.contains(&hole.node) && hole.from < last)
        .map(|hole| HoleRecord {
            until: hole.until.min(last),
            ..hole.clone()
        })
        .collect();
    let list = summit.trainers("hpo-1000");
    let variants = [
        (cut_off(&whole, cut), cut),
        (other_future(&whole, cut, end, 3), end),
    ];
    for ahead in [0.0, 900.0] {
        let of = |holes: &[HoleRecord], end: i64| {
            let settings = Settings {
                max_parallel: 10,
                cost_scale: 5.0,
                ..settings(Lookahead::Seconds(ahead), &OrderBy::Learnt)
            };
            let until = (cut - start) as f64 - ahead;
            decided(&trace(holes, start, end), &list, &settings, until)
        };
        let expected = of(&whole, end);
        assert!(expected.giving() > 20, "{}", expected.giving());
        for (holes, end) in &variants {
            assert!(of(holes, *end) == expected, "{ahead} s ahead");
        }
    }
}

/// Jobs that are alike until second `cut`. Jobs that run then get another run time, and later
/// submissions are replaced.
fn other_jobs(machine: &Machine, jobs: &[Job], others: &[Job], cut: i64, seed: u64) -> Vec<Job> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let ends = true_ends(machine, jobs);
    let early = jobs.iter().zip(ends).filter(|(job, _)| job.submit < cut);
    let mut changed: Vec<Job> = early
        .map(|(&job, (began, end))| Job {
            runtime: if began >= cut {
                rng.random_range(1..400)
            } else if end >= cut {
                cut - began + rng.random_range(1..400)
            } else {
                job.runtime
            },
            ..job
        })
        .collect();
    changed.extend(others.iter().map(|&job| Job {
        submit: job.submit + cut,
        ..job
    }));
    changed
}

fn simulated(
    machine: &Machine,
    jobs: &[Job],
    window: (i64, i64),
    folder: &TempDir,
    planned_starts: bool,
) -> SimulatedTrace {
    let path = folder.path().join("log.swf");
    write(&path, jobs);
    let second = |at: i64| Some(Timestamp::from_unix(1000 + at));
    let simulation = Simulation {
        window: Window {
            start: second(window.0),
            end: second(window.1),
        },
        planned_starts,
        ..Simulation::default()
    };
    let reading = Reading::default();
    SimulatedTrace::open(&path, &reading, machine.clone(), simulation, &mut |_| {}).unwrap()
}

const SEED: u64 = 20_261_122;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 100,
        rng_seed: RngSeed::Fixed(SEED),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn nor_do_they_with_planned_starts_of_a_simulated_scheduler(
        jobs in jobs(), others in jobs(), cut in 150_i64..350, ahead in 0_i64..60,
        conservative in any::<bool>(), seed in any::<u64>(),
    ) {
        let backfill = if conservative { Backfill::Conservative } else { Backfill::Easy };
        let machine = Machine { backfill, ..Machine::new(8) };
        let first = jobs[0].submit;
        prop_assume!(first + ahead < cut);
        let of = |jobs: &[Job]| {
            let folder = TempDir::new().unwrap();
            // The log is long enough for any jobs.
            let last = Job { submit: cut + 300, nodes: 1, runtime: 1, walltime: 1 };
            let jobs = [jobs, &[last]].concat();
            let trace = simulated(&machine, &jobs, (first, cut + 200), &folder, true);
            let lookahead = Lookahead::Seconds(ahead as f64);
            let settings = settings(lookahead, &OrderBy::Learnt);
            decided(&trace, &trainers(), &settings, (cut - first - ahead) as f64)
        };
        let changed = other_jobs(&machine, &jobs, &others, cut, seed);
        prop_assert_eq!(of(&jobs), of(&changed));
    }
}

#[test]
fn nor_on_theta_with_the_simulator_s_planned_starts() {
    let path = or_skip!(data("theta-2022/theta_2022.swf.gz"));
    let Log::Jobs(mut log) = Log::open(&path, &Reading::default()).unwrap() else {
        panic!("Theta's log is one of jobs");
    };
    let (mut record, mut all) = (JobRecord::default(), Vec::new());
    while all.len() < 600 && log.read(&mut record).unwrap() {
        if let (Some(submit), Some(start), Some(end)) = (record.submit, record.start, record.end) {
            let seconds = |from: Timestamp, until: Timestamp| until.since(from).as_ms() / 1000;
            let runtime = seconds(start, end);
            let asked = record
                .walltime
                .map_or(runtime, |walltime| walltime.as_ms() / 1000);
            all.push((submit.unix_ms() / 1000, record.nodes, runtime, asked));
        }
    }
    all.sort_unstable();
    let zero = all[0].0;
    let jobs: Vec<Job> = all
        .into_iter()
        .map(|(submit, nodes, runtime, walltime)| Job {
            submit: submit - zero,
            nodes,
            runtime,
            walltime,
        })
        .collect();
    let machine = Machine {
        backfill: Backfill::Easy,
        ..Machine::new(4392)
    };
    let cut = jobs[350].submit;
    let mut others = jobs[450..].to_vec();
    others
        .iter_mut()
        .for_each(|job| job.submit -= jobs[450].submit);
    let until = cut + 5 * 86_400;
    let of = |jobs: &[Job], planned_starts: bool| {
        let folder = TempDir::new().unwrap();
        let trace = simulated(&machine, jobs, (0, until), &folder, planned_starts);
        let mut settings = settings(Lookahead::Seconds(0.0), &OrderBy::Learnt);
        settings.cost_scale = 20.0;
        let trainers: Vec<_> = (0..10).map(|n| trainer(n, 400, 1e7)).collect();
        decided(&trace, &trainers, &settings, cut as f64)
    };
    let expected = of(&jobs, true);
    assert!(expected.giving() > 100, "{}", expected.giving());
    let changed = other_jobs(&machine, &jobs, &others, cut, 5);
    assert!(of(&changed, true) == expected);
    // Planned starts have an effect.
    assert!(of(&jobs, false).nodes_differ(&expected));
}
