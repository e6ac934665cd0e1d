//! The holes as their forecasts show them: in order, with links, and without what is in doubt.

use lacuna_model::Doubt;

use super::lineup::{Line, is_curve};
use crate::decider::{Foretold, Situation};
use crate::ordinal::{At, Candidate, Hole, Per, Place, Slot};

/// The slots of a situation that can be allocated by forecasts, that which is expected to end first
/// first.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct View {
    /// Their places among the slots of the situation.
    pub(super) slots: Per<Place, Vec<At<Slot>>>,
    /// The forecast of each, with what is announced for it.
    pub(super) curve: Per<Place, Vec<u32>>,
    /// The holes as they are lined up.
    pub(super) line: Line,
    /// For each candidate: whether it holds a hole whose forecast is broken.
    pub(super) frozen: Per<Candidate, Vec<bool>>,
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
        let pool = foretold.pool;
        let curves: Vec<bool> = pool.forecasts.iter().map(is_curve).collect();
        let is_sound = |forecast: u32| curves.get(forecast as usize) == Some(&true);
        let forecast: Per<Hole, Vec<u32>> =
            Per::new(pool.holes.iter().map(|pooled| pooled.forecast).collect());
        // Of each slot its hole, and whether that has a forecast.
        let mut slots = Vec::with_capacity(situation.slots.len());
        for (slot, &hole) in situation.slots.iter().zip(foretold.holes) {
            let hole = At::new(hole);
            slots.push((
                slot.owner.map(At::new),
                hole,
                is_sound(*forecast.get(hole)?),
            ));
        }
        let slots: Per<Slot, _> = Per::new(slots);
        let broken = slots.iter().filter(|(_, (.., sound))| !sound).count();
        if broken > 0 && broken == slots.0.len() {
            return Err(Doubt::NoForecast);
        }
        let mut doubts = Vec::new();
        let mut frozen: Per<Candidate, _> = Per::new(vec![false; situation.candidates.len()]);
        if broken > 0 {
            let holes = broken as u32;
            doubts.push(Doubt::BrokenForecasts { holes });
            for (_, (owner, ..)) in slots.iter().filter(|(_, (.., sound))| !sound) {
                if let Some(owner) = *owner {
                    *frozen.get_mut(owner)? = true;
                }
            }
        }
        let mut slot_of: Per<Hole, Vec<Option<At<Slot>>>> = Per::new(vec![None; forecast.0.len()]);
        for (slot, &(owner, hole, sound)) in slots.iter() {
            let frozen = match owner {
                Some(owner) => *frozen.get(owner)?,
                None => false,
            };
            if sound && !frozen {
                *slot_of.get_mut(hole)? = Some(slot);
            }
        }
        let wanted: Vec<bool> = slot_of.0.iter().map(Option::is_some).collect();
        let line = Line::new(foretold, &Per::new(wanted), horizon_s)?;
        let (mut slots, mut curve) = (Vec::new(), Vec::new());
        for &hole in &line.holes.0 {
            slots.extend(*slot_of.get(hole)?);
            curve.push(*forecast.get(hole)?);
        }
        Ok(Self {
            slots: Per::new(slots),
            curve: Per::new(curve),
            line,
            frozen,
            doubts,
        })
    }
}
