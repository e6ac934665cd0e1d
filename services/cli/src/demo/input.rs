//! The machine of the demonstration: a recorded one if there is one, else a generated one.

use std::path::{Path, PathBuf};

use lacuna_batchsim::workload::generated_machine;
use lacuna_model::{
    HoleRecord, RescaleCost, ScalingCurve, Span, Timestamp, TrainerId, TrainerSpec, Work,
};

use crate::error::{CliError, Exit, Result, file_error};
use crate::files::write_holes;
use crate::output::iso;

/// A machine and its trainers.
#[derive(Debug, Clone)]
pub(crate) struct Input {
    /// The machine in one line.
    pub(crate) machine: String,
    /// The trainers in one line.
    pub(crate) workload: String,
    /// Short name for titles.
    pub(crate) title: String,
    /// The file of its hole list.
    pub(crate) holes: PathBuf,
    /// The file with the order of its nodes.
    pub(crate) nodes_file: Option<PathBuf>,
    /// The start in the trace.
    pub(crate) start: Timestamp,
    /// The trainers, in order of submission.
    pub(crate) trainers: Vec<TrainerSpec>,
}

/// Number of trainers of the generated workload, and the seconds over which their submissions are
/// spread evenly: as in the recorded workload.
const TRAINERS: u32 = 1000;
const SPREAD_S: f64 = 36_000.0;

/// The recorded machine, if its files exist.
fn recorded(folder: &Path, nodes: u32) -> Option<Result<Input>> {
    let folder = folder.join("summit-2021-02");
    let (holes, order) = (folder.join("holes.csv.gz"), folder.join("nodes.txt"));
    let list = folder.join("hpo-1000.jsonl.gz");
    if ![&holes, &order, &list].iter().all(|p| p.is_file()) {
        return None;
    }
    let canonical = |p: PathBuf| p.canonicalize().map_err(|e| file_error("find", &p, &e));
    let read = || {
        let list = lacuna_trainer_file::read(&list, lacuna_trainer_file::Purpose::Replay);
        let list = list.map_err(|e| CliError::new("L0011", Exit::Failed, e.to_string()))?;
        let trainers = list.trainers;
        let start = trainers.iter().map(|t| t.submit).min().unwrap_or_default();
        Ok(Input {
            machine: format!(
                "machine: the first {nodes} nodes of Summit, recorded in February 2021 (arXiv 2106.12091)"
            ),
            workload: format!(
                "trainers: {} equal ShuffleNet trainers of 1 to 64 nodes, as in that paper",
                trainers.len()
            ),
            title: format!("Summit, {nodes} nodes"),
            holes: canonical(holes)?,
            nodes_file: Some(canonical(order)?),
            start,
            trainers,
        })
    };
    Some(read())
}

/// ShuffleNet on ImageNet: samples/s by node count, measured on Summit by the authors of BFTrainer
/// and published with their replayer (arXiv 2106.12091), with their rescale costs of 18 s and 12 s.
/// One trainer has 130 million samples to do, about a hundred epochs.
pub fn shufflenet(number: u32, submit: Timestamp) -> Option<TrainerSpec> {
    let counts = [1, 2, 4, 8, 16, 32, 64];
    let rates = [
        2831.0, 5259.0, 9988.0, 20_379.2, 38_895.3, 74_125.1, 145_081.5,
    ];
    Some(TrainerSpec {
        submit,
        max_nodes: 64,
        rescale: RescaleCost::of(18.0, 12.0),
        work: Work::Samples(130e6),
        ..TrainerSpec::simulated(
            TrainerId::new(format!("J{number:05}")).ok()?,
            ScalingCurve::from_lists(&counts, &rates).ok()?,
        )
    })
}

/// The trainers of the paper, submitted from `start` on.
#[must_use]
pub(crate) fn workload(start: Timestamp) -> Vec<TrainerSpec> {
    (0..TRAINERS)
        .filter_map(|number| {
            let after = SPREAD_S * f64::from(number) / f64::from(TRAINERS - 1);
            shufflenet(number, start + Span::from_secs(after.round() as i64))
        })
        .collect()
}

/// Days of the generated machine, of which the demonstration shows a part.
const DAYS: u32 = 7;

/// The whole hour from which the number of idle nodes stays closest to its mean over all holes,
/// for a time of `shown`: by the absolute difference, summed over time. The earliest of equals.
fn ordinary_hour(holes: &[HoleRecord], shown: Span) -> Option<Timestamp> {
    let hour = Span::from_secs(3600);
    let first = holes.iter().map(|h| h.from).min()?;
    let last = holes.iter().map(|h| h.until).max()?;
    let mut changes: Vec<(Timestamp, f64)> = holes
        .iter()
        .flat_map(|h| [(h.from, 1.0), (h.until, -1.0)])
        .collect();
    changes.sort_by_key(|&(at, _)| at);
    let idle_s: f64 = holes
        .iter()
        .map(|h| h.until.since(h.from).as_secs_f64())
        .sum();
    let mean = idle_s / last.since(first).as_secs_f64().max(1.0);
    let off = |from: Timestamp| {
        let until = from + shown;
        let (mut at, mut pool, mut sum) = (from, 0.0, 0.0);
        for &(change, by) in changes.iter().take_while(|&&(change, _)| change < until) {
            let change = change.max(from);
            sum += f64::abs(pool - mean) * change.since(at).as_secs_f64();
            (at, pool) = (change, pool + by);
        }
        sum + f64::abs(pool - mean) * until.since(at).as_secs_f64()
    };
    let hours = std::iter::successors(Some(first), |&at| Some(at + hour));
    let starts = hours.take_while(|&at| at == first || at + shown <= last);
    let scored = starts.map(|at| (off(at), at));
    scored.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, at)| at)
}

fn generated(nodes: u32, seed: u64, shown: Span, folder: &Path) -> Result<Input> {
    let holes = generated_machine(nodes, DAYS, seed)
        .map_err(|e| CliError::failed(format!("cannot generate a machine: {e}")))?;
    let start = ordinary_hour(&holes, shown).unwrap_or_default();
    let path = folder.join("generated.csv.gz");
    write_holes(&path, &holes)?;
    Ok(Input {
        machine: format!(
            "machine: {nodes} generated nodes (Lublin-Feitelson workload, FCFS with EASY backfill, seed {seed}), \
             from {} on, where its pool is as on average",
            iso(start)
        ),
        workload: format!(
            "trainers: {TRAINERS} equal ShuffleNet trainers of 1 to 64 nodes, by the curve of arXiv 2106.12091"
        ),
        title: format!("generated machine, {nodes} nodes"),
        holes: path,
        nodes_file: None,
        start,
        trainers: workload(start),
    })
}

/// The recorded machine in `data`, or at the default place, or a generated one, of which the
/// demonstration shows a time of `shown`.
///
/// # Errors
/// The recorded files cannot be read, the named folder has none, or no machine can be generated.
pub(crate) fn find(
    data: Option<&Path>,
    nodes: u32,
    seed: u64,
    shown: Span,
    folder: &Path,
) -> Result<Input> {
    match data {
        Some(none) if none.as_os_str() == "none" => generated(nodes, seed, shown, folder),
        Some(named) => recorded(named, nodes).unwrap_or_else(|| {
            Err(CliError::new(
                "L0011",
                Exit::Failed,
                format!("there are no recorded data in {}", named.display()),
            )
            .remedy("expected summit-2021-02/{holes.csv.gz,nodes.txt,hpo-1000.jsonl.gz}; --data none generates a machine"))
        }),
        None => recorded(Path::new("../shared/data"), nodes)
            .unwrap_or_else(|| generated(nodes, seed, shown, folder)),
    }
}

#[cfg(test)]
mod tests {
    use lacuna_model::NodeId;
    use lacuna_testkit::{data, or_skip};

    use super::*;

    #[test]
    fn the_generated_workload_is_that_of_the_paper() {
        let start = Timestamp::from_unix(1_612_988_475);
        let ours = workload(start);
        assert_eq!(ours.len(), 1000);
        assert!(ours.iter().all(|t| t.check().is_ok()));
        let list = or_skip!(data("summit-2021-02/hpo-1000.jsonl.gz"));
        let folder = list.ancestors().nth(2).unwrap();
        let theirs = recorded(folder, 1024).unwrap().unwrap();
        assert_eq!(theirs.start, start);
        let differs = ours.iter().zip(&theirs.trainers).find(|(a, b)| a != b);
        assert_eq!(differs, None);
    }

    #[test]
    fn a_generated_machine_begins_where_its_pool_is_ordinary() {
        let hole = |node: u32, from: i64, to: i64| HoleRecord {
            node: NodeId::new(format!("n{node}")).unwrap(),
            from: Timestamp::from_unix(from * 3600),
            until: Timestamp::from_unix(to * 3600),
            censored: false,
        };
        // Ten hours: none idle but one node at the ends, then four nodes, then two, the mean.
        let mut holes = vec![hole(1, 0, 1), hole(1, 9, 10)];
        holes.extend((1..=4).map(|node| hole(node, 3, 5)));
        holes.extend((1..=2).map(|node| hole(node, 6, 9)));
        let hours = |n: i64| Some(Timestamp::from_unix(n * 3600));
        assert_eq!(ordinary_hour(&holes, Span::from_secs(2 * 3600)), hours(6));
        // A time longer than the trace begins with it.
        assert_eq!(ordinary_hour(&holes, Span::from_secs(20 * 3600)), hours(0));
        assert_eq!(ordinary_hour(&[], Span::from_secs(3600)), None);
    }

    #[test]
    fn a_folder_without_data_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let error = find(Some(dir.path()), 10, 1, Span::from_secs(60), dir.path()).unwrap_err();
        assert_eq!(error.code.as_deref(), Some("L0011"));
    }
}
