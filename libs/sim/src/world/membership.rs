//! Trainers are submitted, admitted, hit by departures, and dismissed.

use lacuna_model::{Timestamp, TrainerSpec};
use lacuna_planner::NO_NODES;
use lacuna_planner::objective::Objective;
use lacuna_trainer::account::{Change, Rates};
use lacuna_trainer::{Ledger, Places, has_place};

use super::kinds::work;
use super::member::{Member, place, spec_of};
use super::run::World;
use super::saves::Saves;

/// Whether the pool has the minimum of nodes of the trainer of a life.
fn fits(trainers: &[TrainerSpec], life: u32, pool: u32) -> bool {
    spec_of(trainers, life).is_some_and(|spec| has_place(0, spec.min_nodes, pool))
}

/// The owner of a trainer. Trainers without an owner share the empty name.
fn owner_of(spec: &TrainerSpec) -> &str {
    spec.owner.as_deref().unwrap_or_default()
}

impl<'a> World<'a> {
    /// Takes a node out of the pool and from its trainer.
    pub(super) fn lose(&mut self, node: u32) {
        let kind = self.trace.kind(node);
        let told = self.told(node);
        let owner = self.pool.close(node);
        if let Some(of) = self.tally.of_kind(kind) {
            of.left += 1;
            of.taken += u64::from(owner.is_some());
        }
        let Some(owner) = owner else {
            return;
        };
        if let Some(member) = self.active.get_mut(owner as usize) {
            member.hit.get_or_insert(member.rate);
            member.lose(told);
        }
    }

    /// Charges each trainer that lost nodes once, for any number of nodes. A trainer below its
    /// minimum gives its other nodes back.
    pub(super) fn charge_preemptions(&mut self) {
        let is_short = |m: &Member| m.hit.is_some() && m.is_short();
        if self.active.iter().any(is_short) {
            let active = &self.active;
            let keeps = |j: u32| active.get(j as usize).is_some_and(|m| !is_short(m));
            self.pool.map_owners(|j| keeps(j).then_some(j));
        }
        let at = self.now();
        for member in &mut self.active {
            if is_short(member) {
                member.stop();
            }
            let Some(rate_before) = member.hit.take() else {
                continue;
            };
            if member.ended_s.is_some() {
                continue;
            }
            member.was_hit = true;
            let lost = Change::Lost { at };
            let rates = Rates {
                before: rate_before,
                after: member.rate,
            };
            let (cost, _) = member.charge(lost, rates);
            self.tally.preempt_cost += cost;
            self.tally.preemptions += 1;
            self.days.charge(self.tally.now_s, 0.0, cost);
            if let Some(recorder) = &mut self.recorder {
                recorder.preempt(member.admitted);
            }
        }
    }

    /// Removes trainers whose work is done, and renumbers the others.
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
            let submitted = spec_of(self.trainers, member.life).map(|spec| spec.submit);
            let since = submitted.map_or(0.0, |at| at.since(self.trace.start()).as_secs_f64());
            self.tally.completion_s += member.ended_s.unwrap_or(now_s) - since.max(0.0);
            if let Some(recorder) = &mut self.recorder {
                // In an endless list it trains on until now, and that work counts.
                let ended_s = if endless { Some(now_s) } else { member.ended_s };
                recorder.end(member.admitted, ended_s, member.ledger.done());
            }
        }
    }

    /// Admits trainers by control's queue and its rule of places.
    pub(super) fn admit(&mut self) {
        let now = self.now();
        loop {
            self.queue.arrive(now);
            let (trainers, pool, places) = (self.trainers, self.pool.len(), self.places());
            let has_place = |owner: &&str| places.free_for(owner);
            let next = self
                .queue
                .next(has_place, |life| fits(trainers, *life, pool));
            match next {
                Some(life) => self.enter(life),
                None if places.free() && self.submit_more() => {}
                None => return,
            }
        }
    }

    /// The places of active trainers. A trainer that has nodes, or could have some, takes one.
    pub(super) fn places(&self) -> Places<&'a str> {
        let pool = self.pool.len();
        let active = self.active.iter().map(|m| {
            let owner = spec_of(self.trainers, m.life).map_or("", owner_of);
            (owner, has_place(m.nodes, m.kind.min(), pool))
        });
        Places::new(self.settings.max_parallel as usize, active)
    }

    /// Whether a waiting trainer can be admitted now, or after the next submission of the list.
    pub(super) fn waits(&self, places: &Places<&str>) -> bool {
        let (trainers, pool) = (self.trainers, self.pool.len());
        let has_room = |life: &u32| fits(trainers, *life, pool);
        let waits = self.queue.waits(|owner| places.free_for(owner), has_room);
        let again = || trainers.iter().any(|t| has_place(0, t.min_nodes, pool));
        waits || (places.free() && self.begins_again() && again())
    }

    /// Whether an endless list is submitted again: no fitting trainer of it is waiting or to come.
    fn begins_again(&self) -> bool {
        let (trainers, pool) = (self.trainers, self.pool.len());
        self.settings.endless
            && self.queue.next_submission(|_| true).is_none()
            && !self
                .queue
                .waits(|_| true, |life| fits(trainers, *life, pool))
    }

    /// Submits an endless list again. A trainer that does not fit is left out: it waits already, or
    /// comes with a later round.
    fn submit_more(&mut self) -> bool {
        let (trainers, pool) = (self.trainers, self.pool.len());
        if !self.begins_again() {
            return false;
        }
        let (now, mut any) = (self.now(), false);
        for spec in trainers {
            if has_place(0, spec.min_nodes, pool) {
                let (order, owner) = (u64::from(self.lives), owner_of(spec));
                self.queue
                    .submit(now, spec.priority, order, owner, self.lives);
                any = true;
            }
            self.lives = self.lives.saturating_add(1);
        }
        any
    }

    /// Submits the whole list. Each trainer gets the next number of a life.
    pub(super) fn submit(&mut self, at: impl Fn(&TrainerSpec) -> Timestamp) {
        for spec in self.trainers {
            let (order, owner) = (u64::from(self.lives), owner_of(spec));
            self.queue
                .submit(at(spec), spec.priority, order, owner, self.lives);
            self.lives = self.lives.saturating_add(1);
        }
    }

    /// Admits the trainer of a life.
    fn enter(&mut self, life: u32) {
        let kind = self.kinds.of(place(self.trainers, life));
        let Some((spec, kind)) = spec_of(self.trainers, life).zip(kind) else {
            return;
        };
        if let Some(recorder) = &mut self.recorder {
            recorder.admit(&spec.id, self.tally.now_s);
        }
        self.active.push(Member {
            kind: kind.clone(),
            nodes: 0,
            mix: NO_NODES,
            tier: 0,
            crowd: 1.0,
            rate: 0.0,
            work: work(spec),
            ledger: Ledger::default(),
            ended_s: None,
            hit: None,
            was_hit: false,
            life,
            stage: 0,
            admitted: self.admitted,
            owner: match self.settings.objective {
                Objective::LeastAttained => self.service.owner(spec.owner_or_self()),
                // Trainers without an owner share number 0.
                Objective::Fair => match &spec.owner {
                    Some(owner) => 1 + self.service.owner(owner),
                    None => 0,
                },
                _ => 0,
            },
            saves: Saves::default(),
            values: None,
        });
        self.admitted = self.admitted.saturating_add(1);
    }
}
