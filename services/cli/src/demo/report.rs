//! The report of the demonstration.

use std::path::Path;

use lacuna_model::Timestamp;
use lacuna_report::{Losses, PoolPoint, Report, TrainerRow, bin_holes, render};
use lacuna_trainer::measure;

use super::input::Input;
use super::outcome::Outcome;
use super::play::Played;
use crate::error::{CliError, Exit, Result, file_error};
use crate::files::{beside, discard, not_a_file, replace};

/// Below this recorded time, seconds, an efficiency is noise.
const FIRST_EFFICIENCY_S: f64 = 600.0;

fn seconds(at: Timestamp, start: Timestamp) -> f64 {
    at.since(start).as_secs_f64().max(0.0)
}

/// Fills the report of the demonstration.
#[must_use]
pub(crate) fn fill(
    input: &Input,
    played: &Played,
    outcome: &Outcome,
    rate: f64,
    max_parallel: u32,
) -> Report {
    let totals = &played.last.totals;
    let start = totals.since;
    let pool = played.readings.iter().map(|r| PoolPoint {
        at_s: seconds(r.now, start),
        pool: r.pool_nodes,
        used: r.leased_nodes,
    });
    let efficiency = played.readings.iter().filter_map(|r| {
        let at = seconds(r.now, start);
        let known = r.efficiency.known().filter(|_| at >= FIRST_EFFICIENCY_S);
        known.map(|u| (at, u))
    });
    let trainers = played.trainers.iter().map(|t| TrainerRow {
        name: t.spec.id.to_string(),
        admitted_s: t.started.map_or(0.0, |at| seconds(at, start)),
        ended_s: t.ended.map(|at| seconds(at, start)),
        samples: t.samples(),
        preemptions: t.preemptions,
        sizes: played
            .sizes
            .get(&t.spec.id)
            .into_iter()
            .flatten()
            .map(|&(at, nodes)| (seconds(at, start), nodes))
            .collect(),
    });
    Report {
        title: format!("Lacuna: {}", input.title),
        subtitle: format!(
            "{:.1} recorded hours at {rate} times their speed, through ingest, forecast, planner, control and agents",
            outcome.hours
        ),
        figures: outcome.figures(),
        settings: vec![
            ("machine".to_owned(), input.machine.clone()),
            ("trainers".to_owned(), input.workload.clone()),
            ("at a time".to_owned(), max_parallel.to_string()),
            ("speed".to_owned(), format!("{rate}x")),
        ],
        pool: pool.collect(),
        efficiency: efficiency.collect(),
        trainers: trainers.collect(),
        holes: bin_holes(played.holes_s.iter().copied()),
        losses: Some(Losses {
            samples: totals.samples,
            rescale: measure::samples_lost(totals.rescale_cost, &totals.stalls.rescale),
            preempt: measure::samples_lost(totals.preempt_cost, &totals.stalls.preempt),
        }),
        solve_seconds: played.latencies.clone(),
        notes: vec![
            "Efficiency is samples done over those of the same trainers on as many dedicated nodes as were \
             idle on average, in the same time (arXiv 2106.12091)."
                .to_owned(),
            format!(
                "It stays below 100 % since changes of size cost time, since twice the nodes are not \
                 twice the rate while the pool varies, and by this speed: at {rate} times a millisecond \
                 of computing is {:.1} s of the machine.",
                rate / 1000.0
            ),
            "Decision times run from the newest input of a plan to the plan, on this computer."
                .to_owned(),
        ],
        ..Report::default()
    }
}

/// Checks that the report can be written, before the long part.
///
/// # Errors
/// `L0011`, with a remedy.
pub(crate) fn require_writable(path: &Path) -> Result<()> {
    let half = beside(path);
    std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&half)
        .map(|_| discard(&half, path))
        .map_err(|e| file_error("write", path, &e).remedy("give another --report"))?;
    if path.is_dir() {
        return Err(CliError::new(
            "L0011",
            Exit::Failed,
            format!("cannot write {}: it is a folder", path.display()),
        ));
    }
    Ok(())
}

/// Writes the page to a temporary file and renames it, so that a full disk leaves no partial page.
///
/// # Errors
/// `L0011`, with the error of the system.
pub(crate) fn write(path: &Path, report: &Report) -> Result<()> {
    replace(path, |half| {
        use std::io::Write as _;
        let mut file = std::fs::File::create(half)?;
        file.write_all(render(report).as_bytes())?;
        file.sync_all().or_else(not_a_file)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unwritable_report_is_found_before_the_run() {
        let dir = tempfile::tempdir().unwrap();
        assert!(require_writable(&dir.path().join("no/such/folder.html")).is_err());
        assert!(require_writable(dir.path()).is_err());
        let good = dir.path().join("r.html");
        require_writable(&good).unwrap();
        write(
            &good,
            &Report {
                title: "A <b>".into(),
                ..Report::default()
            },
        )
        .unwrap();
        let page = std::fs::read_to_string(&good).unwrap();
        assert!(page.starts_with("<!doctype html>") && page.contains("A &lt;b&gt;"));
    }
}
