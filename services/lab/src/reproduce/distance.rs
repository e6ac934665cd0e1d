//! `lacuna-lab reproduce distance`: placement that knows where nodes are, beside placement that does
//! not, first fit by name, and a bound of each moment.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use lacuna_cli::error::{CliError, Result, file_error};
use lacuna_cli::output::{JsonArg, print, print_json};

use super::data::SUMMIT;
use super::row::{Done, Outcome, Row};
use super::run::{Runner, default_jobs, program, seeds};
use super::table::aligned;

/// The ways of placement, as `--place` names them.
const PLACES: [&str; 3] = ["unaware", "first-fit", "aware"];

/// Number of parts of the time, by size of the pool.
const QUARTERS: usize = 4;

/// Arguments of `reproduce distance`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna-lab reproduce distance
  lacuna-lab reproduce distance --losses 0.6 --until 1613380000 --parallel 10
  lacuna-lab reproduce distance --out table.md -- --policy milp-patterns

Each cell is a `lacuna replay` of the paper's trace. Its leaves are assumed: groups of neighbouring
names (Summit: 18 nodes a cabinet), and again with the nodes shuffled over the leaves, by several
seeds: means, and the gap closed with its deviation. A trainer whose nodes are on several leaves
loses the given share of its rate. Shares are of the bound of each moment, which no allocation
exceeds even if changes are free. Gap closed is the part of the distance from unaware to that bound
that aware covers. Quarters of time are by size of the pool, the smallest first.")]
pub(crate) struct DistanceArgs {
    /// The folder of recorded data [default: LACUNA_DATA, else ../shared/data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Nodes of a leaf
    #[arg(long, value_name = "N", default_value_t = 18, value_parser = clap::value_parser!(u32).range(1..))]
    leaves: u32,
    /// Shares of the rate that crossing leaves loses
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [0.0, 0.2, 0.6])]
    losses: Vec<f64>,
    /// Number of seeds by which nodes are shuffled over the leaves, from 1 on
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    shuffles: u32,
    /// Trainers at a time
    #[arg(long, value_name = "N", default_value_t = 35, value_parser = clap::value_parser!(u32).range(1..))]
    parallel: u32,
    /// Start of the replayed part, Unix seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1_613_347_732)]
    from: i64,
    /// End of the replayed part, Unix seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1_613_520_532)]
    until: i64,
    /// Number of replays at a time [default: the cores of this machine]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Write the table (Markdown) to a file instead of printing it
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    json: JsonArg,
    /// Further arguments of every `lacuna replay`
    #[arg(last = true, value_name = "REPLAY ARGUMENTS")]
    more: Vec<String>,
}

/// One case: the order of names and the share lost, with its arguments by seed.
struct Case {
    label: String,
    arguments: Vec<Vec<String>>,
}

impl DistanceArgs {
    fn cases(&self) -> Vec<Case> {
        let shuffles = || (1..=self.shuffles).map(Some).collect();
        let orders: [(_, Vec<Option<u32>>); 2] = [("names", vec![None]), ("shuffled", shuffles())];
        let arguments = |loss: &f64, seed: &Option<u32>| {
            let mut arguments = vec!["--crossing-cost".to_owned(), loss.to_string()];
            if let Some(seed) = seed {
                arguments.extend(["--shuffle-leaves".to_owned(), seed.to_string()]);
            }
            arguments
        };
        let case = |name: &str, seeds: &[Option<u32>], loss: &f64| Case {
            label: format!("{name}, loss {:.0} %", loss * 100.0),
            arguments: seeds.iter().map(|seed| arguments(loss, seed)).collect(),
        };
        let all = orders.iter().flat_map(|(name, seeds)| {
            let losses = self.losses.iter();
            losses.map(move |loss| case(name, seeds, loss))
        });
        all.collect()
    }

    /// The rows of all cases, those of one case by seed and then in the order of [`PLACES`].
    fn rows(&self, folder: &std::path::Path, cases: &[Case]) -> Vec<Row> {
        let file = |name: &str| folder.join(name).display().to_string();
        let row = |label: &str, arguments: &[String], place: &str| {
            let mut command = vec![
                "replay".to_owned(),
                "--leave-out-idle-above=none".to_owned(),
                file("holes.csv.gz"),
            ];
            command.extend(["--trainers".to_owned(), file("hpo-1000.jsonl.gz")]);
            command.push("--endless".to_owned());
            for (flag, value) in [
                ("--from", self.from.to_string()),
                ("--until", self.until.to_string()),
                ("--max-parallel", self.parallel.to_string()),
                ("--leaves", self.leaves.to_string()),
                ("--place", place.to_owned()),
            ] {
                command.extend([flag.to_owned(), value]);
            }
            command.extend(arguments.iter().chain(&self.more).cloned());
            Row {
                group: "distance",
                label: format!("{label}, {place}"),
                x: None,
                command,
                seeded: false,
                figures: Vec::new(),
                quick: true,
            }
        };
        let mut rows = Vec::new();
        for case in cases {
            for arguments in &case.arguments {
                rows.extend(PLACES.map(|place| row(&case.label, arguments, place)));
            }
        }
        rows
    }
}

/// The figures of one quarter of one case, by place.
#[derive(Debug, Clone, Copy)]
struct Cell {
    pool: (u64, u64),
    bound: f64,
    samples: [f64; PLACES.len()],
}

impl Cell {
    fn of(runs: &[Done], quarter: usize) -> Option<Self> {
        let value = |run: &Done| match &run.outcome {
            Outcome::Done(outputs) => {
                let at = format!("/apart/quarters/{quarter}");
                outputs.first()?.pointer(&at).cloned()
            }
            Outcome::Failed(_) => None,
        };
        let values: Vec<Value> = runs.iter().filter_map(value).collect();
        let number = |value: &Value, key: &str| value.get(key).and_then(Value::as_f64);
        let [unaware, first_fit, aware] = values.as_slice() else {
            return None;
        };
        let nodes = |at: &str| aware.pointer(at).and_then(Value::as_u64);
        Some(Self {
            pool: (nodes("/pool/0")?, nodes("/pool/1")?),
            bound: number(aware, "bound")?,
            samples: [
                number(unaware, "samples")?,
                number(first_fit, "samples")?,
                number(aware, "samples")?,
            ],
        })
    }

    /// The part of the distance from unaware to the bound that aware covers.
    fn closed(&self) -> f64 {
        let [unaware, _, aware] = self.samples;
        (aware - unaware) / (self.bound - unaware)
    }

    /// The mean of a figure over the seeds.
    fn mean(seeds: &[Self], figure: impl Fn(&Self) -> f64) -> f64 {
        seeds.iter().map(figure).sum::<f64>() / seeds.len().max(1) as f64
    }

    /// The deviation of the gap closed over the seeds, if there are several.
    fn deviation(seeds: &[Self]) -> Option<f64> {
        let mean = Self::mean(seeds, Self::closed);
        let squares = seeds.iter().map(|cell| (cell.closed() - mean).powi(2));
        let freedom = seeds.len().checked_sub(1).filter(|&freedom| freedom > 0)?;
        Some((squares.sum::<f64>() / freedom as f64).sqrt())
    }
}

fn heading() -> Vec<String> {
    let words = [
        "case",
        "pool",
        "unaware",
        "first fit",
        "aware",
        "gain",
        "gap closed",
    ];
    words.map(str::to_owned).to_vec()
}

fn line(label: &str, seeds: &[Cell]) -> Option<Vec<String>> {
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let mean = |figure: &dyn Fn(&Cell) -> f64| percent(Cell::mean(seeds, figure));
    let share =
        |at: usize| mean(&move |cell: &Cell| cell.samples.get(at).unwrap_or(&0.0) / cell.bound);
    let first = seeds.first()?;
    let closed = mean(&Cell::closed);
    Some(vec![
        label.to_owned(),
        format!("{} to {}", first.pool.0, first.pool.1),
        share(0),
        share(1),
        share(2),
        mean(&|cell| {
            let [unaware, _, aware] = cell.samples;
            aware / unaware - 1.0
        }),
        match Cell::deviation(seeds) {
            Some(deviation) => format!("{closed} ± {:.1}", deviation * 100.0),
            None => closed,
        },
    ])
}

/// Runs `reproduce distance`.
///
/// # Errors
/// The trace is missing, a file cannot be written, or a replay failed.
pub(super) fn run(args: &DistanceArgs) -> Result<()> {
    let variable = std::env::var_os("LACUNA_DATA").map(PathBuf::from);
    let folder = SUMMIT.find(args.data.as_deref(), variable)?;
    let cases = args.cases();
    let runner = Runner {
        program: program()?,
        jobs: args.jobs.map_or_else(default_jobs, usize::from),
        seeds: seeds(1, 1),
        kept: None,
    };
    let done = runner.run_with_bar(args.rows(&folder, &cases), args.json.json)?;
    if let Some((run, why)) = done.iter().find_map(|run| Some((run, run.failure()?))) {
        return Err(CliError::failed(format!("{}: {why}", run.row.label)));
    }
    let (mut lines, mut values) = (vec![heading()], Vec::new());
    let mut runs = done.chunks(PLACES.len());
    for case in &cases {
        let seeds: Vec<&[Done]> = runs.by_ref().take(case.arguments.len()).collect();
        for quarter in 0..QUARTERS {
            let cells = seeds.iter().filter_map(|runs| Cell::of(runs, quarter));
            let cells: Vec<Cell> = cells.collect();
            lines.extend(line(&case.label, &cells));
            values.extend(cells.iter().zip(1..).map(|(cell, seed)| {
                json!({
                    "case": case.label,
                    "seed": seed,
                    "quarter": quarter + 1,
                    "pool": cell.pool,
                    "bound": cell.bound,
                    "unaware": cell.samples[0],
                    "first_fit": cell.samples[1],
                    "aware": cell.samples[2],
                    "closed": cell.closed(),
                })
            }));
        }
    }
    let commands: Vec<&Vec<String>> = done.iter().map(|run| &run.row.command).collect();
    if args.json.json {
        return print_json(&json!({ "rows": values, "commands": commands }));
    }
    let text = format!(
        "# What it is worth to know where nodes are\n\n{}",
        aligned(&lines)
    );
    match &args.out {
        Some(path) => {
            std::fs::write(path, text).map_err(|e| file_error("write the table to", path, &e))
        }
        None => print(&text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closed_gap_is_a_part_of_the_distance_to_the_bound() {
        let cell = Cell {
            pool: (3, 40),
            bound: 100.0,
            samples: [60.0, 70.0, 80.0],
        };
        let line = |seeds: &[Cell]| line("names, loss 60 %", seeds).unwrap();
        assert_eq!(
            line(&[cell])[1..],
            ["3 to 40", "60.0 %", "70.0 %", "80.0 %", "33.3 %", "50.0 %"]
        );
        let other = Cell {
            samples: [60.0, 70.0, 90.0],
            ..cell
        };
        let both = line(&[cell, other]);
        assert_eq!(both[4..], ["85.0 %", "41.7 %", "62.5 % ± 17.7"]);
    }
}
