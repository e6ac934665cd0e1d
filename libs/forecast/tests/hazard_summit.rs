//! The hazard on the trace of Summit (from Unix 1612915732, 11.5 days).
//!
//! Reads `LACUNA_DATA`, by default `../shared/data` beside the workspace; skipped without it.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use std::collections::BTreeMap;
use std::fs::File;

use flate2::read::GzDecoder;
use lacuna_forecast::skill::{Brier, Concordance, Ranked, concordance};
use lacuna_forecast::{GRID_S, HORIZONS_S, HazardCore, HazardSettings, Nodes, OrderBy, OrderState};
use lacuna_skip::{Missing, data, or_skip};

/// Day 5 of the trace, from which forecasts are tested.
const DAY_5: f64 = 1_613_347_732.0;
/// The number of steps to one at which forecasts are tested.
const EVERY: usize = 3;
/// The largest number of holes at each step.
const HOLES: usize = 40;

/// A trace: names, and the steps with the nodes that leave and come.
struct Trace {
    names: Vec<String>,
    steps: BTreeMap<i64, Step>,
    /// The end of each hole by node and start.
    ends: BTreeMap<(u32, i64), (i64, bool)>,
}

#[derive(Default)]
struct Step {
    closed: Vec<u32>,
    opened: Vec<(u32, f64)>,
}

fn trace() -> Result<Trace, Missing> {
    let file = File::open(data("summit-2021-02/holes.csv.gz")?).unwrap();
    let mut numbers: BTreeMap<String, u32> = BTreeMap::new();
    let mut trace = Trace {
        names: Vec::new(),
        steps: BTreeMap::new(),
        ends: BTreeMap::new(),
    };
    for row in csv::Reader::from_reader(GzDecoder::new(file)).into_records() {
        let row = row.unwrap();
        let node = *numbers.entry(row[0].to_owned()).or_insert_with(|| {
            trace.names.push(row[0].to_owned());
            trace.names.len() as u32 - 1
        });
        let (from, until): (i64, i64) = (row[1].parse().unwrap(), row[2].parse().unwrap());
        let censored = &row[3] == "1";
        let opened = &mut trace.steps.entry(from).or_default().opened;
        opened.push((node, from as f64));
        if !censored {
            trace.steps.entry(until).or_default().closed.push(node);
        }
        trace.ends.insert((node, from), (until, censored));
    }
    Ok(trace)
}

/// The outcome of the forecasts.
struct Outcome {
    within: f64,
    tied: f64,
    all: f64,
    brier: [Brier; 4],
    /// The sum of squares of the constant of days 0-5 less the outcome.
    constant: [f64; 4],
}

fn open_after(curve: &[f32], after_s: f64) -> f64 {
    let at = GRID_S.partition_point(|&grid| grid < after_s);
    let (before, from) = match at.checked_sub(1) {
        Some(below) => (f64::from(curve[below]), GRID_S[below]),
        None => (1.0, 0.0),
    };
    let share = (after_s - from) / (GRID_S[at] - from);
    before + (f64::from(curve[at]) - before) * share
}

fn score(trace: &Trace, core: &mut HazardCore) -> Outcome {
    let mut brier: [Brier; 4] = std::array::from_fn(|_| Brier::new());
    let (mut before, mut known) = ([0.0; 4], 0.0);
    let mut constant = [0.0; 4];
    let mut within = Concordance::default();
    let mut everything = Vec::new();
    for (number, (&at, step)) in trace.steps.iter().enumerate() {
        let now = at as f64;
        core.step(now, &step.closed, &step.opened);
        if now < DAY_5 && number % EVERY == 0 {
            let nodes = core.forecast(now).nodes.to_vec();
            let stride = nodes.len().div_ceil(HOLES).max(1);
            for &node in nodes.iter().skip(number % stride).step_by(stride) {
                let since = core.present_since(node).unwrap() as i64;
                let remaining = (trace.ends[&(node, since)].0 - at) as f64;
                known += 1.0;
                for (sum, after) in before.iter_mut().zip(HORIZONS_S) {
                    *sum += f64::from(u8::from(remaining > after));
                }
            }
        }
        if now < DAY_5 || number % EVERY != 0 {
            continue;
        }
        let view = core.forecast(now);
        let stride = view.nodes.len().div_ceil(HOLES).max(1);
        let asked: Vec<(u32, usize)> = (number % stride..view.nodes.len())
            .step_by(stride)
            .map(|place| (view.nodes[place], view.curve[place] as usize))
            .collect();
        let curves = view.curves.to_vec();
        let mut set = Vec::new();
        for (node, curve) in asked {
            let since = core.present_since(node).unwrap() as i64;
            let (until, censored) = trace.ends[&(node, since)];
            let remaining = (until - at) as f64;
            let curve = &curves[curve];
            let mut expected = 0.0;
            for at in 1..GRID_S.len() {
                expected +=
                    (GRID_S[at] - GRID_S[at - 1]) * f64::from(curve[at] + curve[at - 1]) / 2.0;
            }
            set.push(Ranked {
                expected,
                length_s: remaining,
                ended: !censored,
            });
            for (at, after) in HORIZONS_S.into_iter().enumerate() {
                if now + after <= 1_613_908_800.0 {
                    brier[at].add(open_after(curve, after), remaining > after);
                    let open = f64::from(u8::from(remaining > after));
                    constant[at] += (before[at] / known - open).powi(2);
                }
            }
        }
        everything.extend(set.iter().copied());
        within.add(concordance(&mut set));
    }
    Outcome {
        within: within.share().unwrap(),
        tied: within.tied as f64 / within.comparable as f64,
        all: concordance(&mut everything).share().unwrap(),
        brier,
        constant,
    }
}

#[test]
fn the_hazard_has_the_measured_concordance_and_skill() {
    let trace = or_skip!(trace());
    let nodes = Nodes::from_names(trace.names.iter().map(String::as_str), &OrderBy::Learnt);
    let mut core = HazardCore::new(nodes, HazardSettings::default());
    let outcome = score(&trace, &mut core);
    let order = core.order();
    println!(
        "order {}: given mean {:.3} ({:.3} by node) se {:.4} z {:.0}, taken mean {:.3}; {} fits, {:?}",
        order.state.words(),
        order.given.mean().unwrap(),
        order.given.mean_by_node().unwrap(),
        order.given.standard_error().unwrap(),
        order.given.z().unwrap(),
        order.taken.mean().unwrap(),
        core.fits(),
        core.anomalies()
    );
    println!("C tied {:.3}", outcome.tied);
    println!(
        "C {:.3} over all, {:.3} within an event",
        outcome.all, outcome.within
    );
    for (at, horizon) in HORIZONS_S.into_iter().enumerate() {
        let brier = &outcome.brier[at];
        println!(
            "{horizon} s: skill {:.3} over the share of days 0-5, {:.3} over that of the test, in the large {:+.3}, calibration error {:.3}",
            1.0 - brier.score().unwrap() * brier.answered() as f64 / outcome.constant[at],
            brier.skill().unwrap(),
            brier.in_the_large().unwrap(),
            brier.calibration_error().unwrap()
        );
    }
    assert_eq!(order.state, OrderState::Given);
    assert!(order.given.holds());
    let by_node = order.given.mean_by_node().unwrap();
    assert!((0.12..0.28).contains(&by_node), "{by_node}");
    assert!(outcome.within >= 0.79, "{}", outcome.within);
    assert!(outcome.all >= 0.64, "{}", outcome.all);
    let bars = [(0.07, 0.01), (0.15, 0.02), (0.15, 0.035), (0.17, 0.03)];
    for (brier, (least, most)) in outcome.brier.iter().zip(bars) {
        assert!(brier.skill().unwrap() > least);
        assert!(brier.in_the_large().unwrap().abs() < 0.02);
        assert!(brier.calibration_error().unwrap() < most);
    }
}
