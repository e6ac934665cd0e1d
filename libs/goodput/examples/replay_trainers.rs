//! Trainers for `lacuna replay`, from measured steps of five networks on nodes of four GPUs.
//!
//! ```text
//! cargo run --release -p lacuna-goodput --example replay_trainers -- \
//!     PROFILES.json per-node|adapted SEED BEGIN > trainers.jsonl
//! ```
//!
//! `PROFILES.json` is `pollux_profiles.json` of the test data, `BEGIN` the first moment of the
//! recording in Unix seconds. 38 trainers come within six hours, in an order drawn by `SEED`. Work
//! is counted in samples of the user's batch, so the rate of a trainer is its goodput at the median
//! of the published noise scales.
//!
//! - `per-node`: each GPU takes the user's batch, as far as the largest batch goes. The objective of a
//!   trainer is its speed-up in plain samples, as in `scaling-efficiency` without goodput.
//! - `adapted`: the best batch at each size. `--objective goodput` plans by it.

use std::error::Error;

use lacuna_goodput::{Bounds, Choice, Layout, Noise, Observation, Profile, StepTimes, ValueTable};
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;
use serde_json::{Value, json};

/// GPUs of a node, and the largest measured number of nodes.
const GPUS: u32 = 4;
const MOST: u32 = 16;
/// Trainers by network.
const MIX: [(&str, usize); 5] = [
    ("cifar10", 16),
    ("deepspeech2", 8),
    ("bert", 6),
    ("yolov3", 6),
    ("imagenet", 2),
];
/// Seconds within which trainers come, and of each rescale.
const WITHIN_S: f64 = 6.0 * 3600.0;
const RESCALE_S: f64 = 0.2;

/// Nodes, goodput, and the planner's value.
type Rows = Vec<(u32, f64, f64)>;

#[derive(Deserialize)]
struct Network {
    first_batch: u32,
    max_batch: u32,
    steps_to_quality: f64,
    by_nodes: std::collections::BTreeMap<String, Vec<(u32, f64, f64)>>,
    phi: Vec<f64>,
}

impl Network {
    fn observations(&self) -> Result<Vec<Observation>, Box<dyn Error>> {
        let mut all = Vec::new();
        for (nodes, rows) in &self.by_nodes {
            let nodes: u32 = nodes.parse()?;
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

    /// Nodes, goodput in samples of the user's batch a second, and the planner's value.
    fn table(&self, adapted: bool) -> Result<Rows, Box<dyn Error>> {
        let seen = self.observations()?;
        let profile = Profile::new(&seen)?;
        let mut phi = self.phi.clone();
        phi.sort_by(f64::total_cmp);
        let noise = Noise::of_scale(phi.get(phi.len() / 2).copied().unwrap_or(0.0))?;
        let locals = || seen.iter().map(|one| one.local);
        let local = (locals().min().unwrap_or(1), locals().max().unwrap_or(1));
        let bounds = Bounds::new(self.first_batch, self.max_batch, local, true)?;
        if adapted {
            let table = ValueTable::new(&profile, noise, &bounds, (1, MOST), GPUS)?;
            let worth = table.worth();
            let rows = table.entries().iter().zip(worth).zip(0_u32..).skip(1);
            return Ok(rows.map(|((e, worth), n)| (n, e.goodput, worth)).collect());
        }
        let mut rows = Vec::new();
        let mut one = 0.0;
        for nodes in 1..=MOST {
            let replicas = nodes * GPUS;
            let batch = (self.first_batch * replicas).min(self.max_batch);
            let layout = Layout::new(nodes, replicas, batch.div_ceil(replicas), 0)?;
            let choice = Choice::of(&profile, noise, &bounds, layout)?;
            let rate = choice.batch / profile.step_s(layout);
            if nodes == 1 {
                one = rate;
            }
            rows.push((nodes, choice.goodput, rate / one));
        }
        Ok(rows)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, batch, seed, begin] = arguments.as_slice() else {
        return Err("expected PROFILES.json per-node|adapted SEED BEGIN".into());
    };
    let adapted = match batch.as_str() {
        "adapted" => true,
        "per-node" => false,
        other => return Err(format!("{other:?} is neither per-node nor adapted").into()),
    };
    let begin: f64 = begin.parse()?;
    let mut dice = ChaCha8Rng::seed_from_u64(seed.parse()?);
    let all: Value = serde_json::from_str(&std::fs::read_to_string(file)?)?;
    let mut order: Vec<&str> = MIX
        .iter()
        .flat_map(|&(name, count)| vec![name; count])
        .collect();
    order.shuffle(&mut dice);
    let mut times: Vec<f64> = order
        .iter()
        .map(|_| dice.random_range(0.0..WITHIN_S))
        .collect();
    times.sort_by(f64::total_cmp);
    for (number, (name, at)) in order.iter().zip(times).enumerate() {
        let one = all
            .get(*name)
            .ok_or_else(|| format!("{file} has no {name}"))?;
        let network: Network = serde_json::from_value(one.clone())?;
        let rows = network.table(adapted)?;
        let column = |of: fn(&(u32, f64, f64)) -> Value| rows.iter().map(of).collect::<Vec<_>>();
        let line = json!({
            "name": format!("{name}-{number}"),
            "submit": (begin + at).round() as i64,
            "min_nodes": 1,
            "max_nodes": MOST,
            "rescale_up_s": RESCALE_S,
            "rescale_down_s": RESCALE_S,
            "samples": network.steps_to_quality * f64::from(network.first_batch),
            "nodes": column(|row| json!(row.0)),
            "samples_per_s": column(|row| json!(row.1)),
            "objective": column(|row| json!(row.2)),
        });
        println!("{line}");
    }
    Ok(())
}
