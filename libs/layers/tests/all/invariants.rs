//! What holds for every profile.

use lacuna_layers::{
    Answer, LayerProfile, Options, Placement, RawProfile, fastest, place, provision,
    worth_of_one_more,
};

use crate::common::Draw;

/// Costs are compared within twice the tolerance.
const WITHIN: f64 = 2.1e-4;

/// Profiles by seed: up to three kinds and nine layers, half of them with limits.
fn profiles() -> impl Iterator<Item = (u64, RawProfile, Draw)> {
    (20_000..20_300_u64).filter_map(|seed| {
        let mut draw = Draw::new(seed);
        let (layers, kinds) = (1 + draw.below(9), 1 + draw.below(3));
        let mut raw = draw.profile(layers, kinds);
        raw.min_rate /= 20.0;
        let profile = LayerProfile::new(raw.clone()).ok()?;
        fastest(&profile).ok()?;
        if draw.chance(0.5) {
            draw.limits(&mut raw);
        }
        Some((seed, raw, draw))
    })
}

fn met(raw: &RawProfile) -> Option<Placement> {
    let profile = LayerProfile::new(raw.clone()).ok()?;
    match place(&profile, &Options::default()).ok()? {
        Answer::Met(placement) => Some(placement),
        Answer::Short { .. } => None,
    }
}

fn cost(raw: &RawProfile) -> f64 {
    met(raw).map_or(f64::INFINITY, |placement| placement.cost)
}

#[test]
fn cost_never_rises_when_a_kind_comes_a_price_falls_or_a_limit_grows() {
    let mut changed = [0; 3];
    for (seed, raw, mut draw) in profiles() {
        let before = cost(&raw);
        let mut check = |which: usize, other: &RawProfile| {
            let after = cost(other);
            assert!(
                after <= before * (1.0 + WITHIN),
                "seed {seed}, change {which}: {before} {after}"
            );
            changed[which] += usize::from(after < before * (1.0 - WITHIN));
        };
        let mut more = raw.clone();
        let mut kind = more.kinds[0].clone();
        kind.name = "new".to_owned();
        kind.limit = Some(5);
        more.kinds.push(kind);
        for layer in &mut more.layers {
            let seconds = draw.log(2e-7, 1e-4);
            layer.seconds.insert("new".to_owned(), Some(seconds));
        }
        check(0, &more);
        let mut cheaper = raw.clone();
        let t = draw.below(raw.kinds.len());
        cheaper.kinds[t].price_per_hour *= 0.7;
        check(1, &cheaper);
        let mut wider = raw.clone();
        for kind in &mut wider.kinds {
            kind.limit = kind.limit.map(|limit| limit + 2);
        }
        check(2, &wider);
    }
    assert!(changed.iter().all(|&n| n > 20), "{changed:?}");
}

/// R(x) does not fall: neither does the least cost of placements with a rate of x or more.
#[test]
fn cost_never_falls_with_the_rate() {
    for (seed, raw, _) in profiles() {
        let mut last = 0.0;
        for factor in [0.5, 1.0, 2.0, 5.0, 20.0] {
            let mut asked = raw.clone();
            asked.min_rate *= factor;
            let cost = cost(&asked);
            assert!(cost >= last * (1.0 - WITHIN), "seed {seed}: {last} {cost}");
            last = cost;
        }
    }
}

#[test]
fn one_kind_is_one_stage_and_neighbours_differ() {
    for (seed, raw, _) in profiles() {
        let Some(placement) = met(&raw) else {
            continue;
        };
        let stages = &placement.stages;
        assert!(raw.kinds.len() > 1 || stages.len() == 1, "seed {seed}");
        assert!(
            stages.windows(2).all(|two| two[0].kind != two[1].kind),
            "seed {seed}"
        );
        assert!(
            stages
                .windows(2)
                .all(|two| two[0].layers.end == two[1].layers.start)
        );
        assert_eq!(placement.choice().len(), raw.layers.len(), "seed {seed}");
        for (kind, used) in raw.kinds.iter().zip(&placement.used) {
            assert!(
                kind.limit.is_none_or(|limit| *used <= limit),
                "seed {seed}: {placement:?}"
            );
        }
    }
}

/// With one unit less, a stage no longer keeps the rate of the placement, or its tables.
#[test]
fn units_are_as_few_as_the_rate_allows() {
    for (seed, raw, _) in profiles() {
        let Some(placement) = met(&raw) else {
            continue;
        };
        for stage in placement.stages.iter().filter(|stage| stage.units > 1) {
            let layers = &raw.layers[stage.layers.clone()];
            let kind = &raw.kinds[stage.kind];
            let (k, less) = (f64::from(stage.units), f64::from(stage.units - 1));
            // The times divide into parts by their values at k.
            let parallel: f64 = layers
                .iter()
                .map(|l| l.parallel_compute * l.seconds[&kind.name].unwrap())
                .sum();
            let compute = stage.compute_s + parallel / less - parallel / k;
            let first = &layers[0];
            let received = if stage.layers.start == 0 {
                0.0
            } else {
                2.0 * raw.layers[stage.layers.start - 1].out_bytes / kind.link_bytes_per_s
            };
            let synced = |l: &lacuna_layers::RawLayer| {
                l.parallel_communication * 2.0 * l.weight_bytes / kind.link_bytes_per_s / raw.batch
            };
            let sent: f64 =
                layers.iter().map(synced).sum::<f64>() + first.parallel_communication * received;
            let communication = stage.communication_s + sent / less - sent / k;
            let too_slow = 1.0 / compute.max(communication) < placement.rate * (1.0 - 1e-9);
            let kept: f64 = layers.iter().map(|l| 4.0 * l.weight_bytes).sum();
            let table: f64 = layers.iter().map(|l| l.table_bytes).sum();
            let too_small = less * (kind.memory_bytes - kept) < table;
            assert!(too_slow || too_small, "seed {seed}: {stage:?}");
        }
    }
}

#[test]
fn the_placement_is_what_its_choice_gives_and_no_choice_is_cheaper() {
    for (seed, raw, mut draw) in profiles() {
        let Some(placement) = met(&raw) else {
            continue;
        };
        let profile = LayerProfile::new(raw.clone()).unwrap();
        let own = provision(&profile, &placement.choice()).unwrap().unwrap();
        assert!(
            (own.cost / placement.cost - 1.0).abs() < WITHIN,
            "seed {seed}"
        );
        for _ in 0..20 {
            let choice: Vec<usize> = raw
                .layers
                .iter()
                .map(|_| draw.below(raw.kinds.len()))
                .collect();
            if let Some(other) = provision(&profile, &choice).unwrap() {
                assert!(
                    other.cost >= placement.cost_at_least * (1.0 - 1e-9),
                    "seed {seed}"
                );
            }
        }
    }
}

#[test]
fn the_worth_of_one_more_is_what_a_higher_limit_saves() {
    let mut worthy = 0;
    for (seed, raw, _) in profiles() {
        let Some(placement) = met(&raw) else {
            continue;
        };
        let profile = LayerProfile::new(raw.clone()).unwrap();
        for worth in worth_of_one_more(&profile, &placement, &Options::default()).unwrap() {
            let mut more = raw.clone();
            let kind = &mut more.kinds[worth.kind];
            let Some(limit) = kind.limit else {
                assert_eq!(worth.saves, 0.0, "seed {seed}");
                continue;
            };
            kind.limit = Some(limit + 1);
            let saves = placement.cost - cost(&more);
            assert!(
                (saves - worth.saves).abs() <= placement.cost * WITHIN,
                "seed {seed}: {saves} {worth:?}"
            );
            worthy += usize::from(worth.saves > placement.cost * WITHIN);
        }
    }
    assert!(worthy > 10, "{worthy}");
}

/// Beyond three kinds limits are met by prices. The gap is stated, and holds.
#[test]
fn many_kinds_with_limits_state_their_gap() {
    let (mut proven, mut largest) = (0, 0.0_f64);
    for seed in 30_000..30_040 {
        let mut draw = Draw::new(seed);
        let mut raw = draw.profile(10, 6);
        raw.min_rate /= 20.0;
        if LayerProfile::new(raw.clone())
            .ok()
            .and_then(|p| fastest(&p).ok())
            .is_none()
        {
            continue;
        }
        draw.limits(&mut raw);
        let Some(placement) = met(&raw) else {
            continue;
        };
        for (kind, used) in raw.kinds.iter().zip(&placement.used) {
            assert!(kind.limit.is_none_or(|limit| *used <= limit), "seed {seed}");
        }
        largest = largest.max(placement.gap());
        proven += usize::from(placement.gap() <= 1.001e-4);
    }
    println!("proven {proven}, largest gap {largest}");
    assert!(proven > 5 && largest < 0.05, "{proven} {largest}");
}
