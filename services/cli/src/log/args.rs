//! The arguments of all commands that read a log.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use lacuna_batchsim::{Backfill, Layout, Machine, Overrun, Oversized, Starts};
use lacuna_model::{Span, Timestamp};
use lacuna_trace::{Format, JobRecord, Reading, Window};

use super::from_slurm::Accounting;
use super::ours::Ours;
use super::summary::Rule;
use super::unavailable;
use crate::error::{CliError, Result};
use crate::output::{parse_span, parse_time};

/// A log, and the switches for reading it.
#[derive(Debug, Clone, Args)]
pub struct LogArgs {
    /// The log of a batch scheduler, or a list of holes (plain, gzip or zstd)
    // No heading, whatever heading the command's own arguments before it have.
    #[arg(value_name = "LOG", help_heading = None::<&str>, required_unless_present = "from_slurm", default_value = "sacct", hide_default_value = true)]
    pub log: PathBuf,
    #[command(flatten, next_help_heading = "The log")]
    pub(super) text: TextArgs,
    #[command(flatten, next_help_heading = "The machine")]
    pub(super) machine: MachineArgs,
    #[command(flatten, next_help_heading = "The part")]
    pub(super) part: PartArgs,
    /// Whether the simulated scheduler announces planned starts. The command that uses them sets
    /// it; it takes time.
    #[arg(skip)]
    pub planned_starts: bool,
    #[arg(skip)]
    without_outages: bool,
    /// The planned starts beside a list of holes. The command that uses them sets it.
    #[arg(skip)]
    pub planned: Option<PathBuf>,
}

/// Format of the text.
#[derive(Debug, Clone, Args)]
pub(super) struct TextArgs {
    /// Ask Slurm for this time before now, such as 90d, in place of a log
    #[arg(long, value_name = "TIME", value_parser = parse_span, conflicts_with_all = ["log", "format", "columns"])]
    pub(super) from_slurm: Option<Span>,
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
    /// Refuse a log with a damaged line, instead of counting and skipping the line
    #[arg(long)]
    strict: bool,
}

/// The machine, and the batch scheduler that places jobs of a log without nodes.
#[derive(Debug, Clone, Args)]
pub(super) struct MachineArgs {
    /// Number of nodes of the machine [default: from the log]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_NODES)))]
    pub(super) machine_nodes: Option<u32>,
    /// Processors of a node, where a log counts only processors [default: from the log, else 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) procs_per_node: Option<u32>,
    /// Leave out the jobs that need more nodes than the machine has, instead of refusing its size
    #[arg(long)]
    pub(super) leave_out_too_large: bool,
    /// Walltime of jobs whose log has none [default: their run time]
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    pub(super) walltime_default: Option<Span>,
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
    /// Drained nodes: a CSV file, nodes,from,until
    #[arg(long, value_name = "FILE")]
    pub(super) outages: Option<PathBuf>,
    /// Reserved nodes: a CSV file, nodes,from,until
    #[arg(long, value_name = "FILE")]
    pub(super) reservations: Option<PathBuf>,
    /// All nodes of the machine, one name a line, in a meaningful order
    /// [default: nodes.txt beside a list of holes]
    #[arg(long, value_name = "FILE")]
    pub(super) nodes_file: Option<PathBuf>,
}

/// The part of the log that counts.
#[derive(Debug, Clone, Args)]
pub(super) struct PartArgs {
    /// Start: Unix seconds or ISO-8601, in --time-zone if it has no zone [default: the beginning;
    /// for a replay of trainers, their first submission]
    #[arg(long, visible_alias = "start", value_name = "WHEN", value_parser = when)]
    from: Option<When>,
    /// End [default: the end of the log]
    #[arg(long, visible_alias = "end", value_name = "WHEN", value_parser = when)]
    until: Option<When>,
    /// Only the first N nodes, in the order of --nodes-file, else of first appearance
    #[arg(long, value_name = "N")]
    pub(super) first_nodes: Option<usize>,
    /// Count no node as idle while more than N are; none: always count [default: none count in an
    /// outage, in which next to nothing runs until much starts at once]
    #[arg(long, value_name = "N", value_parser = limit)]
    leave_out_idle_above: Option<u32>,
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
    /// The options of the log reader.
    #[must_use]
    pub(crate) fn reading(&self) -> Reading {
        let text = &self.text;
        Reading {
            format: text.format.as_deref().and_then(Format::from_name),
            columns: text.columns.clone(),
            // The accounting was asked for one cluster, in UTC.
            cluster: text.cluster.clone().filter(|_| text.from_slurm.is_none()),
            time_zone: match text.from_slurm {
                Some(_) => Some(TimeZone::UTC),
                None => text.time_zone.clone(),
            },
            procs_per_node: self.machine.procs_per_node,
            strict: text.strict,
        }
    }

    /// The same arguments, but outages are left out by default: for commands that show how many nodes
    /// are idle.
    #[must_use]
    pub(crate) fn leave_out_outages(self) -> Self {
        Self {
            without_outages: true,
            ..self
        }
    }

    /// The files that are read: the log, and those beside it.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> + Clone {
        let machine = &self.machine;
        let beside = [&machine.outages, &machine.reservations, &machine.nodes_file];
        let log = Some(&self.log).filter(|_| self.text.from_slurm.is_none());
        log.into_iter().chain(beside.into_iter().flatten())
    }

    /// How outages are found; none if they are not looked for.
    pub(super) fn outages(&self) -> Option<Rule> {
        match self.part.leave_out_idle_above {
            Some(u32::MAX) => None,
            Some(most) => Some(Rule::IdleAbove(most)),
            None => self.without_outages.then_some(Rule::Events),
        }
    }

    /// Whether the user says how pilots of Lacuna are told.
    pub(super) const fn marks_ours(&self) -> bool {
        self.text.ours.is_some()
    }

    /// Whether a job is a pilot of Lacuna.
    pub(super) fn is_ours(&self, job: &JobRecord) -> bool {
        Ours::has(self.text.ours.as_ref(), job)
    }

    /// Whether jobs start at their recorded times.
    #[must_use]
    pub(super) fn starts_recorded(&self) -> bool {
        self.machine.starts == StartsArg::Recorded
    }

    /// The first given switch that only the simulated scheduler uses, if there is one.
    #[must_use]
    pub(super) fn of_the_scheduler(&self) -> Option<&'static str> {
        let machine = &self.machine;
        [
            ("--backfill", machine.backfill != BackfillArg::Easy),
            ("--layout", machine.layout != LayoutArg::FirstFit),
            ("--starts", machine.starts != StartsArg::Simulated),
            ("--overrun", machine.overrun != OverrunArg::Extend),
            ("--leave-out-too-large", machine.leave_out_too_large),
        ]
        .into_iter()
        .find_map(|(switch, given)| given.then_some(switch))
    }

    /// The first given switch that only logs of jobs use, if there is one.
    #[must_use]
    pub(super) fn of_jobs(&self) -> Option<&'static str> {
        let outages = self.machine.outages.as_ref().map(|_| "--outages");
        let reservations = self.machine.reservations.as_ref();
        outages
            .or(reservations.map(|_| "--reservations"))
            .or(self.marks_ours().then_some("--ours"))
    }

    /// Whether the first damaged line is an error.
    #[must_use]
    pub(super) const fn strict(&self) -> bool {
        self.text.strict
    }

    /// Whether the user names a zone for times without one.
    #[must_use]
    pub(super) const fn has_zone(&self) -> bool {
        self.text.time_zone.is_some() || self.text.from_slurm.is_some()
    }

    /// The zone of times without one, and of the hours of the day. Slurm's is that of this machine.
    fn zone(&self) -> TimeZone {
        let usual = || match self.text.from_slurm {
            Some(_) => TimeZone::system(),
            None => TimeZone::UTC,
        };
        self.text.time_zone.clone().unwrap_or_else(usual)
    }

    /// These arguments, for the accounting that Slurm was asked for.
    pub(super) fn of_slurm(&self, accounting: &Accounting) -> Self {
        let mut args = self.clone();
        args.log = accounting.log();
        let machine = &mut args.machine;
        if machine.nodes_file.is_none() {
            machine.nodes_file.clone_from(&accounting.nodes);
        }
        if machine.outages.is_none() {
            machine.outages.clone_from(&accounting.outages);
        }
        args
    }

    /// The time before now that Slurm is asked for in place of a log, and the cluster.
    pub(super) fn asks_slurm(&self) -> Option<(Span, Option<&str>)> {
        let text = &self.text;
        Some((text.from_slurm?, text.cluster.as_deref()))
    }

    /// The requested window of time.
    ///
    /// # Errors
    /// A time lies outside the calendar of its zone.
    pub(super) fn window(&self) -> Result<Window> {
        let zone = self.zone();
        let at = |when: Option<When>| match when {
            None => Ok(None),
            Some(When::At(at)) => Ok(Some(at)),
            Some(When::Local(time)) => zone
                .to_timestamp(time)
                .map(|at| Some(Timestamp::from_unix_ms(at.as_millisecond())))
                .map_err(|e| CliError::failed(format!("{time} is no time: {e}"))),
        };
        Ok(Window {
            start: at(self.part.from)?,
            end: at(self.part.until)?,
        })
    }

    /// Seconds to add to UTC for the local time of the machine at a moment.
    #[must_use]
    pub(crate) fn utc_offset_s(&self, at: Timestamp) -> i64 {
        let at = jiff::Timestamp::from_millisecond(at.unix_ms());
        at.map_or(0, |at| i64::from(self.zone().to_offset(at).seconds()))
    }

    /// The simulated machine of this many nodes, for jobs without nodes.
    ///
    /// # Errors
    /// A file of outages or reservations cannot be read or is invalid.
    pub(super) fn machine(&self, nodes: u32) -> Result<Machine> {
        let args = &self.machine;
        let mut machine = Machine {
            backfill: match args.backfill {
                BackfillArg::Easy => Backfill::Easy,
                BackfillArg::Conservative => Backfill::Conservative,
                BackfillArg::None => Backfill::None,
            },
            layout: match args.layout {
                LayoutArg::FirstFit => Layout::FirstFit,
                LayoutArg::Contiguous => Layout::Contiguous,
            },
            starts: match args.starts {
                StartsArg::Simulated => Starts::Simulated,
                StartsArg::Recorded => Starts::Recorded,
            },
            overrun: match args.overrun {
                OverrunArg::Extend => Overrun::Extend,
                OverrunArg::Kill => Overrun::Kill,
            },
            oversized: Oversized::Skip,
            ..Machine::new(nodes)
        };
        if let Some(path) = &args.outages {
            machine.outages = unavailable::read(path)?
                .iter()
                .map(|entry| entry.outages(nodes))
                .collect::<std::result::Result<Vec<_>, _>>()
                .map_err(|what| unavailable::refuse(path, &what))?
                .concat();
        }
        if let Some(path) = &args.reservations {
            machine.reservations = unavailable::read(path)?
                .iter()
                .map(|entry| entry.reservations(nodes))
                .collect::<std::result::Result<Vec<_>, _>>()
                .map_err(|what| unavailable::refuse(path, &what))?
                .concat();
        }
        Ok(machine)
    }
}
