//! The arguments of `lacuna replay`.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{ArgGroup, Args, ValueEnum};

use lacuna_model::{NodeChoice, PlannerSettings, Policy, Span, Timestamp};
use lacuna_planner::objective::{NamedExpressions, Objective, ObjectiveError};
use lacuna_sim::{Dedicated, GanttWindow, Lookahead, Model, Settings, TrainerEnd};
use lacuna_trainer::settings::Control;

use super::forecast::ForecastArgs;
use super::window::{Part, SavedProblem};
use crate::error::{CliError, Result, file_error};
use crate::log::LogArgs;
use crate::output::parse_span;

/// Headings of the help.
const TRAINERS: &str = "The trainers";
const DECIDES: &str = "Who decides, and how";
const SHOWS: &str = "What is shown";
const LOG: &str = "The log";

/// The switches of most replays, which `--help` shows.
pub(crate) const USUAL: &[&str] = &[
    "log",
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
  lacuna replay accounting.log --time-zone America/Chicago --trainers mine.jsonl
  lacuna replay holes.csv.gz --trainers mine.jsonl --objective 'weight * speedup^0.9'",
    after_long_help = "\
Examples:
  lacuna replay theta_2022.swf.gz --report out.html
  lacuna replay sacct.log --columns jobid,user,submit,start,end,nnodes,timelimit,nodelist
  lacuna replay accounting.log --time-zone America/Chicago --trainers mine.jsonl
  lacuna replay holes.csv.gz --trainers hpo.jsonl.gz --first-nodes 1024
  lacuna replay holes.csv.gz --trainers hpo.jsonl.gz --policy milp --verify
  lacuna replay holes.csv.gz --trainers hpo.jsonl.gz --policy dp --nodes random --cost-scale 5
  lacuna replay holes.csv.gz --trainers mixed.jsonl.gz --max-parallel 35 --report out.html --json
  lacuna replay holes.csv.gz --trainers mine.jsonl --objective 'weight * speedup^0.9'
  lacuna replay holes.csv.gz --planned planned.csv.gz --policy auto
  lacuna replay holes.csv.gz --svg day.svg --gantt 24h..48h --gantt-nodes 32
  lacuna replay holes.csv.gz --trainers mine.jsonl --save-problem p.json; lacuna-lab solve p.json

Any log of a batch scheduler will do: Standard Workload Format, Slurm (sacct, jobcomp,
slurmctld.log, sinfo), PBS, LSF, states of nodes, or a list of holes (node,idle_from,idle_until,
censored, in Unix seconds). Jobs that name no nodes are placed by a simulated batch scheduler.
Trainers are one JSON object a line; without, ShuffleNet is trained on ImageNet over and over, with
the curve and the costs of the paper, as an endless stream. All may be compressed. The defaults are
the published model of BFTrainer (arXiv 2106.12091), which leaves open which of several equal nodes
a trainer gets: at random.
An objective may be an expression of n (nodes), rate (samples/s on n nodes), rate1, speedup, weight,
priority, min_nodes, max_nodes and samples_left, such as 'weight * speedup^0.9'; with + - * / ^,
comparisons, min, max, abs, sqrt, exp, ln, log2, floor, ceil and if(condition, then, else).
Shares lost are samples lost over samples done. The seed is printed with the result."
)]
pub(crate) struct ReplayArgs {
    /// The trainers (JSON lines) [default: an endless stream of ShuffleNet on ImageNet]
    #[arg(long, help_heading = TRAINERS, value_name = "FILE")]
    pub(super) trainers: Option<PathBuf>,
    /// How many trainers are admitted at a time [default: 10; without --trainers as many as the
    /// whole machine has room for]
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
    /// Start the list of trainers again at its end, and run to the end of the recording
    #[arg(long, help_heading = TRAINERS)]
    endless: bool,
    /// When a trainer that is done gives its nodes to others; with --endless or without --trainers
    /// it trains on until then
    #[arg(long, help_heading = TRAINERS, value_enum, default_value_t = TrainerEndArg::NextEvent)]
    trainer_end: TrainerEndArg,
    /// A trainer that starts from no nodes pays for growing, too; as published it starts free
    #[arg(long, help_heading = TRAINERS)]
    charge_starts: bool,
    /// How it is decided which trainer gets which nodes
    #[arg(long, help_heading = DECIDES, value_parser = policy(), default_value = Policy::default().name())]
    policy: Policy,
    /// Forward-looking time of a decision
    #[arg(long, help_heading = DECIDES, value_name = "TIME", default_value_t = PlannerSettings::default().horizon, value_parser = parse_span, allow_hyphen_values = true)]
    horizon: Span,
    /// Reveal the true ends of holes to a forecasting policy so far ahead (0s, 5m, 15m, or all): no
    /// forecast, but the measure of what one would be worth
    #[arg(long, help_heading = DECIDES, value_name = "TIME", default_value = "0s", value_parser = lookahead, allow_hyphen_values = true)]
    lookahead: Lookahead,
    #[command(flatten)]
    forecast: ForecastArgs,
    /// What is maximised: fair (what the list of trainers says, within fair shares of their
    /// owners), as-given (the same without shares), throughput, scaling-efficiency, weighted,
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
    /// Seed of every random choice
    #[arg(long, help_heading = DECIDES, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// How the work of dedicated nodes is found that efficiency is measured by
    #[arg(long, help_heading = SHOWS, value_enum, default_value_t = DedicatedArg::ByKind)]
    dedicated: DedicatedArg,
    /// Solve every decision a second time, and fail (exit code 1) if that shows one wrong. Without
    /// forecasts: by dp and by milp (whole, gap 0), whose objectives must agree to 1e-6. With
    /// forecasts, each plan must be worth what it says (found again from its nodes, to 1e-6), be
    /// worth no less than keeping all, and fall short of the programme over patterns, which starts
    /// from it, by no more than 25 %; and all in sum by no more than 2 %
    #[arg(long, help_heading = SHOWS)]
    verify: bool,
    /// Print exactly one JSON value
    #[arg(long, help_heading = SHOWS)]
    pub(super) json: bool,
    /// Write an HTML report that stands alone
    #[arg(long, help_heading = SHOWS, value_name = "FILE")]
    pub(super) report: Option<PathBuf>,
    /// Write pool and use, and the nodes of --gantt, as a drawing that any program can show
    #[arg(long, help_heading = SHOWS, value_name = "FILE")]
    pub(super) svg: Option<PathBuf>,
    /// The part of time that report and drawing show node by node: moments, or lengths of time since the
    /// start of the replay (6h..12h) [default: the first day]
    #[arg(long, help_heading = SHOWS, value_name = "FROM..UNTIL", requires = "shown")]
    gantt: Option<Part>,
    /// How many nodes it shows
    #[arg(long, help_heading = SHOWS, value_name = "N", default_value_t = 64)]
    gantt_nodes: u32,
    /// The planned starts of idle nodes, beside a log that names nodes: a CSV file, at,node,start
    /// (Unix seconds; no start withdraws). A forecasting policy decides by them
    #[arg(long, help_heading = LOG, value_name = "FILE")]
    pub(super) planned: Option<PathBuf>,
    /// Save the allocation problem of an event, or the one that took the longest; `lacuna-lab solve`
    /// solves it again
    #[arg(long, help_heading = SHOWS, value_name = "FILE[@EVENT|@hardest]")]
    pub(super) save_problem: Option<SavedProblem>,
    // Last, since its headings hold for all that follows.
    #[command(flatten)]
    pub(super) log: LogArgs,
}

/// Trainers at a time at most. An endless list is begun again until so many are there, so a
/// slip of the finger must not make billions of them.
const MOST_PARALLEL: i64 = 100_000;

/// Trainers at a time if nothing is said, as in the configuration.
pub(super) fn parallel() -> u32 {
    Control::default().max_parallel
}

/// The policies by name, each with what it does.
fn policy() -> impl TypedValueParser<Value = Policy> {
    let value = |policy: Policy| {
        PossibleValue::new(policy.name()).help(match policy {
            Policy::Auto => "As forecast where holes are forecast together, else as dp: as the planner service does",
            Policy::Forecast => "By forecasts of the holes: which nodes, and so how many; by dynamic programming",
            Policy::MilpPatterns => "By forecasts of the holes, as a mixed-integer program over patterns of nodes",
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

/// How far ahead ends are revealed: a length of time, or `all`.
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
    /// What is asked for, in the words of the replay.
    ///
    /// # Errors
    /// What is asked for makes no sense.
    pub(super) fn settings(&self) -> Result<Settings> {
        Ok(Settings {
            policy: self.policy,
            lookahead: self.lookahead,
            forecast: self.forecast.settings()?,
            horizon: self.horizon,
            max_parallel: self.max_parallel.unwrap_or_else(parallel),
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
            objective: self.objective.clone(),
            objectives: self.objectives()?,
            charge_starts: self.charge_starts,
            dedicated: match self.dedicated {
                DedicatedArg::ByKind => Dedicated::ByKind,
                DedicatedArg::Split => Dedicated::Split,
                DedicatedArg::StaticReplay => Dedicated::StaticReplay,
            },
            gantt: None,
            node_choice: match self.nodes {
                NodesArg::Random => NodeChoice::Random,
                NodesArg::Together => NodeChoice::Together,
            },
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

    /// The part that is shown node by node: what is asked for, else the first day.
    ///
    /// # Errors
    /// It ends before it begins.
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
