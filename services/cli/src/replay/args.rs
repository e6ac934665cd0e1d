//! The arguments of `lacuna replay`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use lacuna_model::{NodeChoice, Policy, Span};
use lacuna_sim::{Model, Objective, Settings, TrainerEnd};

use crate::error::Result;
use crate::log::LogArgs;
use crate::output::parse_span;

/// Arguments of `replay`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna replay theta_2022.swf.gz --report out.html
  lacuna replay sacct.log --columns jobid,user,submit,start,end,nnodes,timelimit,nodelist
  lacuna replay accounting.log --time-zone America/Chicago --trainers mine.jsonl
  lacuna replay holes.csv.gz --trainers hpo.jsonl.gz --first-nodes 1024
  lacuna replay holes.csv.gz --trainers hpo.jsonl.gz --policy milp --verify
  lacuna replay holes.csv.gz --trainers hpo.jsonl.gz --endless --cost-scale 5 --nodes together
  lacuna replay holes.csv.gz --trainers mixed.jsonl.gz --max-parallel 35 --report out.html --json

Any log of a batch scheduler will do: Standard Workload Format, Slurm (sacct, jobcomp,
slurmctld.log, sinfo), PBS, LSF, states of nodes, or a list of holes (node,idle_from,idle_until,
censored, in Unix seconds). Jobs that name no nodes are placed by a simulated batch scheduler.
Trainers are one JSON object a line; without, ShuffleNet is trained on ImageNet over and over, with
the curve and the costs of the paper, as an endless stream. All may be compressed. The defaults are the published model of BFTrainer
(arXiv 2106.12091), which leaves open which of several equal nodes a trainer gets: at random.
Fractions of cost are samples lost over samples done. The seed is printed with the result.")]
pub(crate) struct ReplayArgs {
    /// The trainers (JSON lines) [default: an endless stream of ShuffleNet on ImageNet]
    #[arg(long, value_name = "FILE")]
    pub(super) trainers: Option<PathBuf>,
    /// Who decides how many nodes each trainer gets
    #[arg(long, value_enum, default_value_t = PolicyArg::Dp)]
    policy: PolicyArg,
    /// Forward-looking time of a decision
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = parse_span)]
    horizon: Span,
    /// How many trainers are admitted at a time [default: 10; without --trainers as many as the
    /// whole machine has room for]
    #[arg(long, value_name = "N")]
    pub(super) max_parallel: Option<u32>,
    /// Factor on the rescale costs of all trainers
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    cost_scale: f64,
    /// When a trainer that is done gives its nodes to others
    #[arg(long, value_enum, default_value_t = TrainerEndArg::NextEvent)]
    trainer_end: TrainerEndArg,
    /// Keep the quirks of the published code (limit on changes, equal share at the minimum)
    #[arg(long)]
    compat: bool,
    /// What is maximised
    #[arg(long, value_enum, default_value_t = ObjectiveArg::AsGiven)]
    objective: ObjectiveArg,
    /// Which of several equal nodes a trainer gets or gives up
    #[arg(long, value_enum, default_value_t = NodesArg::Random)]
    nodes: NodesArg,
    /// Start the list of trainers again at its end, and run to the end of the recording
    #[arg(long)]
    endless: bool,
    /// Seed of every random choice
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Solve every decision by dp and by milp (whole, gap 0) and fail if they disagree
    #[arg(long)]
    verify: bool,
    /// Print exactly one JSON value
    #[arg(long)]
    pub(super) json: bool,
    /// Write an HTML report that stands alone
    #[arg(long, value_name = "FILE")]
    pub(super) report: Option<PathBuf>,
    // Last, since its headings hold for all that follows.
    #[command(flatten)]
    pub(super) log: LogArgs,
}

/// Trainers at a time if nothing is said, as published.
pub(super) const PARALLEL: u32 = 10;

#[derive(Debug, Clone, Copy, ValueEnum)]
enum PolicyArg {
    /// The allocation problem, solved exactly as a mixed-integer programme
    Milp,
    /// The allocation problem, solved exactly by dynamic programming
    Dp,
    /// Equal share, first-come-first-served
    EqualShare,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum TrainerEndArg {
    /// At the next change of the pool, as published
    NextEvent,
    /// At once
    Immediate,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ObjectiveArg {
    /// What the list of trainers says
    AsGiven,
    /// Samples per second
    Throughput,
    /// Speed-up over one node
    ScalingEfficiency,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum NodesArg {
    /// At random, as published
    Random,
    /// Nodes that were released together stay together
    Together,
}

impl ReplayArgs {
    /// What is asked for, in the words of the replay.
    ///
    /// # Errors
    /// What is asked for makes no sense.
    pub(super) fn settings(&self) -> Result<Settings> {
        Ok(Settings {
            policy: match self.policy {
                PolicyArg::Milp => Policy::Milp,
                PolicyArg::Dp => Policy::Dp,
                PolicyArg::EqualShare => Policy::EqualShare,
            },
            horizon: self.horizon,
            max_parallel: self.max_parallel.unwrap_or(PARALLEL),
            cost_scale: self.cost_scale,
            trainer_end: match self.trainer_end {
                TrainerEndArg::NextEvent => TrainerEnd::NextEvent,
                TrainerEndArg::Immediate => TrainerEnd::Immediate,
            },
            model: if self.compat {
                Model::Published
            } else {
                Model::Exact
            },
            objective: match self.objective {
                ObjectiveArg::AsGiven => Objective::AsGiven,
                ObjectiveArg::Throughput => Objective::Throughput,
                ObjectiveArg::ScalingEfficiency => Objective::ScalingEfficiency,
            },
            node_choice: match self.nodes {
                NodesArg::Random => NodeChoice::Random,
                NodesArg::Together => NodeChoice::Together,
            },
            endless: self.endless,
            seed: self.seed,
            verify: self.verify,
        })
    }
}
