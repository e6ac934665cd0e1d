//! A board on which a plan is laid out: an empty cluster that fills up.

use std::collections::BTreeMap;

use crate::cluster::Cluster;
use crate::job::JobState;
use crate::packing::{scattered, whole};
use crate::placement::Placement;

use super::view::{Plan, View};

/// The jobs that will have GPUs, with them.
#[derive(Debug)]
pub(super) struct Board<'a> {
    view: &'a View<'a>,
    cluster: Cluster,
    placed: BTreeMap<usize, Placement>,
}

impl<'a> Board<'a> {
    pub(super) fn new(view: &'a View<'a>) -> Self {
        Self {
            view,
            cluster: view.cluster.emptied(),
            placed: BTreeMap::new(),
        }
    }

    /// Whether a job has GPUs.
    pub(super) fn has(&self, job: &JobState) -> bool {
        self.placed.contains_key(&job.index)
    }

    /// Number of GPUs that are left.
    pub(super) const fn free_gpus(&self) -> u32 {
        self.cluster.free_gpus()
    }

    /// Gives a running job its own GPUs, if they are as many as it shall have, it runs there at this
    /// share of its consolidated speed at least, and they are free.
    pub(super) fn keep(&mut self, job: &JobState, gpus: u32, share: f64) -> bool {
        let best = || self.view.speeds.consolidated(&job.job, gpus);
        let run = job
            .run
            .as_ref()
            .filter(|run| run.gpus == gpus && run.speed >= share * best());
        run.is_some_and(|run| self.put(job, run.placement.clone()))
    }

    /// Gives a job whole machines, or the tightest slot or machine.
    pub(super) fn whole(&mut self, job: &JobState, gpus: u32) -> bool {
        whole(&self.cluster, gpus).is_some_and(|placement| self.put(job, placement))
    }

    /// Gives a job spread GPUs, if it runs there at this share of its consolidated speed at least.
    pub(super) fn scattered(&mut self, job: &JobState, gpus: u32, share: f64) -> bool {
        let Some(placement) = scattered(&self.cluster, gpus) else {
            return false;
        };
        let best = self.view.speeds.consolidated(&job.job, gpus);
        self.view.speeds.speed(&job.job, &placement) >= share * best && self.put(job, placement)
    }

    fn put(&mut self, job: &JobState, placement: Placement) -> bool {
        let taken = !self.has(job) && self.cluster.take(&placement);
        if taken {
            self.placed.insert(job.index, placement);
        }
        taken
    }

    /// The plan that leads from what runs to the board.
    pub(super) fn plan(mut self) -> Plan {
        let mut plan = Plan::default();
        for job in self.view.running {
            let now = job.run.as_ref().map(|run| &run.placement);
            if self.placed.get(&job.index) == now {
                self.placed.remove(&job.index);
            } else {
                plan.stops.push(job.index);
            }
        }
        plan.starts = self.placed.into_iter().collect();
        plan
    }
}
