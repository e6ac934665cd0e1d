//! The instances of the seeds, with the optimum that the prototype found by brute force.

use std::collections::BTreeMap;

use serde_json::Value;

use lacuna_layers::{
    Answer, LayerProfile, Options, Placement, RawKind, RawLayer, RawProfile, place, provision,
};
use lacuna_skip::{data, or_skip};

use crate::brute_force::least_cost;
use crate::common::name;

fn numbers(value: &Value) -> Vec<f64> {
    let list = value.as_array().unwrap().iter();
    list.map(|v| v.as_f64().unwrap()).collect()
}

fn profile(instance: &Value) -> RawProfile {
    let list = |field: &str| numbers(&instance[field]);
    let number = |field: &str| instance[field].as_f64().unwrap();
    let (link, price, memory) = (list("link"), list("price_per_s"), list("memory"));
    let kind = |t: usize| RawKind {
        name: name(t),
        price_per_hour: price[t] * 3600.0,
        memory_bytes: memory[t],
        link_bytes_per_s: link[t],
        limit: None,
    };
    let compute = instance["compute"].as_array().unwrap();
    let layer = |l: usize| RawLayer {
        name: name(l),
        seconds: (0..)
            .map(name)
            .zip(numbers(&compute[l]).into_iter().map(Some))
            .collect(),
        out_bytes: list("out")[l],
        weight_bytes: list("weights")[l],
        table_bytes: list("table")[l],
        parallel_compute: list("alpha")[l],
        parallel_communication: list("beta")[l],
    };
    RawProfile {
        name: "golden".to_owned(),
        batch: number("batch"),
        samples: number("samples"),
        min_rate: number("x_min"),
        kinds: (0..link.len()).map(kind).collect(),
        layers: (0..compute.len()).map(layer).collect(),
        bandwidth: BTreeMap::new(),
    }
}

fn met(raw: &RawProfile) -> Placement {
    let profile = LayerProfile::new(raw.clone()).unwrap();
    match place(&profile, &Options { tolerance: 1e-6 }).unwrap() {
        Answer::Met(placement) => placement,
        Answer::Short { .. } => panic!("not met"),
    }
}

/// Instances whose recorded optimum is dearer than that of brute force over all rates. It is the
/// optimum under limits that the file does not have, such as the units of its own plan.
const LIMITED: [usize; 2] = [13, 17];

#[test]
fn golden_instances_have_the_known_optimum() {
    let path = or_skip!(data("seeds/heterps_golden.json"));
    let golden: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let golden = golden.as_array().unwrap();
    assert_eq!(golden.len(), 24);
    for (number, instance) in golden.iter().enumerate() {
        let mut raw = profile(instance);
        let cost = instance["cost"].as_f64().unwrap();
        let plan: Vec<usize> = numbers(&instance["plan"])
            .iter()
            .map(|k| *k as usize)
            .collect();
        let units: Vec<u32> = numbers(&instance["units"])
            .iter()
            .map(|k| *k as u32)
            .collect();
        if LIMITED.contains(&number) {
            let found = met(&raw);
            assert!(
                (found.cost / least_cost(&raw) - 1.0).abs() < 1e-6,
                "{number}: {found:?}"
            );
            assert!(found.cost < cost * 0.95, "{number}: {} {cost}", found.cost);
            let mut kinds = plan.clone();
            kinds.dedup();
            for (t, kind) in raw.kinds.iter_mut().enumerate() {
                let of = kinds.iter().zip(&units).filter(|(kind, _)| **kind == t);
                kind.limit = Some(of.map(|(_, units)| units).sum());
            }
        }
        let found = met(&raw);
        assert!(
            (found.cost / cost - 1.0).abs() < 1e-6,
            "{number}: {found:?} {cost}"
        );
        assert!(found.gap() <= 1.001e-6, "{number}: {}", found.gap());
        assert_eq!(found.choice(), plan, "{number}");
        let ours: Vec<u32> = found.stages.iter().map(|stage| stage.units).collect();
        assert_eq!(ours, units, "{number}");
        let rate = instance["rate"].as_f64().unwrap();
        assert!((found.rate / rate - 1.0).abs() < 1e-9, "{number}");
        let given = provision(&LayerProfile::new(raw).unwrap(), &plan)
            .unwrap()
            .unwrap();
        assert!(
            (given.cost / cost - 1.0).abs() < 2e-6,
            "{number}: {given:?}"
        );
    }
}
