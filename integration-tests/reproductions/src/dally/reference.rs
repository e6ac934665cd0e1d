//! What is published: the authors' simulator, whose runs are in the folder of the data, and the
//! reductions of the abstract.

use serde::Deserialize;

use lacuna_cli::error::{CliError, Result};

use super::figures::Measure;

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

/// The published reductions, by Dally against other policies: makespan, mean completion time,
/// communication, "up to".
pub(super) const PUBLISHED: [f64; 3] = [0.69, 0.83, 0.98];

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
        assert_eq!(runs.of("batch500", 2, "replan-shortest", false), None);
        assert!(AuthorsRuns::read("trace,racks\nx,y\n").is_err());
    }
}
