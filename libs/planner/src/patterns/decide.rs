//! The joint allocation as a programme over patterns: from a request to owners and back.

use lacuna_model::Outcome;

use crate::joint::{Assignment, Member, Proposal, Request, Settings, use_all, worth};
use crate::patterns::answer::gap;
use crate::patterns::cells::Cells;
use crate::patterns::family::{Deed, Family};
use crate::patterns::place::place;
use crate::patterns::{Answer, Column, Options, Source, solve};

/// Allocates nodes to trainers, as [`crate::joint::Joint::decide`] does, by the programme over
/// patterns. `salvage` is what a free node-second is worth, objective units. `warm` are plans to
/// begin with, owners by place as in the request: what the dynamic programme found, or the last
/// plan; the answer is worth at least as much as the best of them that is allowed. That
/// everybody stays as he is always is one.
///
/// `worth` of the assignment is V of the very nodes less all charges, and `objective` of the
/// answer is the same. It may lie above `bound`, since a warm plan may hold node sets that are no
/// patterns. Where nodes may not be refused, what is left of any of these plans is given to
/// whoever has room before it is judged, as the dynamic programme does; the bound is that of all
/// plans. Ends by its work, or by the time limit, plus a little, in an emergency.
pub fn decide(
    request: &Request<'_>,
    settings: &Settings,
    salvage: f64,
    warm: &[&[Option<u32>]],
    options: &Options<'_>,
) -> (Assignment, Answer) {
    let case = Case::new(request, settings, salvage);
    let free: Vec<usize> = (0..case.owners.len())
        .filter(|&place| case.is_free(place))
        .collect();
    let nodes = case.owners.len();
    let cells = Cells::cut(
        nodes,
        free,
        request.scenarios,
        settings.horizon_s,
        options.classes,
    );
    let mut family = Family::new(
        &cells,
        &case.members,
        &case.held,
        request,
        settings,
        salvage,
    );
    // The first plan is what there is.
    let standing = case.filled(case.standing());
    let mut plans = vec![case.owners.clone()];
    let mut best = (case.judge(&standing), standing, Source::Keep);
    let mut starts: Vec<Vec<Column>> = Vec::new();
    for plan in warm {
        let plan = case.filled(case.sound(plan));
        if !case.is_allowed(&plan) {
            continue;
        }
        let worth = case.judge(&plan);
        starts.push(case.columns(&plan, plans.len() as u32, &cells));
        if worth > best.0 {
            best = (worth, plan.clone(), Source::Warm);
        }
        plans.push(plan);
    }
    let capacity = cells.capacity();
    let solved = solve(&mut family, &capacity, &starts, options);
    let mut answer = solved.unwrap_or_else(|_| Answer::failed());
    if answer.chosen.len() == case.members.len() {
        let owners = place(&answer.chosen, &cells, &case.held, &case.loose, &plans);
        let owners = case.filled(owners);
        let worth = case.judge(&owners);
        if worth > best.0 && case.is_allowed(&owners) {
            best = (worth, owners, answer.source);
        }
    }
    answer.objective = best.0;
    answer.source = best.2;
    answer.lost_s = cells.lost_s;
    let gap = gap(answer.objective, answer.bound);
    answer.outcome = match answer.outcome {
        Outcome::Failed => Outcome::Failed,
        // Where unlike nodes were put together the bound is none on what they really are worth.
        _ if gap <= options.gap && cells.lost_s == 0.0 => Outcome::Optimal,
        _ => Outcome::Feasible { gap },
    };
    let assignment = Assignment {
        worth: best.0,
        owners: best.1,
        proposal: Proposal::Present,
        salvage,
    };
    (assignment, answer)
}

/// A request, looked through.
struct Case<'a> {
    members: Vec<Member<'a>>,
    request: &'a Request<'a>,
    settings: &'a Settings,
    salvage: f64,
    /// Whose each place is; nobody's where the request makes no sense.
    owners: Vec<Option<u32>>,
    held: Vec<Vec<usize>>,
    loose: Vec<bool>,
}

impl<'a> Case<'a> {
    fn new(request: &'a Request<'a>, settings: &'a Settings, salvage: f64) -> Self {
        let members: Vec<Member<'a>> = request.members(settings.repool).collect();
        let mut case = Self {
            loose: members.iter().map(Member::is_loose).collect(),
            members,
            request,
            settings,
            salvage,
            owners: Vec::new(),
            held: Vec::new(),
        };
        case.owners = case.sound(request.owners);
        case.held = case.sets(&case.owners);
        case
    }

    /// Owners as far as they make sense.
    fn sound(&self, owners: &[Option<u32>]) -> Vec<Option<u32>> {
        let known = |(place, owner): (usize, &Option<u32>)| {
            owner.filter(|&j| {
                (j as usize) < self.members.len() && place < self.request.scenarios.nodes()
            })
        };
        let mut sound: Vec<Option<u32>> = owners.iter().enumerate().map(known).collect();
        sound.resize(self.request.owners.len(), None);
        sound
    }

    fn is_free(&self, place: usize) -> bool {
        let owner = self.owners.get(place).copied().flatten();
        let is_loose = owner.is_none_or(|j| self.loose.get(j as usize).is_some_and(|&l| l));
        is_loose && place < self.request.scenarios.nodes()
    }

    /// The places of each trainer's nodes.
    fn sets(&self, owners: &[Option<u32>]) -> Vec<Vec<usize>> {
        let mut sets = vec![Vec::new(); self.members.len()];
        for (place, owner) in owners.iter().enumerate() {
            if let Some(set) = owner.and_then(|j| sets.get_mut(j as usize)) {
                set.push(place);
            }
        }
        sets
    }

    /// Bound trainers keep what they have, loose ones get nothing.
    fn standing(&self) -> Vec<Option<u32>> {
        let owners = self.owners.iter().enumerate();
        owners
            .map(|(place, owner)| owner.filter(|_| !self.is_free(place)))
            .collect()
    }

    /// A plan, with what it leaves given out if nothing may be refused.
    fn filled(&self, mut plan: Vec<Option<u32>>) -> Vec<Option<u32>> {
        if !self.settings.refuse {
            use_all(&self.members, &mut plan);
        }
        plan
    }

    /// Whether bound trainers keep, grow or shrink, and nobody has a size that he cannot have.
    fn is_allowed(&self, plan: &[Option<u32>]) -> bool {
        let sets = self.sets(plan);
        let trainers = self
            .members
            .iter()
            .zip(&self.held)
            .zip(&sets)
            .zip(&self.loose);
        trainers.into_iter().all(|(((member, held), set), &loose)| {
            let within = |a: &[usize], b: &[usize]| a.iter().all(|p| b.binary_search(p).is_ok());
            let keeps = !loose && held == set;
            let size = keeps || member.item.is_size(set.len() as u32);
            size && (loose || within(held, set) || within(set, held))
        })
    }

    /// The columns of a plan.
    fn columns(&self, plan: &[Option<u32>], number: u32, cells: &Cells) -> Vec<Column> {
        let sets = self.sets(plan);
        let mut columns = Vec::with_capacity(sets.len());
        for (j, (set, held)) in sets.iter().zip(&self.held).enumerate() {
            let Some((member, &loose)) = self.members.get(j).zip(self.loose.get(j)) else {
                continue;
            };
            if (loose && set.is_empty()) || (!loose && set == held) {
                // The family has these.
                continue;
            }
            let held: &[usize] = if loose { &[] } else { held };
            let fewer = |place: &&usize| set.binary_search(place).is_err();
            let more = |place: &&usize| held.binary_search(place).is_err();
            let given = held.iter().filter(fewer).copied();
            let mut take = cells.counts(given);
            for (_, nodes) in &mut take {
                *nodes = -*nodes;
            }
            if take.is_empty() {
                take = cells.counts(set.iter().filter(more).copied());
            }
            let is_shrunk = set.len() < held.len() && held.ends_with(set);
            let deed = if is_shrunk {
                Deed::Shrink(set.len() as u32)
            } else {
                Deed::Set(number)
            };
            columns.push(Column {
                trainer: j as u32,
                take,
                value: self.value(member, set),
                tag: deed.tag(),
            });
        }
        columns
    }

    /// V of a set less the charge for it.
    fn value(&self, member: &Member<'_>, set: &[usize]) -> f64 {
        let horizon = self.settings.horizon_s;
        let places = set.iter().copied();
        let gained = worth(
            member,
            self.request.scenarios,
            places,
            horizon,
            self.salvage,
        );
        gained - member.charge(set.len() as u32, self.settings.hysteresis)
    }

    fn judge(&self, plan: &[Option<u32>]) -> f64 {
        let sets = self.sets(plan);
        let members = self.members.iter().zip(&sets);
        members.map(|(member, set)| self.value(member, set)).sum()
    }
}
