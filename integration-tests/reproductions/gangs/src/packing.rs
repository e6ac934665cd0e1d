//! Placements on whole machines: the tightest slot or machine for few GPUs, whole machines of the
//! tightest rack for many.

use std::cmp::Reverse;

use crate::cluster::{Cluster, gather};
use crate::placement::{Placement, lowest};

/// The consolidated placement of some GPUs among the free ones. A gang larger than a rack takes
/// whole racks first.
pub(crate) fn whole(cluster: &Cluster, gpus: u32) -> Option<Placement> {
    let layout = cluster.layout();
    if gpus > cluster.free_gpus() {
        None
    } else if gpus <= layout.machine_gpus() {
        tightest(cluster, gpus)
    } else {
        whole_machines(cluster, gpus)
    }
}

/// The slot with the fewest free GPUs that suffice, else the machine. Among equal slots that of the
/// fuller machine.
fn tightest(cluster: &Cluster, gpus: u32) -> Option<Placement> {
    let layout = cluster.layout();
    let enough = |free: u64| free.count_ones() >= gpus;
    let slots = cluster.searched().flat_map(|(machine, free)| {
        let of = layout.slots_of(free);
        of.filter(|slot| enough(*slot))
            .map(move |slot| (machine, slot, free))
    });
    let slot = slots.min_by_key(|(_, slot, free)| (slot.count_ones(), free.count_ones()));
    if let Some((machine, slot, _)) = slot {
        return Some(Placement::on(machine, lowest(slot, gpus)));
    }
    let machines = cluster.searched().filter(|(_, free)| enough(*free));
    let (machine, free) = machines.min_by_key(|(_, free)| free.count_ones())?;
    Some(Placement::on(machine, lowest(free, gpus)))
}

fn whole_machines(cluster: &Cluster, gpus: u32) -> Option<Placement> {
    let layout = cluster.layout();
    let is_whole = |free: u64| free.count_ones() == layout.machine_gpus();
    let count = |rack: u32| {
        cluster
            .of_rack(rack)
            .filter(|(_, free)| is_whole(*free))
            .count()
    };
    let of_rack = |rack: u32| {
        cluster
            .of_rack(rack)
            .filter(move |(_, free)| is_whole(*free))
    };
    let needed = gpus.div_ceil(layout.machine_gpus()) as usize;
    let racks = cluster.searched_racks().map(|rack| (rack, count(rack)));
    if gpus <= layout.rack_gpus() {
        let (rack, _) = racks
            .filter(|(_, whole)| *whole >= needed)
            .min_by_key(|(_, whole)| *whole)?;
        return gather(of_rack(rack), gpus);
    }
    let mut racks: Vec<(u32, usize)> = racks.collect();
    racks.sort_by_key(|(_, whole)| Reverse(*whole));
    gather(racks.into_iter().flat_map(|(rack, _)| of_rack(rack)), gpus)
}

/// Free GPUs on the fewest machines of one rack, else of the cluster.
pub(crate) fn scattered(cluster: &Cluster, gpus: u32) -> Option<Placement> {
    if gpus > cluster.free_gpus() {
        return None;
    }
    let fullest = |machines: &mut Vec<(u32, u64)>| {
        machines.sort_by_key(|(_, free)| Reverse(free.count_ones()));
    };
    let racks = cluster
        .searched_racks()
        .filter(|&rack| cluster.free_of_rack(rack) >= gpus);
    let within = racks.filter_map(|rack| {
        let mut machines: Vec<(u32, u64)> = cluster.of_rack(rack).collect();
        fullest(&mut machines);
        gather(machines.into_iter(), gpus)
    });
    within.min_by_key(Placement::machines).or_else(|| {
        let mut racks: Vec<u32> = cluster.searched_racks().collect();
        racks.sort_by_key(|&rack| Reverse(cluster.free_of_rack(rack)));
        let machines = racks.into_iter().flat_map(|rack| {
            let mut machines: Vec<(u32, u64)> = cluster.of_rack(rack).collect();
            fullest(&mut machines);
            machines
        });
        gather(machines, gpus)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;

    fn busy(parts: &[(u32, u64)]) -> Cluster {
        let mut cluster = Cluster::new(Layout::new(2, 4, 2, 4).unwrap());
        for &(machine, gpus) in parts {
            assert!(cluster.take(&Placement::on(machine, gpus)));
        }
        cluster
    }

    #[test]
    fn small_gangs_take_the_tightest_slot_or_machine() {
        let cluster = busy(&[(1, 0b0111), (2, 0b0001_0011)]);
        assert_eq!(whole(&cluster, 1), Some(Placement::on(1, 0b1000)));
        assert_eq!(whole(&cluster, 2), Some(Placement::on(2, 0b1100)));
        assert_eq!(whole(&cluster, 3), Some(Placement::on(2, 0b1110_0000)));
        assert_eq!(whole(&cluster, 5), Some(Placement::on(1, 0b1111_1000)));
        assert_eq!(whole(&cluster, 6), Some(Placement::on(0, 0b11_1111)));
    }

    #[test]
    fn large_gangs_take_whole_machines_of_the_tightest_rack() {
        let cluster = busy(&[(0, 1), (4, 1), (5, 1)]);
        let machines =
            |gpus| whole(&cluster, gpus).map(|p| p.parts().map(|part| part.0).collect::<Vec<_>>());
        assert_eq!(machines(16), Some(vec![6, 7]));
        assert_eq!(machines(17), Some(vec![1, 2, 3]));
        assert_eq!(machines(32), None);
        assert_eq!(machines(40), Some(vec![1, 2, 3, 6, 7]));
        assert_eq!(machines(41), None);
    }

    #[test]
    fn scattered_gangs_use_few_machines_and_racks() {
        let cluster = busy(&[
            (0, 0xff),
            (1, 0xff),
            (2, 0xf),
            (4, 1),
            (5, 1),
            (6, 1),
            (7, 1),
        ]);
        assert_eq!(scattered(&cluster, 12).map(|p| p.machines()), Some(2));
        let across = scattered(&cluster, 30).unwrap();
        assert_eq!(
            (across.gpus(), across.racks(cluster.layout()).count()),
            (30, 2)
        );
        assert_eq!(scattered(&cluster, 41), None);
    }
}
