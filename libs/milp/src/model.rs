//! The program as plain data.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Whether more or less is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sense {
    /// More is better.
    Maximise,
    /// Less is better.
    Minimise,
}

/// Which values a column may take between its bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// Any number.
    Continuous,
    /// Whole numbers.
    Integer,
}

/// A column of a [`Model`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ColumnId(pub(crate) u32);

impl ColumnId {
    /// The place of the column in [`crate::Solution::values`].
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Column {
    pub(crate) lower: f64,
    pub(crate) upper: f64,
    pub(crate) cost: f64,
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) lower: f64,
    pub(crate) upper: f64,
    pub(crate) terms: Vec<(ColumnId, f64)>,
}

/// `max` or `min` of `cost . x` with `lower <= A x <= upper` and bounds on each column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Model {
    pub(crate) sense: Sense,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Row>,
}

/// Heuristics of the solver besides branch and bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Heuristics {
    /// The default ones: searches of parts of the model, which take time.
    #[default]
    Usual,
    /// No expensive ones: no such searches, no restarts, no search for symmetry. For models with a
    /// good start and a known bound.
    None,
}

/// Limits of a solve, by work, so that its answer does not depend on the machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Most nodes of branch and bound; `u32::MAX` for no limit.
    pub tree_nodes: u32,
    /// Most iterations of the simplex method, if no column is an integer.
    pub iterations: u32,
    /// Emergency stop by the wall clock.
    pub time_limit: Duration,
    /// Relative gap between bound and objective that counts as optimal; 0 asks for proof.
    pub gap: f64,
    /// Heuristics besides branch and bound.
    pub heuristics: Heuristics,
    /// A value for each column to start from, feasible or not.
    pub warm: Option<Vec<f64>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            tree_nodes: 1_000,
            iterations: 10_000,
            time_limit: Duration::from_secs(30),
            gap: 0.0,
            heuristics: Heuristics::Usual,
            warm: None,
        }
    }
}

/// A violation of a model by values.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Violation {
    /// The number of values differs from the number of columns.
    #[error("{values} values for {columns} columns")]
    Length {
        /// Number of values.
        values: usize,
        /// Number of columns.
        columns: usize,
    },
    /// A column is out of its bounds, or not a whole number.
    #[error("column {column} is {value}, outside {lower}..={upper} or not whole")]
    Column {
        /// Place of the column.
        column: usize,
        /// Its value.
        value: f64,
        /// Its lower bound.
        lower: f64,
        /// Its upper bound.
        upper: f64,
    },
    /// A row is out of its bounds.
    #[error("row {row} is {value}, outside {lower}..={upper}")]
    Row {
        /// Place of the row.
        row: usize,
        /// Its value.
        value: f64,
        /// Its lower bound.
        lower: f64,
        /// Its upper bound.
        upper: f64,
    },
}

impl Model {
    /// An empty model.
    #[must_use]
    pub const fn new(sense: Sense) -> Self {
        Self {
            sense,
            columns: Vec::new(),
            rows: Vec::new(),
        }
    }

    /// Adds a column with its bounds (infinite ones allowed) and objective coefficient.
    pub fn column(&mut self, kind: Kind, lower: f64, upper: f64, cost: f64) -> ColumnId {
        let id = ColumnId(self.columns.len() as u32);
        self.columns.push(Column {
            lower,
            upper,
            cost,
            kind,
        });
        id
    }

    /// Adds a column that is 0 or 1.
    pub fn binary(&mut self, cost: f64) -> ColumnId {
        self.column(Kind::Integer, 0.0, 1.0, cost)
    }

    /// Adds the row `lower <= sum of coefficient * column <= upper` (infinite bounds allowed).
    /// No column may come twice.
    pub fn row(
        &mut self,
        lower: f64,
        upper: f64,
        terms: impl IntoIterator<Item = (ColumnId, f64)>,
    ) {
        self.rows.push(Row {
            lower,
            upper,
            terms: terms.into_iter().collect(),
        });
    }

    /// Number of columns.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns.len()
    }

    /// Number of integer columns.
    #[must_use]
    pub fn integers(&self) -> usize {
        let whole = |column: &&Column| column.kind == Kind::Integer;
        self.columns.iter().filter(whole).count()
    }

    /// The objective of these values.
    #[must_use]
    pub fn objective(&self, values: &[f64]) -> f64 {
        let terms = self.columns.iter().zip(values);
        terms.map(|(column, value)| column.cost * value).sum()
    }

    /// Checks values against all bounds, each to `tolerance` of the larger of 1 and the bound.
    ///
    /// # Errors
    /// The first [`Violation`].
    pub fn check(&self, values: &[f64], tolerance: f64) -> Result<(), Violation> {
        if values.len() != self.columns.len() {
            return Err(Violation::Length {
                values: values.len(),
                columns: self.columns.len(),
            });
        }
        let outside = |value: f64, lower: f64, upper: f64| {
            value.is_nan()
                || value < lower - tolerance * lower.abs().max(1.0)
                || value > upper + tolerance * upper.abs().max(1.0)
        };
        for (at, (column, &value)) in self.columns.iter().zip(values).enumerate() {
            let whole =
                column.kind == Kind::Continuous || (value - value.round()).abs() <= tolerance;
            if !whole || outside(value, column.lower, column.upper) {
                return Err(Violation::Column {
                    column: at,
                    value,
                    lower: column.lower,
                    upper: column.upper,
                });
            }
        }
        for (at, row) in self.rows.iter().enumerate() {
            let value: f64 = row
                .terms
                .iter()
                .map(|(id, factor)| factor * values.get(id.index()).copied().unwrap_or(f64::NAN))
                .sum();
            if outside(value, row.lower, row.upper) {
                return Err(Violation::Row {
                    row: at,
                    value,
                    lower: row.lower,
                    upper: row.upper,
                });
            }
        }
        Ok(())
    }
}
