//! The view of a pool: its holes in departure order, with links, without doubtful ones.

use lacuna_model::Doubt;

use super::line::{Line, is_curve};
use crate::problem::ordinal::{At, Candidate, Hole, Per, Place, Slot};
use crate::problem::{PoolForecast, Situation};

/// The slots of a situation that forecasts can allocate, in departure order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct View {
    /// Their places among the slots of the situation.
    pub(crate) slots: Per<Place, Vec<At<Slot>>>,
    /// Forecast of each slot, with its announced end taken in.
    pub(crate) curve: Per<Place, Vec<u32>>,
    /// The holes of these slots, in the same order.
    pub(crate) line: Line,
    /// For each candidate: whether it holds a hole with a broken forecast.
    pub(crate) frozen: Per<Candidate, Vec<bool>>,
    /// Doubts about the slots that were left out.
    pub(crate) doubts: Vec<Doubt>,
}

impl View {
    /// The view of the pool of a situation, with the expected stay of holes counted up to
    /// `horizon_s`.
    ///
    /// # Errors
    /// The doubt that forbids any allocation.
    pub(crate) fn new(
        situation: &Situation<'_>,
        pool_forecast: &PoolForecast<'_>,
        horizon_s: f64,
    ) -> Result<Self, Doubt> {
        let pool = pool_forecast.pool;
        let curves: Vec<bool> = pool.forecasts.iter().map(is_curve).collect();
        let is_sound = |forecast: u32| curves.get(forecast as usize) == Some(&true);
        let forecast: Per<Hole, Vec<u32>> =
            Per::new(pool.holes.iter().map(|pooled| pooled.forecast).collect());
        // Owner and hole of each slot, and whether the hole has a sound forecast.
        let mut slots = Vec::with_capacity(situation.slots.len());
        for (slot, &hole) in situation.slots.iter().zip(pool_forecast.holes) {
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
        let line = Line::new(pool_forecast, &Per::new(wanted), horizon_s)?;
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
