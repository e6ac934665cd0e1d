//! Runs all schedulers on all instances. One after another, since their times are compared.

use lacuna_cli::error::{CliError, Exit, Result};
use lacuna_cli::output::progress_bar;
use lacuna_layers::{Answer, Error, LayerProfile, Options, Placement, place};
use lacuna_runtime::clock::{Stopwatch, processor_s};

use super::evaluate::Evaluator;
use super::family::Family;
use super::pipeline::{Jitter, Pipeline, simulate};
use super::results::{Column, Figures, Optimism, Results, Run};
use super::{learn, parzen, rules, search};

/// A scheduler: its name, what it does with a seed, and whether the seed matters.
#[derive(Clone, Copy)]
pub(super) struct Scheduler {
    pub(super) name: &'static str,
    run: fn(&mut Evaluator<'_>, u64),
    seeded: bool,
}

const fn scheduler(
    name: &'static str,
    run: fn(&mut Evaluator<'_>, u64),
    seeded: bool,
) -> Scheduler {
    Scheduler { name, run, seeded }
}

/// The name of brute force, which runs only where it ends.
pub(super) const BRUTE: &str = "brute";

/// All schedulers but the exact one.
pub(super) const SCHEDULERS: [Scheduler; 12] = [
    scheduler(BRUTE, rules::brute, false),
    scheduler("cpu", rules::cpu, false),
    scheduler("gpu", rules::gpu, false),
    scheduler("heuristic", rules::heuristic, false),
    scheduler("greedy", rules::greedy, false),
    scheduler("rollout", rules::rollout, false),
    scheduler("random", search::random, true),
    scheduler("genetic", search::genetic, true),
    scheduler("local", search::local, true),
    scheduler("bayes", parzen::bayes, true),
    scheduler("rl-rnn", learn::rnn, true),
    scheduler("rl-lstm", learn::lstm, true),
];

/// How often the exact search is timed.
const TIMED: usize = 9;

/// Coefficients of variation of the simulated pipelines.
pub(super) const VARIATIONS: [f64; 4] = [0.05, 0.1, 0.3, 0.5];

/// Processor time of this thread where the system reports it, else the clock's.
struct Watch(Option<f64>, Stopwatch);

impl Watch {
    fn start() -> Self {
        Self(processor_s(), Stopwatch::start())
    }

    fn seconds(&self) -> f64 {
        let taken = self.0.and_then(|began| Some(processor_s()? - began));
        taken.unwrap_or_else(|| self.1.seconds())
    }
}

/// What is run.
pub(super) struct Study {
    pub(super) families: Vec<Family>,
    pub(super) kinds: Vec<usize>,
    pub(super) schedulers: Vec<Scheduler>,
    pub(super) seeds: Vec<u64>,
    /// The seed of the further kinds.
    pub(super) kinds_seed: u64,
}

impl Study {
    /// Runs all.
    ///
    /// # Errors
    /// An instance cannot be placed, which is a fault.
    pub(super) fn run(self, hidden: bool) -> Result<Results> {
        let count = self.families.len() * self.kinds.len();
        let bar = progress_bar(
            hidden,
            count as u64,
            "{wide_bar} {pos}/{len} instances, {elapsed}",
        );
        let mut rows = Vec::new();
        for &kinds in &self.kinds {
            for family in &self.families {
                let profile = family.profile(kinds, self.kinds_seed);
                let profile = profile.map_err(|e| refused(&e))?;
                rows.push(self.one(family, &profile)?);
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        Ok(Results {
            rows,
            seeds: self.seeds,
        })
    }

    fn one(&self, family: &Family, profile: &LayerProfile) -> Result<Figures> {
        let options = Options::default();
        let mut seconds = f64::INFINITY;
        let mut exact = None;
        for _ in 0..TIMED {
            let watch = Watch::start();
            let answer = place(profile, &options).map_err(|e| refused(&e))?;
            seconds = seconds.min(watch.seconds());
            exact = match answer {
                Answer::Met(placement) => Some(placement),
                Answer::Short { .. } => None,
            };
        }
        let exact = exact
            .ok_or_else(|| CliError::failed(format!("{}: the rate cannot be met", family.label)))?;
        let columns = self
            .schedulers
            .iter()
            .map(|scheduler| self.column(scheduler, profile));
        Ok(Figures {
            network: family.label.to_owned(),
            layers: family.layers,
            kinds: profile.kinds().len(),
            kind_names: profile
                .kinds()
                .iter()
                .map(|kind| kind.name().to_owned())
                .collect(),
            min_rate: profile.min_rate(),
            seconds,
            columns: columns.collect(),
            optimism: optimism(&exact, profile),
            exact,
        })
    }

    fn column(&self, scheduler: &Scheduler, profile: &LayerProfile) -> Column {
        let choices = (profile.kinds().len() as f64).powi(profile.layers().len() as i32);
        let runs = if scheduler.name == BRUTE && choices > rules::MOST_CHOICES {
            0
        } else if scheduler.seeded {
            self.seeds.len()
        } else {
            1
        };
        let one = |seed: &u64| {
            let mut evaluator = Evaluator::new(profile);
            let watch = Watch::start();
            (scheduler.run)(&mut evaluator, *seed);
            Run {
                cost: evaluator.best,
                seconds: watch.seconds(),
                evaluations: evaluator.evaluations,
            }
        };
        Column {
            name: scheduler.name,
            runs: self.seeds.iter().take(runs).map(one).collect(),
        }
    }
}

/// By how much the cost model is faster than simulated pipelines.
fn optimism(placement: &Placement, profile: &LayerProfile) -> Vec<Optimism> {
    let mut all = Vec::new();
    for jitter in [Jitter::Stage, Jitter::Unit] {
        for variation in VARIATIONS {
            let pipeline = Pipeline {
                batch: profile.batch(),
                batches: 4000,
                queue: 4,
                variation,
                jitter,
                seed: 1,
            };
            let rate = simulate(placement, &pipeline);
            all.push(Optimism {
                by_unit: jitter == Jitter::Unit,
                variation,
                share: placement.rate / rate - 1.0,
            });
        }
    }
    all
}

fn refused(error: &Error) -> CliError {
    CliError::new("L0011", Exit::Failed, error.to_string())
}
