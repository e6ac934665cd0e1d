//! Placement by the program over columns: from a request to owners.

use lacuna_model::Outcome;

use crate::placement::blocks::use_all;
use crate::placement::{Assignment, LeafByLeaf, Member, Proposal, Request, Settings, judge};

use super::answer::gap;
use super::classes::Classes;
use super::generator::ColumnGenerator;
use super::place::place;
use super::uplinks::Uplinks;
use super::{Answer, Options, Source, solve};

/// Allocates nodes to trainers, as [`crate::placement::blocks::BlockPlacer::decide`] does, by the
/// program over columns. `shadow_price` is that of a node-second, objective units. The value of the
/// answer is at least that of keeping for all.
///
/// `value` of the assignment is V of the very nodes less all switching costs, and `objective` of
/// the answer is the same. Where nodes may not be refused, trainers with room get the remaining nodes
/// before the answer is valued, as by blocks; the bound is that of all plans. The solve ends by its
/// work, or shortly after the time limit.
///
/// Where distance matters, intervals are those of the line leaf by leaf, and so is the bound. Where
/// crossing trainers share uplinks, the program charges none of them, so its bound holds; the answer
/// is valued with all of them.
pub fn decide(
    request: &Request<'_>,
    settings: &Settings,
    shadow_price: f64,
    options: &Options<'_>,
) -> (Assignment, Answer) {
    let Some(line) = LeafByLeaf::new(request, settings.horizon_s) else {
        return decide_in_order(request, settings, shadow_price, options);
    };
    let request = line.request(request);
    let (near, answer) = decide_in_order(&request, settings, shadow_price, options);
    (line.back(near), answer)
}

/// [`decide`] by intervals of the order of the request.
fn decide_in_order(
    request: &Request<'_>,
    settings: &Settings,
    shadow_price: f64,
    options: &Options<'_>,
) -> (Assignment, Answer) {
    let case = Case::new(request, settings, shadow_price);
    let classes = case.classes();
    let kept = case.filled(case.kept());
    let mut best = (case.judge(&kept), kept);
    let mut answer = case.solve(&classes, options);
    let mut source = Source::Keep;
    if answer.chosen.len() == case.members.len() {
        let owners = place(&answer.chosen, &classes, &case.held, &case.flexible);
        let owners = case.filled(owners);
        let value = case.judge(&owners);
        if value > best.0 && case.is_allowed(&owners) {
            best = (value, owners);
            source = answer.source;
        }
    }
    answer.objective = best.0;
    answer.source = source;
    let gap = gap(answer.objective, answer.bound);
    answer.outcome = match answer.outcome {
        Outcome::Failed => Outcome::Failed,
        _ if gap <= options.gap => Outcome::Optimal,
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

/// The number of ends of intervals that the trainers of a request can bid for: the room that a solve
/// takes, in units of some 24 bytes, and about its work in one pricing.
#[must_use]
pub fn ends(request: &Request<'_>, settings: &Settings) -> usize {
    let case = Case::new(request, settings, 0.0);
    let classes = case.classes().count();
    let ends = case.members.iter().zip(&case.flexible);
    let ends = ends.map(|(member, flexible)| {
        let most = classes.min(member.item.max as usize);
        (*flexible, classes.saturating_mul(most))
    });
    // Flexible trainers share one table.
    let shared = ends.clone().filter(|(flexible, _)| *flexible);
    let shared = shared.map(|(_, ends)| ends).max().unwrap_or(0);
    let own = ends.filter(|(flexible, _)| !flexible);
    own.map(|(_, ends)| ends)
        .fold(shared, usize::saturating_add)
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
        let members: Vec<Member<'a>> = request.members(settings.replace).collect();
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

    /// The free nodes in classes.
    fn classes(&self) -> Classes {
        let nodes = self.owners.len();
        let free = (0..nodes).filter(|&place| self.is_free(place)).collect();
        Classes::cut(nodes, free, self.request.scenarios, self.settings.horizon_s)
    }

    /// Solves the program over columns.
    fn solve(&self, classes: &Classes, options: &Options<'_>) -> Answer {
        let switches = self.request.scenarios.switches();
        let pinned = self.held.iter().zip(&self.flexible);
        let pinned = pinned.filter(|(_, flexible)| !**flexible);
        let kept = pinned.map(|(held, _)| held.as_slice());
        let first = classes.count_with_gaps();
        let uplinks = Uplinks::new(switches, self.owners.len(), first, kept);
        let mut generator = ColumnGenerator::new(
            classes,
            &uplinks,
            &self.members,
            &self.held,
            self.request,
            self.settings,
            self.shadow_price,
        );
        let mut capacity = classes.capacity();
        capacity.extend(&uplinks.free);
        let solved = solve(&mut generator, &capacity, options);
        solved.unwrap_or_else(|_| Answer::failed())
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
