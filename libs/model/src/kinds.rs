//! Kinds of nodes, and the rates of a trainer over counts of each kind.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{CurveError, KindName, Loaders, Loading, NodeId, NodeKinds, ScalingCurve, TrainerId};

/// A measured rate on nodes of several kinds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MixedPoint {
    /// Nodes of each kind. A kind that is absent has none.
    pub counts: BTreeMap<KindName, u32>,
    /// Samples/s. With 0, here of one kind or two, the trainer runs neither on these nodes nor on fewer.
    pub rate: f64,
}

impl MixedPoint {
    /// Nodes of a kind.
    fn nodes(&self, kind: &KindName) -> u32 {
        self.counts.get(kind).copied().unwrap_or(0)
    }
}

/// The rates of a trainer by kind of node. Without kinds every node is alike to it.
///
/// A trainer with curves alone takes nodes of one kind at a time. With points of several kinds it
/// takes them together, within the measured range: linear along each axis between points.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct KindRates {
    alone: BTreeMap<KindName, ScalingCurve>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    together: Vec<MixedPoint>,
    #[serde(skip_serializing_if = "Option::is_none")]
    loading: Option<Loading>,
}

/// Rates by kind as they are written.
#[derive(Deserialize)]
struct Unchecked {
    #[serde(default)]
    alone: BTreeMap<KindName, ScalingCurve>,
    #[serde(default)]
    together: Vec<MixedPoint>,
    #[serde(default)]
    loading: Option<Loading>,
}

impl TryFrom<Unchecked> for KindRates {
    type Error = KindError;

    fn try_from(raw: Unchecked) -> Result<Self, KindError> {
        let rates = Self::new(raw.alone, raw.together)?;
        match raw.loading {
            None => Ok(rates),
            Some(loading) => rates.with_loading(loading),
        }
    }
}

/// Why rates by kind were refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum KindError {
    /// Points of several kinds stand without curves, or name a kind without one.
    #[error(
        "together names kind {kind}, which has no curve in kinds: give the rates on {kind} nodes \
         alone, as {{\"{kind}\": {{\"nodes\": [1], \"samples_per_s\": [..]}}}}"
    )]
    NoCurve {
        /// The kind.
        kind: KindName,
    },
    /// The curve of a kind is refused.
    #[error("kinds: the curve of {kind}: {source}")]
    Curve {
        /// The kind.
        kind: KindName,
        /// The reason.
        source: CurveError,
    },
    /// A point is of one kind alone, of none, or of more than two.
    #[error(
        "together: a point has {found} kinds with nodes: expected 2, since rates on one kind \
         belong in kinds"
    )]
    Point {
        /// Number of kinds with nodes.
        found: usize,
    },
    /// Two points have the same counts, or a rate is below 0 or not finite.
    #[error(
        "together: the rate on {counts} is {rate}: expected one positive finite number, or 0 where it \
         does not run"
    )]
    Rate {
        /// The counts.
        counts: String,
        /// The rate.
        rate: f64,
    },
    /// The scaling curve is that of no kind.
    #[error(
        "kinds contradict the scaling curve: it is {curve} samples/s on {nodes} nodes, and no kind \
         has that: leave nodes and samples_per_s out, or give them as one of the kinds"
    )]
    Contradicts {
        /// Nodes at which they differ.
        nodes: u32,
        /// The rate of the curve there.
        curve: f64,
    },
    /// The most nodes exceed what was measured.
    #[error(
        "max_nodes is {max}, but the kinds were measured up to {measured} nodes: measure further \
         or lower max_nodes"
    )]
    TooFew {
        /// The most nodes.
        max: u32,
        /// Most measured nodes.
        measured: u32,
    },
    /// Loaders for a trainer that tells no kinds apart, or too many of them, or none.
    #[error(
        "loaders: {nodes} nodes of kind {kind} with {processes} processes each: expected 1 to \
         {most} nodes, 1 to {most_processes} processes, and a trainer that has kinds, else it would \
         train on them",
        most = Loaders::MOST_NODES,
        most_processes = Loaders::MOST_PROCESSES
    )]
    Loaders {
        /// Their kind.
        kind: KindName,
        /// Most nodes.
        nodes: u32,
        /// Processes of each.
        processes: u32,
    },
}

impl KindRates {
    /// Checks rates on one kind each, and rates on several kinds together.
    ///
    /// # Errors
    /// [`KindError`] names the kind or point, and the remedy.
    pub fn new(
        alone: BTreeMap<KindName, ScalingCurve>,
        together: Vec<MixedPoint>,
    ) -> Result<Self, KindError> {
        let mut seen = BTreeSet::new();
        for point in &together {
            let with_nodes = || point.counts.iter().filter(|(_, count)| **count > 0);
            let found = with_nodes().count();
            if found != 2 && !(found == 1 && point.rate == 0.0) {
                return Err(KindError::Point { found });
            }
            // A kind without a curve is one on which the trainer does not run alone.
            let is_known = |kind: &KindName| {
                let none = |p: &MixedPoint| p.rate == 0.0 && p.counts.keys().eq([kind]);
                alone.contains_key(kind) || together.iter().any(none)
            };
            if let Some((kind, _)) = with_nodes().find(|(kind, _)| !is_known(kind)) {
                let kind = kind.clone();
                return Err(KindError::NoCurve { kind });
            }
            let counts: Vec<(&KindName, &u32)> = with_nodes().collect();
            let is_rate = point.rate.is_finite() && point.rate >= 0.0;
            if !is_rate || !seen.insert(counts.clone()) {
                let counts: Vec<String> = counts.iter().map(|(k, n)| format!("{n} {k}")).collect();
                return Err(KindError::Rate {
                    counts: counts.join(" and "),
                    rate: point.rate,
                });
            }
        }
        Ok(Self {
            alone,
            together,
            loading: None,
        })
    }

    /// The same for a trainer with loaders, or for a loader.
    ///
    /// # Errors
    /// [`KindError::Loaders`] for a count out of range, or without kinds.
    pub fn with_loading(self, loading: Loading) -> Result<Self, KindError> {
        if let Loading::By(loaders) = &loading {
            let in_range = (1..=Loaders::MOST_NODES).contains(&loaders.nodes)
                && (1..=Loaders::MOST_PROCESSES).contains(&loaders.processes);
            if !in_range || self.is_any() {
                let Loaders {
                    kind,
                    nodes,
                    processes,
                } = loaders.clone();
                return Err(KindError::Loaders {
                    kind,
                    nodes,
                    processes,
                });
            }
        }
        let loading = Some(loading);
        Ok(Self { loading, ..self })
    }

    /// The nodes that it may have as loaders.
    #[must_use]
    pub const fn loaders(&self) -> Option<&Loaders> {
        match &self.loading {
            Some(Loading::By(loaders)) => Some(loaders),
            _ => None,
        }
    }

    /// The trainer whose loader it is.
    #[must_use]
    pub const fn loads_for(&self) -> Option<&TrainerId> {
        match &self.loading {
            Some(Loading::For(trainer)) => Some(trainer),
            _ => None,
        }
    }

    /// Whether every node is alike to the trainer.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.alone.is_empty()
    }

    /// The kinds that it can use.
    pub fn names(&self) -> impl Iterator<Item = &KindName> {
        let mixed = self.mixes().flat_map(|point| point.counts.keys());
        let names: BTreeSet<&KindName> = self.alone.keys().chain(mixed).collect();
        names.into_iter()
    }

    /// The points at which it runs.
    fn mixes(&self) -> impl Iterator<Item = &MixedPoint> {
        self.together.iter().filter(|point| point.rate > 0.0)
    }

    /// The curve on nodes of one kind alone.
    #[must_use]
    pub fn curve(&self, kind: &KindName) -> Option<&ScalingCurve> {
        self.alone.get(kind)
    }

    /// The curve of the fastest kind at its first point: the one that stands for the trainer where
    /// kinds are not told apart.
    #[must_use]
    pub fn fastest(&self) -> Option<&ScalingCurve> {
        let by_rate = |a: &&ScalingCurve, b: &&ScalingCurve| a.at(1).total_cmp(&b.at(1));
        self.alone.values().max_by(by_rate)
    }

    /// Most nodes of a kind that were measured; 0 for a kind that it cannot use.
    #[must_use]
    pub fn most(&self, kind: &KindName) -> u32 {
        let alone = self.alone.get(kind).map_or(0, ScalingCurve::last_nodes);
        let counts = self.mixes().map(|point| point.nodes(kind));
        counts.fold(alone, u32::max)
    }

    /// Checks the rates beside a scaling curve and the most nodes of a trainer.
    ///
    /// # Errors
    /// [`KindError`] if they contradict each other.
    pub(crate) fn check(&self, curve: &ScalingCurve, max: u32) -> Result<(), KindError> {
        let differs = |own: &ScalingCurve| {
            let points = curve.points().iter();
            points.copied().find(|p| {
                p.nodes > own.last_nodes() || (own.at(p.nodes) - p.rate).abs() > 1e-9 * p.rate
            })
        };
        let mut nearest = None;
        for own in self.alone.values() {
            nearest = differs(own);
            if nearest.is_none() {
                break;
            }
        }
        if let Some(point) = nearest {
            let (nodes, curve) = (point.nodes, point.rate);
            return Err(KindError::Contradicts { nodes, curve });
        }
        let most = self.names().map(|kind| self.most(kind));
        let measured = if self.mixes().next().is_none() {
            most.max().unwrap_or(0)
        } else {
            most.fold(0, u32::saturating_add)
        };
        if max > measured {
            return Err(KindError::TooFew { max, measured });
        }
        Ok(())
    }

    /// Samples/s on `a` nodes of one kind and `b` of another; nothing outside what was measured.
    #[must_use]
    pub fn rate(&self, (first, a): (&KindName, u32), (second, b): (&KindName, u32)) -> Option<f64> {
        if a == 0 && b == 0 {
            return Some(0.0);
        }
        let is_none = |point: &MixedPoint| {
            let within = point.nodes(first) >= a && point.nodes(second) >= b;
            point.rate == 0.0 && within
        };
        if self.together.iter().any(is_none) {
            return None;
        }
        let alone = |kind: &KindName, nodes: u32| {
            let is_none = |point: &MixedPoint| point.rate == 0.0 && point.nodes(kind) >= nodes;
            if nodes > 0 && self.together.iter().any(is_none) {
                return None;
            }
            let curve = self.alone.get(kind)?;
            (nodes <= curve.last_nodes()).then(|| curve.at(nodes))
        };
        if b == 0 {
            return alone(first, a);
        }
        if a == 0 {
            return alone(second, b);
        }
        // Rows at the measured counts of the first kind. The row of none is the second's curve.
        let count = |point: &MixedPoint, kind: &KindName| point.counts.get(kind).copied();
        let rows = self.mixes().filter_map(|point| {
            count(point, second)?;
            count(point, first)
        });
        let rows: BTreeSet<u32> = rows.collect();
        let row = |at: u32| {
            if at == 0 {
                return alone(second, b);
            }
            let mut points: Vec<(u32, f64)> = self
                .mixes()
                .filter(|point| count(point, first) == Some(at))
                .filter_map(|point| Some((count(point, second)?, point.rate)))
                .collect();
            points.sort_by_key(|point| point.0);
            let above = points.iter().copied().find(|point| point.0 >= b)?;
            let below = points.iter().copied().rfind(|point| point.0 <= b);
            let below = below.or_else(|| Some((0, alone(first, at)?)))?;
            Some(between(below, above, b))
        };
        let above = rows.iter().copied().find(|at| *at >= a)?;
        let below = rows.iter().copied().rfind(|at| *at <= a).unwrap_or(0);
        Some(between((below, row(below)?), (above, row(above)?), a))
    }

    /// Samples/s on these nodes; nothing if it cannot train on them together.
    #[must_use]
    pub fn rate_on<'a>(
        &self,
        nodes: impl IntoIterator<Item = &'a NodeId>,
        kinds: &NodeKinds,
    ) -> Option<f64> {
        let mut counts: BTreeMap<&KindName, u32> = BTreeMap::new();
        for node in nodes {
            *counts.entry(kinds.of(node)?).or_default() += 1;
        }
        let mut counts = counts.into_iter();
        match (counts.next(), counts.next(), counts.next()) {
            (None, ..) => Some(0.0),
            (Some((kind, nodes)), None, _) => self.rate((kind, nodes), (kind, 0)),
            (Some(first), Some(second), None) => self.rate(first, second),
            _ => None,
        }
    }

    /// The least count of nodes of one kind that it can train on, if these are all.
    #[must_use]
    pub fn least(&self, kind: &KindName) -> u32 {
        let none = self.together.iter().filter(|point| point.rate == 0.0);
        none.map(|point| point.nodes(kind) + 1).max().unwrap_or(1)
    }

    /// Length of its curves and points, bytes.
    pub(crate) fn bytes(&self) -> usize {
        let curves = self.alone.values().map(|curve| size_of_val(curve.points()));
        curves.sum::<usize>() + self.together.len() * 2 * size_of::<(KindName, u32)>()
    }
}

/// The linear value at `at` between two points.
fn between(below: (u32, f64), above: (u32, f64), at: u32) -> f64 {
    if above.0 <= below.0 {
        return above.1;
    }
    let share = f64::from(at - below.0) / f64::from(above.0 - below.0);
    below.1 + (above.1 - below.1) * share
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(name: &str) -> KindName {
        KindName::new(name).unwrap()
    }

    fn alone() -> BTreeMap<KindName, ScalingCurve> {
        [
            (kind("cpu"), ScalingCurve::linear(10.0, 4).unwrap()),
            (kind("gpu"), ScalingCurve::linear(100.0, 2).unwrap()),
        ]
        .into()
    }

    fn point(cpu: u32, gpu: u32, rate: f64) -> MixedPoint {
        MixedPoint {
            counts: [(kind("cpu"), cpu), (kind("gpu"), gpu)].into(),
            rate,
        }
    }

    #[test]
    fn curves_alone_allow_no_mix_and_points_allow_what_they_span() {
        let (cpu, gpu) = (kind("cpu"), kind("gpu"));
        let either = KindRates::new(alone(), Vec::new()).unwrap();
        assert_eq!(either.rate((&cpu, 3), (&gpu, 0)), Some(30.0));
        assert_eq!(either.rate((&cpu, 0), (&gpu, 2)), Some(200.0));
        assert_eq!(either.rate((&cpu, 1), (&gpu, 1)), None);
        assert_eq!(either.rate((&cpu, 5), (&gpu, 0)), None);
        let points = vec![point(4, 1, 180.0), point(4, 2, 300.0)];
        let both = KindRates::new(alone(), points).unwrap();
        let rate = |a, b| both.rate((&cpu, a), (&gpu, b));
        assert_eq!(rate(4, 1), Some(180.0));
        assert_eq!(rate(4, 2), Some(300.0));
        // Half of the way from the curve of gpu nodes to the row of 4 cpu nodes.
        assert_eq!(rate(2, 1), Some(140.0));
        assert_eq!(rate(2, 2), Some(250.0));
        assert_eq!(rate(5, 1), None);
        // The axes may be named in either order.
        assert_eq!(both.rate((&gpu, 1), (&cpu, 4)), Some(180.0));
        let node = |name: &str| NodeId::new(name).unwrap();
        let list = [("c1", &cpu), ("c2", &cpu), ("g1", &gpu)];
        let list = list.map(|(name, kind)| (node(name), kind.clone()));
        let kinds = NodeKinds::new(list.into());
        let on = |rates: &KindRates, names: &[&str]| {
            let nodes: Vec<NodeId> = names.iter().map(|name| node(name)).collect();
            rates.rate_on(&nodes, &kinds)
        };
        assert_eq!(on(&both, &["c1", "c2", "g1"]), Some(140.0));
        assert_eq!(on(&either, &["c1", "c2"]), Some(20.0));
        let three = MixedPoint {
            counts: [(cpu.clone(), 2)].into(),
            rate: 0.0,
        };
        let of_three = KindRates::new(alone(), vec![three]).unwrap();
        assert_eq!(on(&of_three, &["c1", "c2"]), None, "it needs three");
        assert_eq!(on(&either, &["c1", "g1"]), None);
        assert_eq!(on(&either, &["c1", "x"]), None, "a node without a kind");
        assert_eq!(on(&either, &[]), Some(0.0));
    }

    #[test]
    fn a_rate_of_zero_says_where_it_does_not_run() {
        let (cpu, gpu, fpga) = (kind("cpu"), kind("gpu"), kind("fpga"));
        let none = |of: &KindName, count| MixedPoint {
            counts: [(of.clone(), count)].into(),
            rate: 0.0,
        };
        // It needs three cpu nodes, with a gpu node two; it never runs on gpu nodes alone.
        let curves = [(
            cpu.clone(),
            ScalingCurve::new([(3, 30.0), (4, 40.0)]).unwrap(),
        )];
        let mut points = vec![none(&cpu, 2), none(&gpu, 9), point(1, 1, 0.0)];
        points.extend([point(2, 1, 60.0), point(4, 1, 80.0)]);
        let rates = KindRates::new(curves.clone().into(), points.clone()).unwrap();
        let at = |a, b| rates.rate((&cpu, a), (&gpu, b));
        assert_eq!((at(2, 0), at(3, 0), at(0, 1)), (None, Some(30.0), None));
        assert_eq!((at(1, 1), at(2, 1)), (None, Some(60.0)));
        assert_eq!((at(3, 1), at(4, 1)), (Some(70.0), Some(80.0)));
        assert!(rates.names().eq([&cpu, &gpu]) && rates.most(&gpu) == 1);
        assert_eq!((rates.least(&cpu), rates.least(&gpu)), (3, 10));
        points.push(MixedPoint {
            counts: [(cpu, 1), (fpga, 1)].into(),
            rate: 5.0,
        });
        let error = KindRates::new(curves.into(), points).unwrap_err();
        assert!(error.to_string().contains("fpga, which has no curve"));
    }

    #[test]
    fn bad_points_and_contradictions_name_the_remedy() {
        let text = |points| KindRates::new(alone(), points).unwrap_err().to_string();
        let one = MixedPoint {
            counts: [(kind("cpu"), 1)].into(),
            rate: 1.0,
        };
        assert!(text(vec![one]).contains("expected 2"));
        assert!(text(vec![point(1, 1, -1.0)]).contains("1 cpu and 1 gpu"));
        assert!(text(vec![point(1, 1, 5.0), point(1, 1, 6.0)]).contains("expected one"));
        let other = MixedPoint {
            counts: [(kind("cpu"), 1), (kind("fpga"), 1)].into(),
            rate: 1.0,
        };
        assert!(text(vec![other]).contains("no curve"));
        let either = KindRates::new(alone(), Vec::new()).unwrap();
        let of_gpu = ScalingCurve::linear(100.0, 2).unwrap();
        assert_eq!(either.check(&of_gpu, 4), Ok(()));
        let error = either.check(&of_gpu, 5).unwrap_err().to_string();
        assert!(error.contains("up to 4 nodes"), "{error}");
        let other = ScalingCurve::linear(70.0, 2).unwrap();
        let error = either.check(&other, 2).unwrap_err().to_string();
        assert!(error.contains("contradict the scaling curve"), "{error}");
    }
}
