//! The rates of a trainer over counts of nodes, from the profile of its layers.
//!
//! A node has units of one or more kinds of the profile: a GPU node has GPUs, and groups of cores
//! beside them. Counts of nodes limit the units, and the rate is the highest within these limits, by
//! [`fastest`]. It never falls with more nodes. It is computed at 1, 2, 3, 4, 6, 8, 12, 16, ... nodes of
//! each kind. Between these counts a planner takes it as linear. Counts at which the network does not
//! fit have a rate of 0.

use std::collections::BTreeMap;

use lacuna_model::{KindName, KindRates, MixedPoint, ScalingCurve};

use crate::error::Error;
use crate::fastest::fastest;
use crate::profile::LayerProfile;

/// The units that a node of each kind has.
#[derive(Debug, Clone, PartialEq)]
pub struct Nodes {
    /// By kind of node, units of each kind of the profile in its order.
    units: BTreeMap<KindName, Vec<u32>>,
}

impl Nodes {
    /// Each kind of the profile is a kind of node with one unit.
    ///
    /// # Errors
    /// The name of a kind is no name of a kind of node.
    pub fn alike(profile: &LayerProfile) -> Result<Self, Error> {
        let one = |(place, kind): (usize, &crate::Kind)| {
            let mut units = vec![0; profile.kinds().len()];
            if let Some(own) = units.get_mut(place) {
                *own = 1;
            }
            Ok((named(kind.name())?, units))
        };
        let units = profile.kinds().iter().enumerate().map(one);
        let units = units.collect::<Result<_, Error>>()?;
        Ok(Self { units })
    }

    /// By kind of node, the units of each kind of the profile. A kind that is absent has none.
    ///
    /// # Errors
    /// The profile has no such kind, a node has no units, or there is no kind of node.
    pub fn new(
        profile: &LayerProfile,
        given: &BTreeMap<String, BTreeMap<String, u32>>,
    ) -> Result<Self, Error> {
        if given.is_empty() {
            return Err(Error::Empty { what: "nodes" });
        }
        let mut all = BTreeMap::new();
        for (node, of) in given {
            let known = |name: &String| profile.kinds().iter().any(|kind| kind.name() == name);
            if let Some(kind) = of.keys().find(|name| !known(name)) {
                return Err(Error::NoKind {
                    what: format!("nodes.{node}"),
                    kind: kind.clone(),
                    known: profile.known(),
                });
            }
            let units = profile.kinds().iter();
            let units: Vec<u32> = units
                .map(|kind| of.get(kind.name()).copied().unwrap_or(0))
                .collect();
            if units.iter().all(|units| *units == 0) {
                let (node, known) = (node.clone(), profile.known());
                return Err(Error::NoUnits { node, known });
            }
            all.insert(named(node)?, units);
        }
        Ok(Self { units: all })
    }
}

fn named(kind: &str) -> Result<KindName, Error> {
    KindName::new(kind).map_err(|error| Error::KindName {
        kind: kind.to_owned(),
        expected: error.expected,
    })
}

/// The rates of the network on up to `most` nodes, of one kind and of two kinds together. A limit of
/// the profile stays a limit of its units.
///
/// # Errors
/// No kind of node runs the network alone, on any count.
pub fn rates(profile: &LayerProfile, nodes: &Nodes, most: u32) -> Result<KindRates, Error> {
    let mut alone = BTreeMap::new();
    let mut together = Vec::new();
    let mut counts = Vec::new();
    for (kind, units) in &nodes.units {
        let (counted, points) = curve(profile, units, most)?;
        let least = points.first().map_or(most, |point| point.0 - 1);
        if least > 0 {
            together.push(point(&[(kind, least)], 0.0));
        }
        if !points.is_empty() {
            let curve = ScalingCurve::new(points).map_err(|e| Error::Rate(e.to_string()))?;
            alone.insert(kind.clone(), curve);
        }
        counts.push(Counted {
            kind,
            units,
            counts: counted,
        });
    }
    if alone.is_empty() {
        return Err(Error::NotAlone { most });
    }
    for (place, first) in counts.iter().enumerate() {
        for second in counts.iter().skip(place + 1) {
            mixes(profile, (first, second), most, &mut together)?;
        }
    }
    KindRates::new(alone, together).map_err(|e| Error::Rate(e.to_string()))
}

/// A kind of node with its units, and the counts at which rates are computed.
struct Counted<'a> {
    kind: &'a KindName,
    units: &'a [u32],
    counts: Vec<u32>,
}

/// Counts of nodes of one kind, with samples/s.
type Points = Vec<(u32, f64)>;

/// Counts of nodes of one kind, and the rates at those on which the network fits.
fn curve(profile: &LayerProfile, units: &[u32], most: u32) -> Result<(Vec<u32>, Points), Error> {
    let at = |count: u32, start: f64| rate(profile, &[(count, units)], start);
    let mut counts = steps(most);
    let mut points = Vec::new();
    let mut none = 0;
    for &count in &counts {
        match at(count, profile.min_rate())? {
            None => none = count,
            Some(rate) => points.push((count, rate)),
        }
    }
    // The least count on which it fits, exactly.
    if let Some((mut fits, _)) = points.first().copied() {
        while fits - none > 1 {
            let middle = none + (fits - none) / 2;
            match at(middle, profile.min_rate())? {
                None => none = middle,
                Some(rate) => {
                    fits = middle;
                    points.insert(0, (middle, rate));
                    counts.push(middle);
                }
            }
        }
    }
    counts.sort_unstable();
    Ok((counts, points))
}

/// Points of two kinds together.
fn mixes(
    profile: &LayerProfile,
    (first, second): (&Counted<'_>, &Counted<'_>),
    most: u32,
    together: &mut Vec<MixedPoint>,
) -> Result<(), Error> {
    let mut impossible: Vec<(u32, u32)> = Vec::new();
    let mut before = 0_u32;
    for &a in &first.counts {
        let (mut below, mut start) = (0, profile.min_rate());
        for &b in &second.counts {
            // Some count between this one and the one before is of interest.
            if before.saturating_add(below).saturating_add(2) > most {
                break;
            }
            below = b;
            match rate(profile, &[(a, first.units), (b, second.units)], start)? {
                Some(rate) => {
                    start = rate;
                    together.push(point(&[(first.kind, a), (second.kind, b)], rate));
                }
                None => {
                    impossible.retain(|&(x, y)| x > a || y > b);
                    impossible.push((a, b));
                }
            }
        }
        before = a;
    }
    let zeros = impossible
        .into_iter()
        .map(|(a, b)| point(&[(first.kind, a), (second.kind, b)], 0.0));
    together.extend(zeros);
    Ok(())
}

fn point(counts: &[(&KindName, u32)], rate: f64) -> MixedPoint {
    let counts = counts.iter().map(|&(kind, count)| (kind.clone(), count));
    MixedPoint {
        counts: counts.collect(),
        rate,
    }
}

/// 1, 2, 3, 4, 6, 8, 12, ... and `most`.
fn steps(most: u32) -> Vec<u32> {
    let mut steps = Vec::new();
    let mut power = 1_u32;
    while power < most {
        steps.push(power);
        let middle = power.saturating_add(power / 2);
        if middle > power && middle < most {
            steps.push(middle);
        }
        power = power.saturating_mul(2);
    }
    steps.push(most);
    steps
}

/// The highest rate on these counts of nodes with these units; nothing if the network does not fit.
fn rate(profile: &LayerProfile, nodes: &[(u32, &[u32])], start: f64) -> Result<Option<f64>, Error> {
    let mut limited = profile.clone().with_min_rate(start)?;
    for (place, kind) in profile.kinds().iter().enumerate() {
        let of = nodes.iter().map(|(count, units)| {
            let units = units.get(place).copied().unwrap_or(0);
            count.saturating_mul(units)
        });
        let units = of.fold(0, u32::saturating_add);
        let limit = kind.limit().map_or(units, |limit| limit.min(units));
        limited = match limited.with_limit(kind.name(), Some(limit)) {
            Err(Error::FitsNowhere { .. }) => return Ok(None),
            other => other?,
        };
    }
    match fastest(&limited) {
        Ok(placement) => Ok(Some(placement.rate)),
        Err(Error::TooFew { .. }) => Ok(None),
        Err(other) => Err(other),
    }
}
