//! `lacuna-lab bench gangs`: the time of a plan for gangs on a large cluster with a long queue.

use clap::Args;
use serde::Serialize;

use lacuna_cli::error::{CliError, Exit, Result};
use lacuna_cli::output::{JsonArg, latency, print, print_json, progress_bar, quantile};
use lacuna_cli::table::{Side, render};
use lacuna_gangs::{
    Calibration, Cluster, Collective, Entry, Error, Fabric, Layout, Library, Plan, Policy,
    Profiles, ShapeRule, Speeds, TraceJob, View, catalogue, read_jobs, simulate,
};
use lacuna_runtime::clock::Stopwatch;

use super::data;

/// Arguments of `bench gangs`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna-lab bench gangs
  lacuna-lab bench gangs --racks 32 --queue 2000 --json

The jobs of the trace batch500 of the recorded data are repeated, and all come at once. A plan
counts while the number of jobs is within a tenth of --queue. Racks have 64 GPUs.")]
pub(crate) struct GangsArgs {
    /// Number of racks
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=4096))]
    racks: u32,
    /// Number of jobs at which plans count
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(10..=100_000))]
    queue: u32,
    #[command(flatten)]
    json: JsonArg,
}

/// The times of a policy's plans.
#[derive(Debug, Serialize)]
struct Row {
    policy: &'static str,
    plans: usize,
    p50_s: Option<f64>,
    p90_s: Option<f64>,
    p99_s: Option<f64>,
    max_s: Option<f64>,
}

/// A policy whose plans are timed.
struct Timed {
    policy: Box<dyn Policy>,
    queue: std::ops::RangeInclusive<usize>,
    seconds: Vec<f64>,
}

impl Policy for Timed {
    fn plan(&mut self, view: &View<'_>) -> Plan {
        let watch = Stopwatch::start();
        let plan = self.policy.plan(view);
        if self
            .queue
            .contains(&(view.waiting.len() + view.running.len()))
        {
            self.seconds.push(watch.seconds());
        }
        plan
    }

    fn wake_s(&self) -> Option<f64> {
        self.policy.wake_s()
    }
}

fn refused(error: &Error) -> CliError {
    CliError::new("L0011", Exit::Failed, error.to_string())
}

/// Runs `bench gangs`.
///
/// # Errors
/// The recorded data are missing or malformed.
pub(crate) fn run(args: &GangsArgs) -> Result<()> {
    let bar = progress_bar(
        args.json.json,
        catalogue().len() as u64,
        "{wide_bar} {pos}/{len} policies",
    );
    let mut rows = Vec::new();
    for entry in catalogue() {
        rows.push(row(args, entry)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    if args.json.json {
        return print_json(&rows);
    }
    let columns = [
        ("POLICY", Side::Left),
        ("PLANS", Side::Right),
        ("MEDIAN", Side::Right),
        ("90 %", Side::Right),
        ("99 %", Side::Right),
        ("MOST", Side::Right),
    ];
    let cells = rows.iter().map(|row| {
        let times = [row.p50_s, row.p90_s, row.p99_s, row.max_s].map(latency);
        [
            vec![row.policy.to_owned(), row.plans.to_string()],
            times.to_vec(),
        ]
        .concat()
    });
    let heading = format!(
        "A plan for {} GPUs and about {} jobs",
        args.racks * 64,
        args.queue
    );
    print(&format!(
        "{heading}\n\n{}",
        render(&columns, &cells.collect::<Vec<_>>())
    ))
}

fn row(args: &GangsArgs, entry: &'static Entry) -> Result<Row> {
    let layout = Layout::new(args.racks, 8, 2, 4).map_err(|e| refused(&e))?;
    let (speeds, jobs) = world(args, layout)?;
    let least = args.queue as usize * 9 / 10;
    let mut timed = Timed {
        policy: entry.policy(1),
        queue: least..=args.queue as usize * 11 / 10,
        seconds: Vec::new(),
    };
    let cluster = Cluster::shuffled(layout, 1);
    let ran = simulate(
        &jobs,
        cluster,
        (&speeds, &entry.terms),
        &mut timed,
        &mut |_| {},
    );
    ran.map_err(|e| refused(&e))?;
    let mut seconds = timed.seconds;
    seconds.sort_unstable_by(f64::total_cmp);
    Ok(Row {
        policy: entry.name,
        plans: seconds.len(),
        p50_s: quantile(&seconds, 0.5),
        p90_s: quantile(&seconds, 0.9),
        p99_s: quantile(&seconds, 0.99),
        max_s: quantile(&seconds, 1.0),
    })
}

fn world(args: &GangsArgs, layout: Layout) -> Result<(Speeds, Vec<lacuna_gangs::Job>)> {
    let text = |name: &str| {
        let missing = || {
            CliError::new(
                "L0017",
                Exit::Failed,
                format!("there is no {name} in the recorded data"),
            )
            .remedy("name the folder that holds it with LACUNA_DATA")
        };
        let path = data::file(name).ok_or_else(missing)?;
        std::fs::read_to_string(&path).map_err(|e| lacuna_cli::error::file_error("read", &path, &e))
    };
    let (layers, scales) = (text("dally/layers.csv")?, text("dally/compute_scale.csv")?);
    let library = Library::read(("layers.csv", &layers), ("compute_scale.csv", &scales));
    let trace = read_jobs("batch500.csv", &text("dally/traces/batch500.csv")?);
    let trace = trace.map_err(|e| refused(&e))?;
    // One and a half times the queue, so that plans count while it drains.
    let count = args.queue as usize * 3 / 2;
    let repeated = trace.iter().cycle().take(count).enumerate();
    let jobs: Vec<TraceJob> = repeated
        .map(|(at, job)| TraceJob {
            job_id: at as u64,
            ..job.clone()
        })
        .collect();
    let library = library.map_err(|e| refused(&e))?;
    let made = Profiles::new(&library, Calibration::Authors, &jobs);
    let (profiles, jobs) = made.map_err(|e| refused(&e))?;
    let fabric = Fabric::read("fabrics.json", &text("dally/fabrics.json")?, "paper");
    let fabric = fabric.map_err(|e| refused(&e))?;
    let how = (Collective::Naive, ShapeRule::Coded);
    Ok((Speeds::new(fabric, how, layout, profiles), jobs))
}
