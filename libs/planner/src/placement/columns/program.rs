//! The program over the generated columns, solved by HiGHS.

use lacuna_milp as milp;

use super::answer::gap;
use super::incumbent::Choice;
use super::master::first;
use super::work::{Best, LARGEST, Work};
use super::{Column, Error, Source};

/// Number of added columns that may be part of a better answer.
const NEAR: usize = 200;

/// About the most columns of the program. Its time grows with them much faster than its gain: with
/// 500 it took ten times as long, and answers were no better at the median.
const MOST: usize = 150;

impl Work<'_> {
    /// Solves the program over the generated columns that can be part of a better answer.
    pub(super) fn program(&mut self, best: &mut Best) -> Result<(), Error> {
        let Some(left) = self.clock.left() else {
            return Ok(());
        };
        for column in &best.choice.chosen {
            self.columns.add(column.clone());
        }
        // A column of a better answer has a reduced value within `slack` of its trainer's best: the
        // distance of bound and best answer.
        let slack = self.bound - best.objective;
        let slack = slack + 1e-9 * self.bound.abs();
        if slack.is_finite() && gap(best.objective, self.bound) > self.options.gap {
            let groups: Vec<usize> = self.columns.groups().iter().map(|g| first(g)).collect();
            let most = NEAR / groups.len().max(1) + 1;
            for (j, top) in groups.into_iter().zip(&self.tops) {
                let mut near = Vec::new();
                self.patterns
                    .near(j, &self.at, top - slack, most, &mut near);
                for column in near {
                    self.columns.check(&column, Some(j))?;
                    self.columns.add(column);
                }
            }
        }
        let largest = self.columns.all.iter().map(|c| c.value.abs());
        let largest = largest.fold(0.0, f64::max);
        let unit = if largest > 0.0 {
            largest / LARGEST
        } else {
            1.0
        };
        let start = self.columns.count(&best.choice.chosen);
        let short = |column: &Column| {
            let top = self.tops.get(self.columns.group_of(column));
            top.map_or(0.0, |top| top - column.reduced(&self.at))
        };
        // The number of columns bounds the time of the solver.
        let mut shorts: Vec<f64> = self.columns.all.iter().map(short).collect();
        shorts.sort_by(f64::total_cmp);
        let slack = shorts.get(MOST).map_or(slack, |&most| slack.min(most));
        let wanted = self.columns.all.iter().zip(&start);
        let wanted: Vec<bool> = wanted
            .map(|(column, &chosen)| chosen > 0 || short(column) <= slack)
            .collect();
        let limits = milp::Options {
            tree_nodes: self.options.tree_nodes,
            time_limit: left,
            gap: self.options.gap,
            heuristics: milp::Heuristics::None,
            ..milp::Options::default()
        };
        let (found, solution) = self
            .columns
            .solve(self.capacity, unit, &wanted, &start, &limits);
        self.clock.stop_if(solution.stopped_by_clock);
        self.failed |= matches!(
            solution.outcome,
            milp::Outcome::Failed { .. } | milp::Outcome::Infeasible | milp::Outcome::Unbounded
        );
        if let Some(found) = found {
            let mut choice = Choice::keep(&self.columns, self.capacity);
            choice.lay(self.columns.deal(found.into_iter()).iter());
            best.update(choice, Source::Highs);
        }
        Ok(())
    }
}
