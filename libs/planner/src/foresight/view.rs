//! The holes as their forecasts show them: in order, with links, and without what is in doubt.

use lacuna_model::Doubt;

use super::lineup::{Line, is_curve};
use crate::decider::{Foretold, Situation};

/// The slots of a situation that can be allocated by forecasts, that which is expected to end first
/// first.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct View {
    /// Their places among the slots of the situation.
    pub(super) slots: Vec<u32>,
    /// The forecast of each, with what is announced for it.
    pub(super) curve: Vec<u32>,
    /// The holes as they are lined up.
    pub(super) line: Line,
    /// For each candidate: whether it holds a hole whose forecast is broken.
    pub(super) frozen: Vec<bool>,
    /// What was left out, and why.
    pub(super) doubts: Vec<Doubt>,
}

impl View {
    /// Looks at the pool of a situation; how long holes are expected to stay is counted up to
    /// `horizon_s`.
    ///
    /// # Errors
    /// The doubt that forbids to allocate anything.
    pub(super) fn new(
        situation: &Situation<'_>,
        foretold: &Foretold<'_>,
        horizon_s: f64,
    ) -> Result<Self, Doubt> {
        let (pool, holes) = (foretold.pool, foretold.holes);
        let sound: Vec<bool> = pool.forecasts.iter().map(is_curve).collect();
        let sound_at = |hole: u32| {
            let pooled = pool.holes.get(hole as usize);
            pooled.is_some_and(|p| sound.get(p.forecast as usize) == Some(&true))
        };
        let broken = holes.iter().filter(|&&hole| !sound_at(hole)).count();
        if broken > 0 && broken == holes.len() {
            return Err(Doubt::NoForecast);
        }
        let mut view = Self {
            slots: Vec::with_capacity(situation.slots.len()),
            curve: Vec::with_capacity(situation.slots.len()),
            line: Line::default(),
            frozen: vec![false; situation.candidates.len()],
            doubts: Vec::new(),
        };
        if broken > 0 {
            let holes = u32::try_from(broken).unwrap_or(u32::MAX);
            view.doubts.push(Doubt::BrokenForecasts { holes });
        }
        for (slot, &hole) in situation.slots.iter().zip(holes) {
            let owner = slot.owner.filter(|_| !sound_at(hole));
            if let Some(frozen) = owner.and_then(|j| view.frozen.get_mut(j as usize)) {
                *frozen = true;
            }
        }
        let mut slot_of = vec![None; pool.holes.len()];
        for (slot, (of, &hole)) in (0_u32..).zip(situation.slots.iter().zip(holes)) {
            let frozen = of.owner.and_then(|j| view.frozen.get(j as usize));
            if sound_at(hole)
                && frozen != Some(&true)
                && let Some(place) = slot_of.get_mut(hole as usize)
            {
                *place = Some(slot);
            }
        }
        let slot_of = |hole: u32| slot_of.get(hole as usize).copied().flatten();
        let line = Line::new(foretold, |hole| slot_of(hole).is_some(), horizon_s)?;
        for &hole in &line.holes {
            let pooled = pool.holes.get(hole as usize);
            view.slots.extend(slot_of(hole));
            view.curve.push(pooled.map_or(u32::MAX, |p| p.forecast));
        }
        view.line = line;
        Ok(view)
    }
}
