//! Measured steps of five networks on nodes of four GPUs.

use lacuna_goodput::{
    BatchRule, Bounds, Fit, GoodputCurve, Layout, Noise, Observation, StepFormula, StepProfile,
    StepTimes, fit,
};
use lacuna_skip::{data, or_skip};
use serde_json::Value;

use crate::golden::{number, read};

/// GPUs of a node.
const GPUS: u32 = 4;
const NETWORKS: [&str; 5] = ["cifar10", "bert", "deepspeech2", "yolov3", "imagenet"];

fn observations(network: &Value) -> Vec<Observation> {
    let by_nodes = network["by_nodes"].as_object().unwrap();
    let rows = by_nodes.iter().flat_map(|(nodes, rows)| {
        let nodes: u32 = nodes.parse().unwrap();
        rows.as_array().unwrap().iter().map(move |row| {
            let [local, step_s, sync_s]: [f64; 3] = serde_json::from_value(row.clone()).unwrap();
            Observation {
                nodes,
                replicas: nodes * GPUS,
                local: local as u32,
                pass_s: step_s - sync_s,
                step_s,
            }
        })
    });
    rows.collect()
}

#[test]
fn fits_are_no_worse_than_the_published_ones_on_the_same_steps() {
    let profiles = read(&or_skip!(data("seeds/pollux_profiles.json")));
    let golden = read(&or_skip!(data("seeds/goodput_golden.json")));
    for name in NETWORKS {
        let seen = observations(&profiles[name]);
        let published = &golden["fits"][name]["params"];
        let order = [
            "alpha_c", "beta_c", "alpha_n", "beta_n", "alpha_r", "beta_r", "gamma",
        ];
        let theirs = StepFormula::new(order.map(|key| number(published, key))).unwrap();
        let their_objective = Fit::objective_of(&theirs, &seen).unwrap();
        let ours = fit(&seen).unwrap();
        assert!(
            ours.objective <= their_objective,
            "{name}: {} and published {their_objective}",
            ours.objective
        );
        assert!(
            ours.median_error < 0.12 && ours.worst_error < 0.6,
            "{name}: {ours:?}"
        );
    }
}

#[test]
fn a_profile_says_what_was_measured_and_lies_between_elsewhere() {
    let profiles = read(&or_skip!(data("seeds/pollux_profiles.json")));
    for name in NETWORKS {
        let seen = observations(&profiles[name]);
        let profile = StepProfile::new(&seen).unwrap();
        assert_eq!(profile.most_nodes(), 16);
        for one in &seen {
            let at = Layout::new(one.nodes, one.replicas, one.local, 0).unwrap();
            assert!(
                (profile.step_s(at) - one.step_s).abs() < 1e-12,
                "{name} {one:?}"
            );
            let twice = Layout::new(one.nodes, one.replicas, one.local, 2).unwrap();
            let wanted = one.step_s + 2.0 * one.pass_s;
            assert!(
                (profile.step_s(twice) - wanted).abs() < 1e-12,
                "{name} {one:?}"
            );
        }
        let local = profiles[name]["by_nodes"]["16"][0][0].as_f64().unwrap() as u32;
        let time = |nodes: u32| profile.step_s(Layout::new(nodes, nodes * GPUS, local, 0).unwrap());
        for (low, between, high) in [(4, 5, 6), (6, 7, 8), (8, 10, 12), (12, 14, 16)] {
            let (a, b) = (time(low), time(high));
            let found = time(between);
            assert!(
                a.min(b) <= found && found <= a.max(b),
                "{name} at {between}"
            );
        }
    }
}

/// The reference chose batches by a coarser search, so ours may be better and not worse.
#[test]
fn tables_are_no_worse_than_those_of_the_reference_and_dip() {
    let profiles = read(&or_skip!(data("seeds/pollux_profiles.json")));
    let golden = read(&or_skip!(data("seeds/goodput_node_tables.json")));
    let mut dips = 0;
    for name in NETWORKS {
        let network = &profiles[name];
        let seen = observations(network);
        let most = seen.iter().map(|one| one.local).max().unwrap();
        let least = seen.iter().map(|one| one.local).min().unwrap();
        let bounds = Bounds::new(
            number(network, "first_batch") as u32,
            number(network, "max_batch") as u32,
            (least, most),
            true,
        )
        .unwrap();
        let profile = StepProfile::new(&seen).unwrap();
        let noise = Noise::of_scale(number(&golden[name], "phi")).unwrap();
        let table =
            GoodputCurve::new(&profile, noise, &bounds, BatchRule::Best, (1, 16), GPUS).unwrap();
        let reference: Vec<f64> =
            serde_json::from_value(golden[name]["goodput_adapt"].clone()).unwrap();
        let worth = table.worth();
        assert!(worth[0] == 0.0 && worth[1] == 1.0, "{name}");
        for nodes in [1, 2, 3, 4, 6, 8, 12, 16] {
            let (ours, theirs) = (table.entries()[nodes].goodput, reference[nodes]);
            assert!(ours > 0.98 * theirs, "{name} at {nodes}: {ours} {theirs}");
            // No measured step within the bounds is better.
            for one in seen.iter().filter(|one| one.nodes as usize == nodes) {
                let batch = f64::from(one.replicas * one.local);
                let scale = batch / f64::from(bounds.first());
                if scale >= 1.0 && batch <= f64::from(bounds.max()) {
                    let here = noise.efficiency(scale).unwrap() * batch / one.step_s;
                    assert!(
                        ours > here * (1.0 - 1e-9),
                        "{name} at {nodes}: {ours} {here}"
                    );
                }
            }
        }
        dips += u32::from((2..=16).any(|n| worth[n] < worth[n - 1]));
    }
    assert!(dips >= 2, "only {dips} tables dip");
}
