//! A large machine: 10,000 nodes and 100,000 jobs.

use std::time::Duration;

use jiff::tz::TimeZone;
use lacuna_scheduler::NodeStatus;
use lacuna_scheduler::settings::{Marks, Slurm};
use lacuna_scheduler::slurm::{Tracker, sinfo, squeue};

use super::answers::{printed, printed_jobs};

/// Ten thousand nodes in three partitions, and a hundred thousand jobs, of which a tenth run. One
/// poll takes about 0.1 s; two polls are 10 s apart. The bound of 8 s is for a machine under load.
#[test]
fn ten_thousand_nodes_and_a_hundred_thousand_jobs_are_classified_in_time() {
    let mut nodes = String::new();
    for node in 0..10_000 {
        for partition in ["batch*", "long", "filler"] {
            let state = if node % 10 == 0 { "idle" } else { "allocated" };
            nodes += &format!("n{node:05}|{state}|{partition}|up|none;\n");
        }
    }
    let mut jobs = String::new();
    for id in 0..100_000 {
        let (state, held) = match id % 10 {
            0 => ("RUNNING", format!("n{:05}", id / 10)),
            _ => ("PENDING", String::new()),
        };
        let (partition, name) = match id % 100 {
            50 => ("filler", "lacuna-pilot"),
            _ => ("batch", "sim"),
        };
        jobs += &format!("{id}|{state}|{partition}|a|u|{held}|1:00|1700000000|N/A||c|{name};\n");
    }
    let (nodes, jobs) = (printed(&nodes), printed_jobs(&jobs));
    let rules = Slurm {
        pilots: Marks {
            partition: Some("filler".to_owned()),
            name: Some("lacuna-pilot".to_owned()),
            ..Marks::default()
        },
        ..Slurm::default()
    };
    let (done, waiting) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut tracker = Tracker::new(rules, []);
        let nodes = sinfo::read(&nodes).unwrap();
        let jobs = squeue::read(&jobs, &TimeZone::UTC).unwrap();
        let result = tracker.take(&nodes, &jobs);
        let holes = result
            .nodes
            .iter()
            .filter(|(_, s)| *s == NodeStatus::Hole)
            .count();
        done.send((result.nodes.len(), holes)).unwrap();
    });
    let (judged, holes) = waiting.recv_timeout(Duration::from_secs(8)).unwrap();
    // Every tenth running job is a pilot. An idle node with a batch job is no hole.
    assert_eq!((judged, holes), (10_000, 1000));
}
