//! `lacuna-lab compare goodput`: planning by learning per second and by the best batch, beside
//! scaling efficiency with the user's batch on each GPU.

mod trainers;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;

use lacuna_cli::error::{CliError, Exit, Result, file_error};
use lacuna_cli::output::JsonArg;

use self::trainers::{Aim, Batch, Network};
use crate::findings::Findings;
use crate::runs::{GOODPUT, Row, Runner, SUMMIT, commands, default_jobs, program, seeds};
use crate::table::{Cell, Column, Table};

/// The cases in the order of a cell. The first is what is compared with.
const CASES: [(&str, Batch, Aim); 7] = [
    (
        "per GPU, scaling efficiency",
        Batch::PerNode,
        Aim::ScalingEfficiency,
    ),
    ("per GPU, throughput", Batch::PerNode, Aim::Throughput),
    ("per GPU, goodput", Batch::PerNode, Aim::Goodput),
    (
        "adapted, scaling efficiency",
        Batch::Adapted,
        Aim::ScalingEfficiency,
    ),
    ("adapted, goodput", Batch::Adapted, Aim::Goodput),
    (
        "adapted, goodput, longest first",
        Batch::Adapted,
        Aim::LongestFirst,
    ),
    ("a bound of any plan", Batch::Bound, Aim::Throughput),
];
const BOUND: usize = 6;

/// Arguments of `compare goodput`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna-lab compare goodput
  lacuna-lab compare goodput --starts 1 --orders 1 --json

Each cell is a `lacuna replay` of the first 160 nodes of the recording of Summit, each taken for a
node of four T4 GPUs. 38 trainers of five networks come within six hours, ten train at a time. Their
steps, and the noise scales by progress, are the published measurements of Pollux (OSDI 2021);
pollux_profiles.json has them. A trainer learns by its goodput, in all cases. A change costs .2 s,
and a decision looks 120 s ahead. The first start is the recording's own, each other is a day later.
Longest first is goodput times a power of the time left on one node. The bound gives each
node what the best size gives a node, at no cost.")]
pub(crate) struct GoodputArgs {
    /// The folder of recorded data [default: LACUNA_DATA, else ../shared/data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The first start, Unix seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1_612_954_466)]
    from: i64,
    /// Number of starts
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    starts: u16,
    /// Number of orders of submission
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    orders: u16,
    /// Number of replays at a time [default: the cores of this machine]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    #[command(flatten)]
    json: JsonArg,
}

impl GoodputArgs {
    /// Starts with orders, in the order of the cells.
    fn cells(&self) -> impl Iterator<Item = (i64, u64)> + '_ {
        let starts = (0..i64::from(self.starts)).map(|day| self.from + day * 86_400);
        starts.flat_map(|start| (1..=u64::from(self.orders)).map(move |order| (start, order)))
    }

    /// Writes the lists of trainers of all cells into a folder.
    fn write(&self, profiles: &Path, folder: &Path) -> Result<()> {
        let wrong = |what: String| {
            let message = format!("{}: {what}", profiles.display());
            CliError::new("L0017", Exit::Failed, message)
                .remedy("expected the measured steps of five networks, as in the test data")
        };
        let text = std::fs::read_to_string(profiles);
        let text = text.map_err(|e| file_error("read", profiles, &e))?;
        let mut all: BTreeMap<String, Value> =
            serde_json::from_str(&text).map_err(|e| wrong(e.to_string()))?;
        let mut networks = Vec::new();
        for (name, _) in trainers::MIX {
            let one = all
                .remove(name)
                .ok_or_else(|| wrong(format!("no {name}")))?;
            let network: Network =
                serde_json::from_value(one).map_err(|e| wrong(format!("{name}: {e}")))?;
            networks.push((name, network));
        }
        for (case, (_, batch, aim)) in CASES.into_iter().enumerate() {
            let mut curves = BTreeMap::new();
            for (name, network) in &networks {
                let of = network.curves(batch, aim);
                curves.insert(*name, of.map_err(|e| wrong(format!("{name}: {e}")))?);
            }
            for (start, order) in self.cells() {
                let path = file(folder, case, start, order);
                let text = trainers::list(&curves, order, start);
                std::fs::write(&path, text).map_err(|e| file_error("write", &path, &e))?;
            }
        }
        Ok(())
    }

    fn rows(&self, summit: &Path, folder: &Path) -> Vec<Row> {
        let cases = |(start, order): (i64, u64)| {
            let of = move |(case, (name, batch, aim)): (usize, &(&str, Batch, Aim))| {
                let bound = *batch == Batch::Bound;
                let objective = match aim {
                    Aim::Goodput => "goodput",
                    Aim::LongestFirst => "speedup * (samples_left / rate1) ^ 0.15",
                    Aim::Throughput | Aim::ScalingEfficiency => "as-given",
                };
                let mut command = vec![
                    "replay".to_owned(),
                    "--leave-out-idle-above=none".to_owned(),
                ];
                command.push(summit.join("holes.csv.gz").display().to_string());
                for (flag, value) in [
                    ("--trainers", file(folder, case, start, order)),
                    ("--nodes-file", summit.join("nodes.txt")),
                ] {
                    command.extend([flag.to_owned(), value.display().to_string()]);
                }
                for (flag, value) in [
                    ("--first-nodes", "160".to_owned()),
                    ("--from", start.to_string()),
                    ("--policy", "dp".to_owned()),
                    ("--objective", objective.to_owned()),
                    ("--trainer-end", "immediate".to_owned()),
                    ("--max-parallel", if bound { "38" } else { "10" }.to_owned()),
                    ("--cost-scale", if bound { "0" } else { "1" }.to_owned()),
                ] {
                    command.extend([flag.to_owned(), value]);
                }
                Row {
                    label: format!("{name}, from {start}, order {order}"),
                    command,
                    seeded: false,
                }
            };
            CASES.iter().enumerate().map(of)
        };
        self.cells().flat_map(cases).collect()
    }
}

/// The list of trainers of a cell.
fn file(folder: &Path, case: usize, start: i64, order: u64) -> PathBuf {
    folder.join(format!("{case}-{start}-{order}.jsonl"))
}

/// The figures of one replay.
#[derive(Debug, Clone, Copy)]
struct Figures {
    all_done_h: f64,
    completion_h: f64,
    decision_s: [f64; 2],
}

impl Figures {
    fn of(output: &Value) -> Option<Self> {
        let number = |pointer: &str| output.pointer(pointer)?.as_f64();
        Some(Self {
            all_done_h: number("/hours")?,
            completion_h: number("/mean_completion_hours")?,
            decision_s: [number("/solve_seconds/p50")?, number("/solve_seconds/p99")?],
        })
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, n), value| (sum + value, n + 1.0));
    sum / count
}

/// All replays, by case and then by cell.
struct Results {
    cases: Vec<Vec<Figures>>,
}

/// A figure of a replay.
type Of = fn(&Figures) -> f64;

impl Results {
    /// The mean of a figure, and the mean of its ratios to the first case in the same cells.
    fn over(&self, case: usize, of: Of) -> Option<(f64, f64)> {
        let (base, own) = (self.cases.first()?, self.cases.get(case)?);
        let ratios = own.iter().zip(base).map(|(own, base)| of(own) / of(base));
        Some((mean(own.iter().map(of)), mean(ratios)))
    }

    /// Each case over all starts.
    fn by_case(&self) -> Option<Table> {
        let columns = [
            Column::words("case", "batch, objective"),
            Column::figures("all_done_h", "all done, h"),
            Column::figures("all_done_ratio", "over the first"),
            Column::figures("mean_completion_h", "mean completion, h"),
            Column::figures("mean_completion_ratio", "over the first"),
            Column::figures("decision_p50_s", "decision, median"),
            Column::figures("decision_p99_s", "99 %, worst replay"),
        ];
        let mut table = Table::new("Over all starts", columns);
        for (case, (name, _, _)) in CASES.iter().enumerate() {
            let (done, done_ratio) = self.over(case, |f| f.all_done_h)?;
            let (completion, completion_ratio) = self.over(case, |f| f.completion_h)?;
            let (median, _) = self.over(case, |f| f.decision_s[0])?;
            let own = self.cases.get(case)?.iter();
            let worst = own.map(|f| f.decision_s[1]).fold(0.0, f64::max);
            // The bound is on the end of all: it says nothing of single trainers, nor of decisions.
            let known = |figure: f64| (case != BOUND).then_some(figure);
            table.push([
                Cell::words(*name),
                Cell::number(Some(done), 1),
                Cell::number(Some(done_ratio), 3),
                Cell::number(known(completion), 2),
                Cell::number(known(completion_ratio), 3),
                Cell::seconds(known(median)),
                Cell::seconds(known(worst)),
            ]);
        }
        Some(table)
    }
}

/// Runs `compare goodput`.
///
/// # Errors
/// The data are missing, or a replay failed.
pub(super) fn run(args: &GoodputArgs) -> Result<()> {
    let summit = SUMMIT.find(args.data.as_deref())?;
    let seeds_folder = GOODPUT.find(args.data.as_deref())?;
    let folder = tempfile::tempdir().map_err(|e| CliError::failed(e.to_string()))?;
    args.write(&seeds_folder.join("pollux_profiles.json"), folder.path())?;
    let runner = Runner {
        program: program()?,
        jobs: args.jobs.map_or_else(default_jobs, usize::from),
        seeds: seeds(1, 1),
        kept: None,
    };
    let done = runner.run_with_bar(args.rows(&summit, folder.path()), args.json.json)?;
    let lacks = || CliError::failed("a replay has no figures");
    let mut cases = vec![Vec::new(); CASES.len()];
    for runs in done.chunks(CASES.len()) {
        for (all, run) in cases.iter_mut().zip(runs) {
            all.push(Figures::of(run.output()?).ok_or_else(lacks)?);
        }
    }
    let table = Results { cases }.by_case().ok_or_else(lacks)?;
    let findings = Findings {
        title: "Learning per second".to_owned(),
        about: String::new(),
        tables: vec![table],
        notes: Vec::new(),
        runs: commands(&done),
    };
    findings.print(args.json.json, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_means_within_the_cells_of_all_starts() {
        let figures = |all_done_h, completion_h| Figures {
            all_done_h,
            completion_h,
            decision_s: [1e-6, 1e-5],
        };
        let mut cases = vec![vec![figures(10.0, 1.0), figures(30.0, 4.0)]; CASES.len()];
        cases[4] = vec![figures(8.0, 0.9), figures(28.5, 2.0)];
        let table = Results { cases }.by_case().unwrap().json();
        let adapted = &table[4];
        let near =
            |name: &str, wanted: f64| (adapted[name].as_f64().unwrap() - wanted).abs() < 1e-9;
        assert!(near("mean_completion_ratio", 0.7) && near("all_done_ratio", 0.875));
        assert!(table[BOUND]["mean_completion_h"].is_null());
    }
}
