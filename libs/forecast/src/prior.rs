//! What is expected of a machine before anything is known of it.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::co_departure::STRATA;

/// The scale of lengths of an unknown machine, seconds.
const SCALE_S: f64 = 300.0;

/// The machines that are known: name, scale (s), shape, shares that end together. Each line is by
/// `lacuna-lab forecast prior LOG --name NAME`.
#[rustfmt::skip]
const MACHINES: [(&str, f64, f64, [f32; STRATA]); 7] = [
    ("p3-spot", 10000.0, 2.28, [0.50, 0.50, 0.50, 0.50, 0.05, 0.50, 0.50, 0.50, 0.50, 0.50, 0.50, 0.50, 0.05, 0.11, 0.50, 0.50]),
    ("mason", 300.0, 0.35, [0.50, 0.50, 0.50, 0.50, 0.07, 0.50, 0.50, 0.50, 0.50, 0.50, 0.50, 0.50, 0.45, 0.50, 0.50, 0.50]),
    ("spot-9-zones", 3000.0, 1.10, [0.06, 0.50, 0.50, 0.50, 0.50, 0.50, 0.50, 0.50, 0.14, 0.50, 0.50, 0.50, 0.50, 0.50, 0.50, 0.50]),
    ("surf", 30.0, 1.15, [0.50, 0.50, 0.50, 0.50, 0.20, 0.79, 0.50, 0.50, 0.50, 0.50, 0.50, 0.50, 0.62, 0.82, 0.82, 0.89]),
    ("prometheus", 100.0, 0.82, [0.50, 0.50, 0.50, 0.50, 0.20, 0.28, 0.50, 0.50, 0.50, 0.50, 0.50, 0.50, 0.67, 0.84, 0.75, 0.50]),
    ("summit", 1000.0, 1.75, [0.36, 0.59, 0.74, 0.84, 0.75, 0.88, 0.92, 0.97, 0.79, 0.88, 0.92, 0.95, 0.85, 0.94, 0.97, 0.98]),
    ("theta", 3000.0, 1.02, [0.50, 0.50, 0.50, 0.50, 0.53, 0.53, 0.71, 0.72, 0.50, 0.50, 0.50, 0.50, 0.97, 0.98, 0.99, 1.00]),
];

/// The scales that a machine is compared with, seconds. On the longest, holes of a day end at a
/// constant rate.
const SCALES_S: [f64; 9] = [
    30.0, 100.0, 300.0, 1000.0, 3000.0, 10_000.0, 30_000.0, 100_000.0, 300_000.0,
];

/// Half of the new holes are open after this time at least, in seconds. Many short holes say little
/// about the rest of one that has stayed, and a shape that follows them would stop all training.
const HALF_OPEN_S: f64 = 120.0;

/// What is known of the holes of a machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MachinePrior {
    /// Its name.
    pub name: Cow<'static, str>,
    /// The scale of the lengths of its holes, seconds, above zero.
    pub scale_s: f64,
    /// The shape of the lengths, above zero. The hazard at an age is `shape / (scale + age)`.
    pub shape: f64,
    /// The shares of neighbours that end together, by what they share, 0 to 1.
    pub together: [f32; STRATA],
}

/// The lengths of holes by the Lomax distribution (K. S. Lomax, "Business failures", J. Am. Stat.
/// Assoc. 49 (1954)): a hole of age `a` is open `t` seconds later with probability
/// `((s + a) / (s + a + t))^shape`. So a hole that has stayed long stays long, the more so the
/// smaller the scale `s` is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Law {
    pub(crate) name: Cow<'static, str>,
    /// The prior weight.
    pub(crate) weight: f64,
    pub(crate) scale_s: f64,
    /// The mean of the shape by the prior.
    pub(crate) shape: f64,
    /// The shares of neighbours that end together, by what they share.
    pub(crate) together: [f32; STRATA],
}

impl Law {
    fn unknown(scale_s: f64, weight: f64) -> Self {
        Self {
            name: "an unknown machine".into(),
            weight,
            scale_s,
            shape: 1.0,
            together: [0.5; STRATA],
        }
    }

    /// The hazard at an age over the shape, per second.
    pub(crate) fn rate(&self, age_s: f64) -> f64 {
        1.0 / (self.scale_s + age_s.max(0.0))
    }

    /// The hazard over the shape, summed over the ages between two, in seconds.
    pub(crate) fn exposure(&self, from_s: f64, until_s: f64) -> f64 {
        let [from_s, until_s] = [from_s, until_s].map(|age_s| age_s.max(0.0) + self.scale_s);
        (until_s / from_s).ln().max(0.0)
    }

    /// The largest shape of a forecast.
    pub(crate) fn most_shape(&self) -> f64 {
        std::f64::consts::LN_2 / self.exposure(0.0, HALF_OPEN_S)
    }
}

/// The laws of lengths that a machine may follow.
#[derive(Debug, Clone, PartialEq)]
pub struct Prior {
    laws: Vec<Law>,
}

impl Prior {
    /// No knowledge of any machine.
    #[must_use]
    pub fn cold() -> Self {
        Self::of(&[])
    }

    /// The machines whose traces are known: spot nodes of two kinds, four machines with a queue of
    /// batch jobs and a small university's.
    #[must_use]
    pub fn machines() -> Vec<MachinePrior> {
        let of = MACHINES.iter();
        of.map(|&(name, scale_s, shape, together)| MachinePrior {
            name: name.into(),
            scale_s,
            shape,
            together,
        })
        .collect()
    }

    /// An unknown machine or one of these. All of these together weigh as much as the unknown one.
    /// Machines with a scale or a shape that is no number above zero are left out.
    #[must_use]
    pub fn of(machines: &[MachinePrior]) -> Self {
        let is_sound = |machine: &&MachinePrior| {
            [machine.scale_s, machine.shape]
                .iter()
                .all(|number| number.is_finite() && *number > 0.0)
        };
        let known: Vec<&MachinePrior> = machines.iter().filter(is_sound).collect();
        let share = if known.is_empty() { 0.0 } else { 0.5 };
        let weight = share / known.len().max(1) as f64;
        let mut laws = vec![Law::unknown(SCALE_S, 1.0 - share)];
        laws.extend(known.into_iter().map(|machine| Law {
            name: machine.name.clone(),
            weight,
            scale_s: machine.scale_s,
            shape: machine.shape,
            together: machine.together.map(|share| {
                if share.is_finite() {
                    share.clamp(0.0, 1.0)
                } else {
                    0.5
                }
            }),
        }));
        Self { laws }
    }

    /// All scales alike, to find that of a machine.
    #[must_use]
    pub fn scales() -> Self {
        let weight = 1.0 / SCALES_S.len() as f64;
        let laws = SCALES_S.map(|scale_s| Law::unknown(scale_s, weight));
        Self { laws: laws.into() }
    }

    /// Whether nothing is known of any machine.
    #[must_use]
    pub fn is_cold(&self) -> bool {
        self.laws.len() == 1
    }

    pub(crate) fn laws(&self) -> &[Law] {
        &self.laws
    }
}

impl Default for Prior {
    /// Cold: what is known of other machines has brought nothing on one left out (`lacuna-lab
    /// compare machines`).
    fn default() -> Self {
        Self::cold()
    }
}
