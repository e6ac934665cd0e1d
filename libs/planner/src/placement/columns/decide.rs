//! Placement by the program over columns: from a request to owners.

use std::time::Duration;

use lacuna_model::Outcome;

use crate::Item;
use crate::placement::blocks::use_all;
use crate::placement::{
    Assignment, LeafByLeaf, Member, Proposal, Request, Scenarios, Settings, judge, net_value,
};

use super::answer::gap;
use super::classes::Classes;
use super::clock::Clock;
use super::generator::{ColumnGenerator, ColumnKind};
use super::place::place;
use super::uplinks::{Uplinks, change};
use super::{Answer, Column, Options, Source, solve};

/// Allocates nodes to trainers, as [`crate::placement::blocks::BlockPlacer::decide`] does, by the
/// program over columns. `shadow_price` is that of a node-second, objective units. `warm` are plans
/// to begin with, owners by place as in the request: the answer by blocks, or the last plan. The
/// value of the answer is at least that of the best allowed one; keeping for all is always one of
/// them.
///
/// `value` of the assignment is V of the very nodes less all switching costs, and `objective` of
/// the answer is the same. It may lie above `bound`, since a warm plan may hold node sets that are
/// no patterns. Where nodes may not be refused, trainers with room get the remaining nodes of each
/// plan before it is valued, as by blocks; the bound is that of all plans. The solve ends by its
/// work, or shortly after the time limit in an emergency.
///
/// Where distance matters, intervals are those of the line leaf by leaf, and so is the bound. Where
/// crossing trainers share uplinks, one program charges none of them, and its bound holds. Further
/// ones let few cross, and charge each as if all of these did. The best answer by V counts. All
/// programs share one time limit.
pub fn decide(
    request: &Request<'_>,
    settings: &Settings,
    shadow_price: f64,
    warm: &[&[Option<u32>]],
    options: &Options<'_>,
) -> (Assignment, Answer) {
    let Some(line) = LeafByLeaf::new(request, settings.horizon_s) else {
        return decide_in_order(request, settings, shadow_price, warm, options);
    };
    let plans: Vec<Vec<Option<u32>>> = warm.iter().map(|plan| line.of(plan)).collect();
    let plans: Vec<&[Option<u32>]> = plans.iter().map(Vec::as_slice).collect();
    let request = line.request(request);
    let (near, answer) = decide_in_order(&request, settings, shadow_price, &plans, options);
    (line.back(near), answer)
}

/// [`decide`] by intervals of the order of the request.
fn decide_in_order(
    request: &Request<'_>,
    settings: &Settings,
    shadow_price: f64,
    warm: &[&[Option<u32>]],
    options: &Options<'_>,
) -> (Assignment, Answer) {
    let clock = Clock::start(options);
    let case = Case::new(request, settings, shadow_price);
    let free: Vec<usize> = (0..case.owners.len())
        .filter(|&place| case.is_free(place))
        .collect();
    let nodes = case.owners.len();
    let classes = Classes::cut(
        nodes,
        free,
        request.scenarios,
        settings.horizon_s,
        options.classes,
    );
    // The first plan is the present one.
    let kept = case.filled(case.kept());
    let mut plans = vec![case.owners.clone()];
    let mut best = (case.judge(&kept), kept, Source::Keep);
    for plan in warm {
        let plan = case.filled(case.sound(plan));
        if !case.is_allowed(&plan) {
            continue;
        }
        let value = case.judge(&plan);
        if value > best.0 {
            best = (value, plan.clone(), Source::Warm);
        }
        plans.push(plan);
    }
    let mut attempt = |request: &Request<'_>, time_limit: Duration| {
        let options = Options {
            time_limit,
            ..*options
        };
        let answer = solve_columns(
            request,
            (settings, shadow_price),
            &classes,
            &plans,
            &options,
        );
        if answer.chosen.len() == case.members.len() {
            let owners = place(&answer.chosen, &classes, &case.held, &case.flexible, &plans);
            let owners = case.filled(owners);
            let value = case.judge(&owners);
            if value > best.0 && case.is_allowed(&owners) {
                best = (value, owners, answer.source);
            }
        }
        answer
    };
    let mut answer = attempt(request, clock.left().unwrap_or_default());
    for crowd in crowds(request) {
        let Some(left) = clock.left() else { break };
        let crowded = Crowded::new(request, crowd);
        let further = attempt(&crowded.request(request), left);
        answer.stopped_by_clock |= further.stopped_by_clock;
        answer.seconds += further.seconds;
    }
    answer.stopped_by_clock |= clock.stopped();
    answer.objective = best.0;
    answer.source = best.2;
    answer.lost_s = classes.lost_s;
    let gap = gap(answer.objective, answer.bound);
    answer.outcome = match answer.outcome {
        Outcome::Failed => Outcome::Failed,
        // With unequal nodes in a class, the bound does not hold for their true value.
        _ if gap <= options.gap && classes.lost_s == 0.0 => Outcome::Optimal,
        _ => Outcome::Feasible { gap },
    };
    let assignment = Assignment {
        value: best.0,
        owners: best.1,
        proposal: Proposal::Present,
        shadow_price,
    };
    (assignment, answer)
}

/// Solves the program over columns for a request whose crossing trainers share nothing but the rows
/// of the uplinks.
fn solve_columns(
    request: &Request<'_>,
    (settings, shadow_price): (&Settings, f64),
    classes: &Classes,
    plans: &[Vec<Option<u32>>],
    options: &Options<'_>,
) -> Answer {
    let case = Case::new(request, settings, shadow_price);
    let switches = request.scenarios.switches();
    let pinned = case.held.iter().zip(&case.flexible);
    let pinned = pinned.filter(|(_, flexible)| !**flexible);
    let kept = pinned.map(|(held, _)| held.as_slice());
    let first = classes.count_with_gaps();
    let uplinks = Uplinks::new(switches, case.owners.len(), first, kept);
    let mut generator = ColumnGenerator::new(
        classes,
        &uplinks,
        &case.members,
        &case.held,
        request,
        settings,
        shadow_price,
    );
    let starts = (0..).zip(plans).skip(1);
    let starts = starts.map(|(number, plan)| case.columns(plan, number, classes, &uplinks));
    let starts: Vec<Vec<Column>> = starts.collect();
    let mut capacity = classes.capacity();
    capacity.extend(&uplinks.free);
    let solved = solve(&mut generator, &capacity, &starts, options);
    solved.unwrap_or_else(|_| Answer::failed())
}

/// How crowded uplinks may be beside full speed, for the programs with fewer crossing trainers: each
/// the double of the last.
fn crowds(request: &Request<'_>) -> impl Iterator<Item = u32> {
    let switches = request.scenarios.switches();
    let trainers = request.trainers.len() as u32;
    let most = switches.crossing().unwrap_or(trainers).min(trainers);
    let crowds = switches.uplink().map(|carries| {
        let crowds = std::iter::successors(Some(1_u32), |crowd| crowd.checked_mul(2));
        crowds.take_while(move |crowd| carries.max(1).saturating_mul(*crowd) < most)
    });
    crowds.into_iter().flatten()
}

/// A request in which no more than `crowd` times the trainers that an uplink carries cross a leaf,
/// each as slow as if that number crossed.
struct Crowded {
    trainers: Vec<Item>,
    scenarios: Scenarios,
}

impl Crowded {
    fn new(request: &Request<'_>, crowd: u32) -> Self {
        let switches = request.scenarios.switches();
        let carries = switches.uplink().unwrap_or(1).max(1);
        let rows = Some(carries.saturating_mul(crowd));
        let slower = |item: &Item| Item {
            far: item.far.among(f64::from(crowd)),
            ..item.clone()
        };
        Self {
            trainers: request.trainers.iter().map(slower).collect(),
            scenarios: request
                .scenarios
                .clone()
                .below(switches.clone().carrying(rows).sharing(None)),
        }
    }

    fn request<'a>(&'a self, request: &Request<'a>) -> Request<'a> {
        Request {
            trainers: &self.trainers,
            scenarios: &self.scenarios,
            ..*request
        }
    }
}

/// A request with its members and owners checked.
struct Case<'a> {
    members: Vec<Member<'a>>,
    request: &'a Request<'a>,
    settings: &'a Settings,
    shadow_price: f64,
    /// Present owner of each place; none where the request names an unknown one.
    owners: Vec<Option<u32>>,
    held: Vec<Vec<usize>>,
    flexible: Vec<bool>,
}

impl<'a> Case<'a> {
    fn new(request: &'a Request<'a>, settings: &'a Settings, shadow_price: f64) -> Self {
        let members: Vec<Member<'a>> = request.members(settings.repool).collect();
        let mut case = Self {
            flexible: members.iter().map(Member::is_flexible).collect(),
            members,
            request,
            settings,
            shadow_price,
            owners: Vec::new(),
            held: Vec::new(),
        };
        case.owners = case.sound(request.owners);
        case.held = case.sets(&case.owners);
        case
    }

    /// Owners without unknown trainers and unknown places.
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
        let is_flexible = owner.is_none_or(|j| self.flexible.get(j as usize).is_some_and(|&f| f));
        is_flexible && place < self.request.scenarios.nodes()
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

    /// The plan in which pinned trainers keep their nodes and flexible ones get none.
    fn kept(&self) -> Vec<Option<u32>> {
        let owners = self.owners.iter().enumerate();
        owners
            .map(|(place, owner)| owner.filter(|_| !self.is_free(place)))
            .collect()
    }

    /// A plan, with its idle nodes given out if nodes may not be refused.
    fn filled(&self, mut plan: Vec<Option<u32>>) -> Vec<Option<u32>> {
        if !self.settings.refuse {
            use_all(&self.members, &mut plan, self.request.scenarios);
        }
        plan
    }

    /// Whether pinned trainers keep, grow or shrink, and every trainer has a possible size.
    fn is_allowed(&self, plan: &[Option<u32>]) -> bool {
        let sets = self.sets(plan);
        let trainers = self
            .members
            .iter()
            .zip(&self.held)
            .zip(&sets)
            .zip(&self.flexible);
        trainers
            .into_iter()
            .all(|(((member, held), set), &flexible)| {
                let within =
                    |a: &[usize], b: &[usize]| a.iter().all(|p| b.binary_search(p).is_ok());
                let keeps = !flexible && held == set;
                let size = keeps || member.item.is_size(set.len() as u32);
                size && (flexible || within(held, set) || within(set, held))
            })
    }

    /// The columns of a plan.
    fn columns(
        &self,
        plan: &[Option<u32>],
        number: u32,
        classes: &Classes,
        uplinks: &Uplinks,
    ) -> Vec<Column> {
        let sets = self.sets(plan);
        let mut columns = Vec::with_capacity(sets.len());
        for (j, (set, held)) in sets.iter().zip(&self.held).enumerate() {
            let Some((member, &flexible)) = self.members.get(j).zip(self.flexible.get(j)) else {
                continue;
            };
            if (flexible && set.is_empty()) || (!flexible && set == held) {
                // The generator has these columns.
                continue;
            }
            let held: &[usize] = if flexible { &[] } else { held };
            let fewer = |place: &&usize| set.binary_search(place).is_err();
            let more = |place: &&usize| held.binary_search(place).is_err();
            let given = held.iter().filter(fewer).copied();
            let mut take = classes.counts(given);
            for (_, nodes) in &mut take {
                *nodes = -*nodes;
            }
            if take.is_empty() {
                take = classes.counts(set.iter().filter(more).copied());
            }
            let switches = self.request.scenarios.switches();
            let crossed = |set: &[usize]| uplinks.crossed(switches, set);
            take.extend(change(&crossed(held), &crossed(set)));
            let is_shrunk = set.len() < held.len() && held.ends_with(set);
            let kind = if is_shrunk {
                ColumnKind::Shrink(set.len() as u32)
            } else {
                ColumnKind::Set(number)
            };
            columns.push(Column {
                trainer: j as u32,
                take,
                value: self.value(member, set),
                tag: kind.tag(),
            });
        }
        columns
    }

    /// V of a set less its switching cost.
    fn value(&self, member: &Member<'_>, set: &[usize]) -> f64 {
        let scenarios = self.request.scenarios;
        net_value(member, scenarios, set, self.settings, self.shadow_price)
    }

    fn judge(&self, plan: &[Option<u32>]) -> f64 {
        let price = |_| self.shadow_price;
        judge(
            &self.members,
            self.request.scenarios,
            plan,
            self.settings,
            price,
        )
    }
}
