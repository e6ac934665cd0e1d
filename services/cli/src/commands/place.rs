//! `lacuna place`: which layers of a network on which kind of node, and how many of each.
//!
//! `shown` has the placement with its names, which `text`, `json` and `page` show.

mod json;
mod page;
mod shown;
#[cfg(test)]
mod tests;
mod text;

use std::path::PathBuf;

use clap::Args;

use lacuna_layers::{
    Answer, LayerProfile, Options, fastest, place, without_limit, worth_of_one_more,
};
use lacuna_report::render_layers;

use crate::error::{CliError, Exit, Result, file_error};
use crate::output::{JsonArg, print, print_json};

use json::value;
use page::page;
use shown::Shown;
use text::text;

/// Arguments of `place`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  python3 -m lacuna.profile_layers my_model:build --out ctr.json
  lacuna place ctr.json
  lacuna place ctr.json --rate 500000 --limit cpu=40 --limit gpu=8 --report ctr.html
  lacuna place ctr.json --fastest --json

The profile (JSON) has the layers in their order with seconds a sample on one unit of each kind,
bytes to the next layer, of weights and of tables; the kinds with price, memory, link and limit; the
batch, the samples of the whole work and the least rate. The cost is proven to be within --tolerance
of the least with up to three kinds, and with any number of kinds whose limits do not bind over several
stages; else the gap is stated. The planner takes the same profile: with `layers` in place of a curve
a trainer gets its rates over nodes of two kinds (lacuna replay --kinds). The exit code is 1 if no
placement has the rate: the nearest is shown.")]
pub(crate) struct PlaceArgs {
    /// The profile (JSON)
    profile: PathBuf,
    /// The least rate, samples/s [default: that of the profile]
    #[arg(long, value_name = "N", value_parser = parse_positive, conflicts_with = "fastest")]
    rate: Option<f64>,
    /// The highest rate that the limits allow, at any cost
    #[arg(long)]
    fastest: bool,
    /// Samples of the whole work [default: those of the profile]
    #[arg(long, value_name = "N", value_parser = parse_positive)]
    samples: Option<f64>,
    /// The most units of a kind, or none; may be repeated
    #[arg(long, value_name = "KIND=N", value_parser = parse_limit)]
    limit: Vec<(String, Option<u32>)>,
    /// How far above the least the cost may be, as a share
    #[arg(long, value_name = "SHARE", default_value_t = 1e-4, value_parser = parse_positive)]
    tolerance: f64,
    /// Write the placement as a self-contained HTML page
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    #[command(flatten)]
    json: JsonArg,
}

fn parse_positive(text: &str) -> std::result::Result<f64, String> {
    let number = text
        .parse()
        .ok()
        .filter(|n: &f64| n.is_finite() && *n > 0.0);
    number.ok_or_else(|| format!("{text:?} is no number above 0"))
}

fn parse_limit(text: &str) -> std::result::Result<(String, Option<u32>), String> {
    let refuse = || format!("{text:?} is no limit: expected KIND=N or KIND=none");
    let (kind, limit) = text.split_once('=').ok_or_else(refuse)?;
    let limit = match limit {
        "none" => None,
        number => Some(number.parse().map_err(|_| refuse())?),
    };
    Ok((kind.to_owned(), limit))
}

/// Runs `place`.
///
/// # Errors
/// `L0011` if the profile cannot be read or is refused; the network fits nowhere; no placement has the
/// rate; a file cannot be written.
pub(crate) fn run(args: &PlaceArgs) -> Result<()> {
    let shown = found(args)?;
    if let Some(path) = &args.report {
        std::fs::write(path, render_layers(&page(&shown)))
            .map_err(|e| file_error("write the report to", path, &e))?;
    }
    if args.json.json {
        print_json(&value(&shown))?;
    } else {
        let profile = args.profile.display();
        let next = format!(
            "To plan nodes by it, give a trainer layers = \"{profile}\": deploy/layers.md\n"
        );
        print(&format!("{}\n{next}", text(&shown)))?;
    }
    if shown.is_met {
        Ok(())
    } else {
        Err(CliError::already_printed())
    }
}

fn refused(error: &lacuna_layers::Error) -> CliError {
    CliError::new("L0011", Exit::Failed, error.to_string())
}

fn found(args: &PlaceArgs) -> Result<Shown> {
    let path = &args.profile;
    let text = std::fs::read_to_string(path).map_err(|e| file_error("read", path, &e))?;
    let profile =
        LayerProfile::read(&path.display().to_string(), &text).map_err(|e| refused(&e))?;
    let profile = with_arguments(profile, args).map_err(|e| refused(&e))?;
    let options = Options {
        tolerance: args.tolerance,
    };
    let (placement, why, is_met) = if args.fastest {
        let highest = fastest(&profile).map_err(|e| refused(&e))?;
        let why = without_limit(&profile, &highest, &options).map_err(|e| refused(&e))?;
        (highest, why, true)
    } else {
        match place(&profile, &options).map_err(|e| refused(&e))? {
            Answer::Met(placement) => (placement, Vec::new(), true),
            Answer::Short { nearest, why } => (nearest, why, false),
        }
    };
    let worths = if is_met && !args.fastest {
        worth_of_one_more(&profile, &placement, &options).map_err(|e| refused(&e))?
    } else {
        Vec::new()
    };
    Ok(Shown {
        profile,
        placement,
        why,
        is_met,
        worths,
    })
}

fn with_arguments(
    mut profile: LayerProfile,
    args: &PlaceArgs,
) -> std::result::Result<LayerProfile, lacuna_layers::Error> {
    if let Some(rate) = args.rate {
        profile = profile.with_min_rate(rate)?;
    }
    if let Some(samples) = args.samples {
        profile = profile.with_samples(samples)?;
    }
    for (kind, limit) in &args.limit {
        profile = profile.with_limit(kind, *limit)?;
    }
    Ok(profile)
}
