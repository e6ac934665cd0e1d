//! An independent EASY scheduler that steps second by second over tables of free nodes. It shares
//! no code with the simulator and is not optimised.
#![expect(clippy::indexing_slicing, reason = "a test may panic")]

use lacuna_batchsim::{Backfill, BatchJob, Layout, Machine, NodeRange, Overrun};

/// The schedule of one job: its number, start, nodes and reserved start.
pub(crate) type Placed = (u64, i64, Vec<u32>, Option<i64>);

struct Running {
    job: BatchJob,
    start: i64,
    end: i64,
    nodes: Vec<u32>,
}

pub(crate) struct Slow<'a> {
    machine: &'a Machine,
    /// Nodes are not interchangeable: a reservation names them.
    named: bool,
    now: i64,
    running: Vec<Running>,
    queue: Vec<(BatchJob, Option<i64>)>,
    placed: Vec<Placed>,
}

/// The time ahead that is searched, longer than any small case.
const AHEAD: i64 = 6000;

impl<'a> Slow<'a> {
    pub(crate) fn run(machine: &'a Machine, jobs: &[BatchJob]) -> Vec<Placed> {
        let blocks = !machine.outages.is_empty() || !machine.reservations.is_empty();
        let mut slow = Self {
            machine,
            named: blocks || machine.layout == Layout::Contiguous,
            now: 0,
            running: Vec::new(),
            queue: Vec::new(),
            placed: Vec::new(),
        };
        let mut coming = jobs.to_vec();
        coming.sort_by_key(|job| job.submit);
        let Some(first) = coming.first() else {
            return Vec::new();
        };
        let mut moments: Vec<i64> = coming.iter().map(|job| job.submit).collect();
        let begin = first.submit;
        moments.extend(machine.outages.iter().flat_map(|o| [o.from, o.until]));
        moments.extend(machine.reservations.iter().flat_map(|r| [r.from, r.until]));
        let mut coming = coming.into_iter().peekable();
        for now in begin..begin + AHEAD {
            let ends = slow.running.iter().any(|running| running.end <= now);
            // A scheduler acts at events, not each second.
            if !ends && !moments.contains(&now) {
                continue;
            }
            slow.now = now;
            while let Some(job) = coming.next_if(|job| job.submit <= now) {
                slow.queue.push((job, None));
            }
            loop {
                slow.running.retain(|running| running.end > now);
                slow.schedule();
                if slow.running.iter().all(|running| running.end > now) {
                    break;
                }
            }
        }
        slow.placed
    }

    fn blocked(&self, node: u32, at: i64) -> bool {
        let of = |range: &NodeRange| range.nodes().any(|other| other == node);
        let within = |from: i64, until: i64| from <= at && at < until;
        // An outage is known once it has begun.
        let mut outages = self.machine.outages.iter();
        let mut reservations = self.machine.reservations.iter();
        outages.any(|o| of(&o.nodes) && o.from <= self.now && within(o.from, o.until))
            || reservations.any(|r| of(&r.nodes) && within(r.from, r.until))
    }

    /// Whether a node is free at a future time by walltimes; `held` nodes are held for a time.
    fn free(&self, node: u32, at: i64, held: Option<&(i64, i64, Vec<u32>)>) -> bool {
        let runs = self.running.iter().any(|running| {
            let asked = running.start + running.job.walltime.max(1);
            running.nodes.contains(&node) && asked.max(self.now + 1) > at
        });
        let held = held.is_some_and(|(from, until, nodes)| {
            *from <= at && at < *until && nodes.contains(&node)
        });
        !runs && !held && !self.blocked(node, at)
    }

    /// Nodes for a job that starts at a time.
    fn fit(
        &self,
        job: &BatchJob,
        at: i64,
        held: Option<&(i64, i64, Vec<u32>)>,
    ) -> Option<Vec<u32>> {
        let all = 0..self.machine.nodes;
        let length = job.walltime.max(1);
        if !self.named {
            // Nodes are interchangeable: each second needs enough of them.
            for second in at..at + length {
                let free = all.clone().filter(|&n| self.free(n, second, None)).count();
                let held = held.map_or(0, |(from, until, nodes)| {
                    usize::from(*from <= second && second < *until) * nodes.len()
                });
                if free < held + job.nodes as usize {
                    return None;
                }
            }
            let now = all.filter(|&n| self.free(n, at, None));
            return Some(now.take(job.nodes as usize).collect());
        }
        let open: Vec<u32> = all
            .filter(|&n| (at..at + length).all(|second| self.free(n, second, held)))
            .collect();
        let wanted = job.nodes as usize;
        match self.machine.layout {
            Layout::FirstFit => open.get(..wanted).map(<[u32]>::to_vec),
            Layout::Contiguous => open
                .windows(wanted)
                .find(|nodes| nodes.windows(2).all(|pair| pair[0] + 1 == pair[1]))
                .map(<[u32]>::to_vec),
        }
    }

    fn start(&mut self, place: usize, nodes: Vec<u32>) {
        let (job, reserved_start) = self.queue.remove(place);
        let length = match self.machine.overrun {
            Overrun::Extend => job.runtime,
            Overrun::Kill => job.runtime.min(job.walltime),
        };
        self.placed
            .push((job.id, self.now, nodes.clone(), reserved_start));
        self.running.push(Running {
            job,
            start: self.now,
            end: self.now + length,
            nodes,
        });
    }

    fn schedule(&mut self) {
        while let Some((head, _)) = self.queue.first().copied() {
            let Some(nodes) = self.fit(&head, self.now, None) else {
                break;
            };
            self.start(0, nodes);
        }
        let Some((head, _)) = self.queue.first().copied() else {
            return;
        };
        let found = (self.now..self.now + 2 * AHEAD)
            .find_map(|at| self.fit(&head, at, None).map(|nodes| (at, nodes)));
        let held = found.map(|(at, nodes)| (at, at + head.walltime.max(1), nodes));
        if let Some((at, _, _)) = &held {
            self.queue[0].1 = self.queue[0].1.or(Some(*at));
        }
        if self.machine.backfill == Backfill::None {
            return;
        }
        let mut place = 1;
        while place < self.queue.len() {
            match self.fit(&self.queue[place].0, self.now, held.as_ref()) {
                Some(nodes) => self.start(place, nodes),
                None => place += 1,
            }
        }
    }
}
