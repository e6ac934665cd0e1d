//! The batch with the largest goodput within the user's bounds.
//!
//! At `K` replicas a batch is `K m (a + 1)`, or the largest batch where rounding up to whole `m`
//! would pass that: shares then differ by a sample. With as few passes as fit, `a + 1 = ceil(m /
//! m_max)`, the goodput of each `a` is searched over `m` by thirds, and the fifty geometric totals
//! of the published search are tried too. So the answer is never below the published one.

use crate::error::Error;
use crate::noise::Noise;
use crate::profile::StepTimes;
use crate::step::Layout;

/// Geometric totals of the published search.
const TOTALS: u32 = 50;
/// Numbers of passes that are tried at most; beyond it the totals of the published search remain.
const PASSES: u32 = 64;

/// The user's bounds of the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    first: u32,
    max: u32,
    min_local: u32,
    max_local: u32,
    accumulation: bool,
}

impl Bounds {
    /// `first`: the user's batch `M0`. `max`: the largest batch. `local`: least and most samples of
    /// a replica in a pass, whose upper end is what its memory holds. `accumulation`: whether
    /// several passes may precede a step.
    ///
    /// # Errors
    /// [`Error::Bounds`] if they contradict each other, [`Error::Value`] for zeros.
    pub fn new(first: u32, max: u32, local: (u32, u32), accumulation: bool) -> Result<Self, Error> {
        let (min_local, max_local) = local;
        for (what, value) in [
            ("the user's batch", first),
            ("the least samples of a pass", min_local),
        ] {
            if value == 0 {
                return Err(Error::Value {
                    what,
                    value: 0.0,
                    expected: "1 or more",
                });
            }
        }
        let pairs = [
            ("the user's batch", first, "the largest batch", max),
            (
                "the least samples of a pass",
                min_local,
                "the most samples of a pass",
                max_local,
            ),
        ];
        for (low_name, low, high_name, high) in pairs {
            if low > high {
                return Err(Error::Bounds {
                    low_name,
                    low: f64::from(low),
                    high_name,
                    high: f64::from(high),
                });
            }
        }
        Ok(Self {
            first,
            max,
            min_local,
            max_local,
            accumulation,
        })
    }

    /// The user's batch, `M0`.
    #[must_use]
    pub const fn first(&self) -> u32 {
        self.first
    }

    /// The largest batch.
    #[must_use]
    pub const fn max(&self) -> u32 {
        self.max
    }
}

/// A batch, and what it gives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    /// How the batch lies on nodes; its samples of a pass are those of the largest share.
    pub layout: Layout,
    /// Samples of the step.
    pub batch: f64,
    /// Samples a second.
    pub throughput: f64,
    /// Worth of a sample, of 0 to 1.
    pub efficiency: f64,
    /// Samples of the user's batch a second.
    pub goodput: f64,
}

impl Choice {
    /// The choice of a layout.
    ///
    /// # Errors
    /// [`Error::Value`] if its batch is below the user's.
    pub fn of(
        times: &impl StepTimes,
        noise: Noise,
        bounds: &Bounds,
        layout: Layout,
    ) -> Result<Self, Error> {
        Self::with(times, noise, bounds, layout, bounds.max)
    }

    /// The choice of a layout with `most` samples at most: where shares differ by a sample, the
    /// layout has the largest one.
    pub(crate) fn with(
        times: &impl StepTimes,
        noise: Noise,
        bounds: &Bounds,
        layout: Layout,
        most: u32,
    ) -> Result<Self, Error> {
        let batch = layout.batch().min(f64::from(most));
        let throughput = batch / times.step_s(layout);
        let efficiency = noise.efficiency(batch / f64::from(bounds.first))?;
        Ok(Self {
            layout,
            batch,
            throughput,
            efficiency,
            goodput: throughput * efficiency,
        })
    }
}

/// The best batch of `replicas` processes on `nodes` nodes. Of equal ones, the smallest.
///
/// # Errors
/// [`Error::NoBatch`] if no batch of the bounds fits the replicas, and as [`Layout::new`].
pub fn best(
    times: &impl StepTimes,
    noise: Noise,
    bounds: &Bounds,
    nodes: u32,
    replicas: u32,
) -> Result<Choice, Error> {
    Layout::new(nodes, replicas, bounds.min_local, 0)?;
    let none = Error::NoBatch {
        replicas,
        max: bounds.max,
        min_local: bounds.min_local,
    };
    if u64::from(replicas) * u64::from(bounds.min_local) > u64::from(bounds.max) {
        return Err(none);
    }
    let search = Search {
        times,
        noise,
        bounds,
        nodes,
        replicas,
    };
    let mut best: Option<Choice> = None;
    let mut offer = |choice: Option<Choice>| {
        if let Some(choice) = choice
            && best.is_none_or(|best| choice.goodput > best.goodput)
        {
            best = Some(choice);
        }
    };
    let passes = if bounds.accumulation { PASSES } else { 1 };
    for further in 0..passes {
        if let Some((low, high)) = search.range(further) {
            offer(search.by_thirds(further, low, high));
        }
    }
    for layout in search.totals() {
        offer(search.at(layout.0, layout.1));
    }
    best.ok_or(none)
}

struct Search<'a, T> {
    times: &'a T,
    noise: Noise,
    bounds: &'a Bounds,
    nodes: u32,
    replicas: u32,
}

impl<T: StepTimes> Search<'_, T> {
    /// The choice with `local` samples a pass and `further` passes, if the bounds have it.
    fn at(&self, local: u32, further: u32) -> Option<Choice> {
        let bounds = self.bounds;
        if !(bounds.min_local..=bounds.max_local).contains(&local) {
            return None;
        }
        let layout = Layout::new(self.nodes, self.replicas, local, further).ok()?;
        let smaller = layout.batch() - f64::from(self.replicas) * (f64::from(further) + 1.0);
        if layout.batch() < f64::from(bounds.first) || smaller >= f64::from(bounds.max) {
            return None;
        }
        Choice::of(self.times, self.noise, bounds, layout).ok()
    }

    /// Samples of a pass that the bounds allow at `further` passes, and that need as many.
    fn range(&self, further: u32) -> Option<(u32, u32)> {
        let bounds = self.bounds;
        let of_step = u64::from(self.replicas) * (u64::from(further) + 1);
        let fewer = u64::from(bounds.max_local) * u64::from(further) / (u64::from(further) + 1) + 1;
        let least = u64::from(bounds.first).div_ceil(of_step);
        let low = least.max(u64::from(bounds.min_local)).max(fewer);
        let high = u64::from(bounds.max_local).min(u64::from(bounds.max).div_ceil(of_step));
        let narrow = |value: u64| u32::try_from(value).ok();
        (low <= high).then_some(narrow(low).zip(narrow(high)))?
    }

    /// The best of a range of samples of a pass, whose goodput rises and then falls.
    fn by_thirds(&self, further: u32, mut low: u32, mut high: u32) -> Option<Choice> {
        let worth = |local: u32| self.at(local, further).map_or(0.0, |c| c.goodput);
        while high - low > 3 {
            let third = (high - low) / 3;
            if worth(low + third) < worth(high - third) {
                low += third;
            } else {
                high -= third;
            }
        }
        let all = (low..=high).filter_map(|local| self.at(local, further));
        all.fold(None, |best: Option<Choice>, next| match best {
            Some(best) if best.goodput >= next.goodput => Some(best),
            _ => Some(next),
        })
    }

    /// Samples of a pass and further passes of the published search.
    fn totals(&self) -> Vec<(u32, u32)> {
        let bounds = self.bounds;
        let replicas = f64::from(self.replicas);
        let low = f64::from(bounds.first).max(f64::from(bounds.min_local) * replicas);
        let high = f64::from(bounds.max);
        if low > high {
            return Vec::new();
        }
        (0..TOTALS)
            .map(|i| {
                let share = f64::from(i) / f64::from(TOTALS - 1);
                let local = low * (high / low).powf(share) / replicas;
                let further = if bounds.accumulation {
                    ((local / f64::from(bounds.max_local) - 1e-8).ceil() - 1.0).max(0.0)
                } else {
                    0.0
                };
                (
                    (local / (further + 1.0) - 1e-8).ceil() as u32,
                    further as u32,
                )
            })
            .collect()
    }
}
