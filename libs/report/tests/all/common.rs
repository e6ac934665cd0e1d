//! Fixtures of several tests: holes, trainers, and the trace of Summit.

use std::path::{Path, PathBuf};

use lacuna_model::{
    HoleRecord, NodeId, RescaleCost, ScalingCurve, Timestamp, TrainerId, TrainerSpec, Work,
};
use lacuna_sim::HoleTrace;
use lacuna_skip::{Missing, data};
use lacuna_trace::{HoleList, first_nodes, read_holes, read_nodes};
use lacuna_trainer_file::Purpose;

/// A hole of node `n<number>`, in Unix seconds.
pub(crate) fn hole(number: u32, from: i64, until: i64) -> HoleRecord {
    HoleRecord {
        node: NodeId::new(format!("n{number}")).unwrap(),
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

/// The trace of the published figures.
pub(crate) struct Summit {
    folder: PathBuf,
    holes: HoleList,
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

    /// A list of trainers of the same folder.
    pub(crate) fn trainers(&self, list: &str) -> Vec<TrainerSpec> {
        let path = self.folder.join(format!("{list}.jsonl.gz"));
        let list = lacuna_trainer_file::read(&path, Purpose::Replay);
        list.unwrap().trainers
    }

    /// The first nodes in the order of the machine, from the published start to the end.
    pub(crate) fn trace(&self, nodes: usize) -> HoleTrace {
        let order = read_nodes(&self.folder.join("nodes.txt")).unwrap();
        let nodes = first_nodes(nodes, Some(&order), &self.holes.records);
        let start = Timestamp::from_unix(Self::START);
        HoleTrace::new(&self.holes.records, Some(&nodes), start, None)
    }

    /// The whole trace.
    pub(crate) fn whole(&self) -> HoleTrace {
        let start = self.holes.records.iter().map(|r| r.from).min().unwrap();
        HoleTrace::new(&self.holes.records, None, start, None)
    }
}

/// Writes a page into the folder `LACUNA_PAGES` for inspection, if that variable is set.
pub(crate) fn keep(name: &str, page: &str) {
    if let Some(folder) = std::env::var_os("LACUNA_PAGES") {
        std::fs::write(Path::new(&folder).join(name), page).unwrap();
    }
}

/// A page has no figure that is not a number.
pub(crate) fn assert_finite(page: &str) {
    for wrong in ["NaN", "inf"] {
        let at = page.find(wrong);
        let near = at.map(|at| &page[at.saturating_sub(60)..]);
        assert!(at.is_none(), "{:.120}", near.unwrap());
    }
}
