//! Scaling curves: the rate of a trainer at each node count.

use serde::{Deserialize, Serialize};

/// One measured point of a scaling curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Node count, at least 1.
    pub nodes: u32,
    /// Rate at that count: samples/s for throughput, any unit for an objective.
    pub rate: f64,
}

/// A rate for each node count: piecewise linear through measured points, from (0, 0)
/// to the last point, and constant beyond it (reference model of BFTrainer,
/// arXiv 2106.12091). It may dip: the step from one node to two pays the whole latency of the
/// network, and what a sample is worth falls with the batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<CurvePoint>", into = "Vec<CurvePoint>")]
pub struct ScalingCurve {
    /// Strictly increasing in `nodes`; the origin is implied.
    points: Vec<CurvePoint>,
}

/// Why a scaling curve was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CurveError {
    /// There is no point beyond the origin.
    #[error("a scaling curve needs at least one measured point with one node or more")]
    Empty,
    /// Node counts do not strictly increase.
    #[error("node counts must strictly increase: {after} comes after {before}")]
    Unsorted {
        /// The earlier count.
        before: u32,
        /// The count that follows it.
        after: u32,
    },
    /// A rate is not a positive finite number.
    #[error("the rate at {nodes} nodes is {rate}: expected a positive finite number")]
    Rate {
        /// The node count.
        nodes: u32,
        /// The rate as it was given.
        rate: f64,
    },
    /// Counts and rates are lists of different length.
    #[error("{nodes} node counts but {rates} rates")]
    Lengths {
        /// Number of counts.
        nodes: usize,
        /// Number of rates.
        rates: usize,
    },
}

impl ScalingCurve {
    /// Checks the points and makes a curve of them. A leading (0, 0) is accepted and dropped.
    ///
    /// # Errors
    /// [`CurveError`] for anything but strictly increasing counts with positive rates.
    pub fn new(points: impl IntoIterator<Item = (u32, f64)>) -> Result<Self, CurveError> {
        let mut kept: Vec<CurvePoint> = Vec::new();
        for (nodes, rate) in points {
            if nodes == 0 && rate == 0.0 && kept.is_empty() {
                continue;
            }
            if !rate.is_finite() || rate <= 0.0 || nodes == 0 {
                return Err(CurveError::Rate { nodes, rate });
            }
            if let Some(last) = kept.last().filter(|last| last.nodes >= nodes) {
                return Err(CurveError::Unsorted {
                    before: last.nodes,
                    after: nodes,
                });
            }
            kept.push(CurvePoint { nodes, rate });
        }
        if kept.is_empty() {
            Err(CurveError::Empty)
        } else {
            Ok(Self { points: kept })
        }
    }

    /// From parallel lists, the form of recordings.
    ///
    /// # Errors
    /// As [`ScalingCurve::new`], and when the lists differ in length.
    pub fn from_lists(nodes: &[u32], rates: &[f64]) -> Result<Self, CurveError> {
        if nodes.len() != rates.len() {
            return Err(CurveError::Lengths {
                nodes: nodes.len(),
                rates: rates.len(),
            });
        }
        Self::new(nodes.iter().copied().zip(rates.iter().copied()))
    }

    /// Linear scaling: `rate` for each node up to `max_nodes`.
    ///
    /// # Errors
    /// As [`ScalingCurve::new`].
    pub fn linear(rate: f64, max_nodes: u32) -> Result<Self, CurveError> {
        let mut points = vec![(1, rate)];
        if max_nodes > 1 {
            points.push((max_nodes, rate * f64::from(max_nodes)));
        }
        Self::new(points)
    }

    /// The curve without points that are near the line through their neighbours: its rate at each
    /// of them changes by at most the share `error`. The first and the last point stay.
    ///
    /// Source: the cone of Sklansky and Gonzalez, Pattern Recognition 12 (1980).
    #[must_use]
    pub fn thinned(&self, error: f64) -> Self {
        let mut points = self.points.iter().copied();
        let Some(mut from) = points.next() else {
            return self.clone();
        };
        let mut kept = vec![from];
        let mut end = from;
        // The slopes of lines that begin at `from` and pass near enough to all points behind it.
        let all = (f64::NEG_INFINITY, f64::INFINITY);
        let (mut least, mut most) = all;
        for point in points {
            let slope = |rate: f64, from: CurvePoint| {
                (rate - from.rate) / f64::from(point.nodes - from.nodes)
            };
            if !(least..=most).contains(&slope(point.rate, from)) {
                kept.push(end);
                from = end;
                (least, most) = all;
            }
            least = least.max(slope(point.rate * (1.0 - error), from));
            most = most.min(slope(point.rate * (1.0 + error), from));
            end = point;
        }
        if end.nodes > from.nodes {
            kept.push(end);
        }
        Self { points: kept }
    }

    /// The measured points, without the origin.
    #[must_use]
    pub fn points(&self) -> &[CurvePoint] {
        &self.points
    }

    /// The largest measured count.
    #[must_use]
    pub fn last_nodes(&self) -> u32 {
        self.points.last().map_or(0, |p| p.nodes)
    }

    /// The rate at a (possibly fractional) node count.
    #[must_use]
    pub fn rate(&self, nodes: f64) -> f64 {
        let mut before = CurvePoint {
            nodes: 0,
            rate: 0.0,
        };
        for &point in &self.points {
            if nodes <= f64::from(point.nodes) {
                let width = f64::from(point.nodes - before.nodes);
                let share = (nodes - f64::from(before.nodes)) / width;
                return before.rate + (point.rate - before.rate) * share;
            }
            before = point;
        }
        before.rate
    }

    /// The rate at a whole node count.
    #[must_use]
    pub fn at(&self, nodes: u32) -> f64 {
        self.rate(f64::from(nodes))
    }

    /// The rates at `0..=max` nodes, as a table.
    #[must_use]
    pub fn table(&self, max: u32) -> Vec<f64> {
        (0..=max).map(|n| self.at(n)).collect()
    }

    /// The same curve over its rate at one node (scaling efficiency: speed-up over one node).
    #[must_use]
    pub fn speedup(&self) -> Self {
        self.over(1)
    }

    /// The same curve over its rate at `nodes` nodes, one or more.
    #[must_use]
    pub fn over(&self, nodes: u32) -> Self {
        let one = self.at(nodes.max(1));
        self.map(|rate| rate / one)
    }

    /// The same curve with all rates times a positive finite number.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        self.map(|rate| rate * factor)
    }

    fn map(&self, of: impl Fn(f64) -> f64) -> Self {
        let point = |p: &CurvePoint| CurvePoint {
            nodes: p.nodes,
            rate: of(p.rate),
        };
        let points = self.points.iter().map(point).collect();
        Self { points }
    }
}

impl TryFrom<Vec<CurvePoint>> for ScalingCurve {
    type Error = CurveError;
    fn try_from(points: Vec<CurvePoint>) -> Result<Self, CurveError> {
        Self::new(points.into_iter().map(|p| (p.nodes, p.rate)))
    }
}

impl From<ScalingCurve> for Vec<CurvePoint> {
    fn from(curve: ScalingCurve) -> Self {
        curve.points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpolates_from_the_origin_and_is_flat_beyond() {
        let curve = ScalingCurve::new([(0, 0.0), (2, 20.0), (4, 30.0)]).unwrap();
        assert_eq!(curve.table(5), vec![0.0, 10.0, 20.0, 25.0, 30.0, 30.0]);
        assert_eq!(curve.rate(3.5), 27.5);
    }

    #[test]
    fn a_curve_may_dip() {
        let curve = ScalingCurve::new([(1, 4.0), (2, 2.0), (4, 6.0)]).unwrap();
        assert_eq!(curve.table(4), vec![0.0, 4.0, 2.0, 4.0, 6.0]);
        assert_eq!(curve.over(2).at(4), 3.0);
        let text = serde_json::to_string(&curve).unwrap();
        assert_eq!(serde_json::from_str::<ScalingCurve>(&text).unwrap(), curve);
    }

    #[test]
    fn a_thinned_curve_is_near_the_whole_one_everywhere() {
        let rate = |n: u32| f64::from(n).sqrt() + if n < 40_000 { 0.0 } else { 9.0 };
        let whole = ScalingCurve::new((1..=100_000).map(|n| (n, rate(n)))).unwrap();
        let thinned = whole.thinned(1e-6);
        assert!(thinned.points().len() < 2_000, "{}", thinned.points().len());
        for n in (1..=100_000).step_by(97).chain([39_999, 40_000, 100_000]) {
            let off = (thinned.at(n) / rate(n) - 1.0).abs();
            assert!(off <= 1.001e-6, "{off} at {n}");
        }
        let line = ScalingCurve::new((3..=99).map(|n| (n, 0.1 * f64::from(n)))).unwrap();
        let nodes = |curve: ScalingCurve| -> Vec<u32> {
            curve.points().iter().map(|point| point.nodes).collect()
        };
        assert_eq!(nodes(line.thinned(1e-12)), [3, 99]);
        let one = ScalingCurve::new([(2, 5.0)]).unwrap();
        assert_eq!(one.thinned(1e-6), one);
    }

    #[test]
    fn invalid_curves_are_refused() {
        assert_eq!(ScalingCurve::new([]), Err(CurveError::Empty));
        assert!(matches!(
            ScalingCurve::new([(2, 1.0), (2, 2.0)]),
            Err(CurveError::Unsorted { .. })
        ));
        assert!(matches!(
            ScalingCurve::new([(1, f64::NAN)]),
            Err(CurveError::Rate { .. })
        ));
        assert!(matches!(
            ScalingCurve::from_lists(&[1], &[]),
            Err(CurveError::Lengths { .. })
        ));
    }
}
