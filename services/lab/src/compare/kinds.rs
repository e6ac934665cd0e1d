//! `lacuna-lab compare kinds`: trainers that mix two kinds of nodes, beside trainers on one kind
//! each and trainers on GPU nodes alone.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;
use serde_json::{Value, json};

use lacuna_cli::error::{CliError, Exit, Result, file_error};
use lacuna_cli::output::JsonArg;

use crate::findings::Findings;
use crate::runs::{Done, KIND_RATES, Row, Runner, SUMMIT, commands, default_jobs, program, seeds};
use crate::table::{Cell, Column, Table};

/// What trainers may take, from the least to the most, and what a plan looks at: the trainers' file
/// and the switches of each.
const PLANS: [(&str, usize, &[&str]); 6] = [
    ("GPU nodes only", 0, &[]),
    ("one kind each", 1, &[]),
    ("any mix", 2, &[]),
    ("any mix, without forecasts", 2, &["--policy=dp"]),
    ("any mix, on leaves", 2, &[LEAVES, CROSSING]),
    (
        "any mix, on leaves, without distance",
        2,
        &[LEAVES, CROSSING, "--unaware"],
    ),
];

/// Leaf switches of 18 nodes, between which a trainer loses a fifth of its rate.
const LEAVES: &str = "--leaves=18";
const CROSSING: &str = "--crossing-cost=0.2";

/// Arguments of `compare kinds`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna-lab compare kinds
  lacuna-lab compare kinds --until 1613520532 --costs 0,1 --json

Each cell is a `lacuna replay` of two parts of the recording of Summit: the first nodes count as CPU
nodes, the next as GPU nodes, by name and shuffled by seed. Ten trainers, two of each of five made
networks, have the rates of heterps_two_kinds.json over those of one GPU node, and cost 18 s to
grow and 12 s to shrink, times the given factors. Worth is what all trainers did, over one GPU node
that trains all the time. On leaves of 18 nodes a trainer that crosses loses a fifth of its rate.")]
pub(crate) struct KindsArgs {
    /// The folder of recorded data [default: LACUNA_DATA, else ../shared/data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// CPU nodes
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..=2048))]
    cpu: u16,
    /// GPU nodes
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u16).range(1..=2048))]
    gpu: u16,
    /// Factors on the costs of changes
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [1.0, 5.0])]
    costs: Vec<f64>,
    /// Start of the replayed part, Unix seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1_612_918_128)]
    from: i64,
    /// End of the replayed part, Unix seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1_613_908_800)]
    until: i64,
    /// The seed of the shuffled nodes
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Number of replays at a time [default: the cores of this machine]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    #[command(flatten)]
    json: JsonArg,
}

/// The rates of a network, samples/s by CPU nodes and GPU nodes.
#[derive(Debug, Deserialize)]
struct Rates {
    rate: Vec<Vec<f64>>,
}

impl Rates {
    /// The trainer of this network as a line, which may take what a plan says. Rates are over that of
    /// one GPU node.
    fn line(&self, name: &str, plan: usize) -> Option<Value> {
        let none = self.rate.first()?;
        let unit = *none.get(1)?;
        let curve = |rates: Vec<f64>| {
            let nodes: Vec<usize> = (1..=rates.len()).collect();
            json!({ "nodes": nodes, "samples_per_s": rates })
        };
        let gpu: Vec<f64> = none.iter().skip(1).map(|rate| rate / unit).collect();
        let rows = || self.rate.iter().enumerate().skip(1);
        let cpu: Vec<f64> = rows()
            .filter_map(|(_, row)| row.first())
            .map(|r| r / unit)
            .collect();
        let (most_gpu, most_cpu) = (gpu.len(), cpu.len());
        let mut kinds = json!({ "gpu": curve(gpu) });
        let mut together = Vec::new();
        let most = match plan {
            0 => most_gpu,
            1 => most_gpu.max(most_cpu),
            _ => most_gpu + most_cpu,
        };
        if plan > 0 {
            kinds.as_object_mut()?.insert("cpu".to_owned(), curve(cpu));
        }
        if plan > 1 {
            let points = rows().flat_map(|(cpu, row)| {
                let mixed = row.iter().enumerate().skip(1);
                mixed.map(move |(gpu, rate)| {
                    json!({ "cpu": cpu, "gpu": gpu, "samples_per_s": rate / unit })
                })
            });
            together = points.collect();
        }
        Some(json!({
            "name": name, "submit": 0, "min_nodes": 1, "max_nodes": most, "samples": 1e12,
            "rescale_up_s": 18, "rescale_down_s": 12, "kinds": kinds, "together": together,
        }))
    }
}

/// Files that the replays read.
struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).map_err(|e| file_error("write", &path, &e))
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }
}

impl KindsArgs {
    /// Writes the nodes with their kinds, in each order, and the trainers of each plan.
    fn files(&self, summit: &Path, rates: &Path) -> Result<Files> {
        let folder = tempfile::tempdir().map_err(|e| CliError::failed(e.to_string()))?;
        let files = Files { folder };
        let read =
            |path: &Path| std::fs::read_to_string(path).map_err(|e| file_error("read", path, &e));
        let list = read(&summit.join("nodes.txt"))?;
        let mut names: Vec<&str> = list
            .lines()
            .map(str::trim)
            .filter(|n| !n.is_empty())
            .collect();
        names.sort_unstable();
        let (cpu, gpu) = (usize::from(self.cpu), usize::from(self.gpu));
        for order in ORDERS {
            if order == "shuffled" {
                names.shuffle(&mut ChaCha8Rng::seed_from_u64(self.seed));
            }
            let (mut nodes, mut kinds) = (String::new(), "node,kind\n".to_owned());
            for (at, name) in names.iter().enumerate() {
                let _ = writeln!(nodes, "{name}");
                if at < cpu + gpu {
                    let kind = if at < cpu { "cpu" } else { "gpu" };
                    let _ = writeln!(kinds, "{name},{kind}");
                }
            }
            files.write(&format!("{order}.txt"), &nodes)?;
            files.write(&format!("{order}.csv"), &kinds)?;
        }
        let wrong = |what: String| {
            let message = format!("{}: {what}", rates.display());
            CliError::new("L0017", Exit::Failed, message)
                .remedy("expected an object of networks, each with its rate by CPU and GPU nodes")
        };
        let networks: BTreeMap<String, Rates> =
            serde_json::from_str(&read(rates)?).map_err(|e| wrong(e.to_string()))?;
        for plan in 0..3 {
            let mut text = String::new();
            for (network, rates) in &networks {
                for twin in 1..=2 {
                    let line = rates.line(&format!("{network}-{twin}"), plan);
                    let line = line.ok_or_else(|| wrong(format!("{network} has no rates")))?;
                    let _ = writeln!(text, "{line}");
                }
            }
            files.write(&format!("trainers-{plan}.jsonl"), &text)?;
        }
        Ok(files)
    }

    /// The rows, those of one order and cost in the order of [`PLANS`].
    fn rows(&self, summit: &Path, files: &Files) -> Vec<Row> {
        let holes = summit.join("holes.csv.gz").display().to_string();
        let mut rows = Vec::new();
        for order in ORDERS {
            for cost in &self.costs {
                for (name, plan, switches) in PLANS {
                    let mut command = vec![
                        "replay".to_owned(),
                        "--leave-out-idle-above=none".to_owned(),
                        holes.clone(),
                    ];
                    command.push("--endless".to_owned());
                    for (flag, value) in [
                        ("--trainers", files.path(&format!("trainers-{plan}.jsonl"))),
                        ("--kinds", files.path(&format!("{order}.csv"))),
                        ("--nodes-file", files.path(&format!("{order}.txt"))),
                        ("--first-nodes", (self.cpu + self.gpu).to_string()),
                        ("--from", self.from.to_string()),
                        ("--until", self.until.to_string()),
                        ("--max-parallel", "10".to_owned()),
                        ("--cost-scale", cost.to_string()),
                    ] {
                        command.extend([flag.to_owned(), value]);
                    }
                    command.extend(switches.iter().map(|switch| (*switch).to_owned()));
                    rows.push(Row {
                        label: format!("{order}, costs x{cost}, {name}"),
                        command,
                        seeded: false,
                    });
                }
            }
        }
        rows
    }
}

/// The orders of nodes.
const ORDERS: [&str; 2] = ["names", "shuffled"];

/// The figures of one replay.
#[derive(Debug, Clone, Copy)]
struct Figures {
    worth: f64,
    /// Node-hours offered and harvested, of CPU nodes and of GPU nodes.
    offered: [f64; 2],
    harvested: [f64; 2],
    hours: f64,
    decision_s: f64,
}

impl Figures {
    fn of(output: &Value) -> Option<Self> {
        let number = |pointer: &str| output.pointer(pointer)?.as_f64();
        let hours = number("/hours")?;
        let of = |field: &str| {
            let each = |at: usize| number(&format!("/kinds/{at}/{field}"));
            Some([each(0)?, each(1)?])
        };
        Some(Self {
            worth: number("/samples")? / hours / 3600.0,
            offered: of("offered_node_hours")?,
            harvested: of("harvested_node_hours")?,
            decision_s: number("/solve_seconds/p99")?,
            hours,
        })
    }

    fn row(&self, label: &str, gain: f64) -> Vec<Cell> {
        let mean = |hours: [f64; 2]| {
            let [cpu, gpu] = hours.map(|all| all / self.hours);
            Cell::new(format!("{cpu:.1} + {gpu:.1}"), [cpu, gpu])
        };
        vec![
            Cell::words(label),
            mean(self.offered),
            mean(self.harvested),
            Cell::number(Some(self.worth), 2),
            Cell::new(format!("{:+.1} %", gain * 100.0), gain),
            Cell::seconds(Some(self.decision_s)),
        ]
    }
}

/// Runs `compare kinds`.
///
/// # Errors
/// The data are missing, or a replay failed.
pub(super) fn run(args: &KindsArgs) -> Result<()> {
    let summit = SUMMIT.find(args.data.as_deref())?;
    let rates = KIND_RATES.find(args.data.as_deref())?;
    let files = args.files(&summit, &rates.join("heterps_two_kinds.json"))?;
    let runner = Runner {
        program: program()?,
        jobs: args.jobs.map_or_else(default_jobs, usize::from),
        seeds: seeds(1, 1),
        kept: None,
    };
    let done = runner.run_with_bar(args.rows(&summit, &files), args.json.json)?;
    let columns = [
        Column::words("case", "case"),
        Column::figures("idle_nodes", "idle CPU + GPU"),
        Column::figures("used_nodes", "used"),
        Column::figures("worth", "worth"),
        Column::figures("over_one_kind", "over one kind"),
        Column::figures("decision_p99_s", "decision, 99 %"),
    ];
    let mut table = Table::new("Two kinds", columns);
    for runs in done.chunks(PLANS.len()) {
        let outputs = runs.iter().map(Done::output);
        let outputs = outputs.collect::<Result<Vec<_>>>()?;
        let figures: Vec<Figures> = outputs.into_iter().filter_map(Figures::of).collect();
        let [_, one, ..] = figures.as_slice() else {
            return Err(CliError::failed("a replay has no figures by kind"));
        };
        for (run, figures) in runs.iter().zip(&figures) {
            table.push(figures.row(&run.row.label, figures.worth / one.worth - 1.0));
        }
    }
    let findings = Findings {
        title: "Two kinds of nodes in one plan".to_owned(),
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
    fn plans_allow_more_and_more_and_rates_are_over_one_gpu_node() {
        let rate = vec![vec![0.0, 10.0], vec![4.0, 12.0], vec![8.0, 15.0]];
        let rates = Rates { rate };
        let line = |plan| rates.line("a", plan).unwrap();
        assert_eq!(line(0)["max_nodes"], 1);
        assert!(line(0)["kinds"].get("cpu").is_none());
        assert_eq!(line(1)["max_nodes"], 2);
        assert_eq!(line(1)["kinds"]["cpu"]["samples_per_s"], json!([0.4, 0.8]));
        assert_eq!(line(1)["together"], json!([]));
        assert_eq!(line(2)["max_nodes"], 3);
        let points = json!([
            { "cpu": 1, "gpu": 1, "samples_per_s": 1.2 },
            { "cpu": 2, "gpu": 1, "samples_per_s": 1.5 },
        ]);
        assert_eq!(line(2)["together"], points);
    }
}
