//! The cases of the benchmark: traces with trainers.

use std::path::Path;

use lacuna_batchsim::workload::generated_machine;
use lacuna_cli::error::{CliError, Result};
use lacuna_cli::log::{Bar, LogOptions, load};
use lacuna_model::{RescaleCost, Timestamp, TrainerId, TrainerSpec, Work};
use lacuna_planner::instance;
use lacuna_sim::{HoleTrace, PoolTrace};
use lacuna_trace::{first_nodes, read_holes, read_nodes};
use lacuna_trainer_file::{Purpose, read};

use crate::bench::data::{self, unreadable};

/// A replay to be measured.
pub(super) struct Case {
    /// Its name.
    pub(super) name: String,
    /// Its trace.
    pub(super) recording: Box<dyn PoolTrace>,
    /// Its trainers.
    pub(super) trainers: Vec<TrainerSpec>,
    /// The number of trainers admitted at a time.
    pub(super) parallel: u32,
}

/// The paper's part of Summit.
const PAPER_NODES: usize = 1_024;
/// Trainers in parallel: the paper's default, and its largest number.
const PAPER_PARALLEL: u32 = 10;
const WHOLE_PARALLEL: u32 = 35;
/// The number of repetitions of a list of trainers, so that it outlasts the trace.
const ROUNDS: usize = 20;
/// Nodes and days of generated machines.
const GENERATED: [(u32, u32); 2] = [(1_024, 14), (4_734, 12)];
/// Number of synthetic trainers.
const TRAINERS: usize = 1_000;

/// The given log, or the trace of Summit, or generated machines.
///
/// # Errors
/// A file cannot be read.
pub(super) fn all(
    log: Option<&LogOptions>,
    trainers: Option<&Path>,
    parallel: u32,
    seed: u64,
    bar: &mut Bar,
) -> Result<Vec<Case>> {
    let given = trainers.map(of_file).transpose()?;
    if let Some(log) = log {
        let recording = load(log, bar)?.recording;
        let trainers = match given {
            Some(given) => given,
            None => synthetic(recording.start(), seed)?,
        };
        return Ok(vec![Case {
            name: log
                .file
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            trainers: again_and_again(&trainers, recording.start())?,
            recording,
            parallel,
        }]);
    }
    let holes = data::file("summit-2021-02/holes.csv.gz");
    let nodes = data::file("summit-2021-02/nodes.txt");
    let published = data::file("summit-2021-02/hpo-1000.jsonl.gz");
    if let (Some(holes), Some(nodes), Some(published)) = (holes, nodes, published) {
        return recorded(&holes, &nodes, &published, given);
    }
    GENERATED
        .into_iter()
        .zip([PAPER_PARALLEL, WHOLE_PARALLEL])
        .map(|((nodes, days), parallel)| {
            let holes = generated_machine(nodes, days, seed)
                .map_err(|e| CliError::failed(e.to_string()))?;
            let start = holes.iter().map(|hole| hole.from).min().unwrap_or_default();
            let trainers = match &given {
                Some(given) => given.clone(),
                None => synthetic(start, seed)?,
            };
            Ok(Case {
                name: "generated".to_owned(),
                recording: Box::new(HoleTrace::new(&holes, None, start, None)),
                trainers: again_and_again(&trainers, start)?,
                parallel,
            })
        })
        .collect()
}

/// The trainers of a file.
fn of_file(path: &Path) -> Result<Vec<TrainerSpec>> {
    let list = read(path, Purpose::Replay).map_err(|e| CliError::failed(e.to_string()))?;
    Ok(list.trainers)
}

/// The paper's scale to the end of its trainers, and the whole machine to the end of the trace.
fn recorded(
    holes: &Path,
    nodes: &Path,
    published: &Path,
    given: Option<Vec<TrainerSpec>>,
) -> Result<Vec<Case>> {
    let list = read_holes(holes).map_err(unreadable)?;
    let order = read_nodes(nodes).map_err(unreadable)?;
    let chosen = first_nodes(PAPER_NODES, Some(&order), &list.records);
    let trainers = match given {
        Some(given) => given,
        None => of_file(published)?,
    };
    let recorded = list.records.iter().map(|hole| hole.from).min();
    let recorded = recorded.unwrap_or_default();
    let submitted = trainers.iter().map(|t| t.submit).min().unwrap_or_default();
    let paper = HoleTrace::new(&list.records, Some(&chosen), submitted.max(recorded), None);
    let whole = HoleTrace::new(&list.records, None, recorded, None);
    Ok(vec![
        Case {
            name: "paper's scale".to_owned(),
            recording: Box::new(paper),
            trainers: trainers.clone(),
            parallel: PAPER_PARALLEL,
        },
        Case {
            name: "whole machine".to_owned(),
            recording: Box::new(whole),
            trainers: again_and_again(&trainers, recorded)?,
            parallel: WHOLE_PARALLEL,
        },
    ])
}

/// The list repeated many times, all submitted at the start, so that each event is replayed.
fn again_and_again(trainers: &[TrainerSpec], start: Timestamp) -> Result<Vec<TrainerSpec>> {
    (0..ROUNDS)
        .flat_map(|round| {
            trainers
                .iter()
                .enumerate()
                .map(move |(at, spec)| (round, at, spec))
        })
        .map(|(round, at, spec)| {
            let id = TrainerId::new(format!("r{round}-{at}"))
                .map_err(|e| CliError::failed(e.to_string()))?;
            Ok(TrainerSpec {
                id,
                submit: start,
                ..spec.clone()
            })
        })
        .collect()
}

/// Trainers of the seven synthetic networks, each with an hour's work of twenty nodes.
fn synthetic(start: Timestamp, seed: u64) -> Result<Vec<TrainerSpec>> {
    let networks = instance::networks(seed);
    networks
        .iter()
        .cycle()
        .take(TRAINERS)
        .enumerate()
        .map(|(at, network)| {
            Ok(TrainerSpec {
                submit: start,
                max_nodes: network.curve.last_nodes(),
                rescale: RescaleCost::of(network.up_s, network.down_s),
                work: Work::Samples(3600.0 * network.curve.at(20)),
                ..TrainerSpec::simulated(
                    TrainerId::new(format!("made-up-{at}"))
                        .map_err(|e| CliError::failed(e.to_string()))?,
                    network.curve.clone(),
                )
            })
        })
        .collect()
}
