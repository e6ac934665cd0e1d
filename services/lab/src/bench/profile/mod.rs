//! `lacuna-lab bench profile`: cost and error of a scaling curve that is measured while training.

mod cluster;
mod curves;
mod program;

use clap::{Args, ValueEnum};

use lacuna_cli::Config;
use lacuna_cli::error::{CliError, Result};
use lacuna_cli::output::{JsonArg, quantile, short};
use lacuna_model::{Elastic, RescaleCost};
use lacuna_runtime::virtual_time;

use cluster::Cluster;
use curves::Named;
use program::Truth;

use crate::table::{Cell, Column, Table};

/// Arguments of `bench profile`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna-lab bench profile
  lacuna-lab bench profile --nodes 64 --launchers regroup --json

A trainer without a curve trains in virtual time, under control and its agents, as fast as a
true curve allows, with noise. Curves are laws of growth. For comparison each node count is measured
for --exhaustive seconds, from all nodes down. The error is that of the final curve to the
exhaustively measured one, at each count: its mean and its worst. Node-seconds are those idle or
stalled. Figures are medians over seeds; the worst error is the largest. Costs of a change: for torchrun the assumption of the published evaluation; for
regroup measurements (with programs that take 10 s to start in the background).")]
pub(crate) struct ProfileArgs {
    /// Number of nodes of the trainer
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=1024))]
    nodes: u32,
    /// Launchers, which differ in the cost of a change of nodes
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_enum, default_values_t = [LauncherArg::Regroup, LauncherArg::Torchrun])]
    launchers: Vec<LauncherArg>,
    /// Number of seeds
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    seeds: u64,
    /// Relative deviation of one report from the true rate
    #[arg(long, value_name = "SHARE", default_value_t = 0.03)]
    noise: f64,
    /// Share of node-time that probes may cost (control.profile.share)
    #[arg(long, value_name = "SHARE", default_value_t = 0.05)]
    share: f64,
    /// Seconds at each count of the exhaustive measurement
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u32).range(30..=86_400))]
    exhaustive: u32,
    #[command(flatten)]
    json: JsonArg,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LauncherArg {
    /// Programs continue
    Regroup,
    /// Programs start again
    Torchrun,
}

impl LauncherArg {
    const fn name(self) -> &'static str {
        match self {
            Self::Regroup => "regroup",
            Self::Torchrun => "torchrun",
        }
    }

    fn truth(self, named: &Named, noise: f64) -> Truth {
        let (elastic, up_s, down_s, start_s) = match self {
            Self::Regroup => (Elastic::REGROUP, 0.2, 0.17, 10.0),
            Self::Torchrun => {
                let workers_per_node = 1;
                (Elastic::Torchrun { workers_per_node }, 18.0, 12.0, 18.0)
            }
        };
        Truth {
            rates: named.rates.clone(),
            noise,
            rescale: RescaleCost::of(up_s, down_s),
            start_s,
            elastic,
        }
    }
}

/// The result of one seed.
struct Outcome {
    sizes: Vec<u32>,
    curve: Vec<f64>,
    spent_node_s: f64,
    known_after_s: f64,
}

/// The outcomes of the worlds of all seeds.
fn of_seeds(seeds: u64, world: impl Fn(u64) -> Result<Outcome> + Sync) -> Result<Vec<Outcome>> {
    let world = &world;
    std::thread::scope(|scope| {
        let start = |seed| scope.spawn(move || world(seed));
        let worlds: Vec<_> = (0..seeds).map(start).collect();
        let ended = |_| Err(CliError::failed("a world ended by a fault of its own"));
        let outcomes = worlds
            .into_iter()
            .map(|one| one.join().unwrap_or_else(ended));
        outcomes.collect()
    })
}

/// Runs a world to its end.
fn simulate(seed: u64, world: impl Future<Output = Result<Outcome>>) -> Result<Outcome> {
    let ran = virtual_time::run(seed, world);
    ran.map_err(|error| CliError::failed(format!("no runtime for a world: {error}")))?
}

/// Trains with probes, until all sizes are measured or for a virtual day.
async fn online(truth: &Truth, args: &ProfileArgs, seed: u64) -> Result<Outcome> {
    const LONGEST_S: u32 = 86_400;
    let mut config = Config::default();
    config.control.profile.share = args.share;
    let mut cluster = Cluster::start(truth, config, seed).await?;
    let all = truth.rates.len();
    cluster.give(all).await?;
    let counts = || {
        (0..)
            .map(|n| 1_u32 << n)
            .take_while(|n| (*n as usize) < all)
    };
    // Sizes that never settle are given up after a while.
    let quiet_s = 4 * 3600;
    let (mut known_after_s, mut before, mut since) = (0.0, 0, 0);
    for second in 0..LONGEST_S {
        cluster.second().await;
        let record = cluster.record()?;
        let measured = record.measured.as_deref();
        let known = measured.map_or(0, |m| m.rates.len());
        if known > before {
            (before, since) = (known, second);
            known_after_s = cluster.age.seconds();
        }
        let trying = measured.is_some_and(|m| !m.parked.is_empty());
        let settled = known > counts().count() && !trying && record.nodes.len() == all;
        // The pause of the last change, and the rate after it, are still to be measured.
        if (settled && second > since + 60 && cluster.sizes.len() > known)
            || second > since + quiet_s
        {
            break;
        }
    }
    outcome(&cluster, known_after_s)
}

fn outcome(cluster: &Cluster, known_after_s: f64) -> Result<Outcome> {
    let record = cluster.record()?;
    let max = record.spec.max_nodes;
    Ok(Outcome {
        sizes: cluster.sizes.clone(),
        curve: lacuna_rates::Rates::of(record).curve().table(max),
        spent_node_s: record.measured.as_deref().map_or(0.0, |m| m.spent_node_s),
        known_after_s,
    })
}

/// Measures each count for the same time, from all nodes down.
async fn exhaustive(truth: &Truth, args: &ProfileArgs, seed: u64) -> Result<Outcome> {
    let mut config = Config::default();
    config.control.profile.share = 0.0;
    let mut cluster = Cluster::start(truth, config, seed).await?;
    let all = truth.rates.len();
    let mut spent = 0.0;
    for nodes in (1..=all).rev() {
        cluster.give(nodes).await?;
        let stalled = if nodes == all {
            0.0
        } else {
            truth.rescale.down_s
        };
        spent += (all - nodes) as f64 * f64::from(args.exhaustive) + nodes as f64 * stalled;
        for _ in 0..args.exhaustive {
            cluster.second().await;
        }
    }
    spent += all as f64 * truth.rescale.up_s;
    let mut outcome = outcome(&cluster, 0.0)?;
    outcome.spent_node_s = spent;
    Ok(outcome)
}

/// Relative errors at all counts.
fn errors(curve: &[f64], known: &[f64]) -> Vec<f64> {
    let pairs = curve.iter().zip(known).skip(1);
    pairs
        .map(|(at, known)| (at - known).abs() / known)
        .collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    quantile(&values, 0.5).unwrap_or(0.0)
}

/// The figures of a curve and a launcher.
fn row(named: &Named, launcher: LauncherArg, args: &ProfileArgs) -> Result<Vec<Cell>> {
    let truth = launcher.truth(named, args.noise);
    // The exhaustive measurement has other seeds, so that the errors are independent.
    let known = of_seeds(args.seeds, |seed| {
        let seed = seed + 1_000_000;
        simulate(seed, exhaustive(&truth, args, seed))
    })?;
    let outcomes = of_seeds(args.seeds, |seed| {
        simulate(seed, online(&truth, args, seed))
    })?;
    let errors: Vec<Vec<f64>> = outcomes
        .iter()
        .zip(&known)
        .map(|(outcome, known)| errors(&outcome.curve, &known.curve))
        .collect();
    let mean = |errors: &Vec<f64>| errors.iter().sum::<f64>() / errors.len().max(1) as f64;
    let worst = errors.iter().flatten().copied().fold(0.0, f64::max);
    let spent: Vec<f64> = outcomes.iter().map(|o| o.spent_node_s).collect();
    let least = spent.iter().copied().fold(f64::INFINITY, f64::min);
    let most = spent.iter().copied().fold(0.0, f64::max);
    let all = median(known.iter().map(|o| o.spent_node_s).collect());
    let known_after_s = median(outcomes.iter().map(|o| o.known_after_s).collect());
    let median_spent = median(spent);
    let node_s = |seconds: f64| Cell::new(short(seconds), seconds);
    Ok(vec![
        Cell::words(&named.name),
        Cell::words(launcher.name()),
        Cell::percent(Some(median(errors.iter().map(mean).collect())), 1),
        Cell::percent(Some(worst), 1),
        node_s(median_spent),
        node_s(least),
        node_s(most),
        node_s(all),
        Cell::percent(Some(median_spent / all), 1),
        Cell::new(format!("{:.0} min", known_after_s / 60.0), known_after_s),
        Cell::new("", outcomes.first().map_or(&[][..], |o| &o.sizes)),
    ])
}

/// Runs `bench profile`.
///
/// # Errors
/// An argument is invalid, or a world failed.
pub(crate) fn run(args: &ProfileArgs) -> Result<()> {
    for (name, value) in [("--noise", args.noise), ("--share", args.share)] {
        if !(0.0..=1.0).contains(&value) {
            return Err(
                CliError::failed(format!("{name} is {value}")).remedy("write a number from 0 to 1")
            );
        }
    }
    let columns = [
        Column::words("curve", "curve"),
        Column::words("launcher", "launcher"),
        Column::figures("error_mean", "error"),
        Column::figures("error_worst", "worst"),
        Column::figures("spent_node_s", "node-s"),
        Column::figures("spent_least_node_s", "least"),
        Column::figures("spent_most_node_s", "most"),
        Column::figures("exhaustive_node_s", "exhaustive"),
        Column::figures("share_of_exhaustive", "of it"),
        Column::figures("known_after_s", "known after"),
        Column::in_json("sizes"),
    ];
    let heading = format!(
        "{} nodes, noise {:.1} %, {} seeds, at most {:.1} % of the node-time",
        args.nodes,
        args.noise * 100.0,
        args.seeds,
        args.share * 100.0
    );
    let mut table = Table::new(heading, columns);
    for named in curves::laws(args.nodes) {
        for &launcher in &args.launchers {
            table.push(row(&named, launcher, args)?);
        }
    }
    table.print(args.json.json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_its_agents_measure_the_true_curve_in_virtual_time() {
        let args = ProfileArgs {
            nodes: 4,
            launchers: Vec::new(),
            seeds: 1,
            noise: 0.0,
            share: 1.0,
            exhaustive: 30,
            json: JsonArg { json: false },
        };
        let rates = (1..=4).map(|n| 100.0 * f64::from(n).powf(0.8));
        let named = Named {
            name: "power 0.8".to_owned(),
            rates: rates.collect(),
        };
        for launcher in [LauncherArg::Regroup, LauncherArg::Torchrun] {
            let truth = launcher.truth(&named, args.noise);
            let outcome = simulate(1, online(&truth, &args, 1)).unwrap();
            assert_eq!(outcome.sizes, [4, 2, 1, 4]);
            let known = [1, 2, 4].map(|n: usize| outcome.curve[n] / truth.rates[n - 1]);
            assert!(
                known.iter().all(|share| (share - 1.0).abs() < 0.01),
                "{known:?}"
            );
        }
    }
}
