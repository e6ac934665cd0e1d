//! Scaling curves of simulated programs.

use lacuna_cli::error::{CliError, Result};

use crate::bench::data;

/// The curve of a network or of a law of growth.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Named {
    pub(super) name: String,
    /// Samples/s at 1, 2, ... nodes.
    pub(super) rates: Vec<f64>,
}

/// Curves up to `nodes` nodes: laws of growth, and the published networks if their file exists.
///
/// # Errors
/// The file of the networks cannot be read.
pub(super) fn all(nodes: u32) -> Result<Vec<Named>> {
    let mut all = laws(nodes);
    all.extend(published(nodes)?);
    Ok(all)
}

/// Laws of growth. None is piecewise linear between powers of two, the probed sizes.
fn laws(nodes: u32) -> Vec<Named> {
    let law = |name: &str, rate: &dyn Fn(f64) -> f64| Named {
        name: name.to_owned(),
        rates: (1..=nodes).map(|n| 100.0 * rate(f64::from(n))).collect(),
    };
    let most = f64::from(nodes);
    vec![
        law("linear", &|n| n),
        law("Amdahl, 5 % serial", &|n| n / (1.0 + 0.05 * (n - 1.0))),
        law("Amdahl, 20 % serial", &|n| n / (1.0 + 0.2 * (n - 1.0))),
        law("power 0.8", &|n| n.powf(0.8)),
        law("full at 3/8", &|n| n.min(most * 3.0 / 8.0)),
        law("falls from 5/8 on", &|n| {
            n - 1.5 * (n - most * 5.0 / 8.0).max(0.0)
        }),
        law("slow beyond 4 a switch", &|n| {
            if n <= 4.0 { n } else { 0.7 * n + 0.5 }
        }),
    ]
}

/// The networks of the published trainers, each once.
fn published(nodes: u32) -> Result<Vec<Named>> {
    let Some(path) = data::file("summit-2021-02/mixed-1001-throughput.jsonl.gz") else {
        return Ok(Vec::new());
    };
    let trainers =
        lacuna_trace::read_trainers(&path).map_err(|e| CliError::failed(e.to_string()))?;
    let mut all: Vec<Named> = Vec::new();
    for trainer in trainers {
        let id = trainer.id.to_string();
        let name = id.split_once('-').map_or(id.as_str(), |(_, name)| name);
        if all.iter().all(|known| known.name != name) {
            let rates = (1..=nodes).map(|n| trainer.throughput.at(n)).collect();
            let name = name.to_owned();
            all.push(Named { name, rates });
        }
    }
    Ok(all)
}
