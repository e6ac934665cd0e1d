//! The state of the machine, which every policy reads and changes.

use crate::blocks::Blocks;
use crate::job::{BatchJob, NodeRange, Placement};
use crate::machine::{Machine, Overrun};
use crate::nodes::NodeSet;
use crate::profile::{Count, Profile};
use crate::queue::{Queue, Waiting};
use crate::running::Running;
use crate::totals::Totals;

/// A job that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The job's number.
    pub id: u64,
    /// The first second of the job.
    pub start: i64,
    /// The first second after it.
    pub end: i64,
    /// The nodes of the job, ascending.
    pub ranges: Vec<NodeRange>,
    /// Whether the job was ended at its walltime with work left.
    pub killed: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct State {
    pub(crate) machine: Machine,
    pub(crate) now: i64,
    /// Nodes without a job that are neither drained nor reserved: the holes.
    pub(crate) free: NodeSet,
    pub(crate) blocks: Option<Blocks>,
    pub(crate) running: Running,
    pub(crate) queue: Queue,
    pub(crate) totals: Totals,
    /// A job has ended, or nodes were blocked or opened. Reservations may improve, or fail.
    pub(crate) disturbed: bool,
    /// The holes of the last step.
    shown: NodeSet,
    pub(crate) freed: Vec<NodeRange>,
    pub(crate) taken: Vec<NodeRange>,
    pub(crate) started: Vec<Placement>,
    pub(crate) ended: Vec<Ended>,
}

impl State {
    pub(crate) fn new(machine: Machine) -> Self {
        let nodes = machine.nodes;
        Self {
            blocks: Blocks::new(&machine),
            machine,
            now: 0,
            free: NodeSet::all(nodes),
            running: Running::default(),
            queue: Queue::default(),
            totals: Totals::default(),
            disturbed: true,
            shown: NodeSet::empty(nodes),
            freed: Vec::new(),
            taken: Vec::new(),
            started: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// Sets the first moment.
    pub(crate) fn begin(&mut self, now: i64) {
        self.now = now;
        self.totals.from = now;
        self.totals.at = now;
        self.reach_edges();
    }

    /// Advances to `now` and adds to the totals.
    pub(crate) fn advance(&mut self, now: i64) {
        let passed = now.saturating_sub(self.now).max(0).unsigned_abs();
        let idle = self.free.count();
        let (down, reserved, without_job) = self.blocks.as_ref().map_or((0, 0, idle), |blocks| {
            let mut down = blocks.down.clone();
            down.keep(&blocks.idle);
            let blocked = blocks.idle.count().saturating_sub(idle);
            let reserved = blocked.saturating_sub(down.count());
            (down.count(), reserved, blocks.idle.count())
        });
        let busy = self.machine.nodes.saturating_sub(without_job);
        let totals = &mut self.totals;
        for (sum, nodes) in [
            (&mut totals.busy_node_s, busy),
            (&mut totals.idle_node_s, idle),
            (&mut totals.down_node_s, down),
            (&mut totals.reserved_node_s, reserved),
        ] {
            *sum = sum.saturating_add(passed.saturating_mul(u64::from(nodes)));
        }
        self.now = now;
        totals.at = now;
        for ranges in [&mut self.freed, &mut self.taken] {
            ranges.clear();
        }
        self.started.clear();
        self.ended.clear();
    }

    /// Ends the jobs that are over and frees their nodes.
    pub(crate) fn end_jobs(&mut self) {
        let mut any = false;
        while let Some(ended) = self.running.pop_ended(self.now) {
            any = true;
            let job = ended.job;
            self.free.insert(&ended.ranges);
            if let Some(blocks) = &mut self.blocks {
                blocks.idle.insert(&ended.ranges);
            }
            let over = job.runtime.saturating_sub(job.walltime).max(0);
            let killed = over > 0 && self.machine.overrun == Overrun::Kill;
            self.totals.ended += 1;
            self.totals.overran += u64::from(over > 0);
            self.totals.killed += u64::from(killed);
            self.totals.overrun_s = self.totals.overrun_s.saturating_add(over.unsigned_abs());
            self.ended.push(Ended {
                id: job.id,
                start: ended.start,
                end: ended.end,
                ranges: ended.ranges,
                killed,
            });
        }
        self.disturbed |= any;
        if any && let Some(blocks) = &self.blocks {
            blocks.strike(&mut self.free, self.now);
        }
    }

    /// Begins and ends outages and reservations.
    pub(crate) fn reach_edges(&mut self) {
        if let Some(blocks) = &mut self.blocks
            && blocks.reach(self.now)
        {
            self.free.copy_from(&blocks.idle);
            blocks.strike(&mut self.free, self.now);
            self.disturbed = true;
        }
    }

    /// Starts a waiting job on these nodes, which are free.
    pub(crate) fn start(&mut self, waiting: &Waiting, ranges: Vec<NodeRange>) {
        self.free.remove(&ranges);
        if let Some(blocks) = &mut self.blocks {
            blocks.idle.remove(&ranges);
        }
        let job = waiting.job;
        let length = match self.machine.overrun {
            Overrun::Extend => job.runtime,
            Overrun::Kill => job.runtime.min(job.walltime),
        };
        let end = self.now.saturating_add(length);
        self.totals.started += 1;
        let waited = self.now.saturating_sub(job.submit).max(0).unsigned_abs();
        self.totals.waited_s = self.totals.waited_s.saturating_add(waited);
        self.started.push(Placement {
            job: waiting.index as usize,
            id: job.id,
            start: self.now,
            end,
            asked_end: self.now.saturating_add(job.walltime),
            ranges: ranges.clone(),
            reserved_start: waiting.reserved_start,
        });
        self.running.start(job, self.now, end, ranges);
    }

    /// Adds a job to the queue.
    pub(crate) fn submit(&mut self, index: u64, job: BatchJob) {
        self.queue.push(Waiting {
            index,
            job,
            reserved_start: None,
        });
    }

    /// Computes the changes of this moment against the step before.
    pub(crate) fn settle(&mut self) {
        self.freed.extend(self.free.ranges_beyond(&self.shown));
        self.taken.extend(self.shown.ranges_beyond(&self.free));
        self.shown.copy_from(&self.free);
    }

    /// The number of free nodes over time, by walltimes, on a machine without outages and
    /// reservations.
    pub(crate) fn counts(&self) -> Profile<Count> {
        let mut free = self.free.count();
        let mut profile = Profile::new(self.now, Count(free));
        for expected in self.running.expected() {
            free = free.saturating_add(expected.nodes);
            profile.then(self.any_second(expected.until), Count(free));
        }
        profile
    }

    /// The set of free nodes over time, by walltimes, reservations and present outages.
    pub(crate) fn sets(&self) -> Profile<NodeSet> {
        let idle = self.blocks.as_ref().map_or(&self.free, |b| &b.idle);
        let mut idle = idle.clone();
        let mut profile = Profile::new(self.now, self.free.clone());
        let mut edges = self.edges_ahead().into_iter().peekable();
        let open = |at: i64, idle: &NodeSet| {
            let mut open = idle.clone();
            if let Some(blocks) = &self.blocks {
                blocks.strike(&mut open, at);
            }
            open
        };
        for expected in self.running.expected() {
            let until = self.any_second(expected.until);
            while let Some(edge) = edges.next_if(|&edge| edge < until) {
                profile.then(edge, open(edge, &idle));
            }
            if let Some(on_nodes) = self.running.job(expected) {
                idle.insert(&on_nodes.ranges);
            }
            profile.then(until, open(until, &idle));
        }
        for edge in edges {
            profile.then(edge, open(edge, &idle));
        }
        profile
    }

    /// The expected end of a job; the next second if it is beyond its walltime.
    pub(crate) fn any_second(&self, expected: i64) -> i64 {
        expected.max(self.now.saturating_add(1))
    }

    /// The future times at which nodes are known to be blocked or opened, ascending.
    fn edges_ahead(&self) -> Vec<i64> {
        let Some(blocks) = &self.blocks else {
            return Vec::new();
        };
        let outages = blocks.known_outages.after(self.now).iter();
        let mut edges: Vec<i64> = outages
            .chain(blocks.reservations.after(self.now))
            .map(|(at, _)| *at)
            .collect();
        edges.sort_unstable();
        edges.dedup();
        edges
    }
}
