//! The decider decides at an event, and changes of size are charged.

use lacuna_planner::objective::{Objective, State};
use lacuna_planner::{Decision, History, Mixes, PoolForecast, Situation, Slot, Users, mixes_of};
use lacuna_trainer::account::{Change, Rates};

use super::decide::{Decisions, Event};
use super::member::Member;
use super::run::World;
use crate::{Quirks, SimError, published};

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
        let knows = self.settings.place.is_aware();
        let members = self.active.iter();
        self.candidates.clear();
        self.candidates.extend(members.map(|m| {
            let tier = if knows { m.tier } else { 0 };
            m.kind
                .candidate(m.nodes, tier, m.was_hit, m.values.as_ref())
        }));
        let sites = self.sites.as_ref().filter(|_| knows);
        let switches = sites.map(|sites| sites.of(self.pool.nodes()));
        let switches = switches.unwrap_or_default();
        let limits = self.settings.forecast.joint;
        let switches = switches.carrying(limits.crossing).sharing(limits.uplink);
        let users = (self.settings.objective == Objective::Fair).then(|| self.users());
        let mixes = self.mixes();
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
            mixes: mixes.as_ref(),
            users: users.as_ref(),
            max_change: match (self.settings.quirks, self.settings.policy) {
                // The limit is the published program's; its equal-share baseline has none.
                (Quirks::Published, policy) if policy.maximises() => {
                    Some(published::max_change(self.pool.len()))
                }
                _ => None,
            },
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
        let stays =
            |(slot, owner): (&Slot, &Option<u32>)| slot.owner.filter(|j| Some(*j) == *owner);
        let slots = self.pool.slots().iter();
        let kept: Option<Vec<Option<u32>>> =
            (mixes.is_some()).then(|| slots.zip(&decision.owners).map(stays).collect());
        self.pool.assign(&decision.owners);
        match mixes.as_ref().zip(kept) {
            Some((mixes, kept)) => self.charge_mixes(&mixes.of, &kept),
            None => self.charge_changes(&decision),
        }
        Ok(())
    }

    /// The kinds of the slots and what mixes are worth, if nodes are of several kinds.
    fn mixes(&self) -> Option<Mixes> {
        self.kinds.nodes()?;
        let item = |m: &Member| m.kind.mix_item(m.mix?, m.values.as_ref());
        let nodes = self.pool.nodes().iter();
        Some(Mixes {
            of: nodes.map(|node| self.trace.kind(*node)).collect(),
            items: self.active.iter().filter_map(item).collect(),
        })
    }

    /// Gives trainers their new mixes and charges the changes as control carries them out: nodes are
    /// given up first, and taken then. What is left meanwhile may be too few to train on, so what
    /// follows is a start. `of` has the kind of each slot, `kept` its owner if that stays the same.
    fn charge_mixes(&mut self, of: &[u8], kept: &[Option<u32>]) {
        let trainers = self.active.len();
        let kinds = || of.iter().copied();
        let slots = self.pool.slots().iter().map(|slot| slot.owner);
        let mixes = mixes_of(trainers, slots.zip(kinds()));
        let kept = mixes_of(trainers, kept.iter().copied().zip(kinds()));
        for (member, (mix, kept)) in self.active.iter_mut().zip(mixes.into_iter().zip(kept)) {
            let was_hit = std::mem::take(&mut member.was_hit);
            let before = member.mix.unwrap_or_default();
            for (goes_on, change) in [
                (kept != before, Change::Shrunk),
                (mix != kept, Change::Grown),
            ] {
                if !goes_on {
                    continue;
                }
                let (had, rate) = (member.nodes, member.rate);
                member.remix(if change == Change::Shrunk { kept } else { mix });
                if member.is_short() {
                    member.stop();
                }
                let rates = Rates {
                    before: rate,
                    after: member.rate,
                };
                let (cost, waits) = member.charge(change, rates);
                self.tally.pilot_wait += waits;
                self.tally.rescale_cost += cost;
                self.days.charge(self.tally.now_s, cost, 0.0);
                self.tally.rescales += u64::from(had > 0);
                self.tally.rescales_at_hits += u64::from(had > 0 && was_hit);
            }
        }
    }

    /// Gives trainers their new sizes and charges the changes. A hit trainer that the decision
    /// restarts on other nodes is not charged again.
    fn charge_changes(&mut self, decision: &Decision) {
        let repooled = decision
            .evaluation
            .as_ref()
            .map_or(&[][..], |f| &f.repooled);
        let (nodes, slots) = (self.pool.nodes(), self.pool.slots());
        let sites = self.sites.as_ref();
        let tiers = sites.map(|sites| sites.tiers(nodes, slots, self.active.len()));
        let tiers = tiers.into_iter().flatten();
        let tiers = tiers.chain(std::iter::repeat((0, 1.0)));
        let members = (0_u32..).zip(&mut self.active).zip(&decision.sizes.counts);
        for (((j, member), &nodes), (tier, crowd)) in members.zip(tiers) {
            let was_hit = std::mem::take(&mut member.was_hit);
            if nodes == member.nodes {
                member.set_tier(tier, crowd);
                continue;
            }
            let restarts = was_hit && repooled.contains(&j);
            let change = Change::planned(member.nodes, nodes, restarts);
            let rates = Rates {
                before: member.rate,
                after: member.kind.rate_among(nodes, tier, crowd),
            };
            let (cost, waits) = member.charge(change, rates);
            self.tally.pilot_wait += waits;
            self.tally.rescale_cost += cost;
            self.days.charge(self.tally.now_s, cost, 0.0);
            self.tally.rescales += u64::from(member.nodes > 0);
            self.tally.rescales_at_hits += u64::from(member.nodes > 0 && was_hit);
            member.nodes = nodes;
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
