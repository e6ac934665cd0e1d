//! `lacuna-lab compare distance`: placement that knows where nodes are, beside placement that does
//! not.

use std::path::PathBuf;

use clap::Args;
use serde_json::Value;

use lacuna_cli::error::Result;
use lacuna_cli::output::JsonArg;

use crate::findings::Findings;
use crate::runs::{Done, Row, Runner, SUMMIT, commands, default_jobs, program, seeds};
use crate::table::{Cell, Column, Table};

/// The ways of placement: whether plans know where nodes are.
const PLACES: [(&str, &[&str]); 2] = [("unaware", &["--unaware"]), ("aware", &[])];

/// Number of parts of the time, by size of the pool.
const QUARTERS: usize = 4;

/// Arguments of `compare distance`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna-lab compare distance
  lacuna-lab compare distance --losses 0.6 --until 1613380000 --parallel 10
  lacuna-lab compare distance --out table.md -- --policy forecast

Each cell is a `lacuna replay` of the paper's trace. Its leaves are assumed: groups of neighbouring
names (Summit: 18 nodes a cabinet), and again with the nodes shuffled over the leaves, by several
seeds: the mean and its deviation. A trainer whose nodes are on several leaves loses the given share of
its rate. Gain is what knowing the leaves adds to the samples. Quarters of time are by size of the
pool, the smallest first.")]
pub(crate) struct DistanceArgs {
    /// The folder of recorded data [default: LACUNA_DATA, else ../shared/data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Nodes of a leaf
    #[arg(long, value_name = "N", default_value_t = 18, value_parser = clap::value_parser!(u32).range(1..))]
    leaves: u32,
    /// Shares of the rate that crossing leaves loses
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [0.2, 0.6])]
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
        let row = |label: &str, arguments: &[String], (place, switches): (&str, &[&str])| {
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
            ] {
                command.extend([flag.to_owned(), value]);
            }
            command.extend(switches.iter().map(|switch| (*switch).to_owned()));
            command.extend(arguments.iter().chain(&self.more).cloned());
            Row {
                label: format!("{label}, {place}"),
                command,
                seeded: false,
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
struct Quarter {
    pool: (u64, u64),
    samples: [f64; PLACES.len()],
}

impl Quarter {
    fn of(runs: &[Done], quarter: usize) -> Option<Self> {
        let value = |run: &Done| {
            let at = format!("/apart/quarters/{quarter}");
            run.outputs().first()?.pointer(&at).cloned()
        };
        let values: Vec<Value> = runs.iter().filter_map(value).collect();
        let samples = |value: &Value| value.get("samples").and_then(Value::as_f64);
        let [unaware, aware] = values.as_slice() else {
            return None;
        };
        let nodes = |at: &str| aware.pointer(at).and_then(Value::as_u64);
        Some(Self {
            pool: (nodes("/pool/0")?, nodes("/pool/1")?),
            samples: [samples(unaware)?, samples(aware)?],
        })
    }

    /// What knowing the leaves adds to the samples.
    fn gain(&self) -> f64 {
        let [unaware, aware] = self.samples;
        aware / unaware - 1.0
    }

    /// The mean of the gain over the seeds.
    fn mean(seeds: &[Self]) -> f64 {
        seeds.iter().map(Self::gain).sum::<f64>() / seeds.len().max(1) as f64
    }

    /// The deviation of the gain over the seeds, if there are several.
    fn deviation(seeds: &[Self]) -> Option<f64> {
        let mean = Self::mean(seeds);
        let squares = seeds.iter().map(|cell| (cell.gain() - mean).powi(2));
        let freedom = seeds.len().checked_sub(1).filter(|&freedom| freedom > 0)?;
        Some((squares.sum::<f64>() / freedom as f64).sqrt())
    }
}

fn table() -> Table {
    let columns = [
        Column::words("case", "case"),
        Column::figures("pool", "pool"),
        Column::figures("gain", "gain"),
        Column::in_json("deviation"),
    ];
    Table::new("What knowing the leaves adds", columns)
}

fn line(label: &str, seeds: &[Quarter]) -> Option<Vec<Cell>> {
    let pool = seeds.first()?.pool;
    let gain = Quarter::mean(seeds);
    let deviation = Quarter::deviation(seeds);
    let words = match deviation {
        Some(deviation) => format!("{:.1} % ± {:.1}", gain * 100.0, deviation * 100.0),
        None => format!("{:.1} %", gain * 100.0),
    };
    Some(vec![
        Cell::words(label),
        Cell::new(format!("{} to {}", pool.0, pool.1), pool),
        Cell::new(words, gain),
        Cell::new("", deviation),
    ])
}

/// Runs `compare distance`.
///
/// # Errors
/// The trace is missing, a file cannot be written, or a replay failed.
pub(super) fn run(args: &DistanceArgs) -> Result<()> {
    let folder = SUMMIT.find(args.data.as_deref())?;
    let cases = args.cases();
    let runner = Runner {
        program: program()?,
        jobs: args.jobs.map_or_else(default_jobs, usize::from),
        seeds: seeds(1, 1),
        kept: None,
    };
    let done = runner.run_with_bar(args.rows(&folder, &cases), args.json.json)?;
    for run in &done {
        run.output()?;
    }
    let mut shares = table();
    let mut runs = done.chunks(PLACES.len());
    for case in &cases {
        let seeds: Vec<&[Done]> = runs.by_ref().take(case.arguments.len()).collect();
        for quarter in 0..QUARTERS {
            let quarters = seeds.iter().filter_map(|runs| Quarter::of(runs, quarter));
            let quarters: Vec<Quarter> = quarters.collect();
            if let Some(line) = line(&case.label, &quarters) {
                shares.push(line);
            }
        }
    }
    let findings = Findings {
        title: "What it is worth to know where nodes are".to_owned(),
        about: String::new(),
        tables: vec![shares],
        notes: Vec::new(),
        runs: commands(&done),
    };
    findings.print(args.json.json, args.out.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gain_is_what_knowing_the_leaves_adds() {
        let cell = Quarter {
            pool: (3, 40),
            samples: [60.0, 80.0],
        };
        let markdown = |seeds: &[Quarter]| {
            let mut table = table();
            table.push(line("names, loss 60 %", seeds).unwrap());
            table.markdown()
        };
        let one = markdown(&[cell]);
        assert!(one.contains("| 3 to 40 | 33.3 % |"), "{one}");
        let other = Quarter {
            samples: [60.0, 90.0],
            ..cell
        };
        let both = markdown(&[cell, other]);
        assert!(both.contains("| 41.7 % ± 11.8 |"), "{both}");
    }
}
