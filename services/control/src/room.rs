//! Room for the records of trainers. A full bucket refuses every write, and control cannot go on
//! without: so a submission must leave room for what becomes of the trainers that are there.

use std::collections::BTreeMap;

use lacuna_model::{TrainerId, TrainerRecord, TrainerSpec};
use lacuna_wire::codec;

use crate::access::Denied;

/// Bytes of a record's subject, headers and frame in the stream, about.
const FRAME: usize = 512;

/// Submissions may fill so many hundredths of the bucket; records grow as trainers go on.
const PERCENT: u64 = 80;

/// How much of the bucket is taken.
#[derive(Debug)]
pub(crate) struct Room {
    most: u64,
    taken: u64,
    records: BTreeMap<TrainerId, u64>,
}

impl Room {
    /// An empty bucket of so many bytes.
    pub(crate) const fn new(most: u64) -> Self {
        Self {
            most,
            taken: 0,
            records: BTreeMap::new(),
        }
    }

    /// A record is kept, in place of what was kept of its trainer before.
    pub(crate) fn kept(&mut self, record: &TrainerRecord) {
        let bytes = bytes(record);
        let before = self.records.insert(record.spec.id.clone(), bytes);
        self.taken = self.taken + bytes - before.unwrap_or_default();
    }

    /// The record of a trainer is kept no more.
    pub(crate) fn gone(&mut self, trainer: &TrainerId) {
        let before = self.records.remove(trainer).unwrap_or_default();
        self.taken = self.taken.saturating_sub(before);
    }

    /// Whether these may be submitted.
    ///
    /// # Errors
    /// How much there is, and what helps.
    pub(crate) fn admits(&self, specs: &[TrainerSpec]) -> Result<(), Denied> {
        let records = specs.iter().map(|spec| TrainerRecord::new(spec.clone(), 0));
        let more: u64 = records.map(|record| bytes(&record)).sum();
        if self.taken + more <= self.most / 100 * PERCENT {
            return Ok(());
        }
        Err(Denied {
            code: "L0025",
            reason: format!(
                "the records of {} trainers take {} of {} MB, and {PERCENT} % are for \
                 submissions: nothing was submitted; ask the operator for room (`lacuna help L0025`)",
                self.records.len(),
                self.taken >> 20,
                self.most >> 20
            ),
        })
    }

    /// The share that is taken.
    pub(crate) fn share(&self) -> f64 {
        self.taken as f64 / self.most.max(1) as f64
    }
}

pub(crate) fn bytes(record: &TrainerRecord) -> u64 {
    let length = codec::encode(record).map_or(0, |bytes| bytes.len());
    (length + FRAME) as u64
}

#[cfg(test)]
mod tests {
    use lacuna_model::{Launch, RescaleCost, ScalingCurve, Timestamp, Work};

    use super::*;

    fn spec(id: &str) -> TrainerSpec {
        TrainerSpec {
            id: TrainerId::new(id).unwrap(),
            owner: Some("ann".repeat(100)),
            priority: 0,
            weight: None,
            deadline: None,
            submit: Timestamp::default(),
            min_nodes: 1,
            max_nodes: 4,
            throughput: ScalingCurve::linear(10.0, 4).unwrap(),
            objective: None,
            rescale: RescaleCost {
                up_s: 1.0,
                down_s: 1.0,
                start_s: None,
            },
            work: Work::UntilExit,
            launch: Launch::Simulated,
        }
    }

    #[test]
    fn submissions_leave_room_for_what_becomes_of_trainers() {
        let mut room = Room::new(100_000);
        let mut count = 0;
        while room.admits(&[spec(&format!("t{count}"))]).is_ok() {
            room.kept(&TrainerRecord::new(spec(&format!("t{count}")), 1));
            count += 1;
        }
        assert!(count > 20, "{count}");
        assert!((0.78..=0.8).contains(&room.share()), "{}", room.share());
        // A record that is kept again takes its room once.
        let before = room.share();
        room.kept(&TrainerRecord::new(spec("t0"), 1));
        assert!((room.share() - before).abs() < 1e-12);
        room.gone(&spec("t1").id);
        assert!(
            room.admits(&[spec("x")]).is_ok(),
            "what is gone leaves room"
        );
        room.kept(&TrainerRecord::new(spec("t1"), 1));
        let refused = room.admits(&[spec("x")]).unwrap_err();
        assert_eq!(refused.code, "L0025");
        assert!(refused.reason.contains("nothing was submitted"));
    }
}
