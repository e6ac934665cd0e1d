//! Input that is wrong, and questions that have no answer.

use lacuna_layers::{Answer, Error, LayerProfile, Obstacle, Options, RawProfile, place, provision};

const GOOD: &str = r#"{
  "name": "small", "batch": 100, "samples": 1e6, "min_rate": 1000,
  "kinds": [
    {"name": "cpu", "price_per_hour": 0.04, "memory_bytes": 8e9, "link_bytes_per_s": 1e9},
    {"name": "gpu", "price_per_hour": 2.4, "memory_bytes": 3.2e10, "link_bytes_per_s": 1e9, "limit": 4}
  ],
  "layers": [
    {"name": "table", "seconds": {"cpu": 1e-5, "gpu": 2e-5}, "out_bytes": 100, "table_bytes": 2e10},
    {"name": "dense", "seconds": {"cpu": 1e-3, "gpu": 1e-5}, "out_bytes": 4, "weight_bytes": 1e6,
     "parallel_compute": 0.999, "parallel_communication": 0.99}
  ]}"#;

fn raw() -> RawProfile {
    serde_json::from_str(GOOD).unwrap()
}

type Change<'a> = &'a dyn Fn(&mut RawProfile);

/// The error of a profile with one change.
fn refused(change: impl Fn(&mut RawProfile)) -> String {
    let mut raw = raw();
    change(&mut raw);
    LayerProfile::new(raw).unwrap_err().to_string()
}

#[test]
fn errors_name_the_place_and_the_remedy() {
    assert!(LayerProfile::read("small.json", GOOD).is_ok());
    let unknown = GOOD.replace("\"batch\"", "\"batches\"");
    let error = LayerProfile::read("small.json", &unknown)
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("small.json: unknown field `batches`"),
        "{error}"
    );
    let cases: [(Change, &str); 13] = [
        (
            &|raw| raw.kinds.clear(),
            "layers.table.seconds names kind \"cpu\": the profile has ",
        ),
        (
            &|raw| raw.layers.clear(),
            "layers is empty: name at least one",
        ),
        (
            &|raw| raw.min_rate = 0.0,
            "min_rate is 0: expected a number above 0",
        ),
        (
            &|raw| raw.kinds[1].limit = Some(2_000_000),
            "kinds.gpu.limit is 2000000: expected at most a million units, or no limit",
        ),
        (
            &|raw| raw.batch = f64::NAN,
            "batch is NaN: expected a number above 0",
        ),
        (
            &|raw| raw.kinds[0].price_per_hour = -1.0,
            "kinds.cpu.price_per_hour is -1: expected a number from 0 on",
        ),
        (
            &|raw| raw.kinds[1].name = "cpu".to_owned(),
            "kind \"cpu\" is named twice: give each its own name",
        ),
        (
            &|raw| raw.layers[1].name = "table".to_owned(),
            "layer \"table\" is named twice: give each its own name",
        ),
        (
            &|raw| {
                raw.layers[1].seconds.remove("gpu");
            },
            "layer \"dense\" has no seconds on kind \"gpu\": measure it there, or write null if it cannot run there",
        ),
        (
            &|raw| raw.layers[1].parallel_compute = 1.5,
            "layers.dense.parallel_compute is 1.5: expected a share from 0 to 1",
        ),
        (
            &|raw| {
                raw.bandwidth.entry("tpu".to_owned()).or_default();
            },
            "bandwidth names kind \"tpu\": the profile has cpu, gpu",
        ),
        (
            &|raw| raw.layers[0].weight_bytes = 1e10,
            "layer \"table\" fits nowhere: cpu has 8000000000 bytes, its weights with gradient and optimizer take 40000000000; gpu has 32000000000 bytes, its weights with gradient and optimizer take 40000000000",
        ),
        (
            &|raw| {
                for layer in &mut raw.layers {
                    layer.seconds.insert("cpu".to_owned(), Some(0.0));
                }
            },
            "no layer takes time on every kind: give at least one layer seconds above 0 on each",
        ),
    ];
    for (change, expected) in cases {
        assert_eq!(refused(change), expected);
    }
    let table = refused(|raw| {
        raw.layers[0].table_bytes = 1e12;
        raw.layers[0].seconds.insert("cpu".to_owned(), None);
    });
    assert_eq!(
        table,
        "layer \"table\" fits nowhere: cpu cannot run it (null); 4 units of gpu hold 1.2800e11 bytes of a table of 1.0000e12"
    );
}

#[test]
fn a_choice_of_wrong_length_is_refused() {
    let profile = LayerProfile::new(raw()).unwrap();
    for choice in [&[0][..], &[0, 2], &[]] {
        let error = provision(&profile, choice).unwrap_err();
        assert!(matches!(error, Error::Choice { .. }), "{error}");
    }
}

#[test]
fn what_cannot_run_on_a_kind_is_not_put_there() {
    let mut raw = raw();
    raw.layers[0].seconds.insert("gpu".to_owned(), None);
    raw.layers[1].seconds.insert("cpu".to_owned(), None);
    let profile = LayerProfile::new(raw).unwrap();
    let Answer::Met(placement) = place(&profile, &Options::default()).unwrap() else {
        panic!("not met");
    };
    assert_eq!(placement.choice(), [0, 1]);
    assert_eq!(provision(&profile, &[1, 1]).unwrap(), None);
}

#[test]
fn units_without_a_price_are_used_first() {
    let mut raw = raw();
    for kind in &mut raw.kinds {
        kind.price_per_hour = 0.0;
    }
    let profile = LayerProfile::new(raw.clone()).unwrap();
    let Answer::Met(placement) = place(&profile, &Options::default()).unwrap() else {
        panic!("not met");
    };
    assert_eq!((placement.cost, placement.gap()), (0.0, 0.0));
    // One kind free and limited: it is used as far as it goes.
    raw.kinds[0].price_per_hour = 0.04;
    raw.kinds[1].limit = Some(1);
    raw.min_rate = 150_000.0;
    let profile = LayerProfile::new(raw).unwrap();
    let Answer::Met(placement) = place(&profile, &Options::default()).unwrap() else {
        panic!("not met");
    };
    assert!(
        placement.cost > 0.0 && placement.gap() <= 1.001e-4,
        "{placement:?}"
    );
}

#[test]
fn a_rate_out_of_reach_gives_the_nearest_and_why() {
    let mut asked = raw();
    asked.min_rate = 1e6;
    asked.kinds[0].limit = Some(10);
    let profile = LayerProfile::new(asked.clone()).unwrap();
    let Answer::Short { nearest, why } = place(&profile, &Options::default()).unwrap() else {
        panic!("met");
    };
    assert!(nearest.rate < 1e6);
    // Ten CPUs have 10 %, four GPUs 9 % of it alone: more of either helps.
    assert_eq!(why.len(), 2);
    for (expected, obstacle) in why.iter().enumerate() {
        let Obstacle::Limit {
            kind,
            with_one_more,
            without_limit,
        } = *obstacle
        else {
            panic!("{why:?}");
        };
        assert_eq!(kind, expected);
        assert!(
            with_one_more >= nearest.rate && without_limit > with_one_more,
            "{why:?}"
        );
    }
    // Without limits, what units do not divide is in the way: .001 of 1e-5 s allows 1e8/s, and
    // .01 of 2e-5 s of weights 5e6/s.
    asked.min_rate = 1e9;
    for kind in &mut asked.kinds {
        kind.limit = None;
    }
    let profile = LayerProfile::new(asked).unwrap();
    let Answer::Short { nearest, why } = place(&profile, &Options::default()).unwrap() else {
        panic!("met");
    };
    let [
        Obstacle::Serial { stage, part },
        Obstacle::NoLimit {
            kind,
            units,
            rate,
            units_then,
        },
    ] = why[..]
    else {
        panic!("{why:?}");
    };
    // The highest rate takes nearly a million units, nine tenths of it a thousandth of these.
    assert_eq!(units, nearest.used[kind]);
    assert!((rate / nearest.rate - 0.9).abs() < 1e-9);
    assert!(units > 100_000 && units_then < units / 100, "{why:?}");
    assert_eq!(stage, nearest.slowest());
    assert_eq!(part, lacuna_layers::Bound::Communication);
    assert!(
        nearest.rate > 4e6 && nearest.rate < 5.1e6,
        "{}",
        nearest.rate
    );
}

#[test]
fn a_network_that_fits_at_no_rate_is_refused() {
    let mut raw = raw();
    for layer in &mut raw.layers {
        layer.seconds.insert("cpu".to_owned(), None);
        layer.table_bytes = 1e11;
    }
    // Each table fits on four GPUs, both do not.
    let error = place(&LayerProfile::new(raw).unwrap(), &Options::default()).unwrap_err();
    assert!(matches!(error, Error::TooFew { .. }), "{error}");
}
