//! The arguments of `lacuna replay`.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{ArgGroup, Args, ValueEnum};

use lacuna_model::{NodeChoice, PlannerSettings, Policy, Span, Stages, Timestamp};
use lacuna_planner::objective::{NamedExpressions, Objective, ObjectiveError};
use lacuna_sim::{
    Beside, Dedicated, GanttWindow, Lookahead, Practice, Quirks, Settings, TrainerEnd,
};
use lacuna_trainer::settings::Control;

use super::forecast::ForecastArgs;
use super::topology::LocatedArgs;
use super::window::{Part, SavedProblem};
use crate::error::{CliError, Result, file_error};
use crate::log::LogArgs;
use crate::output::parse_span;

/// Headings of the help.
const TRAINERS: &str = "The trainers";
const DECIDES: &str = "The decisions";
const SHOWS: &str = "The output";
const LOG: &str = "The log";

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

/// Arguments of `replay`.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("shown").args(["report", "svg"]).multiple(true),
    after_help = "\
Examples:
  lacuna replay theta_2022.swf.gz --report out.html
  lacuna replay --from-slurm 90d --report out.html
  lacuna replay holes.csv.gz --trainers mine.jsonl --objective 'weight * speedup^0.9'",
    after_long_help = "\
Examples:
  lacuna replay theta_2022.swf.gz --report out.html
  lacuna replay theta_2022.swf.gz --beside requeue,torchrun-elastic,dp --report out.html
  lacuna replay --from-slurm 90d --report out.html
  lacuna replay sacct.log --columns jobid,user,submit,start,end,nnodes,timelimit,nodelist
  lacuna replay accounting.log --time-zone America/Chicago --trainers mine.jsonl
  lacuna replay holes.csv.gz --trainers hpo.jsonl.gz --first-nodes 1024
  lacuna replay holes.csv.gz --trainers hpo.jsonl.gz --policy milp --verify
  lacuna replay holes.csv.gz --trainers hpo.jsonl.gz --policy dp --nodes random --cost-scale 5
  lacuna replay holes.csv.gz --trainers mixed.jsonl.gz --max-parallel 35 --report out.html --json
  lacuna replay holes.csv.gz --trainers mine.jsonl --objective 'weight * speedup^0.9'
  lacuna replay holes.csv.gz --planned planned.csv.gz --policy auto
  lacuna replay holes.csv.gz --from 2021-02-15T00:00:00Z --model model.lacuna
  lacuna replay holes.csv.gz --topology leaves.csv --crossing-cost 0.2 --report out.html
  lacuna replay holes.csv.gz --kinds kinds.csv --trainers by-kind.jsonl
  lacuna replay holes.csv.gz --svg day.svg --gantt 24h..48h --gantt-nodes 32
  lacuna replay holes.csv.gz --trainers mine.jsonl --save-problem p.json; lacuna-lab solve p.json

Takes any log of a batch scheduler: Standard Workload Format, Slurm (sacct, jobcomp,
slurmctld.log, sinfo), PBS, LSF, states of nodes, or a list of holes
(node,idle_from,idle_until,censored, in Unix seconds). A simulated batch scheduler places jobs
that name no nodes. Trainers are one JSON object a line; without --trainers, an endless stream of
trainers trains ShuffleNet on ImageNet, with the curve and the costs of the paper. All files may
be compressed. The model of BFTrainer (arXiv 2106.12091) is --policy dp --horizon 120s --nodes random:
the paper leaves open which of several equal nodes a trainer gets, so they are drawn.
An objective may be an expression of n (nodes), rate (samples/s on n nodes), rate1, speedup,
weight, priority, min_nodes, max_nodes and samples_left, such as 'weight * speedup^0.9'; with
+ - * / ^, comparisons, min, max, abs, sqrt, exp, ln, log2, floor, ceil and
if(condition, then, else).
Shares lost are samples lost over samples done. The seed is printed with the result."
)]
pub(crate) struct ReplayArgs {
    /// The trainers (JSON lines) [default: an endless stream of ShuffleNet on ImageNet]
    #[arg(long, help_heading = TRAINERS, value_name = "FILE")]
    pub(super) trainers: Option<PathBuf>,
    /// Number of trainers admitted at a time [default: 10; without --trainers as many as the whole
    /// machine has room for]
    #[arg(long, help_heading = TRAINERS, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MOST_PARALLEL))]
    pub(super) max_parallel: Option<u32>,
    /// Factor on the rescale costs of all trainers
    #[arg(
        long, help_heading = TRAINERS,
        value_name = "FACTOR",
        default_value_t = 1.0,
        allow_negative_numbers = true
    )]
    cost_scale: f64,
    /// Repeat the list of trainers, and run to the end of the trace
    #[arg(long, help_heading = TRAINERS)]
    endless: bool,
    /// The time at which a finished trainer gives its nodes to others; with --endless or without
    /// --trainers it trains until then
    #[arg(long, help_heading = TRAINERS, value_enum, default_value_t = TrainerEndArg::NextEvent)]
    trainer_end: TrainerEndArg,
    /// Charge a trainer for a start from no nodes, too; as published a start is free
    #[arg(long, help_heading = TRAINERS)]
    charge_starts: bool,
    /// Let a node of a trainer with an owner wait this long for a pilot under this owner's account,
    /// at every change of hands; agents that serve any trainer make no node wait
    #[arg(long, help_heading = TRAINERS, value_name = "TIME", value_parser = parse_span)]
    pilot_start: Option<Span>,
    /// Keep this many idle nodes free for batch jobs that must start at once, as `lacuna limits set
    /// --keep-idle` does
    #[arg(long, help_heading = TRAINERS, value_name = "N", default_value_t = 0)]
    pub(super) keep_idle: usize,
    /// The policy that decides which trainer gets which nodes
    #[arg(long, help_heading = DECIDES, value_parser = policy(), default_value = Policy::default().name())]
    policy: Policy,
    /// Time horizon of a decision
    #[arg(long, help_heading = DECIDES, value_name = "TIME", default_value_t = PlannerSettings::default().horizon, value_parser = parse_span, allow_hyphen_values = true)]
    horizon: Span,
    /// Reveal true ends of holes to a forecasting policy this far ahead (0s, 5m, 15m, or all): an
    /// oracle that bounds the value of a forecast
    #[arg(long, help_heading = DECIDES, value_name = "TIME", default_value = "0s", value_parser = lookahead, allow_hyphen_values = true)]
    lookahead: Lookahead,
    #[command(flatten)]
    pub(super) forecast: ForecastArgs,
    #[command(flatten)]
    pub(super) located: LocatedArgs,
    /// The kinds of nodes, for trainers that tell them apart: a CSV file, node,kind
    #[arg(long, help_heading = TRAINERS, value_name = "FILE", conflicts_with_all = ["save_problem", "topology", "leaves"])]
    pub(super) kinds: Option<PathBuf>,
    /// Objective: fair (what the list of trainers asks for, within fair shares of their owners),
    /// as-given (the same without shares), throughput, scaling-efficiency, goodput, weighted,
    /// deadline, least-attained, or an expression
    #[arg(long, help_heading = DECIDES, value_name = "OBJECTIVE", default_value = "fair", value_parser = objective, allow_hyphen_values = true)]
    objective: Objective,
    /// Objectives of single trainers, one a line: name = "expression", or name,expression
    #[arg(long, help_heading = DECIDES, value_name = "FILE")]
    pub(super) objective_file: Option<PathBuf>,
    /// Which of several equal nodes a trainer gets or gives up
    #[arg(long, help_heading = DECIDES, value_enum, default_value_t = NodesArg::Together)]
    nodes: NodesArg,
    /// Keep the quirks of the published code (limit on changes, equal share at the minimum)
    #[arg(long, help_heading = DECIDES)]
    compat: bool,
    /// Seed of all random choices
    #[arg(long, help_heading = DECIDES, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Replay beside the policy, on the same holes, what centres run today: a preemptible partition of
    /// jobs with a fixed size (requeue), an elastic launcher (torchrun-elastic); and simple rules
    #[arg(long, help_heading = SHOWS, value_name = "PRACTICES", value_delimiter = ',', value_parser = practice())]
    beside: Vec<Practice>,
    /// Time between two checkpoints of a trainer under these practices; writing one takes no time
    #[arg(long, help_heading = SHOWS, value_name = "TIME", default_value_t = Beside::default().checkpoint_every, value_parser = parse_span, requires = "beside")]
    checkpoint_every: Span,
    /// Method for the work of dedicated nodes, the base of the efficiency
    #[arg(long, help_heading = SHOWS, value_enum, default_value_t = DedicatedArg::ByKind)]
    dedicated: DedicatedArg,
    /// Give the samples until these lengths of time after the start, too (1h,1d,7d)
    #[arg(long, help_heading = SHOWS, value_name = "LIST", value_delimiter = ',', value_parser = parse_span)]
    milestones: Vec<Span>,
    /// Solve each decision a second time, and fail (exit code 1) if that shows a wrong one. Without
    /// forecasts, dp and milp (whole, gap 0) must agree on the objective to 1e-6. With forecasts,
    /// each plan must have the value that it states (found again from its nodes, to 1e-6), be worth
    /// no less than keeping all, and fall short of the program over patterns, which starts from it,
    /// by no more than 25 %; all plans in sum by no more than 2 %
    #[arg(long, help_heading = SHOWS)]
    verify: bool,
    /// Print exactly one JSON value
    #[arg(long, help_heading = SHOWS)]
    pub(super) json: bool,
    /// Write a self-contained HTML report
    #[arg(long, help_heading = SHOWS, value_name = "FILE")]
    pub(super) report: Option<PathBuf>,
    /// Write pool and use, and the nodes of --gantt, as an SVG drawing
    #[arg(long, help_heading = SHOWS, value_name = "FILE")]
    pub(super) svg: Option<PathBuf>,
    /// The part of time that report and drawing show node by node: moments, or lengths of time
    /// since the start of the replay (6h..12h) [default: the first day]
    #[arg(long, help_heading = SHOWS, value_name = "FROM..UNTIL", requires = "shown")]
    gantt: Option<Part>,
    /// Number of nodes in that part
    #[arg(long, help_heading = SHOWS, value_name = "N", default_value_t = 64)]
    gantt_nodes: u32,
    /// The planned starts of idle nodes, beside a log that names nodes: a CSV file, at,node,start
    /// (Unix seconds; an empty start withdraws one). A forecasting policy uses them
    #[arg(long, help_heading = LOG, value_name = "FILE")]
    pub(super) planned: Option<PathBuf>,
    /// Save the allocation problem of an event, or the one that took longest; `lacuna-lab solve`
    /// solves it again
    #[arg(long, help_heading = SHOWS, value_name = "FILE[@EVENT|@hardest]")]
    pub(super) save_problem: Option<SavedProblem>,
    // The log comes last, since its headings apply to all that follow.
    #[command(flatten)]
    pub(super) log: LogArgs,
}

/// The most trainers at a time. An endless list is repeated to this number, so a typing error must
/// not make billions of them.
const MOST_PARALLEL: i64 = 100_000;

/// The default number of trainers at a time, as in the configuration.
pub(super) fn parallel() -> u32 {
    Control::default().max_parallel
}

/// The policies by name, each with a description.
fn policy() -> impl TypedValueParser<Value = Policy> {
    let value = |policy: Policy| {
        PossibleValue::new(policy.name()).help(match policy {
            Policy::Auto => "forecast where holes are forecast jointly, else dp: the default of the planner service",
            Policy::Forecast => "Nodes by forecasts of their holes, by dynamic programming",
            Policy::MilpPatterns => "Nodes by forecasts of their holes, by a mixed-integer program over patterns of nodes",
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

/// The look-ahead: a length of time, or `all`.
fn lookahead(text: &str) -> std::result::Result<Lookahead, String> {
    if text == "all" {
        return Ok(Lookahead::All);
    }
    Ok(Lookahead::Seconds(parse_span(text)?.as_secs_f64()))
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum TrainerEndArg {
    /// At the next change of the pool, as published
    NextEvent,
    /// At once
    Immediate,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum DedicatedArg {
    /// The best static split if all trainers are alike, else a full static replay
    ByKind,
    /// The best static split; only for trainers that are all alike
    Split,
    /// A full replay on nodes that never leave
    StaticReplay,
}

fn objective(text: &str) -> std::result::Result<Objective, String> {
    text.parse().map_err(|e: ObjectiveError| e.to_string())
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum NodesArg {
    /// At random, as published
    Random,
    /// Nodes that were released together stay together
    Together,
}

impl ReplayArgs {
    /// The settings of the replay.
    ///
    /// # Errors
    /// A setting is invalid.
    pub(super) fn settings(&self) -> Result<Settings> {
        Ok(Settings {
            policy: self.policy,
            lookahead: self.lookahead,
            forecast: self.forecast.settings(self.located.uplink)?,
            horizon: self.horizon,
            max_parallel: self.max_parallel.unwrap_or_else(parallel),
            cost_scale: self.cost_scale,
            trainer_end: match self.trainer_end {
                TrainerEndArg::NextEvent => TrainerEnd::NextEvent,
                TrainerEndArg::Immediate => TrainerEnd::Immediate,
            },
            quirks: if self.compat {
                Quirks::Published
            } else {
                Quirks::None
            },
            objective: self.objective.clone(),
            objectives: self.objectives()?,
            // They come with the trainers.
            stages: Stages::default(),
            charge_starts: self.charge_starts,
            pilot_start: self.pilot_start,
            dedicated: match self.dedicated {
                DedicatedArg::ByKind => Dedicated::ByKind,
                DedicatedArg::Split => Dedicated::Split,
                DedicatedArg::StaticReplay => Dedicated::StaticReplay,
            },
            beside: Beside {
                practices: self.beside.clone(),
                checkpoint_every: self.checkpoint_every,
            },
            milestones: self
                .milestones
                .iter()
                .map(|span| span.as_secs_f64())
                .collect(),
            gantt: None,
            node_choice: match self.nodes {
                NodesArg::Random => NodeChoice::Random,
                NodesArg::Together => NodeChoice::Together,
            },
            place: self.located.place(),
            endless: self.endless,
            seed: self.seed,
            verify: self.verify,
        })
    }

    /// The objectives of single trainers.
    fn objectives(&self) -> Result<NamedExpressions> {
        let Some(path) = &self.objective_file else {
            return Ok(NamedExpressions::default());
        };
        let text = std::fs::read_to_string(path).map_err(|e| file_error("read", path, &e))?;
        NamedExpressions::read(&text)
            .map_err(|e| CliError::failed(format!("{}: {e}", path.display())))
    }

    /// The part that is shown node by node: the requested one, else the first day.
    ///
    /// # Errors
    /// The part ends before it begins.
    pub(super) fn gantt(&self, start: Timestamp) -> Result<GanttWindow> {
        let (from_s, until_s) = match self.gantt {
            Some(part) => part.seconds(start).map_err(CliError::failed)?,
            None => (0.0, 86_400.0),
        };
        Ok(GanttWindow {
            from_s,
            until_s,
            nodes: self.gantt_nodes,
        })
    }
}
