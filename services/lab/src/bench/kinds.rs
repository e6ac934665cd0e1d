//! `lacuna-lab bench kinds`: the time of a decision over two kinds of nodes, beside one kind.

use std::sync::Arc;

use clap::Args;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use lacuna_cli::error::{CliError, Result};
use lacuna_cli::output::{JsonArg, quantile};
use lacuna_model::Outcome;
use lacuna_planner::{Far, Item, Mix, MixProblem, MixTable, NO_NODES, Problem, dp, mixed, pair};
use lacuna_runtime::clock::Stopwatch;

use crate::table::{Cell, Column, Table};

/// Arguments of `bench kinds`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna-lab bench kinds
  lacuna-lab bench kinds --trainers 35 --cpu 800 --gpu 200 --instances 20 --json

Instances are drawn by seed: curves with falling gains on each kind, and mixes that gain up to a
fifth on top; 95 % of both kinds is held. One kind is the same number of nodes in one pool, with the
exact program of one kind from scratch. With --verify each answer is compared with the plain program
over both counts.")]
pub(crate) struct KindsBenchArgs {
    /// Trainers
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    trainers: u32,
    /// CPU nodes
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    cpu: u32,
    /// GPU nodes
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    gpu: u32,
    /// Number of instances
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    instances: u64,
    /// Seed of the first instance
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Compare each answer with the plain program, which is slow
    #[arg(long)]
    verify: bool,
    #[command(flatten)]
    json: JsonArg,
}

/// Runs `bench kinds`.
///
/// # Errors
/// An answer differs from that of the plain program.
pub(crate) fn run(args: &KindsBenchArgs) -> Result<()> {
    let (mut two, mut one) = (Vec::new(), Vec::new());
    let (mut proven, mut options) = (0, 0);
    for seed in args.seed..args.seed.saturating_add(args.instances) {
        let problem = instance(args, seed);
        let watch = Stopwatch::start();
        let (found, solve) = mixed::solve(&problem);
        two.push(watch.seconds());
        proven += usize::from(solve.outcome == Outcome::Optimal);
        if args.verify {
            let plain = mixed::reference::solve(&problem).objective;
            let off = (found.objective - plain).abs() / plain.abs().max(1.0);
            if off > 1e-9 && solve.outcome == Outcome::Optimal {
                let why = format!("seed {seed}: {} is not {plain}", found.objective);
                return Err(CliError::failed(why));
            }
        }
        let plain = of_one_kind(&problem);
        let watch = Stopwatch::start();
        let _ = dp::Solver::new().solve(&plain);
        one.push(watch.seconds());
        let kinds = problem
            .trainers
            .first()
            .and_then(|item| item.kinds.as_ref());
        let [a, b, ..] = kinds.map_or(NO_NODES, |kinds| kinds.value.most());
        options = (a as usize + 1) * (b as usize + 1);
    }
    let instances = two.len();
    let most = args.cpu + args.gpu;
    let columns = [
        Column::words("nodes", "nodes"),
        Column::figures("options", "options"),
        Column::figures("proven", "proven"),
        Column::figures("p50_s", "median"),
        Column::figures("p90_s", "90 %"),
        Column::figures("p99_s", "99 %"),
        Column::figures("max_s", "most"),
    ];
    let heading = format!(
        "A decision for {} trainers on {} + {} nodes, {instances} instances",
        args.trainers, args.cpu, args.gpu
    );
    let mut table = Table::new(heading, columns);
    let single = (most * 3 / 2 / args.trainers.max(1)) as usize + 1;
    for (nodes, options, proven, mut seconds) in [
        ("two kinds", options, proven, two),
        ("one kind", single, instances, one),
    ] {
        seconds.sort_unstable_by(f64::total_cmp);
        let counts = [options, proven].map(|count| Cell::count(count as u64));
        let times = [0.5, 0.9, 0.99, 1.0].map(|share| Cell::seconds(quantile(&seconds, share)));
        table.push([Cell::words(nodes)].into_iter().chain(counts).chain(times));
    }
    table.print(args.json.json)
}

/// A scarce instance, mostly held: trainers could use half as many nodes again of each kind.
fn instance(args: &KindsBenchArgs, seed: u64) -> MixProblem {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let trainers = args.trainers;
    let most = pair(args.cpu, args.gpu);
    let most = most.map(|nodes| (nodes * 3 / 2).div_ceil(trainers.max(1)));
    let mut left = pair(args.cpu, args.gpu);
    let mut items = Vec::new();
    for _ in 0..trainers {
        // A trainer on n nodes of a kind has the rate s n^e.
        let [cpu, gpu] = [0.05..0.4, 0.7..1.3].map(|range| rng.random_range(range));
        let [cpu_power, gpu_power] = [0; 2].map(|_| rng.random_range(0.75..0.97));
        let extra = rng.random_range(0.0..0.2);
        let value = MixTable::new(most, |[a, b, ..]| {
            let on_cpu = cpu * f64::from(a).powf(cpu_power);
            let on_gpu = gpu * f64::from(b).powf(gpu_power);
            let both = if a > 0 && b > 0 { 1.0 + extra } else { 1.0 };
            Some(both * (on_cpu + on_gpu))
        });
        let current = held(&mut rng, &mut left, most);
        items.push(Item {
            rate_now: value.at(current),
            up_s: rng.random_range(17.0..19.0),
            down_s: rng.random_range(11.0..12.6),
            ..Item::over_kinds(current, value)
        });
    }
    MixProblem {
        nodes: pair(args.cpu, args.gpu),
        horizon_s: 120.0,
        trainers: items,
    }
}

/// Nodes that a trainer holds: some of those left of each kind, 95 % of an even share in the mean.
fn held(rng: &mut ChaCha8Rng, left: &mut Mix, most: Mix) -> Mix {
    let mut mix = NO_NODES;
    for ((held, left), most) in mix.iter_mut().zip(left).zip(most) {
        let share = f64::from(most) * 0.95 / 1.5 * rng.random_range(0.0..2.0);
        *held = (share.round() as u32).min(most).min(*left);
        *left -= *held;
    }
    mix
}

/// The trainers of an instance where all nodes are alike, with the values of GPU nodes as far as
/// they go, and beyond them of CPU nodes.
fn of_one_kind(problem: &MixProblem) -> Problem {
    let nodes = problem.nodes.iter().sum();
    let items = problem.trainers.iter().map(|item| {
        let table = item.kinds.as_ref().map(|kinds| kinds.value.most());
        let [most_cpu, most_gpu, ..] = table.unwrap_or(NO_NODES);
        let max = most_cpu + most_gpu;
        let value: Arc<[f64]> = (0..=max)
            .map(|n| item.value_of(pair(n.saturating_sub(most_gpu), n.min(most_gpu))))
            .collect();
        let one = Item {
            current: item.current,
            min: 1,
            max,
            value,
            rate_now: 0.0,
            up_s: item.up_s,
            pilot_s: 0.0,
            far: Far::default(),
            kinds: None,
            down_s: item.down_s,
            lost: lacuna_planner::Lost::default(),
        };
        one.at_its_rate(0)
    });
    Problem {
        nodes,
        horizon_s: problem.horizon_s,
        trainers: items.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_on_instances_are_those_of_the_plain_program() {
        let args = KindsBenchArgs {
            trainers: 4,
            cpu: 16,
            gpu: 6,
            instances: 1,
            seed: 0,
            verify: true,
            json: JsonArg { json: false },
        };
        for seed in 0..20 {
            let problem = instance(&args, seed);
            let (found, _) = mixed::solve(&problem);
            let plain = mixed::reference::solve(&problem);
            assert!(
                (found.objective - plain.objective).abs() < 1e-6,
                "seed {seed}"
            );
        }
    }
}
