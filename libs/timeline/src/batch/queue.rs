//! Waiting jobs in order of submission.

use super::job::BatchJob;

/// A job that has been submitted and has not started.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    /// Its place in the order of submission.
    pub(super) index: u64,
    pub(super) job: BatchJob,
    /// The start that it was promised first.
    pub(super) promised: Option<i64>,
}

/// What becomes of a job that is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It waits on.
    Waits,
    /// It has started.
    Started,
    /// It waits on, and so do all behind it.
    Enough,
}

/// The queue. A job that starts from its middle leaves a gap, and gaps are closed when they
/// are as many as the jobs, so that a start costs little however long the queue is.
#[derive(Debug, Clone, Default)]
pub(super) struct Queue {
    jobs: Vec<Option<Waiting>>,
    /// Everything before is a gap; the job here, if there is one, is the first.
    first: usize,
    len: usize,
    /// No waiting job needs fewer nodes than this.
    least: u32,
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// No waiting job needs fewer nodes than this (it may be too low).
    pub(super) fn least(&self) -> u32 {
        self.least
    }

    pub(super) fn push(&mut self, waiting: Waiting) {
        if self.len == 0 {
            self.jobs.clear();
            self.first = 0;
            self.least = u32::MAX;
        } else if self.jobs.len() >= 64 && self.jobs.len() == self.jobs.capacity() {
            // Before memory grows: the gaps go first.
            self.jobs.retain(Option::is_some);
            self.first = 0;
        }
        self.least = self.least.min(waiting.job.nodes);
        self.jobs.push(Some(waiting));
        self.len += 1;
    }

    pub(super) fn front(&self) -> Option<&Waiting> {
        self.jobs.get(self.first)?.as_ref()
    }

    pub(super) fn front_mut(&mut self) -> Option<&mut Waiting> {
        self.jobs.get_mut(self.first)?.as_mut()
    }

    pub(super) fn pop_front(&mut self) -> Option<Waiting> {
        let waiting = self.jobs.get_mut(self.first)?.take()?;
        self.len -= 1;
        self.find_first();
        Some(waiting)
    }

    /// Looks at the jobs behind the first one, at most `depth` jobs with it.
    pub(super) fn sift(&mut self, depth: usize, mut judge: impl FnMut(&Waiting) -> Verdict) {
        let mut least = self.front().map_or(u32::MAX, |head| head.job.nodes);
        let mut looked = 1;
        let mut gaps = 0;
        let mut whole = true;
        let behind = self.jobs.iter_mut().skip(self.first + 1);
        for place in behind {
            let Some(waiting) = place else {
                gaps += 1;
                continue;
            };
            if looked >= depth {
                whole = false;
                break;
            }
            looked += 1;
            match judge(waiting) {
                Verdict::Waits => least = least.min(waiting.job.nodes),
                Verdict::Started => {
                    *place = None;
                    self.len -= 1;
                    gaps += 1;
                }
                Verdict::Enough => {
                    whole = false;
                    break;
                }
            }
        }
        // After a scan cut short, the old bound still holds.
        if whole {
            self.least = least;
        }
        if gaps > 32 && gaps > self.len {
            self.jobs.retain(Option::is_some);
            self.first = 0;
        }
    }

    fn find_first(&mut self) {
        while let Some(None) = self.jobs.get(self.first) {
            self.first += 1;
        }
        if self.first > 1024 && self.first > self.jobs.len() / 2 {
            self.jobs.drain(..self.first);
            self.first = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(index: u64) -> Waiting {
        let job = BatchJob {
            id: index,
            nodes: index as u32 % 7 + 1,
            ..BatchJob::default()
        };
        Waiting {
            index,
            job,
            promised: None,
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
                queue.sift(usize::MAX, |w| {
                    if w.index % 5 == 1 {
                        Verdict::Started
                    } else {
                        Verdict::Waits
                    }
                });
                let head = plain[0];
                plain.retain(|&i| i == head || i % 5 != 1);
            }
            if index % 2 == 0 {
                assert_eq!(queue.pop_front().map(|w| w.index), Some(plain.remove(0)));
            }
            assert_eq!(queue.len(), plain.len());
        }
        let left: Vec<u64> = queue.jobs.iter().flatten().map(|w| w.index).collect();
        assert_eq!(left, plain);
        let least = queue.jobs.iter().flatten().map(|w| w.job.nodes).min();
        assert!(least >= Some(queue.least()));
    }

    #[test]
    fn no_more_than_the_depth_is_looked_at() {
        let mut queue = Queue::default();
        for index in 0..10 {
            queue.push(waiting(index));
        }
        let mut seen = Vec::new();
        queue.sift(4, |w| {
            seen.push(w.index);
            Verdict::Waits
        });
        assert_eq!(seen, [1, 2, 3]);
        assert_eq!(queue.least(), 1);
    }
}
