//! Simulates small workloads and checks the invariants second by second, by plain code.
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may panic"
)]

use lacuna_batchsim::{
    BatchJob, Ended, Layout, Machine, NodeHole, NodeRange, Outage, Overrun, Placement, Reservation,
    Simulator, Starts, Totals,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

pub(crate) fn job(id: u64, submit: i64, nodes: u32, runtime: i64, walltime: i64) -> BatchJob {
    BatchJob {
        id,
        submit,
        nodes,
        runtime,
        walltime,
        recorded_start: None,
    }
}

pub(crate) fn range(first: u32, count: u32) -> NodeRange {
    NodeRange { first, count }
}

/// The same cases each time.
pub(crate) fn seeded(cases: u32) -> ProptestConfig {
    println!("seed 20210210, {cases} cases");
    ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(20_210_210),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// The whole output of a simulation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Walk {
    pub(crate) placements: Vec<Placement>,
    pub(crate) ended: Vec<Ended>,
    /// Holes, by start and node; those open at the end are censored.
    pub(crate) holes: Vec<NodeHole>,
    pub(crate) totals: Totals,
}

impl Walk {
    /// Numbers of the jobs with their starts, by number.
    pub(crate) fn starts(&self) -> Vec<(u64, i64)> {
        let mut starts: Vec<(u64, i64)> = self.placements.iter().map(|p| (p.id, p.start)).collect();
        starts.sort_unstable();
        starts
    }

    pub(crate) fn of(&self, id: u64) -> &Placement {
        self.placements.iter().find(|p| p.id == id).unwrap()
    }
}

/// Simulates all jobs, sorted by submission, and checks the steps against each other.
pub(crate) fn walk(machine: &Machine, jobs: &[BatchJob]) -> Walk {
    let mut sorted = jobs.to_vec();
    sorted.sort_by_key(|job| job.submit);
    let mut simulator = Simulator::new(machine.clone(), sorted.into_iter()).unwrap();
    let mut since: Vec<Option<i64>> = vec![None; machine.nodes as usize];
    let mut walk = Walk {
        placements: Vec::new(),
        ended: Vec::new(),
        holes: Vec::new(),
        totals: Totals::default(),
    };
    let mut last = i64::MIN;
    while let Some(step) = simulator.step().unwrap() {
        assert!(step.at > last, "time goes on");
        last = step.at;
        for node in step.taken.iter().flat_map(|range| range.nodes()) {
            let from = since[node as usize].take().expect("it was a hole");
            walk.holes.push(NodeHole {
                node,
                from,
                until: step.at,
                censored: false,
            });
        }
        for node in step.freed.iter().flat_map(|range| range.nodes()) {
            assert_eq!(since[node as usize].replace(step.at), None);
        }
        walk.placements.extend_from_slice(step.started);
        walk.ended.extend_from_slice(step.ended);
    }
    walk.totals = *simulator.totals();
    for (node, from) in (0..).zip(since) {
        if let Some(from) = from.filter(|&from| from < walk.totals.at) {
            walk.holes.push(NodeHole {
                node,
                from,
                until: walk.totals.at,
                censored: true,
            });
        }
    }
    walk.holes
        .sort_unstable_by_key(|hole| (hole.from, hole.node));
    walk
}

/// Checks a simulation of all jobs against a table of nodes and seconds.
pub(crate) fn audit(machine: &Machine, jobs: &[BatchJob], walk: &Walk) {
    let totals = &walk.totals;
    let (from, until) = (totals.from, totals.at);
    let seconds = (until - from) as usize;
    let place = |at: i64| (at - from).clamp(0, seconds as i64) as usize;
    let nodes = machine.nodes as usize;
    let mut busy = vec![vec![0u8; seconds]; nodes];
    let mut reserved = vec![vec![false; seconds]; nodes];
    let mut down = vec![vec![false; seconds]; nodes];
    for Outage { nodes, from, until } in &machine.outages {
        for node in nodes.nodes() {
            down[node as usize][place(*from)..place(*until)].fill(true);
        }
    }
    for Reservation {
        nodes, from, until, ..
    } in &machine.reservations
    {
        for node in nodes.nodes() {
            reserved[node as usize][place(*from)..place(*until)].fill(true);
        }
    }
    let mut seen: Vec<u64> = Vec::new();
    for placed in &walk.placements {
        let job = jobs.iter().find(|job| job.id == placed.id).unwrap();
        seen.push(placed.id);
        assert!(placed.start >= job.submit, "{job:?} before submission");
        let length = match machine.overrun {
            Overrun::Extend => job.runtime,
            Overrun::Kill => job.runtime.min(job.walltime),
        };
        assert_eq!(placed.end - placed.start, length);
        assert_eq!(placed.asked_end - placed.start, job.walltime);
        assert_eq!(placed.count(), job.nodes);
        if machine.layout == Layout::Contiguous {
            assert_eq!(placed.ranges.len(), 1, "{placed:?}");
        }
        for node in placed.ranges.iter().flat_map(|range| range.nodes()) {
            let node = node as usize;
            for cell in &mut busy[node][place(placed.start)..place(placed.end)] {
                *cell += 1;
            }
            let start = place(placed.start);
            let blocked = |table: &[Vec<bool>]| start < seconds && table[node][start];
            assert!(!blocked(&down), "{placed:?} starts on a drained node");
            assert!(!blocked(&reserved), "{placed:?} starts on a reserved node");
            if machine.starts == Starts::Simulated {
                let asked = place(placed.asked_end);
                let into = reserved[node][start..asked].iter().any(|&cell| cell);
                assert!(!into, "{placed:?} would run into a reservation");
            }
        }
    }
    seen.sort_unstable();
    let before = seen.len();
    seen.dedup();
    assert_eq!(before, seen.len(), "a job ran twice");
    assert_eq!(before as u64, totals.started);
    assert_eq!(walk.ended.len() as u64, totals.ended);
    assert_eq!(totals.started, totals.ended);
    assert_eq!(
        totals.submitted,
        totals.started + totals.waiting + totals.skipped + totals.unrecorded
    );
    let mut holes = vec![vec![false; seconds]; nodes];
    for hole in &walk.holes {
        assert!(hole.from < hole.until);
        for cell in &mut holes[hole.node as usize][place(hole.from)..place(hole.until)] {
            assert!(!std::mem::replace(cell, true), "holes overlap");
        }
    }
    let mut shares = [0u64; 4];
    for node in 0..nodes {
        for second in 0..seconds {
            let state = match (
                busy[node][second],
                down[node][second],
                reserved[node][second],
            ) {
                (0, false, false) => 1,
                (0, true, _) => 2,
                (0, false, true) => 3,
                (1, _, _) => 0,
                (more, _, _) => panic!("{more} jobs on node {node}"),
            };
            shares[state] += 1;
            assert_eq!(
                holes[node][second],
                state == 1,
                "node {node}, second {second}"
            );
        }
    }
    let counted = [
        totals.busy_node_s,
        totals.idle_node_s,
        totals.down_node_s,
        totals.reserved_node_s,
    ];
    assert_eq!(counted, shares, "node-seconds");
    assert_eq!(shares.iter().sum::<u64>(), nodes as u64 * seconds as u64);
    for pair in walk.holes.windows(2) {
        assert!((pair[0].from, pair[0].node) < (pair[1].from, pair[1].node));
    }
}

/// Checks that no job started later than its reserved start.
pub(crate) fn reservations_kept(walk: &Walk) {
    for placed in &walk.placements {
        if let Some(reserved_start) = placed.reserved_start {
            assert!(placed.start <= reserved_start, "{placed:?} was delayed");
        }
    }
}

/// Small machines with small jobs; a third of the jobs run beyond their walltime.
pub(crate) fn workloads(
    most_nodes: u32,
    most_jobs: usize,
) -> impl Strategy<Value = (u32, Vec<BatchJob>)> {
    (1..=most_nodes).prop_flat_map(move |nodes| {
        let drawn = (0i64..120, 1..=nodes, 0i64..50, -20i64..40);
        (Just(nodes), prop::collection::vec(drawn, 0..most_jobs)).prop_map(|(nodes, jobs)| {
            let jobs = jobs.into_iter().zip(1..);
            let jobs = jobs.map(|((submit, nodes, runtime, over), id)| {
                job(id, submit, nodes, runtime, (runtime + over).max(0))
            });
            (nodes, jobs.collect())
        })
    })
}

/// The jobs without overruns.
pub(crate) fn honest(jobs: &mut [BatchJob]) {
    for job in jobs {
        job.walltime = job.walltime.max(job.runtime);
    }
}

/// Outages or reservations of a machine: first node, count, start, length, all to be fitted.
pub(crate) fn blocks(most: usize) -> impl Strategy<Value = Vec<(u32, u32, i64, i64)>> {
    prop::collection::vec((0u32..64, 1u32..64, -20i64..250, 1i64..80), 0..most)
}

pub(crate) fn reservations(nodes: u32, drawn: &[(u32, u32, i64, i64)]) -> Vec<Reservation> {
    let fitted = drawn.iter().map(|&(first, count, from, length)| {
        let first = first % nodes;
        Reservation {
            name: format!("of {first}"),
            nodes: range(first, count.min(nodes - first)),
            from,
            until: from + length,
        }
    });
    fitted.collect()
}

pub(crate) fn outages(nodes: u32, drawn: &[(u32, u32, i64, i64)]) -> Vec<Outage> {
    let fitted = reservations(nodes, drawn).into_iter().map(|r| Outage {
        nodes: r.nodes,
        from: r.from,
        until: r.until,
    });
    fitted.collect()
}
