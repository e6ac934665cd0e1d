//! The parts of a decision by forecasts that is shared out over owners.

use lacuna_model::{Doubt, Outcome};

use crate::decider::{Share, Situation, shares, together};
use crate::fair::{self, Claim};
use crate::joint::{Assignment, Request, Scenarios};
use crate::ordinal::{At, Per, Place};
use crate::{Item, Problem, dp};

use super::decide::{Foreseen, Found, counts, standing};

/// What the trainers of one owner were decided on: a request of its own.
#[derive(Debug, Clone, Default)]
pub(super) struct Part {
    /// Its trainers among those that take part in the whole decision.
    trainers: Vec<u32>,
    /// Its places in the line: those that its trainers keep in any case, and idle ones.
    places: Vec<u32>,
    items: Vec<Item>,
    hit: Vec<bool>,
    start_s: Vec<f64>,
    /// Whose each of its places is, by its own trainers.
    before: Vec<Option<u32>>,
    scenarios: Scenarios,
    found: Found,
}

/// An owner, its trainers that take part, and nodes that its others keep.
struct Owner {
    trainers: Vec<u32>,
    apart: u32,
    part: Option<Part>,
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

    /// The places that it uses, each with its trainer among those that take part.
    fn used(&self) -> impl Iterator<Item = (u32, u32)> {
        let places = self.places.iter().zip(&self.found.assignment.owners);
        places.filter_map(|(&place, owner)| {
            let j = self.trainers.get((*owner)? as usize)?;
            Some((place, *j))
        })
    }
}

impl Foreseen {
    /// Decides the trainers of each owner within its share, by `find`: on the places that they
    /// hold, as far as the share reaches, and on idle ones.
    ///
    /// # Errors
    /// [`Doubt::Internal`].
    pub(super) fn by_owner(
        &mut self,
        situation: &Situation<'_>,
        owners: Vec<(f64, Vec<u32>)>,
        mut find: impl FnMut(&Request<'_>) -> Found,
    ) -> Result<(Vec<Share>, Found), Doubt> {
        let kept = counts(situation, &standing(situation));
        let taking = |j: u32| self.taking.0.binary_search(&At::new(j)).ok();
        let mut list: Vec<Owner> = owners
            .iter()
            .map(|(_, candidates)| {
                let apart = candidates.iter().filter(|&&j| taking(j).is_none());
                let trainers = candidates.iter().filter_map(|&j| taking(j));
                Owner {
                    apart: apart.filter_map(|&j| kept.get(j as usize)).sum(),
                    trainers: trainers.map(|at| at as u32).collect(),
                    part: None,
                }
            })
            .collect();
        let apart: u32 = list.iter().map(|owner| owner.apart).sum();
        let nodes = self.before.len() as u32 + apart;
        let item = |&at: &u32| self.items.get(at as usize);
        let mut claims: Vec<Claim> = list
            .iter()
            .zip(&owners)
            .map(|(owner, (part, _))| {
                let items = owner.trainers.iter().filter_map(item);
                Claim::new(nodes, *part, items, owner.apart, None)
            })
            .collect();
        let fair = fair::max_min(nodes, &claims);
        let given = fair::settle(nodes, &mut claims, |given, again| {
            for (owner, again) in list.iter_mut().zip(again) {
                owner.part = owner.part.take().filter(|_| !again);
            }
            for (at, mut part) in self.drafts(situation, &list, given)? {
                part.found = find(&part.request());
                if let Some(owner) = list.get_mut(at) {
                    owner.part = Some(part);
                }
            }
            let used = |owner: &Owner| owner.part.iter().flat_map(Part::used).count() as u32;
            Ok::<_, Doubt>(list.iter().map(|owner| owner.apart + used(owner)).collect())
        })?;
        self.parts = list.into_iter().filter_map(|owner| owner.part).collect();
        Ok((shares(owners, fair, given), self.found_in_parts()))
    }

    /// The parts of the owners that have none, before they are decided.
    fn drafts(
        &self,
        situation: &Situation<'_>,
        list: &[Owner],
        given: &[u32],
    ) -> Result<Vec<(usize, Part)>, Doubt> {
        let mut free: Per<Place, Vec<bool>> = Per::new(vec![true; self.before.len()]);
        for (place, _) in list.iter().flat_map(|o| &o.part).flat_map(Part::used) {
            *free.get_mut(At::new(place))? = false;
        }
        let mut drafts = Vec::new();
        let mut solver = dp::Solver::new();
        let open = list.iter().zip(given).enumerate();
        for (at, (owner, &given)) in open.filter(|(_, (owner, _))| owner.part.is_none()) {
            let nodes = given.saturating_sub(owner.apart);
            let (part, held) = self.draft(owner, nodes, &mut solver);
            for &place in &part.places {
                *free.get_mut(At::new(place))? = false;
            }
            drafts.push((at, part, nodes.saturating_sub(held)));
        }
        let mut wants: Vec<u32> = drafts.iter().map(|(.., more)| *more).collect();
        for run in self.runs(situation, &free.0)? {
            for (at, place) in deal(&run, &mut wants, |at| drafts.get(at).map_or(0, |d| d.2)) {
                if let Some((_, part, _)) = drafts.get_mut(at) {
                    part.places.push(place);
                }
            }
        }
        let finished = drafts.into_iter().map(|(at, mut part, _)| {
            part.places.sort_unstable();
            let whose = |&place: &u32| {
                let j = (*self.before.get(place as usize)?)?;
                let own = part.trainers.iter().position(|&own| own == j);
                own.map(|own| own as u32)
            };
            part.before = part.places.iter().map(whose).collect();
            part.scenarios = self.scenarios.only(&part.places);
            (at, part)
        });
        Ok(finished.collect())
    }

    /// An owner's trainers with what they keep if they have `nodes` nodes between them, and how
    /// many that is. Who has to give nodes up gives up those that are expected to end first, and
    /// takes no others with that, unless it restarts anyway.
    fn draft(&self, owner: &Owner, nodes: u32, solver: &mut dp::Solver) -> (Part, u32) {
        let items: Vec<&Item> = owner
            .trainers
            .iter()
            .filter_map(|&at| self.items.get(at as usize))
            .collect();
        let held: u32 = items.iter().map(|item| item.current).sum();
        let mut keeps: Vec<u32> = items.iter().map(|item| item.current).collect();
        if held > nodes {
            let bounded = items.iter().map(|item| at_most(item, item.current));
            let problem = Problem {
                nodes,
                horizon_s: self.settings.horizon_s,
                trainers: bounded.collect(),
                max_change: None,
            };
            keeps = solver.solve(&problem).counts;
        }
        let mut part = Part::default();
        let mut kept = Vec::new();
        for ((&at, item), &keep) in owner.trainers.iter().zip(items).zip(&keeps) {
            kept.push((at, keep));
            let hit = self.hit.get(at as usize).copied().unwrap_or_default();
            let restarts = hit || item.current < item.min;
            let left = if keep == item.current {
                item.clone()
            } else if restarts {
                Item {
                    current: keep,
                    ..item.clone()
                }
            } else if keep > 0 {
                at_most(item, keep)
            } else {
                continue;
            };
            part.trainers.push(at);
            part.items.push(left.at_its_rate());
            part.hit.push(hit);
            let start_s = self.start_s.get(at as usize).copied();
            part.start_s.push(start_s.unwrap_or_default());
        }
        // The last places are expected to stay longest.
        for (place, at) in self.before.iter().enumerate().rev() {
            let own = kept.iter_mut().find(|(own, _)| Some(*own) == *at);
            if let Some((_, left)) = own.filter(|(_, left)| *left > 0) {
                *left -= 1;
                part.places.push(place as u32);
            }
        }
        (part, keeps.iter().sum())
    }

    /// Free places in runs of those that were released together and are expected to stay alike.
    fn runs(&self, situation: &Situation<'_>, free: &[bool]) -> Result<Vec<Vec<u32>>, Doubt> {
        let slots: Per<_, _> = Per::new(situation.slots);
        let mut runs: Vec<Vec<u32>> = Vec::new();
        let mut last = None;
        let view = self.view.slots.0.iter().zip(&self.view.curve.0);
        for ((place, (&slot, &curve)), _) in (0..).zip(view).zip(free).filter(|(_, free)| **free) {
            let alike = Some((slots.get(slot)?.since_ms, curve));
            match runs.last_mut().filter(|_| alike == last) {
                Some(run) => run.push(place),
                None => runs.push(vec![place]),
            }
            last = alike;
        }
        Ok(runs)
    }

    /// What the parts come to.
    fn found_in_parts(&self) -> Found {
        let mut whole = Found {
            assignment: Assignment {
                owners: vec![None; self.before.len()],
                ..Assignment::default()
            },
            ..Found::default()
        };
        let names = self.parts.iter().map(|part| part.found.proposal);
        let same = names.clone().min() == names.clone().max();
        whole.proposal = names.min().filter(|_| same).unwrap_or("by owner");
        for part in &self.parts {
            let (found, whole) = (&part.found, &mut whole);
            whole.assignment.worth += found.assignment.worth;
            whole.assignment.salvage = whole.assignment.salvage.max(found.assignment.salvage);
            for (place, j) in part.used() {
                if let Some(owner) = whole.assignment.owners.get_mut(place as usize) {
                    *owner = Some(j);
                }
            }
            whole.fell_back |= found.fell_back;
            // One that is not proven makes all of them unproven.
            whole.patterns = match (whole.patterns, found.patterns) {
                (Some(Outcome::Optimal) | None, found) => found.or(whole.patterns),
                (unproven, _) => unproven,
            };
        }
        let solves = self
            .parts
            .iter()
            .filter_map(|part| part.found.solve.clone());
        whole.solve = Some(together(solves, whole.assignment.worth));
        whole
    }

    /// What a free node-second is taken to be worth to each trainer that takes part.
    pub(super) fn prices(&self) -> Vec<f64> {
        let mut prices = vec![self.assignment.salvage; self.items.len()];
        for part in &self.parts {
            for &j in &part.trainers {
                if let Some(price) = prices.get_mut(j as usize) {
                    *price = part.found.assignment.salvage;
                }
            }
        }
        prices
    }
}

/// A trainer that may have no more than `most` nodes, and has no more.
fn at_most(item: &Item, most: u32) -> Item {
    let max = item.max.min(most);
    Item {
        current: item.current.min(max),
        max,
        value: item.value.iter().take(max as usize + 1).copied().collect(),
        ..item.clone()
    }
}

/// Deals a run of places to owners that want so many more, so that all get a like mixture: the
/// first to who has had least of what it was to get in all.
fn deal(run: &[u32], wants: &mut [u32], all: impl Fn(usize) -> u32) -> Vec<(usize, u32)> {
    let mut order: Vec<usize> = (0..wants.len()).collect();
    let left = |at: usize, wants: &[u32]| u64::from(wants.get(at).copied().unwrap_or(0));
    order.sort_by(|&a, &b| {
        let (x, y) = (left(a, wants), left(b, wants));
        (y * u64::from(all(a).max(1))).cmp(&(x * u64::from(all(b).max(1))))
    });
    let mut dealt = Vec::with_capacity(run.len());
    let mut run = run.iter();
    for at in order {
        if let Some(want) = wants.get_mut(at) {
            let got = run.by_ref().take(*want as usize).map(|&place| (at, place));
            let before = dealt.len();
            dealt.extend(got);
            *want -= (dealt.len() - before) as u32;
        }
    }
    dealt
}
