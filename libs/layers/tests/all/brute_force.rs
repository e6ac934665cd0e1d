//! All choices of kinds and all rates, with formulas of its own.

use lacuna_layers::RawProfile;

/// A stage: P, S, q, s, least units by memory (infinite if none do), price, kind.
struct LayerStage {
    parallel: f64,
    serial: f64,
    sent_parallel: f64,
    sent_serial: f64,
    memory: f64,
    price: f64,
    kind: usize,
}

fn stages(raw: &RawProfile, choice: &[usize]) -> Vec<LayerStage> {
    let mut stages: Vec<LayerStage> = Vec::new();
    let mut start = 0;
    for end in 1..=choice.len() {
        if end < choice.len() && choice[end] == choice[start] {
            continue;
        }
        let kind = &raw.kinds[choice[start]];
        let layers = &raw.layers[start..end];
        let sum = |of: &dyn Fn(&lacuna_layers::RawLayer) -> f64| layers.iter().map(of).sum::<f64>();
        let o = |l: &lacuna_layers::RawLayer| l.seconds[&kind.name].unwrap_or(f64::INFINITY);
        let sync =
            |l: &lacuna_layers::RawLayer| 2.0 * l.weight_bytes / kind.link_bytes_per_s / raw.batch;
        let mut sent_parallel = sum(&|l| l.parallel_communication * sync(l));
        let mut sent_serial = sum(&|l| (1.0 - l.parallel_communication) * sync(l));
        if start > 0 {
            let sender = &raw.kinds[choice[start - 1]].name;
            let given = raw
                .bandwidth
                .get(sender)
                .and_then(|row| row.get(&kind.name));
            let received =
                2.0 * raw.layers[start - 1].out_bytes / given.unwrap_or(&kind.link_bytes_per_s);
            sent_parallel += layers[0].parallel_communication * received;
            sent_serial += (1.0 - layers[0].parallel_communication) * received;
        }
        let free = kind.memory_bytes - 4.0 * sum(&|l| l.weight_bytes);
        let table = sum(&|l| l.table_bytes);
        stages.push(LayerStage {
            parallel: sum(&|l| l.parallel_compute * o(l)),
            serial: sum(&|l| (1.0 - l.parallel_compute) * o(l)),
            sent_parallel,
            sent_serial,
            memory: if free < 0.0 {
                f64::INFINITY
            } else if table > 0.0 {
                (table / free).ceil()
            } else {
                1.0
            },
            price: kind.price_per_hour / 3600.0,
            kind: choice[start],
        });
        start = end;
    }
    stages
}

/// Units of each stage for a rate, within limits over all stages.
fn units(raw: &RawProfile, stages: &[LayerStage], rate: f64) -> Option<Vec<f64>> {
    let mut used = vec![0.0; raw.kinds.len()];
    let mut units = Vec::new();
    for stage in stages {
        let need = |parallel: f64, serial: f64| {
            let left = 1.0 / rate - serial;
            if left > 0.0 {
                (parallel / left * (1.0 - 1e-12)).ceil()
            } else {
                f64::INFINITY
            }
        };
        let k = need(stage.parallel, stage.serial)
            .max(need(stage.sent_parallel, stage.sent_serial))
            .max(stage.memory)
            .max(1.0);
        used[stage.kind] += k;
        units.push(k);
    }
    let fit = raw.kinds.iter().zip(&used);
    let mut fit = fit.map(|(kind, used)| *used <= f64::from(kind.limit.unwrap_or(1_000_000)));
    fit.all(|fits| fits).then_some(units)
}

fn rate(stages: &[LayerStage], units: &[f64]) -> f64 {
    let seconds = stages.iter().zip(units).map(|(stage, k)| {
        (stage.serial + stage.parallel / k).max(stage.sent_serial + stage.sent_parallel / k)
    });
    1.0 / seconds.fold(0.0, f64::max)
}

/// All choices of kinds.
pub(crate) fn choices(layers: usize, kinds: usize) -> impl Iterator<Item = Vec<usize>> {
    let count = kinds.pow(u32::try_from(layers).unwrap());
    (0..count).map(move |mut number| {
        let mut next = || {
            let kind = number % kinds;
            number /= kinds;
            kind
        };
        (0..layers).map(|_| next()).collect()
    })
}

/// The least cost of the whole work; infinite if no choice meets the rate.
pub(crate) fn least_cost(raw: &RawProfile) -> f64 {
    let mut best = f64::INFINITY;
    for choice in choices(raw.layers.len(), raw.kinds.len()) {
        let stages = stages(raw, &choice);
        let mut x = raw.min_rate;
        loop {
            let fractional = stages.iter().map(|stage| {
                let inside = stage.parallel / (1.0 - stage.serial * x);
                let sent = stage.sent_parallel / (1.0 - stage.sent_serial * x);
                stage.price * inside.max(sent)
            });
            if fractional.sum::<f64>() * raw.samples >= best {
                break;
            }
            let Some(units) = units(raw, &stages, x) else {
                break;
            };
            let reached = rate(&stages, &units);
            let spend: f64 = stages
                .iter()
                .zip(&units)
                .map(|(stage, k)| stage.price * k)
                .sum();
            best = best.min(raw.samples * spend / reached);
            x = reached * (1.0 + 1e-9);
        }
    }
    best
}

/// The highest rate of all choices within the limits; 0 if none fits.
pub(crate) fn highest_rate(raw: &RawProfile) -> f64 {
    let mut best = 0.0_f64;
    for choice in choices(raw.layers.len(), raw.kinds.len()) {
        let stages = stages(raw, &choice);
        let at = |x: f64| units(raw, &stages, x).map(|units| rate(&stages, &units));
        let (mut low, mut high) = (best.max(1e-3), 1e12_f64);
        if at(low).is_none() {
            continue;
        }
        while high > low * (1.0 + 1e-10) {
            let middle = (low * high).sqrt();
            match at(middle) {
                Some(reached) => low = middle.max(reached),
                None => high = middle,
            }
        }
        best = best.max(low);
    }
    best
}
