//! The cluster in virtual time.
//!
//! Invariants: a GPU has one job at most; a sample counts once; a plan that breaks the first is an
//! error. Time moves from event to event: arrivals, ends of jobs, ends of leases, rounds.
//!
//! A round is a call of the policy. It comes at an arrival; after the end of a job or of a lease, at
//! once or later ([`Restart`]); when the policy asks to be woken; and every minute while no event is
//! left and jobs wait.

mod hold;
mod queue;

use std::collections::HashMap;

use crate::cluster::Cluster;
use crate::error::Error;
use crate::fabric::LEVELS;
use crate::job::{Job, JobState, Run};
use crate::outcome::{Ended, Kind, Outcome, Segment};
use crate::placement::Placement;
use crate::policy::{Plan, Policy, View};
use crate::speed::Speeds;
use crate::terms::{Contention, Restart, Terms};

use hold::{End, Hold};
use queue::{Event, Queue};

/// Time between two rounds while no event is left, seconds.
const IDLE_ROUND_S: f64 = 60.0;

/// A cluster on which nothing runs or starts for this long is stuck, seconds.
const STUCK_S: f64 = 30.0 * 86_400.0;

/// Runs jobs on a free cluster under a policy. `each` gets what a gang had, when it gives it back.
///
/// # Errors
/// A job is larger than the cluster, a plan breaks a rule, or the policy lets all jobs wait.
pub fn simulate(
    jobs: &[Job],
    cluster: Cluster,
    (speeds, terms): (&Speeds, &Terms),
    policy: &mut dyn Policy,
    each: &mut dyn FnMut(Segment),
) -> Result<Outcome, Error> {
    let gpus = cluster.layout().gpus();
    if let Some(job) = jobs.iter().find(|job| job.gpus > gpus) {
        return Err(Error::TooLarge {
            job: job.id,
            gpus: job.gpus,
            has: gpus,
        });
    }
    let mut engine = Engine {
        cluster,
        speeds,
        terms,
        each,
        jobs: jobs
            .iter()
            .enumerate()
            .map(|(at, job)| Live::new(*job, at))
            .collect(),
        active: Vec::new(),
        queue: Queue::default(),
        now_s: 0.0,
        moved_s: 0.0,
        wake_s: None,
        first_shapes: HashMap::new(),
        outcome: Outcome {
            gpus,
            ..Outcome::default()
        },
    };
    for (index, job) in jobs.iter().enumerate() {
        engine.queue.push(job.arrival_s, Event::Arrives(index));
    }
    engine.run(policy)?;
    Ok(engine.outcome)
}

/// A job with what the engine keeps beside its state.
struct Live {
    state: JobState,
    hold: Option<Hold>,
    /// Counts holds, so that ends of former ones are known as such.
    epoch: u32,
    starts: u32,
    communication_s: f64,
    communication_gpu_s: f64,
    /// What a running job has won besides, under the published defect.
    hoard: Vec<Placement>,
}

impl Live {
    const fn new(job: Job, index: usize) -> Self {
        Self {
            state: JobState::new(job, index),
            hold: None,
            epoch: 0,
            starts: 0,
            communication_s: 0.0,
            communication_gpu_s: 0.0,
            hoard: Vec::new(),
        }
    }

    /// Counts time and work until now.
    fn settle(&mut self, now_s: f64) {
        let (Some(hold), Some(run)) = (&mut self.hold, &self.state.run) else {
            return;
        };
        let gpus = f64::from(run.gpus);
        let (held_s, worked_s) = hold.pass(now_s);
        self.state.held_s += held_s;
        self.state.served_gpu_s += held_s * gpus;
        let done = worked_s * gpus * run.speed / self.state.job.sample_s;
        self.state.left = (self.state.left - done).max(0.0);
        self.communication_s += worked_s * (1.0 - run.speed);
        self.communication_gpu_s += worked_s * (1.0 - run.speed) * gpus;
    }
}

struct Engine<'a> {
    cluster: Cluster,
    speeds: &'a Speeds,
    terms: &'a Terms,
    each: &'a mut dyn FnMut(Segment),
    jobs: Vec<Live>,
    /// Jobs that have arrived and not ended.
    active: Vec<usize>,
    queue: Queue,
    now_s: f64,
    /// The last time at which a job ran or started.
    moved_s: f64,
    wake_s: Option<f64>,
    first_shapes: HashMap<(usize, u32, Kind), f64>,
    outcome: Outcome,
}

impl Engine<'_> {
    fn run(&mut self, policy: &mut dyn Policy) -> Result<(), Error> {
        while self.outcome.jobs.len() < self.jobs.len() {
            let Some((at_s, event)) = self.queue.pop() else {
                self.queue.push(self.now_s + IDLE_ROUND_S, Event::Round);
                continue;
            };
            self.now_s = at_s;
            let mut round = self.handle(event);
            while let Some(event) = self.queue.pop_until(at_s) {
                round |= self.handle(event);
            }
            if round {
                self.plan(policy)?;
            }
            if let Some(contention) = self.terms.contention {
                self.share_links(contention);
            }
        }
        Ok(())
    }

    /// Applies an event; whether a round is due.
    fn handle(&mut self, event: Event) -> bool {
        match event {
            Event::Round => true,
            Event::Wake => self.wake_s == Some(self.now_s),
            Event::Arrives(index) => {
                self.active.push(index);
                true
            }
            Event::Ends(index, epoch) => {
                let live = self.jobs.get_mut(index).filter(|live| live.epoch == epoch);
                let end = live
                    .and_then(|live| live.hold.as_ref())
                    .map(|hold| hold.end);
                match end {
                    Some(End::Finished) => self.finish(index),
                    Some(End::Lease { expired }) => self.expire(index, expired),
                    None => false,
                }
            }
        }
    }

    /// Takes the GPUs of a running job from it; their number.
    fn release(&mut self, index: usize) -> u32 {
        let now_s = self.now_s;
        let Some(live) = self.jobs.get_mut(index) else {
            return 0;
        };
        live.settle(now_s);
        live.epoch += 1;
        live.state.waiting_since_s = now_s;
        let Some((hold, run)) = live.hold.take().zip(live.state.run.take()) else {
            return 0;
        };
        let given = self.cluster.give(&run.placement);
        debug_assert!(given, "a GPU of a gang was free");
        let kind = Kind::of(&run.placement, self.cluster.layout());
        for (machine, gpus) in run.placement.parts() {
            (self.each)(Segment {
                machine,
                gpus: gpus.count_ones(),
                kind,
                from_s: hold.from_s,
                until_s: now_s,
            });
        }
        run.gpus
    }

    /// A round after the end of a job or lease of this many GPUs; whether it is due now.
    fn round_after(&mut self, gpus: u32) -> bool {
        match self.terms.restart {
            Restart::Stall => true,
            Restart::Delay => {
                let delay_s = self.terms.restart_s * f64::from(gpus);
                self.queue.push(self.now_s + delay_s, Event::Round);
                false
            }
        }
    }

    fn finish(&mut self, index: usize) -> bool {
        let gpus = self.release(index);
        self.active.retain(|&active| active != index);
        if let Some(live) = self.jobs.get_mut(index) {
            live.state.left = 0.0;
            self.outcome.jobs.push(Ended {
                id: live.state.job.id,
                arrival_s: live.state.job.arrival_s,
                end_s: self.now_s,
                held_s: live.state.held_s,
                held_gpu_s: live.state.served_gpu_s,
                communication_s: live.communication_s,
                communication_gpu_s: live.communication_gpu_s,
                restarts: live.starts.saturating_sub(1),
            });
            for placement in std::mem::take(&mut live.hoard) {
                let given = self.cluster.give(&placement);
                debug_assert!(given, "a hoarded GPU was free");
            }
        }
        self.round_after(gpus)
    }

    fn expire(&mut self, index: usize, expired: bool) -> bool {
        let gpus = self.release(index);
        self.round_after(if expired { gpus } else { 0 })
    }

    /// Asks the policy and follows its plan.
    fn plan(&mut self, policy: &mut dyn Policy) -> Result<(), Error> {
        let mut waiting = Vec::new();
        let mut running = Vec::new();
        for &index in &self.active {
            if let Some(live) = self.jobs.get_mut(index) {
                live.settle(self.now_s);
            }
        }
        for &index in &self.active {
            if let Some(live) = self.jobs.get(index) {
                let list = if live.hold.is_some() {
                    &mut running
                } else {
                    &mut waiting
                };
                list.push(&live.state);
            }
        }
        let idle = running.is_empty() && !waiting.is_empty();
        let view = View {
            now_s: self.now_s,
            cluster: &self.cluster,
            waiting: &waiting,
            running: &running,
            speeds: self.speeds,
            terms: self.terms,
        };
        self.outcome.plans += 1;
        let plan = policy.plan(&view);
        self.wake_s = policy.wake_s();
        if let Some(at_s) = self.wake_s {
            self.queue.push(at_s.max(self.now_s), Event::Wake);
        }
        if !idle || !plan.starts.is_empty() {
            self.moved_s = self.now_s;
        } else if self.now_s - self.moved_s > STUCK_S {
            return Err(Error::Stuck {
                waiting: waiting.len(),
                at_s: self.now_s,
            });
        }
        self.follow(plan)
    }

    fn follow(&mut self, plan: Plan) -> Result<(), Error> {
        // A job that moves keeps its lease and its place among those that wait.
        let mut moved: HashMap<usize, (Option<f64>, f64)> = HashMap::new();
        for index in plan.stops {
            let live = self.jobs.get(index);
            let before = live.and_then(|live| {
                let hold = live.hold.as_ref()?;
                Some((hold.lease_until_s, live.state.waiting_since_s))
            });
            match before {
                Some(before) => moved.insert(index, before),
                None => return Err(self.broken(index, "it is stopped and does not run")),
            };
            self.release(index);
        }
        for (index, placement) in plan.starts {
            self.start(index, placement, moved.get(&index).copied())?;
        }
        Ok(())
    }

    fn broken(&self, index: usize, why: &'static str) -> Error {
        Error::Plan {
            job: self.jobs.get(index).map_or(0, |live| live.state.job.id),
            at_s: self.now_s,
            why,
        }
    }

    fn start(
        &mut self,
        index: usize,
        placement: Placement,
        moved: Option<(Option<f64>, f64)>,
    ) -> Result<(), Error> {
        if !self.active.contains(&index) {
            return Err(self.broken(index, "it has not arrived, or has ended"));
        }
        if placement.gpus() == 0 {
            return Err(self.broken(index, "the placement is empty"));
        }
        if !self.cluster.take(&placement) {
            return Err(self.broken(index, "another job has one of them"));
        }
        let running = self.jobs.get(index).is_some_and(|live| live.hold.is_some());
        if running && !self.terms.published {
            return Err(self.broken(index, "it has others already"));
        }
        let speed = self.jobs.get(index).map(|live| live.state.job);
        let speed = speed.map_or(1.0, |job| self.speed(&job, &placement));
        let (now_s, terms) = (self.now_s, self.terms);
        let Some(live) = self.jobs.get_mut(index) else {
            return Ok(());
        };
        if running {
            live.hoard.push(placement);
            return Ok(());
        }
        let gpus = placement.gpus();
        let restart_s = match (terms.restart, live.starts) {
            (Restart::Stall, 1..) => terms.restart_s * f64::from(gpus),
            _ => 0.0,
        };
        let job = live.state.job;
        let lease = terms.lease.map(|lease| {
            let left_s = moved
                .and_then(|(until_s, _)| until_s)
                .map(|until_s| until_s - now_s);
            let mut lease = lease;
            lease.length_s = left_s.unwrap_or(lease.length_s);
            let chunk_s = job.sample_s * lease.chunk / speed;
            let (chunks, expired) = lease.chunks(chunk_s, gpus);
            (
                now_s + lease.length_s,
                now_s + restart_s + chunks * chunk_s,
                expired,
            )
        });
        if let Some((_, waiting_since_s)) = moved {
            live.state.waiting_since_s = waiting_since_s;
        }
        live.starts += 1;
        live.state.started_s = Some(now_s);
        live.hold = Some(Hold::new(now_s, now_s + restart_s, lease));
        live.state.run = Some(Run {
            placement,
            gpus,
            speed,
        });
        if moved.is_some() {
            self.round_after(gpus);
        }
        self.schedule(index);
        Ok(())
    }

    /// The speed of a job that shares no link.
    fn speed(&mut self, job: &Job, placement: &Placement) -> f64 {
        let speed = self.speeds.speed(job, placement);
        if !self.terms.first_shape {
            return speed;
        }
        let kind = Kind::of(placement, self.cluster.layout());
        let key = (job.profile, placement.gpus(), kind);
        *self.first_shapes.entry(key).or_insert(speed)
    }

    /// Puts the end of a job's hold into the queue.
    fn schedule(&mut self, index: usize) {
        let Some(live) = self.jobs.get_mut(index) else {
            return;
        };
        let (Some(hold), Some(run)) = (&mut live.hold, &live.state.run) else {
            return;
        };
        let rate = f64::from(run.gpus) * run.speed / live.state.job.sample_s;
        let end_s = hold.end_at(live.state.left / rate);
        self.queue.push(end_s, Event::Ends(index, live.epoch));
    }

    /// Gives gangs that share links their shares of them.
    fn share_links(&mut self, contention: Contention) {
        let layout = self.cluster.layout();
        let mut machines: HashMap<u32, u32> = HashMap::new();
        let mut racks: HashMap<u32, u32> = HashMap::new();
        let runs = || {
            let live = self.active.iter().filter_map(|&index| self.jobs.get(index));
            live.filter_map(|live| Some((live, live.state.run.as_ref()?)))
        };
        for (_, run) in runs().filter(|(_, run)| run.placement.machines() > 1) {
            for (machine, _) in run.placement.parts() {
                *machines.entry(machine).or_default() += 1;
            }
            if run.placement.racks(layout).count() > 1 {
                for rack in run.placement.racks(layout) {
                    *racks.entry(rack).or_default() += 1;
                }
            }
        }
        let share = |most: f64, gangs: Option<u32>| match gangs {
            Some(gangs) => (most / f64::from(gangs)).min(1.0),
            None => 1.0,
        };
        let mut changed = Vec::new();
        for (live, run) in runs().filter(|(_, run)| run.placement.machines() > 1) {
            let of = |(machine, _)| machines.get(&machine).copied();
            let on_machine = run.placement.parts().filter_map(of).max();
            let across = run.placement.racks(layout).count() > 1;
            let of = |rack| racks.get(&rack).copied().filter(|_| across);
            let on_rack = run.placement.racks(layout).filter_map(of).max();
            let mut shares = [1.0; LEVELS];
            let [.., rack, top] = &mut shares;
            *rack = share(contention.machine, on_machine);
            *top = share(contention.rack, on_rack);
            let shape = self.speeds.shape(&run.placement);
            let speed = self.speeds.of_shape(&live.state.job, shape, shares);
            if speed != run.speed {
                changed.push((live.state.index, speed));
            }
        }
        for (index, speed) in changed {
            if let Some(live) = self.jobs.get_mut(index) {
                live.settle(self.now_s);
                live.epoch += 1;
                if let Some(run) = &mut live.state.run {
                    run.speed = speed;
                }
            }
            self.schedule(index);
        }
    }
}
