//! `lacuna-lab replay`: `lacuna replay` with the switches of experiments.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};

use lacuna_cli::error::{CliError, Result, file_error};
use lacuna_cli::log::LogDetails;
use lacuna_cli::output::parse_span;
use lacuna_cli::replay::{self, Part, ReplayArgs, Request, SavedProblem, Shown, order};
use lacuna_forecast::Prior;
use lacuna_model::{ForecastingSettings, NodeChoice, PlannerSettings, Span};
use lacuna_planner::objective::NamedExpressions;
use lacuna_sim::{Beside, Dedicated, Lookahead, Settings, TrainerEnd};

/// Arguments of `replay`: those of `lacuna replay`, and those of experiments.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("shown").args(["report", "svg"]).multiple(true),
    after_help = "\
Examples:
  lacuna-lab replay holes.csv.gz --trainers hpo.jsonl.gz --policy milp --verify
  lacuna-lab replay holes.csv.gz --trainers hpo.jsonl.gz --policy dp --nodes random --cost-scale 5
  lacuna-lab replay holes.csv.gz --planned planned.csv.gz --policy auto
  lacuna-lab replay holes.csv.gz --leaves 18 --crossing-cost 0.2 --unaware
  lacuna-lab replay holes.csv.gz --svg day.svg --gantt 24h..48h --gantt-nodes 32
  lacuna-lab replay holes.csv.gz --trainers mine.jsonl --save-problem p.json; lacuna-lab solve p.json

The model of BFTrainer (arXiv 2106.12091) is --policy dp --horizon 120s --nodes random: the paper
leaves open which of several equal nodes a trainer gets, so they are drawn. The seed is printed with
the result."
)]
pub(crate) struct LabReplayArgs {
    #[command(flatten, next_help_heading = "Experiments with trainers")]
    trainers: TrainerArgs,
    #[command(flatten, next_help_heading = "Experiments with decisions")]
    decisions: DecisionArgs,
    #[command(flatten, next_help_heading = "Experiments with forecasts")]
    forecasts: ForecastArgs,
    #[command(flatten, next_help_heading = "Experiments with the network")]
    network: NetworkArgs,
    #[command(flatten, next_help_heading = "Experiments with the output")]
    output: OutputArgs,
    #[command(flatten)]
    details: LogDetails,
    // It comes last, since its headings apply to all that follow.
    #[command(flatten)]
    usual: ReplayArgs,
}

#[derive(Debug, Args)]
struct TrainerArgs {
    /// Factor on the rescale costs of all trainers
    #[arg(
        long,
        value_name = "FACTOR",
        default_value_t = 1.0,
        allow_negative_numbers = true
    )]
    cost_scale: f64,
    /// Repeat the list of trainers, and run to the end of the trace
    #[arg(long)]
    endless: bool,
    /// The time at which a finished trainer gives its nodes to others; with --endless or without
    /// --trainers it trains until then
    #[arg(long, value_enum, default_value_t = TrainerEndArg::NextEvent)]
    trainer_end: TrainerEndArg,
    /// Charge a trainer for a start from no nodes, too; as published a start is free
    #[arg(long)]
    charge_starts: bool,
    /// Model the wait for an owner's pilot: delay before a node changes owner
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    pilot_start: Option<Span>,
    /// Objectives of single trainers, one a line: name = "expression", or name,expression
    #[arg(long, value_name = "FILE")]
    objective_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct DecisionArgs {
    /// Time horizon of a decision
    #[arg(long, value_name = "TIME", default_value_t = PlannerSettings::default().horizon, value_parser = parse_span, allow_hyphen_values = true)]
    horizon: Span,
    /// Which of several equal nodes a trainer gets or gives up
    #[arg(long, value_enum, default_value_t = NodesArg::Together)]
    nodes: NodesArg,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Solve each decision a second time, and fail (exit code 1) if that shows a wrong one. Without
    /// forecasts, dp and milp (whole, gap 0) must agree on the objective to 1e-6. With forecasts,
    /// each plan must have the value that it states (found again from its nodes, to 1e-6), be worth
    /// no less than keeping all, and fall short of the judge's answer by no more than 25 %; all plans in
    /// sum by no more than 2 %. The output has the gaps to the judge's bound too
    #[arg(long)]
    verify: bool,
    /// Save the allocation problem of an event, or the one that took longest; `lacuna-lab solve`
    /// solves it again
    #[arg(long, value_name = "FILE[@EVENT|@hardest]", conflicts_with = "kinds")]
    save_problem: Option<SavedProblem>,
}

#[derive(Debug, Args)]
struct ForecastArgs {
    /// Reveal true ends of holes to a forecasting policy this far ahead (0s, 5m, 15m, or all): an
    /// oracle that bounds the value of a forecast
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = lookahead, allow_hyphen_values = true)]
    lookahead: Lookahead,
    /// The order in which the scheduler takes nodes: learnt, names, none, or a file with one name a
    /// line, first taken first
    #[arg(long, value_name = "ORDER", default_value = "learnt")]
    order: String,
    /// A change must be worth this many times its cost
    #[arg(long, value_name = "FACTOR", default_value_t = ForecastingSettings::default().hysteresis)]
    hysteresis: f64,
    /// Do not let a trainer that lost nodes take other nodes at no further charge
    #[arg(long)]
    no_replace: bool,
    /// Give nodes out even if they do not pay
    #[arg(long)]
    no_refusal: bool,
    /// Forecast holes one by one, not jointly
    #[arg(long)]
    no_groups: bool,
    /// Learn nothing from the part of the log before --from
    #[arg(long)]
    no_past: bool,
    /// Expect a machine like one of these before anything is learnt: names of the table in
    /// libs/forecast/src/prior.rs, or none
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = of_prior)]
    prior: Vec<String>,
    /// The planned starts of idle nodes, beside a log that names nodes: a CSV file, at,node,start
    /// (Unix seconds; an empty start withdraws one). A forecasting policy uses them
    #[arg(long, value_name = "FILE")]
    planned: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct NetworkArgs {
    /// Assume leaf switches of N nodes with neighbouring names
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "topology")]
    leaves: Option<u32>,
    /// Shuffle the nodes over those leaves with this seed
    #[arg(long, value_name = "SEED", requires = "leaves")]
    shuffle_leaves: Option<u64>,
    /// The share of its rate that a trainer loses when its nodes are on several leaves, unless it
    /// says so itself
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    crossing_cost: f64,
    /// How many trainers on several leaves the uplink of a leaf carries at full speed; more share it,
    /// and are slower [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    uplink: Option<u32>,
    /// Plan without knowing where nodes are; work is counted at the true distance
    #[arg(long)]
    unaware: bool,
}

#[derive(Debug, Args)]
struct OutputArgs {
    /// Time between two checkpoints of a trainer under the practices of --beside; writing one takes
    /// no time
    #[arg(long, value_name = "TIME", default_value_t = Beside::default().checkpoint_every, value_parser = parse_span, requires = "beside")]
    checkpoint_every: Span,
    /// Method for the work of dedicated nodes, the base of the efficiency
    #[arg(long, value_enum, default_value_t = DedicatedArg::ByKind)]
    dedicated: DedicatedArg,
    /// Give the samples until these lengths of time after the start, too (1h,1d,7d)
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_span)]
    milestones: Vec<Span>,
    /// Write pool and use, and the nodes of --gantt, as an SVG drawing
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// The part of time that report and drawing show node by node: moments, or lengths of time
    /// since the start of the replay (6h..12h) [default: the first day]
    #[arg(long, value_name = "FROM..UNTIL", requires = "shown")]
    gantt: Option<Part>,
    /// Number of nodes in that part
    #[arg(long, value_name = "N", default_value_t = Shown::GANTT_NODES)]
    gantt_nodes: u32,
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

#[derive(Debug, Clone, Copy, ValueEnum)]
enum NodesArg {
    /// At random, as published
    Random,
    /// Nodes that were released together stay together
    Together,
}

/// The look-ahead: a length of time, or `all`.
fn lookahead(text: &str) -> std::result::Result<Lookahead, String> {
    if text == "all" {
        return Ok(Lookahead::All);
    }
    Ok(Lookahead::Seconds(parse_span(text)?.as_secs_f64()))
}

/// A machine of the prior by its name, or none.
fn of_prior(text: &str) -> std::result::Result<String, String> {
    let machines = Prior::machines().into_iter();
    let mut names: Vec<_> = machines.map(|machine| machine.name).collect();
    names.push("none".into());
    match names.iter().any(|name| name == text) {
        true => Ok(text.to_owned()),
        false => Err(format!("expected {}", names.join(", "))),
    }
}

/// Runs `replay`.
///
/// # Errors
/// As that of `lacuna replay`.
pub(crate) fn run(args: &LabReplayArgs) -> Result<()> {
    let mut request = args.usual.request()?;
    args.details.set(&mut request.log);
    args.trainers.set(&mut request)?;
    args.decisions.set(&mut request);
    args.forecasts.set(&mut request)?;
    args.network.set(&mut request);
    args.output.set(&mut request);
    replay::run(&request)
}

impl TrainerArgs {
    fn set(&self, request: &mut Request) -> Result<()> {
        let settings = &mut request.settings;
        settings.cost_scale = self.cost_scale;
        settings.endless = self.endless;
        settings.trainer_end = match self.trainer_end {
            TrainerEndArg::NextEvent => TrainerEnd::NextEvent,
            TrainerEndArg::Immediate => TrainerEnd::Immediate,
        };
        settings.charge_starts = self.charge_starts;
        settings.pilot_start = self.pilot_start;
        let Some(path) = &self.objective_file else {
            return Ok(());
        };
        let text = std::fs::read_to_string(path).map_err(|e| file_error("read", path, &e))?;
        settings.objectives = NamedExpressions::read(&text)
            .map_err(|e| CliError::failed(format!("{}: {e}", path.display())))?;
        request.objectives = Some(path.clone());
        Ok(())
    }
}

impl DecisionArgs {
    fn set(&self, request: &mut Request) {
        request.save_problem.clone_from(&self.save_problem);
        let settings = &mut request.settings;
        settings.horizon = self.horizon;
        settings.node_choice = match self.nodes {
            NodesArg::Random => NodeChoice::Random,
            NodesArg::Together => NodeChoice::Together,
        };
        settings.seed = self.seed;
        settings.verify = self.verify;
    }
}

impl ForecastArgs {
    fn set(&self, request: &mut Request) -> Result<()> {
        request.log.planned.clone_from(&self.planned);
        let Settings {
            lookahead,
            forecast,
            ..
        } = &mut request.settings;
        *lookahead = self.lookahead;
        forecast.order = order(&self.order)?;
        forecast.together = !self.no_groups;
        forecast.past = !self.no_past;
        if !self.prior.is_empty() {
            let mut machines = Prior::machines();
            machines.retain(|machine| self.prior.iter().any(|name| *name == machine.name));
            forecast.prior = Prior::of(&machines);
        }
        forecast.joint.hysteresis = self.hysteresis;
        forecast.joint.replace = !self.no_replace;
        forecast.joint.refuse = !self.no_refusal;
        Ok(())
    }
}

impl NetworkArgs {
    fn set(&self, request: &mut Request) {
        let network = &mut request.network;
        network.leaves = self.leaves;
        network.shuffled = self.shuffle_leaves;
        network.crossing_cost = self.crossing_cost;
        let given = [
            ("--crossing-cost", self.crossing_cost > 0.0),
            ("--uplink", self.uplink.is_some()),
            ("--unaware", self.unaware),
        ];
        let given = given.into_iter().filter(|(_, given)| *given);
        network.idle = given.map(|(switch, _)| switch).collect();
        request.settings.forecast.joint.uplink = self.uplink;
        request.settings.unaware = self.unaware;
    }
}

impl OutputArgs {
    fn set(&self, request: &mut Request) {
        let settings = &mut request.settings;
        settings.beside.checkpoint_every = self.checkpoint_every;
        settings.dedicated = match self.dedicated {
            DedicatedArg::ByKind => Dedicated::ByKind,
            DedicatedArg::Split => Dedicated::Split,
            DedicatedArg::StaticReplay => Dedicated::StaticReplay,
        };
        let milestones = self.milestones.iter().map(|span| span.as_secs_f64());
        settings.milestones = milestones.collect();
        request.shown.svg.clone_from(&self.svg);
        request.shown.gantt = self.gantt;
        request.shown.gantt_nodes = self.gantt_nodes;
    }
}
