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
names (Summit: 18 nodes a cabinet), and again with the nodes shuffled over the leaves. A trainer
whose nodes are on several leaves loses the given share of its rate. Shares are of the bound of
each moment, which no allocation exceeds even if changes are free. Gap closed is the part of the
distance from unaware to that bound that aware covers. Quarters of time are by size of the pool,
the smallest first.")]
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

/// One case: the order of names and the share lost.
struct Case {
    label: String,
    arguments: Vec<String>,
}

impl DistanceArgs {
    fn cases(&self) -> Vec<Case> {
        let orders = [("names", None), ("shuffled", Some("1"))];
        let all = orders.iter().flat_map(|(name, seed)| {
            self.losses.iter().map(move |loss| {
                let mut arguments = vec!["--crossing-cost".to_owned(), loss.to_string()];
                if let Some(seed) = seed {
                    arguments.extend(["--shuffle-leaves".to_owned(), (*seed).to_owned()]);
                }
                Case {
                    label: format!("{name}, loss {:.0} %", loss * 100.0),
                    arguments,
                }
            })
        });
        all.collect()
    }

    /// The rows of all cases, those of one case in the order of [`PLACES`].
    fn rows(&self, folder: &std::path::Path, cases: &[Case]) -> Vec<Row> {
        let file = |name: &str| folder.join(name).display().to_string();
        let row = |case: &Case, place: &str| {
            let mut command = vec!["replay".to_owned(), file("holes.csv.gz")];
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
            command.extend(case.arguments.iter().chain(&self.more).cloned());
            Row {
                group: "distance",
                label: format!("{}, {place}", case.label),
                x: None,
                command,
                seeded: false,
                figures: Vec::new(),
                quick: true,
            }
        };
        let of = |case: &Case| PLACES.map(|place| row(case, place));
        cases.iter().flat_map(of).collect()
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

fn line(label: &str, cell: &Cell) -> Vec<String> {
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let [unaware, first_fit, aware] = cell.samples;
    vec![
        label.to_owned(),
        format!("{} to {}", cell.pool.0, cell.pool.1),
        percent(unaware / cell.bound),
        percent(first_fit / cell.bound),
        percent(aware / cell.bound),
        percent(aware / unaware - 1.0),
        percent(cell.closed()),
    ]
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
    };
    let done = runner.run_with_bar(args.rows(&folder, &cases), args.json.json)?;
    if let Some((run, why)) = done.iter().find_map(|run| Some((run, run.failure()?))) {
        return Err(CliError::failed(format!("{}: {why}", run.row.label)));
    }
    let (mut lines, mut values) = (vec![heading()], Vec::new());
    for (case, runs) in cases.iter().zip(done.chunks(PLACES.len())) {
        for quarter in 0..QUARTERS {
            let Some(cell) = Cell::of(runs, quarter) else {
                continue;
            };
            lines.push(line(&case.label, &cell));
            values.push(json!({
                "case": case.label,
                "quarter": quarter + 1,
                "pool": cell.pool,
                "bound": cell.bound,
                "unaware": cell.samples[0],
                "first_fit": cell.samples[1],
                "aware": cell.samples[2],
                "closed": cell.closed(),
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
        assert_eq!(cell.closed(), 0.5);
        let line = line("names, loss 60 %", &cell);
        assert_eq!(
            line[1..],
            ["3 to 40", "60.0 %", "70.0 %", "80.0 %", "33.3 %", "50.0 %"]
        );
    }
}
