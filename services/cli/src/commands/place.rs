//! `lacuna place`: which layers of a network on which kind of node, and how many of each.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use lacuna_layers::{
    Answer, Bound, Obstacle, Options, Placement, Profile, Stage, Worth, fastest, place,
    worth_of_one_more,
};
use lacuna_report::{Layers, LayersStage, render_layers};

use crate::error::{CliError, Exit, Result, file_error};
use crate::output::{JsonArg, print, print_json};
use crate::table::{Side, key_values, render};

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
stages; else the gap is stated. The exit code is 1 if no placement has the rate: the nearest is shown.")]
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

/// What is shown.
struct Shown {
    profile: Profile,
    placement: Placement,
    /// What stands in the way of the rate; nothing if it is met.
    why: Vec<Obstacle>,
    is_met: bool,
    worths: Vec<Worth>,
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
        print(&text(&shown))?;
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
    let profile = Profile::read(&path.display().to_string(), &text).map_err(|e| refused(&e))?;
    let profile = with_arguments(profile, args).map_err(|e| refused(&e))?;
    let options = Options {
        tolerance: args.tolerance,
    };
    let (placement, why, is_met) = if args.fastest {
        (
            fastest(&profile).map_err(|e| refused(&e))?,
            Vec::new(),
            true,
        )
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
    mut profile: Profile,
    args: &PlaceArgs,
) -> std::result::Result<Profile, lacuna_layers::Error> {
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

impl Shown {
    fn kind(&self, place: usize) -> &str {
        self.profile
            .kinds()
            .get(place)
            .map_or("?", |kind| kind.name())
    }

    fn layer(&self, place: usize) -> &str {
        self.profile
            .layers()
            .get(place)
            .map_or("?", |layer| layer.name())
    }

    fn layers(&self, stage: &Stage) -> Vec<String> {
        let layers = stage.layers.clone();
        layers.map(|layer| self.layer(layer).to_owned()).collect()
    }

    /// The layers of a stage in a few words.
    fn run(&self, stage: &Stage) -> String {
        let (first, last) = (stage.layers.start, stage.layers.end.saturating_sub(1));
        if first == last {
            self.layer(first).to_owned()
        } else {
            format!("{} to {}", self.layer(first), self.layer(last))
        }
    }

    /// What stands in the way of the rate, a sentence each.
    fn reasons(&self) -> Vec<String> {
        let reason = |obstacle: &Obstacle| match obstacle {
            Obstacle::Limit {
                kind,
                with_one_more,
                without_limit,
            } => {
                let used = self.placement.used.get(*kind).copied().unwrap_or(0);
                format!(
                    "the limit of {}, {used} used: one more unit gives {with_one_more:.0}/s, no limit {without_limit:.0}/s",
                    self.kind(*kind)
                )
            }
            Obstacle::Serial { stage, part } => {
                let layers = self.placement.stages.get(*stage);
                format!(
                    "{} of {}: more units do not divide all of it",
                    bound(*part),
                    layers.map_or_else(String::new, |stage| self.run(stage))
                )
            }
        };
        self.why.iter().map(reason).collect()
    }

    /// The saving by one more unit of a kind.
    fn saves(&self, kind: usize) -> Option<f64> {
        let worth = self.worths.iter().find(|worth| worth.kind == kind)?;
        Some(worth.saves)
    }

    fn figures(&self) -> Vec<(&'static str, String)> {
        let placement = &self.placement;
        vec![
            ("rate", format!("{:.0} samples/s", placement.rate)),
            (
                "cost",
                format!(
                    "{:.4} for {:.3e} samples",
                    placement.cost,
                    self.profile.samples()
                ),
            ),
            (
                "spend",
                format!("{:.4} an hour", placement.spend_per_s * 3600.0),
            ),
            (
                "proven",
                format!("within {:.4} % of the least cost", placement.gap() * 100.0),
            ),
        ]
    }
}

fn bound(bound: Bound) -> &'static str {
    match bound {
        Bound::Computation => "computation",
        Bound::Communication => "communication",
        Bound::Memory => "memory",
        Bound::OneUnit => "one unit is enough",
    }
}

fn kinds(shown: &Shown) -> Vec<Vec<String>> {
    let kinds = shown.profile.kinds().iter().enumerate();
    let row = |(place, kind): (usize, &lacuna_layers::Kind)| {
        let used = shown.placement.used.get(place).copied().unwrap_or(0);
        let limit = kind
            .limit()
            .map_or_else(|| "-".to_owned(), |limit| limit.to_string());
        let saves = match (kind.limit(), shown.saves(place)) {
            (Some(_), Some(saves)) => format!("{saves:.4}"),
            _ => "-".to_owned(),
        };
        vec![
            kind.name().to_owned(),
            used.to_string(),
            limit,
            format!("{:.4}", kind.price_per_s() * 3600.0),
            saves,
        ]
    };
    kinds.map(row).collect()
}

const KINDS: [(&str, Side); 5] = [
    ("KIND", Side::Left),
    ("USED", Side::Right),
    ("LIMIT", Side::Right),
    ("PRICE/H", Side::Right),
    ("ONE MORE SAVES", Side::Right),
];

fn text(shown: &Shown) -> String {
    let placement = &shown.placement;
    let mut text = String::new();
    if !shown.is_met {
        let asked = shown.profile.min_rate();
        text.push_str(&format!(
            "no placement has {asked:.0} samples/s; the nearest:\n"
        ));
    }
    text.push_str(&key_values(&shown.figures()));
    for reason in shown.reasons() {
        text.push_str(&format!("in the way  {reason}\n"));
    }
    let columns = [
        ("LAYERS", Side::Left),
        ("KIND", Side::Left),
        ("UNITS", Side::Right),
        ("COMPUTE us", Side::Right),
        ("SEND us", Side::Right),
        ("LIMITED BY", Side::Left),
    ];
    let slowest = placement.slowest();
    let row = |(place, stage): (usize, &Stage)| {
        let by = bound(stage.bound);
        let mark = if place == slowest {
            ", sets the rate"
        } else {
            ""
        };
        vec![
            shown.run(stage),
            shown.kind(stage.kind).to_owned(),
            stage.units.to_string(),
            format!("{:.3}", stage.compute_s * 1e6),
            format!("{:.3}", stage.communication_s * 1e6),
            format!("{by}{mark}"),
        ]
    };
    let rows: Vec<Vec<String>> = placement.stages.iter().enumerate().map(row).collect();
    text.push('\n');
    text.push_str(&render(&columns, &rows));
    text.push('\n');
    text.push_str(&render(&KINDS, &kinds(shown)));
    text
}

fn value(shown: &Shown) -> Value {
    let placement = &shown.placement;
    let stages = placement.stages.iter().map(|stage| {
        json!({
            "layers": shown.layers(stage),
            "kind": shown.kind(stage.kind),
            "units": stage.units,
            "compute_s": stage.compute_s,
            "communication_s": stage.communication_s,
            "bound": stage.bound,
        })
    });
    let kinds = shown
        .profile
        .kinds()
        .iter()
        .enumerate()
        .map(|(place, kind)| {
            json!({
                "kind": kind.name(),
                "used": placement.used.get(place),
                "limit": kind.limit(),
                "price_per_hour": kind.price_per_s() * 3600.0,
                "one_more_saves": shown.saves(place),
            })
        });
    let why = shown.why.iter().map(|obstacle| match obstacle {
        Obstacle::Limit {
            kind,
            with_one_more,
            without_limit,
        } => json!({
            "limit_of": shown.kind(*kind),
            "rate_with_one_more": with_one_more,
            "rate_without_limit": without_limit,
        }),
        Obstacle::Serial { stage, part } => json!({"stage": stage, "part": part}),
    });
    json!({
        "network": shown.profile.name(),
        "min_rate": shown.profile.min_rate(),
        "is_met": shown.is_met,
        "rate": placement.rate,
        "cost": placement.cost,
        "cost_at_least": placement.cost_at_least,
        "gap": placement.gap(),
        "spend_per_hour": placement.spend_per_s * 3600.0,
        "samples": shown.profile.samples(),
        "slowest": placement.slowest(),
        "stages": stages.collect::<Vec<_>>(),
        "kinds": kinds.collect::<Vec<_>>(),
        "in_the_way": why.collect::<Vec<_>>(),
    })
}

fn page(shown: &Shown) -> Layers {
    let placement = &shown.placement;
    let stage = |stage: &Stage| LayersStage {
        kind: shown.kind(stage.kind).to_owned(),
        units: stage.units,
        layers: shown.layers(stage),
        compute_s: stage.compute_s,
        communication_s: stage.communication_s,
    };
    let head = KINDS.iter().map(|(name, _)| name.to_lowercase());
    let figures = shown.figures().into_iter();
    Layers {
        title: format!("{} on kinds of node", shown.profile.name()),
        subtitle: if shown.is_met {
            "the cheapest placement of its layers".to_owned()
        } else {
            let asked = shown.profile.min_rate();
            format!("no placement has {asked:.0} samples/s; the nearest")
        },
        figures: figures
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
        notes: shown.reasons(),
        stages: placement.stages.iter().map(stage).collect(),
        kinds: (head.collect(), kinds(shown)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROFILE: &str = r#"{
  "name": "small", "batch": 100, "samples": 1e9, "min_rate": 100000,
  "kinds": [
    {"name": "cpu", "price_per_hour": 0.04, "memory_bytes": 8e9, "link_bytes_per_s": 1e9},
    {"name": "gpu", "price_per_hour": 2.4, "memory_bytes": 3.2e10, "link_bytes_per_s": 1e9, "limit": 4}
  ],
  "layers": [
    {"name": "table", "seconds": {"cpu": 1e-5, "gpu": 2e-5}, "out_bytes": 100, "table_bytes": 2e10},
    {"name": "dense", "seconds": {"cpu": 1e-3, "gpu": 1e-5}, "out_bytes": 4, "weight_bytes": 1e4}
  ]}"#;

    fn shown(rate: f64) -> Shown {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("small.json");
        std::fs::write(&path, PROFILE).unwrap();
        found(&PlaceArgs {
            profile: path,
            rate: Some(rate),
            fastest: false,
            samples: None,
            limit: Vec::new(),
            tolerance: 1e-4,
            report: None,
            json: JsonArg::default(),
        })
        .unwrap()
    }

    #[test]
    fn a_placement_names_stages_and_kinds() {
        let shown = shown(100_000.0);
        let text = text(&shown);
        let has = |words: &[&str]| {
            let mut lines = text.lines();
            lines.any(|line| {
                line.split_whitespace()
                    .collect::<Vec<_>>()
                    .starts_with(words)
            })
        };
        assert!(has(&["table", "cpu"]) && has(&["dense", "gpu"]), "{text}");
        assert!(has(&["rate"]) && has(&["proven", "within"]), "{text}");
        let value = value(&shown);
        assert_eq!(value["is_met"], true);
        assert_eq!(value["stages"][0]["layers"], json!(["table"]));
        assert!(value["gap"].as_f64().unwrap() <= 1.001e-4, "{value}");
        assert!(value["kinds"][0]["one_more_saves"] == 0.0, "{value}");
        assert!(render_layers(&page(&shown)).contains("dense"));
    }

    #[test]
    fn a_rate_out_of_reach_says_what_is_in_the_way() {
        let shown = shown(1e12);
        assert!(!shown.is_met);
        let text = text(&shown);
        assert!(
            text.starts_with("no placement has 1000000000000 samples/s; the nearest:\n"),
            "{text}"
        );
        assert!(text.contains("in the way  "), "{text}");
        assert_eq!(value(&shown)["is_met"], false);
    }

    #[test]
    fn limits_are_read() {
        assert_eq!(parse_limit("cpu=4"), Ok(("cpu".to_owned(), Some(4))));
        assert_eq!(parse_limit("a=b=none").ok(), None);
        assert_eq!(parse_limit("cpu=none"), Ok(("cpu".to_owned(), None)));
        assert!(parse_limit("cpu").is_err() && parse_positive("0").is_err());
    }
}
