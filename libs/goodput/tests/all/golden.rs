//! Rows that the published code gave, and rows of our formulas.

use lacuna_goodput::{
    Balance, Bounds, Layout, Limits, Moments, Noise, Speed, StepModel, best, longest, solve,
};
use lacuna_skip::{data, or_skip};
use serde_json::Value;

/// Relative tolerance of rows.
const TOLERANCE: f64 = 1e-9;

pub(crate) fn read(path: &std::path::Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

pub(crate) fn number(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap()
}

fn count(row: &Value, key: &str) -> u32 {
    u32::try_from(row[key].as_u64().unwrap()).unwrap()
}

fn model(row: &Value) -> StepModel {
    let list: Vec<f64> = serde_json::from_value(row["params"].clone()).unwrap();
    StepModel::new(list.try_into().unwrap()).unwrap()
}

fn close(found: f64, golden: f64) -> bool {
    (found - golden).abs() <= TOLERANCE * golden.abs()
}

#[test]
fn throughput_efficiency_and_goodput_are_the_published_ones() {
    let file = read(&or_skip!(data("seeds/goodput_golden.json")));
    let rows = file["evaluate"].as_array().unwrap();
    for row in rows {
        let at = Layout::new(
            count(row, "nodes"),
            count(row, "replicas"),
            count(row, "atomic_bsz"),
            count(row, "accum_steps"),
        )
        .unwrap();
        let noise = Noise::new(number(row, "var"), number(row, "sqr")).unwrap();
        let throughput = at.batch() / model(row).step_s(at);
        let efficiency = noise
            .efficiency(at.batch() / number(row, "init_batch"))
            .unwrap();
        assert!(
            close(throughput, number(row, "throughput")),
            "{row} {throughput}"
        );
        assert!(
            close(efficiency, number(row, "efficiency")),
            "{row} {efficiency}"
        );
        assert!(
            close(throughput * efficiency, number(row, "goodput")),
            "{row}"
        );
    }
    assert_eq!(rows.len(), 84);
}

#[test]
fn batches_are_as_good_as_the_published_ones() {
    let file = read(&or_skip!(data("seeds/goodput_golden.json")));
    let rows = file["optimize"].as_array().unwrap();
    let mut finer = 0;
    for row in rows {
        let range: [u32; 2] = serde_json::from_value(row["atomic_range"].clone()).unwrap();
        let bounds = Bounds::new(
            count(row, "init_batch"),
            count(row, "max_batch"),
            range.into(),
            row["accumulation"].as_bool().unwrap(),
        )
        .unwrap();
        let noise = Noise::new(number(row, "var"), number(row, "sqr")).unwrap();
        let (nodes, replicas) = (count(row, "nodes"), count(row, "replicas"));
        let found = best(&model(row), noise, &bounds, nodes, replicas).unwrap();
        let golden = number(row, "goodput");
        assert!(
            found.goodput >= golden * (1.0 - TOLERANCE),
            "{row} {found:?}"
        );
        finer += u32::from(found.goodput > golden * (1.0 + TOLERANCE));
    }
    assert_eq!(rows.len(), 144);
    assert!(
        finer > 0,
        "the search of whole samples is finer than fifty totals"
    );
}

#[test]
fn factors_of_the_learning_rate_are_the_published_ones() {
    let file = read(&or_skip!(data("seeds/goodput_golden.json")));
    for row in file["gain"].as_array().unwrap() {
        let noise = Noise::new(number(row, "var"), number(row, "sqr")).unwrap();
        let scale = number(row, "scale");
        assert!(
            close(noise.gain(scale).unwrap(), number(row, "adascale")),
            "{row}"
        );
        assert!(
            close(noise.adam_gain(scale).unwrap(), number(row, "adamscale")),
            "{row}"
        );
        assert!(
            close(noise.efficiency(scale).unwrap(), number(row, "efficiency")),
            "{row}"
        );
    }
}

#[test]
fn moments_of_the_gradient_are_those_of_the_formula() {
    let file = read(&or_skip!(data("seeds/noise_scale_golden.json")));
    for row in file.as_array().unwrap() {
        let shares: Vec<u64> = serde_json::from_value(row["shares"].clone()).unwrap();
        let gradients: Vec<Vec<f64>> = serde_json::from_value(row["gradients"].clone()).unwrap();
        let total: u64 = shares.iter().sum();
        let mut local = 0.0;
        let mut mean = vec![0.0; gradients[0].len()];
        for (share, gradient) in shares.iter().zip(&gradients) {
            let weight = *share as f64 / total as f64;
            local += weight * gradient.iter().map(|g| g * g).sum::<f64>();
            for (mean, g) in mean.iter_mut().zip(gradient) {
                *mean += weight * g;
            }
        }
        let global = mean.iter().map(|g| g * g).sum::<f64>();
        let found = Moments::new(&shares, local, global).unwrap();
        assert!(close(local, number(row, "weighted_local")), "{row}");
        assert!(close(global, number(row, "global_sqr")), "{row}");
        assert!(close(found.sqr, number(row, "sqr")), "{row} {found:?}");
        assert!(close(found.trace, number(row, "trace")), "{row} {found:?}");
    }
}

#[test]
fn shares_are_the_solved_ones_after_one_change() {
    let file = read(&or_skip!(data("seeds/uneven_shares_golden.json")));
    for (name, row) in file.as_object().unwrap() {
        let overhead: f64 = name.rsplit(' ').next().unwrap().parse().unwrap();
        let cores: Vec<f64> = serde_json::from_value(row["cores"].clone()).unwrap();
        let golden: Vec<f64> = serde_json::from_value(row["solved_shares"].clone()).unwrap();
        let speed = |&cores: &f64| Speed::new(overhead, 10.0 * cores).unwrap();
        let members: Vec<Speed> = cores.iter().map(speed).collect();
        let limits = Limits::new(8, 512).unwrap();
        let shares = solve(256, &members, limits).unwrap();
        assert_eq!(shares.iter().sum::<u64>(), 256);
        let step = longest(&members, &shares).unwrap();
        assert!(
            close(step, number(row, "solved")),
            "{name}: {shares:?} {step}"
        );
        let same = shares
            .iter()
            .zip(&golden)
            .all(|(a, b)| (*a as f64 - b).abs() <= 1.0);
        assert!(same, "{name}: {shares:?} {golden:?}");
        let mut balance = Balance::new(256, 4, limits).unwrap();
        let even = longest(&members, balance.shares()).unwrap();
        assert!(close(even, number(row, "even")), "{name}");
        let mut changes = 0;
        for step in 0..1_000 {
            changes += u32::from(balance.look(step, &members).unwrap().is_some());
        }
        let uneven = cores.iter().any(|one| *one != cores[0]);
        assert_eq!(changes, u32::from(uneven), "{name}");
        let after = longest(&members, balance.shares()).unwrap();
        assert!(after <= 1.02 * number(row, "bound"), "{name}: {after}");
    }
}
