//! Fixtures of several tests: holes, trainers, a replay in one call, and the trace of Summit.

use std::collections::HashSet;
use std::path::PathBuf;

use lacuna_model::{
    HoleRecord, NodeId, RescaleCost, ScalingCurve, Timestamp, TrainerId, TrainerSpec, Work,
};
use lacuna_sim::{History, HoleTrace, Hooks, Replayed, Settings, SimError, replay};
use lacuna_skip::{Missing, data};
use lacuna_trace::{HoleList, first_nodes, read_holes, read_nodes};
use lacuna_trainer_file::Purpose;
use proptest::prelude::*;

/// A hole of node `n<number>`, in Unix seconds.
pub(crate) fn hole(number: u32, from: i64, until: i64) -> HoleRecord {
    hole_of(&format!("n{number}"), from, until)
}

/// A hole of a node of any name, in Unix seconds.
pub(crate) fn hole_of(node: &str, from: i64, until: i64) -> HoleRecord {
    HoleRecord {
        node: NodeId::new(node).unwrap(),
        from: Timestamp::from_unix(from),
        until: Timestamp::from_unix(until),
        censored: false,
    }
}

/// Trainer `t<number>` from one node up to `max`: 10 samples/s on each node, costs of 3 s up
/// and 2 s down, submitted at second 0.
pub(crate) fn trainer(number: u32, max: u32, samples: f64) -> TrainerSpec {
    TrainerSpec {
        submit: Timestamp::from_unix(0),
        max_nodes: max,
        rescale: RescaleCost::of(3.0, 2.0),
        work: Work::Samples(samples),
        ..TrainerSpec::simulated(
            TrainerId::new(format!("t{number}")).unwrap(),
            ScalingCurve::linear(10.0, max).unwrap(),
        )
    }
}

/// Replays holes from second 0, with a history.
pub(crate) fn run(
    holes: &[HoleRecord],
    trainers: &[TrainerSpec],
    settings: &Settings,
) -> Result<Replayed, SimError> {
    let trace = HoleTrace::new(holes, None, Timestamp::from_unix(0), None);
    run_trace(&trace, trainers, settings, Some(History::default()))
}

/// Replays a trace; no decision takes any time.
pub(crate) fn run_trace(
    trace: &HoleTrace,
    trainers: &[TrainerSpec],
    settings: &Settings,
    history: Option<History>,
) -> Result<Replayed, SimError> {
    let mut progress = |_| {};
    let mut hooks = Hooks::new(&|| 0.0, &mut progress);
    replay(trace, trainers, settings, history, &mut hooks)
}

/// Holes of a few nodes, from alternating busy and idle lengths.
pub(crate) fn machine() -> impl Strategy<Value = Vec<HoleRecord>> {
    let node = proptest::collection::vec((1_i64..300, 1_i64..300), 1..6);
    proptest::collection::vec(node, 1..6).prop_map(|nodes| {
        let mut holes = Vec::new();
        for (number, lengths) in (0..).zip(&nodes) {
            let mut at = 0;
            for (busy, idle) in lengths {
                holes.push(hole(number, at + busy, at + busy + idle));
                at += busy + idle;
            }
        }
        holes
    })
}

/// The trace of the published figures.
pub(crate) struct Summit {
    folder: PathBuf,
    pub(crate) holes: HoleList,
}

impl Summit {
    /// The start of published replays, Unix seconds.
    pub(crate) const START: i64 = 1_612_988_475;

    /// Reads the trace, if this machine has it.
    pub(crate) fn open() -> Result<Self, Missing> {
        let folder = data("summit-2021-02")?;
        let holes = read_holes(&folder.join("holes.csv.gz")).unwrap();
        Ok(Self { folder, holes })
    }

    /// The first nodes in the order of the machine.
    pub(crate) fn nodes(&self, count: usize) -> HashSet<NodeId> {
        let order = read_nodes(&self.folder.join("nodes.txt")).unwrap();
        first_nodes(count, Some(&order), &self.holes.records)
    }

    /// A list of trainers of the same folder.
    pub(crate) fn trainers(&self, list: &str) -> Vec<TrainerSpec> {
        let path = self.folder.join(format!("{list}.jsonl.gz"));
        let list = lacuna_trainer_file::read(&path, Purpose::Replay);
        list.unwrap().trainers
    }

    /// The whole trace.
    pub(crate) fn whole(&self) -> HoleTrace {
        let start = self.holes.records.iter().map(|r| r.from).min().unwrap();
        HoleTrace::new(&self.holes.records, None, start, None)
    }

    /// The first `nodes` nodes from a Unix second to `end`, by default to the end of the trace.
    pub(crate) fn trace(&self, nodes: usize, start: i64, end: Option<i64>) -> HoleTrace {
        let nodes = self.nodes(nodes);
        let (start, end) = (Timestamp::from_unix(start), end.map(Timestamp::from_unix));
        HoleTrace::new(&self.holes.records, Some(&nodes), start, end)
    }
}
