//! The holes of a pool in departure order: the order in which they are expected to end.

use lacuna_model::{Announced, Doubt, Forecast, Joint, OrderSource, Pool};

use crate::placement::{Curves, DepartureOrder, ListedNodes, Scenarios, WeighedEnd};
use crate::problem::PoolForecast;
use crate::problem::ordinal::{At, Hole, Listed, Per, Place};

/// Holes of a pool in departure order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Line {
    /// The holes; the first is expected to end first.
    pub(crate) holes: Per<Place, Vec<At<Hole>>>,
    /// The order with curves, links and announced ends. The curve of an announced hole is its
    /// forecast without the announcement.
    pub(crate) departure_order: DepartureOrder,
    /// Source of the order.
    pub(crate) source: OrderSource,
}

impl Line {
    /// Orders the `wanted` holes of a pool for a decision that looks `horizon_s` ahead.
    ///
    /// # Errors
    /// [`Doubt::BrokenOrder`] if the pool's order is no permutation of its holes.
    pub(crate) fn new(
        pool_forecast: &PoolForecast<'_>,
        wanted: &Per<Hole, Vec<bool>>,
        horizon_s: f64,
    ) -> Result<Self, Doubt> {
        let pool = pool_forecast.pool;
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
        let mut announced_ends = Vec::new();
        let announced = pool.joint.iter().flat_map(|joint| &joint.announced);
        let announced: Vec<&Announced> = announced.filter(|end| is_sound(end, pool)).collect();
        if !announced.is_empty() {
            let mut of_hole: Per<Hole, _> = Per::new(vec![None; pool.holes.len()]);
            for end in announced {
                *of_hole.get_mut(At::new(end.hole))? = Some(end);
            }
            announced_ends = vec![WeighedEnd::NONE; list.0.len()];
            let ends = curve.iter_mut().zip(&mut announced_ends);
            for (&hole, (curve, announced_end)) in list.0.iter().zip(ends) {
                if let Some(end) = *of_hole.get(hole)? {
                    *curve = end.otherwise;
                    *announced_end = WeighedEnd {
                        at_s: end.after_s,
                        early: end.early,
                        kept: end.kept,
                    };
                }
            }
        }
        let mut known = Vec::new();
        if !pool_forecast.known.is_empty() {
            let ends: Per<Hole, _> = Per::new(pool_forecast.known);
            for &hole in &list.0 {
                known.push(*ends.get(hole)?);
            }
        }
        let listed = ListedNodes {
            source,
            curves: &Pooled(&pool.forecasts),
            curve: &curve,
            link: &link,
            announced_ends: &announced_ends,
            known: &known,
        };
        let departure_order = DepartureOrder::new(&listed, horizon_s);
        let mut holes = Vec::with_capacity(departure_order.places.len());
        for &place in &departure_order.places {
            holes.push(*list.get(At::new(place))?);
        }
        Ok(Self {
            holes: Per::new(holes),
            departure_order,
            source,
        })
    }

    /// Draws scenarios of these holes from the forecasts of their pool.
    pub(crate) fn draw(
        &self,
        pool_forecast: &PoolForecast<'_>,
        scenarios: u32,
        seed: u64,
    ) -> Scenarios {
        if pool_forecast.complete_s.is_infinite() {
            return Scenarios::known(self.departure_order.known.clone());
        }
        let curves = Pooled(&pool_forecast.pool.forecasts);
        self.departure_order
            .draw(&curves, pool_forecast.complete_s, scenarios.max(1), seed)
    }
}

/// The wanted holes of an order and their links. Two holes with others left out between them have
/// the product of the links between them: a lower bound of their probability to end together.
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

/// The wanted holes, oldest first.
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

/// Whether a forecast is a survival curve with at least one point after now.
pub(crate) fn is_curve(forecast: &Forecast) -> bool {
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

/// Whether an announced end is sound. An unsound one is ignored; the hole's own forecast has its
/// effect anyway.
fn is_sound(end: &Announced, pool: &Pool) -> bool {
    let is_share = |share: f64| (0.0..=1.0).contains(&share);
    (end.hole as usize) < pool.holes.len()
        && end.after_s.is_finite()
        && end.after_s > 0.0
        && is_share(end.early)
        && is_share(end.kept)
        && end.early + end.kept <= 1.0 + 1e-6
        && pool
            .forecasts
            .get(end.otherwise as usize)
            .is_some_and(is_curve)
}

/// Whether an order is a permutation of `holes` holes with a probability for each pair of
/// neighbours.
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
