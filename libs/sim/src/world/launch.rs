//! The rules beside the policy: they launch trainers in place of the decider.
//!
//! - `requeue`: each trainer is a job of a fixed size. Jobs start in the order of their submission;
//!   one that does not fit lets those behind it pass. A job that loses a node is killed and waits
//!   [`REQUEUED_S`], then it starts again.
//! - `torchrun-elastic`: a free node joins the trainer with the fewest nodes. A trainer whose nodes
//!   change starts again with all its members. Below its minimum it waits and holds no node.
//!
//! Where nodes are of several kinds, a trainer takes those of one kind at a time, as jobs of a
//! partition do: of the kind on which it runs fastest, among those with enough free nodes at its start.
//!
//! Who starts again goes on from its last checkpoint. The rest of its samples are taken back.

use lacuna_model::MOST_KINDS;
use lacuna_planner::{Mix, NO_NODES, Shape, mixes_of};
use lacuna_trainer::account::{Change, Rates, stall_debt};

use super::launcher::Launcher;
use super::member::Member;
use super::run::World;

/// Seconds until a requeued job may start again: `cred_expire` of Slurm, by default.
const REQUEUED_S: f64 = 120.0;

/// The largest job up to `nodes` that a trainer can be on a kind alone, not below its minimum.
fn fixed(member: &Member, nodes: u32, kind: usize) -> Option<Mix> {
    let least = member.kind.min();
    let most = nodes.clamp(least, most(member).max(least));
    let mut jobs = (least..=most).rev().map(|n| of_kind(kind, n));
    jobs.find(|mix| rate_on(member, *mix) > 0.0)
}

/// The smallest job that a trainer can be on a kind alone.
fn smallest(member: &Member, kind: usize) -> Option<Mix> {
    let mut jobs = (member.kind.min()..=most(member)).map(|n| of_kind(kind, n));
    jobs.find(|mix| rate_on(member, *mix) > 0.0)
}

fn most(member: &Member) -> u32 {
    member.kind.rates().len().saturating_sub(1) as u32
}

fn of_kind(kind: usize, nodes: u32) -> Mix {
    std::array::from_fn(|of| if of == kind { nodes } else { 0 })
}

fn rate_on(member: &Member, mix: Mix) -> f64 {
    member.kind.rate_on(&Shape::new(mix, 0))
}

/// The fastest of a trainer's jobs on each kind for which enough nodes are free.
fn fastest(member: &Member, free: &Mix, job: impl Fn(usize) -> Option<Mix>) -> Option<Mix> {
    let fits = |mix: &Mix| mix.iter().zip(free).all(|(n, free)| n <= free);
    let jobs = (0..free.len()).filter_map(job).filter(fits);
    let faster = |best: Mix, next: Mix| {
        let is_faster = rate_on(member, next) > rate_on(member, best);
        if is_faster { next } else { best }
    };
    jobs.reduce(faster)
}

/// Takes nodes from the free ones.
fn take(free: &mut Mix, mix: Mix) {
    for (free, taken) in free.iter_mut().zip(mix) {
        *free = free.saturating_sub(taken);
    }
}

impl World<'_> {
    /// The trainers that lost nodes start again, or wait. The nodes of those that wait are free.
    pub(super) fn interrupt(&mut self, launcher: Launcher) {
        let now_s = self.tally.now_s;
        let is_killed = |member: &Member| {
            member.hit.is_some()
                && match launcher {
                    Launcher::Requeue { .. } => true,
                    Launcher::Elastic => member.nodes == 0 || member.is_short(),
                }
        };
        if self.active.iter().any(is_killed) {
            let active = &self.active;
            let keeps = |j: u32| active.get(j as usize).is_some_and(|m| !is_killed(m));
            self.pool.map_owners(|j| keeps(j).then_some(j));
        }
        let at = self.now();
        for member in &mut self.active {
            let killed = is_killed(member);
            if killed {
                member.stop();
            }
            let Some(before) = member.hit.take() else {
                continue;
            };
            if member.ended_s.is_some() {
                continue;
            }
            member.was_hit = true;
            let mut cost = member.go_back();
            self.tally.samples -= cost;
            self.tally.redone += cost;
            if killed {
                let wait_s = match launcher {
                    Launcher::Requeue { .. } => REQUEUED_S,
                    Launcher::Elastic => 0.0,
                };
                member.saves.kill(now_s + wait_s);
            } else {
                let after = member.rate;
                cost += member.start_again(Change::Lost { at }, before, after, now_s);
                self.tally.restarts += 1;
            }
            self.tally.preempt_cost += cost;
            self.tally.preemptions += 1;
        }
    }

    /// The next moment at which a requeued job may start, seconds.
    pub(super) fn next_restart_s(&self) -> f64 {
        let now_s = self.tally.now_s;
        let waits = self.active.iter().filter(|member| member.nodes == 0);
        let waits = waits.map(|member| member.saves.may_start_s());
        waits
            .filter(|at_s| *at_s > now_s)
            .fold(f64::INFINITY, f64::min)
    }

    /// Gives free nodes to trainers by a rule, and charges the changes.
    pub(super) fn launch(&mut self, launcher: Launcher) {
        let now_s = self.tally.now_s;
        self.pool.sort();
        let owned = self.pool.nodes().iter().zip(self.pool.slots());
        let owned = owned.map(|(node, slot)| (slot.owner, self.told(*node)));
        let owned: Vec<(Option<u32>, u8)> = owned.collect();
        let free = owned.iter().filter(|(owner, _)| owner.is_none());
        let free = mixes_of(1, free.map(|(_, kind)| (Some(0), *kind)));
        let free = free.first().copied().unwrap_or(NO_NODES);
        let mixes = match launcher {
            Launcher::Requeue { nodes } => jobs(&self.active, nodes, free, now_s),
            Launcher::Elastic => joined(&self.active, free),
        };
        // The trainers that get nodes of each kind, in their order.
        let mut next: [std::collections::VecDeque<u32>; MOST_KINDS] = Default::default();
        for ((j, mix), member) in (0..).zip(&mixes).zip(&self.active) {
            for ((next, n), had) in next.iter_mut().zip(mix).zip(member.mix) {
                next.extend(std::iter::repeat_n(j, n.saturating_sub(had) as usize));
            }
        }
        let mut give = |kind: u8| next.get_mut(usize::from(kind))?.pop_front();
        let owners = owned.into_iter();
        let owners = owners.map(|(owner, kind)| owner.or_else(|| give(kind)));
        let owners: Vec<Option<u32>> = owners.collect();
        self.pool.assign(&owners);
        let sites = self.sites.as_ref();
        let (nodes, slots) = (self.pool.nodes(), self.pool.slots());
        let tiers = sites.map(|sites| sites.tiers(nodes, slots, self.active.len()));
        let tiers = tiers.into_iter().flatten();
        let tiers = tiers.chain(std::iter::repeat((0, 1.0)));
        for ((member, &mix), (tier, crowd)) in self.active.iter_mut().zip(&mixes).zip(tiers) {
            let was_hit = std::mem::take(&mut member.was_hit);
            let (from, before, stays) = (member.nodes, member.rate, mix == member.mix);
            member.remix(mix);
            member.set_tier(tier, crowd);
            if stays {
                continue;
            }
            if from > 0 {
                self.tally.rescales += 1;
            }
            if from > 0 && was_hit {
                // It starts again in this moment anyway.
                continue;
            }
            let again = member.saves.has_run();
            let lost = member.go_back();
            self.tally.samples -= lost;
            self.tally.redone += lost;
            let after = member.rate;
            let cost = lost + member.start_again(Change::Grown, before, after, now_s);
            self.tally.rescale_cost += cost;
            self.tally.restarts += u64::from(again);
        }
    }
}

impl Member {
    /// Goes back to its last checkpoint. Gives the samples that it has to do again.
    fn go_back(&mut self) -> f64 {
        let lost = (self.ledger.done() - self.saves.samples()).max(0.0);
        self.ledger.go_back(self.saves.samples());
        self.saves.stop();
        lost
    }

    /// Starts, or starts again with all members. Gives the stall debt, samples. A start that follows
    /// a kill costs what a start costs or, if starts cost nothing, a restart after a loss.
    fn start_again(&mut self, change: Change, before: f64, after: f64, now_s: f64) -> f64 {
        let costs = self.kind.costs();
        let start_s = match self.saves.has_run() {
            true if costs.start_s <= 0.0 => costs.rescale.down_s,
            _ => costs.start_s,
        };
        let debt = stall_debt(&costs.rescale, start_s, change, Rates { before, after });
        self.ledger.charge(debt);
        self.saves.start(now_s);
        debt
    }
}

/// The nodes of each trainer after the jobs that fit have started.
fn jobs(active: &[Member], nodes: u32, mut free: Mix, now_s: f64) -> Vec<Mix> {
    let of = |member: &Member| {
        if member.nodes > 0 || member.saves.may_start_s() > now_s {
            return member.mix;
        }
        let job = fastest(member, &free, |kind| fixed(member, nodes, kind));
        take(&mut free, job.unwrap_or(NO_NODES));
        job.unwrap_or(NO_NODES)
    };
    active.iter().map(of).collect()
}

/// The nodes of each trainer after all free nodes have joined one.
fn joined(active: &[Member], mut free: Mix) -> Vec<Mix> {
    let mut mixes: Vec<Mix> = active.iter().map(|member| member.mix).collect();
    for (mix, member) in mixes.iter_mut().zip(active) {
        if *mix == NO_NODES {
            let job = fastest(member, &free, |kind| smallest(member, kind));
            *mix = job.unwrap_or(NO_NODES);
            take(&mut free, *mix);
        }
    }
    loop {
        // The size, the kind and the nodes after one more has joined.
        let more = |mix: &Mix, member: &Member| {
            let kind = mix.iter().position(|nodes| *nodes > 0)?;
            let (nodes, free) = (*mix.get(kind)?, *free.get(kind)?);
            let more = of_kind(kind, nodes + 1);
            let joins = free > 0 && nodes < most(member) && rate_on(member, more) > 0.0;
            joins.then_some((nodes, kind, more))
        };
        let room = mixes.iter_mut().zip(active);
        let room = room.filter_map(|(mix, member)| Some((more(mix, member)?, mix)));
        let Some(((_, kind, more), mix)) = room.min_by_key(|((nodes, ..), _)| *nodes) else {
            return mixes;
        };
        *mix = more;
        take(&mut free, of_kind(kind, 1));
    }
}
