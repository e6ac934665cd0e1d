//! The cost model.
//!
//! Sets: layers `1..L` in their order, kinds `t`. Constants: seconds a sample `o_lt`, bytes a sample
//! to the next layer `x_l`, bytes of weights `w_l` and of tables `e_l`, shares `α_l`, `β_l`, samples
//! a batch `B`; price `p_t`, memory `m_t`, link `link_t`, limit `N_t`; bandwidth `bw_t't`.
//!
//! A *stage* is a longest run of layers on one kind. `k` units work on it in data parallel, stages
//! in a pipeline. For the stage of layers i..j on kind t, after a stage on kind t':
//!
//! ```text
//! compute        CT = S + P/k        P = Σ α_l o_lt            S = Σ (1 - α_l) o_lt
//! communication  DT = s + q/k        q = Σ β_l d_l             s = Σ (1 - β_l) d_l
//!                                    d_l = 2 w_l / (link_t B) + (l = i > 1) 2 x_{i-1} / bw_t't
//! rate           1 / max(CT, DT)
//! memory         k (m_t - 4 Σ w_l) >= Σ e_l
//! ```
//!
//! The factor 2 of `d_l` is for activations and their gradients, and for weights that are gathered
//! and sent. The rate X of a plan is the least of its stages, its spend `Σ p_t k` a second, and the
//! cost of M samples `M/X Σ p_t k`.
//!
//! For a rate x, with `y = 1/x`, a stage needs exactly
//!
//! ```text
//! k(x) = max(⌈P/(y - S)⌉, ⌈q/(y - s)⌉, ⌈Σ e_l/(m_t - 4 Σ w_l)⌉, 1)
//! ```
//!
//! and cannot have the rate if `y <= S`, `y <= s` or `k(x) > N_t`. Two facts carry the search:
//! `k(x)` does not fall in x, and neither does the fractional `max(P/(y - S), q/(y - s)) / x`, which
//! is `max(P/(1 - S x), q/(1 - s x))`.
//!
//! Source: re-derived in the spirit of HeterPS (arXiv 2111.10635, section 4); `P`, `S` are Amdahl's.

#![expect(
    clippy::indexing_slicing,
    reason = "hot path; layers, kinds and classes are places in tables made in this file"
)]

use crate::profile::{KEPT_PER_WEIGHT, LayerProfile, MOST_UNITS};

/// A rate is met if it is met within this relative error: a plan's own rate gives its units again.
pub(crate) const ROUNDING: f64 = 1e-12;

/// The sums of one layer, or of the layers of a stage, without what comes in.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Load {
    /// P, S: seconds a sample that units divide, and that they do not.
    pub(crate) parallel: f64,
    pub(crate) serial: f64,
    /// The same of communication, q and s.
    pub(crate) sent_parallel: f64,
    pub(crate) sent_serial: f64,
    /// Bytes that each unit keeps.
    pub(crate) kept: f64,
    /// Bytes that the units share.
    pub(crate) table: f64,
}

impl Load {
    pub(crate) fn add(&mut self, layer: &Self) {
        self.parallel += layer.parallel;
        self.serial += layer.serial;
        self.sent_parallel += layer.sent_parallel;
        self.sent_serial += layer.sent_serial;
        self.kept += layer.kept;
        self.table += layer.table;
    }

    /// With activations of the stage before, seconds a sample that units divide, and that they do
    /// not.
    pub(crate) fn with_incoming(mut self, incoming: (f64, f64)) -> Self {
        self.sent_parallel += incoming.0;
        self.sent_serial += incoming.1;
        self
    }

    /// CT and DT with k units, seconds a sample.
    pub(crate) fn seconds(&self, units: u32) -> (f64, f64) {
        let k = f64::from(units);
        (
            self.serial + self.parallel / k,
            self.sent_serial + self.sent_parallel / k,
        )
    }
}

/// A kind as the search sees it.
#[derive(Debug, Clone)]
pub(crate) struct KindTerms {
    pub(crate) price: f64,
    pub(crate) memory: f64,
    /// The most units.
    pub(crate) most: f64,
    /// By layer.
    loads: Vec<Load>,
    /// By layer: bytes that come in a sample, doubled, times β and 1 - β.
    received: Vec<(f64, f64)>,
    /// Kinds of sender with one bandwidth are a class; class 0 is the start of the network.
    classes: Vec<f64>,
    class_of: Vec<usize>,
}

impl KindTerms {
    pub(crate) fn load(&self, layer: usize) -> &Load {
        &self.loads[layer]
    }

    /// The classes from which a stage that begins at this layer can receive.
    pub(crate) fn classes_at(&self, layer: usize) -> std::ops::Range<usize> {
        if layer == 0 {
            0..1
        } else {
            1..self.classes.len()
        }
    }

    pub(crate) fn classes(&self) -> usize {
        self.classes.len()
    }

    /// The class of a sender.
    pub(crate) fn class_of(&self, sender: usize) -> usize {
        self.class_of[sender]
    }

    /// Seconds a sample of receiving, that units divide and that they do not.
    pub(crate) fn incoming(&self, layer: usize, class: usize) -> (f64, f64) {
        let (parallel, serial) = self.received[layer];
        let inverse = self.classes[class];
        (parallel * inverse, serial * inverse)
    }

    /// Units for computation and memory alone, as few as make both possible.
    pub(crate) fn units_inside(&self, load: &Load, y: f64) -> f64 {
        let fraction = share_out(load.parallel, load.serial, y);
        whole(fraction.max(self.units_of_memory(load))).max(1.0)
    }

    /// Fractional units so that memory suffices.
    pub(crate) fn units_of_memory(&self, load: &Load) -> f64 {
        let free = self.memory - load.kept;
        if free < 0.0 {
            f64::INFINITY
        } else if load.table > 0.0 {
            load.table / free
        } else {
            0.0
        }
    }
}

/// Fractional units that bring `serial + parallel / k` to y; infinite if none do.
pub(crate) fn share_out(parallel: f64, serial: f64, y: f64) -> f64 {
    let left = y - serial;
    if left > 0.0 {
        parallel / left
    } else if parallel == 0.0 && serial <= y * (1.0 + ROUNDING) {
        0.0
    } else {
        f64::INFINITY
    }
}

/// The next whole number.
pub(crate) fn whole(units: f64) -> f64 {
    let units = units * (1.0 - ROUNDING);
    // Rounding towards zero is one instruction, while `ceil` is a call.
    if units < 1e15 {
        let below = units as i64 as f64;
        if below < units { below + 1.0 } else { below }
    } else {
        units
    }
}

/// Whether this takes more than the most whole units.
pub(crate) fn over(units: f64, most: f64) -> bool {
    units * (1.0 - ROUNDING) > most
}

/// A stage with its units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) from: usize,
    pub(crate) until: usize,
    pub(crate) kind: usize,
    pub(crate) units: u32,
}

/// Stages with units.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    /// Samples/s.
    pub(crate) rate: f64,
    /// A second.
    pub(crate) spend: f64,
}

impl Plan {
    /// Units of each kind.
    pub(crate) fn used(&self, kinds: usize) -> Vec<u32> {
        let mut used = vec![0_u32; kinds];
        for step in &self.steps {
            used[step.kind] = used[step.kind].saturating_add(step.units);
        }
        used
    }
}

/// A profile as the search sees it.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    layers: usize,
    kinds: Vec<KindTerms>,
}

impl Terms {
    pub(crate) fn new(profile: &LayerProfile) -> Self {
        let kinds = (0..profile.kinds().len()).map(|t| kind_terms(profile, t));
        Self {
            layers: profile.layers().len(),
            kinds: kinds.collect(),
        }
    }

    pub(crate) fn layers(&self) -> usize {
        self.layers
    }

    pub(crate) fn kinds(&self) -> &[KindTerms] {
        &self.kinds
    }

    pub(crate) fn kind(&self, kind: usize) -> &KindTerms {
        &self.kinds[kind]
    }

    pub(crate) fn prices(&self) -> Vec<f64> {
        self.kinds.iter().map(|kind| kind.price).collect()
    }

    /// The same network at other prices.
    pub(crate) fn priced(&self, price: impl Fn(&KindTerms) -> f64) -> Self {
        let mut terms = self.clone();
        for kind in &mut terms.kinds {
            kind.price = price(kind);
        }
        terms
    }

    /// The load of a stage that follows one on `before`.
    pub(crate) fn stage(
        &self,
        from: usize,
        until: usize,
        kind: usize,
        before: Option<usize>,
    ) -> Load {
        let terms = &self.kinds[kind];
        let mut load = Load::default();
        for layer in from..until {
            load.add(terms.load(layer));
        }
        let class = before.map_or(0, |before| terms.class_of(before));
        load.with_incoming(terms.incoming(from, class))
    }

    /// The units of a stage at a rate, y = 1/x; nothing if it cannot have the rate.
    pub(crate) fn units(&self, load: &Load, kind: usize, y: f64) -> Option<u32> {
        let terms = &self.kinds[kind];
        let sent = whole(share_out(load.sent_parallel, load.sent_serial, y));
        let units = terms.units_inside(load, y).max(sent);
        (units <= terms.most).then_some(units as u32)
    }

    /// The rate and spend of stages with units.
    pub(crate) fn plan(&self, steps: Vec<Step>) -> Plan {
        let (mut slowest, mut spend) = (0.0_f64, 0.0);
        let mut before = None;
        for step in &steps {
            let load = self.stage(step.from, step.until, step.kind, before);
            let (compute, sent) = load.seconds(step.units);
            slowest = slowest.max(compute).max(sent);
            spend += self.kinds[step.kind].price * f64::from(step.units);
            before = Some(step.kind);
        }
        Plan {
            steps,
            rate: 1.0 / slowest,
            spend,
        }
    }

    /// Whether the units over all stages keep the limits.
    pub(crate) fn within_limits(&self, plan: &Plan) -> bool {
        let used = plan.used(self.kinds.len());
        let mut kinds = self.kinds.iter().zip(used);
        kinds.all(|(kind, used)| f64::from(used) <= kind.most)
    }
}

fn kind_terms(profile: &LayerProfile, t: usize) -> KindTerms {
    let kind = &profile.kinds()[t];
    let load = |layer: &crate::profile::Layer| {
        let sent = 2.0 * layer.weight_bytes / (kind.link_bytes_per_s * profile.batch());
        let (parallel, serial) = match layer.seconds[t] {
            Some(o) => (layer.alpha * o, (1.0 - layer.alpha) * o),
            None => (f64::INFINITY, f64::INFINITY),
        };
        Load {
            parallel,
            serial,
            sent_parallel: layer.beta * sent,
            sent_serial: (1.0 - layer.beta) * sent,
            kept: KEPT_PER_WEIGHT * layer.weight_bytes,
            table: layer.table_bytes,
        }
    };
    let layers = profile.layers();
    let mut received = vec![(0.0, 0.0)];
    received.extend(layers.windows(2).map(|two| {
        let bytes = 2.0 * two[0].out_bytes;
        (two[1].beta * bytes, (1.0 - two[1].beta) * bytes)
    }));
    let mut classes = vec![0.0];
    let mut class_of = vec![0; profile.kinds().len()];
    for (sender, row) in profile.bandwidth().iter().enumerate() {
        if sender == t {
            continue;
        }
        let inverse = 1.0 / row[t];
        let known = classes.iter().skip(1).position(|&known| known == inverse);
        class_of[sender] = known.map_or(classes.len(), |place| place + 1);
        if known.is_none() {
            classes.push(inverse);
        }
    }
    KindTerms {
        price: kind.price_per_s,
        memory: kind.memory_bytes,
        most: f64::from(kind.limit.unwrap_or(MOST_UNITS)),
        loads: layers.iter().map(load).collect(),
        received,
        classes,
        class_of,
    }
}
