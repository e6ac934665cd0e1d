//! The loop of the replay: time advances, nodes leave and come, trainers end and begin, the
//! planner decides, and every cost is charged.

use std::sync::Arc;

use lacuna_model::{Policy, TrainerSpec};
use lacuna_planner::{Problem, choose};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::world::decide::Decider;
use crate::world::kinds::{Kind, Kinds, work};
use crate::world::pool::Pool;
use crate::{
    Account, History, Life, Model, Point, Recording, Settings, SimError, StepRef, TrainerEnd,
};

/// Ends less than this after an event are seen at it, seconds.
const END_TOLERANCE_S: f64 = 1e-6;

/// An admitted trainer.
#[derive(Debug, Clone)]
struct Member {
    kind: Arc<Kind>,
    nodes: u32,
    /// Its rate at its nodes, samples/s.
    rate: f64,
    work: f64,
    account: Account,
    /// When its work was done, seconds since the start.
    ended_s: Option<f64>,
    /// Rate before it lost nodes in the present step, if it did.
    hit: Option<f64>,
    /// Its place in the history.
    life: usize,
}

impl Member {
    fn resize(&mut self, nodes: u32) {
        self.nodes = nodes;
        self.rate = self.kind.rate(nodes);
    }
}

/// What came of it so far.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Tally {
    pub(crate) samples: f64,
    pub(crate) rescale_cost: f64,
    pub(crate) preempt_cost: f64,
    pub(crate) preemptions: u64,
    pub(crate) rescales: u64,
    pub(crate) events: u64,
    pub(crate) trainers_done: u64,
    /// Node-seconds offered until `last_end_s`, and until now.
    pub(crate) offered_at_last_end: f64,
    pub(crate) offered: f64,
    /// Node-seconds that trained.
    pub(crate) used: f64,
    /// When the newest trainer to end did so, seconds since the start.
    pub(crate) last_end_s: f64,
    /// Seconds since the start.
    pub(crate) now_s: f64,
}

/// A replay under way.
pub(crate) struct World<'a> {
    recording: &'a dyn Recording,
    trainers: &'a [TrainerSpec],
    kinds: &'a Kinds,
    settings: &'a Settings,
    /// Index of the next trainer to admit; beyond the list's end the list starts again.
    next: usize,
    active: Vec<Member>,
    pool: Pool,
    problem: Problem,
    rng: ChaCha8Rng,
    pub(crate) tally: Tally,
    pub(crate) history: Option<History>,
}

impl<'a> World<'a> {
    pub(crate) fn new(
        recording: &'a dyn Recording,
        trainers: &'a [TrainerSpec],
        kinds: &'a Kinds,
        settings: &'a Settings,
        history: Option<History>,
    ) -> Self {
        Self {
            recording,
            trainers,
            kinds,
            settings,
            next: 0,
            active: Vec::new(),
            pool: Pool::new(recording.nodes()),
            problem: Problem {
                nodes: 0,
                horizon_s: settings.horizon.as_secs_f64(),
                trainers: Vec::new(),
                max_change: None,
            },
            rng: ChaCha8Rng::seed_from_u64(settings.seed),
            tally: Tally::default(),
            history,
        }
    }

    /// Runs to the end of the trace or, if the list of trainers has an end, to its end. Calls
    /// `watch` after every event.
    pub(crate) fn run(
        &mut self,
        decider: &mut Decider<'_>,
        watch: &mut dyn FnMut(&Tally),
    ) -> Result<(), SimError> {
        let length = self.recording.length_s();
        let mut steps = self.recording.steps()?;
        loop {
            let step = steps.next()?;
            if self.until_step(step, length, decider, watch)? {
                break;
            }
        }
        if !self.is_over() {
            self.advance(length);
            self.dismiss();
        }
        Ok(())
    }

    /// Lives through all that happens up to a step of the recording, and through the step
    /// itself; without one, up to the end. Says whether the replay is over.
    fn until_step(
        &mut self,
        step: Option<StepRef<'_>>,
        length: f64,
        decider: &mut Decider<'_>,
        watch: &mut dyn FnMut(&Tally),
    ) -> Result<bool, SimError> {
        let step_s = step.map_or(f64::INFINITY, |step| step.at_s);
        loop {
            let now = step_s.min(self.next_arrival_s()).min(self.next_end_s());
            // What happens at the very end changes nothing any more.
            if now >= length {
                return Ok(true);
            }
            self.advance(now);
            let stepped = step.filter(|step| step.at_s <= now);
            if let Some(step) = stepped {
                for &node in step.closed {
                    self.lose(node);
                }
                for &(node, since_ms) in step.opened {
                    self.pool.open(node, since_ms);
                }
            }
            self.charge_preemptions();
            self.dismiss();
            if self.is_over() {
                return Ok(true);
            }
            self.admit();
            self.replan(decider)?;
            self.tally.events += 1;
            self.remember();
            watch(&self.tally);
            if stepped.is_some() {
                return Ok(false);
            }
        }
    }

    /// Whether every trainer of the list is done.
    fn is_over(&self) -> bool {
        self.active.is_empty() && self.spec_at(self.next).is_none()
    }

    fn spec_at(&self, index: usize) -> Option<&'a TrainerSpec> {
        if self.settings.endless && !self.trainers.is_empty() {
            self.trainers.get(index % self.trainers.len())
        } else {
            self.trainers.get(index)
        }
    }

    /// When a trainer will arrive for which there is room.
    fn next_arrival_s(&self) -> f64 {
        let room = self.active.len() < self.settings.max_parallel as usize;
        let next = self.spec_at(self.next).filter(|_| room);
        next.map_or(f64::INFINITY, |spec| self.arrival_s(spec))
    }

    /// When it arrives, not before now. In further rounds of the list all have arrived.
    fn arrival_s(&self, spec: &TrainerSpec) -> f64 {
        if self.next >= self.trainers.len() {
            return self.tally.now_s;
        }
        let arrival = spec.submit.since(self.recording.start()).as_secs_f64();
        arrival.max(self.tally.now_s)
    }

    /// When the next trainer ends, if that is an event.
    fn next_end_s(&self) -> f64 {
        if self.settings.trainer_end == TrainerEnd::NextEvent {
            return f64::INFINITY;
        }
        let left = |m: &Member| m.account.time_to(m.work, m.rate);
        let soonest = self.active.iter().map(left).fold(f64::INFINITY, f64::min);
        self.tally.now_s + soonest
    }

    /// Lets every trainer train until `now`.
    fn advance(&mut self, now: f64) {
        let before = self.tally.now_s;
        let dt = (now - before).max(0.0);
        let pool = f64::from(self.pool.len());
        let endless = self.settings.endless;
        for member in &mut self.active {
            if !endless && member.ended_s.is_some() {
                continue;
            }
            let end = member.account.time_to(member.work, member.rate);
            let done = member.account.done;
            member.account.advance(dt, member.rate);
            let mut trained = dt;
            // An end that is an event of its own must be seen, however its time was rounded.
            if end <= dt + END_TOLERANCE_S && member.ended_s.is_none() {
                let end = end.min(dt);
                member.ended_s = Some(before + end);
                self.tally.last_end_s = self.tally.last_end_s.max(before + end);
                self.tally.offered_at_last_end = self.tally.offered + end * pool;
                if !endless {
                    // What would have been done after the end does not count.
                    member.account.done = member.work;
                    trained = end;
                }
            }
            self.tally.used += trained * f64::from(member.nodes);
            self.tally.samples += member.account.done - done;
        }
        self.tally.offered += dt * pool;
        self.tally.now_s = now;
    }

    /// A node leaves.
    fn lose(&mut self, node: u32) {
        let Some(owner) = self.pool.close(node) else {
            return;
        };
        if let Some(member) = self.active.get_mut(owner as usize) {
            member.hit.get_or_insert(member.rate);
            member.resize(member.nodes.saturating_sub(1));
        }
    }

    /// A trainer that lost nodes pays once, however many they were.
    fn charge_preemptions(&mut self) {
        for member in &mut self.active {
            let Some(rate_before) = member.hit.take() else {
                continue;
            };
            if member.ended_s.is_some() {
                continue;
            }
            let cost = member
                .account
                .charge(rate_before, member.kind.cost().down_s);
            self.tally.preempt_cost += cost;
            self.tally.preemptions += 1;
            if let Some(life) = life(&mut self.history, member.life) {
                life.preemptions += 1;
            }
        }
    }

    /// Trainers that have done their work leave, and the others move up.
    fn dismiss(&mut self) {
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
        for member in self.active.extract_if(.., |m| m.ended_s.is_some()) {
            self.tally.trainers_done += 1;
            if let Some(life) = life(&mut self.history, member.life) {
                life.ended_s = member.ended_s;
                life.samples = member.account.done;
            }
        }
    }

    /// First come, first served, while there is room.
    fn admit(&mut self) {
        while self.active.len() < self.settings.max_parallel as usize
            && let Some(spec) = self.spec_at(self.next)
            && self.arrival_s(spec) <= self.tally.now_s
        {
            let round = self.next % self.trainers.len();
            let Some(kind) = self.kinds.of(round) else {
                return;
            };
            let mut place = 0;
            if let Some(history) = &mut self.history {
                place = history.lives.len();
                history.lives.push(Life {
                    name: spec.id.clone(),
                    admitted_s: self.tally.now_s,
                    ended_s: None,
                    samples: 0.0,
                    preemptions: 0,
                    sizes: Vec::new(),
                });
            }
            self.active.push(Member {
                kind: kind.clone(),
                nodes: 0,
                rate: 0.0,
                work: work(spec),
                account: Account::default(),
                ended_s: None,
                hit: None,
                life: place,
            });
            self.next += 1;
        }
    }

    /// The planner decides, and changes are charged.
    fn replan(&mut self, decider: &mut Decider<'_>) -> Result<(), SimError> {
        self.problem.nodes = self.pool.len();
        self.problem.max_change = match (self.settings.model, self.settings.policy) {
            // The limit comes from the published programme's big-M; equal share knows none.
            (Model::Exact, _) | (_, Policy::EqualShare) => None,
            (Model::Published, _) => Some(Problem::published_max_change(self.pool.len())),
        };
        self.problem.trainers.clear();
        let items = self.active.iter().map(|m| m.kind.item(m.nodes));
        self.problem.trainers.extend(items);
        let sizes = decider.decide(&self.problem)?;
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
        for (member, &nodes) in self.active.iter_mut().zip(&sizes.counts) {
            if nodes == member.nodes {
                continue;
            }
            let cost = member.kind.cost();
            let stall_s = if nodes > member.nodes {
                cost.up_s
            } else {
                cost.down_s
            };
            // Below its minimum a trainer does not run, so there is nothing to stall.
            let rate = if member.nodes < member.kind.min() {
                0.0
            } else {
                member.rate
            };
            self.tally.rescale_cost += member.account.charge(rate, stall_s);
            self.tally.rescales += u64::from(member.nodes > 0);
            member.resize(nodes);
        }
        Ok(())
    }

    fn remember(&mut self) {
        let Some(history) = &mut self.history else {
            return;
        };
        let at_s = self.tally.now_s;
        history.points.push(Point {
            at_s,
            pool: self.pool.len(),
            used: self.active.iter().map(|member| member.nodes).sum(),
            samples: self.tally.samples,
        });
        for member in &self.active {
            if let Some(life) = history.lives.get_mut(member.life) {
                life.samples = member.account.done;
                if life.sizes.last().map_or(0, |&(_, n)| n) != member.nodes {
                    life.sizes.push((at_s, member.nodes));
                }
            }
        }
    }
}

fn life(history: &mut Option<History>, at: usize) -> Option<&mut Life> {
    history.as_mut()?.lives.get_mut(at)
}
