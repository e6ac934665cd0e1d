//! The parts of a decision by forecasts that is shared out over owners.

use lacuna_model::Doubt;

use crate::decision::{Share, shares, together};
use crate::fair::{self, Claim};
use crate::placement::{Assignment, Request};
use crate::problem::ordinal::{At, Per, Place};
use crate::problem::{
    Item, Mix, MixProblem, NO_NODES, OnKinds, Problem, Shape, Situation, count, less, mixes_of, sum,
};
use crate::{dp, mixed};

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
        if self.scenarios.tells_kinds() {
            return self.by_owner_over_kinds(situation, &owners, find);
        }
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
                Claim::new(nodes, *part, items, owner.apart)
            })
            .collect();
        let fair = fair::max_min(nodes, &claims);
        let given = fair::settle(nodes, &mut claims, |given, again| {
            for (owner, again) in list.iter_mut().zip(again) {
                owner.part = owner.part.take().filter(|_| !again);
            }
            let given = list.iter().zip(given);
            let given = given.map(|(owner, given)| given.saturating_sub(owner.apart));
            let given: Vec<Mix> = given.map(|nodes| Shape::of(nodes, 0).mix).collect();
            for (at, mut part) in self.drafts(situation, &list, &given)? {
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

    /// Decides the trainers of each owner where nodes are of several kinds. Counts without forecasts
    /// say how many nodes of each kind an owner has for its share; what no count uses goes to the
    /// least served owner that can use it, and what is left then to the others in turn.
    fn by_owner_over_kinds(
        &mut self,
        situation: &Situation<'_>,
        owners: &[(f64, Vec<u32>)],
        mut find: impl FnMut(&Request<'_>) -> Found,
    ) -> Result<(Vec<Share>, Found), Doubt> {
        let participant = |j: u32| self.participants.0.binary_search(&At::new(j)).ok();
        let own = owners.iter().map(|(part, candidates)| {
            let own = candidates.iter().filter_map(|&j| participant(j));
            (*part, own.map(|at| at as u32).collect())
        });
        let own: Vec<(f64, Vec<u32>)> = own.collect();
        let problem = MixProblem {
            nodes: self.scenarios.mix(),
            horizon_s: self.settings.horizon_s,
            trainers: self.items.clone(),
        };
        // Nodes of trainers that do not participate count in the shares of their owners.
        let kept = situation.mixes(kept_owners(situation));
        let apart = owners.iter().map(|(_, candidates)| {
            let apart = candidates.iter().filter(|&&j| participant(j).is_none());
            sum(apart.filter_map(|&j| kept.get(j as usize).copied()))
        });
        let apart: Vec<Mix> = apart.collect();
        let parts = fair::kinds::most_answers(problem.nodes, own.len());
        let steps = mixed::MOST_STEPS / 5 / u64::from(parts.max(1));
        let served = fair::kinds::settle(&problem, &own, &apart, |own, nodes| {
            let (sizes, _) = mixed::solve_within(&problem.part(own, nodes), steps);
            (sizes.objective, sum(sizes.mixes.iter().copied()), ())
        });
        let mut given: Vec<Mix> = served.iter().map(|owner| owner.used).collect();
        let mut list: Vec<Owner> = own
            .into_iter()
            .map(|(_, trainers)| Owner {
                trainers,
                apart: 0,
                part: None,
            })
            .collect();
        let order = fair::kinds::least_served(problem.nodes, owners, &apart, &given);
        // At first all decide, with the rest for the least served; then each in turn on its nodes
        // and what is left.
        for (turn, &first) in order.iter().enumerate() {
            let left = less(problem.nodes, sum(given.iter().copied()));
            if left == NO_NODES && turn > 0 {
                break;
            }
            if let Some(given) = given.get_mut(first) {
                *given = sum([*given, left]);
            }
            if turn > 0
                && let Some(owner) = list.get_mut(first)
            {
                owner.part = None;
            }
            for (at, mut part) in self.drafts(situation, &list, &given)? {
                part.found = find(&part.request());
                if let Some(owner) = list.get_mut(at) {
                    owner.part = Some(part);
                }
            }
            for (owner, given) in list.iter().zip(&mut given) {
                let used = owner.part.iter().flat_map(Part::used);
                let used =
                    used.map(|(place, _)| (Some(0), self.scenarios.kind(place as usize) as u8));
                *given = mixes_of(1, used).first().copied().unwrap_or_default();
            }
        }
        let shares = owners.iter().zip(&apart).zip(served.iter().zip(&given));
        let shares = shares.map(|(((_, candidates), apart), (served, given))| Share {
            candidates: candidates.clone(),
            fair: sum([served.fair, *apart]).iter().sum(),
            nodes: sum([*given, *apart]).iter().sum(),
        });
        let shares = shares.collect();
        self.parts = list.into_iter().filter_map(|owner| owner.part).collect();
        Ok((shares, self.found_in_parts()))
    }

    /// New parts for the owners without one, before their decision on `given` nodes.
    fn drafts(
        &self,
        situation: &Situation<'_>,
        list: &[Owner],
        given: &[Mix],
    ) -> Result<Vec<(usize, Part)>, Doubt> {
        let mut free: Per<Place, Vec<bool>> = Per::new(vec![true; self.before.len()]);
        for (place, _) in list.iter().flat_map(|o| &o.part).flat_map(Part::used) {
            *free.get_mut(At::new(place))? = false;
        }
        let mut drafts = Vec::new();
        let mut solver = dp::Solver::new();
        let open = list.iter().zip(given).enumerate();
        for (at, (owner, &given)) in open.filter(|(_, (owner, _))| owner.part.is_none()) {
            let (part, held) = self.draft(owner, given, &free.0, &mut solver);
            for &place in &part.places {
                *free.get_mut(At::new(place))? = false;
            }
            drafts.push((at, part, less(given, held)));
        }
        for kind in self.scenarios.kinds() {
            let more = |(.., more): &(usize, Part, Mix)| count(more, kind);
            let all: Vec<u32> = drafts.iter().map(more).collect();
            let mut wants = all.clone();
            let intervals = self.intervals(situation, &free.0, kind)?;
            // What no owner wants are the nodes that are expected to leave first.
            let wanted: u32 = wants.iter().sum();
            let mut spare = intervals.iter().map(Vec::len).sum::<usize>();
            spare = spare.saturating_sub(wanted as usize);
            for interval in intervals {
                let left = spare.min(interval.len());
                spare -= left;
                let interval = interval.get(left..).unwrap_or_default();
                let of = |at: usize| all.get(at).copied().unwrap_or(0);
                for (at, place) in deal(interval, &mut wants, of) {
                    if let Some((_, part, _)) = drafts.get_mut(at) {
                        part.places.push(place);
                    }
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
    /// those. A trainer gives up the nodes that are expected to leave first, and those that are not
    /// `free`, since another owner has them by now. It takes no others in exchange unless it restarts
    /// anyway.
    fn draft(
        &self,
        owner: &Owner,
        nodes: Mix,
        free: &[bool],
        solver: &mut dp::Solver,
    ) -> (Part, Mix) {
        let items: Vec<&Item> = owner
            .trainers
            .iter()
            .filter_map(|&at| self.items.get(at as usize))
            .collect();
        let mut keeps: Vec<Mix> = items.iter().map(|item| item.present()).collect();
        if less(sum(keeps.iter().copied()), nodes) != NO_NODES {
            let bounded = items.iter().map(|item| at_most(item, item.present()));
            let (bounded, horizon_s) = (bounded.collect(), self.settings.horizon_s);
            keeps = if self.scenarios.tells_kinds() {
                let problem = MixProblem {
                    nodes,
                    horizon_s,
                    trainers: bounded,
                };
                mixed::solve(&problem).0.mixes
            } else {
                let problem = Problem {
                    nodes: nodes.iter().sum(),
                    horizon_s,
                    trainers: bounded,
                };
                let counts = solver.solve(&problem).counts.into_iter();
                counts.map(|nodes| Shape::of(nodes, 0).mix).collect()
            };
        }
        let mut part = Part::default();
        let mut kept = Vec::new();
        for ((&at, item), &keep) in owner.trainers.iter().zip(items).zip(&keeps) {
            kept.push((at, keep, NO_NODES));
            let hit = self.hit.get(at as usize).copied().unwrap_or_default();
            let restarts = hit || !item.runs();
            let left = if keep == item.present() {
                item.clone()
            } else if restarts {
                item.clone().on(keep, 0)
            } else if keep != NO_NODES {
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
        for ((place, at), is_free) in self.before.iter().enumerate().zip(free).rev() {
            let own = kept.iter_mut().find(|(own, ..)| Some(*own) == *at);
            let Some((_, left, gone)) = own else { continue };
            let kind = self.scenarios.kind(place);
            let of_kind = left.get_mut(kind).zip(gone.get_mut(kind));
            let Some((left, gone)) = of_kind.filter(|(left, _)| **left > 0) else {
                continue;
            };
            *left -= 1;
            if *is_free {
                part.places.push(place as u32);
            } else {
                *gone += 1;
            }
        }
        let switches = self.scenarios.switches();
        for (at, item) in part.trainers.iter().zip(&mut part.items) {
            let own = part.places.iter().map(|&place| place as usize);
            let own = own.filter(|&place| self.before.get(place) == Some(&Some(*at)));
            let tier = switches.tier(own);
            let gone = kept.iter().find(|(own, ..)| own == at);
            let gone = gone.map_or(NO_NODES, |(.., gone)| *gone);
            *item = if gone == NO_NODES {
                item.clone().at_its_rate(tier)
            } else {
                item.clone().on(less(item.present(), gone), tier)
            };
        }
        let gone = sum(kept.iter().map(|(.., gone)| *gone));
        (part, less(sum(keeps), gone))
    }

    /// Free places of a kind in intervals of equal release time and equal forecast.
    fn intervals(
        &self,
        situation: &Situation<'_>,
        free: &[bool],
        kind: usize,
    ) -> Result<Vec<Vec<u32>>, Doubt> {
        let slots: Per<_, _> = Per::new(situation.slots);
        let mut intervals: Vec<Vec<u32>> = Vec::new();
        let mut last = None;
        let view = self.view.slots.0.iter().zip(&self.view.curve.0);
        let places = (0_u32..).zip(view).zip(free).filter(|(_, free)| **free);
        for ((place, (&slot, &curve)), _) in places {
            if self.scenarios.kind(place as usize) != kind {
                continue;
            }
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
fn at_most(item: &Item, most: Mix) -> Item {
    let max = item.max.min(most.iter().sum());
    let kinds = item.kinds.as_ref().map(|kinds| OnKinds {
        current: std::array::from_fn(|kind| count(&kinds.current, kind).min(count(&most, kind))),
        value: kinds.value.up_to(most, |_, value| value),
        ..kinds.clone()
    });
    Item {
        current: item.current.min(max),
        max,
        value: item.value.iter().take(max as usize + 1).copied().collect(),
        kinds,
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
