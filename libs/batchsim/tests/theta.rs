//! A year of Theta's batch jobs through the simulator.
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test may panic"
)]

use std::io::Read;

use lacuna_batchsim::{Backfill, BatchJob, Layout, Machine, Overrun, Simulator, Starts, Totals};
use lacuna_skip::{Missing, data, or_skip};

/// Theta's nodes; the log's header says 4,360.
const NODES: u32 = 4392;

/// The jobs that ran, by submission.
fn jobs() -> Result<Vec<BatchJob>, Missing> {
    let file = std::fs::File::open(data("theta-2022/theta_2022.swf.gz")?).unwrap();
    let mut text = String::new();
    flate2::read::MultiGzDecoder::new(file)
        .read_to_string(&mut text)
        .unwrap();
    let mut jobs: Vec<BatchJob> = text
        .lines()
        .filter(|line| !line.starts_with(';'))
        .map(|line| {
            let field: Vec<i64> = line
                .split_whitespace()
                .map(|f| f.parse().unwrap())
                .collect();
            BatchJob {
                id: field[0].unsigned_abs(),
                submit: field[1],
                nodes: u32::try_from(field[4]).unwrap(),
                runtime: field[3],
                walltime: field[8],
                recorded_start: Some(field[1] + field[2]),
            }
        })
        .collect();
    jobs.sort_by_key(|job| job.submit);
    Ok(jobs)
}

#[expect(clippy::disallowed_methods, reason = "a test may time what it ranges")]
fn simulate(name: &str, machine: Machine, jobs: &[BatchJob], look: bool) -> Totals {
    let begun = std::time::Instant::now();
    let mut simulator = Simulator::new(machine, jobs.iter().copied()).unwrap();
    let (mut steps, mut most, mut wanted) = (0, 0, 0);
    while simulator.step().unwrap().is_some() {
        steps += 1;
        most = most.max(simulator.totals().waiting);
        if look {
            wanted += simulator
                .preview()
                .holes
                .iter()
                .filter(|w| w.at.is_some())
                .count();
        }
    }
    let totals = *simulator.totals();
    println!(
        "{name}: {:.3} s, {steps} steps, utilisation {:.4}, waited {:.1} h on average, at most \
         {most} waiting, {} overran by {} s, {} conflicts, {} broken, {wanted} wanted",
        begun.elapsed().as_secs_f64(),
        totals.utilisation(),
        totals.waited_s as f64 / 3600.0 / totals.started as f64,
        totals.overran,
        totals.overrun_s,
        totals.conflicts,
        totals.broken,
    );
    let offered = u64::from(NODES) * (totals.at - totals.from).unsigned_abs();
    let spent = totals.busy_node_s + totals.idle_node_s;
    assert_eq!(spent, offered, "node-seconds are conserved");
    totals
}

#[test]
fn a_year_of_theta_is_simulated_by_every_policy() {
    let jobs = or_skip!(jobs());
    assert_eq!(jobs.len(), 23_911);
    let work: u64 = jobs
        .iter()
        .map(|job| u64::from(job.nodes) * job.runtime.unsigned_abs())
        .sum();
    let base = Machine::new(NODES);
    let easy = simulate("easy", base.clone(), &jobs, false);
    assert_eq!(easy.ended, 23_911);
    assert_eq!(easy.overran, 6_264);
    assert_eq!(easy.busy_node_s, work);
    let looked = simulate(
        "easy with a preview at each step",
        base.clone(),
        &jobs,
        true,
    );
    assert_eq!(easy, looked);
    let kill = Machine {
        overrun: Overrun::Kill,
        ..base.clone()
    };
    let killed = simulate("easy, kill", kill, &jobs, false);
    assert_eq!((killed.killed, killed.ended), (6_264, 23_911));
    assert!(killed.busy_node_s < work);
    for (name, backfill, layout) in [
        ("first come first served", Backfill::None, Layout::FirstFit),
        ("conservative", Backfill::Conservative, Layout::FirstFit),
        ("easy, contiguous", Backfill::Easy, Layout::Contiguous),
        (
            "conservative, contiguous",
            Backfill::Conservative,
            Layout::Contiguous,
        ),
    ] {
        let machine = Machine {
            backfill,
            layout,
            ..base.clone()
        };
        let totals = simulate(name, machine, &jobs, false);
        assert_eq!((totals.ended, totals.busy_node_s), (23_911, work));
    }
    let recorded = Machine {
        starts: Starts::Recorded,
        ..base
    };
    let recorded = simulate("recorded starts", recorded, &jobs, false);
    assert_eq!((recorded.ended, recorded.busy_node_s), (23_911, work));
}
