//! Rows that the published code gave, and rows of our formulas.

use lacuna_goodput::{Bounds, Layout, Noise, StepFormula, best};
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

fn model(row: &Value) -> StepFormula {
    let list: Vec<f64> = serde_json::from_value(row["params"].clone()).unwrap();
    StepFormula::new(list.try_into().unwrap()).unwrap()
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
