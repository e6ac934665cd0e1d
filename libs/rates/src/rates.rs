//! The rates of one trainer.

use std::borrow::Cow;
use std::collections::BTreeMap;

use lacuna_model::{
    Basis, Distance, InForce, KindName, Launch, Measured, NodeId, NodeKinds, RescaleCost,
    ScalingCurve, Tier, Timestamp, Topology, TrainerRecord, TrainerSpec, among,
};

use crate::{Mix, Shape};

/// How fast a trainer runs, and what its changes cost. The crate's page has the precedence.
#[derive(Debug, Clone)]
pub struct Rates<'a> {
    spec: &'a TrainerSpec,
    record: Option<&'a TrainerRecord>,
    /// What was measured of all nodes alike, or of the kind whose curve stands for the trainer.
    measured: Option<&'a Measured>,
    curve: Cow<'a, ScalingCurve>,
    /// How much faster it is than submitted, on all nodes alike: a loader, by what it brings.
    scale: f64,
}

/// The kind whose curve stands for a trainer where kinds are not told apart; nothing for a trainer to
/// which all nodes are alike.
fn stands_for(spec: &TrainerSpec) -> Option<&KindName> {
    let is_it = |kind: &&KindName| spec.kinds.curve(kind) == Some(&spec.throughput);
    spec.kinds.names().find(is_it)
}

/// The trainer where all nodes are of one kind that it can use: its curve, and what was measured, are
/// those of this kind.
#[must_use]
pub fn on_kind(record: &TrainerRecord, kind: &KindName) -> TrainerRecord {
    let mut record = record.clone();
    if !record.spec.kinds.is_any() {
        let rates = Rates::of(&record);
        let learning = rates
            .learning()
            .zip(rates.curve_of(Some(kind)))
            .map(|(of, there)| {
                let share = |nodes: u32| there.at(nodes) / rates.curve().at(nodes);
                let points = of.points().iter();
                points
                    .map(|p| p.rate * share(p.nodes))
                    .collect::<Vec<f64>>()
            });
        if let (Some(goodput), Some(there)) = (&mut record.goodput, learning) {
            goodput.kind = None;
            let sizes = goodput.sizes.iter_mut().zip(there);
            sizes.for_each(|(size, rate)| size.rate = rate);
        }
        record.spec = record.spec.on_kind(kind);
        if let Some(all) = record.measured.as_deref_mut() {
            let of = std::mem::take(&mut all.kinds)
                .remove(kind)
                .unwrap_or_default();
            (all.rates, all.apart, all.replay) = (of.rates, of.apart, of.replay);
            (all.in_force.curve, all.in_force.distance) = (of.in_force.curve, of.in_force.distance);
        }
    }
    record
}

/// A rate on a node set.
#[derive(Debug, Clone, PartialEq)]
pub struct Rate {
    /// Samples/s; 0 where the trainer cannot run.
    pub value: f64,
    /// What it rests on.
    pub basis: Basis,
    /// By what share it may be off: the standard error of measurements, the error of a replay where
    /// it was checked. Nothing where nothing bounds it.
    pub doubt: Option<f64>,
}

impl<'a> From<&'a TrainerSpec> for Rates<'a> {
    /// As submitted.
    fn from(spec: &'a TrainerSpec) -> Self {
        Self {
            spec,
            record: None,
            measured: None,
            curve: Cow::Borrowed(&spec.throughput),
            scale: 1.0,
        }
    }
}

impl<'a> From<&'a TrainerRecord> for Rates<'a> {
    fn from(record: &'a TrainerRecord) -> Self {
        Self::of(record)
    }
}

impl<'a> Rates<'a> {
    /// The rates of a trainer by all that is known.
    #[must_use]
    pub fn of(record: &'a TrainerRecord) -> Self {
        let submitted = Self {
            record: Some(record),
            ..Self::from(&record.spec)
        };
        let Some(known) = record.in_force() else {
            return submitted;
        };
        let brings = known.gain.map(|gain| gain / submitted.curve.at(1));
        if let Some(scale) = brings.filter(|scale| scale.is_finite() && *scale > 0.0) {
            let curve = submitted.curve.scaled(scale);
            return Self {
                curve: Cow::Owned(curve),
                scale,
                ..submitted
            };
        }
        let all = record.measured.as_deref();
        let measured = all.and_then(|all| all.of(stands_for(&record.spec)));
        let curve = measured.and_then(|of| of.in_force.curve.as_ref());
        Self {
            measured,
            curve: Cow::Borrowed(curve.unwrap_or(&record.spec.throughput)),
            ..submitted
        }
    }

    /// The curve on near nodes of a kind alone, if it runs there.
    #[must_use]
    pub fn curve_of(&self, kind: Option<&KindName>) -> Option<&ScalingCurve> {
        let Some(kind) = kind else {
            return Some(self.curve());
        };
        let measured = self.record.and_then(|record| record.measured.as_deref());
        let of = measured.and_then(|all| all.kinds.get(kind));
        let curve = of.and_then(|of| of.in_force.curve.as_ref());
        curve.or_else(|| self.spec.kinds.curve(kind))
    }

    /// What its owner submitted.
    #[must_use]
    pub const fn spec(&self) -> &'a TrainerSpec {
        self.spec
    }

    fn known(&self) -> Option<&'a InForce> {
        self.record?.in_force()
    }

    /// Samples/s by count of near nodes; of a trainer with kinds, of the kind that stands for them.
    #[must_use]
    pub fn curve(&self) -> &ScalingCurve {
        &self.curve
    }

    /// The curve of its own objective, if it has one. The speed-up of the submitted curve is that of
    /// the curve in force.
    #[must_use]
    pub fn objective(&self) -> Option<Cow<'a, ScalingCurve>> {
        let own = self.spec.objective.as_ref()?;
        let is_other = *self.curve != self.spec.throughput;
        Some(if is_other && *own == self.spec.throughput.speedup() {
            Cow::Owned(self.curve.speedup())
        } else {
            Cow::Borrowed(own)
        })
    }

    /// What distance costs.
    #[must_use]
    pub fn distance(&self) -> &'a Distance {
        let known = self.measured.and_then(|of| of.in_force.distance.as_ref());
        known.unwrap_or(&self.spec.distance)
    }

    /// How much it learns a second by count of near nodes, if its program says enough for that. On
    /// another kind than that on which its steps were timed it is as much faster as its rate.
    #[must_use]
    pub fn learning(&self) -> Option<ScalingCurve> {
        let found = self.record?.goodput.as_deref()?;
        let curve = found.curve()?;
        let of = self
            .curve_of(found.kind.as_ref())
            .filter(|_| found.kind.is_some());
        let Some(of) = of else {
            return Some(curve);
        };
        let points = curve.points().iter();
        let there = points.map(|p| (p.nodes, p.rate * self.curve.at(p.nodes) / of.at(p.nodes)));
        ScalingCurve::new(there).ok()
    }

    /// Samples/s on a mix of near nodes of these kinds; nothing where it cannot run. A trainer without
    /// kinds has its curve on each kind, one kind at a time.
    #[must_use]
    pub fn on_mix(&self, names: &[KindName], mix: Mix) -> Option<f64> {
        let (kinds, min, max) = (&self.spec.kinds, self.spec.min_nodes, self.spec.max_nodes);
        let all = mix.iter().copied().fold(0, u32::saturating_add);
        let mut used = names.iter().zip(mix).filter(|(_, nodes)| *nodes > 0);
        let (first, second) = (used.next()?, used.next());
        if !(min..=max).contains(&all) {
            None
        } else if kinds.is_any() {
            second.is_none().then(|| self.curve.at(all))
        } else {
            self.together(first, second)
        }
    }

    /// Samples/s on near nodes of one or two kinds. What is in force of each kind alone changes what
    /// was submitted of both together.
    fn together(&self, first: (&KindName, u32), second: Option<(&KindName, u32)>) -> Option<f64> {
        let rate = self
            .spec
            .kinds
            .rate(first, second.unwrap_or((first.0, 0)))?;
        let is_measured = |all: &Measured| !all.kinds.is_empty();
        let all = self.record.and_then(|record| record.measured.as_deref());
        if !all.is_some_and(is_measured) {
            return Some(rate * self.scale);
        }
        let alone = [Some(first), second].into_iter().flatten();
        let sums = alone.fold((0.0, 0.0), |(known, submitted), (kind, nodes)| {
            let of = |curve: Option<&ScalingCurve>| curve.map_or(0.0, |curve| curve.at(nodes));
            let now = of(self.curve_of(Some(kind)));
            (known + now, submitted + of(self.spec.kinds.curve(kind)))
        });
        Some(match (second, sums) {
            (None, (known, _)) => known,
            (Some(_), (known, submitted)) if submitted > 0.0 => rate * known / submitted,
            _ => rate,
        })
    }

    /// Samples/s on near nodes by their kinds, 0 where it cannot train on them. Nothing where kinds are
    /// not known, or where it does not tell them apart.
    #[must_use]
    pub fn by_kind<'n>(
        &self,
        nodes: impl IntoIterator<Item = &'n NodeId>,
        kinds: &NodeKinds,
    ) -> Option<f64> {
        if self.spec.kinds.is_any() || kinds.is_empty() {
            return None;
        }
        let mut counts: BTreeMap<&KindName, u32> = BTreeMap::new();
        for node in nodes {
            let Some(kind) = kinds.of(node) else {
                return Some(0.0);
            };
            *counts.entry(kind).or_default() += 1;
        }
        let mut counts = counts.into_iter();
        let rate = match (counts.next(), counts.next(), counts.next()) {
            (Some(first), second, None) => self.together(first, second),
            _ => None,
        };
        Some(rate.unwrap_or(0.0))
    }

    /// The rate on a shape. `names` are the kinds of its mix, or none where all nodes are alike.
    #[must_use]
    pub fn at(&self, shape: &Shape, names: &[KindName]) -> Rate {
        let nodes = shape.nodes();
        let near = if names.is_empty() {
            self.near(nodes)
        } else {
            self.on_mix(names, shape.mix).unwrap_or(0.0)
        };
        let tier = Tier(u8::try_from(shape.tier).unwrap_or(u8::MAX));
        let value = near * self.left(nodes, tier, shape.crowd);
        let mut used = names.iter().zip(shape.mix).filter(|(_, nodes)| *nodes > 0);
        let basis = match (self.spec.kinds.is_any(), used.next(), used.next()) {
            (true, ..) | (_, None, _) => self.basis(nodes, tier),
            (false, Some((kind, _)), None) => self.basis_of(Some(kind), nodes, tier),
            (false, Some(_), Some(_)) => Basis::Submitted,
        };
        let doubt = self.doubt(&basis);
        Rate {
            value,
            basis,
            doubt,
        }
    }

    /// Samples/s on these nodes of a cluster, whose uplinks are crowded.
    #[must_use]
    pub fn on_nodes(
        &self,
        nodes: &[NodeId],
        kinds: &NodeKinds,
        topology: &Topology,
        crowd: f64,
    ) -> f64 {
        let count = nodes.len() as u32;
        let near = self.by_kind(nodes, kinds);
        let near = near.unwrap_or_else(|| self.curve.at(count));
        near * self.left(count, topology.tier(nodes), crowd)
    }

    /// The part of its rate that is left at a tier.
    fn left(&self, nodes: u32, tier: Tier, crowd: f64) -> f64 {
        among(self.distance().share(&self.curve, nodes, tier), crowd)
    }

    /// Samples/s on near nodes; 0 below the minimum.
    #[must_use]
    pub fn near(&self, nodes: u32) -> f64 {
        if nodes >= self.spec.min_nodes {
            self.curve.at(nodes)
        } else {
            0.0
        }
    }

    /// Samples/s on its present nodes.
    #[must_use]
    pub fn present(&self) -> f64 {
        let of = |record: &TrainerRecord| {
            let rate = record.mix_rate;
            rate.unwrap_or_else(|| self.curve.at(record.nodes.len() as u32))
        };
        self.record.map_or(0.0, of)
    }

    /// What the rate on `nodes` nodes at a tier rests on; of a trainer with kinds, that of the kind
    /// which stands for them.
    #[must_use]
    pub fn basis(&self, nodes: u32, tier: Tier) -> Basis {
        self.basis_of(stands_for(self.spec), nodes, tier)
    }

    /// The same on nodes of a kind.
    #[must_use]
    pub fn basis_of(&self, kind: Option<&KindName>, nodes: u32, tier: Tier) -> Basis {
        if self.known().is_some_and(|known| known.gain.is_some()) {
            return Basis::Brings;
        }
        if !self.spec.is_profiled() {
            return Basis::Submitted;
        }
        let measured = self.record.and_then(|record| record.measured.as_deref());
        let Some(measured) = measured.and_then(|all| all.of(kind)) else {
            return Basis::Assumed;
        };
        match measured.rate(nodes, tier) {
            Some(there) => Basis::Measured(there.clone()),
            None => measured.basis(nodes),
        }
    }

    fn doubt(&self, basis: &Basis) -> Option<f64> {
        let of = |rate: &lacuna_model::MeasuredRate| {
            rate.spread / f64::from(rate.count).sqrt() / rate.rate
        };
        match basis {
            Basis::Measured(rate) => Some(of(rate)),
            Basis::Between { below, above } => {
                let rates = self.measured?.at_all_tiers().map(|(_, rate)| rate);
                let ends = rates.filter(|rate| rate.nodes == *below || rate.nodes == *above);
                ends.map(of).max_by(f64::total_cmp)
            }
            Basis::Replayed { error, .. } => Some(*error),
            Basis::Limited { .. }
            | Basis::Beyond { .. }
            | Basis::Assumed
            | Basis::Submitted
            | Basis::Brings => None,
        }
    }

    /// Stall of a start from no nodes, seconds at the rate after it: as measured, unless the owner
    /// states both a curve and the cost of a start.
    #[must_use]
    pub fn start_s(&self) -> f64 {
        let learns = self.spec.is_profiled() || self.spec.rescale.start_s.is_none();
        let measured = self.record.and_then(|record| record.measured.as_deref());
        let start = measured.and_then(|measured| measured.start.as_ref());
        start
            .filter(|_| learns)
            .map_or_else(|| self.submitted_start_s(), |start| start.pause.mean_s)
    }

    /// The same without measurements of starts. A program without a value starts as it grows.
    fn submitted_start_s(&self) -> f64 {
        let grows = || match self.spec.launch {
            Launch::Simulated => 0.0,
            Launch::Command(_) => self.changes().up_s,
        };
        self.spec.rescale.start_s.unwrap_or_else(grows)
    }

    /// Costs of growing and shrinking. A program that every change starts again pays a start, where
    /// its curve and costs are measured and its changes have not shown another cost yet.
    #[must_use]
    pub fn rescale(&self) -> RescaleCost {
        let mut cost = self.changes();
        let restarts = self.spec.is_profiled() && !self.spec.launch.regroups();
        let measured = self.record.and_then(|record| record.measured.as_deref());
        let Some(measured) = measured.filter(|_| restarts) else {
            return cost;
        };
        let Some(start) = &measured.start else {
            return cost;
        };
        if measured.up.is_none() {
            cost.up_s = start.pause.mean_s;
        }
        if measured.down.is_none() {
            cost.down_s = start.pause.mean_s;
        }
        cost
    }

    /// Costs of growing and shrinking, whatever starts cost.
    fn changes(&self) -> RescaleCost {
        let mut cost = self.spec.rescale;
        if let Some(known) = self.known() {
            cost.up_s = known.up_s.unwrap_or(cost.up_s);
            cost.down_s = known.down_s.unwrap_or(cost.down_s);
        }
        cost
    }

    /// Whether a departure has hit it and its stall is not over at `now`. Then it restarts anyway.
    #[must_use]
    pub fn is_hit(&self, now: Timestamp) -> bool {
        let hit_at = self.record.and_then(|record| record.hit_at);
        hit_at.is_some_and(|at| {
            let ago_s = now.since(at).as_secs_f64();
            ago_s < self.changes().down_s.max(f64::MIN_POSITIVE)
        })
    }

    /// The service of a number of samples, in seconds of one node for weight 1: samples over the rate
    /// on one node and over the weight.
    #[must_use]
    pub fn service_s(&self, samples: f64) -> f64 {
        let unit = self.curve.at(1) * self.spec.effective_weight();
        if unit > 0.0 { samples / unit } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use lacuna_model::{
        CurvePoint, Elastic, Goodput, GoodputAt, Judged, KindRates, Loading, MeasuredPause,
        MeasuredRate, MeasuredStart, Program, RunId, StepModel, TrainerId,
    };

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_unix(second)
    }

    fn measured(nodes: u32, rate: f64, spread: f64) -> MeasuredRate {
        MeasuredRate {
            nodes,
            rate,
            spread,
            count: 4,
            at: at(100),
            from: None,
        }
    }

    fn pause(mean_s: f64) -> MeasuredPause {
        MeasuredPause {
            mean_s,
            spread_s: 0.0,
            count: 2,
            at: at(100),
        }
    }

    fn record(profile: bool, elastic: Elastic) -> TrainerRecord {
        let spec = TrainerSpec {
            submit: at(0),
            min_nodes: 2,
            max_nodes: 8,
            distance: Distance::Shares(vec![0.9]),
            rescale: RescaleCost::of(18.0, 12.0),
            launch: Launch::Command(Program {
                program: "train".to_owned(),
                profile,
                elastic,
                ..Program::default()
            }),
            ..TrainerSpec::simulated(
                TrainerId::new("a").unwrap(),
                ScalingCurve::linear(10.0, 8).unwrap(),
            )
        };
        TrainerRecord {
            run: RunId(1),
            ..TrainerRecord::new(spec, 1)
        }
    }

    fn on(record: &TrainerRecord, nodes: u32, tier: usize) -> (f64, Basis, Option<f64>) {
        let Rate {
            value,
            basis,
            doubt,
        } = Rates::of(record).at(&Shape::of(nodes, tier), &[]);
        ((value * 1e6).round() / 1e6, basis, doubt)
    }

    #[test]
    fn each_rate_has_the_first_basis_that_is_known() {
        let stated = record(false, Elastic::REGROUP);
        assert_eq!(on(&stated, 4, 1), (36.0, Basis::Submitted, None));
        let mut record = record(true, Elastic::REGROUP);
        assert_eq!(on(&record, 4, 1), (36.0, Basis::Assumed, None));
        assert_eq!(on(&record, 1, 0).0, 0.0, "below its least size");
        let mut observed = crate::Observed::default();
        // A measurement is evidence, and is in force once the curves go through it.
        let near = measured(4, 30.0, 1.2);
        record.measured = Some(Box::default());
        record.measured.as_mut().unwrap().put(Tier(0), near.clone());
        assert!(observed.enforce(&mut record));
        assert_eq!(on(&record, 4, 0), (30.0, Basis::Measured(near), Some(0.02)));
        let between = Basis::Between { below: 0, above: 4 };
        assert_eq!(on(&record, 2, 0), (15.0, between, Some(0.02)));
        assert_eq!(on(&record, 8, 0), (60.0, Basis::Beyond { last: 4 }, None));
        assert_eq!(on(&record, 4, 1).0, 27.0, "distance is as submitted");
        // A measured tier counts before the submitted share, and shows what near nodes would do.
        let far = measured(8, 25.0, 0.0);
        record.measured.as_mut().unwrap().put(Tier(1), far.clone());
        let both = measured(4, 15.0, 0.0);
        record.measured.as_mut().unwrap().put(Tier(1), both);
        assert!(observed.enforce(&mut record));
        assert_eq!(
            on(&record, 8, 1),
            (25.0, Basis::Measured(far.clone()), Some(0.0))
        );
        assert_eq!(on(&record, 8, 0), (50.0, Basis::Measured(far), Some(0.0)));
        // What a replay says of a size counts before a line through measured ones.
        record.measured.as_mut().unwrap().replay = Some(Box::new(StepModel {
            nodes: 4,
            tier: Tier(0),
            at: at(100),
            off: 0.0,
            reading: 0.0,
            speeds: Vec::new(),
            links: Vec::new(),
            judged: Judged {
                error: 0.03,
                met: 1,
                rates: vec![CurvePoint {
                    nodes: 2,
                    rate: 18.0,
                }],
                limit: None,
            },
        }));
        let replayed = Basis::Replayed {
            nodes: 4,
            error: 0.03,
        };
        assert_eq!(Rates::of(&record).basis(2, Tier(0)), replayed);
        assert_eq!(record.spec, self::record(true, Elastic::REGROUP).spec);
    }

    #[test]
    fn each_cost_is_the_first_that_is_known() {
        for (elastic, as_start) in [(Elastic::REGROUP, false), (Elastic::Restart, true)] {
            let mut record = record(true, elastic);
            let costs = |record: &TrainerRecord| {
                let rates = Rates::of(record);
                let RescaleCost { up_s, down_s, .. } = rates.rescale();
                (up_s, down_s, rates.start_s())
            };
            assert_eq!(costs(&record), (18.0, 12.0, 18.0), "submitted");
            // Of a relative.
            record.in_force_mut().down_s = Some(3.0);
            assert_eq!(costs(&record), (18.0, 3.0, 18.0));
            record.measured.as_mut().unwrap().start = Some(MeasuredStart {
                pause: pause(30.0),
                from: None,
            });
            let expected = if as_start { 30.0 } else { 18.0 };
            let down_s = if as_start { 30.0 } else { 3.0 };
            assert_eq!(costs(&record), (expected, down_s, 30.0), "a start");
            let mut pauses = crate::Pauses::default();
            for _ in 0..2 {
                pauses.add_change(&mut record, true, 7.0, at(100));
            }
            assert_eq!(costs(&record).0, 7.0, "measured");
            assert_eq!(record.spec, self::record(true, elastic).spec);
        }
    }

    #[test]
    fn a_loader_has_what_it_brings_on_its_kind_alone() {
        let mut record = record(false, Elastic::Restart);
        let (cpu, gpu) = (KindName::new("cpu").unwrap(), KindName::new("gpu").unwrap());
        let curve = ScalingCurve::new([(1, 1e-6)]).unwrap();
        let kinds = KindRates::new([(cpu.clone(), curve.clone())].into(), Vec::new()).unwrap();
        record.spec.kinds = kinds
            .with_loading(Loading::For(TrainerId::new("b").unwrap()))
            .unwrap();
        (
            record.spec.throughput,
            record.spec.min_nodes,
            record.spec.max_nodes,
        ) = (curve, 1, 1);
        record.in_force_mut().gain = Some(35.0);
        let rates = Rates::of(&record);
        let names = [cpu, gpu];
        let brings = rates.at(&Shape::of(1, 0), &names);
        assert!((brings.value - 35.0).abs() < 1e-9 && brings.basis == Basis::Brings);
        assert_eq!(rates.at(&Shape::new([0, 1, 0, 0], 0), &names).value, 0.0);
    }

    #[test]
    fn what_is_learnt_on_one_kind_is_as_much_faster_on_another_as_the_rate() {
        let (cpu, gpu) = (KindName::new("cpu").unwrap(), KindName::new("gpu").unwrap());
        let mut record = record(false, Elastic::REGROUP);
        let fast = ScalingCurve::linear(40.0, 8).unwrap();
        let alone = [
            (cpu.clone(), ScalingCurve::linear(10.0, 8).unwrap()),
            (gpu.clone(), fast.clone()),
        ];
        record.spec.kinds = KindRates::new(alone.into(), Vec::new()).unwrap();
        record.spec.throughput = fast;
        let size = |nodes, rate| GoodputAt {
            nodes,
            batch: 64,
            efficiency: 0.8,
            rate,
        };
        record.goodput = Some(Box::new(Goodput {
            at: at(100),
            kind: Some(cpu.clone()),
            sizes: vec![size(1, 8.0), size(4, 20.0)],
        }));
        let learns = |record: &TrainerRecord| Rates::of(record).learning().unwrap();
        assert_eq!(learns(&record).table(4), [0.0, 32.0, 48.0, 64.0, 80.0]);
        // Where all nodes are of that kind it is as timed.
        let alone = on_kind(&record, &cpu);
        assert_eq!((learns(&alone).at(1), learns(&alone).at(4)), (8.0, 20.0));
        assert_eq!(learns(&on_kind(&record, &gpu)).at(4), 80.0);
    }

    #[test]
    fn a_record_from_before_there_was_evidence_apart_goes_on_with_its_measurements() {
        // Control wrote measured rates and costs into the specification then.
        let old = r#"{"spec":{"id":"a","submit":0,"min_nodes":1,"max_nodes":4,
            "throughput":[{"nodes":1,"rate":100.0},{"nodes":2,"rate":150.0},{"nodes":4,"rate":250.0}],
            "distance":{"measured":[[{"nodes":2,"rate":75.0}]]},
            "rescale":{"up_s":4.0,"down_s":1.0},"work":"until_exit",
            "launch":{"launcher":"command","program":"train","profile":true}},
            "user":"ann","order":1,"phase":"active","nodes":[],"run":3,"samples_before":0.0,
            "samples_run":0.0,"owed":0.0,"rescale_cost":0.0,"preempt_cost":0.0,"preemptions":0,
            "rescales":0,"started":null,"ended":null,
            "measured":{"rates":[{"nodes":1,"rate":100.0,"spread":1.0,"count":4,"at":0},
                {"nodes":2,"rate":150.0,"spread":0.0,"count":4,"at":0}],
                "apart":[[{"nodes":2,"rate":75.0,"spread":0.0,"count":4,"at":0}]],
                "up":{"mean_s":4.0,"spread_s":0.0,"count":2,"at":0},"spent_node_s":7.0}}"#;
        let mut record: TrainerRecord = serde_json::from_str(old).unwrap();
        let rates = |record: &TrainerRecord| {
            let rates = Rates::of(record);
            let of = |nodes, tier| rates.at(&Shape::of(nodes, tier), &[]);
            assert_eq!(of(2, 1).value, 75.0);
            assert_eq!(
                of(1, 0).basis,
                Basis::Measured(record.measured.clone().unwrap().rates[0].clone())
            );
            assert_eq!(of(1, 0).doubt, Some(0.005));
            (rates.curve().table(4), rates.rescale().up_s)
        };
        let before = rates(&record);
        assert_eq!(before, (vec![0.0, 100.0, 150.0, 200.0, 250.0], 4.0));
        // The first enforcement finds the same.
        assert!(!crate::Observed::resumed(&record).enforce(&mut record));
        assert_eq!(rates(&record), before);
        let again: TrainerRecord =
            serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
        assert_eq!(again, record);
    }
}
