//! The arguments of `lacuna-lab compare machines`, and the command itself.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::PossibleValuesParser;

use lacuna_cli::error::{CliError, Result};
use lacuna_cli::output::{JsonArg, parse_time};

use super::cells::{Cells, WINDOWS, share};
use super::column::{COLUMNS, Column, PRIOR, names};
use super::machine::{MACHINES, Machine};
use super::table::findings;
use crate::runs::{Done, Kept, Row, Runner, default_jobs, program, seeds};

/// Arguments of `compare machines`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna-lab compare machines
  lacuna-lab compare machines --machines p3-spot,mason --costs 5,10
  lacuna-lab compare machines --keep machines.jsonl --out table.md
  lacuna-lab compare machines --log mine.swf.gz -- --machine-nodes 512

Each cell is a `lacuna replay` in a process of its own; --json prints its command. The first third
of a log is history, of Summit its first five days. All columns are replays of the rest, with equal
trainers. One replay gives all windows: the samples until an hour, a day, a week, and the end, over
those of the zero-cost bound until then. Theta is its first month, SURF its first eleven days, Summit
its first 1,024 nodes. With --keep, a table that was ended goes on where it ended. The table is
Markdown. The exit code is 1 if a replay failed.")]
pub(crate) struct MachinesArgs {
    /// The folder of recorded data [default: LACUNA_DATA, else ../shared/data]
    #[arg(long, value_name = "DIR", conflicts_with = "log")]
    data: Option<PathBuf>,
    /// Only these machines
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with = "log", value_parser = PossibleValuesParser::new(MACHINES.map(|known| known.name)))]
    machines: Vec<String>,
    /// Any log, instead of the machines of the table; may be repeated
    #[arg(long, value_name = "LOG")]
    log: Vec<PathBuf>,
    /// Factors on the costs of changes
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [0.1, 1.0, 5.0, 10.0])]
    costs: Vec<f64>,
    /// Only these columns
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = names())]
    columns: Vec<String>,
    /// Keep the outputs of replays in this file, and do not repeat those that it has of this build
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
    /// Number of replays at a time [default: the cores of this machine]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Write the table (Markdown) to a file instead of printing it
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    json: JsonArg,
    /// Further arguments by which each log is read
    #[arg(last = true, value_name = "LOG ARGUMENTS", requires = "log")]
    more: Vec<String>,
}

impl MachinesArgs {
    fn machines(&self) -> Vec<Machine> {
        if !self.log.is_empty() {
            let other = |log: &PathBuf| Machine::other(log, &self.more);
            return self.log.iter().map(other).collect();
        }
        let data = self.data.clone();
        let data = data.or_else(|| std::env::var_os("LACUNA_DATA").map(PathBuf::from));
        let data = data.unwrap_or_else(|| PathBuf::from("../shared/data"));
        let wanted =
            |name: &str| self.machines.is_empty() || self.machines.iter().any(|n| n == name);
        let chosen = MACHINES.iter().filter(|known| wanted(known.name));
        chosen.map(|known| Machine::known(known, &data)).collect()
    }

    fn columns(&self) -> Vec<&'static Column> {
        let wanted = |column: &&Column| {
            self.columns.is_empty() || self.columns.iter().any(|name| name == column.name)
        };
        COLUMNS.iter().filter(wanted).collect()
    }

    /// The rows of the machines, in the order of machines, costs and columns.
    ///
    /// # Errors
    /// The time of a log is not known.
    fn rows(&self, machines: &[Machine], probes: &[Done]) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        for (machine, probe) in machines.iter().zip(probes) {
            let output = probe.output()?;
            let at = |name: &str| {
                output
                    .get(name)?
                    .as_str()
                    .and_then(|at| parse_time(at).ok())
            };
            let time = at("start").zip(at("end"));
            let (start, end) = time.ok_or_else(|| {
                CliError::failed(format!(
                    "{}: the time of its log is not known",
                    machine.name
                ))
            })?;
            for &cost in &self.costs {
                let command = machine.replay(machine.from(start, end), cost);
                rows.extend(self.columns().iter().map(|column| {
                    let words = column.arguments.iter().map(|word| (*word).to_owned());
                    let others = (column.name == PRIOR).then(|| machine.others());
                    let label = format!("{}, x{cost}, {}", machine.name, column.name);
                    let words = words.chain(others);
                    row(label, command.iter().cloned().chain(words).collect())
                }));
            }
        }
        Ok(rows)
    }

    /// The cells of the replays of [`rows`](Self::rows), without those of windows that a log does
    /// not have.
    ///
    /// # Errors
    /// A replay failed.
    fn cells(&self, machines: &[Machine], replays: &[Done]) -> Result<Vec<Cells>> {
        let columns = self.columns();
        let mut runs = replays.chunks(columns.len().max(1));
        let mut cells = Vec::new();
        for machine in machines {
            for &cost in &self.costs {
                let outputs = runs.next().unwrap_or_default().iter().map(Done::output);
                let outputs = outputs.collect::<Result<Vec<_>>>()?;
                for window in 0..WINDOWS.len() {
                    let of = |column: &Column| {
                        let at = columns.iter().position(|c| c.name == column.name)?;
                        share(column, window, outputs.get(at)?)
                    };
                    let shares: Vec<Option<f64>> = COLUMNS.iter().map(of).collect();
                    if shares.iter().any(Option::is_some) {
                        cells.push(Cells {
                            machine: machine.name.clone(),
                            cost,
                            window,
                            shares,
                        });
                    }
                }
            }
        }
        Ok(cells)
    }
}

fn row(label: String, command: Vec<String>) -> Row {
    Row {
        label,
        command,
        seeded: false,
    }
}

/// Runs `compare machines`.
///
/// # Errors
/// A log is missing, a replay failed, or a file cannot be written.
pub(in crate::compare) fn run(args: &MachinesArgs) -> Result<()> {
    let program = program()?;
    let kept = args.keep.as_deref();
    let kept = kept.map(|path| Kept::open(path, Path::new(&program)));
    let runner = Runner {
        kept: kept.transpose()?,
        program,
        jobs: args.jobs.map_or_else(default_jobs, usize::from),
        seeds: seeds(1, 1),
    };
    let machines = args.machines();
    let probe = |machine: &Machine| row(machine.name.clone(), machine.probe());
    let probes = runner.run_with_bar(machines.iter().map(probe).collect(), args.json.json)?;
    let rows = args.rows(&machines, &probes)?;
    let replays = runner.run_with_bar(rows, args.json.json)?;
    let cells = args.cells(&machines, &replays)?;
    findings(&cells, &replays).print(args.json.json, args.out.as_deref())
}
