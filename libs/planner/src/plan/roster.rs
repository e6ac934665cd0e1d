//! The roster: trainers of a live cluster as candidates, with tables kept between decisions.

use std::collections::HashMap;

use lacuna_model::{
    Goodput, InForce, KindName, Launch, Pool, Timestamp, TrainerId, TrainerRecord, TrainerSpec,
    Work,
};
use lacuna_rates::Rates;

use super::translate::Translated;
use crate::objective::{Objective, ObjectiveError, State};
use crate::problem::{Candidate, Lost, Mix, NO_NODES, Users, mixes_of};
use crate::worth::{Costs, Values, Worth, most_in_tables};

/// The known trainers with their kinds and values.
#[derive(Debug, Clone, Default)]
pub(crate) struct Roster {
    objective: Objective,
    horizon_s: f64,
    known: HashMap<TrainerId, Known>,
    refused: Vec<ObjectiveError>,
    /// A number of each known trainer, and how many were given.
    lives: HashMap<TrainerId, u64>,
    given: u64,
}

#[derive(Debug, Clone)]
struct Known {
    /// The trainer as it was when its kind was made.
    spec: TrainerSpec,
    in_force: Vec<InForce>,
    goodput: Option<Box<Goodput>>,
    costs: Costs,
    kind: Worth,
    own: Option<Values>,
    /// The kind where nodes are alike.
    plain: Worth,
    /// The kinds of nodes and the most of each that `kind` has rates for.
    told: Option<(Vec<KindName>, Mix)>,
    /// Error of the objective for this trainer: its kind then has its own objective.
    refused: Option<ObjectiveError>,
}

/// The kinds of nodes that a plan tells apart, and that of each slot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Told<'a> {
    pub(crate) names: &'a [KindName],
    pub(crate) of: &'a [u8],
}

impl Told<'_> {
    /// Most nodes of each kind in tables, which are kept while the pool has as many nodes, roughly.
    fn most(&self) -> Mix {
        let nodes = self.of.iter().map(|kind| (Some(0), *kind));
        most_in_tables(mixes_of(1, nodes).first().copied().unwrap_or(NO_NODES))
    }
}

impl Roster {
    pub(crate) fn new(objective: Objective, horizon_s: f64) -> Self {
        Self {
            objective,
            horizon_s,
            ..Self::default()
        }
    }

    /// The objective.
    pub(crate) const fn objective(&self) -> &Objective {
        &self.objective
    }

    /// Errors of the objective for single trainers of the newest decision; those keep their own
    /// objective.
    pub(crate) fn refused(&self) -> &[ObjectiveError] {
        &self.refused
    }

    /// A number of each trainer of a case that stays the same while the trainer is there.
    pub(crate) fn lives(&mut self, case: &Translated, trainers: &[TrainerRecord]) -> Vec<u64> {
        let known = &self.known;
        self.lives.retain(|id, _| known.contains_key(id));
        let records = case.trainers.iter().filter_map(|&at| trainers.get(at));
        let number = |record: &TrainerRecord| {
            *self.lives.entry(record.spec.id.clone()).or_insert_with(|| {
                self.given += 1;
                self.given
            })
        };
        records.map(number).collect()
    }

    /// The trainers of a case as candidates, in its order.
    pub(crate) fn candidates(
        &mut self,
        case: &Translated,
        trainers: &[TrainerRecord],
        pool: &Pool,
        pilot_s: f64,
        kinds: Option<Told<'_>>,
    ) -> Vec<Candidate> {
        self.refused.clear();
        let records = case
            .trainers
            .iter()
            .filter_map(|&place| trainers.get(place));
        let least_attained = records
            .clone()
            .map(|record| record.attained.by(pool.as_of))
            .fold(f64::INFINITY, f64::min);
        self.known
            .retain(|id, _| trainers.iter().any(|record| record.spec.id == *id));
        let mut candidates = Vec::with_capacity(case.trainers.len());
        let owners = case.slots.iter().map(|slot| slot.owner).enumerate();
        let tiers = case.switches.tiers(owners, case.held.len());
        let kind = |slot| kinds.and_then(|told| told.of.get(slot).copied());
        let slots = case.slots.iter().enumerate();
        let held = slots.map(|(at, slot)| (slot.owner, kind(at).unwrap_or_default()));
        let held = mixes_of(case.held.len(), held);
        for (record, (held, &tier)) in records.zip(held.into_iter().zip(&tiers)) {
            let state = State {
                now: pool.as_of,
                samples_left: match record.spec.work {
                    Work::Samples(work) => work - record.samples() + record.owed,
                    Work::UntilExit => 0.0,
                },
                attained: record.attained.by(pool.as_of),
                least_attained,
            };
            let held = (held, tier);
            // Only programs run under their owners' accounts.
            let pilot_s = match record.spec.launch {
                Launch::Command(_) => pilot_s,
                Launch::Simulated => 0.0,
            };
            let hit = is_hit(record, held.0.iter().sum(), pool);
            candidates.extend(self.candidate(record, held, hit, &state, pilot_s, kinds));
        }
        let records = case.trainers.iter().filter_map(|&at| trainers.get(at));
        for (candidate, record) in candidates.iter_mut().zip(records) {
            if let Some(of) = record.spec.kinds.loads_for() {
                let served = trainers.iter().find(|other| other.spec.id == *of);
                *candidate = candidate.times(served.map_or(0.0, |served| self.unit(served)));
            }
        }
        candidates
    }

    /// What the objective makes of a sample/s more of a trainer.
    fn unit(&self, record: &TrainerRecord) -> f64 {
        let Some(known) = self.known.get(&record.spec.id) else {
            return 0.0;
        };
        let spec = &record.spec;
        let nodes = record.nodes.len() as u32;
        let nodes = nodes.clamp(spec.min_nodes, spec.max_nodes.max(spec.min_nodes));
        known.kind.value_of_rate(nodes, known.own.as_ref())
    }

    fn candidate(
        &mut self,
        record: &TrainerRecord,
        (held, tier): (Mix, usize),
        hit: bool,
        state: &State,
        pilot_s: f64,
        kinds: Option<Told<'_>>,
    ) -> Option<Candidate> {
        let spec = &record.spec;
        if self
            .known
            .get(&spec.id)
            .is_none_or(|known| !known.is_of(record, pilot_s))
        {
            let known = Known::new(record, pilot_s, &self.objective, self.horizon_s)?;
            self.known.insert(spec.id.clone(), known);
        }
        let known = self.known.get_mut(&spec.id)?;
        known.tell(record, kinds);
        if !known.kind.is_fixed()
            && let Err(error) = known.kind.update(&mut known.own, state)
        {
            known.refused = Some(error);
        }
        self.refused.extend(known.refused.clone());
        let own = known.own.as_ref();
        let nodes = held.iter().sum();
        let mut found = known.kind.candidate(nodes, tier, hit, own);
        if kinds.is_some() {
            found = found.holding(held, tier);
        }
        found.item.lost = lost(record, state.now, self.horizon_s);
        Some(found)
    }
}

impl Known {
    /// Tells kinds of nodes apart, or none.
    fn tell(&mut self, record: &TrainerRecord, kinds: Option<Told<'_>>) {
        let told = kinds.map(|told| (told.names.to_vec(), told.most()));
        if self.told != told {
            self.kind = match &told {
                Some((names, most)) => self.plain.clone().with_kinds(record, names, *most),
                None => self.plain.clone(),
            };
            self.told = told;
        }
    }

    fn is_of(&self, record: &TrainerRecord, pilot_s: f64) -> bool {
        let of = (&self.spec, &self.goodput, self.costs);
        of == (&record.spec, &record.goodput, costs(record, pilot_s))
            && in_force(record).eq(&self.in_force)
    }

    /// Nothing if the trainer's own objective fails too, which is impossible.
    fn new(
        record: &TrainerRecord,
        pilot_s: f64,
        objective: &Objective,
        horizon_s: f64,
    ) -> Option<Self> {
        let costs = costs(record, pilot_s);
        // A loader brings samples/s to the trainer that it serves, in whose units they then count.
        let objective = match record.spec.kinds.loads_for() {
            Some(_) => &Objective::Throughput,
            None => objective,
        };
        let kind = |objective| Worth::new(record, costs, objective, horizon_s);
        let (kind, refused) = match kind(objective) {
            Ok(kind) => (kind, None),
            Err(error) => (kind(&Objective::AsGiven).ok()?, Some(error)),
        };
        let learns = Rates::of(record).learning();
        let kind = match (objective, learns) {
            (Objective::Goodput, Some(curve)) => kind.with_goodput(record, &curve),
            _ => kind,
        };
        Some(Self {
            spec: record.spec.clone(),
            in_force: in_force(record).cloned().collect(),
            goodput: record.goodput.clone(),
            costs,
            plain: kind.clone(),
            kind,
            own: None,
            told: None,
            refused,
        })
    }
}

/// What is in force of a trainer, on all nodes and on each kind.
fn in_force(record: &TrainerRecord) -> impl Iterator<Item = &InForce> {
    let measured = record.measured.iter().flat_map(|all| all.by_kind());
    measured.map(|(_, of)| &of.in_force)
}

/// The costs of changes of a trainer, as far as they are measured.
fn costs(record: &TrainerRecord, pilot_s: f64) -> Costs {
    Costs::of(record).with_pilots(pilot_s)
}

/// Horizons that a change counts at least if the program would start over after it and nothing says
/// how long it lasts or what other nodes bring: the gain is a guess, and the loss is not.
const STARTED_OVER: f64 = 5.0;

/// What a change by choice throws away of the work of a program. One that regroups loses it with its
/// last member; any other one starts again at every change.
fn lost(record: &TrainerRecord, now: Timestamp, horizon_s: f64) -> Lost {
    if record.spec.launch == Launch::Simulated {
        return Lost::default();
    }
    let (mut unsaved_s, start_s) = (record.unsaved_s(now), Rates::of(record).start_s());
    let is_unknown = record.spec.is_profiled() && record.spec.work == Work::UntilExit;
    if is_unknown && record.starts_over() {
        unsaved_s = unsaved_s.max(STARTED_OVER * horizon_s);
    }
    if record.spec.launch.regroups() {
        Lost {
            change_s: 0.0,
            stop_s: unsaved_s + start_s,
        }
    } else {
        Lost {
            change_s: unsaved_s,
            stop_s: start_s,
        }
    }
}

/// Whether a departure has hit a trainer, so that it restarts anyway. Either nodes of its
/// incarnation are gone, or control reports a hit and the trainer is still stalled. It holds `held`
/// nodes.
fn is_hit(record: &TrainerRecord, held: u32, pool: &Pool) -> bool {
    record.nodes.len() > held as usize || Rates::of(record).is_hit(pool.as_of)
}

/// The owner of each trainer of a case as a number. Trainers without an owner share one number.
pub(crate) fn users(case: &Translated, trainers: &[TrainerRecord]) -> Users {
    let mut numbers: HashMap<Option<&str>, u32> = HashMap::new();
    let records = case
        .trainers
        .iter()
        .filter_map(|&place| trainers.get(place));
    let of = records.map(|record| {
        let next = numbers.len() as u32;
        *numbers.entry(record.spec.owner.as_deref()).or_insert(next)
    });
    Users {
        of: of.collect(),
        parts: Vec::new(),
    }
}
