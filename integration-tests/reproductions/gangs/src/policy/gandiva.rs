//! Gandiva (OSDI '18) as Dally's simulator has it: machines have an affinity to a demand, and jobs
//! that are spread move when room appears.

use std::collections::HashMap;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::cluster::{Cluster, gather};
use crate::job::JobState;
use crate::placement::{Placement, lowest};

use super::rank::sorted;
use super::round::round;
use super::view::{Plan, Policy, View};

/// The policy.
#[derive(Debug, Clone)]
pub(super) struct Gandiva {
    rng: ChaCha8Rng,
    /// The demand that each machine is claimed for, by its number within its rack.
    claims: HashMap<u32, u32>,
}

impl Gandiva {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            rng: ChaCha8Rng::seed_from_u64(seed),
            claims: HashMap::new(),
        }
    }

    fn place(&mut self, cluster: &Cluster, job: &JobState) -> Option<Placement> {
        let demand = job.job.gpus;
        let layout = cluster.layout();
        if demand > layout.machine_gpus() {
            return self.scattered(cluster, demand);
        }
        let number = |machine: u32| machine % layout.rack_machines();
        let claim = |machine: u32| self.claims.get(&number(machine)).copied();
        let enough = |(_, free): &(u32, u64)| free.count_ones() >= demand;
        let affine = cluster
            .searched()
            .filter(enough)
            .find(|(m, _)| claim(*m) == Some(demand));
        let unclaimed = || {
            cluster
                .searched()
                .filter(enough)
                .find(|(m, _)| claim(*m).is_none())
        };
        let found = affine.or_else(unclaimed);
        if let Some((machine, free)) = found {
            self.claims.insert(number(machine), demand);
            return Some(Placement::on(machine, lowest(free, demand)));
        }
        // The published test looks at the last machine instead of the emptiest one.
        if cluster.searched().last().is_some_and(|last| enough(&last)) {
            let (machine, free) = cluster
                .searched()
                .max_by_key(|(_, free)| free.count_ones())?;
            return Some(Placement::on(machine, lowest(free, demand)));
        }
        self.scattered(cluster, demand)
    }

    /// Random free GPUs of the whole cluster.
    fn scattered(&mut self, cluster: &Cluster, demand: u32) -> Option<Placement> {
        let mut gpus: Vec<(u32, u64)> = Vec::new();
        for (machine, mut free) in cluster.listed() {
            while free != 0 {
                let gpu = lowest(free, 1);
                gpus.push((machine, gpu));
                free &= !gpu;
            }
        }
        gpus.shuffle(&mut self.rng);
        let mut chosen: HashMap<u32, u64> = HashMap::new();
        for (machine, gpu) in gpus.get(..demand as usize)? {
            *chosen.entry(*machine).or_default() |= gpu;
        }
        Some(Placement::of_parts(chosen.into_iter().collect()))
    }

    /// Consolidates spread jobs onto a free machine or rack.
    fn gather(view: &View<'_>, plan: &mut Plan, cluster: &mut Cluster) {
        let layout = cluster.layout();
        for job in view.running {
            let Some(run) = &job.run else { continue };
            let room = if run.gpus <= layout.machine_gpus() {
                let spread = run.placement.machines() > 1;
                spread.then(|| cluster.first_machine(run.gpus)).flatten()
            } else {
                let spread = run.placement.racks(layout).count() > 1;
                let rack = |rack: &u32| cluster.free_of_rack(*rack) >= run.gpus;
                let found = cluster.searched_racks().find(rack).filter(|_| spread);
                found.and_then(|rack| gather(cluster.of_rack(rack), run.gpus))
            };
            if let Some(room) = room
                && cluster.take(&room)
            {
                plan.stops.push(job.index);
                plan.starts.push((job.index, room));
            }
        }
    }
}

impl Policy for Gandiva {
    fn plan(&mut self, view: &View<'_>) -> Plan {
        // The newest start first; jobs that never started come last.
        let newest = |job: &JobState| -job.started_s.unwrap_or(f64::NEG_INFINITY);
        let ordered = sorted(view.waiting.iter().copied(), newest);
        let (mut plan, mut cluster) = round(view, ordered, |cluster, job| self.place(cluster, job));
        Self::gather(view, &mut plan, &mut cluster);
        plan
    }
}
