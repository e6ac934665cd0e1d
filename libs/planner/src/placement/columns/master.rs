//! The relaxation over the generated columns, and the program over them.

use std::collections::HashMap;
use std::time::Duration;

use lacuna_milp as milp;
use lacuna_milp::{Linear, Sense};

use super::answer::Error;
use super::{Column, Pricing};

/// The generated columns. Equal trainers form a group with common columns: the count of a chosen
/// column is the number of trainers of the group that have it. So the program has no symmetry
/// between equal trainers.
pub(crate) struct Columns {
    pub(crate) all: Vec<Column>,
    /// Place of a column, by group and taken nodes.
    known: HashMap<(usize, Vec<(u32, i32)>), usize>,
    /// The keeping column, by trainer.
    keeps: Vec<Column>,
    /// The group of each trainer.
    group: Vec<usize>,
    /// The trainers of each group.
    groups: Vec<Vec<u32>>,
    classes: usize,
}

/// Prices of the rows in the relaxation, its optimum and the columns' shares.
pub(crate) struct Prices {
    /// u_g: of C1, by group.
    pub(crate) group: Vec<f64>,
    /// w_k: of C2, by class; none below 0.
    pub(crate) class: Vec<f64>,
    /// The optimum.
    pub(crate) objective: f64,
    /// A share for each column; those of a group sum to its trainers.
    pub(crate) shares: Vec<f64>,
}

impl Columns {
    /// The keeping columns of all trainers.
    pub(crate) fn keep(patterns: &mut dyn Pricing, classes: usize) -> Result<Self, Error> {
        let trainers = patterns.trainers();
        let mut columns = Self {
            all: Vec::new(),
            known: HashMap::new(),
            keeps: Vec::with_capacity(trainers),
            group: Vec::with_capacity(trainers),
            groups: Vec::new(),
            classes,
        };
        for j in 0..trainers {
            let of = columns.group.get(patterns.representative(j)).copied();
            let of = of.unwrap_or(columns.groups.len());
            columns.group.push(of);
            match columns.groups.get_mut(of) {
                Some(group) => group.push(j as u32),
                None => columns.groups.push(vec![j as u32]),
            }
        }
        for j in 0..trainers {
            let keep = patterns.keep(j);
            columns.check(&keep, Some(j))?;
            if !keep.take.is_empty() {
                return Err(Error::Keep { trainer: j });
            }
            columns.add(keep.clone());
            columns.keeps.push(keep);
        }
        Ok(columns)
    }

    /// Refuses an unsound column; `j` is the trainer that was asked for, if any.
    pub(crate) fn check(&self, column: &Column, j: Option<usize>) -> Result<(), Error> {
        let found = column.trainer as usize;
        if found >= self.group.len() || j.is_some_and(|j| j != found) {
            return Err(Error::Trainer {
                trainer: j.unwrap_or(self.group.len()),
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

    /// Adds a column; false if its group has it already.
    pub(crate) fn add(&mut self, column: Column) -> bool {
        let key = (self.group_of(&column), column.take.clone());
        let new = !self.known.contains_key(&key);
        if new {
            self.known.insert(key, self.all.len());
            self.all.push(column);
        }
        new
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// The keeping column of trainer `j`.
    pub(crate) fn keep_of(&self, j: usize) -> Result<&Column, Error> {
        self.keeps.get(j).ok_or(Error::Trainer {
            trainer: self.keeps.len(),
            found: j as u32,
        })
    }

    /// The keeping columns, by trainer.
    pub(crate) fn keeps(&self) -> &[Column] {
        &self.keeps
    }

    /// The groups, each by its trainers.
    pub(crate) fn groups(&self) -> &[Vec<u32>] {
        &self.groups
    }

    /// The group of a column's trainer.
    pub(crate) fn group_of(&self, column: &Column) -> usize {
        let group = self.group.get(column.trainer as usize);
        group.copied().unwrap_or(self.groups.len())
    }

    /// The place of an equal column of the same group.
    fn place(&self, column: &Column) -> Option<usize> {
        let key = (self.group_of(column), column.take.clone());
        self.known.get(&key).copied()
    }

    /// Number of trainers with each column in these plans.
    pub(crate) fn count(&self, chosen: &[Column]) -> Vec<u32> {
        let mut counts = vec![0; self.all.len()];
        for place in chosen.iter().filter_map(|column| self.place(column)) {
            if let Some(count) = counts.get_mut(place) {
                *count += 1;
            }
        }
        counts
    }

    /// Gives each column, in this order, to `count` remaining trainers of its group, first to the
    /// trainer that it came from.
    pub(crate) fn deal(&self, counts: impl Iterator<Item = (usize, u32)>) -> Vec<Column> {
        let mut left = self.groups.clone();
        let mut dealt = Vec::with_capacity(self.group.len());
        for (at, count) in counts {
            let Some(column) = self.all.get(at) else {
                continue;
            };
            let Some(left) = left.get_mut(self.group_of(column)) else {
                continue;
            };
            for _ in 0..count {
                let own = left.iter().position(|&j| j == column.trainer);
                let Some(at) = own.or_else(|| (!left.is_empty()).then_some(0)) else {
                    break;
                };
                dealt.push(Column {
                    trainer: left.remove(at),
                    ..column.clone()
                });
            }
        }
        dealt
    }

    /// The program over the `wanted` columns, with the column id of each.
    fn program(
        &self,
        capacity: &[u32],
        unit: f64,
        wanted: &[bool],
    ) -> (milp::Model, Vec<(usize, milp::ColumnId)>) {
        let mut model = milp::Model::new(Sense::Maximise);
        let ids: Vec<(usize, milp::ColumnId)> = self
            .all
            .iter()
            .enumerate()
            .zip(wanted)
            .filter(|(_, wanted)| **wanted)
            .map(|((at, column), _)| {
                let trainers = self.groups.get(self.group_of(column)).map_or(1, Vec::len);
                let (most, value) = (trainers as f64, column.value / unit);
                (at, model.column(milp::Kind::Integer, 0.0, most, value))
            })
            .collect();
        c1_one_pattern(&mut model, self, &ids);
        c2_classes(&mut model, &self.all, &ids, capacity);
        (model, ids)
    }

    /// Solves the program over the `wanted` columns from `start`, the count of each column. Returns
    /// the counts of the answer, and the solver's report.
    pub(crate) fn solve(
        &self,
        capacity: &[u32],
        unit: f64,
        wanted: &[bool],
        start: &[u32],
        limits: &milp::Options,
    ) -> (Option<Vec<(usize, u32)>>, milp::Solution) {
        let (model, ids) = self.program(capacity, unit, wanted);
        let of = |&(at, _): &(usize, milp::ColumnId)| {
            let count = start.get(at).copied();
            f64::from(count.unwrap_or(0))
        };
        let solution = milp::solve(
            &model,
            &milp::Options {
                warm: Some(ids.iter().map(of).collect()),
                ..limits.clone()
            },
        );
        let chosen = solution.has_values().then(|| {
            let value = |id: milp::ColumnId| solution.values.get(id.index()).copied();
            ids.iter()
                .filter_map(|&(at, id)| Some((at, value(id)?.round() as u32)))
                .filter(|&(_, count)| count > 0)
                .collect()
        });
        (chosen, solution)
    }
}

/// C1: each trainer has one pattern.
fn c1_one_pattern(model: &mut milp::Model, columns: &Columns, ids: &[(usize, milp::ColumnId)]) {
    let mut rows = vec![Vec::new(); columns.groups.len()];
    for &(at, id) in ids {
        let column = columns.all.get(at);
        if let Some(row) = column.and_then(|c| rows.get_mut(columns.group_of(c))) {
            row.push((id, 1.0));
        }
    }
    for (row, group) in rows.into_iter().zip(&columns.groups) {
        let trainers = group.len() as f64;
        model.row(trainers, trainers, row);
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

/// The first trainer of a group, which represents it.
pub(crate) fn first(group: &[u32]) -> usize {
    group.first().map_or(0, |&j| j as usize)
}

/// The relaxation, kept by the solver between rounds.
pub(crate) struct Master {
    linear: Linear,
    groups: usize,
    classes: usize,
    unit: f64,
    /// Whether the solver failed, other than by reaching a limit.
    pub(crate) failed: bool,
    /// Whether the solver's clock ended a solve.
    pub(crate) stopped_by_clock: bool,
}

impl Master {
    /// An empty relaxation; values are divided by `unit` for the solver.
    pub(crate) fn new(columns: &Columns, capacity: &[u32], unit: f64) -> Self {
        let groups = columns.groups.iter().map(|group| group.len() as f64);
        let mut rows: Vec<(f64, f64)> = groups.map(|trainers| (trainers, trainers)).collect();
        let classes = capacity.iter().map(|&c| (f64::NEG_INFINITY, f64::from(c)));
        rows.extend(classes);
        Self {
            linear: Linear::new(Sense::Maximise, &rows),
            groups: columns.groups.len(),
            classes: capacity.len(),
            unit,
            failed: false,
            stopped_by_clock: false,
        }
    }

    /// Adds the columns that are new since the last call; false if the solver refused one.
    pub(crate) fn follow(&mut self, columns: &Columns) -> bool {
        let known = self.linear.columns();
        columns.all.iter().skip(known).all(|column| {
            let mut terms = vec![(columns.group_of(column) as u32, 1.0)];
            let first = self.groups as u32;
            let classes = column.take.iter();
            terms.extend(classes.map(|&(k, n)| (first.saturating_add(k), f64::from(n))));
            self.linear.add(column.value / self.unit, &terms)
        })
    }

    /// Solves it; nothing if the solver failed or a limit was reached.
    pub(crate) fn solve(&mut self, iterations: u32, time_limit: Duration) -> Option<Prices> {
        let vertex = self.linear.solve(iterations, time_limit);
        self.stopped_by_clock |= vertex.stopped_by_clock;
        if vertex.outcome != milp::Outcome::Optimal {
            self.failed |= vertex.outcome != milp::Outcome::NoIncumbent;
            return None;
        }
        let (group, class) = vertex.duals.split_at_checked(self.groups)?;
        let scaled = |duals: &[f64], least: f64| -> Vec<f64> {
            duals.iter().map(|d| d.max(least) * self.unit).collect()
        };
        (class.len() == self.classes).then(|| Prices {
            group: scaled(group, f64::NEG_INFINITY),
            class: scaled(class, 0.0),
            objective: vertex.objective * self.unit,
            shares: vertex.values,
        })
    }
}
