//! Solves the allocation problems of a trace twice: with memory and afresh.
//!
//! Trainers never end here; the other events are those of a replay. Both solvers therefore meet the
//! same problems in the same order, as a planner does.

use std::collections::HashMap;
use std::sync::Arc;

use lacuna_cli::error::{CliError, Exit, Result};
use lacuna_model::TrainerSpec;
use lacuna_planner::dp::{Memory, Solver};
use lacuna_planner::{Far, Item, Problem, Sizes};

use super::cases::Case;

/// Mean times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Solves {
    pub(super) count: u64,
    /// Seconds a solve by the solver that keeps its work.
    pub(super) kept_s: f64,
    /// Seconds a solve by the solver that starts afresh.
    pub(super) afresh_s: f64,
}

/// Time horizon of the published evaluation, seconds.
const HORIZON_S: f64 = 120.0;

/// The holders of the nodes.
#[derive(Debug, Default)]
struct Holders {
    /// For each node of the pool its trainer, if it has one.
    of: HashMap<u32, Option<usize>>,
    /// Nodes without a trainer.
    free: Vec<u32>,
    /// Nodes of each trainer, the newest last.
    nodes: Vec<Vec<u32>>,
}

impl Holders {
    fn open(&mut self, node: u32) {
        if self.of.insert(node, None).is_none() {
            self.free.push(node);
        }
    }

    fn close(&mut self, node: u32) {
        let list = match self.of.remove(&node) {
            Some(Some(trainer)) => self.nodes.get_mut(trainer),
            Some(None) => Some(&mut self.free),
            None => None,
        };
        if let Some(list) = list {
            list.retain(|&held| held != node);
        }
    }

    /// Gives each trainer its nodes: first all trainers give, then all take.
    fn resize(&mut self, counts: &[u32]) {
        for (nodes, &count) in self.nodes.iter_mut().zip(counts) {
            let count = count as usize;
            for node in nodes.drain(count.min(nodes.len())..) {
                self.of.insert(node, None);
                self.free.push(node);
            }
        }
        for (trainer, (nodes, &count)) in self.nodes.iter_mut().zip(counts).enumerate() {
            while nodes.len() < count as usize {
                let Some(node) = self.free.pop() else { return };
                self.of.insert(node, Some(trainer));
                nodes.push(node);
            }
        }
    }
}

/// One table of rates for equal trainers, as a planner shares them.
fn items(trainers: &[TrainerSpec]) -> Vec<Item> {
    let mut tables: Vec<(&TrainerSpec, Arc<[f64]>)> = Vec::new();
    trainers
        .iter()
        .map(|spec| {
            let alike = |known: &&(&TrainerSpec, Arc<[f64]>)| {
                known.0.max_nodes == spec.max_nodes
                    && known.0.objective_curve() == spec.objective_curve()
            };
            let known = tables.iter().find(alike).map(|known| known.1.clone());
            let value = known.unwrap_or_else(|| {
                let table: Arc<[f64]> = spec.objective_curve().table(spec.max_nodes).into();
                tables.push((spec, table.clone()));
                table
            });
            Item {
                current: 0,
                min: spec.min_nodes,
                max: spec.max_nodes,
                value,
                rate_now: 0.0,
                up_s: spec.rescale.up_s,
                pilot_s: 0.0,
                far: Far::default(),
                kinds: None,
                down_s: spec.rescale.down_s,
                lost: lacuna_planner::Lost::default(),
            }
        })
        .collect()
}

/// Solves all problems of the trace twice.
///
/// # Errors
/// The trace cannot be read, or the two answers differ, which is a bug.
pub(super) fn solves(case: &Case, stopwatch: &dyn Fn() -> f64) -> Result<Solves> {
    let failed = |e: lacuna_sim::SimError| CliError::failed(e.to_string());
    let parallel = (case.parallel as usize).min(case.trainers.len());
    let trainers = items(case.trainers.get(..parallel).unwrap_or_default());
    let mut holders = Holders {
        nodes: vec![Vec::new(); parallel],
        ..Holders::default()
    };
    let mut problem = Problem {
        nodes: 0,
        horizon_s: HORIZON_S,
        trainers,
    };
    let mut keeping = Solver::with(Memory::Kept);
    let mut beginning = Solver::with(Memory::Forgotten);
    let timed = |solver: &mut Solver, problem: &Problem| -> (Sizes, f64) {
        let before = stopwatch();
        let sizes = solver.solve(problem);
        (sizes, stopwatch() - before)
    };
    let (mut count, mut kept_s, mut afresh_s) = (0_u64, 0.0, 0.0);
    let mut steps = case.recording.steps().map_err(failed)?;
    while let Some(step) = steps.next().map_err(failed)? {
        for &node in step.closed {
            holders.close(node);
        }
        for &(node, _) in step.opened {
            holders.open(node);
        }
        problem.nodes = holders.of.len() as u32;
        for (item, nodes) in problem.trainers.iter_mut().zip(&holders.nodes) {
            item.current = nodes.len() as u32;
            let rate = item.value.get(nodes.len()).copied();
            item.rate_now = rate.filter(|_| item.current >= item.min).unwrap_or(0.0);
        }
        // The second solver finds the problem in the processor's caches, so the solvers take turns.
        let first = (count % 2 == 1).then(|| timed(&mut beginning, &problem));
        let (kept, kept_took) = timed(&mut keeping, &problem);
        let (afresh, afresh_took) = first.unwrap_or_else(|| timed(&mut beginning, &problem));
        if kept != afresh {
            let mut error = CliError::failed(format!(
                "memory changed an answer at solve {count}: {kept:?}, not {afresh:?}"
            ));
            error.exit = Exit::Internal;
            return Err(error);
        }
        count += 1;
        kept_s += kept_took;
        afresh_s += afresh_took;
        holders.resize(&kept.counts);
    }
    let mean = |sum: f64| sum / count.max(1) as f64;
    Ok(Solves {
        count,
        kept_s: mean(kept_s),
        afresh_s: mean(afresh_s),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_one_holder_and_is_given_back() {
        let mut holders = Holders {
            nodes: vec![Vec::new(); 2],
            ..Holders::default()
        };
        for node in 0..5 {
            holders.open(node);
        }
        holders.resize(&[3, 2]);
        assert_eq!(holders.free.len(), 0);
        let lost = holders.nodes[0][1];
        holders.close(lost);
        holders.close(lost);
        assert_eq!(holders.nodes[0].len(), 2);
        // The first trainer gives one node, which the second takes.
        holders.resize(&[1, 3]);
        assert_eq!((holders.nodes[0].len(), holders.nodes[1].len()), (1, 3));
        let mut all: Vec<u32> = holders.nodes.concat();
        all.sort_unstable();
        let expected: Vec<u32> = (0..5).filter(|&node| node != lost).collect();
        assert_eq!(all, expected);
        assert!(all.iter().all(|node| holders.of.contains_key(node)));
    }
}
