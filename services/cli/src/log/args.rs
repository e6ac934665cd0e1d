//! The arguments of every command that takes a log.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use jiff::tz::TimeZone;

use lacuna_model::{Span, Timestamp};
use lacuna_schedlog::{Format, Reading};
use lacuna_timeline::batch::{Backfill, Layout, Machine, Overrun, Oversized, Starts};

use super::blocks;
use crate::error::Result;
use crate::output::{parse_span, parse_time};

/// A log and how to read it.
#[derive(Debug, Clone, Args)]
pub(crate) struct LogArgs {
    /// The log of a batch scheduler, or a list of holes (plain, gzip or zstd)
    #[arg(value_name = "LOG")]
    pub(crate) log: PathBuf,
    #[command(flatten, next_help_heading = "The log")]
    pub(super) text: TextArgs,
    #[command(flatten, next_help_heading = "The machine")]
    pub(super) machine: MachineArgs,
    #[command(flatten, next_help_heading = "What of it")]
    pub(super) part: PartArgs,
}

/// How the text is read.
#[derive(Debug, Clone, Args)]
pub(super) struct TextArgs {
    /// Its format [default: told by its first lines]
    #[arg(long, value_name = "FORMAT", value_parser = Format::ALL.map(Format::name))]
    format: Option<String>,
    /// The columns of a sacct table that has no header line, separated by | or commas
    #[arg(long, value_name = "NAMES")]
    columns: Option<String>,
    /// The zone of times that name none, such as Europe/Warsaw [default: UTC]
    #[arg(long, value_name = "ZONE", value_parser = zone)]
    time_zone: Option<TimeZone>,
    /// Refuse a log with a damaged line, instead of counting and skipping it
    #[arg(long)]
    strict: bool,
}

/// The machine, and the batch scheduler that places jobs if the log does not say where they ran.
#[derive(Debug, Clone, Args)]
pub(super) struct MachineArgs {
    /// How many nodes the machine has [default: what the log says of itself]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) machine_nodes: Option<u32>,
    /// Processors of a node, where a log counts processors only [default: what the log says of
    /// itself, else 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) procs_per_node: Option<u32>,
    /// What a job asked for if the log does not say [default: as long as it ran]
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    pub(super) walltime_default: Option<Span>,
    /// Which waiting jobs have a reservation that others may not delay
    #[arg(long, value_enum, default_value_t = BackfillArg::Easy)]
    backfill: BackfillArg,
    /// Which free nodes a job gets
    #[arg(long, value_enum, default_value_t = LayoutArg::FirstFit)]
    layout: LayoutArg,
    /// Who says when a job starts: the simulated scheduler, or the log
    #[arg(long, value_enum, default_value_t = StartsArg::Simulated)]
    starts: StartsArg,
    /// What becomes of a job that runs longer than it asked for
    #[arg(long, value_enum, default_value_t = OverrunArg::Extend)]
    overrun: OverrunArg,
    /// Drained nodes: a CSV file, nodes,from,until
    #[arg(long, value_name = "FILE")]
    pub(super) outages: Option<PathBuf>,
    /// Nodes that are kept for others: a CSV file, nodes,from,until
    #[arg(long, value_name = "FILE")]
    pub(super) reservations: Option<PathBuf>,
    /// All nodes of the machine, one name a line, in an order that means something
    /// [default: nodes.txt beside a list of holes]
    #[arg(long, value_name = "FILE")]
    pub(super) nodes_file: Option<PathBuf>,
}

/// What of the log counts.
#[derive(Debug, Clone, Args)]
pub(super) struct PartArgs {
    /// From when: Unix seconds or ISO-8601 [default: the beginning; a replay of trainers: their
    /// first submission]
    #[arg(long, visible_alias = "start", value_name = "WHEN", value_parser = parse_time)]
    pub(super) from: Option<Timestamp>,
    /// Until when at the latest [default: the end of the log]
    #[arg(long, visible_alias = "end", value_name = "WHEN", value_parser = parse_time)]
    pub(super) until: Option<Timestamp>,
    /// Only the first N nodes, in the order of --nodes-file, else of first appearance
    #[arg(long, value_name = "N")]
    pub(super) first_nodes: Option<usize>,
    /// Leave the time out in which more than N nodes were idle: an outage rather than holes
    #[arg(long, value_name = "N")]
    pub(super) leave_out_idle_above: Option<u32>,
}

fn zone(name: &str) -> std::result::Result<TimeZone, String> {
    TimeZone::get(name).map_err(|e| format!("{e}"))
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum BackfillArg {
    /// The first one, as EASY does
    Easy,
    /// All of them
    Conservative,
    /// No job passes another
    None,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LayoutArg {
    /// Those with the lowest numbers
    FirstFit,
    /// Adjacent ones
    Contiguous,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum StartsArg {
    /// The simulated scheduler
    Simulated,
    /// The log
    Recorded,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum OverrunArg {
    /// It runs on, and is expected to end any second
    Extend,
    /// It ends
    Kill,
}

impl LogArgs {
    /// How the text is to be read.
    #[must_use]
    pub(crate) fn reading(&self) -> Reading {
        let text = &self.text;
        Reading {
            format: text.format.as_deref().and_then(Format::from_name),
            columns: text.columns.clone(),
            time_zone: text.time_zone.clone(),
            procs_per_node: self.machine.procs_per_node,
            strict: text.strict,
        }
    }

    /// Seconds to add to UTC for the time of the machine's clocks at a moment.
    #[must_use]
    pub(crate) fn utc_offset_s(&self, at: Timestamp) -> i64 {
        let at = jiff::Timestamp::from_millisecond(at.unix_ms());
        match (&self.text.time_zone, at) {
            (Some(zone), Ok(at)) => i64::from(zone.to_offset(at).seconds()),
            _ => 0,
        }
    }

    /// The machine of so many nodes on which jobs without nodes are placed.
    ///
    /// # Errors
    /// A file of outages or reservations cannot be read or makes no sense.
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
            machine.outages = blocks::read(path)?
                .iter()
                .map(|block| block.outages(nodes))
                .collect::<std::result::Result<Vec<_>, _>>()
                .map_err(|what| blocks::refuse(path, &what))?
                .concat();
        }
        if let Some(path) = &args.reservations {
            machine.reservations = blocks::read(path)?
                .iter()
                .map(|block| block.reservations(nodes))
                .collect::<std::result::Result<Vec<_>, _>>()
                .map_err(|what| blocks::refuse(path, &what))?
                .concat();
        }
        Ok(machine)
    }
}
