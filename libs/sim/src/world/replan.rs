//! The decider decides at an event, and changes of size are charged.

use lacuna_planner::objective::{Objective, State};
use lacuna_planner::{
    Decision, History, Mix, PoolForecast, Shape, Situation, Slot, Users, mixes_of,
};
use lacuna_trainer::account::{Change, Rates};

use super::decide::{Decisions, Event};
use super::member::Member;
use super::run::World;
use crate::SimError;

impl World<'_> {
    /// Updates the values of sizes, where they change with time.
    pub(super) fn weigh(&mut self) -> Result<(), SimError> {
        if self.active.iter().all(|member| member.kind.is_fixed()) {
            return Ok(());
        }
        let now = self.now();
        let service = &self.service;
        let attained = |member: &Member| service.attained(member.owner, now);
        let least = self
            .active
            .iter()
            .map(attained)
            .fold(f64::INFINITY, f64::min);
        for member in &mut self.active {
            if member.kind.is_fixed() {
                continue;
            }
            let state = State {
                now,
                samples_left: member.work - member.ledger.done() + member.ledger.debt(),
                attained: service.attained(member.owner, now),
                least_attained: least,
            };
            member.kind.update(&mut member.values, &state)?;
        }
        Ok(())
    }

    /// Decides and charges changes. `ends` are the ends that oracle lookahead reveals, by node,
    /// seconds since the start.
    pub(super) fn replan(
        &mut self,
        decisions: &mut Decisions<'_, '_>,
        ends: &[f64],
    ) -> Result<(), SimError> {
        self.weigh()?;
        self.pool.sort();
        let knows = !self.settings.unaware;
        let told = self.kinds.nodes().is_some();
        let members = self.active.iter();
        self.candidates.clear();
        self.candidates.extend(members.map(|m| {
            let tier = if knows { m.tier } else { 0 };
            let own = m.values.as_ref();
            let candidate = m.kind.candidate(m.nodes, tier, m.was_hit, own);
            if told {
                candidate.holding(m.mix, tier)
            } else {
                candidate
            }
        }));
        let sites = self.sites.as_ref().filter(|_| knows);
        let switches = sites.map(|sites| sites.of(self.pool.nodes()));
        let switches = switches.unwrap_or_default();
        let limits = self.settings.forecast.joint;
        let switches = switches.carrying(limits.crossing).sharing(limits.uplink);
        let users = (self.settings.objective == Objective::Fair).then(|| self.users());
        let slots = self.pool.nodes().iter().filter(|_| told);
        let kinds: Vec<u8> = slots.map(|node| self.trace.kind(*node)).collect();
        let now_s = self.tally.now_s;
        let seen = self
            .observer
            .as_mut()
            .map(|observer| observer.look(now_s, ends));
        self.holes.clear();
        if let Some(seen) = seen {
            let place = |&node: &u32| seen.places.get(node as usize).copied();
            let places = self.pool.nodes().iter().map(place);
            self.holes
                .extend(places.map(|place| place.unwrap_or(u32::MAX)));
        }
        let lives: Vec<u32> = if decisions.shows() {
            self.active.iter().map(|member| member.life).collect()
        } else {
            Vec::new()
        };
        let numbers: Vec<u64> = self.active.iter().map(|m| u64::from(m.admitted)).collect();
        let situation = Situation {
            candidates: &self.candidates,
            slots: self.pool.slots(),
            switches: &switches,
            kinds: &kinds,
            users: users.as_ref(),
            pool_forecast: seen.map(|seen| PoolForecast {
                pool: &seen.pool,
                holes: &self.holes,
                known: &seen.known,
                complete_s: self.settings.lookahead.seconds(),
            }),
            history: Some(History {
                lives: &numbers,
                number: self.tally.events,
                carried_out: None,
            }),
            doubt: None,
        };
        let event = Event {
            number: self.tally.events,
            at_s: now_s,
            lives: &lives,
            nodes: self.pool.nodes(),
        };
        let decision = decisions.decide(&event, &situation)?;
        let kept = self.kept(&decision.owners);
        self.pool.assign(&decision.owners);
        self.charge_changes(&decision, kept.as_deref());
        Ok(())
    }

    /// The kind of a node; the first where trainers do not tell kinds apart.
    pub(super) fn told(&self, node: u32) -> u8 {
        let told = self.kinds.nodes().is_some();
        if told { self.trace.kind(node) } else { 0 }
    }

    /// The nodes of each kind that trainers keep under a decision and their tier, where trainers tell
    /// kinds apart.
    fn kept(&self, owners: &[Option<u32>]) -> Option<Vec<(Mix, usize)>> {
        self.kinds.nodes()?;
        let slots = self.pool.slots().iter().zip(owners);
        let stays = slots.map(|(slot, owner)| Slot {
            owner: slot.owner.filter(|j| Some(*j) == *owner),
            ..*slot
        });
        let (slots, nodes): (Vec<Slot>, _) = (stays.collect(), self.pool.nodes());
        let kinds = nodes.iter().map(|node| self.told(*node));
        let owned = slots.iter().map(|slot| slot.owner).zip(kinds);
        let mixes = mixes_of(self.active.len(), owned);
        let sites = self.sites.as_ref();
        let tiers = sites.map(|sites| sites.tiers(nodes, &slots, self.active.len()));
        let tiers = tiers.into_iter().flatten().map(|(tier, _)| tier);
        Some(
            mixes
                .into_iter()
                .zip(tiers.chain(std::iter::repeat(0)))
                .collect(),
        )
    }

    /// Gives trainers their new nodes and charges the changes as control carries them out. Where kinds
    /// are told apart, nodes are given up first, and taken then. What is left meanwhile may be too few
    /// to train on, so what follows is a start. A hit trainer that the decision restarts on other nodes
    /// is not charged again.
    fn charge_changes(&mut self, decision: &Decision, kept: Option<&[(Mix, usize)]>) {
        let replaced = decision
            .evaluation
            .as_ref()
            .map_or(&[][..], |f| &f.replaced);
        let (nodes, slots) = (self.pool.nodes(), self.pool.slots());
        let sites = self.sites.as_ref();
        let tiers = sites.map(|sites| sites.tiers(nodes, slots, self.active.len()));
        let tiers = tiers.into_iter().flatten();
        let tiers = tiers.chain(std::iter::repeat((0, 1.0)));
        let owned = nodes.iter().zip(slots);
        let owned = owned.map(|(node, slot)| (slot.owner, self.told(*node)));
        let mixes = mixes_of(self.active.len(), owned);
        let members = (0_u32..).zip(&mut self.active).zip(mixes);
        for (((j, member), mix), (tier, crowd)) in members.zip(tiers) {
            let was_hit = std::mem::take(&mut member.was_hit);
            let kept = kept.and_then(|kept| kept.get(j as usize)).copied();
            let after = Shape { mix, tier, crowd };
            let goes = |from: Mix, to: Shape, change| (from != to.mix).then_some((to, change));
            let steps = match kept {
                _ if was_hit && replaced.contains(&j) => {
                    [goes(member.mix, after, Change::Replaced), None]
                }
                Some((mix, tier)) => {
                    // Uplinks are looked at once all have their nodes.
                    let crowd = member.crowd;
                    let rest = Shape { mix, tier, crowd };
                    [
                        goes(member.mix, rest, Change::Shrunk),
                        goes(mix, after, Change::Grown),
                    ]
                }
                None if mix > member.mix => [goes(member.mix, after, Change::Grown), None],
                None => [goes(member.mix, after, Change::Shrunk), None],
            };
            for (to, change) in steps.into_iter().flatten() {
                let (had, before) = (member.nodes, member.rate);
                member.remix(to.mix);
                if kept.is_some() && member.is_short() {
                    member.stop();
                }
                member.set_tier(to.tier, to.crowd);
                let rates = Rates {
                    before,
                    after: member.rate,
                };
                let (cost, waits) = member.charge(change, rates);
                self.tally.pilot_wait += waits;
                self.tally.rescale_cost += cost;
                self.days.charge(self.tally.now_s, cost, 0.0);
                // Another mix of as many nodes is a re-placement.
                let is_rescale = had > 0 && !(change == Change::Replaced && had == member.nodes);
                self.tally.rescales += u64::from(is_rescale);
                self.tally.rescales_at_hits += u64::from(is_rescale && was_hit);
            }
            member.set_tier(tier, crowd);
        }
    }

    /// The owners of the active trainers.
    fn users(&self) -> Users {
        let owners = self.active.iter().map(|member| member.owner);
        Users {
            of: owners.map(|owner| owner as u32).collect(),
            parts: Vec::new(),
        }
    }
}
