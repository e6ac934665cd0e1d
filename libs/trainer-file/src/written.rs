//! A trainer as its owner writes it: every key of a file, in TOML and in JSON lines.
//!
//! The older spelling of lists has `submit` for `not_before`, the three `rescale_*_s` in seconds for
//! `rescale`, and the keys of `scaling` beside the others.

use std::collections::BTreeMap;

use lacuna_model::Distance;
use serde::Deserialize;

use crate::error::Fault;
use crate::layers::Layers;
use crate::words::{Files, Moment, Word};

/// A trainer as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Written {
    pub(crate) name: Option<String>,
    pub(crate) owner: Option<String>,
    pub(crate) priority: Option<i32>,
    /// The weight of its work beside that of others.
    pub(crate) weight: Option<f64>,
    /// The time by which its work should be done.
    pub(crate) deadline: Option<Moment>,
    /// The earliest time of its start; in a replay its time of submission.
    pub(crate) not_before: Option<Moment>,
    pub(crate) launcher: Option<String>,
    pub(crate) program: Option<String>,
    pub(crate) arguments: Option<Vec<Word>>,
    pub(crate) environment: Option<BTreeMap<String, Word>>,
    /// A file of the nodes, or several, with further variables.
    pub(crate) environment_from: Option<Files>,
    /// The folder in which it runs; by default that of this file, where a node has it.
    pub(crate) directory: Option<String>,
    pub(crate) checkpoint_dir: Option<String>,
    /// Processes that train on each node, under torchrun and regroup.
    pub(crate) workers_per_node: Option<u32>,
    pub(crate) min_nodes: Option<u32>,
    pub(crate) max_nodes: Option<u32>,
    pub(crate) scaling: Option<Scaling>,
    /// A profile of its layers, which gives rates over counts of nodes of each kind.
    pub(crate) layers: Option<Layers>,
    /// The curve on nodes of each kind: `{ gpu = { nodes = [1], samples_per_s = [90.0] } }`.
    pub(crate) kinds: Option<BTreeMap<String, Curve>>,
    /// Rates on nodes of two kinds: `[{ cpu = 4, gpu = 1, samples_per_s = 120.0 }]`.
    pub(crate) together: Option<Vec<BTreeMap<String, f64>>>,
    /// Idle nodes that prepare its data while it waits for them.
    pub(crate) loaders: Option<RawLoaders>,
    /// What nodes on several leaves cost: `{ shares = [0.8] }` leaves 80 % of the rate.
    pub(crate) distance: Option<Distance>,
    /// Whether its curve is measured while it trains.
    pub(crate) profile: Option<bool>,
    /// The group of trainers that share measurements; by default those with the same command line.
    pub(crate) family: Option<String>,
    /// `speedup` (the default), `throughput` or an expression, where `scaling.objective` does not
    /// define the objective.
    pub(crate) maximise: Option<String>,
    pub(crate) rescale: Option<Rescale>,
    pub(crate) samples: Option<f64>,
    pub(crate) until: Option<String>,
    /// Other curves from a number of samples on, which a replay follows.
    pub(crate) stages: Option<Vec<RawStage>>,

    // The older spelling.
    submit: Option<Moment>,
    pub(crate) rescale_up_s: Option<f64>,
    pub(crate) rescale_down_s: Option<f64>,
    pub(crate) rescale_start_s: Option<f64>,
    nodes: Option<Vec<u32>>,
    samples_per_s: Option<Vec<f64>>,
    objective: Option<Vec<f64>>,
    goodput: Option<Vec<f64>>,
    batch: Option<Vec<f64>>,
    efficiency: Option<Vec<f64>>,
    waits: Option<BTreeMap<String, Vec<f64>>>,
}

/// A scaling curve, and what is known of steps at its node counts.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scaling {
    pub(crate) nodes: Vec<u32>,
    pub(crate) samples_per_s: Vec<f64>,
    /// The objective at each node count, if it is not throughput.
    pub(crate) objective: Option<Vec<f64>>,
    /// Learning in samples/s of the user's batch, which the objective `goodput` maximises.
    pub(crate) goodput: Option<Vec<f64>>,
    /// Samples of a step.
    pub(crate) batch: Option<Vec<f64>>,
    /// What one of them is worth in samples of the user's batch.
    pub(crate) efficiency: Option<Vec<f64>>,
    /// The share of a step that each cause costs, as `{ link = [0.0, 0.2] }`.
    pub(crate) waits: Option<BTreeMap<String, Vec<f64>>>,
    /// Whether its keys stand beside those of the trainer.
    #[serde(skip)]
    is_flat: bool,
}

impl Scaling {
    /// The name of one of its keys in the file.
    pub(crate) fn key(&self, key: &str) -> String {
        match self.is_flat {
            true => key.to_owned(),
            false => format!("scaling.{key}"),
        }
    }
}

/// A curve on nodes of one kind.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Curve {
    pub(crate) nodes: Vec<u32>,
    pub(crate) samples_per_s: Vec<f64>,
}

/// Nodes that prepare data: their kind, most of them, and processes that read on each.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawLoaders {
    pub(crate) kind: String,
    pub(crate) nodes: u32,
    pub(crate) processes: u32,
}

/// What changes of nodes cost, as `18s`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rescale {
    pub(crate) up: String,
    pub(crate) down: String,
    /// The cost of a start from no nodes.
    pub(crate) start: Option<String>,
}

/// Curves over the same nodes, from a number of samples on.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawStage {
    pub(crate) from: f64,
    pub(crate) samples_per_s: Vec<f64>,
    pub(crate) objective: Option<Vec<f64>>,
    pub(crate) goodput: Option<Vec<f64>>,
    pub(crate) batch: Option<Vec<f64>>,
    pub(crate) efficiency: Option<Vec<f64>>,
    pub(crate) waits: Option<BTreeMap<String, Vec<f64>>>,
}

impl Written {
    /// Moves what is in the older spelling to its place in the newer; returns whether anything was.
    pub(crate) fn renew(&mut self) -> Result<bool, Fault> {
        let is_older = self.submit.is_some()
            || self.rescale_up_s.is_some()
            || self.rescale_down_s.is_some()
            || self.rescale_start_s.is_some();
        let beside = |key: &str, other: &str| {
            Fault::new(key, format!("given beside {other}"), "keep one of the two")
        };
        if let Some(submit) = self.submit.take() {
            if self.not_before.is_some() {
                return Err(beside("submit", "not_before"));
            }
            self.not_before = Some(submit);
        }
        let curves = [
            ("nodes", self.nodes.is_some()),
            ("samples_per_s", self.samples_per_s.is_some()),
            ("objective", self.objective.is_some()),
            ("goodput", self.goodput.is_some()),
            ("batch", self.batch.is_some()),
            ("efficiency", self.efficiency.is_some()),
            ("waits", self.waits.is_some()),
        ];
        let Some((key, _)) = curves.into_iter().find(|(_, is_given)| *is_given) else {
            return Ok(is_older);
        };
        if self.scaling.is_some() {
            return Err(beside(key, "scaling"));
        }
        let remedy = "write scaling = { nodes = [1, 4], samples_per_s = [100.0, 350.0] }";
        let missing = |key: &str| Fault::new(key, "missing", remedy);
        self.scaling = Some(Scaling {
            nodes: self.nodes.take().ok_or_else(|| missing("nodes"))?,
            samples_per_s: self
                .samples_per_s
                .take()
                .ok_or_else(|| missing("samples_per_s"))?,
            objective: self.objective.take(),
            goodput: self.goodput.take(),
            batch: self.batch.take(),
            efficiency: self.efficiency.take(),
            waits: self.waits.take(),
            is_flat: true,
        });
        Ok(true)
    }
}
