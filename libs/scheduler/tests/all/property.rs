//! Properties that hold for every answer of a scheduler.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use lacuna_scheduler::settings::{Marks, Slurm};
use lacuna_scheduler::slurm::{Tracker, sinfo, squeue};
use lacuna_scheduler::{JobState, NodeStatus};
use proptest::prelude::*;

use super::answers::{printed, printed_jobs};

const STATES: [&str; 13] = [
    "idle",
    "allocated",
    "mixed",
    "idle+planned",
    "idle+drain",
    "down",
    "idle+completing",
    "allocated+drain",
    "idle+reserved",
    "idle+powered_down",
    "idle+not_responding",
    "unknown",
    "quarantined",
];

const JOBS: [&str; 6] = [
    "RUNNING",
    "COMPLETING",
    "CONFIGURING",
    "SUSPENDED",
    "PENDING",
    "FAILED",
];

/// One answer: for each of six nodes a state or nothing; jobs with node, state, whether the job is
/// our own pilot, and whether Slurm preempts it.
#[derive(Debug, Clone)]
struct Answer {
    nodes: Vec<Option<usize>>,
    jobs: Vec<(usize, usize, bool, bool)>,
}

fn answer() -> impl Strategy<Value = Answer> {
    let nodes = prop::collection::vec(prop::option::weighted(0.8, 0..STATES.len()), 6);
    let jobs = prop::collection::vec(
        (0..6_usize, 0..JOBS.len(), any::<bool>(), any::<bool>()),
        0..5,
    );
    (nodes, jobs)
        .prop_filter("some node", |(nodes, _)| nodes.iter().any(Option::is_some))
        .prop_map(|(nodes, jobs)| Answer { nodes, jobs })
}

fn rules() -> Slurm {
    Slurm {
        pilots: Marks {
            partition: Some("filler".to_owned()),
            name: Some("lacuna-pilot".to_owned()),
            ..Marks::default()
        },
        ..Slurm::default()
    }
}

impl Answer {
    fn sinfo(&self) -> String {
        let line = |(n, state): (usize, &Option<usize>)| {
            state.map(|s| format!("n{n}|{}|filler|up|none;\n", STATES[s]))
        };
        printed(
            &self
                .nodes
                .iter()
                .enumerate()
                .filter_map(line)
                .collect::<String>(),
        )
    }

    fn squeue(&self) -> String {
        let mut text = String::new();
        for (id, (node, state, ours, preempted)) in self.jobs.iter().enumerate() {
            let held = if JOBS[*state] == "PENDING" {
                String::new()
            } else {
                format!("n{node}")
            };
            let (partition, name) = if *ours {
                ("filler", "lacuna-pilot")
            } else {
                ("batch", "sim")
            };
            let when = if *preempted { "1700000000" } else { "N/A" };
            text += &format!(
                "{id}|{}|{partition}|a|u|{held}|1:00|N/A|{when}||c|{name};\n",
                JOBS[*state]
            );
        }
        printed_jobs(&text)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// No node with a foreign job and no unusable node is a hole. Every node of an answer has one
    /// status. A node is gone exactly after three answers without it.
    #[test]
    fn a_node_with_a_foreign_job_is_no_hole_and_a_missing_node_is_not_gone(answers in prop::collection::vec(answer(), 1..12)) {
        let mut tracker = Tracker::new(rules(), []);
        let mut absent: BTreeMap<usize, u32> = BTreeMap::new();
        for answer in &answers {
            let nodes = sinfo::read(&answer.sinfo()).unwrap();
            let jobs = squeue::read(&answer.squeue(), &TimeZone::UTC).unwrap();
            let result = tracker.take(&nodes, &jobs);
            let statuses: BTreeMap<String, &NodeStatus> =
                result.nodes.iter().map(|(n, s)| (n.to_string(), s)).collect();
            prop_assert_eq!(statuses.len(), result.nodes.len());
            for (n, state) in answer.nodes.iter().enumerate() {
                let status = statuses.get(&format!("n{n}"));
                let Some(state) = state else {
                    let Some(count) = absent.get_mut(&n) else {
                        prop_assert!(status.is_none());
                        continue;
                    };
                    *count += 1;
                    if *count == 3 {
                        absent.remove(&n);
                        let gone = matches!(status, Some(NodeStatus::Unusable { .. }));
                        prop_assert!(gone, "n{} was missing three times: {:?}", n, status);
                    } else {
                        prop_assert!(status.is_none());
                    }
                    continue;
                };
                absent.insert(n, 0);
                let Some(status) = status else {
                    // A silent node has no status in the first answers.
                    if ["idle+not_responding", "unknown"].contains(&STATES[*state]) {
                        continue;
                    }
                    return Err(TestCaseError::fail("a node has no status"));
                };
                let here = || jobs.iter().filter(|j| j.nodes.iter().any(|m| m.as_str() == format!("n{n}")));
                let foreign = here().any(|j| !matches!(j.state, JobState::Over(_)) && j.name != "lacuna-pilot");
                let ending = here().any(|j| j.state == JobState::Completing);
                let chosen = here().any(|j| {
                    j.preempted.is_some() && matches!(j.state, JobState::Running | JobState::Configuring)
                });
                let ours = here().any(|j| matches!(j.state, JobState::Running | JobState::Configuring));
                if **status == NodeStatus::Hole {
                    prop_assert!(!foreign && !ending && !chosen, "n{}: {:?}", n, jobs);
                    let free = STATES[*state] == "idle";
                    let usable = ["allocated", "mixed", "idle+planned", "idle"];
                    prop_assert!(free || (ours && usable.contains(&STATES[*state])), "{}", STATES[*state]);
                }
                if STATES[*state] == "idle" && here().next().is_none() {
                    prop_assert_eq!(*status, &NodeStatus::Hole);
                }
            }
        }
    }

    /// A cut or damaged answer is refused or read; the reader never panics.
    #[test]
    fn no_damage_stops_the_reader(answer in answer(), at in 0..400_usize, byte in any::<u8>(), cut in any::<bool>()) {
        for text in [answer.sinfo(), answer.squeue()] {
            let mut bytes = text.clone().into_bytes();
            let at = at % bytes.len().max(1);
            if cut {
                bytes.truncate(at);
            } else if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
            let damaged = String::from_utf8_lossy(&bytes);
            let nodes = sinfo::read(&damaged);
            let _ = squeue::read(&damaged, &TimeZone::UTC);
            // An answer that is cut within a record is refused.
            if cut && !damaged.trim_end().is_empty() && !damaged.trim_end().ends_with('\u{1e}') {
                prop_assert!(nodes.is_err());
            }
        }
    }
}
