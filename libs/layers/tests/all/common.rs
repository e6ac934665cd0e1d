//! Random profiles.

use std::collections::BTreeMap;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use lacuna_layers::{
    Answer, LayerProfile, Options, Placement, RawKind, RawLayer, RawProfile, place,
};

/// A name of a kind or layer.
pub(crate) fn name(place: usize) -> String {
    format!("n{place}")
}

/// Draws of profiles.
pub(crate) struct Draw(ChaCha8Rng);

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0.random_range(0..n)
    }

    /// Between two values, even in their logarithm.
    pub(crate) fn log(&mut self, low: f64, high: f64) -> f64 {
        (self.0.random_range(low.ln()..high.ln())).exp()
    }

    pub(crate) fn chance(&mut self, share: f64) -> bool {
        self.0.random_bool(share)
    }

    /// A network whose layers differ in what they take on each kind; memory and communication bind
    /// now and then.
    pub(crate) fn profile(&mut self, layers: usize, kinds: usize) -> RawProfile {
        let kind = |t, draw: &mut Self| RawKind {
            name: name(t),
            price_per_hour: draw.log(0.02, 3.0),
            memory_bytes: draw.log(2e9, 4e10),
            link_bytes_per_s: draw.log(5e7, 2e9),
            limit: None,
        };
        let all: Vec<RawKind> = (0..kinds).map(|t| kind(t, self)).collect();
        let layer = |l, draw: &mut Self| RawLayer {
            name: name(l),
            seconds: (0..kinds)
                .map(|t| (name(t), Some(draw.log(2e-7, 1e-4))))
                .collect(),
            out_bytes: draw.log(10.0, 3e4),
            weight_bytes: draw.log(1e4, 1e8),
            table_bytes: if draw.chance(0.3) {
                draw.log(1e8, 1e11)
            } else {
                0.0
            },
            parallel_compute: 1.0 - draw.log(1e-5, 1e-3),
            parallel_communication: 1.0 - draw.log(1e-3, 1e-1),
        };
        RawProfile {
            name: "random".to_owned(),
            batch: 4096.0,
            samples: 1e9,
            min_rate: self.log(1e3, 1e6),
            layers: (0..layers).map(|l| layer(l, self)).collect(),
            kinds: all,
            bandwidth: BTreeMap::new(),
        }
    }

    /// Limits about what the plan without limits uses, so that they bind within and over stages.
    pub(crate) fn limits(&mut self, raw: &mut RawProfile) {
        let profile = LayerProfile::new(raw.clone()).unwrap();
        let placement = any(&profile);
        for (kind, used) in raw.kinds.iter_mut().zip(placement.used) {
            if self.chance(0.8) {
                let about = f64::from(used.max(1)) * self.log(0.2, 1.1);
                kind.limit = Some(about.ceil().min(1e6) as u32);
            }
        }
    }

    /// Bandwidth by sender and receiver.
    pub(crate) fn bandwidth(&mut self, raw: &mut RawProfile) {
        for from in 0..raw.kinds.len() {
            for to in 0..raw.kinds.len() {
                if from != to && self.chance(0.7) {
                    let row = raw.bandwidth.entry(name(from)).or_default();
                    row.insert(name(to), self.log(5e7, 2e9));
                }
            }
        }
    }
}

/// The placement, or the nearest.
pub(crate) fn any(profile: &LayerProfile) -> Placement {
    match place(profile, &Options::default()).unwrap() {
        Answer::Met(placement) => placement,
        Answer::Short { nearest, .. } => nearest,
    }
}
