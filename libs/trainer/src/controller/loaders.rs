//! Loaders: idle nodes of another kind that prepare the data of a trainer that waits for them.
//!
//! Each loader is a trainer of its own, with one node and the program of the one that it serves, in
//! the role of a loader. So plans, leases, agents and pilots treat it as any other, and it comes and
//! goes alone. It waits in no queue, takes no place of an owner, and counts no samples.
//!
//! The stall model says what each further loader brings to the trainer ([`StepCosts::loader_gains`]).
//! That is its worth in plans, in samples/s, as long as the trainer trains. A loader that brings less
//! than [`WORTH`] is in no plan, and gives its node back below half of that. A reading that is not
//! trusted is no judgement: for [`PATIENCE_S`] after the last trusted one all stays as it was.
//!
//! [`StepCosts::loader_gains`]: lacuna_model::StepCosts::loader_gains

use std::collections::{BTreeMap, BTreeSet};

use lacuna_model::{
    Elastic, KindName, KindRates, Launch, Loaders, Loading, Phase, Program, RescaleCost,
    ScalingCurve, Span, Timestamp, TrainerId, TrainerRecord, TrainerSpec,
};
use lacuna_rates::Rates;

use crate::Now;
use crate::account::Change;
use crate::controller::out::Out;
use crate::controller::trainers::{LOADERS_FILE, Trainer, loaders_file};
use crate::controller::{Controller, Refusal, RefusalKind};

/// The least share of a trainer's rate for which a loader gets a node.
pub const WORTH: f64 = 0.02;
/// Seconds for which a trusted reading of a trainer's steps holds beside readings that are not
/// trusted. Readings come every 30 s, and one of a busy time is off.
const PATIENCE_S: i64 = 150;
/// A gain counts as another one if it differs by more than this share.
const OTHER: f64 = 0.1;
/// Seconds until a loader serves, in plans.
const START_S: f64 = 10.0;
/// Samples/s of a loader whose worth is not known. It counts no samples.
const NOMINAL: f64 = 1e-6;
/// Seconds without a request after which a loader would end by itself: control ends it.
const IDLE_S: &str = "1e9";
/// Loaders that are not over, each with its worth as plans have it, samples/s.
pub(super) type Worths = BTreeMap<TrainerId, Option<f64>>;

/// What the loaders of each trainer bring.
pub(super) type Readings = BTreeMap<TrainerId, Reading>;

/// The newest trusted reading of a trainer's steps.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// When it was in force last, in real time.
    at: Timestamp,
    /// As [`gains`] gives them.
    gains: Vec<(f64, f64)>,
}

/// Whether loaders bring something else now.
fn is_other(before: &[(f64, f64)], now: &[(f64, f64)]) -> bool {
    let differs = |((_, a), (_, b)): (&(f64, f64), &(f64, f64))| (b - a).abs() > OTHER * a.max(*b);
    before.len() != now.len() || before.iter().zip(now).any(differs)
}

/// The rates of a loader.
fn rates_of_loader(trainer: &TrainerId, kind: &KindName, rate: f64) -> Option<KindRates> {
    let curve = ScalingCurve::new([(1, rate)]).ok()?;
    let rates = KindRates::new([(kind.clone(), curve)].into(), Vec::new()).ok()?;
    rates.with_loading(Loading::For(trainer.clone())).ok()
}

/// The loaders of a trainer.
fn with_loaders(spec: &TrainerSpec, loaders: &Loaders) -> Result<Vec<TrainerSpec>, String> {
    let Launch::Command(Program {
        program,
        args,
        env,
        directory,
        environment_from,
        elastic: Elastic::Regroup { .. },
        ..
    }) = &spec.launch
    else {
        return Err("its launcher is not regroup: leave loaders out".to_owned());
    };
    let Some(file) = loaders_file(spec) else {
        return Err(format!(
            "it has no checkpoint_dir: set it, or {LOADERS_FILE} in its environment, to where loaders find \
             it on a shared file system"
        ));
    };
    let mut env = env.clone();
    env.insert(LOADERS_FILE.to_owned(), file.clone());
    let name = program.rsplit('/').next().unwrap_or_default();
    let python = if name.starts_with("python") {
        program.as_str()
    } else {
        "python3"
    };
    let processes = loaders.processes.to_string();
    let own = ["-m", "lacuna.loader", "--join", &file, "--idle", IDLE_S];
    let own = own.into_iter().chain(["--processes", &processes, "--"]);
    let own = own.chain([program.as_str()]).map(str::to_owned);
    let launch = Launch::Command(Program {
        program: python.to_owned(),
        args: own.chain(args.iter().cloned()).collect(),
        env: env.clone(),
        directory: directory.clone(),
        environment_from: environment_from.clone(),
        ..Program::default()
    });
    let rates = rates_of_loader(&spec.id, &loaders.kind, NOMINAL);
    let rates = rates.ok_or_else(|| "its loaders have no rates".to_owned())?;
    let curve = rates.curve(&loaders.kind).cloned();
    let curve = curve.ok_or_else(|| "its loaders have no rates".to_owned())?;
    let names: Vec<TrainerId> = loaders.names(&spec.id).collect();
    if names.len() < loaders.nodes as usize {
        return Err("its name is too long for names of loaders: choose a shorter one".to_owned());
    }
    let one = |id| TrainerSpec {
        owner: spec.owner.clone(),
        priority: spec.priority,
        weight: spec.weight,
        submit: spec.submit,
        max_nodes: 1,
        kinds: rates.clone(),
        rescale: RescaleCost {
            up_s: 0.0,
            down_s: 0.0,
            start_s: Some(START_S),
        },
        launch: launch.clone(),
        ..TrainerSpec::simulated(id, curve.clone())
    };
    Ok(names.into_iter().map(one).collect())
}

impl Controller {
    /// The trainers of a submission, each with its loaders behind it.
    pub(super) fn with_loaders(
        &self,
        specs: Vec<TrainerSpec>,
    ) -> Result<Vec<TrainerSpec>, Refusal> {
        let mut all = Vec::new();
        for spec in specs {
            let refuse = |reason: String| Refusal {
                kind: RefusalKind::Spec,
                reason: format!("trainer {}: loaders: {reason}", spec.id),
            };
            if spec.kinds.loads_for().is_some() {
                return Err(refuse("control itself submits them".to_owned()));
            }
            let Some(loaders) = spec.kinds.loaders().cloned() else {
                all.push(spec);
                continue;
            };
            if self.config.on_demand.is_some() {
                return Err(refuse(
                    "pilots of the helper serve the trainer that its owner has signed: start \
                     loaders by hand"
                        .to_owned(),
                ));
            }
            let more = with_loaders(&spec, &loaders);
            let id = spec.id.clone();
            all.push(spec);
            all.extend(more.map_err(|reason| Refusal {
                kind: RefusalKind::Spec,
                reason: format!("trainer {id}: loaders: {reason}"),
            })?);
        }
        Ok(all)
    }

    /// Takes in a loader: it waits in no queue.
    pub(super) fn enter_loader(&mut self, record: TrainerRecord, now: Now) {
        let id = record.spec.id.clone();
        self.enter(record, now);
        self.trainers.admit(&id);
    }

    /// Whether a trainer is in plans: a loader only while it brings something.
    pub(super) fn is_planned(&self, trainer: &Trainer) -> bool {
        let worth = self.loaders.get(trainer.id());
        !trainer.loads() || worth.is_some_and(Option::is_some)
    }

    /// What a loader brings, samples/s of its trainer.
    pub(super) fn gain(&self, loader: &TrainerSpec) -> Option<f64> {
        loader.kinds.loads_for()?;
        self.loaders.get(&loader.id).copied().flatten()
    }

    /// Brings loaders up to date: those of a trainer that is over end, those that bring nothing give
    /// their nodes back, and plans learn of another worth.
    pub(super) fn keep_loaders(&mut self, now: Now, out: &mut Out) {
        if self.loaders.is_empty() || !self.connected {
            return;
        }
        let is_live = |id: &TrainerId| {
            let record = self.trainers.record(id);
            record.is_some_and(|record| !record.phase.is_final())
        };
        let of = |id: &TrainerId| {
            let record = self.trainers.record(id)?;
            record.spec.kinds.loads_for().cloned()
        };
        let (left, over): (Vec<TrainerId>, Vec<TrainerId>) = self
            .loaders
            .keys()
            .cloned()
            .partition(|id| is_live(id) && of(id).is_some_and(|of| is_live(&of)));
        for id in over {
            self.loaders.remove(&id);
            if self
                .trainers
                .get(&id)
                .is_some_and(|t| !t.record().phase.is_final())
            {
                let reason = "the trainer that it served is over";
                self.end(&id, Phase::Cancelled, reason, now, out);
            }
        }
        for (id, worth) in self.worths(left, now) {
            let Some(before) = self.loaders.get_mut(&id) else {
                continue;
            };
            if *before != worth {
                *before = worth;
                self.publication.change();
            }
            let trainer = self.trainers.get_mut(&id).filter(|_| worth.is_none());
            let Some(trainer) = trainer.filter(|trainer| trainer.holds()) else {
                continue;
            };
            let _ = trainer.take_target();
            if !trainer.nodes().is_empty() {
                self.begin_incarnation(&id, Vec::new(), Change::Shrunk, now, out);
            }
            self.release_unneeded(&id, "a loader there brings its trainer nothing", out);
        }
    }

    /// What each of these loaders brings now, samples/s. Those with nodes come first.
    fn worths(&mut self, loaders: Vec<TrainerId>, now: Now) -> Worths {
        let mut by_trainer: BTreeMap<TrainerId, BTreeSet<(bool, TrainerId)>> = BTreeMap::new();
        for id in loaders {
            if let Some(trainer) = self.trainers.get(&id)
                && let Some(of) = trainer.record().spec.kinds.loads_for()
            {
                let is_free = !trainer.holds();
                by_trainer
                    .entry(of.clone())
                    .or_default()
                    .insert((is_free, id));
            }
        }
        self.loader_readings
            .retain(|of, _| by_trainer.contains_key(of));
        let mut worths = Worths::new();
        for (of, loaders) in by_trainer {
            let gains = self.gains_of(&of, now);
            let gains = gains.into_iter().map(Some).chain(std::iter::repeat(None));
            for ((is_free, id), gain) in loaders.into_iter().zip(gains) {
                let least = if is_free { WORTH } else { WORTH / 2.0 };
                let gain = gain.filter(|(share, _)| *share >= least);
                worths.insert(id, gain.map(|(_, rate)| rate));
            }
        }
        worths
    }

    /// The gains that are in force. A reading that is not trusted leaves those before it, for a while.
    fn gains_of(&mut self, of: &TrainerId, now: Now) -> Vec<(f64, f64)> {
        let Some(record) = self.trainers.record(of) else {
            return Vec::new();
        };
        let reading = self.loader_readings.entry(of.clone()).or_default();
        if is_off(record) {
            let is_old = now.since(reading.at) > Span::from_secs(PATIENCE_S);
            return if is_old {
                Vec::new()
            } else {
                reading.gains.clone()
            };
        }
        reading.at = now.wall;
        let gains = gains(record);
        if is_other(&reading.gains, &gains) {
            reading.gains = gains;
        }
        reading.gains.clone()
    }
}

/// Whether a trainer trains, and the replay of its steps is no model of them.
fn is_off(record: &TrainerRecord) -> bool {
    let trains = record.phase == Phase::Active && !record.nodes.is_empty();
    trains
        && record
            .step_costs
            .as_deref()
            .is_some_and(|costs| !costs.trusted)
}

/// Gains that never rise, with the same sum: what rises is the mean of its neighbours (pool adjacent
/// violators). Loaders are alike. If a later one were worth more, plans would hand the node of a first
/// one on to it, which is the first then, and so forth.
fn falling(gains: Vec<f64>) -> Vec<f64> {
    let mut pools: Vec<(f64, u32)> = Vec::new();
    for gain in gains {
        let mut pool = (gain, 1);
        while let Some((mean, count)) = pools.pop_if(|(mean, _)| *mean < pool.0) {
            let all = count + pool.1;
            let sum = mean.mul_add(f64::from(count), pool.0 * f64::from(pool.1));
            pool = (sum / f64::from(all), all);
        }
        pools.push(pool);
    }
    let each = |(mean, count): (f64, u32)| (0..count).map(move |_| mean);
    pools.into_iter().flat_map(each).collect()
}

/// What the loaders of a trainer bring, each beside those before it: as a share of its rate, and in
/// samples/s. Empty while it does not train.
fn gains(record: &TrainerRecord) -> Vec<(f64, f64)> {
    let trains = record.phase == Phase::Active && !record.nodes.is_empty();
    let costs = record.step_costs.as_deref().filter(|_| trains);
    let (Some(costs), Some(loaders)) = (costs, record.spec.kinds.loaders()) else {
        return Vec::new();
    };
    let shares = costs.loader_gains(loaders.nodes, loaders.processes);
    let both = |share: f64| (share, share * Rates::of(record).present());
    falling(shares).into_iter().map(both).collect()
}
