//! `parcae`: the plans that were published with Parcae (NSDI'24) for a trace of AWS p3 spot instances,
//! beside ours for the same models, rates and restarts.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use lacuna_cli::error::{CliError, Result, file_error};
use lacuna_cli::output::JsonArg;
use lacuna_lab::findings::Findings;
use lacuna_lab::runs::{Recording, Row, Runner, commands, default_jobs, program, seeds};
use lacuna_lab::table::{Cell, Column, Table};

/// The trace of p3 spot instances.
const DATA: Recording = Recording::new("machines", &["p3-spot.csv.gz"]);

/// The longest restart that was profiled, seconds; it took 28.8 to 42.9 s by number of instances
/// (JF-D/Parcae, `liveput/cost.py`, `restart_cost_addition`, used for removals, too).
const RESTART_S: f64 = 42.892;

/// A model.
struct Model {
    name: &'static str,
    /// Rates of the best strategies, samples/s by instances (`strategy_speed_throughput` there).
    rates: &'static [(u32, f64)],
    /// The share of instance time that the published plan by prediction uses
    /// (`aws/traces/liveput_res` there).
    published: f64,
}

const MODELS: [Model; 4] = [
    Model {
        name: "bert",
        rates: &[
            (2, 68.174),
            (3, 89.178),
            (4, 129.740),
            (6, 180.072),
            (8, 231.606),
            (9, 232.723),
            (10, 257.580),
            (12, 302.905),
            (14, 333.512),
            (15, 348.678),
            (16, 350.133),
            (20, 425.463),
            (21, 428.711),
            (22, 446.688),
            (24, 481.490),
            (26, 497.580),
            (27, 503.700),
            (30, 544.037),
            (32, 555.709),
        ],
        published: 0.951,
    },
    Model {
        name: "gpt-1.5b",
        rates: &[
            (6, 14.485),
            (7, 17.225),
            (8, 17.307),
            (9, 19.327),
            (10, 21.605),
            (11, 21.830),
            (12, 24.236),
            (13, 25.058),
            (14, 28.316),
            (16, 29.484),
            (18, 32.053),
            (20, 35.133),
            (21, 35.698),
            (22, 35.980),
            (24, 36.827),
            (26, 40.732),
            (30, 41.499),
            (32, 43.468),
        ],
        published: 0.871,
    },
    Model {
        name: "resnet152",
        rates: &[
            (2, 146.170),
            (4, 271.777),
            (6, 426.475),
            (8, 692.965),
            (10, 1065.019),
            (12, 1348.904),
            (14, 1572.322),
            (16, 1932.777),
            (22, 2002.403),
            (24, 2256.621),
            (28, 2714.738),
            (32, 3133.148),
        ],
        published: 0.927,
    },
    Model {
        name: "vgg19",
        rates: &[
            (4, 508.892),
            (6, 677.041),
            (8, 863.890),
            (10, 988.016),
            (12, 1079.833),
            (14, 1136.142),
            (16, 1317.375),
            (20, 1401.547),
            (22, 1490.436),
            (24, 1513.189),
            (26, 1674.091),
            (28, 1796.187),
            (30, 1849.740),
            (32, 2191.969),
        ],
        published: 0.946,
    },
];

impl Model {
    /// The trainer as a line. A number of instances between two strategies runs the smaller one.
    fn line(&self) -> Option<Value> {
        let (first, last) = (self.rates.first()?, self.rates.last()?);
        let nodes: Vec<u32> = (first.0..=last.0).collect();
        let best = |nodes: &u32| {
            let fit = self.rates.iter().filter(|(of, _)| of <= nodes);
            fit.map(|(_, rate)| *rate).fold(0.0, f64::max)
        };
        let rates: Vec<f64> = nodes.iter().map(best).collect();
        Some(json!({
            "name": self.name, "submit": 0, "min_nodes": first.0, "max_nodes": last.0,
            "samples": 1e12, "rescale_up_s": RESTART_S, "rescale_down_s": RESTART_S,
            "nodes": nodes, "samples_per_s": rates,
        }))
    }
}

/// Arguments of `parcae`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  parcae
  parcae --data ~/recordings --json

Each row is a `lacuna replay` of 11.4 hours of AWS p3 spot instances, with one trainer that has the
rates of the best strategies published for its model, and pays the longest restart published, 42.9
s, whenever its instances change. Instance time is the time of all instances that were there.
Published is the share that the plans by prediction give to the model; they leave restarts out, as
this figure does.")]
pub(crate) struct ParcaeArgs {
    /// The folder of recorded data [default: LACUNA_DATA, else ../shared/data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    #[command(flatten)]
    json: JsonArg,
}

/// Runs `parcae`.
///
/// # Errors
/// The trace is missing, or a replay failed.
pub(crate) fn run(args: &ParcaeArgs) -> Result<()> {
    let trace = DATA.find(args.data.as_deref())?;
    let trace = trace.join("p3-spot.csv.gz").display().to_string();
    let folder = tempfile::tempdir().map_err(|e| CliError::failed(e.to_string()))?;
    let row = |model: &Model| {
        let path = folder.path().join(format!("{}.jsonl", model.name));
        let line = model.line().unwrap_or_default();
        std::fs::write(&path, format!("{line}\n")).map_err(|e| file_error("write", &path, &e))?;
        let mut command = ["replay", "--leave-out-idle-above=none"]
            .map(str::to_owned)
            .to_vec();
        command.extend([trace.clone(), "--trainers".to_owned()]);
        command.push(path.display().to_string());
        command.extend(["--max-parallel", "1", "--endless"].map(str::to_owned));
        Ok(Row {
            label: model.name.to_owned(),
            command,
            seeded: false,
        })
    };
    let runner = Runner {
        program: program()?,
        jobs: default_jobs(),
        seeds: seeds(1, 1),
        kept: None,
    };
    let rows = MODELS.iter().map(row).collect::<Result<Vec<_>>>()?;
    let done = runner.run_with_bar(rows, args.json.json)?;
    let columns = [
        Column::words("model", "model"),
        Column::figures("instance_time_published", "instance time, published"),
        Column::figures("instance_time", "instance time, ours"),
        Column::figures("of_zero_cost_bound", "of the zero-cost bound"),
        Column::figures("interruptions_per_hour", "interruptions/h"),
    ];
    let mut table = Table::new("Models", columns);
    for (model, run) in MODELS.iter().zip(&done) {
        let output = run.output()?;
        let number = |name: &str| output.get(name)?.as_f64();
        let figures = || -> Option<[f64; 3]> {
            let stops = number("preemptions")? + number("rescales")? - number("rescales_at_hits")?;
            let hours = number("hours").filter(|hours| *hours > 0.0)?;
            Some([
                number("idle_share_used")?,
                number("zero_cost_fraction")?,
                stops / hours,
            ])
        };
        let lacks = || CliError::failed(format!("{}: a figure is missing", model.name));
        let [used, bound, stops] = figures().ok_or_else(lacks)?;
        table.push([
            Cell::words(model.name),
            Cell::number(Some(model.published), 3),
            Cell::number(Some(used), 3),
            Cell::number(Some(bound), 3),
            Cell::number(Some(stops), 1),
        ]);
    }
    let findings = Findings {
        title: "Plans of Parcae for p3 spot instances, and ours".to_owned(),
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
    fn a_number_of_instances_between_two_strategies_runs_the_smaller_one() {
        let line = MODELS[1].line().unwrap();
        let (nodes, rates) = (&line["nodes"], &line["samples_per_s"]);
        assert_eq!((&nodes[0], &rates[0]), (&json!(6), &json!(14.485)));
        assert_eq!((&nodes[9], &rates[9]), (&json!(15), &json!(28.316)));
        assert_eq!(line["max_nodes"], 32);
        for model in &MODELS {
            let rates = model.rates;
            assert!(
                rates.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1),
                "{}",
                model.name
            );
        }
    }
}
