//! The simulator against a slow batch scheduler that shares no code with it.

use crate::common::{audit, blocks, outages, reservations, seeded, walk, workloads};
use crate::slow::{Placed, Slow};
use lacuna_batchsim::{Backfill, BatchJob, Layout, Machine, NodeRange, Overrun};
use proptest::prelude::*;

/// Checks that both schedule every job alike.
fn agree(machine: &Machine, jobs: &[BatchJob]) {
    let walk = walk(machine, jobs);
    audit(machine, jobs, &walk);
    let fast: Vec<Placed> = walk
        .placements
        .iter()
        .map(|p| {
            let nodes = p
                .ranges
                .iter()
                .copied()
                .flat_map(NodeRange::nodes)
                .collect();
            (p.id, p.start, nodes, p.reserved_start)
        })
        .collect();
    assert_eq!(fast, Slow::run(machine, jobs));
}

proptest! {
    #![proptest_config(seeded(2000))]

    #[test]
    fn easy_is_what_the_slow_scheduler_does((nodes, jobs) in workloads(9, 22)) {
        agree(&Machine::new(nodes), &jobs);
    }

    #[test]
    fn no_backfill_and_kill_are_what_the_slow_scheduler_does((nodes, jobs) in workloads(9, 22)) {
        let machine = Machine {
            backfill: Backfill::None,
            overrun: Overrun::Kill,
            ..Machine::new(nodes)
        };
        agree(&machine, &jobs);
    }

    #[test]
    fn contiguous_easy_is_what_the_slow_scheduler_does((nodes, jobs) in workloads(9, 22)) {
        let machine = Machine {
            layout: Layout::Contiguous,
            ..Machine::new(nodes)
        };
        agree(&machine, &jobs);
    }
}

proptest! {
    #![proptest_config(seeded(1000))]

    #[test]
    fn easy_around_outages_and_reservations_is_what_the_slow_scheduler_does(
        (nodes, jobs) in workloads(8, 16), out in blocks(4), kept in blocks(4), layout in 0usize..2,
    ) {
        let machine = Machine {
            outages: outages(nodes, &out),
            reservations: reservations(nodes, &kept),
            layout: [Layout::FirstFit, Layout::Contiguous][layout],
            ..Machine::new(nodes)
        };
        agree(&machine, &jobs);
    }
}
