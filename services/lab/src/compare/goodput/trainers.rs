//! Trainers of measured networks as lines of a list, with their stages: the worth of a sample
//! follows the noise scale, which grows as they learn.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use lacuna_goodput::{BatchRule, Bounds, Error, GoodputCurve, Noise, Observation, StepProfile};
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;
use serde_json::{Value, json};

/// GPUs of a node, and the largest measured number of nodes.
const GPUS: u32 = 4;
const MOST: u32 = 16;
/// Trainers by network.
pub(super) const MIX: [(&str, usize); 5] = [
    ("cifar10", 16),
    ("deepspeech2", 8),
    ("bert", 6),
    ("yolov3", 6),
    ("imagenet", 2),
];
/// Seconds within which trainers come, and of each change of nodes.
const WITHIN_S: f64 = 6.0 * 3600.0;
const RESCALE_S: f64 = 0.2;

/// How the batch follows the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Batch {
    /// The user's batch on each GPU, as far as the largest batch goes.
    PerNode,
    /// The batch with the most goodput at each size.
    Adapted,
    /// As if each node gave what the best size gives a node: nothing can learn faster.
    Bound,
}

/// What the planner maximises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Aim {
    Throughput,
    ScalingEfficiency,
    Goodput,
    /// Goodput times a power of the time that is left on one node.
    LongestFirst,
}

/// The measured steps of a network, and what it takes to learn. Times in seconds.
#[derive(Debug, Deserialize)]
pub(super) struct Network {
    first_batch: u32,
    max_batch: u32,
    /// Steps of the first batch.
    steps_to_quality: f64,
    /// By nodes: samples of a GPU, seconds of a step, seconds of it in the sum.
    by_nodes: BTreeMap<String, Vec<(u32, f64, f64)>>,
    /// Steps of the first batch up to which each noise scale holds, in units of the first batch.
    progress: Vec<f64>,
    phi: Vec<f64>,
}

/// The rates of one stage at 1 to 16 nodes.
struct Rates {
    /// Samples of the first batch a second, which is learning.
    goodput: Vec<f64>,
    /// Samples a second.
    throughput: Vec<f64>,
    /// Samples of a step, the worth of one, and the share of the step that the sum over GPUs costs.
    batch: Vec<f64>,
    efficiency: Vec<f64>,
    link: Vec<f64>,
}

impl Network {
    /// The curves of all stages as fields of a line: the first ones, and the later ones.
    pub(super) fn curves(&self, batch: Batch, aim: Aim) -> Result<Curves, String> {
        let seen = self.observations()?;
        let profile = StepProfile::new(&seen).map_err(text)?;
        let locals = || seen.iter().map(|one| one.local);
        let local = (locals().min().unwrap_or(1), locals().max().unwrap_or(1));
        let bounds = Bounds::new(self.first_batch, self.max_batch, local, true).map_err(text)?;
        let unit = f64::from(self.first_batch);
        let work = self.steps_to_quality * unit;
        let (mut from, mut node_s) = (0.0, 0.0);
        let mut stages = Vec::new();
        for (until, phi) in self.progress.iter().zip(&self.phi) {
            let noise = Noise::of_scale(*phi).map_err(text)?;
            let rates = rates(&profile, noise, &bounds, batch).map_err(text)?;
            let until = (until * unit).min(work);
            let each = (1_u32..).zip(&rates.goodput);
            let best = each.map(|(nodes, rate)| rate / f64::from(nodes));
            node_s += (until - from).max(0.0) / best.fold(0.0, f64::max);
            if from < work {
                stages.push((from, rates));
            }
            from = until;
        }
        if batch == Batch::Bound {
            return Ok(Curves::bound(node_s));
        }
        let mut stages = stages.into_iter().map(|(from, rates)| {
            let over = |all: &[f64]| {
                let one = all.first().copied().unwrap_or(1.0);
                all.iter().map(|rate| rate / one).collect::<Vec<_>>()
            };
            let objective = match aim {
                Aim::Throughput => rates.throughput,
                Aim::ScalingEfficiency => over(&rates.throughput),
                Aim::Goodput | Aim::LongestFirst => over(&rates.goodput),
            };
            json!({
                "from": from,
                "samples_per_s": rates.goodput,
                "objective": objective,
                "batch": rates.batch,
                "efficiency": rates.efficiency,
                "waits": { "link": rates.link },
            })
        });
        let first = stages.next().ok_or("a network without noise scales")?;
        Ok(Curves {
            samples: work,
            most: MOST,
            nodes: (1..=MOST).collect(),
            first,
            later: stages.collect(),
        })
    }

    fn observations(&self) -> Result<Vec<Observation>, String> {
        let mut all = Vec::new();
        for (nodes, rows) in &self.by_nodes {
            let nodes: u32 = nodes.parse().map_err(|e| format!("nodes {nodes:?}: {e}"))?;
            all.extend(rows.iter().map(|&(local, step_s, sync_s)| Observation {
                nodes,
                replicas: nodes * GPUS,
                local,
                pass_s: step_s - sync_s,
                step_s,
            }));
        }
        Ok(all)
    }
}

fn text(error: Error) -> String {
    error.to_string()
}

fn rates(
    profile: &StepProfile,
    noise: Noise,
    bounds: &Bounds,
    batch: Batch,
) -> Result<Rates, Error> {
    let rule = match batch {
        Batch::PerNode => BatchRule::PerNode(bounds.first() * GPUS),
        Batch::Adapted | Batch::Bound => BatchRule::Best,
    };
    let table = GoodputCurve::new(profile, noise, bounds, rule, (1, MOST), GPUS)?;
    let choices: Vec<_> = table.entries().iter().filter_map(|e| e.choice).collect();
    Ok(Rates {
        goodput: choices.iter().map(|choice| choice.goodput).collect(),
        throughput: choices.iter().map(|choice| choice.throughput).collect(),
        batch: choices.iter().map(|choice| choice.batch).collect(),
        efficiency: choices.iter().map(|choice| choice.efficiency).collect(),
        link: choices
            .iter()
            .map(|c| profile.network_share(c.layout))
            .collect(),
    })
}

/// The curves and the work of a network as fields of a line.
#[derive(Debug, Clone)]
pub(super) struct Curves {
    samples: f64,
    most: u32,
    nodes: Vec<u32>,
    first: Value,
    later: Vec<Value>,
}

impl Curves {
    /// One sample is a node-second at the best size, and any number of nodes is as good.
    fn bound(node_s: f64) -> Self {
        let most = 4096;
        Self {
            samples: node_s,
            most,
            nodes: vec![1, most],
            first: json!({ "samples_per_s": [1.0, f64::from(most)], "objective": null }),
            later: Vec::new(),
        }
    }
}

/// A list of trainers that come within six hours of `begin` (Unix seconds), in an order and at
/// times drawn by `seed`.
pub(super) fn list(curves: &BTreeMap<&str, Curves>, seed: u64, begin: i64) -> String {
    let mut dice = ChaCha8Rng::seed_from_u64(seed);
    let mix = MIX.iter().flat_map(|&(name, count)| vec![name; count]);
    let mut order: Vec<&str> = mix.collect();
    order.shuffle(&mut dice);
    let times = order.iter().map(|_| dice.random_range(0.0..WITHIN_S));
    let mut times: Vec<f64> = times.collect();
    times.sort_by(f64::total_cmp);
    let mut lines = String::new();
    for (number, (name, at)) in order.iter().zip(times).enumerate() {
        let Some(curves) = curves.get(name) else {
            continue;
        };
        let line = json!({
            "name": format!("{name}-{number}"),
            "submit": begin + at.round() as i64,
            "min_nodes": 1,
            "max_nodes": curves.most,
            "rescale_up_s": RESCALE_S,
            "rescale_down_s": RESCALE_S,
            "samples": curves.samples,
            "nodes": curves.nodes,
            "samples_per_s": curves.first.get("samples_per_s"),
            "objective": curves.first.get("objective"),
            "batch": curves.first.get("batch"),
            "efficiency": curves.first.get("efficiency"),
            "waits": curves.first.get("waits"),
            "stages": curves.later,
        });
        let _ = writeln!(lines, "{line}");
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network() -> Network {
        serde_json::from_value(json!({
            "first_batch": 4, "max_batch": 64, "steps_to_quality": 100.0,
            "by_nodes": {
                "1": [[1, 0.1, 0.01], [2, 0.12, 0.01], [4, 0.2, 0.01]],
                "2": [[1, 0.2, 0.11], [2, 0.22, 0.11], [4, 0.3, 0.11]],
                "16": [[1, 0.2, 0.11], [2, 0.22, 0.11], [4, 0.3, 0.11]],
            },
            "progress": [50.0, 100.0], "phi": [1.0, 40.0],
        }))
        .unwrap()
    }

    #[test]
    fn samples_of_large_batches_are_worth_more_in_the_later_stage() {
        for batch in [Batch::PerNode, Batch::Adapted] {
            let curves = network().curves(batch, Aim::Goodput).unwrap();
            assert_eq!((curves.samples, curves.later.len()), (400.0, 1));
            assert_eq!(curves.later[0]["from"], 200.0);
            let rate = |stage: &Value| stage["samples_per_s"][7].as_f64().unwrap();
            assert!(rate(&curves.later[0]) > 1.5 * rate(&curves.first));
            assert_eq!(curves.first["objective"][0], 1.0);
        }
    }

    #[test]
    fn the_best_batch_is_never_worse_and_the_bound_bounds_both() {
        let first = |batch| {
            let curves = network().curves(batch, Aim::Goodput).unwrap();
            let rates = curves.first["samples_per_s"].clone();
            serde_json::from_value::<Vec<f64>>(rates).unwrap()
        };
        let pairs = first(Batch::Adapted).into_iter().zip(first(Batch::PerNode));
        for (nodes, (best, plain)) in (1..).zip(pairs) {
            assert!(
                best >= plain * (1.0 - 1e-9),
                "{nodes} nodes: {best} {plain}"
            );
        }
        let bound = network().curves(Batch::Bound, Aim::Goodput).unwrap();
        let best = first(Batch::Adapted);
        // The first half of the work alone, at its best rate of a node.
        let each = (1_u32..).zip(&best).map(|(n, rate)| rate / f64::from(n));
        assert!(bound.samples > 200.0 / each.fold(0.0, f64::max));
    }

    #[test]
    fn a_list_is_drawn_by_its_seed() {
        let curves = network().curves(Batch::PerNode, Aim::Throughput).unwrap();
        let all: BTreeMap<&str, Curves> = MIX.map(|(name, _)| (name, curves.clone())).into();
        let one = list(&all, 1, 1000);
        assert_eq!(one.lines().count(), 38);
        assert!(one == list(&all, 1, 1000) && one != list(&all, 2, 1000));
    }
}
