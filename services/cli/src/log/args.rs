//! The arguments of all commands that read a log.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use lacuna_batchsim::{Backfill, Layout, Overrun, Starts};
use lacuna_model::{Span, Timestamp};
use lacuna_trace::{Format, Reading, Window};

use super::options::{LogOptions, Scheduler};
use super::ours::Ours;
use crate::error::{CliError, Result};
use crate::output::{parse_span, parse_time};

/// A log, and the switches for reading it.
#[derive(Debug, Clone, Args)]
pub struct LogArgs {
    /// The log of a batch scheduler, or a list of holes (plain, gzip or zstd)
    // No heading, whatever heading the command's own arguments before it have.
    #[arg(value_name = "LOG", help_heading = None::<&str>, required_unless_present = "from_slurm", default_value = "sacct", hide_default_value = true)]
    log: PathBuf,
    #[command(flatten, next_help_heading = "The log")]
    text: TextArgs,
    #[command(flatten, next_help_heading = "The machine")]
    machine: MachineArgs,
    #[command(flatten, next_help_heading = "The part")]
    part: PartArgs,
}

/// A log, with every switch for reading it.
#[derive(Debug, Clone, Args)]
pub struct WholeLogArgs {
    #[command(flatten)]
    log: LogArgs,
    #[command(flatten)]
    details: LogDetails,
}

/// Format of the text.
#[derive(Debug, Clone, Args)]
struct TextArgs {
    /// Ask Slurm for this time before now, such as 90d, in place of a log
    #[arg(long, value_name = "TIME", value_parser = parse_span, conflicts_with_all = ["log", "format", "columns"])]
    from_slurm: Option<Span>,
    /// Format [default: detected from the first lines]
    #[arg(long, value_name = "FORMAT", value_parser = Format::ALL.map(Format::name))]
    format: Option<String>,
    /// The columns of a sacct table without a header line, separated by | or commas
    #[arg(long, value_name = "NAMES")]
    columns: Option<String>,
    /// The cluster to read, of a log that has several, as by sacct -L or sinfo -M
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// The zone of times without one, such as Europe/Warsaw [default: UTC; PBS logs name their own]
    #[arg(long, value_name = "ZONE", value_parser = zone)]
    time_zone: Option<TimeZone>,
    /// What pilots of Lacuna have in the log, as account=ml,partition=idle,name=pilot (all must fit):
    /// they are no batch jobs [default: a name lacuna-pilot..., or the account or partition lacuna]
    #[arg(long, value_name = "MARKS")]
    ours: Option<Ours>,
}

/// The machine.
#[derive(Debug, Clone, Args)]
struct MachineArgs {
    /// Number of nodes of the machine [default: from the log]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_NODES)))]
    machine_nodes: Option<u32>,
    /// Processors of a node, where a log counts only processors [default: from the log, else 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    procs_per_node: Option<u32>,
    /// Leave out the jobs that need more nodes than the machine has, instead of refusing its size
    #[arg(long)]
    leave_out_too_large: bool,
    /// Drained nodes: a CSV file, nodes,from,until
    #[arg(long, value_name = "FILE")]
    outages: Option<PathBuf>,
    /// All nodes of the machine, one name a line, in a meaningful order
    /// [default: nodes.txt beside a list of holes]
    #[arg(long, value_name = "FILE")]
    nodes_file: Option<PathBuf>,
}

/// The part of the log that counts.
#[derive(Debug, Clone, Args)]
struct PartArgs {
    /// Start: Unix seconds or ISO-8601, in --time-zone if it has no zone [default: the beginning;
    /// for a replay of trainers, their first submission]
    #[arg(long, visible_alias = "start", value_name = "WHEN", value_parser = when)]
    from: Option<When>,
    /// End [default: the end of the log]
    #[arg(long, visible_alias = "end", value_name = "WHEN", value_parser = when)]
    until: Option<When>,
    /// Only the first N nodes, in the order of --nodes-file, else of first appearance
    #[arg(long, value_name = "N")]
    first_nodes: Option<usize>,
}

/// The switches of `lacuna holes` and `lacuna-lab` that `lacuna replay` lacks: the list of holes
/// that `lacuna holes` writes can be replayed.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Details of the log")]
pub struct LogDetails {
    /// Refuse a log with a damaged line, instead of counting and skipping the line
    #[arg(long)]
    strict: bool,
    /// Count no node as idle while more than N are; none: always count [default: none count in an
    /// outage, in which next to nothing runs until much starts at once]
    #[arg(long, value_name = "N", value_parser = limit)]
    leave_out_idle_above: Option<u32>,
    /// Reserved nodes: a CSV file, nodes,from,until
    #[arg(long, value_name = "FILE")]
    reservations: Option<PathBuf>,
    /// Walltime of jobs whose log has none [default: their run time]
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    walltime_default: Option<Span>,
    /// Which waiting jobs get a reservation that others may not delay
    #[arg(long, value_enum, default_value_t = BackfillArg::Easy)]
    backfill: BackfillArg,
    /// Which free nodes a job gets
    #[arg(long, value_enum, default_value_t = LayoutArg::FirstFit)]
    layout: LayoutArg,
    /// Starts of jobs: by the simulated scheduler, or as recorded in the log
    #[arg(long, value_enum, default_value_t = StartsArg::Simulated)]
    starts: StartsArg,
    /// The end of a job that runs longer than its walltime
    #[arg(long, value_enum, default_value_t = OverrunArg::Extend)]
    overrun: OverrunArg,
}

/// The largest accepted machine. Its nodes are kept in memory, so a typing error or a damaged
/// header must not make an arbitrarily large one.
pub(super) const MOST_NODES: u32 = 10_000_000;

/// A moment as typed.
#[derive(Debug, Clone, Copy)]
enum When {
    At(Timestamp),
    /// Local time of the machine.
    Local(DateTime),
}

fn when(text: &str) -> std::result::Result<When, String> {
    parse_time(text)
        .map(When::At)
        .or_else(|error| text.parse().map(When::Local).map_err(|_| error))
}

/// A number of nodes; `none` is one that no machine exceeds.
fn limit(text: &str) -> std::result::Result<u32, String> {
    match text {
        "none" => Ok(u32::MAX),
        number => number
            .parse()
            .map_err(|_| "expected a number of nodes, or none".to_owned()),
    }
}

fn zone(name: &str) -> std::result::Result<TimeZone, String> {
    TimeZone::get(name).map_err(|e| format!("{e}"))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum BackfillArg {
    /// The first one, as EASY does
    Easy,
    /// All of them
    Conservative,
    /// None; no job passes another
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LayoutArg {
    /// The nodes with the lowest numbers
    FirstFit,
    /// Adjacent nodes
    Contiguous,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StartsArg {
    /// The simulated scheduler
    Simulated,
    /// The log
    Recorded,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OverrunArg {
    /// The job runs on, and is expected to end any second
    Extend,
    /// The job ends
    Kill,
}

impl LogArgs {
    /// How the log is read, with the usual details.
    ///
    /// # Errors
    /// A time lies outside the calendar of its zone.
    pub(crate) fn options(&self) -> Result<LogOptions> {
        let Self {
            text,
            machine,
            part,
            ..
        } = self;
        // Slurm answers in UTC, for one cluster; its local times are those of this machine.
        let (asked, usual) = match text.from_slurm {
            Some(_) => (Some(TimeZone::UTC), TimeZone::system()),
            None => (text.time_zone.clone(), TimeZone::UTC),
        };
        let zone = text.time_zone.clone().unwrap_or(usual);
        Ok(LogOptions {
            file: self.log.clone(),
            from_slurm: text.from_slurm,
            cluster: text.cluster.clone(),
            reading: Reading {
                format: text.format.as_deref().and_then(Format::from_name),
                columns: text.columns.clone(),
                cluster: text.cluster.clone().filter(|_| text.from_slurm.is_none()),
                time_zone: asked,
                procs_per_node: machine.procs_per_node,
                strict: false,
            },
            names_zone: text.time_zone.is_some() || text.from_slurm.is_some(),
            ours: text.ours.clone(),
            machine_nodes: machine.machine_nodes,
            leave_out_too_large: machine.leave_out_too_large,
            drained: machine.outages.clone(),
            nodes_file: machine.nodes_file.clone(),
            window: Window {
                start: at(part.from, &zone)?,
                end: at(part.until, &zone)?,
            },
            first_nodes: part.first_nodes,
            zone,
            submitted: None,
            reservations: None,
            idle_above: None,
            finds_outages: false,
            walltime_default: None,
            scheduler: Scheduler::default(),
            planned: None,
            planned_starts: false,
        })
    }
}

impl WholeLogArgs {
    /// How the log is read.
    ///
    /// # Errors
    /// A time lies outside the calendar of its zone.
    pub fn options(&self) -> Result<LogOptions> {
        let mut options = self.log.options()?;
        self.details.set(&mut options);
        Ok(options)
    }
}

impl LogDetails {
    /// Sets these details.
    pub fn set(&self, options: &mut LogOptions) {
        options.reading.strict = self.strict;
        options.idle_above = self.leave_out_idle_above;
        options.reservations.clone_from(&self.reservations);
        options.walltime_default = self.walltime_default;
        options.scheduler = Scheduler {
            backfill: match self.backfill {
                BackfillArg::Easy => Backfill::Easy,
                BackfillArg::Conservative => Backfill::Conservative,
                BackfillArg::None => Backfill::None,
            },
            layout: match self.layout {
                LayoutArg::FirstFit => Layout::FirstFit,
                LayoutArg::Contiguous => Layout::Contiguous,
            },
            starts: match self.starts {
                StartsArg::Simulated => Starts::Simulated,
                StartsArg::Recorded => Starts::Recorded,
            },
            overrun: match self.overrun {
                OverrunArg::Extend => Overrun::Extend,
                OverrunArg::Kill => Overrun::Kill,
            },
        };
    }
}

/// A moment as typed, in a zone.
fn at(when: Option<When>, zone: &TimeZone) -> Result<Option<Timestamp>> {
    match when {
        None => Ok(None),
        Some(When::At(at)) => Ok(Some(at)),
        Some(When::Local(time)) => zone
            .to_timestamp(time)
            .map(|at| Some(Timestamp::from_unix_ms(at.as_millisecond())))
            .map_err(|e| CliError::failed(format!("{time} is no time: {e}"))),
    }
}
