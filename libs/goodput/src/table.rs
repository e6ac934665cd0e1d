//! The worth of each number of nodes.
//!
//! `O(n)` is the goodput at `n` nodes with the best batch there, over that at the least size of the
//! trainer. It may dip: the step from one node to two pays the whole latency of the network.
//! Nothing here smooths that.

use crate::batch::{Bounds, Choice, best};
use crate::error::Error;
use crate::noise::Noise;
use crate::profile::StepTimes;
use crate::step::Layout;

/// Relative move of a size's worth from which a new table is news.
const NEWS: f64 = 0.05;

/// How the batch of a size follows from its nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchRule {
    /// The best one within the bounds ([`best`]).
    Best,
    /// This many samples on each node, as far as the largest batch goes.
    PerNode(u32),
    /// The user's at each size.
    Whole,
}

impl BatchRule {
    fn choose(
        self,
        times: &impl StepTimes,
        noise: Noise,
        bounds: &Bounds,
        nodes: u32,
        replicas: u32,
    ) -> Result<Choice, Error> {
        let batch = match self {
            Self::Best => return best(times, noise, bounds, nodes, replicas),
            Self::PerNode(samples) => samples.saturating_mul(nodes).min(bounds.max()),
            Self::Whole => bounds.first(),
        };
        let layout = Layout::new(nodes, replicas, batch.div_ceil(replicas.max(1)), 0)?;
        Choice::with(times, noise, bounds, layout, batch)
    }
}

/// A size of the table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Entry {
    /// The best batch there; none if no batch within the bounds fits.
    pub choice: Option<Choice>,
    /// Goodput, samples of the user's batch a second; 0 without a batch.
    pub goodput: f64,
}

/// Goodput by node count.
#[derive(Debug, Clone, PartialEq)]
pub struct GoodputCurve {
    entries: Vec<Entry>,
    first: u32,
}

impl GoodputCurve {
    /// The table of `0..=max_nodes` nodes, with `per_node` replicas on each, and the batch of a
    /// rule. Sizes below `min_nodes` are worth nothing.
    ///
    /// # Errors
    /// [`Error::Bounds`] if the sizes contradict each other, [`Error::Value`] for zeros, and for a
    /// rule whose batch at the least size is below the user's; [`Error::NoBatch`] if the least size
    /// has no batch.
    pub fn new(
        times: &impl StepTimes,
        noise: Noise,
        bounds: &Bounds,
        rule: BatchRule,
        sizes: (u32, u32),
        per_node: u32,
    ) -> Result<Self, Error> {
        let (min_nodes, max_nodes) = sizes;
        for (what, value) in [
            ("the least size", min_nodes),
            ("replicas of a node", per_node),
        ] {
            if value == 0 {
                return Err(Error::Value {
                    what,
                    value: 0.0,
                    expected: "1 or more",
                });
            }
        }
        if min_nodes > max_nodes {
            return Err(Error::Bounds {
                low_name: "the least size",
                low: f64::from(min_nodes),
                high_name: "the largest size",
                high: f64::from(max_nodes),
            });
        }
        let choose =
            |nodes: u32| rule.choose(times, noise, bounds, nodes, nodes.saturating_mul(per_node));
        choose(min_nodes)?;
        let entries = (0..=max_nodes)
            .map(|nodes| {
                let choice = if nodes < min_nodes {
                    None
                } else {
                    choose(nodes).ok()
                };
                Entry {
                    choice,
                    goodput: choice.map_or(0.0, |choice| choice.goodput),
                }
            })
            .collect();
        Ok(Self {
            entries,
            first: min_nodes,
        })
    }

    /// The sizes `0..=max_nodes`.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Worth of `0..=max_nodes` nodes over that of the least size.
    #[must_use]
    pub fn worth(&self) -> Vec<f64> {
        let least = self.entries.get(self.first as usize);
        let one = least.map_or(1.0, |entry| entry.goodput);
        self.entries
            .iter()
            .map(|entry| entry.goodput / one)
            .collect()
    }

    /// Whether the worth of a size has moved by more than 5 % since the published table, or other
    /// sizes are known.
    #[must_use]
    pub fn is_news(&self, published: &Self) -> bool {
        let (new, old) = (self.worth(), published.worth());
        let moved = |(new, old): (&f64, &f64)| (new - old).abs() > NEWS * old.abs();
        new.len() != old.len() || new.iter().zip(&old).any(moved)
    }
}
