//! From the answers of Slurm to poll results: the status of each node, and changed planned starts.
//!
//! - W1 A node that is missing from one answer is not gone. A poll result omits it until
//!   [`Slurm::absent_after`] answers in a row lack it.
//! - W2 A node that the scheduler has not heard from ([`super::NodeFlags::is_unclear`]) is neither a new
//!   hole nor gone. A poll result omits it for [`Slurm::silent_after`] answers in a row, unless
//!   its jobs forbid a hole. After a restart of slurmctld every node is in this state.
//! - W3 A planned start is reported when it is new or has changed. It is withdrawn when its job no
//!   longer waits for these nodes. The start of a missing job is withdrawn as late as a missing
//!   node.
//! - W4 At most [`Slurm::most_promises`] planned starts are kept, the earliest ones.
//!
//! The tracker never sees a failed answer, so a failed answer changes nothing.

use std::collections::BTreeMap;

use lacuna_model::{NodeId, Span, Timestamp};

use super::node_status::node_status;
use super::settings::Slurm;
use super::{JobReport, NodeReport};
use crate::job::JobState;
use crate::live::{PlannedJob, PollResult};
use crate::missing::MissingNodes;
use crate::node_status::NodeStatus;

/// A planned start that moves by less than this is unchanged: Slurm computes it in each cycle.
const SAME_START: Span = Span::from_secs(5);

/// A planned start that has been reported.
#[derive(Debug, Clone)]
struct Reported {
    nodes: Vec<NodeId>,
    start: Timestamp,
    /// Answers in a row without the job.
    absent: u32,
}

/// Compares each poll with the polls before it (W1 to W4).
#[derive(Debug, Clone)]
pub struct Tracker {
    settings: Slurm,
    missing: MissingNodes,
    /// Answers in a row in which each node has been silent.
    silent: BTreeMap<NodeId, u32>,
    /// Reported planned starts by job id.
    planned: BTreeMap<String, Reported>,
}

impl Tracker {
    /// A tracker that expects the `known` nodes in the first answer.
    #[must_use]
    pub fn new(settings: Slurm, known: impl IntoIterator<Item = NodeId>) -> Self {
        let mut missing = MissingNodes::new(settings.absent_after);
        missing.expect(known);
        Self {
            settings,
            missing,
            silent: BTreeMap::new(),
            planned: BTreeMap::new(),
        }
    }

    /// Expects further nodes, which another source has reported as idle.
    pub fn expect(&mut self, known: impl IntoIterator<Item = NodeId>) {
        self.missing.expect(known);
    }

    /// Takes one answer of `sinfo` and one of `squeue`.
    pub fn take(&mut self, nodes: &[NodeReport], jobs: &[JobReport]) -> PollResult {
        let mut result = PollResult {
            planned: self.planned_changes(jobs),
            ..PollResult::default()
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
                node_status(
                    report,
                    jobs.clone(),
                    &settings.pilots,
                    settings.planned_are_holes,
                )
            };
            let mut status = judge(report);
            if report.flags.is_unclear() {
                let mut heard = report.clone();
                heard.flags = report.flags.heard();
                let by_jobs = judge(&heard);
                let count = self.silent.entry(report.node.clone()).or_insert(0);
                *count = count.saturating_add(1);
                if by_jobs != NodeStatus::Hole {
                    status = by_jobs;
                } else if *count < settings.silent_after {
                    result.silent = result.silent.saturating_add(1);
                    continue;
                }
            } else {
                self.silent.remove(&report.node);
            }
            result.nodes.push((report.node.clone(), status));
        }
        let (gone, missing) = self.missing.take(nodes.iter().map(|report| &report.node));
        let unusable = |(node, reason)| (node, NodeStatus::Unusable { reason });
        for (node, _) in &gone {
            self.silent.remove(node);
        }
        result.nodes.extend(gone.into_iter().map(unusable));
        result.missing = missing;
        result.kept = self.planned.len();
        result.nodes.sort_by(|a, b| a.0.cmp(&b.0));
        result
    }

    /// Planned starts that are new, changed or withdrawn (W3, W4).
    fn planned_changes(&mut self, jobs: &[JobReport]) -> Vec<PlannedJob> {
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
        let mut changes = Vec::new();
        let gone_after = self.settings.absent_after;
        self.planned.retain(|job, kept| {
            if now.contains_key(job.as_str()) {
                kept.absent = 0;
                return true;
            }
            kept.absent = kept.absent.saturating_add(1);
            let stays = !seen.contains_key(job.as_str()) && kept.absent < gone_after;
            if !stays {
                changes.push(PlannedJob {
                    job: job.clone(),
                    nodes: Vec::new(),
                    start: kept.start,
                });
            }
            stays
        });
        for (start, job) in planned {
            let same = self.planned.get(&job.id).is_some_and(|kept| {
                let moved = start.since(kept.start).as_ms().unsigned_abs();
                kept.nodes == job.planned && moved < SAME_START.as_ms().unsigned_abs()
            });
            if same {
                continue;
            }
            let nodes = job.planned.clone();
            changes.push(PlannedJob {
                job: job.id.clone(),
                nodes: nodes.clone(),
                start,
            });
            let reported = Reported {
                nodes,
                start,
                absent: 0,
            };
            self.planned.insert(job.id.clone(), reported);
        }
        changes
    }
}
