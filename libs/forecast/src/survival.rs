//! The survival curve by age, learnt while running.

use std::collections::BTreeMap;

use lacuna_model::{Forecast, ForecastPoint, Hole, NodeId, Span, Timestamp};
use serde::{Deserialize, Serialize};

use crate::curve::Tally;
use crate::lengths::{self, Lengths, Watched};
use crate::saved::{ModelError, open, seal};
use crate::{Bins, Curve, Forecasts, LearningStage, Predictor, Prior};

/// The times of the points of a forecast, seconds from now. They are close together where decisions
/// are made, and reach a day.
const GRID_S: [f64; 20] = [
    30.0, 60.0, 120.0, 180.0, 300.0, 420.0, 600.0, 900.0, 1200.0, 1800.0, 2700.0, 3600.0, 5400.0,
    7200.0, 10_800.0, 14_400.0, 21_600.0, 28_800.0, 43_200.0, 86_400.0,
];

/// All weights are scaled down once they have grown by this factor.
const RESCALE_AT: f64 = 1e12;

/// The settings of [`Survival`].
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The bins of ages.
    pub bins: Bins,
    /// The number of holes seen from start to end before the curve is used.
    pub needed: u64,
    /// The number of holes at risk at an age for which the estimate is used there.
    pub enough_at_risk: f64,
    /// The time after which an ended hole counts half; `None` for no decay.
    pub half_life: Option<Span>,
    /// The largest number of starts with a forecast each. With more starts, the holes in one bin of
    /// ages share a forecast. This bounds the size of a pool message.
    pub max_forecasts: usize,
    /// What is expected before anything is known.
    pub prior: Prior,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            bins: Bins::default(),
            needed: 30,
            enough_at_risk: 10.0,
            half_life: Some(Span::from_secs(7 * 86_400)),
            max_forecasts: 256,
            prior: Prior::default(),
        }
    }
}

/// The Kaplan-Meier curve of holes by age. Ended holes are kept as weights in bins of ages. Present
/// holes are censored at their age. Holes that were first seen at some age are at risk from that
/// age on (delayed entry), so that a start of observation does not favour long holes.
#[derive(Debug, Clone)]
pub struct Survival {
    settings: Settings,
    ended: Vec<f64>,
    censored: Vec<f64>,
    entered: Vec<f64>,
    /// The number of ended holes that were seen from their start.
    seen: u64,
    /// The lengths until enough have been seen.
    lengths: Lengths,
    /// The time of an end of weight 1.
    epoch: Option<Timestamp>,
    /// Present holes that were first seen after their start: the start, and the age in seconds.
    late: BTreeMap<NodeId, (Timestamp, f64)>,
    /// Whether the curve still changes.
    learns: Learns,
}

/// The version of the saved format.
const VERSION: u16 = 1;

/// The saved state: everything but the present holes, which are announced again.
#[derive(Debug, Serialize, Deserialize)]
struct Memory {
    edges: Vec<f64>,
    ended: Vec<f64>,
    censored: Vec<f64>,
    entered: Vec<f64>,
    seen: u64,
    /// Absent in older files.
    #[serde(default)]
    lengths: lengths::Evidence,
    epoch: Option<Timestamp>,
}

/// Whether the curve still changes.
#[derive(Debug, Clone, PartialEq)]
enum Learns {
    /// The curve changes with every hole that ends.
    On,
    /// The curve of the next forecast is the last one.
    Stopped,
    /// The last curve.
    Kept(Curve),
}

impl Survival {
    /// A predictor that has learnt nothing yet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let bins = settings.bins.count();
        Self {
            ended: vec![0.0; bins],
            censored: vec![0.0; bins],
            entered: vec![0.0; bins],
            seen: 0,
            lengths: Lengths::new(settings.prior.clone(), settings.half_life.is_some()),
            epoch: None,
            late: BTreeMap::new(),
            learns: Learns::On,
            settings,
        }
    }

    /// Restores a predictor from the bytes of [`save`](Predictor::save).
    ///
    /// # Errors
    /// [`ModelError`] if the bytes are damaged, or of another predictor or version.
    pub fn restore(settings: Settings, bytes: &[u8]) -> Result<Self, ModelError> {
        let memory: Memory = open("survival", VERSION, bytes)?;
        let damaged = |what: &str| ModelError::Damaged {
            what: what.to_owned(),
        };
        let weights = [&memory.ended, &memory.censored, &memory.entered];
        if memory.edges != settings.bins.edges() {
            return Err(damaged("it has other bins of ages"));
        }
        if weights.iter().any(|list| list.len() != memory.edges.len()) {
            return Err(damaged("it has the wrong number of bins of ages"));
        }
        if weights
            .into_iter()
            .flatten()
            .any(|weight| weight.is_nan() || *weight < 0.0)
        {
            return Err(damaged("a weight is out of range"));
        }
        let mut lengths = Lengths::new(settings.prior.clone(), settings.half_life.is_some());
        lengths.restore(memory.lengths).map_err(damaged)?;
        Ok(Self {
            ended: memory.ended,
            censored: memory.censored,
            entered: memory.entered,
            seen: memory.seen,
            lengths,
            epoch: memory.epoch,
            ..Self::new(settings)
        })
    }

    /// The curve as of `now`, with the present holes.
    #[must_use]
    pub fn curve(&self, now: Timestamp, holes: &[Hole]) -> Curve {
        let bins = &self.settings.bins;
        let mut leaving: Vec<f64> = self
            .ended
            .iter()
            .zip(&self.censored)
            .map(|(ended, censored)| ended + censored)
            .collect();
        let mut entering = self.entered.clone();
        let unit = self.weight(now);
        for hole in holes {
            let exit = bins.of(age(hole, now));
            let entry = self.entry(hole).map(|age| bins.of(age));
            if entry.is_some_and(|entry| entry >= exit) {
                continue;
            }
            add(&mut leaving, exit, unit);
            if let Some(entry) = entry {
                add(&mut entering, entry, unit);
            }
        }
        let mut at_risk = 0.0;
        let mut tallies: Vec<Tally> = leaving
            .iter()
            .zip(&entering)
            .zip(&self.ended)
            .rev()
            .map(|((leaving, entering), &ended)| {
                at_risk += leaving - entering;
                Tally { ended, at_risk }
            })
            .collect();
        tallies.reverse();
        Curve::new(bins.edges(), &tallies, self.settings.enough_at_risk * unit)
    }

    /// The age at which a present hole was first seen; `None` if that was at its start.
    fn entry(&self, hole: &Hole) -> Option<f64> {
        self.late
            .get(&hole.node)
            .filter(|(since, _)| *since == hole.since)
            .map(|&(_, age)| age)
    }

    /// The ages between which a hole has been watched up to a time, seconds.
    fn watched(&self, hole: &Hole, until: Timestamp) -> Watched {
        Watched {
            from_s: self.entry(hole).unwrap_or(0.0),
            until_s: age(hole, until),
            share: 1.0,
        }
    }

    /// The weight of an observation at a time, which doubles with each half-life.
    fn weight(&self, at: Timestamp) -> f64 {
        match (self.settings.half_life, self.epoch) {
            (Some(half), Some(epoch)) if half > Span::ZERO => {
                (at.since(epoch).as_secs_f64() / half.as_secs_f64()).exp2()
            }
            _ => 1.0,
        }
    }

    /// Scales all weights down before they grow too large.
    fn renew_epoch(&mut self, at: Timestamp) {
        let weight = self.weight(at);
        if self.epoch.is_none() {
            self.epoch = Some(at);
        } else if weight > RESCALE_AT {
            for weights in [&mut self.ended, &mut self.censored, &mut self.entered] {
                for old in weights {
                    *old /= weight;
                }
            }
            self.epoch = Some(at);
        }
    }

    /// Ends the observation of a hole at `at`. `None` if the hole was never at risk.
    fn leave(&mut self, hole: &Hole, at: Timestamp) -> Option<Left> {
        self.renew_epoch(at);
        let weight = self.weight(at);
        let exit = self.settings.bins.of(age(hole, at));
        let entry = self.entry(hole).map(|age| self.settings.bins.of(age));
        self.late.remove(&hole.node);
        match entry {
            Some(entry) if entry >= exit => None,
            Some(entry) => {
                add(&mut self.entered, entry, weight);
                Some(Left {
                    exit,
                    weight,
                    whole: 0,
                })
            }
            None => Some(Left {
                exit,
                weight,
                whole: 1,
            }),
        }
    }

    fn is_young(&self) -> bool {
        self.seen < self.settings.needed
    }
}

impl Predictor for Survival {
    fn name(&self) -> &'static str {
        "survival"
    }

    fn label(&self) -> String {
        if self.is_young() {
            let Settings { needed, .. } = self.settings;
            format!(
                "by age alone (survival has seen {} of {needed} ends)",
                self.seen
            )
        } else {
            self.name().to_owned()
        }
    }

    fn learning(&self) -> LearningStage {
        if self.is_young() {
            LearningStage::Young {
                ended: self.seen,
                needed: self.settings.needed,
            }
        } else {
            LearningStage::Learnt { ended: self.seen }
        }
    }

    fn opened(&mut self, hole: &Hole, seen: Timestamp) {
        if self.learns != Learns::On {
            return;
        }
        let known_from = age(hole, seen);
        if known_from > 0.0 {
            self.late
                .insert(hole.node.clone(), (hole.since, known_from));
        } else {
            self.late.remove(&hole.node);
        }
    }

    fn closed(&mut self, hole: &Hole, at: Timestamp) {
        if self.learns != Learns::On {
            return;
        }
        self.lengths.end(self.watched(hole, at));
        if let Some(left) = self.leave(hole, at) {
            add(&mut self.ended, left.exit, left.weight);
            self.seen += left.whole;
        }
    }

    fn lost(&mut self, hole: &Hole, last_seen: Timestamp) {
        if self.learns != Learns::On {
            return;
        }
        self.lengths.watch(self.watched(hole, last_seen));
        if let Some(left) = self.leave(hole, last_seen) {
            add(&mut self.censored, left.exit, left.weight);
        }
    }

    fn save(&self) -> Option<Vec<u8>> {
        let memory = Memory {
            edges: self.settings.bins.edges().to_vec(),
            ended: self.ended.clone(),
            censored: self.censored.clone(),
            entered: self.entered.clone(),
            seen: self.seen,
            lengths: self.lengths.evidence(),
            epoch: self.epoch,
        };
        seal("survival", VERSION, &memory)
    }

    fn freeze(&mut self) {
        if self.learns == Learns::On {
            self.learns = Learns::Stopped;
        }
    }

    fn forecast(&mut self, now: Timestamp, holes: &[Hole]) -> Forecasts {
        let curve = match &self.learns {
            Learns::Kept(curve) => curve.clone(),
            Learns::On | Learns::Stopped => self.curve(now, holes),
        };
        if self.learns == Learns::Stopped {
            self.learns = Learns::Kept(curve.clone());
        }
        // Without a reach all observations have decayed.
        let learnt = (!self.is_young() && curve.reach_s() > 0.0).then_some(&curve);
        let watched = holes.iter().map(|hole| self.watched(hole, now));
        let lengths = self.lengths.mixture(watched);
        let groups = self.groups(now, holes);
        let mut index = vec![0; holes.len()];
        let mut forecasts = Vec::with_capacity(groups.len());
        for (number, group) in (0u32..).zip(&groups) {
            let ages: f64 = group.holes.iter().map(|&(_, age)| age).sum();
            let age = ages / group.holes.len().max(1) as f64;
            forecasts.push(forecast(|after_s| match learnt {
                Some(curve) => curve.open_after(age, after_s),
                None => lengths.open_after(age, after_s),
            }));
            for &(place, _) in &group.holes {
                if let Some(slot) = index.get_mut(place) {
                    *slot = number;
                }
            }
        }
        Forecasts {
            forecasts,
            index,
            joint: None,
            announced: Vec::new(),
        }
    }
}

/// The end of an observation: its bin and weight, and 1 in `whole` if the start was seen too.
struct Left {
    exit: usize,
    weight: f64,
    whole: u64,
}

/// Holes that share a forecast, by place in the list and age in seconds.
struct Group {
    holes: Vec<(usize, f64)>,
}

impl Survival {
    /// Groups of holes by start, or by bin of ages if there are too many starts.
    fn groups(&self, now: Timestamp, holes: &[Hole]) -> Vec<Group> {
        let mut by_start: BTreeMap<Timestamp, Group> = BTreeMap::new();
        for (place, hole) in holes.iter().enumerate() {
            let group = by_start
                .entry(hole.since)
                .or_insert_with(|| Group { holes: Vec::new() });
            group.holes.push((place, age(hole, now)));
        }
        if by_start.len() <= self.settings.max_forecasts {
            return by_start.into_values().collect();
        }
        let mut by_bin: BTreeMap<usize, Group> = BTreeMap::new();
        for (_, group) in by_start {
            let bin = group
                .holes
                .first()
                .map_or(0, |&(_, age)| self.settings.bins.of(age));
            by_bin
                .entry(bin)
                .or_insert_with(|| Group { holes: Vec::new() })
                .holes
                .extend(group.holes);
        }
        by_bin.into_values().collect()
    }
}

/// The points of a curve of remaining lengths.
fn forecast(open_after: impl Fn(f64) -> f64) -> Forecast {
    let mut least = 1.0f64;
    let points = GRID_S
        .iter()
        .map(|&after_s| {
            least = least.min(open_after(after_s));
            let open = least;
            ForecastPoint { after_s, open }
        })
        .collect();
    Forecast { points }
}

/// The age of a hole in seconds; zero for one that begins later.
fn age(hole: &Hole, now: Timestamp) -> f64 {
    now.since(hole.since).as_secs_f64().max(0.0)
}

fn add(weights: &mut [f64], bin: usize, weight: f64) {
    if let Some(sum) = weights.get_mut(bin) {
        *sum += weight;
    }
}
