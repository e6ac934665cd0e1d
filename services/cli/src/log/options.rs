//! How a log is read: what all arguments come to.

use std::path::PathBuf;

use jiff::tz::TimeZone;

use lacuna_batchsim::{Backfill, Layout, Overrun, Starts};
use lacuna_model::{Span, Timestamp};
use lacuna_trace::{Log, Reading, Window};

use super::error::unreadable;
use super::ours::Ours;
use super::summary::Rule;
use crate::error::{CliError, Result};

/// How a log is read.
#[derive(Debug, Clone)]
pub struct LogOptions {
    /// The log.
    pub file: PathBuf,
    /// The time before now that Slurm is asked for in place of the log.
    pub(super) from_slurm: Option<Span>,
    /// The cluster that Slurm is asked for.
    pub(super) cluster: Option<String>,
    /// The options of the parser.
    pub(super) reading: Reading,
    /// Whether the user names a zone for times without one.
    pub(super) names_zone: bool,
    /// The zone of times without one, and of the hours of the day.
    pub(super) zone: TimeZone,
    /// How pilots of Lacuna are told, if the user says it.
    pub(super) ours: Option<Ours>,
    /// Number of nodes of the machine, if the user says it.
    pub(super) machine_nodes: Option<u32>,
    /// Whether jobs that are too large for the machine are left out.
    pub(super) leave_out_too_large: bool,
    /// A file of drained nodes, and one of reserved nodes.
    pub(super) drained: Option<PathBuf>,
    pub(super) reservations: Option<PathBuf>,
    /// A list of all nodes.
    pub(super) nodes_file: Option<PathBuf>,
    /// The part of time that is asked for.
    pub(super) window: Window,
    /// The default start: the first submission of trainers.
    pub submitted: Option<Timestamp>,
    /// The number of nodes that count.
    pub(super) first_nodes: Option<usize>,
    /// The limit of idle nodes beyond which none counts.
    pub(super) idle_above: Option<u32>,
    /// Whether outages are found by what happens, if there is no such limit.
    pub(crate) finds_outages: bool,
    /// Walltime of jobs whose log has none.
    pub(super) walltime_default: Option<Span>,
    /// The simulated scheduler.
    pub(super) scheduler: Scheduler,
    /// The planned starts beside a log that names nodes.
    pub planned: Option<PathBuf>,
    /// Whether the simulated scheduler announces planned starts, which takes time.
    pub planned_starts: bool,
}

/// The batch scheduler that places jobs of a log without nodes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Scheduler {
    pub(super) backfill: Backfill,
    pub(super) layout: Layout,
    pub(super) starts: Starts,
    pub(super) overrun: Overrun,
}

impl LogOptions {
    /// The files that are read: the log, and those beside it.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> + Clone {
        let beside = [
            &self.drained,
            &self.reservations,
            &self.nodes_file,
            &self.planned,
        ];
        let log = Some(&self.file).filter(|_| self.from_slurm.is_none());
        log.into_iter().chain(beside.into_iter().flatten())
    }

    /// Opens the log at its beginning.
    ///
    /// # Errors
    /// It cannot be opened, or its format is not known.
    pub(super) fn open(&self) -> Result<Log> {
        Log::open(&self.file, &self.reading).map_err(unreadable)
    }

    /// How outages are found; none if they are not looked for.
    pub(super) fn outages(&self) -> Option<Rule> {
        match self.idle_above {
            Some(u32::MAX) => None,
            Some(most) => Some(Rule::IdleAbove(most)),
            None => self.finds_outages.then_some(Rule::Events),
        }
    }

    /// Whether jobs start at their recorded times.
    #[must_use]
    pub(super) fn starts_recorded(&self) -> bool {
        self.scheduler.starts == Starts::Recorded
    }

    /// The first given switch that only the simulated scheduler uses, if there is one.
    fn of_the_scheduler(&self) -> Option<&'static str> {
        let (given, usual) = (self.scheduler, Scheduler::default());
        [
            ("--backfill", given.backfill != usual.backfill),
            ("--layout", given.layout != usual.layout),
            ("--starts", given.starts != usual.starts),
            ("--overrun", given.overrun != usual.overrun),
            ("--leave-out-too-large", self.leave_out_too_large),
        ]
        .into_iter()
        .find_map(|(switch, given)| given.then_some(switch))
    }

    /// The first given switch that only logs of jobs use, if there is one.
    #[must_use]
    pub(super) fn of_jobs(&self) -> Option<&'static str> {
        [
            ("--outages", self.drained.is_some()),
            ("--reservations", self.reservations.is_some()),
            ("--ours", self.ours.is_some()),
        ]
        .into_iter()
        .find_map(|(switch, given)| given.then_some(switch))
    }

    /// Refuses a switch that only the simulated scheduler uses, or `more`: it would be ignored,
    /// against the expectation of the user.
    ///
    /// # Errors
    /// Such a switch is given.
    pub(super) fn refuse_unused(&self, what: &str, more: Option<&'static str>) -> Result<()> {
        let Some(switch) = self.of_the_scheduler().or(more) else {
            return Ok(());
        };
        Err(CliError::failed(format!(
            "{switch} changes nothing: {} {what}",
            self.file.display()
        ))
        .remedy(format!("leave {switch} out")))
    }

    /// Seconds to add to UTC for the local time of the machine at a moment.
    #[must_use]
    pub(crate) fn utc_offset_s(&self, at: Timestamp) -> i64 {
        let at = jiff::Timestamp::from_millisecond(at.unix_ms());
        at.map_or(0, |at| i64::from(self.zone.to_offset(at).seconds()))
    }
}
