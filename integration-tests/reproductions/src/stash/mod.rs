//! `stash`: the published stall study's method, instances and prices, beside the replay of one run.

mod cases;
mod differences;
mod instances;

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;

use lacuna_cli::error::{CliError, Exit, Result, file_error};
use lacuna_cli::output::JsonArg;
use lacuna_lab::findings::Findings;
use lacuna_lab::runs::Recording;
use lacuna_lab::table::{Cell, Column, Table};

use self::instances::{Assumed, Setup};

/// The published set-up.
const DATA: Recording = Recording::new("seeds", &["stash_setup.json"]);

/// What is wrong in the published program, and what comes of it.
const BUGS: [(&str, &str); 8] = [
    (
        "fetch is `T2/d - prep`: T1 is not subtracted",
        "about the whole step, also without any stall (last column above)",
    ),
    (
        "preparation divides a scaled difference by an unscaled T3",
        "half of it for d = 2, the default (columns \"coded\" below)",
    ),
    (
        "\"all-reduce time\" is a timer around the optimiser",
        "it says nothing of the network",
    ),
    (
        "RUN1 sums loss and accuracy three times a step, RUN0 does not",
        "counted as interconnect",
    ),
    (
        "two device synchronisations a step",
        "they forbid the overlap that the user's program has",
    ),
    (
        "the least time of RUN0 is filled from the greatest, repeats are added and divided by 1",
        "wrong least times and means; the study of factors scales one network by another",
    ),
    (
        "RUN3 is warm only if the data fit in memory",
        "with 146 GB of images \"preparation\" contains fetching",
    ),
    (
        "at its end it kills all processes of some names",
        "those of other users of the machine, too",
    ),
];

/// What the figures of instances are.
const ABOUT: &str = "The published instances at their prices of 2022, each with the published batch a \
    GPU. The paper's own times are not available, so steps are replayed from a made trace: bytes and \
    operations of the networks, speeds of devices and links as the options assume. The published \
    method reads its four runs from the same replay.";

/// Arguments of `stash`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stash
  stash --measured rows.json
  stash --v100 4 --between 3 --json

The published instances at their prices of 2022, each with the published batch a GPU. The paper's
own times are not available, so steps are replayed from a made trace: bytes and operations of the
networks, speeds of devices and links as the options assume. The published method reads its four
runs from the same replay. With --measured also the cases of injected stalls (PyTorch, gloo): what
each cause truly costs, what one replayed run says, what differences of four runs say, and what the
published program computes.")]
pub(crate) struct StashArgs {
    /// The folder of recorded data [default: LACUNA_DATA, else ../shared/data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Cases of injected stalls: what lacuna-py's benchmark `stalls --json` has printed
    #[arg(long, value_name = "FILE")]
    measured: Option<PathBuf>,
    #[command(flatten)]
    assumed: Assumed,
    #[command(flatten)]
    json: JsonArg,
}

/// Runs `stash`.
///
/// # Errors
/// A file is missing or not as expected.
pub(crate) fn run(args: &StashArgs) -> Result<()> {
    let path = DATA.find(args.data.as_deref())?.join("stash_setup.json");
    let setup = serde_json::from_value::<Setup>(read(&path)?);
    let setup = setup.map_err(|e| wrong(&path, &e.to_string()))?;
    let mut tables = Vec::new();
    if let Some(path) = &args.measured {
        let all = cases::measured(&read(path)?);
        let all = all.ok_or_else(|| wrong(path, "no rows of cases"))?;
        tables.extend([cases::table(&all), cases::errors(&all)]);
    }
    tables.push(faults());
    let epochs = instances::epochs(&setup, &args.assumed)
        .map_err(|e| CliError::failed(format!("the made trace cannot be replayed: {e}")))?;
    tables.extend(epochs.iter().map(instances::Epochs::table));
    let findings = Findings {
        title: "Stalls after Stash: differences of runs beside one run".to_owned(),
        about: ABOUT.to_owned(),
        tables,
        notes: epochs.iter().map(instances::Epochs::best).collect(),
        runs: Table::new("Runs", []),
    };
    findings.print(args.json.json, None)
}

fn read(path: &Path) -> Result<Value> {
    let text = std::fs::read_to_string(path).map_err(|e| file_error("read", path, &e))?;
    serde_json::from_str(&text).map_err(|e| wrong(path, &e.to_string()))
}

fn wrong(path: &Path, what: &str) -> CliError {
    CliError::new("L0017", Exit::Failed, format!("{}: {what}", path.display()))
        .remedy("expected the set-up of the stall study, or measured cases, as in the test data")
}

/// The faults of the published program.
fn faults() -> Table {
    let columns = [
        Column::words("fault", "published program"),
        Column::words("effect", "what comes of it"),
    ];
    let mut table = Table::new("The published program's faults", columns);
    for (fault, effect) in BUGS {
        table.push([Cell::words(fault), Cell::words(effect)]);
    }
    table
}
