//! An independent simulation of members that train together: an event queue with loader workers,
//! members and a link, in whole nanoseconds. It knows nothing of the replay's formulas.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use lacuna_model::Cause;
use lacuna_stalls::{RankTimes, Trace};

/// Members that train together. Times are nanoseconds; lists are by member, then by step.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) workers: usize,
    pub(crate) depth: usize,
    pub(crate) prep: Vec<Vec<u64>>,
    pub(crate) fetch: Vec<Vec<u64>>,
    pub(crate) hand: u64,
    /// Launches of a step's sums; those of a straggler are later by the factor of its member.
    pub(crate) ready: Vec<Vec<Vec<u64>>>,
    pub(crate) slowness: Vec<f64>,
    pub(crate) services: Vec<u64>,
    pub(crate) bytes: Vec<u64>,
    pub(crate) after: Vec<u64>,
    /// Whether members know when a sum ended, though they computed then.
    pub(crate) ends_known: bool,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (members, sums) = (self.prep.len(), self.services.len());
        let first = (self.prep[0][0], self.fetch[0][0], self.services[0]);
        let (workers, depth, slow) = (self.workers, self.depth, &self.slowness);
        write!(
            f,
            "{members} members, {sums} sums, {workers} x {depth}, {first:?}, {slow:?}"
        )
    }
}

/// Steps at the beginning that are not reported.
const WARM_UP: usize = 80;

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Read { member: usize, worker: usize },
    Got { member: usize },
    Launched { member: usize, sum: usize },
    Ended,
    Asks { member: usize },
}

#[derive(Default, Clone)]
struct Marks {
    asked: u64,
    read: Option<u64>,
    got: u64,
    launched: Vec<u64>,
    ended: u64,
}

impl World {
    pub(crate) fn even(members: usize, steps: usize, ready: &[u64]) -> Self {
        Self {
            workers: 1,
            depth: 2,
            prep: vec![vec![0; steps]; members],
            fetch: vec![vec![0; steps]; members],
            hand: 500_000,
            ready: vec![vec![ready.to_vec(); steps]; members],
            slowness: vec![1.0; members],
            services: vec![0; ready.len()],
            bytes: vec![1; ready.len()],
            after: vec![2_000_000; members],
            ends_known: false,
        }
    }

    pub(crate) fn without(&self, cause: Cause) -> Self {
        let mut world = self.clone();
        match cause {
            Cause::Preparation => world.prep.iter_mut().flatten().for_each(|t| *t = 0),
            Cause::Fetch => world.fetch.iter_mut().flatten().for_each(|t| *t = 0),
            Cause::Link => world.services.fill(0),
            Cause::Straggler => world.slowness.fill(1.0),
        }
        world
    }

    fn ready(&self, member: usize, step: usize, sum: usize) -> u64 {
        (self.ready[member][step][sum] as f64 * self.slowness[member]).round() as u64
    }

    /// What the members report of all steps but the first ones and the last one, and the mean of
    /// these steps in seconds.
    pub(crate) fn run(&self) -> (Trace, f64) {
        let (members, steps, sums) = (self.prep.len(), self.prep[0].len(), self.services.len());
        let mut queue = BinaryHeap::new();
        let mut marks = vec![vec![Marks::default(); steps]; members];
        let mut step = vec![0_usize; members];
        let mut todo = vec![vec![VecDeque::new(); self.workers]; members];
        let mut missing = vec![members; sums];
        let mut ends = vec![vec![0_u64; sums]; steps];
        let (mut at_sum, mut link_busy) = (0, false);
        for (member, todo) in todo.iter_mut().enumerate() {
            for batch in 0..self.workers * self.depth {
                todo[batch % self.workers].push_back(batch);
            }
            for worker in 0..self.workers {
                queue.push(Reverse((
                    self.reading(member, worker),
                    Event::Read { member, worker },
                )));
            }
            queue.push(Reverse((0, Event::Asks { member })));
        }
        let mut busy = vec![vec![true; self.workers]; members];
        while let Some(Reverse((now, event))) = queue.pop() {
            match event {
                Event::Read { member, worker } => {
                    let batch: usize = todo[member][worker].pop_front().unwrap();
                    marks[member][batch].read = Some(now);
                    busy[member][worker] = false;
                    if let Some(&next) = todo[member][worker].front() {
                        busy[member][worker] = true;
                        let end = now + self.reading(member, next);
                        queue.push(Reverse((end, Event::Read { member, worker })));
                    }
                    if step[member] == batch && marks[member][batch].asked > 0 {
                        self.hand_over(now, member, batch, &mut todo, &mut busy, &mut queue);
                    }
                }
                Event::Asks { member } => {
                    let k = step[member];
                    if k == steps {
                        continue;
                    }
                    // Zero means that it has not asked.
                    marks[member][k].asked = now.max(1);
                    if self.workers == 0 {
                        let read = now + self.reading(member, k);
                        marks[member][k].read = Some(read);
                        queue.push(Reverse((read + self.hand, Event::Got { member })));
                    } else if marks[member][k].read.is_some() {
                        self.hand_over(now, member, k, &mut todo, &mut busy, &mut queue);
                    }
                }
                Event::Got { member } => {
                    let k = step[member];
                    marks[member][k].got = now;
                    for sum in 0..sums {
                        let at = now + self.ready(member, k, sum);
                        queue.push(Reverse((at, Event::Launched { member, sum })));
                    }
                }
                Event::Launched { member, sum } => {
                    let k = step[member];
                    marks[member][k].launched.push(now);
                    missing[sum] -= 1;
                }
                Event::Ended => {
                    link_busy = false;
                    let k = step[0];
                    ends[k][at_sum] = now;
                    at_sum += 1;
                    if at_sum == sums {
                        at_sum = 0;
                        missing.fill(members);
                        for member in 0..members {
                            marks[member][k].ended = now;
                            step[member] += 1;
                            queue.push(Reverse((now + self.after[member], Event::Asks { member })));
                        }
                    }
                }
            }
            if !link_busy && missing[at_sum] == 0 {
                link_busy = true;
                queue.push(Reverse((now + self.services[at_sum], Event::Ended)));
            }
        }
        self.reported(&marks, &ends)
    }

    fn reading(&self, member: usize, batch: usize) -> u64 {
        self.prep[member]
            .get(batch)
            .map_or(0, |prep| prep + self.fetch[member][batch])
    }

    fn hand_over(
        &self,
        now: u64,
        member: usize,
        batch: usize,
        todo: &mut [Vec<VecDeque<usize>>],
        busy: &mut [Vec<bool>],
        queue: &mut BinaryHeap<Reverse<(u64, Event)>>,
    ) {
        let next = batch + self.workers * self.depth;
        let worker = next % self.workers;
        if next < self.prep[member].len() {
            todo[member][worker].push_back(next);
            if !busy[member][worker] {
                busy[member][worker] = true;
                let end = now + self.reading(member, next);
                queue.push(Reverse((end, Event::Read { member, worker })));
            }
        }
        queue.push(Reverse((now + self.hand, Event::Got { member })));
    }

    fn reported(&self, marks: &[Vec<Marks>], ends: &[Vec<u64>]) -> (Trace, f64) {
        let steps = ends.len();
        let kept = WARM_UP..steps - 1;
        let micro = |time: u64| time as f64 / 1e3;
        let ranks = marks.iter().enumerate().map(|(member, marks)| {
            let list = |of: &dyn Fn(usize) -> u64| kept.clone().map(|k| micro(of(k))).collect();
            let sums = |of: &dyn Fn(usize, usize) -> u64| {
                (0..self.services.len())
                    .map(|b| list(&|k| of(k, b)))
                    .collect()
            };
            let wait = |k: usize| marks[k].read.unwrap().saturating_sub(marks[k].asked);
            RankTimes {
                rank: u32::try_from(member).unwrap(),
                wait: list(&wait),
                hand: list(&|k| marks[k].got - marks[k].asked - wait(k)),
                prep: list(&|k| self.prep[member][k]),
                fetch: list(&|k| self.fetch[member][k]),
                update: list(&|_| self.after[member] / 2),
                rest: list(&|k| marks[k + 1].asked - marks[k].ended - self.after[member] / 2),
                ready: sums(&|k, b| marks[k].launched[b] - marks[k].got),
                done: sums(&|k, b| {
                    // While it computes, a member looks when its next gradient is there.
                    let mut launches = marks[k].launched.iter();
                    let seen = launches.find(|&&at| at >= ends[k][b] && !self.ends_known);
                    seen.copied().unwrap_or(ends[k][b]) - marks[k].got
                }),
            }
        });
        let trace = Trace {
            version: lacuna_stalls::VERSION,
            members: u32::try_from(marks.len()).unwrap(),
            workers: u32::try_from(self.workers).unwrap(),
            remote: 0,
            follows: None,
            depth: u32::try_from(self.depth).unwrap(),
            passes: 1,
            ends_known: self.ends_known,
            bytes: self.bytes.clone(),
            silent: Vec::new(),
            ranks: ranks.collect(),
        };
        let total: u64 = marks
            .iter()
            .map(|m| m[steps - 1].asked - m[WARM_UP].asked)
            .sum();
        let count = (kept.len() * marks.len()) as f64;
        (trace, total as f64 / 1e9 / count)
    }
}
