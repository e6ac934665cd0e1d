//! Rates over counts of nodes: those of the exact search, close to it between its points, and none
//! where the network does not fit.

use std::collections::BTreeMap;

use lacuna_layers::{Error, LayerProfile, Nodes, RawProfile, fastest, rates};
use lacuna_model::{KindName, KindRates};

use super::common::{Draw, name};

/// Samples/s of the exact search on units of each kind.
fn exact(profile: &LayerProfile, units: &[u32]) -> Option<f64> {
    let mut limited = profile.clone();
    for (kind, units) in profile.kinds().iter().zip(units) {
        limited = limited.with_limit(kind.name(), Some(*units)).ok()?;
    }
    fastest(&limited).ok().map(|placement| placement.rate)
}

fn kinds() -> [KindName; 2] {
    [0, 1].map(|place| KindName::new(name(place)).unwrap())
}

fn at(rates: &KindRates, a: u32, b: u32) -> Option<f64> {
    let [first, second] = &kinds();
    rates.rate((first, a), (second, b))
}

fn close(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-6 * other
}

#[test]
fn points_are_those_of_the_exact_search_and_between_them_rates_are_close() {
    const MOST: u32 = 9;
    let mut draw = Draw::new(5);
    let (mut worst, mut points, mut none) = (0.0_f64, 0, 0);
    for _ in 0..12 {
        let profile = LayerProfile::new(draw.profile(5, 2)).unwrap();
        let found = match rates(&profile, &Nodes::alike(&profile).unwrap(), MOST) {
            Err(Error::NotAlone { most: MOST }) => continue,
            found => found.unwrap(),
        };
        for a in 0..=MOST {
            for b in (0..=MOST - a).filter(|b| a + b > 0) {
                let (rate, truth) = (at(&found, a, b), exact(&profile, &[a, b]));
                let on = |count| [0, 1, 2, 3, 4, 6, 8, 9].contains(&count);
                match (rate, truth) {
                    (Some(rate), Some(truth)) => {
                        worst = worst.max((rate / truth - 1.0).abs());
                        assert!(!(on(a) && on(b)) || close(rate, truth), "{a} {b}");
                        points += 1;
                    }
                    // Next to counts that do not fit nothing is promised.
                    (None, Some(_)) => assert!(!(on(a) && on(b)), "{a} {b}"),
                    (Some(_), None) => panic!("{a} and {b} do not fit"),
                    (None, None) => none += 1,
                }
            }
        }
    }
    assert!(points > 300 && none > 20, "{points} {none}");
    assert!(worst < 0.1, "{worst}");
}

fn small(text: &str) -> LayerProfile {
    let raw: RawProfile = serde_json::from_str(text).unwrap();
    LayerProfile::new(raw).unwrap()
}

/// A table that a GPU's memory does not hold, and a dense layer.
fn recommender() -> LayerProfile {
    small(
        r#"{"batch": 100, "samples": 1e9, "min_rate": 1e4, "kinds": [
            {"name": "n0", "price_per_hour": 0.04, "memory_bytes": 8e9, "link_bytes_per_s": 1e9},
            {"name": "n1", "price_per_hour": 2.4, "memory_bytes": 4e9, "link_bytes_per_s": 1e9, "limit": 4}],
          "layers": [
            {"name": "table", "seconds": {"n0": 1e-5, "n1": 2e-5}, "out_bytes": 100, "table_bytes": 2e10},
            {"name": "dense", "seconds": {"n0": 1e-3, "n1": 1e-5}, "out_bytes": 4}]}"#,
    )
}

#[test]
fn nodes_that_do_not_hold_the_network_have_no_rate() {
    let profile = recommender();
    let found = rates(&profile, &Nodes::alike(&profile).unwrap(), 8).unwrap();
    // Three CPU nodes hold the table. Four GPUs are the limit, and five would.
    assert_eq!(at(&found, 2, 0), None);
    assert!(close(
        at(&found, 3, 0).unwrap(),
        exact(&profile, &[3, 0]).unwrap()
    ));
    assert_eq!((1..=8).filter_map(|gpu| at(&found, 0, gpu)).count(), 0);
    assert!(at(&found, 3, 1).unwrap() > 10.0 * at(&found, 3, 0).unwrap());
    let kinds: Vec<String> = found.names().map(ToString::to_string).collect();
    assert_eq!(kinds, ["n0", "n1"]);
}

#[test]
fn a_node_may_have_units_of_several_kinds() {
    let profile = recommender();
    let fat = |cpu, gpu| [("n0".to_owned(), cpu), ("n1".to_owned(), gpu)].into();
    let given = BTreeMap::from([("n0".to_owned(), fat(4, 0)), ("n1".to_owned(), fat(2, 1))]);
    let nodes = Nodes::new(&profile, &given).unwrap();
    let found = rates(&profile, &nodes, 4).unwrap();
    assert_eq!(at(&found, 0, 1), None);
    for (a, b, units) in [
        (1, 0, [4, 0]),
        (0, 2, [4, 2]),
        (1, 1, [6, 1]),
        (2, 2, [12, 2]),
    ] {
        let truth = exact(&profile, &units).unwrap();
        assert!(close(at(&found, a, b).unwrap(), truth), "{a} {b}");
    }
}

#[test]
fn wrong_nodes_are_refused_with_a_remedy() {
    let profile = recommender();
    let refuse = |node: &str, kind: &str, units| {
        let of = BTreeMap::from([(kind.to_owned(), units)]);
        let given = BTreeMap::from([(node.to_owned(), of)]);
        Nodes::new(&profile, &given).unwrap_err().to_string()
    };
    assert!(
        refuse("gpu", "v100", 4).contains(r#"nodes.gpu names kind "v100": the profile has n0, n1"#)
    );
    assert!(
        refuse("gpu", "n1", 0)
            .contains("nodes.gpu has no units: say how many a node has of n0, n1")
    );
    assert!(refuse("a b", "n1", 1).contains("no kind of node"));
    assert!(Nodes::new(&profile, &BTreeMap::new()).is_err());
    let alone = BTreeMap::from([("gpu".to_owned(), [("n1".to_owned(), 1)].into())]);
    let nodes = Nodes::new(&profile, &alone).unwrap();
    let error = rates(&profile, &nodes, 9).unwrap_err().to_string();
    assert!(
        error.contains("up to 9 nodes: raise max_nodes or the limits"),
        "{error}"
    );
}
