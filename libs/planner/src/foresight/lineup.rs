//! The holes of a pool in the order in which they are expected to end.

use lacuna_model::{Announced, Doubt, Forecast, Joint, OrderSource, Pool};

use crate::decider::Foretold;
use crate::joint::{Curves, Lineup, Listed as AsListed, Promise, Scenarios};
use crate::ordinal::{At, Hole, Listed, Per, Place};

/// Holes of a pool, lined up.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Line {
    /// That which is expected to end first first.
    pub(super) holes: Per<Place, Vec<At<Hole>>>,
    /// What is known of each. Its curves are the pool's forecasts, of announced holes without
    /// what is announced.
    pub(super) lineup: Lineup,
    /// Where the order comes from.
    pub(super) source: OrderSource,
}

impl Line {
    /// Lines up those holes of a pool that are `wanted`, for a decision that looks `horizon_s`
    /// ahead.
    ///
    /// # Errors
    /// [`Doubt::BrokenOrder`] if the pool's order is no order of its holes.
    pub(super) fn new(
        foretold: &Foretold<'_>,
        wanted: &Per<Hole, Vec<bool>>,
        horizon_s: f64,
    ) -> Result<Self, Doubt> {
        let pool = foretold.pool;
        let (source, list, link) = match &pool.joint {
            Some(joint) if !is_order(joint, pool.holes.len()) => return Err(Doubt::BrokenOrder),
            Some(joint) => {
                let (list, link) = without(&joint.order, &joint.link, wanted)?;
                (joint.source, list, link)
            }
            None => {
                let list = as_released(pool, wanted);
                (OrderSource::Expectation, list, Vec::new())
            }
        };
        let holes: Per<Hole, _> = Per::new(pool.holes.as_slice());
        let list: Per<Listed, Vec<At<Hole>>> = Per::new(list);
        let mut curve = Vec::with_capacity(list.0.len());
        for &hole in &list.0 {
            curve.push(holes.get(hole)?.forecast);
        }
        let mut promised = Vec::new();
        let announced = pool.joint.iter().flat_map(|joint| &joint.announced);
        let announced: Vec<&Announced> = announced.filter(|told| is_sound(told, pool)).collect();
        if !announced.is_empty() {
            let mut of_hole: Per<Hole, _> = Per::new(vec![None; pool.holes.len()]);
            for told in announced {
                *of_hole.get_mut(At::new(told.hole))? = Some(told);
            }
            promised = vec![Promise::NONE; list.0.len()];
            for (&hole, (curve, promise)) in list.0.iter().zip(curve.iter_mut().zip(&mut promised))
            {
                if let Some(told) = *of_hole.get(hole)? {
                    *curve = told.otherwise;
                    *promise = Promise {
                        at_s: told.after_s,
                        early: told.early,
                        kept: told.kept,
                    };
                }
            }
        }
        let mut known = Vec::new();
        if !foretold.known.is_empty() {
            let ends: Per<Hole, _> = Per::new(foretold.known);
            for &hole in &list.0 {
                known.push(*ends.get(hole)?);
            }
        }
        let listed = AsListed {
            source,
            curves: &Pooled(&pool.forecasts),
            curve: &curve,
            link: &link,
            promised: &promised,
            known: &known,
        };
        let lineup = Lineup::new(&listed, horizon_s);
        let mut holes = Vec::with_capacity(lineup.places.len());
        for &place in &lineup.places {
            holes.push(*list.get(At::new(place))?);
        }
        Ok(Self {
            holes: Per::new(holes),
            lineup,
            source,
        })
    }

    /// Draws futures of these holes from the pool that they were lined up from.
    pub(super) fn draw(&self, foretold: &Foretold<'_>, scenarios: u32, seed: u64) -> Scenarios {
        if foretold.complete_s.is_infinite() {
            return Scenarios::known(self.lineup.known.clone());
        }
        let curves = Pooled(&foretold.pool.forecasts);
        self.lineup
            .draw(&curves, foretold.complete_s, scenarios.max(1), seed)
    }
}

/// The wanted holes of an order and their links. Where holes are left out between two, these end
/// together with at least the product of the links between them.
fn without(
    order: &[u32],
    link: &[f32],
    wanted: &Per<Hole, Vec<bool>>,
) -> Result<(Vec<At<Hole>>, Vec<f32>), Doubt> {
    let (mut list, mut links) = (Vec::with_capacity(order.len()), Vec::new());
    let mut together = 1.0;
    // The last hole has no link.
    for (&hole, link) in order.iter().zip(link.iter().chain([&0.0])) {
        let hole = At::new(hole);
        if *wanted.get(hole)? {
            if !list.is_empty() {
                links.push(together);
            }
            together = 1.0;
            list.push(hole);
        }
        together *= link;
    }
    Ok((list, links))
}

/// The wanted holes, the oldest first.
fn as_released(pool: &Pool, wanted: &Per<Hole, Vec<bool>>) -> Vec<At<Hole>> {
    let holes = wanted.iter().zip(&pool.holes);
    let wanted = holes.filter(|((_, wanted), _)| **wanted);
    let mut holes: Vec<_> = wanted
        .map(|((at, _), pooled)| (pooled.hole.since, at))
        .collect();
    holes.sort_unstable();
    holes.into_iter().map(|(_, hole)| hole).collect()
}

/// The forecasts of a pool as curves.
struct Pooled<'a>(&'a [Forecast]);

impl Curves for Pooled<'_> {
    fn quantile(&self, curve: u32, open: f64) -> f64 {
        self.0.quantile(curve, open)
    }

    fn open_after(&self, curve: u32, after_s: f64) -> f64 {
        self.0.open_after(curve, after_s)
    }
}

/// Whether it is a survival curve that leaves the hole open now and says something of later.
pub(super) fn is_curve(forecast: &Forecast) -> bool {
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

/// Whether an announcement says something. One that does not is not heeded; what was made of it
/// is in the hole's own forecast anyway.
fn is_sound(told: &Announced, pool: &Pool) -> bool {
    let is_share = |share: f64| (0.0..=1.0).contains(&share);
    (told.hole as usize) < pool.holes.len()
        && told.after_s.is_finite()
        && told.after_s > 0.0
        && is_share(told.early)
        && is_share(told.kept)
        && told.early + told.kept <= 1.0 + 1e-6
        && pool
            .forecasts
            .get(told.otherwise as usize)
            .is_some_and(is_curve)
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
