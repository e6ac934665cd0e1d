//! Patterns over runs of adjacent classes, valued over scenarios.

use std::sync::Arc;

use crate::patterns::profile::{Profile, rate};
use crate::patterns::table::Table;
use crate::patterns::tag::{Kind, tag, words};
use crate::patterns::{Column, Pattern, Patterns};

/// What a change made now costs, objective units.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Charges {
    /// Taking nodes beside those that it has.
    pub grow: f64,
    /// Giving nodes back.
    pub shrink: f64,
    /// Taking any node set whatever it has now; not offered if absent. 0 for a trainer that
    /// was just hit, or has no nodes (or what a start costs).
    pub any: Option<f64>,
}

/// A trainer to whom patterns are offered.
#[derive(Debug, Clone, PartialEq)]
pub struct Trainer {
    /// Nodes that it holds now, by class; classes ascending, none twice.
    pub held: Vec<(u32, u32)>,
    /// Rate at `0..=max` nodes, objective units a second.
    pub rates: Arc<[f64]>,
    /// Seconds that a departure stalls, at the rate before it.
    pub stall_s: f64,
    /// What a change made now costs.
    pub charges: Charges,
}

/// Why no patterns can be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RunsError {
    /// The horizon is no positive number.
    #[error("the horizon is {0} s")]
    Horizon(f64),
    /// There is no scenario, or one that does not say when each class leaves.
    #[error("scenario {scenario} does not say for each of {classes} classes when it leaves")]
    Scenario {
        /// Which, from 0.
        scenario: usize,
        /// How many classes there are.
        classes: usize,
    },
    /// Rates, charges or held nodes of a trainer make no sense.
    #[error("trainer {trainer}: {what}")]
    Trainer {
        /// Which, from 0.
        trainer: usize,
        /// What is wrong.
        what: &'static str,
    },
}

/// Patterns over runs of adjacent classes: all counts from every class in both directions,
/// each valued by the definition in [`crate::patterns`]. Values do not depend on prices, so
/// they are worked out once a trainer, when it is first priced.
#[derive(Debug)]
pub struct Runs {
    pub(crate) horizon: f64,
    /// Nodes of each class that nobody holds.
    pub(crate) free: Vec<u32>,
    /// Nodes of each class in all.
    pub(crate) all: Vec<u32>,
    /// Nodes of each class that are free or held by trainers that may take any node set.
    pub(crate) loose: Vec<u32>,
    /// When each class leaves, by scenario, seconds from now.
    pub(crate) leaves: Vec<Vec<f64>>,
    pub(crate) trainers: Vec<Trainer>,
    tables: Vec<Option<Table>>,
}

impl Runs {
    /// Patterns for these trainers: `free[k]` nodes of class k are held by nobody, classes in
    /// the order in which the scheduler takes nodes; `leaves[s][k]` is when class k leaves in
    /// scenario s, seconds from now (infinite: not at all; in the past: now). Scenarios are
    /// equally likely. Rates go on as they end for a trainer that holds more nodes than it has
    /// rates for.
    ///
    /// # Errors
    /// [`RunsError`] says what makes no sense.
    pub fn new(
        horizon_s: f64,
        free: Vec<u32>,
        mut leaves: Vec<Vec<f64>>,
        trainers: Vec<Trainer>,
    ) -> Result<Self, RunsError> {
        if !(horizon_s.is_finite() && horizon_s > 0.0) {
            return Err(RunsError::Horizon(horizon_s));
        }
        let classes = free.len();
        let sound = |scenario: &Vec<f64>| {
            scenario.len() == classes && !scenario.iter().any(|leave| leave.is_nan())
        };
        let bad = leaves.iter().position(|scenario| !sound(scenario));
        if let Some(scenario) = bad.or_else(|| leaves.is_empty().then_some(0)) {
            return Err(RunsError::Scenario { scenario, classes });
        }
        for leave in leaves.iter_mut().flatten() {
            // Also makes -0.0 a plain 0, which compares as equal bit by bit.
            *leave = if *leave > 0.0 { *leave } else { 0.0 };
        }
        let mut all = free.clone();
        let mut loose = free.clone();
        for (j, trainer) in trainers.iter().enumerate() {
            check(trainer, classes).map_err(|what| RunsError::Trainer { trainer: j, what })?;
            for &(k, n) in &trainer.held {
                let add = |counts: &mut Vec<u32>| {
                    if let Some(count) = counts.get_mut(k as usize) {
                        *count = count.saturating_add(n);
                    }
                };
                add(&mut all);
                if trainer.charges.any.is_some() {
                    add(&mut loose);
                }
            }
        }
        // Differences of counts must fit a signed number.
        let most = |count: &u32| *count <= i32::MAX as u32 / 2;
        if !all.iter().all(most) {
            return Err(RunsError::Trainer {
                trainer: 0,
                what: "a class has too many nodes",
            });
        }
        Ok(Self {
            horizon: horizon_s,
            free,
            all,
            loose,
            leaves,
            tables: trainers.iter().map(|_| None).collect(),
            trainers,
        })
    }

    /// Free nodes of each class: the capacities to solve with.
    #[must_use]
    pub fn capacity(&self) -> &[u32] {
        &self.free
    }

    /// How many scenarios there are.
    #[must_use]
    pub fn scenarios(&self) -> usize {
        self.leaves.len()
    }

    /// What so many nodes of each class are worth to trainer `j`, charges for the change not
    /// taken off; nothing for a trainer that does not exist. By the definition, node set by
    /// node set: what the tables of patterns must agree with.
    #[must_use]
    pub fn value(&self, j: usize, nodes: &[(u32, u32)]) -> f64 {
        let Some(trainer) = self.trainers.get(j) else {
            return 0.0;
        };
        let mut profile = Profile::default();
        let mut sum = 0.0;
        for scenario in &self.leaves {
            profile.clear();
            for &(k, n) in nodes {
                let leave = scenario.get(k as usize).copied().unwrap_or(0.0);
                profile.add(leave, n, self.horizon);
            }
            sum += profile.value(&trainer.rates, self.horizon, trainer.stall_s);
        }
        sum / self.leaves.len() as f64
    }

    /// The pattern that a column's tag stands for; nothing for a tag that is not of here.
    #[must_use]
    pub fn pattern(tag: u64) -> Option<Pattern> {
        words(tag)
    }

    /// How many patterns of trainer `j` there are; works them out if need be.
    pub fn patterns(&mut self, j: usize) -> usize {
        self.table(j).map_or(0, |table| table.len() + 1)
    }

    fn table(&mut self, j: usize) -> Option<&Table> {
        if self.tables.get(j)?.is_none() {
            let table = Table::new(self, j)?;
            if let Some(slot) = self.tables.get_mut(j) {
                *slot = Some(table);
            }
        }
        self.tables.get(j)?.as_ref()
    }
}

fn check(trainer: &Trainer, classes: usize) -> Result<(), &'static str> {
    let rates = &trainer.rates;
    let charges = &trainer.charges;
    if rates.is_empty() || !rates.iter().all(|r| r.is_finite() && *r >= 0.0) {
        return Err("rates must be finite and not negative");
    }
    let costs = [charges.grow, charges.shrink, charges.any.unwrap_or(0.0)];
    if !costs.iter().all(|c| c.is_finite() && *c >= 0.0) {
        return Err("charges must be finite and not negative");
    }
    if !(trainer.stall_s.is_finite() && trainer.stall_s >= 0.0) {
        return Err("the stall must be finite and not negative");
    }
    let held = &trainer.held;
    let known = |&(k, n): &(u32, u32)| (k as usize) < classes && n > 0;
    if !held.is_sorted_by(|a, b| a.0 < b.0) || !held.iter().all(known) {
        return Err("held nodes must be of known classes, ascending, and not none");
    }
    let total = held.iter().try_fold(0_u32, |sum, h| sum.checked_add(h.1));
    match total {
        Some(total) if total <= i32::MAX as u32 / 2 => Ok(()),
        _ => Err("too many nodes are held"),
    }
}

impl Trainer {
    /// Nodes that it holds now.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        self.held.iter().fold(0, |sum, h| sum.saturating_add(h.1))
    }

    /// Most nodes that it can use.
    #[must_use]
    pub fn max_nodes(&self) -> u32 {
        u32::try_from(self.rates.len().saturating_sub(1)).unwrap_or(u32::MAX)
    }

    /// Rate at its present size.
    #[must_use]
    pub fn rate_now(&self) -> f64 {
        rate(&self.rates, self.nodes())
    }
}

impl Patterns for Runs {
    fn trainers(&self) -> usize {
        self.trainers.len()
    }

    fn keep(&mut self, j: usize) -> Column {
        let held = self.trainers.get(j).map(|trainer| trainer.held.clone());
        Column {
            trainer: u32::try_from(j).unwrap_or(u32::MAX),
            take: Vec::new(),
            value: self.value(j, &held.unwrap_or_default()),
            tag: tag(Kind::Keep, 0, 0, 0),
        }
    }

    fn price(&mut self, j: usize, price: &[f64], out: &mut Vec<Column>) {
        if self.table(j).is_some()
            && let (Some(Some(table)), Some(trainer)) = (self.tables.get(j), self.trainers.get(j))
        {
            table.price(trainer, price, out);
        }
    }

    fn fit(&mut self, j: usize, free: &[i64], price: &[f64], out: &mut Vec<Column>) {
        if let (Some(table), Some(trainer)) = (Table::within(self, j, free), self.trainers.get(j)) {
            table.fit(trainer, free, price, out);
        }
    }
}
