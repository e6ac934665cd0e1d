//! `lacuna-lab forecast prior`: what a log shows of its machine, for the prior of a new one.

use std::io::Write as _;

use clap::Args;

use lacuna_cli::error::{CliError, Result};
use lacuna_cli::log::{Bar, WholeLogArgs, load, unreadable};
use lacuna_cli::output::JsonArg;
use lacuna_sim::SimError;

/// Arguments of `forecast prior`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna-lab forecast prior holes.csv.gz --name summit
  lacuna-lab forecast prior mason-2017-10.pbs.gz --name mason --time-zone America/New_York

Prints the line of MACHINES in libs/forecast/src/prior.rs for the machine of a log: the scale
(seconds) and the shape of the lengths of its holes, and the shares of neighbours that end together,
by release, block and size of the release.")]
pub(crate) struct PriorArgs {
    /// The name of the machine in the table
    #[arg(long, value_name = "NAME")]
    name: String,
    #[command(flatten)]
    log: WholeLogArgs,
    #[command(flatten)]
    json: JsonArg,
}

/// Runs `forecast prior`.
///
/// # Errors
/// The log cannot be read.
pub(super) fn run(args: &PriorArgs) -> Result<()> {
    let mut bar = Bar::new(args.json.json);
    let input = load(&args.log.options()?, &mut bar)?;
    let found = lacuna_sim::machine(input.recording.as_ref(), &args.name);
    bar.done();
    let machine = match found {
        Ok(Some(machine)) => machine,
        Ok(None) => return Err(CliError::failed("the log has no hole")),
        Err(SimError::Log(error)) => return Err(unreadable(error)),
        Err(error) => return Err(CliError::failed(error.to_string())),
    };
    let line = if args.json.json {
        serde_json::to_string(&machine).map_err(|error| CliError::failed(error.to_string()))?
    } else {
        format!(
            "    ({:?}, {:.0}.0, {:.2}, {}),",
            machine.name,
            machine.scale_s,
            machine.shape,
            list(machine.together)
        )
    };
    writeln!(std::io::stdout(), "{line}").map_err(|error| CliError::failed(error.to_string()))
}

/// Numbers with two digits.
fn list<const N: usize>(numbers: [f32; N]) -> String {
    let texts = numbers.map(|number| format!("{number:.2}"));
    format!("[{}]", texts.join(", "))
}
