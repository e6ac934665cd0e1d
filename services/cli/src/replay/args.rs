//! The arguments of `lacuna replay`.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use lacuna_model::Policy;
use lacuna_planner::objective::{Objective, ObjectiveError};
use lacuna_sim::{Beside, Forecasting, Practice, Settings};
use lacuna_trace::topology::TopologyOptions;
use lacuna_trainer::settings::Control;

use super::model::ModelArg;
use super::network::Network;
use super::request::{Request, Shown};
use crate::error::Result;
use crate::log::LogArgs;

/// Headings of the help.
const TRAINERS: &str = "The trainers";
const DECIDES: &str = "The decisions";
const NODES: &str = "The nodes";
const SHOWS: &str = "The output";

/// The switches that `--help` shows.
pub(crate) const USUAL: &[&str] = &[
    "log",
    "from_slurm",
    "trainers",
    "max_parallel",
    "policy",
    "objective",
    "json",
    "report",
    "machine_nodes",
];

/// Examples below the help of `lacuna replay`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  lacuna replay theta_2022.swf.gz --report out.html
  lacuna replay --from-slurm 90d --report out.html
  lacuna replay holes.csv.gz --trainers mine.jsonl --objective 'weight * speedup^0.9'";

/// The text below the long help.
pub(crate) const MORE: &str = "\
Examples:
  lacuna replay theta_2022.swf.gz --report out.html
  lacuna replay theta_2022.swf.gz --beside requeue,torchrun-elastic,dp --report out.html
  lacuna replay --from-slurm 90d --report out.html
  lacuna replay sacct.log --columns jobid,user,submit,start,end,nnodes,timelimit,nodelist
  lacuna replay accounting.log --time-zone America/Chicago --trainers job.toml
  lacuna replay holes.csv.gz --trainers hpo.jsonl.gz --first-nodes 1024
  lacuna replay holes.csv.gz --trainers mixed.jsonl.gz --max-parallel 35 --report out.html --json
  lacuna replay holes.csv.gz --trainers mine.jsonl --objective 'weight * speedup^0.9'
  lacuna replay holes.csv.gz --from 2021-02-15T00:00:00Z --model model.lacuna
  lacuna replay holes.csv.gz --topology leaves.csv --trainers located.jsonl --report out.html
  lacuna replay holes.csv.gz --kinds kinds.csv --trainers by-kind.jsonl

Takes any log of a batch scheduler: Standard Workload Format, Slurm (sacct, jobcomp,
slurmctld.log, sinfo), PBS, LSF, states of nodes, or a list of holes
(node,idle_from,idle_until,censored, in Unix seconds). A simulated batch scheduler places jobs
that name no nodes. `lacuna holes` has more switches for reading a log, and writes a list of holes.
Trainers are a submit file, or the same keys as JSON lines; without --trainers, an endless stream trains
ShuffleNet on ImageNet, with the curve and the costs of the paper (arXiv 2106.12091). All files may
be compressed.
An objective may be an expression of n (nodes), rate (samples/s on n nodes), rate1, speedup,
weight, priority, min_nodes, max_nodes and samples_left, such as 'weight * speedup^0.9'; with
+ - * / ^, comparisons, min, max, abs, sqrt, exp, ln, log2, floor, ceil and
if(condition, then, else).
Shares lost are samples lost over samples done. `lacuna-lab replay` has the switches of experiments.";

/// Arguments of `replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// The trainers, as `submit` reads them [default: an endless stream of ShuffleNet on ImageNet]
    #[arg(long, help_heading = TRAINERS, value_name = "FILE")]
    trainers: Option<PathBuf>,
    /// Number of trainers admitted at a time [default: 10; without --trainers as many as the whole
    /// machine has room for]
    #[arg(long, help_heading = TRAINERS, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MOST_PARALLEL))]
    max_parallel: Option<u32>,
    /// The policy that decides which trainer gets which nodes
    #[arg(long, help_heading = DECIDES, value_parser = policy(), default_value = Policy::default().name())]
    policy: Policy,
    /// Objective: fair (what the list of trainers asks for, within fair shares of their owners),
    /// as-given (the same without shares), throughput, scaling-efficiency, goodput, weighted,
    /// deadline, least-attained, or an expression
    #[arg(long, help_heading = DECIDES, value_name = "OBJECTIVE", default_value = "fair", value_parser = objective, allow_hyphen_values = true)]
    objective: Objective,
    #[command(flatten, next_help_heading = DECIDES)]
    model: ModelArg,
    /// Keep this many idle nodes free for batch jobs that must start at once, as `lacuna limits set
    /// --keep-idle` does
    #[arg(long, help_heading = NODES, value_name = "N", default_value_t = 0)]
    keep_idle: usize,
    /// Where nodes are: a file as for `lacuna check topology`, or CSV (node,leaf[,pod...]). Behind the
    /// file: the resources of PBS that name the switches above a node, the leaf first, or the
    /// adapters of ibnetdiscover that count
    #[arg(long, help_heading = NODES, value_name = "FILE[,NAME...]")]
    topology: Option<String>,
    /// The kinds of nodes, for trainers that tell them apart: a CSV file, node,kind
    #[arg(long, help_heading = NODES, value_name = "FILE")]
    kinds: Option<PathBuf>,
    /// Replay beside the policy, on the same holes, what centres run today: a preemptible partition of
    /// jobs with a fixed size (requeue), an elastic launcher (torchrun-elastic); and simple rules
    #[arg(long, help_heading = SHOWS, value_name = "PRACTICES", value_delimiter = ',', value_parser = practice())]
    beside: Vec<Practice>,
    /// Print exactly one JSON value
    #[arg(long, help_heading = SHOWS)]
    json: bool,
    /// Write a self-contained HTML report
    #[arg(long, help_heading = SHOWS, value_name = "FILE")]
    report: Option<PathBuf>,
    // The log comes last, since its headings apply to all that follow.
    #[command(flatten)]
    log: LogArgs,
}

/// The most trainers at a time. An endless list is repeated to this number, so a typing error must
/// not make billions of them.
const MOST_PARALLEL: i64 = 100_000;

/// The policies by name, each with a description.
fn policy() -> impl TypedValueParser<Value = Policy> {
    let value = |policy: Policy| {
        PossibleValue::new(policy.name()).help(match policy {
            Policy::Auto => "forecast where holes are forecast jointly, else dp: the default of the planner service",
            Policy::Forecast => "Nodes by forecasts of their holes, by dynamic programming",
            Policy::Dp => "Sizes by dynamic programming, exactly; nodes afterwards",
            Policy::Milp => "Sizes by a mixed-integer program, exactly; nodes afterwards",
            Policy::EqualShare => "Equal share, first-come-first-served",
        })
    };
    let named = |name: String| {
        let policy = Policy::ALL.into_iter().find(|p| p.name() == name);
        policy.ok_or("no such policy")
    };
    PossibleValuesParser::new(Policy::ALL.map(value)).try_map(named)
}

/// The practices beside the policy, each with a description.
fn practice() -> impl TypedValueParser<Value = Practice> {
    let value = |practice: Practice| {
        PossibleValue::new(practice.name()).help(match practice {
            Practice::Requeue => {
                "Jobs of the best fixed size, killed with a node and started again"
            }
            Practice::TorchrunElastic => "All members start again whenever nodes come or go",
            Practice::Dp => "Lacuna without forecasts",
            Practice::EqualShare => "Lacuna with equal shares, first-come-first-served",
        })
    };
    let named = |name: String| {
        let practice = Practice::ALL
            .into_iter()
            .find(|practice| practice.name() == name);
        practice.ok_or("no such practice")
    };
    PossibleValuesParser::new(Practice::ALL.map(value)).try_map(named)
}

/// A file, and the names behind it. The longest part that is a file is the file, since a path may hold a
/// comma; without one it ends at the first.
fn file_and_names(text: &str) -> (PathBuf, Vec<String>) {
    let ends = text.match_indices(',').map(|(at, _)| at);
    let mut ends = ends.chain([text.len()]).rev();
    let file = |at: &usize| {
        text.get(..*at)
            .is_some_and(|path| Path::new(path).is_file())
    };
    let end = ends.find(file).or_else(|| text.find(','));
    let (path, names) = text.split_at(end.unwrap_or(text.len()));
    let names = names.split(',').filter(|name| !name.is_empty());
    (PathBuf::from(path), names.map(str::to_owned).collect())
}

fn objective(text: &str) -> std::result::Result<Objective, String> {
    text.parse().map_err(|e: ObjectiveError| e.to_string())
}

impl ReplayArgs {
    /// The replay that is asked for, with the usual settings of experiments.
    ///
    /// # Errors
    /// The model cannot be read, or a time lies outside the calendar.
    pub fn request(&self) -> Result<Request> {
        let (file, names) = self.topology.as_deref().map(file_and_names).unzip();
        let names: Vec<String> = names.unwrap_or_default();
        let parallel = self.max_parallel;
        Ok(Request {
            log: self.log.options()?,
            trainers: self.trainers.clone(),
            says_parallel: parallel.is_some(),
            keep_idle: self.keep_idle,
            network: Network {
                file,
                // Each format ignores what is of another.
                options: TopologyOptions {
                    keys: names.clone(),
                    rails: names,
                },
                ..Network::default()
            },
            kinds: self.kinds.clone(),
            model: self.model.clone(),
            settings: Settings {
                policy: self.policy,
                max_parallel: parallel.unwrap_or_else(|| Control::default().max_parallel),
                objective: self.objective.clone(),
                forecast: Forecasting {
                    model: self.model.read()?,
                    ..Forecasting::default()
                },
                beside: Beside {
                    practices: self.beside.clone(),
                    ..Beside::default()
                },
                ..Settings::default()
            },
            objectives: None,
            save_problem: None,
            shown: Shown {
                json: self.json,
                report: self.report.clone(),
                svg: None,
                gantt: None,
                gantt_nodes: Shown::GANTT_NODES,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_a_comma_is_a_file_and_names_stand_behind_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        let (plain, comma) = (path("nodes.json"), path("nodes,old.json"));
        std::fs::write(&comma, "").unwrap();
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        for (text, file, expected) in [
            (comma.clone(), &comma, names(&[])),
            (
                format!("{comma},switch,cabinet"),
                &comma,
                names(&["switch", "cabinet"]),
            ),
            // No file: what is before the first comma is named in the error.
            (format!("{plain},switch"), &plain, names(&["switch"])),
            (plain.clone(), &plain, names(&[])),
        ] {
            let found: (PathBuf, Vec<String>) = file_and_names(&text);
            assert_eq!(found, (PathBuf::from(file), expected), "{text}");
        }
    }
}
