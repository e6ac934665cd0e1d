//! An evaluation with its case: expected stays, values and names for its reasons.

use lacuna_model::{Forecast, TrainerId};

use super::input::ReportInput;
use super::node_set::NodeSet;
use crate::placement::forecast::View;
use crate::placement::{Assignment, Member, Request, Scenarios};
use crate::problem::ordinal::{At, Candidate, Participant, Per};

/// An evaluation with the case that it belongs to.
pub(super) struct Weighed<'a> {
    pub(super) input: &'a ReportInput<'a>,
    pub(super) view: &'a View,
    pub(super) request: &'a Request<'a>,
    /// The trainers of the request.
    pub(super) members: Vec<Member<'a>>,
    pub(super) assignment: &'a Assignment,
    /// Shadow price of a node-second for each trainer, objective units.
    pub(super) prices: &'a [f64],
    pub(super) scenarios: &'a Scenarios,
    /// For each trainer of the request its candidate in the case.
    pub(super) participants: &'a Per<Participant, Vec<At<Candidate>>>,
    /// The new owner of each slot.
    pub(super) owners: &'a [Option<u32>],
}

impl Weighed<'_> {
    pub(super) fn horizon_s(&self) -> f64 {
        self.input.settings.horizon_s
    }

    pub(super) fn name(&self, at: usize) -> Option<TrainerId> {
        let j = self.participants.get(At::new(at as u32)).ok()?;
        name(self.input, j.number())
    }

    pub(super) fn price(&self, at: usize) -> f64 {
        self.prices.get(at).copied().unwrap_or_default()
    }

    pub(super) fn node_set(&self, places: impl IntoIterator<Item = usize>) -> NodeSet {
        NodeSet::of(self.scenarios, self.input.settings, places)
    }

    fn forecast(&self, place: usize) -> Option<&Forecast> {
        let curve = *self.view.curve.get(At::new(place as u32)).ok()?;
        self.input.pool.forecasts.get(curve as usize)
    }

    /// Mean expected stay of these places within the horizon, seconds; 0 without places.
    pub(super) fn stay_s(&self, places: &[usize]) -> f64 {
        self.mean(places, |forecast| forecast.mean_within(self.horizon_s()))
    }

    /// Mean probability that a hole of these places ends within `within_s` seconds.
    pub(super) fn ends(&self, places: &[usize], within_s: f64) -> f64 {
        self.mean(places, |forecast| 1.0 - forecast.open_after(within_s))
    }

    fn mean(&self, places: &[usize], of: impl Fn(&Forecast) -> f64) -> f64 {
        let sum: f64 = places
            .iter()
            .filter_map(|&p| self.forecast(p))
            .map(of)
            .sum();
        sum / places.len().max(1) as f64
    }

    /// Places by owner: those of each trainer of the request, and the idle ones.
    pub(super) fn by_owner(&self, owners: &[Option<u32>]) -> (Vec<Vec<usize>>, Vec<usize>) {
        let mut places = vec![Vec::new(); self.members.len()];
        let mut unowned = Vec::new();
        for (place, owner) in owners.iter().enumerate() {
            match owner.and_then(|j| places.get_mut(j as usize)) {
                Some(list) => list.push(place),
                None => unowned.push(place),
            }
        }
        (places, unowned)
    }
}

fn name(input: &ReportInput<'_>, j: u32) -> Option<TrainerId> {
    let place = *input.case.trainers.get(j as usize)?;
    Some(input.trainers.get(place)?.spec.id.clone())
}
