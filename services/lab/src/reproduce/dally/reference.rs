//! What is known: the authors' simulator, an independent prototype, the published ratios, and goals.
//!
//! The prototype's figures and the goals are constants, from a simulator that is not part of Lacuna.
//! The figures of the authors' simulator come from the file of its runs, in the folder of the data.
//!
//! Three of the prototype's 36 cells differ from ours by more than two standard errors where gangs take
//! GPUs in the order of search, the default, and five where they take them in the order of numbers. The
//! prototype seems to permute the list itself. Its means rest on three or four orders, ours on ten.
//! Gandiva is slower here; its published code is known in words only.

use serde::Deserialize;

use lacuna_cli::error::{CliError, Result};

use super::figures::{Measure, Spread};

/// The figures that are compared: makespan, mean completion time, communication.
pub(super) const COMPARED: [Measure; 3] =
    [Measure::Makespan, Measure::Mean, Measure::Communication];

/// A run of the authors' simulator, running jobs not bidding unless `published`. One order each.
#[derive(Debug, Clone, Deserialize)]
struct RunRow {
    trace: String,
    racks: u32,
    engine: String,
    policy: String,
    setting: Option<String>,
    makespan_h: f64,
    mean_jct_h: f64,
    comm_h: f64,
}

/// Runs of the authors' simulator.
#[derive(Debug, Clone, Default)]
pub(super) struct AuthorsRuns(Vec<RunRow>);

impl AuthorsRuns {
    /// Reads the file of runs.
    ///
    /// # Errors
    /// The file is malformed.
    pub(super) fn read(text: &str) -> Result<Self> {
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let rows: std::result::Result<Vec<RunRow>, csv::Error> = reader.deserialize().collect();
        rows.map(Self)
            .map_err(|e| CliError::failed(format!("reference_runs.csv: {e}")))
    }

    /// The compared figures of a policy of ours on a trace.
    pub(super) fn of(
        &self,
        trace: &str,
        racks: u32,
        policy: &str,
        published: bool,
    ) -> Option<[f64; 3]> {
        let (name, setting) = match policy {
            "dally" if published => ("dally", "auto,H=30"),
            "dally" => ("dally", "auto,H=24"),
            "dally-manual" => ("dally", "12,24"),
            "dally-no-wait" => ("dally", "0,0"),
            "dally-full" => ("dally", "infinite"),
            "tiresias" => ("tiresias", "coded"),
            "tiresias-fixed" => ("tiresias", "fixed"),
            "tiresias-all" => ("tiresias", "fixed,all"),
            "gandiva" => ("gandiva", ""),
            _ => return None,
        };
        let engine = if published { "published" } else { "corrected" };
        let wanted = |row: &&RunRow| {
            row.trace == trace
                && row.racks == racks
                && row.engine == engine
                && row.policy == name
                && row.setting.as_deref().unwrap_or("") == setting
        };
        let found = self.0.iter().find(wanted)?;
        Some([found.makespan_h, found.mean_jct_h, found.comm_h])
    }
}

/// A cell of the prototype: mean and deviation.
type Cell = (f64, f64);

/// The prototype's lease engine: trace, policy, and the compared figures.
const PROTOTYPE: [(&str, &str, [Cell; 3]); 12] = [
    (
        "batch500",
        "dally",
        [(650.0, 118.0), (91.2, 5.3), (2711.0, 465.0)],
    ),
    (
        "batch500",
        "dally-no-wait",
        [(801.0, 137.0), (121.9, 15.3), (3002.0, 545.0)],
    ),
    (
        "batch500",
        "dally-full",
        [(645.0, 75.0), (89.0, 6.8), (2775.0, 426.0)],
    ),
    (
        "batch500",
        "tiresias",
        [(652.0, 33.0), (91.5, 4.3), (3592.0, 361.0)],
    ),
    (
        "batch500",
        "tiresias-fixed",
        [(645.0, 70.0), (80.3, 5.9), (2845.0, 556.0)],
    ),
    (
        "batch500",
        "tiresias-all",
        [(785.0, 143.0), (86.5, 5.4), (3672.0, 935.0)],
    ),
    (
        "week1",
        "dally",
        [(724.0, 97.0), (72.8, 14.8), (3242.0, 475.0)],
    ),
    (
        "week1",
        "dally-no-wait",
        [(912.0, 107.0), (169.9, 40.4), (5051.0, 785.0)],
    ),
    (
        "week1",
        "dally-full",
        [(603.0, 22.0), (70.2, 8.0), (2788.0, 148.0)],
    ),
    (
        "week1",
        "tiresias",
        [(695.0, 39.0), (50.5, 5.6), (3374.0, 324.0)],
    ),
    (
        "week1",
        "tiresias-fixed",
        [(822.0, 120.0), (58.9, 11.6), (4006.0, 751.0)],
    ),
    (
        "week1",
        "tiresias-all",
        [(658.0, 51.0), (44.4, 3.5), (2913.0, 374.0)],
    ),
];

/// The compared figures of the prototype, in the authors' setting.
pub(super) fn prototype(trace: &str, policy: &str) -> Option<[Spread; 3]> {
    let row = PROTOTYPE
        .iter()
        .find(|(t, p, _)| *t == trace && *p == policy)?;
    let runs = if trace == "batch500" { 4 } else { 3 };
    Some(row.2.map(|(mean, deviation)| Spread {
        mean,
        deviation,
        runs,
    }))
}

/// The published reductions, by Dally against other policies: makespan, mean completion time,
/// communication, "up to".
pub(super) const PUBLISHED: [f64; 3] = [0.69, 0.83, 0.98];

/// An aim for a policy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Goal {
    pub(super) trace: &'static str,
    pub(super) fabric: &'static str,
    pub(super) policy: &'static str,
    pub(super) measure: Measure,
    /// At most this.
    pub(super) most: f64,
}

const fn goal(
    (trace, fabric): (&'static str, &'static str),
    policy: &'static str,
    measure: Measure,
    most: f64,
) -> Goal {
    Goal {
        trace,
        fabric,
        policy,
        measure,
        most,
    }
}

const BATCH: (&str, &str) = ("batch500", "paper");
const WEEK: (&str, &str) = ("week1", "paper");
const HDR: (&str, &str) = ("batch500", "hdr");

/// The aims, on two racks: in fabric paper with the authors' calibration, in hdr with one batch an
/// iteration. They are what the prototype reached.
pub(super) const GOALS: [Goal; 22] = [
    goal(BATCH, "replan-path", Measure::Makespan, 435.0),
    goal(BATCH, "replan-path", Measure::Mean, 43.0),
    goal(BATCH, "replan-path", Measure::Communication, 1430.0),
    goal(WEEK, "replan-path", Measure::Makespan, 506.0),
    goal(WEEK, "replan-path", Measure::Mean, 18.7),
    goal(WEEK, "replan-path", Measure::Communication, 1875.0),
    goal(BATCH, "replan-makespan", Measure::Makespan, 400.0),
    goal(BATCH, "replan-makespan", Measure::Mean, 60.0),
    goal(BATCH, "replan-levels", Measure::Mean, 66.0),
    goal(WEEK, "replan-levels", Measure::Mean, 25.0),
    goal(BATCH, "replan-learnt", Measure::Mean, 66.0),
    goal(WEEK, "replan-learnt", Measure::Mean, 25.0),
    goal(BATCH, "wait-learnt", Measure::Mean, 66.0),
    goal(WEEK, "wait-learnt", Measure::Mean, 25.0),
    goal(BATCH, "malleable", Measure::Makespan, 264.0),
    goal(BATCH, "malleable", Measure::Mean, 35.8),
    goal(WEEK, "malleable", Measure::Makespan, 248.0),
    goal(WEEK, "malleable", Measure::Mean, 7.2),
    goal(HDR, "replan-path", Measure::Makespan, 236.0),
    goal(HDR, "replan-path", Measure::Mean, 32.6),
    goal(HDR, "malleable", Measure::Makespan, 264.0),
    goal(HDR, "malleable", Measure::Mean, 35.5),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_the_authors_are_found_by_our_names() {
        let text = "trace,racks,machines_per_rack,gpus_per_machine,engine,policy,setting,makespan_h,mean_jct_h,comm_h\n\
                    batch500,2,8,8,corrected,dally,\"auto,H=24\",812.5,111.0,3629.0\n\
                    batch500,2,8,8,corrected,gandiva,,2835.5,910.4,14488.0\n\
                    batch500,2,8,8,published,tiresias,coded,12342.1,3420.4,10231.0\n";
        let runs = AuthorsRuns::read(text).unwrap();
        assert_eq!(
            runs.of("batch500", 2, "dally", false),
            Some([812.5, 111.0, 3629.0])
        );
        assert_eq!(
            runs.of("batch500", 2, "gandiva", false).map(|f| f[0]),
            Some(2835.5)
        );
        assert_eq!(
            runs.of("batch500", 2, "tiresias", true).map(|f| f[0]),
            Some(12_342.1)
        );
        assert_eq!(runs.of("batch500", 2, "tiresias", false), None);
        assert_eq!(runs.of("batch500", 2, "replan-path", false), None);
        assert!(AuthorsRuns::read("trace,racks\nx,y\n").is_err());
    }
}
