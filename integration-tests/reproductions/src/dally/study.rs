//! Runs policies on cases, each with several orders of the machines, on several threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use lacuna_cli::error::{CliError, Result};
use lacuna_cli::output::progress_bar;
use lacuna_gangs::{Cluster, Entry, Lease, Outcome, Terms, TraceJob, mean_bound_s, simulate};

use super::case::{Case, Files, refused};
use super::results::{Cell, Results};

/// What is run.
pub(super) struct Study {
    pub(super) files: Files,
    pub(super) cases: Vec<Case>,
    pub(super) policies: Vec<&'static Entry>,
    /// The seeds of the orders of machines.
    pub(super) seeds: Vec<u64>,
    /// Length of a lease, seconds.
    pub(super) lease_s: f64,
    /// The published defect, for published policies.
    pub(super) published: bool,
    /// Number of threads.
    pub(super) jobs: usize,
}

impl Study {
    /// Runs all.
    ///
    /// # Errors
    /// A trace cannot be read, or a run failed.
    pub(super) fn run(self, hidden: bool) -> Result<Results> {
        let traces = self.cases.iter().map(|case| self.files.trace(&case.trace));
        let traces = traces.collect::<Result<Vec<_>>>()?;
        let worlds: Vec<(&Case, &Vec<TraceJob>)> = self.cases.iter().zip(&traces).collect();
        let tasks: Vec<_> = worlds
            .iter()
            .flat_map(|world| self.policies.iter().map(move |policy| (*world, *policy)))
            .flat_map(|of| self.seeds.iter().map(move |seed| (of, *seed)))
            .collect();
        let bar = progress_bar(
            hidden,
            tasks.len() as u64,
            "{wide_bar} {pos}/{len} runs, {elapsed}",
        );
        let next = AtomicUsize::new(0);
        let done: Mutex<Vec<(usize, Result<Outcome>)>> = Mutex::default();
        std::thread::scope(|scope| {
            for _ in 0..self.jobs.max(1) {
                scope.spawn(|| {
                    loop {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        let Some((((case, trace), policy), seed)) = tasks.get(at) else {
                            return;
                        };
                        let run = self.one(case, trace, policy, *seed);
                        if let Ok(mut done) = done.lock() {
                            done.push((at, run));
                        }
                        bar.inc(1);
                    }
                });
            }
        });
        bar.finish_and_clear();
        let mut done = done
            .into_inner()
            .map_err(|_| CliError::failed("a run ended by a fault of its own"))?;
        done.sort_unstable_by_key(|(at, _)| *at);
        let mut runs = done.into_iter().map(|(_, run)| run);
        let mut cells = Vec::new();
        for (case, _) in &worlds {
            for policy in &self.policies {
                let of: Vec<_> = runs
                    .by_ref()
                    .take(self.seeds.len())
                    .collect::<Result<_>>()?;
                cells.push(Cell {
                    case: (*case).clone(),
                    policy,
                    runs: of,
                });
            }
        }
        let bound = |(case, trace): &(&Case, &Vec<TraceJob>)| -> Result<f64> {
            let (jobs, speeds) = self.files.world(case, trace)?;
            Ok(mean_bound_s(&jobs, &speeds))
        };
        let bounds_s = worlds.iter().map(bound).collect::<Result<_>>()?;
        Ok(Results {
            cells,
            bounds_s,
            cases: self.cases,
            seeds: self.seeds,
            published: self.published,
            lease_s: self.lease_s,
        })
    }

    fn one(&self, case: &Case, trace: &[TraceJob], policy: &Entry, seed: u64) -> Result<Outcome> {
        let (jobs, speeds) = self.files.world(case, trace)?;
        // Gangs over several machines take GPUs in the order of search.
        let cluster = Cluster::shuffled(case.layout()?, seed).taken_as_searched();
        let terms = Terms {
            lease: policy.terms.lease.map(|lease| Lease {
                length_s: self.lease_s,
                ..lease
            }),
            contention: case.contention,
            published: self.published && policy.is_published,
            ..policy.terms
        };
        let mut maker = policy.policy(seed);
        let outcome = simulate(
            &jobs,
            cluster,
            (&speeds, &terms),
            maker.as_mut(),
            &mut |_| {},
        );
        outcome.map_err(|e| {
            let mut error = refused(&e);
            error.message = format!("{}, {}: {}", case.label(), policy.name, error.message);
            error
        })
    }
}
