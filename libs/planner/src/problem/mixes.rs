//! Mixes: counts of nodes of several kinds. A trainer has nodes of two kinds at most at a time.
//!
//! Where all nodes are of one kind, or no trainer tells kinds apart, a trainer has no
//! [`OnKinds`], and decisions are byte for byte those without kinds.

use std::sync::Arc;

use lacuna_model::MOST_KINDS;
pub use lacuna_rates::{Mix, NO_NODES};

/// A mix of nodes of the first two kinds.
#[must_use]
pub const fn pair(first: u32, second: u32) -> Mix {
    [first, second, 0, 0]
}

/// Nodes of a kind in a mix.
#[must_use]
pub(crate) fn count(mix: &Mix, kind: usize) -> u32 {
    mix.get(kind).copied().unwrap_or_default()
}

/// The mix with as many nodes of a kind as given.
#[must_use]
pub(crate) fn with_count(mut mix: Mix, kind: usize, nodes: u32) -> Mix {
    if let Some(count) = mix.get_mut(kind) {
        *count = nodes;
    }
    mix
}

/// The sum of mixes.
pub(crate) fn sum(mixes: impl IntoIterator<Item = Mix>) -> Mix {
    mixes.into_iter().fold(NO_NODES, |sum, mix| {
        std::array::from_fn(|kind| count(&sum, kind).saturating_add(count(&mix, kind)))
    })
}

/// What is left of some nodes without others; none of a kind of which there are too few.
pub(crate) fn less(nodes: Mix, used: Mix) -> Mix {
    std::array::from_fn(|kind| count(&nodes, kind).saturating_sub(count(&used, kind)))
}

/// The nodes of each kind of each trainer, from owners and kinds of slots.
#[must_use]
pub fn mixes_of(trainers: usize, slots: impl IntoIterator<Item = (Option<u32>, u8)>) -> Vec<Mix> {
    let mut mixes = vec![NO_NODES; trainers];
    for (owner, kind) in slots {
        let mix = owner.and_then(|j| mixes.get_mut(j as usize));
        if let Some(count) = mix.and_then(|mix| mix.get_mut(usize::from(kind))) {
            *count += 1;
        }
    }
    mixes
}

/// All pairs of kinds, the first two first.
fn pairs() -> impl Iterator<Item = (usize, usize)> {
    (0..MOST_KINDS).flat_map(|i| (i + 1..MOST_KINDS).map(move |j| (i, j)))
}

/// A number for each mix of two kinds at most, up to a most mix. Minus infinity where a mix is
/// impossible. Each pair of kinds has a page, in rows of its first kind.
#[derive(Debug, Clone, PartialEq)]
pub struct MixTable {
    most: Mix,
    values: Arc<[f64]>,
}

/// A trainer over nodes of several kinds.
#[derive(Debug, Clone, PartialEq)]
pub struct OnKinds {
    /// Present nodes of each kind.
    pub current: Mix,
    /// Objective rate of each mix, objective units per second.
    pub value: MixTable,
    /// Stall of a start from no nodes with the wait for pilots, seconds at the rate after it.
    pub start_s: f64,
}

/// A mix in a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cell {
    page: (usize, usize),
    at: [u32; 2],
}

impl Cell {
    /// The two kinds of its page.
    pub(crate) const fn page(&self) -> (usize, usize) {
        self.page
    }

    /// Nodes of these.
    pub(crate) const fn at(&self) -> [u32; 2] {
        self.at
    }

    pub(crate) fn mix(&self) -> Mix {
        let ((i, j), [a, b]) = (self.page, self.at);
        with_count(with_count(NO_NODES, i, a), j, b)
    }

    /// Whether an earlier page has it.
    pub(crate) fn is_again(&self) -> bool {
        let ((i, _), [a, b]) = (self.page, self.at);
        i > 0 && a == 0 || self.page != (0, 1) && b == 0
    }
}

/// Whether a table with this most mix has a page of a pair of kinds: the first pair always.
fn has_page(most: &Mix, (i, j): (usize, usize)) -> bool {
    (i, j) == (0, 1) || count(most, j) > 0 && (i == 0 || count(most, i) > 0)
}

impl MixTable {
    /// The table of a function of mixes up to `most`. No nodes are always possible, for nothing.
    #[must_use]
    pub fn new(most: Mix, value: impl Fn(Mix) -> Option<f64>) -> Self {
        let at = |mix: Mix| match mix {
            NO_NODES => 0.0,
            _ => value(mix).unwrap_or(f64::NEG_INFINITY),
        };
        let pages = pairs().filter(|pair| has_page(&most, *pair));
        let mixes = pages.flat_map(|(i, j)| {
            let rows = 0..=count(&most, i);
            let columns = count(&most, j);
            let of = move |a, b| with_count(with_count(NO_NODES, i, a), j, b);
            rows.flat_map(move |a| (0..=columns).map(move |b| of(a, b)))
        });
        Self {
            most,
            values: mixes.map(at).collect(),
        }
    }

    /// Most nodes of each kind.
    #[must_use]
    pub const fn most(&self) -> Mix {
        self.most
    }

    /// The cells of a table that need no more than `nodes`, page by page and row by row. Mixes of one
    /// kind alone come again on later pages.
    pub(crate) fn cells(&self, nodes: Mix) -> impl Iterator<Item = Cell> + '_ {
        let most = self.most;
        let fits = move |kind| count(&most, kind).min(count(&nodes, kind));
        let pages = pairs().filter(move |pair| has_page(&most, *pair));
        pages.flat_map(move |(i, j)| {
            let cell = move |a, b| Cell {
                page: (i, j),
                at: [a, b],
            };
            (0..=fits(i)).flat_map(move |a| (0..=fits(j)).map(move |b| cell(a, b)))
        })
    }

    /// The highest number.
    pub(crate) fn highest(&self) -> f64 {
        self.values.iter().copied().fold(0.0, f64::max)
    }

    /// The number of a mix; minus infinity where it is impossible.
    #[must_use]
    pub fn at(&self, mix: Mix) -> f64 {
        let ([a, b, ..], [rows, columns, ..]) = (mix, self.most);
        if mix == pair(a, b) {
            if a > rows || b > columns {
                return f64::NEG_INFINITY;
            }
            let at = a as usize * (columns as usize + 1) + b as usize;
            return self.values.get(at).copied().unwrap_or(f64::NEG_INFINITY);
        }
        self.on_a_later_page(mix).unwrap_or(f64::NEG_INFINITY)
    }

    /// The number of a mix that has a kind beyond the second.
    fn on_a_later_page(&self, mix: Mix) -> Option<f64> {
        let mut used = (0..MOST_KINDS).filter(|kind| count(&mix, *kind) > 0);
        let on = match (used.next()?, used.next(), used.next()) {
            (kind, None, _) => (0, kind),
            (first, Some(second), None) => (first, second),
            _ => return None,
        };
        let (most, mut start) = (&self.most, 0);
        for (i, j) in pairs().filter(|pair| has_page(most, *pair)) {
            let (rows, columns) = (count(most, i) as usize, count(most, j) as usize);
            if (i, j) == on {
                let (a, b) = (count(&mix, i) as usize, count(&mix, j) as usize);
                let at = start + a * (columns + 1) + b;
                return (a <= rows && b <= columns).then(|| self.values.get(at).copied())?;
            }
            start += (rows + 1) * (columns + 1);
        }
        None
    }

    /// The table with each number changed by its mix.
    #[must_use]
    pub fn map(&self, to: impl Fn(Mix, f64) -> f64) -> Self {
        self.up_to(self.most, to)
    }

    /// As [`MixTable::map`], up to a smaller most mix.
    #[must_use]
    pub fn up_to(&self, most: Mix, to: impl Fn(Mix, f64) -> f64) -> Self {
        let fits = |kind| count(&most, kind).min(count(&self.most, kind));
        let at = |mix| Some(self.at(mix)).filter(|value| value.is_finite());
        Self::new(std::array::from_fn(fits), |mix| {
            at(mix).map(|value| to(mix, value))
        })
    }

    /// The table with each number times a factor.
    #[must_use]
    pub fn times(&self, factor: f64) -> Self {
        if factor == 1.0 {
            return self.clone();
        }
        let scaled = |value: &f64| {
            if value.is_finite() {
                value * factor
            } else {
                *value
            }
        };
        Self {
            most: self.most,
            values: self.values.iter().map(scaled).collect(),
        }
    }
}
