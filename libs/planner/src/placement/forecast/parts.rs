//! The parts of a decision by forecasts that is shared out over owners.

use lacuna_model::{Doubt, Outcome};

use crate::decision::{Share, shares, together};
use crate::fair::{self, Claim};
use crate::placement::{Assignment, Request};
use crate::problem::Situation;
use crate::problem::ordinal::{At, Per, Place};
use crate::{Item, Problem, dp};

use super::evaluation::{Evaluation, Found, Part};
use super::kept::{counts, kept_owners};

/// An owner: its participants, and the number of nodes that its other trainers keep.
struct Owner {
    trainers: Vec<u32>,
    apart: u32,
    part: Option<Part>,
}

impl Evaluation {
    /// Decides the trainers of each owner within its share by `find`. Their places are those that
    /// they hold, as far as the share reaches, and idle ones.
    ///
    /// # Errors
    /// [`Doubt::Internal`].
    pub(super) fn by_owner(
        &mut self,
        situation: &Situation<'_>,
        owners: Vec<(f64, Vec<u32>)>,
        mut find: impl FnMut(&Request<'_>) -> Found,
    ) -> Result<(Vec<Share>, Found), Doubt> {
        let kept = counts(situation, &kept_owners(situation));
        let participant = |j: u32| self.participants.0.binary_search(&At::new(j)).ok();
        let mut list: Vec<Owner> = owners
            .iter()
            .map(|(_, candidates)| {
                let apart = candidates.iter().filter(|&&j| participant(j).is_none());
                let trainers = candidates.iter().filter_map(|&j| participant(j));
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

    /// New parts for the owners without one, before their decision.
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
        for interval in self.intervals(situation, &free.0)? {
            for (at, place) in deal(&interval, &mut wants, |at| {
                drafts.get(at).map_or(0, |d| d.2)
            }) {
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

    /// An owner's trainers with the places that they keep of `nodes` nodes, and the number of
    /// those. A trainer gives up the nodes that are expected to leave first. It takes no others in
    /// exchange unless it restarts anyway.
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
            part.items.push(left);
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
        let switches = self.scenarios.switches();
        for (at, item) in part.trainers.iter().zip(&mut part.items) {
            let own = part.places.iter().map(|&place| place as usize);
            let own = own.filter(|&place| self.before.get(place) == Some(&Some(*at)));
            *item = item.clone().at_its_rate(switches.tier(own));
        }
        (part, keeps.iter().sum())
    }

    /// Free places in intervals of equal release time and equal forecast.
    fn intervals(&self, situation: &Situation<'_>, free: &[bool]) -> Result<Vec<Vec<u32>>, Doubt> {
        let slots: Per<_, _> = Per::new(situation.slots);
        let mut intervals: Vec<Vec<u32>> = Vec::new();
        let mut last = None;
        let view = self.view.slots.0.iter().zip(&self.view.curve.0);
        for ((place, (&slot, &curve)), _) in (0..).zip(view).zip(free).filter(|(_, free)| **free) {
            let alike = Some((slots.get(slot)?.since_ms, curve));
            match intervals.last_mut().filter(|_| alike == last) {
                Some(interval) => interval.push(place),
                None => intervals.push(vec![place]),
            }
            last = alike;
        }
        Ok(intervals)
    }

    /// The answer that the parts make together.
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
            whole.assignment.value += found.assignment.value;
            whole.assignment.shadow_price = whole
                .assignment
                .shadow_price
                .max(found.assignment.shadow_price);
            for (place, j) in part.used() {
                if let Some(owner) = whole.assignment.owners.get_mut(place as usize) {
                    *owner = Some(j);
                }
            }
            whole.fell_back |= found.fell_back;
            // One unproven part makes the whole unproven.
            whole.patterns = match (whole.patterns, found.patterns) {
                (Some(Outcome::Optimal) | None, found) => found.or(whole.patterns),
                (unproven, _) => unproven,
            };
        }
        let solves = self
            .parts
            .iter()
            .filter_map(|part| part.found.solve.clone());
        whole.solve = Some(together(solves, whole.assignment.value));
        whole
    }
}

/// The trainer with a maximum of `most` nodes and no more held.
fn at_most(item: &Item, most: u32) -> Item {
    let max = item.max.min(most);
    Item {
        current: item.current.min(max),
        max,
        value: item.value.iter().take(max as usize + 1).copied().collect(),
        ..item.clone()
    }
}

/// Deals an interval of places to owners so that all get a similar mixture. `wants` counts the
/// missing nodes of each owner; the owner with the least of its total `all` comes first.
fn deal(interval: &[u32], wants: &mut [u32], all: impl Fn(usize) -> u32) -> Vec<(usize, u32)> {
    let mut order: Vec<usize> = (0..wants.len()).collect();
    let left = |at: usize, wants: &[u32]| u64::from(wants.get(at).copied().unwrap_or(0));
    order.sort_by(|&a, &b| {
        let (x, y) = (left(a, wants), left(b, wants));
        (y * u64::from(all(a).max(1))).cmp(&(x * u64::from(all(b).max(1))))
    });
    let mut dealt = Vec::with_capacity(interval.len());
    let mut rest = interval.iter();
    for at in order {
        if let Some(want) = wants.get_mut(at) {
            let got = rest.by_ref().take(*want as usize).map(|&place| (at, place));
            let before = dealt.len();
            dealt.extend(got);
            *want -= (dealt.len() - before) as u32;
        }
    }
    dealt
}
