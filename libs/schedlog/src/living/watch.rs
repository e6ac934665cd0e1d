//! From answers to what is to be said: the standing of each node, and promises that changed.
//!
//! - W1 A node that is missing from one answer is not gone: nothing is said of it before it has
//!   been missing in [`Slurm::absent_after`] answers in a row.
//! - W2 A node that the scheduler has not heard from ([`NodeFlags::is_unclear`]) is no new hole,
//!   and not gone: nothing is said of it in the first [`Slurm::silent_after`] answers in a row,
//!   unless its jobs speak against it. After a restart of slurmctld all nodes are like that.
//! - W3 A promise is said when it is new or has changed, and withdrawn when its job no longer
//!   waits for these nodes; of a job that is missing, as late as of a missing node.
//! - W4 At most [`Slurm::most_promises`] are kept, those with the earliest starts.
//!
//! An answer that failed is not shown to the watch at all, so that it changes nothing.

use std::collections::BTreeMap;

use lacuna_model::{NodeId, Span, Timestamp};

use super::settings::Slurm;
use super::standing::{Standing, standing};
use super::{Absence, JobReport, JobState, NodeReport};

/// A planned start by less than this is the same as before: Slurm reckons it anew each time.
const SAME_START: Span = Span::from_secs(5);

/// A job's planned start on named nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promise {
    /// The job, in the scheduler's words.
    pub job: String,
    /// On which nodes; none: the promise is withdrawn.
    pub nodes: Vec<NodeId>,
    /// When.
    pub start: Timestamp,
}

/// What an answer says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sight {
    /// Every node of the answer, sorted, and those that are gone, as unusable.
    pub nodes: Vec<(NodeId, Standing)>,
    /// Promises that are new, have changed or are withdrawn.
    pub promises: Vec<Promise>,
    /// How many nodes are missing and not yet taken for gone.
    pub missing: usize,
    /// How many nodes are silent and keep their standing.
    pub silent: usize,
}

#[derive(Debug, Clone)]
struct Kept {
    nodes: Vec<NodeId>,
    start: Timestamp,
    absent: u32,
}

/// Remembers the answers before, as far as it must.
#[derive(Debug, Clone)]
pub struct Watch {
    settings: Slurm,
    nodes: Absence,
    /// In how many answers in a row each node has been silent.
    silent: BTreeMap<NodeId, u32>,
    promises: BTreeMap<String, Kept>,
}

impl Watch {
    /// Begins with nodes that are known from before, so that their absence is noticed.
    #[must_use]
    pub fn new(settings: Slurm, known: impl IntoIterator<Item = NodeId>) -> Self {
        let mut nodes = Absence::new(settings.absent_after);
        nodes.expect(known);
        Self {
            settings,
            nodes,
            silent: BTreeMap::new(),
            promises: BTreeMap::new(),
        }
    }

    /// Nodes that were said to be idle by somebody else meanwhile.
    pub fn expect(&mut self, known: impl IntoIterator<Item = NodeId>) {
        self.nodes.expect(known);
    }

    /// How many promises are kept.
    #[must_use]
    pub fn promises(&self) -> usize {
        self.promises.len()
    }

    /// Takes an answer of nodes and one of jobs.
    pub fn take(&mut self, nodes: &[NodeReport], jobs: &[JobReport]) -> Sight {
        let mut sight = Sight {
            promises: self.promised(jobs),
            ..Sight::default()
        };
        let mut on: BTreeMap<&NodeId, Vec<&JobReport>> = BTreeMap::new();
        for job in jobs {
            for node in &job.nodes {
                on.entry(node).or_default().push(job);
            }
        }
        for report in nodes {
            let jobs = on.get(&report.node).into_iter().flatten().copied();
            let settings = &self.settings;
            let judge = |report: &NodeReport| {
                standing(
                    report,
                    jobs.clone(),
                    &settings.pilots,
                    settings.planned_are_holes,
                )
            };
            let mut said = judge(report);
            if report.flags.is_unclear() {
                let mut heard = report.clone();
                heard.flags = report.flags.heard();
                let by_jobs = judge(&heard);
                let count = self.silent.entry(report.node.clone()).or_insert(0);
                *count = count.saturating_add(1);
                if by_jobs != Standing::Hole {
                    said = by_jobs;
                } else if *count < settings.silent_after {
                    sight.silent = sight.silent.saturating_add(1);
                    continue;
                }
            } else {
                self.silent.remove(&report.node);
            }
            sight.nodes.push((report.node.clone(), said));
        }
        let (gone, missing) = self.nodes.take(nodes.iter().map(|report| &report.node));
        let unusable = |(node, reason)| (node, Standing::Unusable { reason });
        for (node, _) in &gone {
            self.silent.remove(node);
        }
        sight.nodes.extend(gone.into_iter().map(unusable));
        sight.missing = missing;
        sight.nodes.sort_by(|a, b| a.0.cmp(&b.0));
        sight
    }

    /// What is new among the promises.
    fn promised(&mut self, jobs: &[JobReport]) -> Vec<Promise> {
        let waits =
            |job: &&JobReport| job.state == JobState::Pending && !self.settings.pilots.fit(job);
        let mut planned: Vec<(Timestamp, &JobReport)> = jobs
            .iter()
            .filter(waits)
            .filter(|job| !job.planned.is_empty())
            .filter_map(|job| Some((job.start?, job)))
            .collect();
        planned.sort_by(|a, b| (a.0, &a.1.id).cmp(&(b.0, &b.1.id)));
        planned.truncate(self.settings.most_promises);
        let seen: BTreeMap<&str, &JobReport> =
            jobs.iter().map(|job| (job.id.as_str(), job)).collect();
        let now: BTreeMap<&str, Timestamp> = planned
            .iter()
            .map(|(start, job)| (job.id.as_str(), *start))
            .collect();
        let mut said = Vec::new();
        let gone_after = self.settings.absent_after;
        self.promises.retain(|job, kept| {
            if now.contains_key(job.as_str()) {
                kept.absent = 0;
                return true;
            }
            kept.absent = kept.absent.saturating_add(1);
            let stays = !seen.contains_key(job.as_str()) && kept.absent < gone_after;
            if !stays {
                said.push(Promise {
                    job: job.clone(),
                    nodes: Vec::new(),
                    start: kept.start,
                });
            }
            stays
        });
        for (start, job) in planned {
            let same = self.promises.get(&job.id).is_some_and(|kept| {
                let moved = start.since(kept.start).as_ms().unsigned_abs();
                kept.nodes == job.planned && moved < SAME_START.as_ms().unsigned_abs()
            });
            if same {
                continue;
            }
            let nodes = job.planned.clone();
            said.push(Promise {
                job: job.id.clone(),
                nodes: nodes.clone(),
                start,
            });
            let kept = Kept {
                nodes,
                start,
                absent: 0,
            };
            self.promises.insert(job.id.clone(), kept);
        }
        said
    }
}
