//! The cluster: which GPUs are free.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::layout::Layout;
use crate::placement::{Placement, lowest};

/// Which GPUs are free, and the orders in which machines and racks are searched and taken.
#[derive(Debug, Clone)]
pub struct Cluster {
    layout: Layout,
    free: Vec<u64>,
    free_gpus: u32,
    machine_order: Vec<u32>,
    rack_order: Vec<u32>,
    /// Machines in the order in which a gang over several of them takes their GPUs.
    list_order: Vec<u32>,
}

impl Cluster {
    /// A free cluster, searched in the order of numbers.
    #[must_use]
    pub fn new(layout: Layout) -> Self {
        Self {
            layout,
            free: vec![layout.whole(); layout.machines() as usize],
            free_gpus: layout.gpus(),
            machine_order: (0..layout.machines()).collect(),
            rack_order: (0..layout.racks()).collect(),
            list_order: (0..layout.machines()).collect(),
        }
    }

    /// A free cluster whose machines and racks are searched in random orders, each by itself: the
    /// published simulator follows the order of a hash table. A gang over several machines takes
    /// their GPUs in the order of numbers.
    #[must_use]
    pub fn shuffled(layout: Layout, seed: u64) -> Self {
        let mut cluster = Self::new(layout);
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        cluster.machine_order.shuffle(&mut rng);
        cluster.rack_order.shuffle(&mut rng);
        cluster
    }

    /// The same cluster, where a gang over several machines takes their GPUs in the order of search.
    #[must_use]
    pub fn taken_as_searched(mut self) -> Self {
        self.list_order.clone_from(&self.machine_order);
        self
    }

    /// The same cluster with all GPUs free.
    #[must_use]
    pub fn emptied(&self) -> Self {
        let mut cluster = self.clone();
        cluster.free.fill(self.layout.whole());
        cluster.free_gpus = self.layout.gpus();
        cluster
    }

    /// Its layout.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// Number of free GPUs.
    #[must_use]
    pub const fn free_gpus(&self) -> u32 {
        self.free_gpus
    }

    /// The free GPUs of a machine, as bits.
    #[must_use]
    pub fn free_of(&self, machine: u32) -> u64 {
        self.free.get(machine as usize).copied().unwrap_or(0)
    }

    /// Machines with their free GPUs, in the order of numbers.
    pub fn listed(&self) -> impl Iterator<Item = (u32, u64)> {
        (0..).zip(self.free.iter().copied())
    }

    /// Machines with their free GPUs, in the order of search.
    pub fn searched(&self) -> impl Iterator<Item = (u32, u64)> {
        self.machine_order
            .iter()
            .map(|&machine| (machine, self.free_of(machine)))
    }

    /// The machines of a rack with their free GPUs, in the order of numbers.
    pub fn of_rack(&self, rack: u32) -> impl Iterator<Item = (u32, u64)> {
        let first = rack * self.layout.rack_machines();
        let machines = first..first + self.layout.rack_machines();
        machines.map(|machine| (machine, self.free_of(machine)))
    }

    /// Number of free GPUs of a rack.
    #[must_use]
    pub fn free_of_rack(&self, rack: u32) -> u32 {
        self.of_rack(rack).map(|(_, free)| free.count_ones()).sum()
    }

    /// Racks in the order of search.
    pub fn searched_racks(&self) -> impl Iterator<Item = u32> {
        self.rack_order.iter().copied()
    }

    /// Whether all GPUs of a placement are free.
    #[must_use]
    pub fn has(&self, placement: &Placement) -> bool {
        placement
            .parts()
            .all(|(machine, gpus)| self.free_of(machine) & gpus == gpus)
    }

    /// Takes the GPUs of a placement. Returns false, and takes nothing, if one is not free.
    #[must_use]
    pub fn take(&mut self, placement: &Placement) -> bool {
        let free = self.has(placement);
        if free {
            for (machine, gpus) in placement.parts() {
                if let Some(free) = self.free.get_mut(machine as usize) {
                    *free &= !gpus;
                }
            }
            self.free_gpus -= placement.gpus();
        }
        free
    }

    /// Gives the GPUs of a placement back. Returns false if one was free already.
    #[must_use]
    pub fn give(&mut self, placement: &Placement) -> bool {
        let mut held = true;
        for (machine, gpus) in placement.parts() {
            if let Some(free) = self.free.get_mut(machine as usize) {
                held &= *free & gpus == 0;
                self.free_gpus += (gpus & !*free).count_ones();
                *free |= gpus;
            }
        }
        held
    }

    /// The first slot in the order of search with enough free GPUs.
    #[must_use]
    pub fn first_slot(&self, gpus: u32) -> Option<Placement> {
        self.searched().find_map(|(machine, free)| {
            let mut slots = self.layout.slots_of(free);
            let slot = slots.find(|slot| slot.count_ones() >= gpus)?;
            Some(Placement::on(machine, lowest(slot, gpus)))
        })
    }

    /// The first machine in the order of search with enough free GPUs.
    #[must_use]
    pub fn first_machine(&self, gpus: u32) -> Option<Placement> {
        let mut machines = self.searched();
        let (machine, free) = machines.find(|(_, free)| free.count_ones() >= gpus)?;
        Some(Placement::on(machine, lowest(free, gpus)))
    }

    /// Machines with their free GPUs, in the order of the list.
    fn taken(&self) -> impl Iterator<Item = (u32, u64)> {
        self.list_order
            .iter()
            .map(|&machine| (machine, self.free_of(machine)))
    }

    /// The first rack in the order of search with enough free GPUs, which are taken in the order of
    /// the list from any of its machines.
    #[must_use]
    pub fn first_rack(&self, gpus: u32) -> Option<Placement> {
        let rack = self
            .searched_racks()
            .find(|&rack| self.free_of_rack(rack) >= gpus)?;
        let of_rack = |(machine, _): &(u32, u64)| self.layout.rack_of(*machine) == rack;
        gather(self.taken().filter(of_rack), gpus)
    }

    /// The first free GPUs of the cluster in the order of the list.
    #[must_use]
    pub fn first_gpus(&self, gpus: u32) -> Option<Placement> {
        gather(self.taken(), gpus)
    }
}

/// The first free GPUs of some machines.
pub(crate) fn gather(machines: impl Iterator<Item = (u32, u64)>, gpus: u32) -> Option<Placement> {
    let mut left = gpus;
    let mut parts = Vec::new();
    for (machine, free) in machines {
        let count = free.count_ones().min(left);
        if count > 0 {
            parts.push((machine, lowest(free, count)));
            left -= count;
        }
        if left == 0 {
            return Some(Placement::of_parts(parts));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_follow_their_orders() {
        let layout = Layout::new(2, 2, 2, 4).unwrap();
        let mut cluster = Cluster::new(layout);
        assert!(cluster.take(&Placement::on(0, 0b0011_0111)));
        assert_eq!(cluster.first_slot(2), Some(Placement::on(0, 0b1100_0000)));
        assert_eq!(cluster.first_slot(3), Some(Placement::on(1, 0b0111)));
        assert_eq!(
            cluster.first_machine(3),
            Some(Placement::on(0, 0b1100_1000))
        );
        let rack = Placement::of_parts(vec![(0, 0b1100_1000), (1, 0b1_1111)]);
        assert_eq!(cluster.first_rack(8), Some(rack));
        assert_eq!(
            cluster
                .first_rack(12)
                .map(|p| p.racks(layout).collect::<Vec<_>>()),
            Some(vec![1])
        );
        assert_eq!(cluster.first_rack(17), None);
        assert_eq!(cluster.first_gpus(20).map(|p| p.machines()), Some(4));
        assert_eq!(cluster.first_gpus(28), None);
    }

    #[test]
    fn gangs_over_machines_follow_the_list() {
        let cluster = Cluster::shuffled(Layout::new(1, 8, 2, 4).unwrap(), 3);
        let first = |cluster: &Cluster| {
            let mut order = cluster.machine_order.clone();
            order.truncate(2);
            order.sort_unstable();
            order
        };
        let machines = |placement: Option<Placement>| {
            let placement = placement.unwrap();
            placement.parts().map(|part| part.0).collect::<Vec<_>>()
        };
        assert_ne!(first(&cluster), [0, 1]);
        assert_eq!(machines(cluster.first_rack(16)), [0, 1]);
        assert_eq!(machines(cluster.first_gpus(16)), [0, 1]);
        let cluster = cluster.taken_as_searched();
        assert_eq!(machines(cluster.first_rack(16)), first(&cluster));
        assert_eq!(machines(cluster.first_gpus(16)), first(&cluster));
    }

    #[test]
    fn a_gpu_is_taken_once_and_given_back_once() {
        let mut cluster = Cluster::new(Layout::new(1, 1, 2, 4).unwrap());
        let (some, more) = (Placement::on(0, 0b11), Placement::on(0, 0b110));
        assert!(cluster.take(&some) && !cluster.take(&more));
        assert_eq!(cluster.free_gpus(), 6);
        assert!(cluster.give(&some) && !cluster.give(&some));
        assert_eq!(cluster.free_gpus(), 8);
    }

    #[test]
    fn layouts_out_of_range_are_refused_and_orders_depend_on_the_seed() {
        for [r, m, s, g] in [[0, 1, 1, 1], [1, 0, 1, 1], [1, 1, 9, 8], [1, 1, 1, 65]] {
            assert!(Layout::new(r, m, s, g).is_err());
        }
        let layout = Layout::new(2, 8, 2, 4).unwrap();
        let order = |seed| Cluster::shuffled(layout, seed).machine_order;
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
    }
}
