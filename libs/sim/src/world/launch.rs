//! The rules beside the policy: they launch trainers in place of the decider.
//!
//! - `requeue`: each trainer is a job of a fixed size. Jobs start in the order of their submission;
//!   one that does not fit lets those behind it pass. A job that loses a node is killed and waits
//!   [`REQUEUED_S`], then it starts again.
//! - `torchrun-elastic`: a free node joins the trainer with the fewest nodes. A trainer whose nodes
//!   change starts again with all its members. Below its minimum it waits and holds no node.
//!
//! Who starts again goes on from its last checkpoint. The rest of its samples are taken back.

use lacuna_planner::Shape;
use lacuna_trainer::account::{Change, Rates, stall_debt};

use super::launcher::Launcher;
use super::member::Member;
use super::run::World;

/// Seconds until a requeued job may start again: `cred_expire` of Slurm, by default.
const REQUEUED_S: f64 = 120.0;

/// The size of the job of a trainer.
fn fixed(member: &Member, nodes: u32) -> u32 {
    let most = member.kind.rates().len().saturating_sub(1) as u32;
    nodes.clamp(member.kind.min(), most.max(member.kind.min()))
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
        let held: u32 = self.active.iter().map(|member| member.nodes).sum();
        let free = self.pool.len().saturating_sub(held);
        let sizes = match launcher {
            Launcher::Requeue { nodes } => jobs(&self.active, nodes, free, now_s),
            Launcher::Elastic => joined(&self.active, free),
        };
        let grows = self.active.iter().zip(&sizes);
        let grows: Vec<u32> = grows
            .map(|(m, size)| size.saturating_sub(m.nodes))
            .collect();
        let each = |(j, &count): (u32, &u32)| std::iter::repeat_n(j, count as usize);
        let mut left = (0..).zip(&grows).flat_map(each);
        let slots = self.pool.slots().iter();
        let owners: Vec<Option<u32>> = slots
            .map(|slot| slot.owner.or_else(|| left.next()))
            .collect();
        self.pool.assign(&owners);
        let sites = self.sites.as_ref();
        let (nodes, slots) = (self.pool.nodes(), self.pool.slots());
        let tiers = sites.map(|sites| sites.tiers(nodes, slots, self.active.len()));
        let tiers = tiers.into_iter().flatten();
        let tiers = tiers.chain(std::iter::repeat((0, 1.0)));
        for ((member, &size), (tier, crowd)) in self.active.iter_mut().zip(&sizes).zip(tiers) {
            let was_hit = std::mem::take(&mut member.was_hit);
            let (from, before) = (member.nodes, member.rate);
            member.remix(Shape::of(size, tier).mix);
            member.set_tier(tier, crowd);
            if size == from {
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

/// The size of each trainer after the jobs that fit have started.
fn jobs(active: &[Member], nodes: u32, mut free: u32, now_s: f64) -> Vec<u32> {
    let size = |member: &Member| {
        let size = fixed(member, nodes);
        if member.nodes > 0 || size > free || member.saves.may_start_s() > now_s {
            return member.nodes;
        }
        free -= size;
        size
    };
    active.iter().map(size).collect()
}

/// The size of each trainer after all free nodes have joined one.
fn joined(active: &[Member], mut free: u32) -> Vec<u32> {
    let mut sizes: Vec<u32> = active.iter().map(|member| member.nodes).collect();
    for (size, member) in sizes.iter_mut().zip(active) {
        if *size == 0 && member.kind.min() <= free {
            *size = member.kind.min();
            free -= *size;
        }
    }
    while free > 0 {
        let most = |member: &Member| member.kind.rates().len().saturating_sub(1) as u32;
        let room = sizes.iter_mut().zip(active);
        let room = room.filter(|(size, member)| **size > 0 && **size < most(member));
        let Some((least, _)) = room.min_by_key(|(size, _)| **size) else {
            break;
        };
        *least += 1;
        free -= 1;
    }
    sizes
}
