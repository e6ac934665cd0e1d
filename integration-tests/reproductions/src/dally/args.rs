//! The arguments of `dally`, and the command itself.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use clap::builder::PossibleValuesParser;

use lacuna_cli::error::Result;
use lacuna_cli::output::{JsonArg, parse_span};
use lacuna_gangs::{Contention, Entry, catalogue};
use lacuna_lab::runs::{Recording, default_jobs, seeds};
use lacuna_model::Span;

use super::case::{CalibrationArg, Case, CollectiveArg, Files, ShapeArg};
use super::reference::AuthorsRuns;
use super::study::Study;
use super::table::findings;

/// The traces and models of Dally.
const DATA: Recording = Recording::new(
    "dally",
    &[
        "layers.csv",
        "compute_scale.csv",
        "fabrics.json",
        "reference_runs.csv",
    ],
);

/// Arguments of `dally`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  dally
  dally --fabrics hdr,slow --calibrations batch --json
  dally --fabrics slow --calibrations batch --contention none,1/1
  dally --published --policies dally,tiresias
  dally --traces mine.csv --racks 4 --speeds measured.csv --fabrics hdr

A trace is a name of the folder dally/traces of the data, or a CSV file with the columns job_id,
arrival_s, gpus, model, batch, sample_s and samples. Machines have two slots of four GPUs, racks
eight machines. Each run searches machines and racks in an order by its seed: a single order means
nothing, since it moves the makespan by a tenth. Measured speeds have the columns model, shape and
speed, with shapes such as FC4.SL2.P2. The table is Markdown.")]
pub(crate) struct DallyArgs {
    /// The folder of recorded data [default: LACUNA_DATA, else ../shared/data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Traces: names or files
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = ["batch500".to_owned(), "week1".to_owned()])]
    traces: Vec<String>,
    /// Numbers of racks, each of 64 GPUs
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [2], value_parser = clap::value_parser!(u32).range(1..=4096))]
    racks: Vec<u32>,
    /// Fabrics of the file fabrics.json
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = ["paper".to_owned()])]
    fabrics: Vec<String>,
    /// The computation between two reductions
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_enum, default_values_t = [CalibrationArg::Authors])]
    calibrations: Vec<CalibrationArg>,
    /// Only these policies
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = policy_names())]
    policies: Vec<String>,
    /// Number of orders of machines and racks
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    orders: u16,
    /// First seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Length of a lease
    #[arg(long, value_name = "SPAN", default_value = "1h", value_parser = parse_lease)]
    lease: Span,
    /// Gangs that have the full speed of a machine's links and of a rack's uplink at once, as in
    /// 1/4; none for links that are not shared
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [Shared(None)])]
    contention: Vec<Shared>,
    /// How the units of a placement are counted [default: coded with calibration authors, else
    /// true]
    #[arg(long, value_enum)]
    shape: Option<ShapeArg>,
    /// How gradients are reduced over several levels
    #[arg(long, value_enum, default_value_t = CollectiveArg::Naive)]
    collective: CollectiveArg,
    /// Measured speeds, which go before computed ones (CSV)
    #[arg(long, value_name = "FILE")]
    speeds: Option<PathBuf>,
    /// With the defect of the published simulator: running jobs of published policies bid too
    #[arg(long)]
    published: bool,
    /// Number of runs at a time [default: the cores of this machine]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Write the table (Markdown) to a file instead of printing it
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    json: JsonArg,
}

fn policy_names() -> PossibleValuesParser {
    PossibleValuesParser::new(catalogue().iter().map(|entry| entry.name))
}

/// A length of time above zero.
fn parse_lease(text: &str) -> std::result::Result<Span, String> {
    let span = parse_span(text)?;
    let positive = span > Span::ZERO;
    positive
        .then_some(span)
        .ok_or_else(|| format!("{text} is no lease: expected more than 0 s"))
}

/// Contention, or none.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Shared(Option<Contention>);

impl std::fmt::Display for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            None => f.write_str("none"),
            Some(Contention { machine, rack }) => write!(f, "{machine}/{rack}"),
        }
    }
}

impl FromStr for Shared {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        if text == "none" {
            return Ok(Self(None));
        }
        let number = |text: &str| {
            text.parse()
                .ok()
                .filter(|n: &f64| n.is_finite() && *n > 0.0)
        };
        let parts = text.split_once('/');
        let parts = parts.and_then(|(machine, rack)| number(machine).zip(number(rack)));
        let (machine, rack) = parts.ok_or_else(|| {
            format!("{text:?} is no contention: expected none, or two numbers above 0 as in 1/4")
        })?;
        Ok(Self(Some(Contention { machine, rack })))
    }
}

impl DallyArgs {
    fn cases(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        for trace in &self.traces {
            for &racks in &self.racks {
                for (fabric, &calibration) in self.fabrics.iter().flat_map(|fabric| {
                    let all = self.calibrations.iter();
                    all.map(move |calibration| (fabric, calibration))
                }) {
                    cases.extend(self.contention.iter().map(|shared| Case {
                        trace: trace.clone(),
                        racks,
                        fabric: fabric.clone(),
                        calibration,
                        contention: shared.0,
                    }));
                }
            }
        }
        cases
    }
}

/// Runs `dally`.
///
/// # Errors
/// The data are missing or malformed, a file cannot be written, or a run failed.
pub(crate) fn run(args: &DallyArgs) -> Result<()> {
    let folder = DATA.find(args.data.as_deref())?;
    let files = Files::read(folder, args.speeds.as_deref(), args.shape, args.collective)?;
    let authors = AuthorsRuns::read(&files.reference_runs()?)?;
    let named = |entry: &&Entry| {
        args.policies.is_empty() || args.policies.iter().any(|name| name == entry.name)
    };
    let study = Study {
        files,
        cases: args.cases(),
        policies: catalogue().iter().filter(named).collect(),
        seeds: seeds(args.seed, args.orders),
        lease_s: args.lease.as_secs_f64(),
        published: args.published,
        jobs: args.jobs.map_or_else(default_jobs, usize::from),
    };
    let results = study.run(args.json.json)?;
    findings(&results, &authors).print(args.json.json, args.out.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contention_is_read_and_written() {
        for text in ["none", "1/4", "0.5/1"] {
            assert_eq!(text.parse::<Shared>().unwrap().to_string(), text);
        }
        for wrong in ["", "1", "0/1", "1/x", "1/inf"] {
            assert!(wrong.parse::<Shared>().is_err(), "{wrong}");
        }
        assert!(parse_lease("0s").is_err() && parse_lease("10m").is_ok());
    }
}
