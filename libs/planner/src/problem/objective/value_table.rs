//! The value of each size of one trainer.

use std::sync::Arc;

use lacuna_model::{ScalingCurve, Timestamp, TrainerId, TrainerSpec, Work};
use lacuna_rates::Rates;

use super::program::Values;
use super::{Expression, Objective, ObjectiveError, Service, urgency};

/// The progress of a trainer, for objectives that depend on it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct State {
    /// The present moment.
    pub now: Timestamp,
    /// Work left, samples.
    pub samples_left: f64,
    /// Attained service of its owner ([`Service`]), seconds.
    pub attained: f64,
    /// The least that any owner present has attained, seconds.
    pub least_attained: f64,
}

/// The value of each size of one trainer, objective units per second.
///
/// Where that depends on how far it has come, it changes in steps of 1 %: [`ValueTable::step`] says
/// when, so that a table can be kept until then.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueTable {
    table: Arc<[f64]>,
    rule: Rule,
}

/// The rule by which the table changes.
#[derive(Debug, Clone, PartialEq)]
enum Rule {
    Fixed,
    Deadline {
        at: Timestamp,
        /// The best rate, samples/s.
        best: f64,
    },
    LeastAttained,
    Expression {
        expression: Expression,
        trainer: TrainerId,
        work: f64,
        spec: Arc<TrainerFacts>,
    },
}

/// The facts of a trainer that an expression may name.
#[derive(Debug, Clone, PartialEq)]
struct TrainerFacts {
    /// Samples/s on 0, 1, 2, ... nodes.
    rates: Vec<f64>,
    rate1: f64,
    weight: f64,
    priority: f64,
    min: u32,
    max: u32,
}

/// The grid on which factors lie.
const GRID: f64 = 1.01;

impl ValueTable {
    /// The value table of a trainer under an objective.
    ///
    /// # Errors
    /// [`ObjectiveError`] if an expression gives what makes no sense at a size that the trainer
    /// may have: the trainer, the size and the value are named.
    pub fn new(spec: &TrainerSpec, objective: &Objective) -> Result<Self, ObjectiveError> {
        Self::of(&Rates::from(spec), objective)
    }

    /// The same by all that is known of its rates.
    pub(crate) fn of(rates: &Rates<'_>, objective: &Objective) -> Result<Self, ObjectiveError> {
        let (spec, curve) = (rates.spec(), rates.curve());
        let max = spec.max_nodes;
        let rate = || -> Arc<[f64]> { curve.table(max).into() };
        let weighted = |weight: f64| -> Arc<[f64]> {
            let speedup = curve.speedup().table(max);
            speedup.into_iter().map(|value| weight * value).collect()
        };
        let fixed = |table| Self {
            table,
            rule: Rule::Fixed,
        };
        Ok(match objective {
            Objective::AsGiven | Objective::Fair => fixed(match rates.objective() {
                Some(curve) => curve.table(max).into(),
                None => rate(),
            }),
            Objective::Throughput => fixed(rate()),
            Objective::ScalingEfficiency => fixed(curve.speedup().table(max).into()),
            Objective::Goodput => Self::of_goodput(spec, curve),
            Objective::Weighted => fixed(weighted(spec.effective_weight())),
            Objective::Deadline => Self {
                table: weighted(spec.effective_weight()),
                rule: match (spec.deadline, spec.work) {
                    (Some(at), Work::Samples(_)) => Rule::Deadline {
                        at,
                        best: rate().iter().copied().fold(0.0, f64::max),
                    },
                    _ => Rule::Fixed,
                },
            },
            Objective::LeastAttained => Self {
                table: weighted(spec.effective_weight()),
                rule: Rule::LeastAttained,
            },
            Objective::Expression(expression) => Self::of_expression(rates, expression)?,
        })
    }

    /// The table of the objective `goodput` by a curve of learning a second.
    pub(crate) fn of_goodput(spec: &TrainerSpec, curve: &ScalingCurve) -> Self {
        let weight = spec.effective_weight();
        let over_least = curve.over(spec.min_nodes).table(spec.max_nodes);
        let table = over_least.into_iter().map(|value| weight * value);
        Self {
            table: table.collect(),
            rule: Rule::Fixed,
        }
    }

    fn of_expression(rates: &Rates<'_>, expression: &Expression) -> Result<Self, ObjectiveError> {
        let (spec, curve) = (rates.spec(), rates.curve());
        let facts = TrainerFacts {
            rates: curve.table(spec.max_nodes),
            rate1: curve.at(1),
            weight: spec.effective_weight(),
            priority: f64::from(spec.priority),
            min: spec.min_nodes,
            max: spec.max_nodes,
        };
        let work = match spec.work {
            Work::Samples(samples) => samples,
            Work::UntilExit if expression.is_dynamic() => {
                let trainer = spec.id.clone();
                return Err(ObjectiveError::NoWork { trainer });
            }
            Work::UntilExit => 0.0,
        };
        // A table that depends on the work left is tried at both ends; replays check every table.
        let table = facts.table(expression, &spec.id, work)?;
        if !expression.is_dynamic() {
            let rule = Rule::Fixed;
            return Ok(Self { table, rule });
        }
        facts.table(expression, &spec.id, 0.0)?;
        Ok(Self {
            table,
            rule: Rule::Expression {
                expression: expression.clone(),
                trainer: spec.id.clone(),
                work,
                spec: Arc::new(facts),
            },
        })
    }

    /// Whether it never changes.
    #[must_use]
    pub const fn is_fixed(&self) -> bool {
        matches!(self.rule, Rule::Fixed)
    }

    /// The values of 0, 1, 2, ... nodes before any progress is known.
    #[must_use]
    pub const fn initial(&self) -> &Arc<[f64]> {
        &self.table
    }

    /// The step of the table for a state: equal steps have equal tables.
    #[must_use]
    pub fn step(&self, state: &State) -> i32 {
        match &self.rule {
            Rule::Fixed => 0,
            Rule::Deadline { at, best } => {
                let time_left_s = at.since(state.now).as_secs_f64();
                on_grid(urgency(state.samples_left.max(0.0) / best, time_left_s))
            }
            Rule::LeastAttained => on_grid(Service::factor(state.attained, state.least_attained)),
            Rule::Expression { work, .. } => {
                let share = state.samples_left.max(0.0) / work;
                if share.is_finite() {
                    (share * 100.0).ceil() as i32
                } else {
                    0
                }
            }
        }
    }

    /// The values of 0, 1, 2, ... nodes at a step.
    ///
    /// # Errors
    /// [`ObjectiveError::Value`] if an expression gives what makes no sense.
    pub fn at(&self, step: i32) -> Result<Arc<[f64]>, ObjectiveError> {
        match &self.rule {
            Rule::Fixed => Ok(self.table.clone()),
            Rule::Deadline { .. } | Rule::LeastAttained => {
                let factor = GRID.powi(step);
                Ok(self.table.iter().map(|value| factor * value).collect())
            }
            Rule::Expression {
                expression,
                trainer,
                work,
                spec,
            } => spec.table(expression, trainer, work * f64::from(step) / 100.0),
        }
    }
}

fn on_grid(factor: f64) -> i32 {
    (factor.ln() / GRID.ln()).round() as i32
}

impl TrainerFacts {
    /// The values of an expression at every possible size of the trainer; 0 at other sizes.
    fn table(
        &self,
        expression: &Expression,
        trainer: &TrainerId,
        samples_left: f64,
    ) -> Result<Arc<[f64]>, ObjectiveError> {
        let mut stack = Vec::new();
        (0..=self.max)
            .zip(&self.rates)
            .map(|(n, &rate)| {
                if n > 0 && n < self.min {
                    return Ok(0.0);
                }
                let values: Values = [
                    f64::from(n),
                    rate,
                    self.rate1,
                    rate / self.rate1,
                    self.weight,
                    self.priority,
                    f64::from(self.min),
                    f64::from(self.max),
                    samples_left,
                ];
                let value = expression.value(&values, &mut stack);
                let expected = if n == 0 && value != 0.0 {
                    "0 at no nodes"
                } else if !value.is_finite() || value < 0.0 {
                    "a finite number, zero or more"
                } else {
                    return Ok(value);
                };
                Err(ObjectiveError::Value {
                    trainer: trainer.clone(),
                    nodes: n,
                    value,
                    expected,
                })
            })
            .collect()
    }
}
