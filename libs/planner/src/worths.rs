//! An objective applied to the trainers of a living cluster.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use lacuna_model::{Phase, Timestamp, TrainerId, TrainerRecord, TrainerSpec, Work};

use crate::objective::{Objective, ObjectiveError, State, Worth, weight};
use crate::translate::Translated;

/// Puts the worth of sizes into problems, and keeps what does not change between them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Worths {
    objective: Objective,
    kept: HashMap<TrainerId, Kept>,
    refused: Vec<ObjectiveError>,
}

#[derive(Debug, Clone)]
struct Kept {
    spec: TrainerSpec,
    worth: Result<Worth, ObjectiveError>,
    step: i32,
    table: Arc<[f64]>,
}

impl Worths {
    pub(crate) fn new(objective: Objective) -> Self {
        Self {
            objective,
            ..Self::default()
        }
    }

    /// Why the objective could not be applied to some trainers of the newest problem; those
    /// keep what they ask for themselves.
    pub(crate) fn refused(&self) -> &[ObjectiveError] {
        &self.refused
    }

    /// Replaces what the trainers of a problem ask for themselves by the objective.
    pub(crate) fn apply(
        &mut self,
        case: &mut Translated,
        trainers: &[TrainerRecord],
        now: Timestamp,
    ) {
        self.refused.clear();
        if self.objective == Objective::AsGiven {
            return;
        }
        let attained = match self.objective {
            Objective::LeastAttained => attained(trainers),
            _ => BTreeMap::new(),
        };
        let least_attained = case
            .trainers
            .iter()
            .filter_map(|&place| trainers.get(place))
            .map(|record| of(&attained, record))
            .fold(f64::INFINITY, f64::min);
        self.kept
            .retain(|id, _| trainers.iter().any(|record| record.spec.id == *id));
        for (item, &place) in case.problem.trainers.iter_mut().zip(&case.trainers) {
            let Some(record) = trainers.get(place) else {
                continue;
            };
            let samples_left = match record.spec.work {
                Work::Samples(work) => (work - record.samples()).max(0.0),
                Work::UntilExit => 0.0,
            };
            let state = State {
                now,
                samples_left,
                attained: of(&attained, record),
                least_attained,
            };
            match self.table(record, &state) {
                Ok(table) => {
                    item.rate_now = if item.current >= item.min {
                        table.get(item.current as usize).copied().unwrap_or(0.0)
                    } else {
                        0.0
                    };
                    item.value = table;
                }
                Err(error) => self.refused.push(error),
            }
        }
    }

    /// The worth of a trainer's sizes in its present state.
    fn table(
        &mut self,
        record: &TrainerRecord,
        state: &State,
    ) -> Result<Arc<[f64]>, ObjectiveError> {
        let spec = &record.spec;
        let known = self.kept.get(&spec.id).is_some_and(|k| k.spec == *spec);
        if !known {
            let worth = Worth::new(spec, &self.objective);
            let table = worth.as_ref().map(|worth| worth.table().clone());
            let kept = Kept {
                spec: spec.clone(),
                table: table.unwrap_or_default(),
                // Of a table that no state has made.
                step: i32::MIN,
                worth,
            };
            self.kept.insert(spec.id.clone(), kept);
        }
        let Some(kept) = self.kept.get_mut(&spec.id) else {
            return Ok(Arc::default());
        };
        let worth = kept.worth.as_ref().map_err(Clone::clone)?;
        let step = worth.step(state);
        if !worth.is_fixed() && step != kept.step {
            kept.table = worth.at(step)?;
            kept.step = step;
        }
        Ok(kept.table.clone())
    }
}

/// The owner of each trainer of a problem as a number, and the share of each owner (the largest
/// weight of its trainers): what [`crate::fair::solve`] asks for. Trainers without an owner have
/// one in common.
pub(crate) fn users(case: &Translated, trainers: &[TrainerRecord]) -> (Vec<u32>, Vec<f64>) {
    let mut numbers: HashMap<Option<&str>, usize> = HashMap::new();
    let mut shares: Vec<f64> = Vec::new();
    let mut users = Vec::with_capacity(case.trainers.len());
    for record in case
        .trainers
        .iter()
        .filter_map(|&place| trainers.get(place))
    {
        let next = numbers.len();
        let number = *numbers.entry(record.spec.owner.as_deref()).or_insert(next);
        shares.resize(numbers.len(), 0.0);
        if let Some(share) = shares.get_mut(number) {
            *share = share.max(weight(&record.spec));
        }
        users.push(number as u32);
    }
    (users, shares)
}

/// Service of each owner, over all trainers that are still listed: samples done, over samples/s
/// on one node and weight. (Unlike a replay's, it does not decay: control forgets trainers.)
fn attained(trainers: &[TrainerRecord]) -> BTreeMap<Option<&str>, f64> {
    let mut attained = BTreeMap::new();
    for record in trainers {
        if record.phase == Phase::Queued {
            continue;
        }
        let unit = record.spec.throughput.at(1) * weight(&record.spec);
        let service = if unit > 0.0 {
            record.samples() / unit
        } else {
            0.0
        };
        *attained.entry(record.spec.owner.as_deref()).or_insert(0.0) += service;
    }
    attained
}

fn of(attained: &BTreeMap<Option<&str>, f64>, record: &TrainerRecord) -> f64 {
    let owner = record.spec.owner.as_deref();
    attained.get(&owner).copied().unwrap_or(0.0)
}
