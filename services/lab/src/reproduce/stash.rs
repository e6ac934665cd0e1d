//! `lacuna-lab reproduce stash`: the published stall study's method, instances and prices, beside the
//! replay of one run.

mod cases;
mod instances;

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use lacuna_cli::error::{CliError, Exit, Result, file_error};
use lacuna_cli::output::{JsonArg, print, print_json};

use self::cases::{Case, Errors};
use self::instances::{Assumed, Setup};
use super::data::STASH;
use super::table::aligned;

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

/// Arguments of `reproduce stash`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna-lab reproduce stash
  python3 -m benches stalls --json > rows.json && lacuna-lab reproduce stash --measured rows.json
  lacuna-lab reproduce stash --v100 4 --between 3 --json

First the cases of injected stalls (PyTorch, gloo): what each cause truly costs, what one replayed
run says, what differences of four runs say, and what the published program computes. Without
--measured the first two are figures that the prototype recorded, without the steps they are from:
only the differences are computed here, and must be those of the prototype. With --measured all are
of this program, and judged: the exit code is 1 if one run is wrong by more than 5 % of a step, 2 %
on the mean, or 4 % in the step itself, above two members 8, 3 and 6 %, or no better on the mean
than differences. Then the published instances at their prices of 2022, each with the published batch
a GPU. The paper's own times are not available, so steps are replayed there from a made trace: bytes
and operations of the networks, speeds of devices and links as the options assume. The published
method reads its four runs from the same replay.")]
pub(crate) struct StashArgs {
    /// The folder of recorded data [default: LACUNA_DATA, else ../shared/data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Cases of `python3 -m benches stalls --json` in place of the recorded ones
    #[arg(long, value_name = "FILE")]
    measured: Option<PathBuf>,
    #[command(flatten)]
    assumed: Assumed,
    #[command(flatten)]
    json: JsonArg,
}

/// Runs `reproduce stash`.
///
/// # Errors
/// A file is missing or not as expected, or a goal is missed.
pub(crate) fn run(args: &StashArgs) -> Result<()> {
    let variable = std::env::var_os("LACUNA_DATA").map(PathBuf::from);
    let seeds = STASH.find(args.data.as_deref(), variable)?;
    let read = |path: &PathBuf| {
        std::fs::read_to_string(path)
            .map_err(|e| file_error("read", path, &e))
            .and_then(|text| serde_json::from_str(&text).map_err(|e| wrong(path, &e.to_string())))
    };
    let path = seeds.join("stash_setup.json");
    let setup: Setup =
        serde_json::from_value(read(&path)?).map_err(|e| wrong(&path, &e.to_string()))?;
    let all = match &args.measured {
        Some(path) => {
            cases::measured(&read(path)?).ok_or_else(|| wrong(path, "no rows of cases"))?
        }
        None => {
            let path = seeds.join("stash_lab.json");
            cases::recorded(&read(&path)?).ok_or_else(|| wrong(&path, "no recorded cases"))?
        }
    };
    let tables = instances::tables(&setup, &args.assumed)
        .map_err(|e| CliError::failed(format!("the made trace cannot be replayed: {e}")))?;
    let errors = cases::errors(&all);
    let is_met = all.iter().all(Case::is_as_recorded)
        && (args.measured.is_none() || errors.iter().all(Errors::is_met));
    if args.json.json {
        print_json(&json!({
            "cases": all, "errors": errors, "instances": tables, "met": is_met,
        }))?;
    } else {
        let cases = match args.measured {
            Some(_) => measured(&all, &errors),
            None => recorded(&all, &errors),
        };
        print(&markdown(&cases, &tables))?;
    }
    match is_met {
        true => Ok(()),
        false => Err(CliError::already_printed()),
    }
}

fn wrong(path: &std::path::Path, what: &str) -> CliError {
    CliError::new("L0017", Exit::Failed, format!("{}: {what}", path.display()))
        .remedy("expected the set-up and the cases of the stall study, as in the test data")
}

/// The cases that this program has answered.
fn measured(all: &[Case], errors: &[Errors]) -> String {
    format!(
        "# Injected stalls: one run beside differences of runs\n\nMilliseconds of a step: \
         preparation / fetch / link / straggler.\n\n{}\n{}",
        aligned(&cases::lines(all)),
        errors_table(errors, cases::ERRORS.len()),
    )
}

/// The cases that the prototype has answered, which are not judged.
fn recorded(all: &[Case], errors: &[Errors]) -> String {
    let same = all.iter().filter(|case| case.is_as_recorded()).count();
    format!(
        "# Injected stalls, recorded by the prototype: one run beside differences of runs\n\n\
         Milliseconds of a step: preparation / fetch / link / straggler. Step, truth and one run are \
         the prototype's figures. Its traced steps were not kept, so they are not replayed here, and \
         not judged. Differences are computed here from the recorded runs, and agree with the \
         prototype's in {same} of {} cases.\n`python3 -m benches stalls --json` measures the \
         present program, and `--measured FILE` judges it.\n\n{}\n{}",
        all.len(),
        aligned(&cases::lines(all)),
        errors_table(errors, cases::ERRORS.len() - 2),
    )
}

fn errors_table(errors: &[Errors], columns: usize) -> String {
    let head = cases::ERRORS.map(str::to_owned).to_vec();
    let rows = errors.iter().flat_map(Errors::lines);
    let mut lines: Vec<_> = std::iter::once(head).chain(rows).collect();
    lines.iter_mut().for_each(|line| line.truncate(columns));
    aligned(&lines)
}

fn markdown(cases: &str, tables: &[instances::Table]) -> String {
    let bugs = BUGS
        .iter()
        .map(|(bug, effect)| vec![(*bug).to_owned(), (*effect).to_owned()]);
    let head = vec![
        "published program".to_owned(),
        "what comes of it".to_owned(),
    ];
    let bugs: Vec<_> = std::iter::once(head).chain(bugs).collect();
    let mut text = format!(
        "{cases}\n## The published program's faults\n\n{}",
        aligned(&bugs)
    );
    for table in tables {
        text.push('\n');
        text.push_str(&table.markdown());
    }
    text
}
