//! The evaluation behind a decision by forecasts.

use lacuna_model::{Doubt, Solve};

use crate::Item;
use crate::placement::{Assignment, Request, Scenarios, Settings};
use crate::problem::ordinal::{At, Candidate, Participant, Per};

use super::view::View;

/// The evaluation behind a decision by forecasts. Nodes are places in the departure order; trainers
/// are the participants, in the order of the candidates.
#[derive(Debug, Clone)]
pub struct Evaluation {
    /// Settings of the decision, with the look ahead that it used.
    pub settings: Settings,
    /// The answer.
    pub assignment: Assignment,
    /// Name of the method that found the answer.
    pub proposal: &'static str,
    /// Re-placed candidates: they restart anyway or can no longer run, and take other nodes.
    pub replaced: Vec<u32>,
    pub(crate) items: Vec<Item>,
    pub(super) hit: Vec<bool>,
    pub(super) start_s: Vec<f64>,
    pub(super) before: Vec<Option<u32>>,
    pub(crate) scenarios: Scenarios,
    pub(crate) view: View,
    /// The participants: candidates whose holes are not in doubt.
    pub(crate) participants: Per<Participant, Vec<At<Candidate>>>,
    pub(crate) doubts: Vec<Doubt>,
    /// The requests of the owners, if nodes were shared out over several owners.
    pub(super) parts: Vec<Part>,
}

/// An answer to a request, and how it was found.
#[derive(Debug, Clone, Default)]
pub(super) struct Found {
    pub(super) assignment: Assignment,
    pub(super) proposal: &'static str,
    pub(super) solve: Option<Solve>,
}

impl Evaluation {
    /// The requests that were decided one by one, with their answers: one for each owner, or one
    /// for all.
    pub fn decided(&self) -> impl Iterator<Item = (Request<'_>, &Assignment)> {
        let whole = self.parts.is_empty();
        let whole = whole.then(|| (self.request(), &self.assignment));
        let parts = self.parts.iter();
        let parts = parts.map(|part| (part.request(), part.assignment()));
        parts.chain(whole)
    }

    /// The request of placement.
    #[must_use]
    pub fn request(&self) -> Request<'_> {
        Request {
            trainers: &self.items,
            hit: &self.hit,
            start_s: &self.start_s,
            owners: &self.before,
            scenarios: &self.scenarios,
        }
    }

    /// The shadow price of a node-second for each participant, objective units.
    #[must_use]
    pub fn prices(&self) -> Vec<f64> {
        let mut prices = vec![self.assignment.shadow_price; self.items.len()];
        for part in &self.parts {
            for &j in &part.trainers {
                if let Some(price) = prices.get_mut(j as usize) {
                    *price = part.found.assignment.shadow_price;
                }
            }
        }
        prices
    }
}

/// The part of one owner: a request of its own with its answer.
#[derive(Debug, Clone, Default)]
pub(super) struct Part {
    /// Its trainers among the participants of the whole decision.
    pub(super) trainers: Vec<u32>,
    /// Its places in the departure order: those that its trainers keep in any case, and idle ones.
    pub(super) places: Vec<u32>,
    pub(super) items: Vec<Item>,
    pub(super) hit: Vec<bool>,
    pub(super) start_s: Vec<f64>,
    /// Present owner of each of its places, among its own trainers.
    pub(super) before: Vec<Option<u32>>,
    pub(super) scenarios: Scenarios,
    pub(super) found: Found,
}

impl Part {
    pub(super) fn request(&self) -> Request<'_> {
        Request {
            trainers: &self.items,
            hit: &self.hit,
            start_s: &self.start_s,
            owners: &self.before,
            scenarios: &self.scenarios,
        }
    }

    pub(super) const fn assignment(&self) -> &Assignment {
        &self.found.assignment
    }

    /// The places in use, each with its trainer among the participants.
    pub(super) fn used(&self) -> impl Iterator<Item = (u32, u32)> {
        let places = self.places.iter().zip(&self.found.assignment.owners);
        places.filter_map(|(&place, owner)| {
            let j = self.trainers.get((*owner)? as usize)?;
            Some((place, *j))
        })
    }
}
