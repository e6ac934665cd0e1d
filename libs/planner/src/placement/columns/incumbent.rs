//! Incumbents without the mixed-integer program: the relaxation rounded and improved trainer by
//! trainer. They are the floor of the program.

use super::answer::Error;
use super::clock::Clock;
use super::master::Columns;
use super::{Column, Pricing};

/// Most passes over all trainers.
const PASSES: usize = 6;

/// Number of trainers, furthest below their best, that are paired with every other.
const SHORTEST: usize = 6;

/// A pattern for each trainer, within the capacities.
#[derive(Debug, Clone)]
pub(crate) struct Choice {
    pub(crate) chosen: Vec<Column>,
    /// Free nodes of each class; never below 0 between the steps here.
    free: Vec<i64>,
}

/// The context of a search: the columns, the pricing, and the patterns found on the way, which the
/// program can combine.
pub(crate) struct Search<'a> {
    pub(crate) columns: &'a Columns,
    pub(crate) patterns: &'a mut dyn Pricing,
    pub(crate) found: Vec<Column>,
    pub(super) clock: &'a Clock<'a>,
}

impl Search<'_> {
    /// The best pattern of trainer `j` within the free nodes, at these prices.
    fn fit(&mut self, j: usize, free: &[i64], price: &[f64]) -> Result<Option<Column>, Error> {
        let mut offers = Vec::new();
        self.patterns.fit(j, free, price, &mut offers);
        let mut best: Option<(f64, Column)> = None;
        for offer in offers {
            self.columns.check(&offer, Some(j))?;
            let reduced = offer.reduced(price);
            if best.as_ref().is_none_or(|best| reduced > best.0) {
                best = Some((reduced, offer));
            }
        }
        Ok(best.map(|(_, offer)| offer))
    }
}

impl Choice {
    /// Keeping for all.
    pub(crate) fn keep(columns: &Columns, capacity: &[u32]) -> Self {
        Self {
            chosen: columns.keeps().to_vec(),
            free: capacity.iter().map(|&c| i64::from(c)).collect(),
        }
    }

    /// Sum of the values.
    pub(crate) fn objective(&self) -> f64 {
        self.chosen.iter().map(|column| column.value).sum()
    }

    /// Gives a trainer this pattern if it fits beside all others.
    pub(crate) fn take(&mut self, column: &Column) -> bool {
        let Some(slot) = self.chosen.get_mut(column.trainer as usize) else {
            return false;
        };
        slot.release(&mut self.free);
        column.reserve(&mut self.free);
        // Only this change can overdraw a class. Other patterns may rely on the nodes that the old
        // pattern gave back, so all classes are checked.
        if self.free.iter().all(|&free| free >= 0) {
            *slot = column.clone();
            return true;
        }
        column.release(&mut self.free);
        slot.reserve(&mut self.free);
        false
    }

    /// Applies these patterns if they fit together. Else it applies as many as fit, those that give
    /// nodes back first. Trainers without one keep their pattern.
    pub(crate) fn lay<'a>(&mut self, wanted: impl Iterator<Item = &'a Column> + Clone) {
        let mut whole = self.clone();
        for column in wanted.clone() {
            if let Some(slot) = whole.chosen.get_mut(column.trainer as usize) {
                slot.release(&mut whole.free);
                column.reserve(&mut whole.free);
                *slot = column.clone();
            }
        }
        if whole.free.iter().all(|&free| free >= 0) {
            *self = whole;
            return;
        }
        let gives = |column: &&Column| column.take.iter().any(|&(_, n)| n < 0);
        for column in wanted.clone().filter(gives) {
            self.take(column);
        }
        for column in wanted {
            let slot = self.chosen.get(column.trainer as usize);
            if slot.is_some_and(|slot| slot.take != column.take) {
                self.take(column);
            }
        }
    }

    /// Rounds the relaxation. Patterns with the largest shares come first, each for its number of
    /// trainers. A pattern that does not fit is replaced by the best fitting one at the prices.
    /// `shake` perturbs the shares, for different roundings of one relaxation.
    pub(crate) fn round(
        &mut self,
        search: &mut Search<'_>,
        shares: &[f64],
        price: &[f64],
        mut shake: impl FnMut() -> f64,
    ) -> Result<(), Error> {
        // A share of 2.3 counts as two trainers and .3 of one.
        let mut parts: Vec<(f64, usize, u32)> = Vec::new();
        for (at, &share) in shares.iter().enumerate() {
            let whole = (share + 1e-6).floor();
            if whole >= 1.0 {
                parts.push((1.0 + shake(), at, whole as u32));
            }
            if share - whole > 1e-6 {
                parts.push((share - whole + shake(), at, 1));
            }
        }
        parts.sort_by(|a, b| b.0.total_cmp(&a.0));
        let parts = parts.into_iter().map(|(_, at, count)| (at, count));
        let wanted = search.columns.deal(parts);
        self.lay(wanted.iter());
        for wanted in &wanted {
            let j = wanted.trainer as usize;
            if self.chosen.get(j).is_none_or(|c| c.take != wanted.take) {
                self.refit(j, search, price)?;
            }
        }
        Ok(())
    }

    /// Gives each trainer the best pattern that fits beside the others, pass by pass, until no
    /// trainer improves. The objective never falls.
    pub(crate) fn improve(&mut self, search: &mut Search<'_>) -> Result<(), Error> {
        let nothing = vec![0.0; self.free.len()];
        for _ in 0..PASSES {
            let mut better = false;
            for j in 0..self.chosen.len() {
                better |= search.clock.left().is_some() && self.refit(j, search, &nothing)?;
            }
            if !better {
                break;
            }
        }
        Ok(())
    }

    /// Re-decides pairs: each trainer furthest below its best at the prices with every other. Both
    /// give their nodes back, one chooses at the prices, then the other, then the first again. The
    /// better choice stays. `tops` are the best reduced values.
    pub(crate) fn exchange(
        &mut self,
        search: &mut Search<'_>,
        tops: &[f64],
        price: &[f64],
    ) -> Result<bool, Error> {
        let short = |(top, column): (&f64, &Column)| top - column.reduced(price);
        let shorts = tops.iter().zip(&self.chosen).map(short);
        let mut order: Vec<(usize, f64)> = shorts.enumerate().collect();
        order.sort_by(|a, b| b.1.total_cmp(&a.1));
        let mut better = false;
        for (place, &(i, _)) in order.iter().take(SHORTEST).enumerate() {
            for &(j, _) in order.iter().skip(place + 1) {
                for (first, second) in [(i, j), (j, i)] {
                    if search.clock.left().is_none() {
                        return Ok(better);
                    }
                    better |= self.pair(search, first, second, price)?;
                }
            }
        }
        Ok(better)
    }

    /// Lets two trainers give back and choose again, the first at the prices. True if the objective
    /// rose.
    fn pair(
        &mut self,
        search: &mut Search<'_>,
        first: usize,
        second: usize,
        price: &[f64],
    ) -> Result<bool, Error> {
        let before = self.objective();
        let columns = search.columns;
        let (a, b) = (columns.keep_of(first)?, columns.keep_of(second)?);
        let mut other = self.clone();
        if !(other.take(a) && other.take(b)) {
            return Ok(false);
        }
        let nothing = vec![0.0; self.free.len()];
        other.refit(first, search, price)?;
        other.refit(second, search, &nothing)?;
        other.refit(first, search, &nothing)?;
        let better = other.objective() > before + 1e-12 * before.abs();
        if better {
            *self = other;
        }
        Ok(better)
    }

    /// Gives trainer `j` the best pattern at these prices that fits beside the others. True if its
    /// pattern changed.
    fn refit(&mut self, j: usize, search: &mut Search<'_>, price: &[f64]) -> Result<bool, Error> {
        let Some(now) = self.chosen.get(j) else {
            return Ok(false);
        };
        now.release(&mut self.free);
        let offer = search.fit(j, &self.free, price);
        now.reserve(&mut self.free);
        let Some(offer) = offer? else {
            return Ok(false);
        };
        let bar = now.reduced(price);
        let better = offer.reduced(price) > bar + 1e-12 * bar.abs() && self.take(&offer);
        if better {
            search.found.push(offer);
        }
        Ok(better)
    }
}
