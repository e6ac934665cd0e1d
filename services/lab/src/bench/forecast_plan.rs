//! `lacuna-lab bench forecast-plan`: the time of decisions by forecasts and of judging them, and the
//! distance of each answer from the judge's bound.

use std::io::IsTerminal as _;
use std::time::Duration;

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget};
use serde::Serialize;

use lacuna_cli::error::{CliError, Result};
use lacuna_cli::output::{JsonArg, latency, parse_span, print, print_json};
use lacuna_cli::table::{Side, render};
use lacuna_model::Span;
use lacuna_planner::instance::Size;
use lacuna_planner::placement::Settings;
use lacuna_planner::placement::blocks::BlockPlacer;
use lacuna_planner::placement::columns::{
    Answer, Instance, Options, Shape, Situation, Source, decide, instance,
};
use lacuna_planner::{Far, Switches};
use lacuna_runtime::clock::{Stopwatch, processor_s};

/// Arguments of `bench forecast-plan`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna-lab bench forecast-plan
  lacuna-lab bench forecast-plan --instances 35x4734,100x10000 --solves 200 --json
  lacuna-lab bench forecast-plan --classes 64 --situations event,storm,start
  lacuna-lab bench forecast-plan --instances 100x10000 --leaf-nodes 17 --solves 20
  lacuna-lab bench forecast-plan --instances 100x10000 --leaf-nodes 17 --uplink 4

Instances are made from seeds. Nodes are in classes of like nodes; classes in front leave first,
and neighbours often leave together. At an event the front has left and hit trainers, and 2 to 8 %
of the pool is new; at a storm a quarter has left and 20 to 40 % is new; at a start nothing runs.
forecast is the dynamic program. The judge solves each decision again by HiGHS over sets of nodes. Times
are processor times where the system reports them, so that other processes do not count. The gap is the
distance to the judge's bound. With --leaf-nodes
each instance is decided again with its nodes shuffled over leaves, where trainers that cross leaves
lose 40 % of their rate. With --uplink it is decided once more where crossing trainers share uplinks.")]
pub(crate) struct ForecastPlanArgs {
    /// Sizes, TRAINERSxNODES
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [Size::of(10, 1_024), Size::of(35, 4_734), Size::of(100, 10_000)])]
    instances: Vec<Size>,
    /// Number of classes of like nodes
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=4096))]
    classes: u32,
    /// Number of futures drawn for each instance
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=4096))]
    scenarios: u32,
    /// The situation of an instance
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_enum, default_values_t = [SituationArg::Event])]
    situations: Vec<SituationArg>,
    /// Number of instances of each kind
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    solves: u32,
    /// First seed
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Decide each instance also with leaves of this number of nodes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    leaf_nodes: Option<u32>,
    /// Decide each instance also where the uplink of a leaf carries this number of crossing trainers
    #[arg(long, value_name = "N", requires = "leaf_nodes", value_parser = clap::value_parser!(u32).range(1..))]
    uplink: Option<u32>,
    /// Time limit of a judgement
    #[arg(long, value_name = "SPAN", default_value = "5s", value_parser = parse_span)]
    time_limit: Span,
    #[command(flatten)]
    json: JsonArg,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SituationArg {
    /// A common event
    Event,
    /// A large change
    Storm,
    /// Nothing runs yet
    Start,
}

impl From<SituationArg> for Situation {
    fn from(arg: SituationArg) -> Self {
        match arg {
            SituationArg::Event => Self::Event,
            SituationArg::Storm => Self::Storm,
            SituationArg::Start => Self::Start,
        }
    }
}

/// One way of deciding on one kind of instance; `--json` prints these keys.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Row {
    /// The kind of instance.
    instance: String,
    /// `forecast` or `judge`, and whether nodes are on leaves or share uplinks.
    policy: &'static str,
    /// Number of instances solved.
    solves: usize,
    /// Median time, seconds.
    p50_s: f64,
    /// 99th percentile of the time, seconds.
    p99_s: f64,
    /// Longest time, seconds.
    max_s: f64,
    /// Median of the relative gap to the bound.
    gap_p50: f64,
    /// 99th percentile of the same gap.
    gap_p99: f64,
    /// Number of judgements whose answer only HiGHS found.
    by_highs: Option<usize>,
}

/// The measurements of one way.
#[derive(Debug, Default)]
struct Measured {
    seconds: Vec<f64>,
    gaps: Vec<f64>,
}

impl Measured {
    fn row(mut self, shape: Shape, policy: &'static str, by_highs: Option<usize>) -> Row {
        self.seconds.sort_by(f64::total_cmp);
        self.gaps.sort_by(f64::total_cmp);
        Row {
            instance: shape.to_string(),
            policy,
            solves: self.seconds.len(),
            p50_s: quantile(&self.seconds, 50),
            p99_s: quantile(&self.seconds, 99),
            max_s: quantile(&self.seconds, 100),
            gap_p50: quantile(&self.gaps, 50),
            gap_p99: quantile(&self.gaps, 99),
            by_highs,
        }
    }
}

/// The percentile of a sorted list, by nearest rank.
fn quantile(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted
        .get(rank.saturating_sub(1))
        .copied()
        .unwrap_or(f64::NAN)
}

/// The distance of an answer from the bound, relative to the value of the judge's.
fn gap(answer: &Answer, worth: f64) -> f64 {
    let distance = (answer.bound - worth).max(0.0);
    if distance == 0.0 {
        0.0
    } else {
        distance / answer.objective.abs()
    }
}

/// The instance with its nodes shuffled over leaves, and trainers that lose by crossing them and
/// share uplinks that carry `uplink` of them.
fn on_leaves(instance: &Instance, leaf_nodes: u32, uplink: Option<u32>) -> Instance {
    let nodes = instance.owners.len();
    // A prime step visits all nodes.
    let leaf = |node: usize| vec![format!("{}", node * 7_919 % nodes / leaf_nodes as usize)];
    let paths: Vec<Vec<String>> = (0..nodes).map(leaf).collect();
    let switches = Switches::below(1, paths.iter().map(|path| Some(path.as_slice())));
    let mut instance = instance.clone();
    let owned = instance.owners.iter().copied().enumerate();
    let tiers = switches.tiers(owned, instance.trainers.len());
    for (item, tier) in instance.trainers.iter_mut().zip(tiers) {
        let shares = (0..item.value.len()).map(|n| if n < 2 { 1.0 } else { 0.6 });
        item.far = Far::new([shares.collect()]);
        *item = item.clone().at_its_rate(tier);
    }
    instance.scenarios = instance.scenarios.below(switches.sharing(uplink));
    instance
}

/// Solves all instances of a shape in both ways, and again on leaves and with shared uplinks if that
/// is asked for.
fn measure(args: &ForecastPlanArgs, shape: Shape, bar: &ProgressBar) -> Vec<Row> {
    let mut rows = measure_as(args, shape, bar, ("forecast", "judge"), &|i| i);
    let mut apart = |leaf_nodes, uplink, names| {
        let change = |instance: Instance| on_leaves(&instance, leaf_nodes, uplink);
        rows.extend(measure_as(args, shape, bar, names, &change));
    };
    if let Some(leaf_nodes) = args.leaf_nodes {
        let names = ("forecast, leaves", "judge, leaves");
        apart(leaf_nodes, None, names);
        if args.uplink.is_some() {
            let names = ("forecast, uplinks", "judge, uplinks");
            apart(leaf_nodes, args.uplink, names);
        }
    }
    rows
}

fn measure_as(
    args: &ForecastPlanArgs,
    shape: Shape,
    bar: &ProgressBar,
    names: (&'static str, &'static str),
    change: &dyn Fn(Instance) -> Instance,
) -> Vec<Row> {
    let watch = Stopwatch::start();
    let stopwatch = || processor_s().unwrap_or_else(|| watch.seconds());
    let settings = Settings::default();
    let options = Options {
        time_limit: Duration::from_secs_f64(args.time_limit.as_secs_f64()),
        ..Options::new(&stopwatch)
    };
    let (mut dynamic, mut judged) = (Measured::default(), Measured::default());
    let mut by_highs = 0;
    for more in 0..u64::from(args.solves) {
        bar.inc(1);
        let Some(instance) = instance(shape, args.seed.saturating_add(more)) else {
            continue;
        };
        let instance = change(instance);
        let request = instance.request();
        let before = stopwatch();
        let plan = BlockPlacer::new(settings).decide(&request);
        let between = stopwatch();
        let (_, answer) = decide(&request, &settings, plan.shadow_price, &options);
        judged.seconds.push(stopwatch() - between);
        judged.gaps.push(gap(&answer, answer.objective));
        dynamic.seconds.push(between - before);
        dynamic.gaps.push(gap(&answer, plan.value));
        by_highs += usize::from(answer.source == Source::Highs);
    }
    vec![
        dynamic.row(shape, names.0, None),
        judged.row(shape, names.1, Some(by_highs)),
    ]
}

const COLUMNS: [(&str, Side); 9] = [
    ("INSTANCE", Side::Left),
    ("POLICY", Side::Left),
    ("SOLVES", Side::Right),
    ("MEDIAN", Side::Right),
    ("99 %", Side::Right),
    ("LONGEST", Side::Right),
    ("GAP MEDIAN", Side::Right),
    ("GAP 99 %", Side::Right),
    ("BY HIGHS", Side::Right),
];

/// The rows as a table.
fn table(rows: &[Row]) -> String {
    // The time limit may end before a bound is proven.
    let share = |gap: f64| match gap.is_finite() {
        true => format!("{:.3} %", gap * 100.0),
        false => "-".to_owned(),
    };
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            vec![
                row.instance.clone(),
                row.policy.to_owned(),
                row.solves.to_string(),
                latency(Some(row.p50_s)),
                latency(Some(row.p99_s)),
                latency(Some(row.max_s)),
                share(row.gap_p50),
                share(row.gap_p99),
                row.by_highs
                    .map_or_else(|| "-".to_owned(), |n| n.to_string()),
            ]
        })
        .collect();
    render(&COLUMNS, &cells)
}

/// Runs `bench forecast-plan`.
///
/// # Errors
/// No instance of a size can be made.
pub(crate) fn run(args: &ForecastPlanArgs) -> Result<()> {
    let mut shapes = Vec::new();
    for &size in &args.instances {
        for &situation in &args.situations {
            shapes.push(Shape {
                size,
                classes: args.classes,
                scenarios: args.scenarios,
                situation: situation.into(),
            });
        }
    }
    let bar = if args.json.json || !std::io::stderr().is_terminal() {
        ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden())
    } else {
        ProgressBar::new(u64::from(args.solves).saturating_mul(shapes.len() as u64))
    };
    let mut rows = Vec::new();
    for shape in shapes {
        let of = measure(args, shape, &bar);
        if of.iter().any(|row| row.solves == 0) {
            return Err(CliError::failed(format!(
                "{shape}: no such instance can be made: expected more nodes than classes"
            )));
        }
        rows.extend(of);
    }
    bar.finish_and_clear();
    if args.json.json {
        return print_json(&rows);
    }
    print(&format!(
        "{} instances of each from seed {}, {} classes, {} futures\n\n{}",
        args.solves,
        args.seed,
        args.classes,
        args.scenarios,
        table(&rows)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_are_measured_on_the_same_instances() {
        let args = ForecastPlanArgs {
            instances: vec![Size::of(4, 60)],
            classes: 6,
            scenarios: 8,
            situations: vec![SituationArg::Event],
            solves: 6,
            seed: 3,
            leaf_nodes: Some(5),
            uplink: Some(1),
            time_limit: Span::from_secs(5),
            json: JsonArg { json: false },
        };
        let shape = Shape {
            size: Size::of(4, 60),
            classes: 6,
            scenarios: 8,
            situation: Situation::Event,
        };
        let rows = measure(&args, shape, &ProgressBar::hidden());
        let [dynamic, judged, apart, _, shared, _] = rows.as_slice() else {
            panic!("{rows:?}")
        };
        assert_eq!((dynamic.solves, judged.solves), (6, 6));
        assert_eq!((dynamic.policy, judged.policy), ("forecast", "judge"));
        assert_eq!((apart.solves, apart.policy), (6, "forecast, leaves"));
        assert_eq!((shared.solves, shared.policy), (6, "forecast, uplinks"));
        for row in &rows {
            assert!(row.p50_s <= row.p99_s && row.p99_s <= row.max_s, "{row:?}");
            assert!(row.gap_p50 <= row.gap_p99, "{row:?}");
        }
        assert!(judged.gap_p50 < 0.01, "{rows:?}");
        assert!(table(&rows).contains("4x60/6c/event"));
    }
}
