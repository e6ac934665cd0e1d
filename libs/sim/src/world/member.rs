//! The trainers that are admitted: how they come, lose nodes, get a new size, and go.

use std::sync::Arc;

use lacuna_model::{Policy, Timestamp};
use lacuna_planner::objective::{Objective, State};
use lacuna_planner::{Problem, choose};

use super::decide::{Decider, Users};
use super::kinds::{Kind, Tables, work};
use super::run::World;
use crate::{Account, Model, SimError};

/// An admitted trainer.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) kind: Arc<Kind>,
    pub(super) nodes: u32,
    /// Its rate at its nodes, samples/s.
    pub(super) rate: f64,
    pub(super) work: f64,
    pub(super) account: Account,
    /// When its work was done, seconds since the start.
    pub(super) ended_s: Option<f64>,
    /// Rate before it lost nodes in the present step, if it did.
    hit: Option<f64>,
    /// Whether it lost nodes in the present step and has paid for that: it restarts anyway.
    pub(super) was_hit: bool,
    /// Its place in the order of admission.
    pub(super) life: u32,
    /// The number of its owner.
    pub(super) owner: usize,
    /// What its sizes are worth at present, if that changes.
    pub(super) tables: Option<Tables>,
}

impl Member {
    fn resize(&mut self, nodes: u32) {
        self.nodes = nodes;
        self.rate = self.kind.rate(nodes);
    }
}

impl World<'_> {
    /// A node leaves.
    pub(super) fn lose(&mut self, node: u32) {
        let Some(owner) = self.pool.close(node) else {
            return;
        };
        if let Some(member) = self.active.get_mut(owner as usize) {
            member.hit.get_or_insert(member.rate);
            member.resize(member.nodes.saturating_sub(1));
        }
    }

    /// A trainer that lost nodes pays once, however many they were.
    pub(super) fn charge_preemptions(&mut self) {
        for member in &mut self.active {
            let Some(rate_before) = member.hit.take() else {
                continue;
            };
            if member.ended_s.is_some() {
                continue;
            }
            member.was_hit = true;
            let cost = member
                .account
                .charge(rate_before, member.kind.cost().down_s);
            self.tally.preempt_cost += cost;
            self.tally.preemptions += 1;
            self.days.charge(self.tally.now_s, 0.0, cost);
            if let Some(recorder) = &mut self.recorder {
                recorder.preempt(member.life);
            }
        }
    }

    /// Trainers that have done their work leave, and the others move up.
    pub(super) fn dismiss(&mut self) {
        if self.active.iter().all(|member| member.ended_s.is_none()) {
            return;
        }
        let mut left = 0;
        let moved: Vec<Option<u32>> = self
            .active
            .iter()
            .map(|member| {
                let stays = member.ended_s.is_none();
                left += u32::from(stays);
                stays.then(|| left - 1)
            })
            .collect();
        self.pool
            .map_owners(|owner| moved.get(owner as usize).copied().flatten());
        let (endless, now_s) = (self.settings.endless, self.tally.now_s);
        for member in self.active.extract_if(.., |m| m.ended_s.is_some()) {
            self.tally.trainers_done += 1;
            if let Some(recorder) = &mut self.recorder {
                // In an endless list it has trained on until now, and that work counts.
                let ended_s = if endless { Some(now_s) } else { member.ended_s };
                recorder.end(member.life, ended_s, member.account.done);
            }
        }
    }

    /// First come, first served, while there is room.
    pub(super) fn admit(&mut self) {
        while self.active.len() < self.settings.max_parallel as usize
            && let Some(spec) = self.spec_at(self.next)
            && self.arrival_s(spec) <= self.tally.now_s
        {
            let round = self.next % self.trainers.len();
            let Some(kind) = self.kinds.of(round) else {
                return;
            };
            if let Some(recorder) = &mut self.recorder {
                recorder.admit(&spec.id, self.tally.now_s);
            }
            let name = spec.owner.as_deref().unwrap_or(spec.id.as_str());
            self.active.push(Member {
                kind: kind.clone(),
                nodes: 0,
                rate: 0.0,
                work: work(spec),
                account: Account::default(),
                ended_s: None,
                hit: None,
                was_hit: false,
                life: u32::try_from(self.next).unwrap_or(u32::MAX),
                owner: match self.settings.objective {
                    Objective::LeastAttained | Objective::Fair => self.service.owner(name),
                    _ => 0,
                },
                tables: None,
            });
            self.next += 1;
        }
    }

    /// Brings what sizes are worth up to the present, where that changes.
    pub(super) fn weigh(&mut self) -> Result<(), SimError> {
        if self.active.iter().all(|member| member.kind.is_fixed()) {
            return Ok(());
        }
        let now_s = self.tally.now_s;
        let service = &self.service;
        let attained = |member: &Member| service.attained(member.owner, now_s);
        let least = self
            .active
            .iter()
            .map(attained)
            .fold(f64::INFINITY, f64::min);
        let elapsed = lacuna_model::Span::from_secs_f64(now_s);
        let now: Timestamp = self.recording.start() + elapsed;
        for member in &mut self.active {
            if member.kind.is_fixed() {
                continue;
            }
            let state = State {
                now,
                samples_left: member.work - member.account.done + member.account.owed,
                attained: service.attained(member.owner, now_s),
                least_attained: least,
            };
            member.kind.update(&mut member.tables, &state)?;
        }
        Ok(())
    }

    /// The planner decides, and changes are charged.
    pub(super) fn replan(
        &mut self,
        decider: &mut Decider<'_, '_>,
        ends: &[f64],
    ) -> Result<(), SimError> {
        if self.seer.is_some() {
            return self.replan_jointly(decider, ends);
        }
        self.weigh()?;
        self.problem.nodes = self.pool.len();
        self.problem.max_change = match (self.settings.model, self.settings.policy) {
            // The limit comes from the published programme's big-M; equal share knows none.
            (Model::Exact, _) | (_, Policy::EqualShare) => None,
            (Model::Published, _) => Some(Problem::published_max_change(self.pool.len())),
        };
        self.problem.trainers.clear();
        let items = self.active.iter();
        let items = items.map(|m| m.kind.item(m.nodes, m.tables.as_ref()));
        self.problem.trainers.extend(items);
        let lives: Vec<u32> = if decider.shows() {
            self.active.iter().map(|member| member.life).collect()
        } else {
            Vec::new()
        };
        let users = (self.settings.objective == Objective::Fair).then(|| self.users());
        let event = self.tally.events;
        let sizes = decider.decide(event, &self.problem, users.as_ref(), &lives)?;
        let changes = self.active.iter().zip(&sizes.counts);
        if changes.clone().any(|(m, &n)| m.nodes != n) {
            let owners = choose::assign(
                self.settings.node_choice,
                self.pool.slots(),
                &sizes.counts,
                &mut self.rng,
            );
            self.pool.assign(&owners);
        }
        self.charge_changes(&sizes.counts);
        Ok(())
    }

    /// Trainers go to their new sizes, and what that costs is charged.
    pub(super) fn charge_changes(&mut self, counts: &[u32]) {
        let charge_starts = self.settings.charge_starts;
        let repools = self.settings.policy.forecasts() && self.settings.forecast.joint.repool;
        for (member, &nodes) in self.active.iter_mut().zip(counts) {
            let was_hit = std::mem::take(&mut member.was_hit);
            if nodes == member.nodes {
                continue;
            }
            let cost = member.kind.cost();
            let stall_s = if nodes > member.nodes {
                cost.up_s
            } else {
                cost.down_s
            };
            // Below its minimum a trainer does not run, so there is nothing to stall; a start
            // is free as published, or stalls what begins.
            let starts = member.nodes < member.kind.min();
            let rate = match (starts, charge_starts && nodes > member.nodes) {
                // It restarts anyway, and that has been charged.
                _ if was_hit && repools => 0.0,
                (false, _) => member.rate,
                (true, true) => member.kind.rate(nodes),
                (true, false) => 0.0,
            };
            let cost = member.account.charge(rate, stall_s);
            self.tally.rescale_cost += cost;
            self.days.charge(self.tally.now_s, cost, 0.0);
            self.tally.rescales += u64::from(member.nodes > 0);
            self.tally.rescales_at_hits += u64::from(member.nodes > 0 && was_hit);
            member.resize(nodes);
        }
    }

    /// Who owns the trainers, and what share each owner has: the largest weight of its trainers.
    fn users(&self) -> Users {
        let mut users = Users::default();
        for member in &self.active {
            let owner = member.owner;
            users.of.push(u32::try_from(owner).unwrap_or(u32::MAX));
            if users.shares.len() <= owner {
                users.shares.resize(owner + 1, 0.0);
            }
            if let Some(share) = users.shares.get_mut(owner) {
                *share = share.max(member.kind.weight());
            }
        }
        users
    }
}
