//! The holes as their forecasts show them: in order, with links, and without what is in doubt.

use lacuna_model::{Doubt, Forecast, Joint, OrderSource, Pool};

use crate::translate::Translated;

/// The slots of a case that can be allocated by forecasts, that which is expected to end first
/// first.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct View {
    /// Their places among the slots of the case.
    pub(super) slots: Vec<u32>,
    /// The forecast of each.
    pub(super) curve: Vec<u32>,
    /// For each but the last: probability that it and the next end in the same event.
    pub(super) link: Vec<f32>,
    /// Where the order comes from.
    pub(super) source: OrderSource,
    /// For each trainer of the case: whether it holds a hole whose forecast is broken.
    pub(super) frozen: Vec<bool>,
    /// What was left out, and why.
    pub(super) doubts: Vec<Doubt>,
}

impl View {
    /// Looks at the pool of a case; how long holes are expected to stay is counted up to
    /// `horizon_s`.
    ///
    /// # Errors
    /// The doubt that forbids to allocate anything.
    pub(super) fn new(case: &Translated, pool: &Pool, horizon_s: f64) -> Result<Self, Doubt> {
        let sound: Vec<bool> = pool.forecasts.iter().map(is_sound).collect();
        let sound_at = |hole: u32| {
            let pooled = pool.holes.get(hole as usize);
            pooled.is_some_and(|p| sound.get(p.forecast as usize) == Some(&true))
        };
        let broken = case.holes.iter().filter(|&&hole| !sound_at(hole)).count();
        if broken > 0 && broken == case.holes.len() {
            return Err(Doubt::NoForecast);
        }
        let mut view = Self {
            slots: Vec::with_capacity(case.slots.len()),
            curve: Vec::with_capacity(case.slots.len()),
            link: Vec::with_capacity(case.slots.len()),
            source: OrderSource::Expectation,
            frozen: vec![false; case.trainers.len()],
            doubts: Vec::new(),
        };
        if broken > 0 {
            let holes = u32::try_from(broken).unwrap_or(u32::MAX);
            view.doubts.push(Doubt::BrokenForecasts { holes });
        }
        for (slot, &hole) in case.slots.iter().zip(&case.holes) {
            let owner = slot.owner.filter(|_| !sound_at(hole));
            if let Some(frozen) = owner.and_then(|j| view.frozen.get_mut(j as usize)) {
                *frozen = true;
            }
        }
        let mut slot_of = vec![None; pool.holes.len()];
        for (slot, (of, &hole)) in (0_u32..).zip(case.slots.iter().zip(&case.holes)) {
            let frozen = of.owner.and_then(|j| view.frozen.get(j as usize));
            if sound_at(hole)
                && frozen != Some(&true)
                && let Some(place) = slot_of.get_mut(hole as usize)
            {
                *place = Some(slot);
            }
        }
        match &pool.joint {
            Some(joint) => view.follow(joint, pool, &slot_of)?,
            None => view.sort(case, pool, &slot_of, horizon_s),
        }
        Ok(view)
    }

    /// In the order of the scheduler. Where holes are left out between two, these end together
    /// with at least the product of the links between them.
    fn follow(&mut self, joint: &Joint, pool: &Pool, slot_of: &[Option<u32>]) -> Result<(), Doubt> {
        if !is_order(joint, pool.holes.len()) {
            return Err(Doubt::BrokenOrder);
        }
        self.source = OrderSource::Scheduler;
        let mut together = 1.0;
        for (at, &hole) in joint.order.iter().enumerate() {
            let slot = slot_of.get(hole as usize).copied().flatten();
            if let Some(slot) = slot {
                if !self.slots.is_empty() {
                    self.link.push(together);
                }
                together = 1.0;
                self.push(slot, hole, pool);
            }
            together *= joint.link.get(at).copied().unwrap_or(0.0);
        }
        Ok(())
    }

    /// By what is expected of each, then as released; nothing is known of who ends together.
    fn sort(&mut self, case: &Translated, pool: &Pool, slot_of: &[Option<u32>], horizon_s: f64) {
        let mean = |forecast: &Forecast| forecast.mean_within(horizon_s);
        let means: Vec<f64> = pool.forecasts.iter().map(mean).collect();
        let mut order: Vec<(f64, i64, u32, u32)> = Vec::with_capacity(slot_of.len());
        for (hole, slot) in (0_u32..).zip(slot_of) {
            let Some(slot) = *slot else { continue };
            let pooled = pool.holes.get(hole as usize);
            let stay = pooled.and_then(|p| means.get(p.forecast as usize));
            let since = case.slots.get(slot as usize).map_or(0, |s| s.since_ms);
            order.push((stay.copied().unwrap_or(0.0), since, hole, slot));
        }
        order.sort_by(|a, b| {
            let by_stay = a.0.total_cmp(&b.0);
            by_stay.then_with(|| (a.1, a.2).cmp(&(b.1, b.2)))
        });
        for (_, _, hole, slot) in order {
            self.push(slot, hole, pool);
        }
        self.link = vec![0.0; self.slots.len().saturating_sub(1)];
    }

    fn push(&mut self, slot: u32, hole: u32, pool: &Pool) {
        let pooled = pool.holes.get(hole as usize);
        self.slots.push(slot);
        self.curve.push(pooled.map_or(u32::MAX, |p| p.forecast));
    }
}

/// Whether it is a survival curve that leaves the hole open now and says something of later.
fn is_sound(forecast: &Forecast) -> bool {
    let mut before = (0.0, 1.0);
    for point in &forecast.points {
        let later = point.after_s.is_finite() && point.after_s > before.0;
        if !later || !(0.0..=before.1).contains(&point.open) {
            return false;
        }
        before = (point.after_s, point.open);
    }
    !forecast.points.is_empty()
}

/// Whether it is an order of so many holes with a probability for each pair of neighbours.
fn is_order(joint: &Joint, holes: usize) -> bool {
    let mut seen = vec![false; holes];
    let mut first = |&place: &u32| {
        seen.get_mut(place as usize)
            .is_some_and(|seen| !std::mem::replace(seen, true))
    };
    joint.order.len() == holes
        && joint.order.iter().all(&mut first)
        && joint.link.len() == holes.saturating_sub(1)
        && joint.link.iter().all(|link| (0.0..=1.0).contains(link))
}
