//! Room for the records of trainers. A full bucket refuses every write, and control cannot go on
//! without writes. So submissions leave room for the growth of the present records. Each user may
//! fill half of the room that the others leave.

use std::collections::BTreeMap;
use std::sync::Arc;

use lacuna_model::{TrainerId, TrainerRecord, TrainerSpec};
use lacuna_wire::codec;

use crate::access::Denied;

/// Most bytes of a record's headers, and of its subject and frame in the stream. No sender can make
/// them more, so no user's records take more room than is counted here.
const FRAME: usize = codec::MOST_HEADERS + 512;

/// The error code of a submission for which there is no room.
pub(crate) const NO_ROOM: &str = "L0025";

/// Per cent of the bucket that submissions may fill; records grow as trainers go on.
const PERCENT: u64 = 80;

/// How much of the bucket is taken.
#[derive(Debug)]
pub(crate) struct Room {
    most: u64,
    taken: u64,
    records: BTreeMap<TrainerId, Taken>,
    /// Bytes of each owner's records.
    owners: BTreeMap<Option<Arc<str>>, u64>,
}

/// The room of one record.
#[derive(Debug)]
struct Taken {
    bytes: u64,
    owner: Option<Arc<str>>,
}

impl Room {
    /// An empty bucket of `most` bytes.
    pub(crate) const fn new(most: u64) -> Self {
        Self {
            most,
            taken: 0,
            records: BTreeMap::new(),
            owners: BTreeMap::new(),
        }
    }

    /// A record is kept, in place of what was kept of its trainer before.
    pub(crate) fn stored(&mut self, record: &TrainerRecord) {
        let id = &record.spec.id;
        self.removed(id);
        let bytes = bytes(record);
        let owner = record.spec.owner.as_deref().map(Arc::from);
        self.taken += bytes;
        *self.owners.entry(Option::clone(&owner)).or_default() += bytes;
        self.records.insert(id.clone(), Taken { bytes, owner });
    }

    /// The record of a trainer is kept no more.
    pub(crate) fn removed(&mut self, trainer: &TrainerId) {
        let Some(Taken { bytes, owner }) = self.records.remove(trainer) else {
            return;
        };
        self.taken = self.taken.saturating_sub(bytes);
        if let Some(own) = self.owners.get_mut(&owner) {
            *own = own.saturating_sub(bytes);
            if *own == 0 {
                self.owners.remove(&owner);
            }
        }
    }

    /// Whether these may be submitted.
    ///
    /// # Errors
    /// How much there is, and what helps.
    pub(crate) fn admits(
        &self,
        specs: &[TrainerSpec],
        tickets: &BTreeMap<TrainerId, String>,
    ) -> Result<(), Denied> {
        let room = self.most / 100 * PERCENT;
        let mut more: BTreeMap<Option<Arc<str>>, u64> = BTreeMap::new();
        for spec in specs {
            let mut record = TrainerRecord::new(spec.clone(), 0);
            record.ticket = tickets.get(&spec.id).cloned();
            let bytes = bytes(&record);
            let owner = spec.owner.as_deref().map(Arc::from);
            *more.entry(owner).or_default() += bytes;
        }
        let all: u64 = more.values().sum();
        let denied = |reason: String| Denied {
            code: NO_ROOM,
            reason: format!("{reason}: nothing was submitted (`lacuna help L0025`)"),
        };
        if self.taken + all > room {
            return Err(denied(format!(
                "the records of {} trainers take {} of {} MB, and {PERCENT} % are for submissions; ask \
                 the operator for room",
                self.records.len(),
                self.taken >> 20,
                self.most >> 20
            )));
        }
        for (owner, more) in more {
            let own = self.owners.get(&owner).copied().unwrap_or_default();
            let others = self.taken + all - own - more;
            if own + more > room.saturating_sub(others) / 2 {
                return Err(denied(format!(
                    "the records of {} take {} MB, and one user may fill half of the {} MB that others \
                     leave; wait until some of these trainers have ended, or cancel some",
                    owner.as_deref().unwrap_or("trainers without an owner"),
                    own >> 20,
                    room.saturating_sub(others) >> 20
                )));
            }
        }
        Ok(())
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
    use lacuna_model::{RescaleCost, ScalingCurve};

    use super::*;

    fn spec(owner: &str, id: &str) -> TrainerSpec {
        TrainerSpec {
            owner: Some(owner.repeat(100)),
            max_nodes: 4,
            rescale: RescaleCost::of(1.0, 1.0),
            ..TrainerSpec::simulated(
                TrainerId::new(format!("{owner}-{id}")).unwrap(),
                ScalingCurve::linear(10.0, 4).unwrap(),
            )
        }
    }

    /// Submits until it is refused: how many, and why no more.
    fn fill(room: &mut Room, owner: &str) -> (usize, Denied) {
        for count in 0.. {
            let spec = spec(owner, &count.to_string());
            match room.admits(std::slice::from_ref(&spec), &BTreeMap::new()) {
                Ok(()) => room.stored(&TrainerRecord::new(spec, 1)),
                Err(denied) => return (count, denied),
            }
        }
        unreachable!("it is full before")
    }

    #[test]
    fn submissions_leave_room_for_growing_records() {
        let mut room = Room::new(100_000);
        let owners = ["ann", "bob", "cyd", "dee", "eve", "fay", "gus", "hal"];
        let counts = owners.map(|owner| fill(&mut room, owner).0);
        assert!(counts.iter().sum::<usize>() > 20, "{counts:?}");
        assert!((0.75..=0.8).contains(&room.share()), "{}", room.share());
        // A record that is kept again takes its room once.
        let before = room.share();
        room.stored(&TrainerRecord::new(spec("ann", "0"), 1));
        assert!((room.share() - before).abs() < 1e-12);
        for n in 0..counts[0] {
            room.removed(&spec("ann", &n.to_string()).id);
        }
        assert!(
            room.share() < before / 2.0 + 0.05,
            "a removed record leaves room"
        );
        assert!(fill(&mut room, "zoe").0 > counts[2]);
        let many: Vec<_> = (0..100).map(|n| spec("ivy", &n.to_string())).collect();
        let refused = room.admits(&many, &BTreeMap::new()).unwrap_err();
        assert_eq!(refused.code, "L0025");
        assert!(refused.reason.contains("nothing was submitted"));
    }

    #[test]
    fn one_user_leaves_half_of_the_room_to_others() {
        let mut room = Room::new(1_000_000);
        let (_, refused) = fill(&mut room, "eve");
        assert!((0.39..=0.4).contains(&room.share()), "{}", room.share());
        assert!(refused.reason.contains("half"), "{}", refused.reason);
        let (_, _) = fill(&mut room, "ann");
        assert!((0.59..=0.6).contains(&room.share()), "{}", room.share());
        assert!(room.admits(&[spec("bob", "0")], &BTreeMap::new()).is_ok());
        // Also when the others have ended, half of the room is left.
        assert!(room.admits(&[spec("eve", "x")], &BTreeMap::new()).is_err());
        for n in 0..200 {
            room.removed(&spec("ann", &n.to_string()).id);
        }
        assert!(room.admits(&[spec("eve", "x")], &BTreeMap::new()).is_err());
        assert!(room.admits(&[spec("ann", "0")], &BTreeMap::new()).is_ok());
    }
}
