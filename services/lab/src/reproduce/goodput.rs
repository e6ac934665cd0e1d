//! `lacuna-lab reproduce goodput`: planning by learning per second and by the best batch, beside
//! scaling efficiency with the user's batch on each GPU.

mod trainers;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use lacuna_cli::error::{CliError, Exit, Result, file_error};
use lacuna_cli::output::{JsonArg, latency, print, print_json};

use self::trainers::{Aim, Batch, Network};
use super::data::{GOODPUT, SUMMIT};
use super::row::{Done, Outcome, Row};
use super::run::{Runner, default_jobs, program, seeds};
use super::table::aligned;

/// The cases in the order of a cell. The first is what is compared with, the fifth what is judged.
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
const JUDGED: usize = 4;
const BOUND: usize = 6;

/// What was asked for: mean completion and the end of all, as parts of those of the first case.
const COMPLETION: f64 = 0.8;
const ALL_DONE: f64 = 0.85;

/// Arguments of `reproduce goodput`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna-lab reproduce goodput
  lacuna-lab reproduce goodput --starts 1 --orders 1 --json

Each cell is a `lacuna replay` of the first 160 nodes of the recording of Summit, each taken for a
node of four T4 GPUs. 38 trainers of five networks come within six hours, ten train at a time. Their
steps, and the noise scales by progress, are the published measurements of Pollux (OSDI 2021);
pollux_profiles.json has them. A trainer learns by its goodput, in all cases. A change costs .2 s,
and a decision looks 120 s ahead. The first start is the recording's own, each other is a day later.
Longest first is goodput times a power of the time left on one node. The bound gives each
node what the best size gives a node, at no cost. The exit code is 1 if, over all starts, mean
completion is not 20 % less than by scaling efficiency with the user's batch on each GPU, or the last
trainer is not done 15 % sooner: where nodes are rare at the end, its nodes and not the batch decide
when the last trainer is done. The first start is shown beside it; that it comes first was chosen
when the others were known.")]
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
                    group: "goodput",
                    label: format!("{name}, from {start}, order {order}"),
                    x: None,
                    command,
                    seeded: false,
                    figures: Vec::new(),
                    quick: true,
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
    fn of(run: &Done) -> Option<Self> {
        let Outcome::Done(outputs) = &run.outcome else {
            return None;
        };
        let output = outputs.first()?;
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
    starts: Vec<i64>,
    /// Cells of one start.
    orders: usize,
    cases: Vec<Vec<Figures>>,
}

/// What was asked for, and the ratios to the first case that were found.
#[derive(Debug)]
struct Goal {
    aim: &'static str,
    asked: f64,
    /// Over all starts.
    found: f64,
    /// From the first start alone.
    first: f64,
}

impl Goal {
    fn is_met(&self) -> bool {
        self.found <= self.asked
    }
}

/// A figure of a replay.
type Column = fn(&Figures) -> f64;

impl Results {
    /// The mean of a figure, and the mean of its ratios to the first case in the same cells.
    fn over(&self, case: usize, of: Column) -> Option<(f64, f64)> {
        let (base, own) = (self.cases.first()?, self.cases.get(case)?);
        let ratios = own.iter().zip(base).map(|(own, base)| of(own) / of(base));
        Some((mean(own.iter().map(of)), mean(ratios)))
    }

    /// The same for the cells of one start.
    fn at(&self, case: usize, start: usize, of: Column) -> Option<(f64, f64)> {
        let cells = |case: usize| self.cases.get(case)?.chunks(self.orders).nth(start);
        let (base, own) = (cells(0)?, cells(case)?);
        let ratios = own.iter().zip(base).map(|(own, base)| of(own) / of(base));
        Some((mean(own.iter().map(of)), mean(ratios)))
    }

    /// The goals, judged over all starts.
    fn goals(&self) -> Option<[Goal; 2]> {
        let goal = |aim, asked, of: Column| {
            Some(Goal {
                aim,
                asked,
                found: self.over(JUDGED, of)?.1,
                first: self.at(JUDGED, 0, of)?.1,
            })
        };
        Some([
            goal("mean completion, 20 % less", COMPLETION, |f| f.completion_h)?,
            goal("all done, 15 % sooner", ALL_DONE, |f| f.all_done_h)?,
        ])
    }

    fn markdown(&self) -> Option<String> {
        let text = |cells: &[&str]| cells.iter().map(|&c| c.to_owned()).collect::<Vec<_>>();
        let mut cases = vec![text(&[
            "batch, objective",
            "all done, h",
            "over the first",
            "mean completion, h",
            "over the first",
            "decision, median",
            "99 %, worst replay",
        ])];
        for (case, (name, _, _)) in CASES.iter().enumerate() {
            let (done, done_ratio) = self.over(case, |f| f.all_done_h)?;
            let (completion, completion_ratio) = self.over(case, |f| f.completion_h)?;
            let (median, _) = self.over(case, |f| f.decision_s[0])?;
            let own = self.cases.get(case)?.iter();
            let worst = own.map(|f| f.decision_s[1]).fold(0.0, f64::max);
            let mut line = vec![
                (*name).to_owned(),
                format!("{done:.1}"),
                format!("{done_ratio:.3}"),
            ];
            // The bound is on the end of all: it says nothing of single trainers, nor of decisions.
            line.extend(if case == BOUND {
                text(&["-", "-", "-", "-"])
            } else {
                vec![
                    format!("{completion:.2}"),
                    format!("{completion_ratio:.3}"),
                    latency(Some(median)),
                    latency(Some(worst)),
                ]
            });
            cases.push(line);
        }
        let mut starts = vec![text(&[
            "start, Unix s",
            "all done, h: first",
            "adapted, goodput",
            "ratio",
            "bound",
            "mean completion, h: first",
            "adapted, goodput",
            "ratio",
        ])];
        for (start, unix_s) in self.starts.iter().enumerate() {
            let hours = |case, of| Some(format!("{:.2}", self.at(case, start, of)?.0));
            let ratio = |of| Some(format!("{:.3}", self.at(JUDGED, start, of)?.1));
            starts.push(vec![
                unix_s.to_string(),
                hours(0, |f| f.all_done_h)?,
                hours(JUDGED, |f| f.all_done_h)?,
                ratio(|f| f.all_done_h)?,
                hours(BOUND, |f| f.all_done_h)?,
                hours(0, |f| f.completion_h)?,
                hours(JUDGED, |f| f.completion_h)?,
                ratio(|f| f.completion_h)?,
            ]);
        }
        let mut goals = vec![text(&[
            "goal, over all starts",
            "asked",
            "from the first start alone",
            "found",
            "met",
        ])];
        for goal in self.goals()? {
            goals.push(text(&[
                goal.aim,
                &format!("{:.2}", goal.asked),
                &format!("{:.3}", goal.first),
                &format!("{:.3}", goal.found),
                if goal.is_met() { "yes" } else { "NO" },
            ]));
        }
        Some(format!(
            "# Learning per second\n\n{}\n## By start\n\n{}\n## Goals\n\nWhich start comes first was \
             chosen when the others were known, so all of them are judged together.\n\n{}",
            aligned(&cases),
            aligned(&starts),
            aligned(&goals),
        ))
    }

    fn json(&self) -> Value {
        let figures = |f: &Figures| {
            json!({
                "all_done_h": f.all_done_h,
                "mean_completion_h": f.completion_h,
                "decision_s": f.decision_s,
            })
        };
        let cases = CASES.iter().zip(&self.cases);
        let cases = cases.map(|((name, _, _), all)| {
            json!({ "case": name, "replays": all.iter().map(figures).collect::<Vec<_>>() })
        });
        json!({
            "starts": self.starts,
            "orders": self.orders,
            "cases": cases.collect::<Vec<_>>(),
            "goals": self.goals().map(|goals| goals.map(|goal| {
                json!({
                    "goal": goal.aim,
                    "asked": goal.asked,
                    "found": goal.found,
                    "first": goal.first,
                    "is_met": goal.is_met(),
                })
            })),
        })
    }
}

/// Runs `reproduce goodput`.
///
/// # Errors
/// The data are missing, a replay failed, or a goal is not met.
pub(super) fn run(args: &GoodputArgs) -> Result<()> {
    let variable = || std::env::var_os("LACUNA_DATA").map(PathBuf::from);
    let summit = SUMMIT.find(args.data.as_deref(), variable())?;
    let seeds_folder = GOODPUT.find(args.data.as_deref(), variable())?;
    let folder = tempfile::tempdir().map_err(|e| CliError::failed(e.to_string()))?;
    args.write(&seeds_folder.join("pollux_profiles.json"), folder.path())?;
    let runner = Runner {
        program: program()?,
        jobs: args.jobs.map_or_else(default_jobs, usize::from),
        seeds: seeds(1, 1),
        kept: None,
    };
    let done = runner.run_with_bar(args.rows(&summit, folder.path()), args.json.json)?;
    if let Some((run, why)) = done.iter().find_map(|run| Some((run, run.failure()?))) {
        return Err(CliError::failed(format!("{}: {why}", run.row.label)));
    }
    let lacks = || CliError::failed("a replay has no figures");
    let mut cases = vec![Vec::new(); CASES.len()];
    for runs in done.chunks(CASES.len()) {
        for (all, run) in cases.iter_mut().zip(runs) {
            all.push(Figures::of(run).ok_or_else(lacks)?);
        }
    }
    let results = Results {
        starts: (0..i64::from(args.starts))
            .map(|day| args.from + day * 86_400)
            .collect(),
        orders: usize::from(args.orders),
        cases,
    };
    if args.json.json {
        print_json(&results.json())?;
    } else {
        print(&results.markdown().ok_or_else(lacks)?)?;
    }
    let goals = results.goals().ok_or_else(lacks)?;
    if goals.iter().all(Goal::is_met) {
        Ok(())
    } else {
        Err(CliError::already_printed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_judged_by_ratios_within_the_cells_of_all_starts() {
        let figures = |all_done_h, completion_h| Figures {
            all_done_h,
            completion_h,
            decision_s: [1e-6, 1e-5],
        };
        let mut cases = vec![vec![figures(10.0, 1.0), figures(30.0, 4.0)]; CASES.len()];
        cases[JUDGED] = vec![figures(8.0, 0.9), figures(28.5, 2.0)];
        let (starts, orders) = (vec![0, 86_400], 1);
        let results = Results {
            starts,
            orders,
            cases,
        };
        let [completion, all_done] = results.goals().unwrap();
        assert!((completion.first - 0.9).abs() < 1e-9 && (all_done.first - 0.8).abs() < 1e-9);
        assert!((completion.found - 0.7).abs() < 1e-9 && completion.is_met());
        assert!((all_done.found - 0.875).abs() < 1e-9 && !all_done.is_met());
        let text = results.markdown().unwrap();
        assert!(text.contains("| 86400 "), "{text}");
        assert_eq!(text.matches("yes").count(), 1, "{text}");
    }
}
