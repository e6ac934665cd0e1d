//! Networks after the families of HeterPS (arXiv 2111.10635), and kinds of node.
//!
//! The paper's profiles and prices are not public. Names and structure follow the paper, sizes,
//! speeds and prices are ours: a group of CPU cores with 30 GFLOP/s and 8 GB for .04 $/h, a V100 with
//! 7 TFLOP/s and 32 GB for 2.42 $/h. Further kinds are variants of the two, faster or slower, with
//! prices that grow as the power .9 to 1.3 of the speed.

use std::collections::BTreeMap;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use lacuna_layers::{Error, LayerProfile, RawKind, RawLayer, RawProfile};

/// The kind of the CPU alone and of the GPU alone.
pub(super) const CPU: usize = 0;
pub(super) const GPU: usize = 1;

/// A network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Family {
    /// Name and layers.
    pub(super) label: &'static str,
    pub(super) layers: usize,
    /// Samples/s that are asked for.
    min_rate: u32,
}

/// All networks.
pub(super) const FAMILIES: [Family; 6] = [
    Family::new("2EMB-10", 10, 500_000),
    Family::new("CTRDNN-8", 8, 500_000),
    Family::new("CTRDNN-16", 16, 500_000),
    Family::new("CTRDNN-20", 20, 500_000),
    Family::new("MATCHNET-16", 16, 200_000),
    Family::new("NCE-5", 5, 1_000_000),
];

/// What a layer does with a sample.
#[derive(Debug, Clone, Copy)]
enum Work {
    /// Looks up `bytes` in a table of `table` bytes, and pools them to `out` floats.
    Lookup { bytes: f64, out: f64, table: f64 },
    /// Multiplies by a matrix.
    Dense { from: f64, to: f64 },
    /// Joins or samples: little computation on `floats`.
    Light { floats: f64 },
}

use Work::{Dense, Light, Lookup};

const fn lookup(bytes: f64, out: f64, table: f64) -> Work {
    Lookup { bytes, out, table }
}

/// Dense layers between these widths.
fn dense(widths: &[f64]) -> Vec<Work> {
    let pairs = widths.iter().zip(widths.iter().skip(1));
    pairs.map(|(&from, &to)| Dense { from, to }).collect()
}

impl Family {
    const fn new(label: &'static str, layers: usize, min_rate: u32) -> Self {
        Self {
            label,
            layers,
            min_rate,
        }
    }

    fn works(&self) -> Vec<Work> {
        match self.label.split('-').next().unwrap_or_default() {
            "2EMB" => [
                vec![lookup(3e4, 800.0, 1.6e11), lookup(1e4, 1200.0, 8e10)],
                dense(&[1200.0, 2048.0, 2048.0, 1024.0, 1024.0, 512.0, 128.0]),
                vec![Light { floats: 128.0 }],
                dense(&[128.0, 1.0]),
            ]
            .concat(),
            "MATCHNET" => [
                vec![lookup(4e4, 400.0, 7.5e11)],
                dense(&[400.0, 2048.0, 2048.0, 1024.0, 1024.0, 512.0, 256.0, 128.0]),
                vec![lookup(1e4, 528.0, 1.2e11)],
                dense(&[528.0, 1024.0, 1024.0, 512.0, 256.0, 128.0]),
                vec![Light { floats: 256.0 }],
                dense(&[128.0, 1.0]),
            ]
            .concat(),
            "NCE" => [
                vec![lookup(1e4, 64.0, 4e10)],
                dense(&[64.0, 512.0, 64.0]),
                vec![lookup(1.7e4, 4096.0, 1e10), Light { floats: 4096.0 }],
            ]
            .concat(),
            _ => {
                // Five wide layers, the rest narrow.
                let inner = self.layers.saturating_sub(2);
                let width = |n| if n < 5 { 1792.0 } else { 640.0 };
                let inner = (0..inner).map(width);
                let widths: Vec<f64> = [400.0].into_iter().chain(inner).chain([1.0]).collect();
                [vec![lookup(1.6e4, 400.0, 8e10)], dense(&widths)].concat()
            }
        }
    }

    /// The profile with this number of kinds; the seed is that of the further kinds.
    ///
    /// # Errors
    /// The library refuses the profile.
    pub(super) fn profile(&self, kinds: usize, seed: u64) -> Result<LayerProfile, Error> {
        let speeds = Speeds::of(kinds, seed);
        let layer = |(place, work): (usize, &Work)| {
            let of = |speed: &Speeds| (speed.kind.name.clone(), Some(speed.seconds(*work)));
            let (out, weights, table) = match *work {
                Lookup { out, table, .. } => (4.0 * out, 0.0, table),
                Dense { from, to } => (4.0 * to, 4.0 * from * to, 0.0),
                Light { floats } => (4.0 * floats.min(128.0), 0.0, 0.0),
            };
            RawLayer {
                name: format!("{place}"),
                seconds: speeds.iter().map(of).collect(),
                out_bytes: out,
                weight_bytes: weights,
                table_bytes: table,
                parallel_compute: 0.9998,
                parallel_communication: 0.99,
            }
        };
        LayerProfile::new(RawProfile {
            name: self.label.to_owned(),
            batch: 4096.0,
            samples: 1e9,
            min_rate: f64::from(self.min_rate),
            layers: self.works().iter().enumerate().map(layer).collect(),
            kinds: speeds.into_iter().map(|speed| speed.kind).collect(),
            bandwidth: BTreeMap::new(),
        })
    }
}

/// A kind with what it does in a second.
struct Speeds {
    kind: RawKind,
    flops: f64,
    /// Bytes of vectors looked up and updated at random places.
    gathered: f64,
}

impl Speeds {
    fn of(kinds: usize, seed: u64) -> Vec<Self> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let cpu = |random: Option<&mut ChaCha8Rng>, name: String| {
            Self::variant(name, [0.04, 3e10, 2e9, 8e9, 3e8], random)
        };
        // Behind a GPU few cores look up, and what they find crosses a bus.
        let gpu = |random: Option<&mut ChaCha8Rng>, name: String| {
            Self::variant(name, [2.42, 7e12, 1.2e10, 3.2e10, 3e9], random)
        };
        let mut all = vec![cpu(None, "cpu".to_owned()), gpu(None, "v100".to_owned())];
        for n in 2..kinds {
            let make = random.random_bool(0.5);
            all.push(if make {
                cpu(Some(&mut random), format!("cpu{n}"))
            } else {
                gpu(Some(&mut random), format!("gpu{n}"))
            });
        }
        all.truncate(kinds);
        all
    }

    /// Price, FLOP/s, bytes gathered/s, memory, link, of which a variant differs.
    fn variant(name: String, base: [f64; 5], random: Option<&mut ChaCha8Rng>) -> Self {
        let [mut price, mut flops, mut gathered, mut memory, mut link] = base;
        if let Some(random) = random {
            let mut between = |low: f64, high: f64| random.random_range(low.ln()..high.ln()).exp();
            let (speed, lookup) = (between(0.3, 3.0), between(0.3, 3.0));
            price *= (speed * lookup).sqrt().powf(between(0.9, 1.3));
            flops *= speed;
            gathered *= lookup;
            memory *= between(0.5, 2.0);
            link *= between(0.5, 2.0);
        }
        Self {
            kind: RawKind {
                name,
                price_per_hour: price,
                memory_bytes: memory,
                link_bytes_per_s: link,
                limit: None,
            },
            flops,
            gathered,
        }
    }

    /// Seconds a sample, forward and backward.
    fn seconds(&self, work: Work) -> f64 {
        match work {
            // Read, and read and written again with the optimizer's state.
            Lookup { bytes, .. } => 3.0 * bytes / self.gathered,
            Dense { from, to } => 6.0 * from * to / self.flops,
            Light { floats } => 8.0 * floats / self.gathered + 12.0 * floats / self.flops,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_have_their_layers_and_further_kinds_keep_the_first_two() {
        for family in FAMILIES {
            let two = family.profile(2, 7).unwrap();
            assert_eq!(two.layers().len(), family.layers, "{}", family.label);
            let many = family.profile(64, 7).unwrap();
            assert_eq!(many.kinds().len(), 64);
            assert_eq!(&many.kinds()[..2], two.kinds());
        }
    }
}
