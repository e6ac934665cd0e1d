//! The relaxation over the columns at hand, and the programme over them.

use std::collections::HashSet;
use std::time::Duration;

use lacuna_milp as milp;
use lacuna_milp::{Linear, Sense};

use crate::patterns::answer::Error;
use crate::patterns::{Column, Patterns};

/// The columns at hand.
pub(crate) struct Columns {
    pub(crate) all: Vec<Column>,
    seen: HashSet<(u32, Vec<(u32, i32)>)>,
    classes: usize,
    trainers: usize,
}

/// Prices of the rows in the relaxation, with its optimum and the columns' shares.
pub(crate) struct Prices {
    /// u_j: of C1, by trainer.
    pub(crate) trainer: Vec<f64>,
    /// w_k: of C2, by class; none below 0.
    pub(crate) class: Vec<f64>,
    /// The optimum.
    pub(crate) objective: f64,
    /// A share for each column.
    pub(crate) shares: Vec<f64>,
}

impl Columns {
    /// Keeping for all trainers.
    pub(crate) fn keep(patterns: &mut dyn Patterns, classes: usize) -> Result<Self, Error> {
        let trainers = patterns.trainers();
        let mut columns = Self {
            all: Vec::new(),
            seen: HashSet::new(),
            classes,
            trainers,
        };
        for j in 0..trainers {
            let keep = patterns.keep(j);
            columns.check(&keep, Some(j))?;
            if !keep.take.is_empty() {
                return Err(Error::Keep { trainer: j });
            }
            columns.add(keep);
        }
        Ok(columns)
    }

    /// Refuses what makes no sense; `j` is the trainer that was asked for, if any.
    pub(crate) fn check(&self, column: &Column, j: Option<usize>) -> Result<(), Error> {
        let found = column.trainer as usize;
        if found >= self.trainers || j.is_some_and(|j| j != found) {
            return Err(Error::Trainer {
                trainer: j.unwrap_or(self.trainers),
                found: column.trainer,
            });
        }
        if !column.value.is_finite() {
            return Err(Error::Value {
                trainer: found,
                value: column.value,
            });
        }
        let ascending = column.take.is_sorted_by(|a, b| a.0 < b.0);
        let sound = |&(k, n): &(u32, i32)| (k as usize) < self.classes && n != 0;
        if !ascending || !column.take.iter().all(sound) {
            return Err(Error::Classes { trainer: found });
        }
        Ok(())
    }

    /// Adds a column; false if it was there.
    pub(crate) fn add(&mut self, column: Column) -> bool {
        let new = self.seen.insert((column.trainer, column.take.clone()));
        if new {
            self.all.push(column);
        }
        new
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Keeping for trainer `j`: the columns begin with these.
    pub(crate) fn keep_of(&self, j: usize) -> Option<&Column> {
        self.all.get(j)
    }

    /// The programme over those columns for which `wanted` holds, with the column of each.
    fn programme(
        &self,
        capacity: &[u32],
        unit: f64,
        wanted: impl Fn(&Column) -> bool,
    ) -> (milp::Model, Vec<(usize, milp::ColumnId)>) {
        let mut model = milp::Model::new(Sense::Maximise);
        let ids: Vec<(usize, milp::ColumnId)> = self
            .all
            .iter()
            .enumerate()
            .filter(|(_, column)| wanted(column))
            .map(|(at, column)| (at, model.binary(column.value / unit)))
            .collect();
        c1_one_pattern(&mut model, &self.all, &ids, self.trainers);
        c2_classes(&mut model, &self.all, &ids, capacity);
        (model, ids)
    }

    /// Solves the programme over those columns for which `wanted` holds, from `start`: places
    /// of columns, one a trainer. Gives places of columns and the solver's outcome.
    pub(crate) fn solve(
        &self,
        capacity: &[u32],
        unit: f64,
        wanted: impl Fn(&Column) -> bool,
        start: &[usize],
        limits: &milp::Options,
    ) -> (Option<Vec<usize>>, milp::Outcome) {
        let (model, ids) = self.programme(capacity, unit, wanted);
        let mut warm = vec![0.0; model.columns()];
        for &(at, id) in &ids {
            if start.contains(&at)
                && let Some(value) = warm.get_mut(id.index())
            {
                *value = 1.0;
            }
        }
        let solution = milp::solve(
            &model,
            &milp::Options {
                warm: Some(warm),
                ..limits.clone()
            },
        );
        let chosen = solution.has_values().then(|| {
            ids.iter()
                .filter(|(_, id)| solution.values.get(id.index()).is_some_and(|&x| x > 0.5))
                .map(|&(at, _)| at)
                .collect()
        });
        (chosen, solution.outcome)
    }
}

/// C1: each trainer has one pattern.
fn c1_one_pattern(
    model: &mut milp::Model,
    all: &[Column],
    ids: &[(usize, milp::ColumnId)],
    trainers: usize,
) {
    let mut rows = vec![Vec::new(); trainers];
    for &(at, id) in ids {
        let row = all.get(at).and_then(|c| rows.get_mut(c.trainer as usize));
        if let Some(row) = row {
            row.push((id, 1.0));
        }
    }
    for row in rows {
        model.row(1.0, 1.0, row);
    }
}

/// C2: no more nodes of a class are taken than are free.
fn c2_classes(
    model: &mut milp::Model,
    all: &[Column],
    ids: &[(usize, milp::ColumnId)],
    capacity: &[u32],
) {
    let mut rows = vec![Vec::new(); capacity.len()];
    for &(at, id) in ids {
        for &(k, n) in all.get(at).map_or(&[][..], |c| &c.take) {
            if let Some(row) = rows.get_mut(k as usize) {
                row.push((id, f64::from(n)));
            }
        }
    }
    for (row, &capacity) in rows.into_iter().zip(capacity) {
        if !row.is_empty() {
            model.row(f64::NEG_INFINITY, f64::from(capacity), row);
        }
    }
}

/// The relaxation, kept by the solver between rounds.
pub(crate) struct Master {
    linear: Linear,
    trainers: usize,
    classes: usize,
    unit: f64,
    /// Whether the solver failed, other than by running out of time.
    pub(crate) failed: bool,
}

impl Master {
    /// An empty relaxation; values are divided by `unit` for the solver.
    pub(crate) fn new(trainers: usize, capacity: &[u32], unit: f64) -> Self {
        let mut rows = vec![(1.0, 1.0); trainers];
        let classes = capacity.iter().map(|&c| (f64::NEG_INFINITY, f64::from(c)));
        rows.extend(classes);
        Self {
            linear: Linear::new(Sense::Maximise, &rows),
            trainers,
            classes: capacity.len(),
            unit,
            failed: false,
        }
    }

    /// Takes in the columns that came since the last time; false if the solver refused one.
    pub(crate) fn follow(&mut self, columns: &Columns) -> bool {
        let known = self.linear.columns();
        columns.all.iter().skip(known).all(|column| {
            let mut terms = vec![(column.trainer, 1.0)];
            let first = self.trainers as u32;
            let classes = column.take.iter();
            terms.extend(classes.map(|&(k, n)| (first.saturating_add(k), f64::from(n))));
            self.linear.add(column.value / self.unit, &terms)
        })
    }

    /// Solves it; nothing if the solver failed or the time was up.
    pub(crate) fn solve(&mut self, time_limit: Duration) -> Option<Prices> {
        let vertex = self.linear.solve(time_limit);
        if vertex.outcome != milp::Outcome::Optimal {
            self.failed |= vertex.outcome != milp::Outcome::NoIncumbent;
            return None;
        }
        let (trainer, class) = vertex.duals.split_at_checked(self.trainers)?;
        let scaled = |duals: &[f64], least: f64| -> Vec<f64> {
            duals.iter().map(|d| d.max(least) * self.unit).collect()
        };
        (class.len() == self.classes).then(|| Prices {
            trainer: scaled(trainer, f64::NEG_INFINITY),
            class: scaled(class, 0.0),
            objective: vertex.objective * self.unit,
            shares: vertex.values,
        })
    }
}
