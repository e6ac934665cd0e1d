//! Waiting jobs in order of submission.

use crate::job::BatchJob;

/// A submitted job that has not started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waiting {
    /// The place in the order of submission.
    pub(crate) index: u64,
    pub(crate) job: BatchJob,
    /// The start in the first reservation of the job.
    pub(crate) reserved_start: Option<i64>,
}

/// The verdict on a job that is considered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The job goes on waiting.
    Waits,
    /// The job has started, and this many nodes are free now.
    Started(u32),
}

/// The size of a job that has left the queue.
const GAP: u32 = u32::MAX;

/// The number of jobs in a block. The smallest size of each block is kept, so that a scan can
/// skip a whole block.
const BLOCK: usize = 64;

/// The queue. A job that starts from its middle leaves a gap. Gaps are closed once they outnumber
/// the jobs, so a start costs little in a long queue. Sizes are kept apart from the jobs, because
/// a scan over a long queue skips most jobs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Queue {
    /// The nodes that each job needs, below [`GAP`].
    sizes: Vec<u32>,
    /// A lower bound on the nodes that the jobs of each [`BLOCK`] need.
    smallest: Vec<u32>,
    jobs: Vec<Waiting>,
    /// The place of the first job; all places before it are gaps.
    first: usize,
    len: usize,
    /// A lower bound on the nodes that a waiting job needs.
    least: u32,
}

impl Queue {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// A lower bound on the nodes that a waiting job needs.
    pub(crate) fn least(&self) -> u32 {
        self.least
    }

    pub(crate) fn push(&mut self, waiting: Waiting) {
        if self.len == 0 {
            self.close_gaps();
            self.least = u32::MAX;
        } else if self.jobs.len() >= 64 && self.jobs.len() == self.jobs.capacity() {
            // Gaps are closed before memory grows.
            self.close_gaps();
        }
        self.least = self.least.min(waiting.job.nodes);
        let size = waiting.job.nodes.min(GAP - 1);
        match self.smallest.get_mut(self.sizes.len() / BLOCK) {
            Some(smallest) => *smallest = size.min(*smallest),
            None => self.smallest.push(size),
        }
        self.sizes.push(size);
        self.jobs.push(waiting);
        self.len += 1;
    }

    pub(crate) fn front(&self) -> Option<&Waiting> {
        self.jobs.get(self.first)
    }

    pub(crate) fn front_mut(&mut self) -> Option<&mut Waiting> {
        self.jobs.get_mut(self.first)
    }

    pub(crate) fn pop_front(&mut self) -> Option<Waiting> {
        let waiting = self.jobs.get(self.first).copied()?;
        if let Some(size) = self.sizes.get_mut(self.first) {
            *size = GAP;
        }
        self.len -= 1;
        while self.sizes.get(self.first) == Some(&GAP) {
            self.first += 1;
        }
        if self.first > 1024 && self.first > self.jobs.len() / 2 {
            self.close_gaps();
        }
        Some(waiting)
    }

    /// Considers the jobs behind the first one, at most `depth` jobs with it. `judge` is called for
    /// those that need at most `room` nodes, as long as there is room.
    pub(crate) fn sift(
        &mut self,
        depth: usize,
        mut room: u32,
        mut judge: impl FnMut(&Waiting) -> Verdict,
    ) {
        let mut least = self.sizes.get(self.first).copied().unwrap_or(u32::MAX);
        let mut looked = 1;
        let mut whole = true;
        let behind = self.first + 1;
        let blocks = self.sizes.chunks_mut(BLOCK).zip(self.jobs.chunks(BLOCK));
        let blocks = blocks.zip(&mut self.smallest).zip((0..).step_by(BLOCK));
        for (((sizes, jobs), smallest), start) in blocks.skip(behind / BLOCK) {
            // A skipped block is not counted, so blocks are skipped only without a depth.
            if *smallest > room && depth == usize::MAX {
                least = least.min(*smallest);
                continue;
            }
            let skipped = behind.saturating_sub(start);
            let mut left = u32::MAX;
            for (size, waiting) in sizes.iter_mut().zip(jobs).skip(skipped) {
                if *size == GAP {
                    continue;
                }
                if looked >= depth || room == 0 {
                    whole = false;
                    break;
                }
                looked += 1;
                if *size <= room
                    && let Verdict::Started(still) = judge(waiting)
                {
                    *size = GAP;
                    self.len -= 1;
                    room = still;
                } else {
                    left = left.min(*size);
                }
            }
            if !whole {
                break;
            }
            if skipped == 0 {
                *smallest = left;
            }
            least = least.min(left);
        }
        // The old bound holds after a scan that was cut short.
        if whole {
            self.least = least;
        }
        let gaps = self.jobs.len() - self.first - self.len;
        if gaps > 32 && gaps > self.len {
            self.close_gaps();
        }
    }

    fn close_gaps(&mut self) {
        let mut sizes = self.sizes.iter();
        self.jobs.retain(|_| sizes.next() != Some(&GAP));
        self.sizes.retain(|&size| size != GAP);
        let blocks = self.sizes.chunks(BLOCK);
        let smallest = blocks.map(|sizes| sizes.iter().copied().min().unwrap_or(GAP));
        self.smallest.clear();
        self.smallest.extend(smallest);
        self.first = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hundred neighbours of one size, so that whole blocks are skipped.
    fn size(index: u64) -> u32 {
        (index / 100 % 7) as u32 + 1
    }

    fn waiting(index: u64) -> Waiting {
        let job = BatchJob {
            id: index,
            nodes: size(index),
            ..BatchJob::default()
        };
        Waiting {
            index,
            job,
            reserved_start: None,
        }
    }

    #[test]
    fn the_order_stays_whatever_starts() {
        let mut queue = Queue::default();
        let mut plain: Vec<u64> = Vec::new();
        for index in 0..5000u64 {
            queue.push(waiting(index));
            plain.push(index);
            if index % 3 == 0 {
                let room = (index % 9) as u32;
                queue.sift(usize::MAX, room, |w| {
                    assert!(w.job.nodes <= room);
                    if w.index % 5 == 1 {
                        Verdict::Started(room)
                    } else {
                        Verdict::Waits
                    }
                });
                let head = plain[0];
                plain.retain(|&i| i == head || i % 5 != 1 || size(i) > room);
            }
            if index % 2 == 0 {
                assert_eq!(queue.pop_front().map(|w| w.index), Some(plain.remove(0)));
            }
            assert_eq!(queue.len(), plain.len());
        }
        let least = queue.least();
        let left: Vec<Waiting> = std::iter::from_fn(|| queue.pop_front()).collect();
        assert!(left.iter().all(|w| w.job.nodes >= least));
        assert_eq!(left.iter().map(|w| w.index).collect::<Vec<_>>(), plain);
        assert!(queue.front().is_none() && queue.len() == 0);
    }

    #[test]
    fn no_more_jobs_than_the_depth_are_considered() {
        let mut queue = Queue::default();
        for index in 0..10 {
            queue.push(waiting(index));
        }
        let mut seen = Vec::new();
        queue.sift(4, 100, |w| {
            seen.push(w.index);
            Verdict::Waits
        });
        assert_eq!(seen, [1, 2, 3]);
        assert_eq!(queue.least(), 1);
    }
}
