//! The event loop of the scheduler.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use super::free::Free;
use super::schedule::{BatchError, BatchJob, NodeHole, Placement, Run, Schedule};

/// Runs jobs on a machine of `nodes` nodes until all have ended, or until second `until`.
///
/// Jobs that are submitted at the same second wait in the order in which they are given. At
/// one moment, jobs end before others are submitted, and both before any starts. A job that
/// runs beyond its walltime is expected to end at the next second, over and over.
///
/// # Errors
/// [`BatchError`] names the job and what was expected.
pub fn simulate(nodes: u32, jobs: &[BatchJob], until: Option<i64>) -> Result<Schedule, BatchError> {
    check(nodes, jobs)?;
    let mut order: Vec<(usize, &BatchJob)> = jobs.iter().enumerate().collect();
    order.sort_by_key(|(_, job)| job.submit);
    let start = order.first().map_or(0, |(_, job)| job.submit);
    let mut easy = Easy {
        now: start,
        free: Free::all(nodes),
        idle_since: vec![start; nodes as usize],
        ends: BinaryHeap::new(),
        expected: BTreeSet::new(),
        queue: Vec::new(),
        least: u32::MAX,
        placements: Vec::with_capacity(jobs.len()),
        promised: None,
        holes: Vec::new(),
    };
    let mut arrivals = order.into_iter().peekable();
    loop {
        let arrival = arrivals.peek().map(|(_, job)| job.submit);
        let end = easy.ends.peek().map(|Reverse((end, _))| *end);
        let Some(now) = arrival.into_iter().chain(end).min() else {
            break;
        };
        if until.is_some_and(|until| now >= until) {
            break;
        }
        easy.now = now;
        easy.end_jobs();
        while let Some((index, job)) = arrivals.next_if(|(_, job)| job.submit <= now) {
            easy.least = easy.least.min(job.nodes);
            easy.queue.push(Waiting { index, job: *job });
        }
        easy.schedule();
    }
    let end = until.unwrap_or(easy.now).max(start);
    let waiting = easy.queue.len() + arrivals.count();
    Ok(easy.finish(nodes, start, end, waiting))
}

fn check(nodes: u32, jobs: &[BatchJob]) -> Result<(), BatchError> {
    if nodes == 0 {
        return Err(BatchError::NoNodes);
    }
    for job in jobs {
        if job.nodes == 0 || job.nodes > nodes {
            return Err(BatchError::Size {
                id: job.id,
                needs: job.nodes,
                has: nodes,
            });
        }
        for (what, value) in [("runtime", job.runtime), ("walltime", job.walltime)] {
            if value < 0 {
                let id = job.id;
                return Err(BatchError::Negative { id, what, value });
            }
        }
    }
    Ok(())
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    index: usize,
    job: BatchJob,
}

/// When the head of the queue can start at the latest, and how many nodes it leaves free then.
struct Reservation {
    at: i64,
    spare: u32,
}

struct Easy {
    now: i64,
    free: Free,
    /// Since when each node is without a job; of busy nodes without meaning.
    idle_since: Vec<i64>,
    /// True ends of running jobs, with their placement.
    ends: BinaryHeap<Reverse<(i64, usize)>>,
    /// Ends of running jobs by walltime, with placement and size.
    expected: BTreeSet<(i64, usize, u32)>,
    queue: Vec<Waiting>,
    /// No waiting job needs fewer nodes than this.
    least: u32,
    placements: Vec<Placement>,
    /// The present head's first promise.
    promised: Option<i64>,
    holes: Vec<NodeHole>,
}

impl Easy {
    fn end_jobs(&mut self) {
        while let Some(&Reverse((end, index))) = self.ends.peek() {
            if end > self.now {
                break;
            }
            self.ends.pop();
            self.give_back(index);
        }
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "placements and nodes are numbered by this simulator itself"
    )]
    fn give_back(&mut self, index: usize) {
        let runs = &self.placements[index].runs;
        self.free.give(runs);
        for run in runs {
            let nodes = run.first as usize..(run.first + run.count) as usize;
            self.idle_since[nodes].fill(self.now);
        }
        let first = self.expected_key(index);
        self.expected.remove(&first);
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "placements are numbered by this simulator itself"
    )]
    fn expected_key(&self, index: usize) -> (i64, usize, u32) {
        let placement = &self.placements[index];
        (placement.asked_end, index, placement.count())
    }

    fn schedule(&mut self) {
        self.start_heads();
        if self.free.count() < self.least {
            return;
        }
        if let Some(head) = self.queue.first().copied() {
            self.backfill(head);
        }
    }

    /// Starts jobs from the head of the queue as long as they fit.
    fn start_heads(&mut self) {
        let mut started = 0;
        while let Some(head) = self.queue.get(started).copied() {
            if head.job.nodes > self.free.count() {
                break;
            }
            let promised = self.promised.take();
            self.start(head, promised);
            started += 1;
        }
        self.queue.drain(..started);
        if let (Some(head), None) = (self.queue.first(), self.promised) {
            self.promised = Some(self.reservation(head.job.nodes).at);
        }
    }

    /// When `wanted` nodes will be free by what running jobs have asked for.
    fn reservation(&self, wanted: u32) -> Reservation {
        let mut free = self.free.count();
        let mut at = self.now;
        for &(end, _, nodes) in &self.expected {
            // A job that runs beyond its walltime is expected to end any second.
            let end = end.max(self.now + 1);
            if free >= wanted && end > at {
                break;
            }
            free += nodes;
            at = end;
        }
        Reservation {
            at,
            spare: free.saturating_sub(wanted),
        }
    }

    /// Starts later jobs that do not delay the head.
    fn backfill(&mut self, head: Waiting) {
        let Reservation { at, mut spare } = self.reservation(head.job.nodes);
        let mut least = head.job.nodes;
        let mut kept = Vec::with_capacity(self.queue.len());
        let queue = std::mem::take(&mut self.queue);
        let mut waiting = queue.into_iter();
        kept.extend(waiting.next());
        let mut whole = true;
        while let Some(next) = waiting.next() {
            let fits = next.job.nodes <= self.free.count();
            let ends_before = self.now.saturating_add(next.job.walltime) <= at;
            if fits && (ends_before || next.job.nodes <= spare) {
                if !ends_before {
                    spare -= next.job.nodes;
                }
                self.start(next, None);
                if self.free.count() == 0 {
                    kept.extend(waiting);
                    whole = false;
                    break;
                }
            } else {
                least = least.min(next.job.nodes);
                kept.push(next);
            }
        }
        self.queue = kept;
        // After a scan cut short, the old bound still holds.
        if whole {
            self.least = least;
        }
    }

    fn start(&mut self, waiting: Waiting, promised: Option<i64>) {
        let runs = self.free.take(waiting.job.nodes);
        for run in &runs {
            for node in run.first..run.first + run.count {
                let from = self
                    .idle_since
                    .get(node as usize)
                    .copied()
                    .unwrap_or(self.now);
                if from < self.now {
                    self.holes.push(NodeHole {
                        node,
                        from,
                        until: self.now,
                        censored: false,
                    });
                }
            }
        }
        let index = self.placements.len();
        let end = self.now.saturating_add(waiting.job.runtime);
        let asked_end = self.now.saturating_add(waiting.job.walltime);
        self.ends.push(Reverse((end, index)));
        self.expected.insert((asked_end, index, waiting.job.nodes));
        self.placements.push(Placement {
            job: waiting.index,
            start: self.now,
            end,
            asked_end,
            runs,
            promised,
        });
    }

    /// Closes the books at `end`.
    fn finish(mut self, nodes: u32, start: i64, end: i64, waiting: usize) -> Schedule {
        let rest = self.free.take(self.free.count());
        let idle = rest
            .iter()
            .flat_map(|run: &Run| run.first..run.first + run.count);
        for node in idle {
            let from = self.idle_since.get(node as usize).copied().unwrap_or(end);
            if from < end {
                self.holes.push(NodeHole {
                    node,
                    from,
                    until: end,
                    censored: true,
                });
            }
        }
        Schedule {
            nodes,
            start,
            end,
            placements: self.placements,
            holes: self.holes,
            waiting,
        }
    }
}
